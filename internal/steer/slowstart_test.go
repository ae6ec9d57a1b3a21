package steer

import (
	"testing"
	"time"

	"fairlead/internal/model"
	"fairlead/internal/plan"
)

// An endpoint that is back takes a share that rises with the time since; hashes do
// not look at that.
func TestSlowStart(t *testing.T) {
	const n = 30_000
	for _, policy := range []model.EndpointPolicy{model.EndpointRandom, model.EndpointRoundRobin, model.EndpointLeastOutstandingRequests} {
		for _, c := range []struct {
			back time.Duration // since when the second is back
			want float64       // its share
		}{
			{0, .1 / 1.1}, {5 * time.Second, .1 / 1.1}, {25 * time.Second, .25 / 1.25}, {50 * time.Second, .5 / 1.5},
			{100 * time.Second, .5}, {time.Hour, .5},
		} {
			w := newWorld()
			p := w.poolOf("a", policy, 1, up(1, 1))
			p.SlowStart = 100 * time.Second
			now := time.Now().Add(2 * time.Hour)
			p.Endpoints[1].Since = now.Add(-c.back)
			second, r := 0, random()
			for range n {
				if d, _ := Choose(only(p), anyone(), r, now); d.Endpoint.Slot == 1 {
					second++
				}
			}
			wantCount(t, string(policy)+" after "+c.back.String(), second, n, c.want)
		}
	}
	w := newWorld()
	p := w.poolOf("a", model.EndpointHash, 1, up(1, 1))
	now := time.Now().Add(2 * time.Hour)
	var before []*plan.Endpoint
	for i := range 100 {
		d, _ := Choose(only(p), client(i), random(), now)
		before = append(before, d.Endpoint)
	}
	p.SlowStart, p.Endpoints[1].Since = 100*time.Second, now
	for i := range 100 {
		if d, _ := Choose(only(p), client(i), random(), now); d.Endpoint != before[i] {
			t.Fatal("a slow start moves a client that is hashed")
		}
	}
}

// Alone, an endpoint takes all, however new.
func TestSlowStartAlone(t *testing.T) {
	w := newWorld()
	p := w.pool("a", append(up(1), down(1)...))
	p.SlowStart = time.Hour
	for range 1000 {
		if d, ok := Choose(only(p), anyone(), random(), time.Now()); !ok || d.Endpoint.Slot != 0 {
			t.Fatal("nothing was chosen")
		}
	}
}

// Endpoints without room for another request are left out while others have some.
func TestRoom(t *testing.T) {
	for _, policy := range []model.EndpointPolicy{model.EndpointRandom, model.EndpointRoundRobin, model.EndpointHash, model.EndpointRingHash,
		model.EndpointMaglev, model.EndpointLeastOutstandingRequests} {
		w := newWorld()
		p := w.poolOf("a", policy, 1, up(1, 1, 1))
		p.Limits.Requests = 2
		fill := func(slot int) {
			p.Endpoints[slot].Load.RequestStarted()
			p.Endpoints[slot].Load.RequestStarted()
		}
		fill(0)
		fill(2)
		for i := range 200 {
			if d, ok := Choose(only(p), client(i), random(), start); !ok || d.Endpoint.Slot != 1 {
				t.Fatalf("%s: slot %d, which has no room", policy, d.Endpoint.Slot)
			}
		}
		fill(1)
		seen := map[int]bool{}
		r := random()
		for i := range 200 {
			d, ok := Choose(only(p), client(i), r, start)
			if !ok {
				t.Fatalf("%s: nothing was chosen to wait at", policy)
			}
			seen[d.Endpoint.Slot] = true
		}
		if len(seen) != 3 {
			t.Errorf("%s: all wait at %v", policy, seen)
		}
	}
}
