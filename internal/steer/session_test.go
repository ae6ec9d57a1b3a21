package steer

import (
	"fmt"
	"testing"
	"time"

	"fairlead/internal/model"
	"fairlead/internal/pick"
	"fairlead/internal/plan"
)

// A session wins over steering, weights and the rest of its pool, and yields for
// what concerns its own endpoint.
func TestSession(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(w *world, p *plan.Pool)
		kept   bool
	}{
		{"nothing", func(*world, *plan.Pool) {}, true},
		{"weight 0", func(_ *world, p *plan.Pool) { p.Endpoints[1].Weight = 0 }, true},
		{"its pool is critical", func(w *world, p *plan.Pool) { w.set(p, 0, false) }, true},
		{"its pool sheds what has no session", func(_ *world, p *plan.Pool) { p.Shedding.Share = 1 }, true},
		{"its endpoint is down", func(w *world, p *plan.Pool) { w.set(p, 1, false) }, false},
		{"its pool is disabled", func(_ *world, p *plan.Pool) { p.Enabled = false }, false},
		{"its pool sheds all sessions", func(_ *world, p *plan.Pool) { p.Shedding.Sessions = 1 }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			first, second := w.pool("a", up(1)), w.poolOf("b", model.EndpointRandom, 2, up(1, 1))
			lb := balancer(model.SteerFailover, first, second)
			f := anyone()
			f.Session = second.Endpoints[1]
			tt.change(w, second)
			d, ok := Choose(lb, f, random(), start)
			if !ok || (d.Endpoint == f.Session) != tt.kept || (d.Reason == ReasonSession) != tt.kept {
				t.Errorf("Choose() = %s for %s, want the session kept: %v", d.Endpoint.Name, d.Reason, tt.kept)
			}
			if e := Explain(lb, f, random(), start); e.Decision != d {
				t.Errorf("Explain() = %s for %s, and Choose() %s", e.Decision.Endpoint.Name, e.Decision.Reason, d.Endpoint.Name)
			}
		})
	}
	for _, tt := range []struct {
		name string
		left time.Time // when it was disabled
		up   bool
		kept bool
	}{
		{"disabled", time.Time{}, true, false},
		{"draining", start.Add(-59 * time.Second), true, true},
		{"drained", start.Add(-time.Minute), true, false},
		{"draining and down", start.Add(-time.Second), false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			p := w.pool("a", []endpoint{{weight: 1, up: true}, {weight: 1, up: tt.up, disabled: true}})
			lb := only(p)
			lb.Affinity = &plan.Affinity{Kind: model.AffinityCookie, Drain: time.Minute}
			f := anyone()
			f.Session = p.Endpoints[1]
			f.Session.Left = tt.left
			d, ok := Choose(lb, f, random(), start)
			if !ok || (d.Endpoint == f.Session) != tt.kept {
				t.Errorf("Choose() = %s, want the session kept: %v", d.Endpoint.Name, tt.kept)
			}
			f.Session = nil // of a new client
			if d, ok := Choose(lb, f, random(), start); !ok || d.Endpoint != p.Endpoints[0] {
				t.Errorf("Choose() = %s for a new client", d.Endpoint.Name)
			}
		})
	}
}

// A share of the sessions is shed, always those of the same clients.
func TestSessionShedding(t *testing.T) {
	const n = 10_000
	w := newWorld()
	p, q := w.pool("a", up(1)), w.pool("b", up(1))
	p.Hash, q.Hash = pick.HashKey("a"), pick.HashKey("b")
	p.Shedding.Sessions = .3
	lb := balancer(model.SteerFailover, p, q)
	kept, r := 0, random()
	for i := range n {
		f := client(i)
		f.Session = p.Endpoints[0]
		d, _ := Choose(lb, f, r, start)
		again, _ := Choose(lb, f, r, start)
		if d.Pool != again.Pool {
			t.Fatal("a client's session is shed once, and once not")
		}
		if d.Pool == p {
			kept++
		}
	}
	wantCount(t, "kept", kept, n, .7)
}

// Chance has no part in what a key leads to, be traffic shed by chance.
func TestKeyIsShedByHash(t *testing.T) {
	lb := shedding(model.SteerFailover, false, .5)
	counts, r := map[string]int{}, random()
	for i := range 1000 {
		d, _ := Choose(lb, keyedBy(uint64(i)), r, start)
		again, _ := Choose(lb, keyedBy(uint64(i)), r, start)
		if d.Pool != again.Pool {
			t.Fatalf("key %d leads to %s and %s", i, d.Pool.Name, again.Pool.Name)
		}
		counts[d.Pool.Name]++
	}
	wantCount(t, "a", counts["a"], 1000, .5)
}

// keyedBy returns the facts of a client with a key.
func keyedBy(key uint64) *Facts {
	f := anyone()
	f.Key, f.Keyed = key, true
	return f
}

// A key leads to the same pool and endpoint on every node, whatever is open
// there, and shares follow the weights.
func TestKey(t *testing.T) {
	const n = 20_000
	for _, policy := range []model.SteeringPolicy{model.SteerRandom, model.SteerLeastOutstandingRequests} {
		t.Run(string(policy), func(t *testing.T) {
			site := func() *plan.LoadBalancer {
				w := newWorld()
				a, b := w.pool("a", up(1, .5)), w.pool("b", up(1))
				a.Hash, b.Hash = pick.HashKey("a"), pick.HashKey("b")
				return weighted(policy, []*plan.Pool{a, b}, []float64{.6, .2})
			}
			one, two := site(), site()
			for range 50 {
				two.Default[0].Load.RequestStarted()
			}
			counts, r := map[string]int{}, random()
			for i := range n {
				f := keyedBy(uint64(i))
				d, _ := Choose(one, f, r, start)
				other, _ := Choose(two, f, r, start)
				if d.Endpoint.Name != other.Endpoint.Name {
					t.Fatalf("key %d: %s on one node, %s on the other", i, d.Endpoint.Name, other.Endpoint.Name)
				}
				counts[d.Endpoint.Name]++
			}
			wantCount(t, "a0", counts["a0"], n, .75*2/3)
			wantCount(t, "a1", counts["a1"], n, .75*1/3)
			wantCount(t, "b0", counts["b0"], n, .25)
		})
	}
}

// When one of ten endpoints goes, only its own keys move.
func TestKeysStayWhenOthersGo(t *testing.T) {
	w := newWorld()
	p := w.pool("a", up(1, 1, 1, 1, 1, 1, 1, 1, 1, 1))
	lb, r := only(p), random()
	const n = 5000
	before := make([]*plan.Endpoint, n)
	for i := range before {
		d, _ := Choose(lb, keyedBy(uint64(i)), r, start)
		before[i] = d.Endpoint
	}
	gone := p.Endpoints[3]
	w.set(p, gone.Slot, false)
	to := map[string]int{}
	for i := range before {
		switch d, _ := Choose(lb, keyedBy(uint64(i)), r, start); {
		case before[i] == gone:
			to[d.Endpoint.Name]++
		case d.Endpoint != before[i]:
			t.Fatalf("key %d moved from %s, which is there, to %s", i, before[i].Name, d.Endpoint.Name)
		}
	}
	if len(to) != 9 {
		t.Errorf("the keys of the one that went are at %v, want them spread over the nine others", to)
	}
	// A retry leads elsewhere, and always to the same one.
	w.set(p, gone.Slot, true)
	f := keyedBy(1)
	d, _ := Choose(lb, f, r, start)
	next, ok := Again(d, f, r, start)
	again, _ := Again(d, f, r, start)
	if !ok || next.Endpoint == d.Endpoint || next.Endpoint != again.Endpoint {
		t.Errorf("Again() = %v and %v after %v", next.Endpoint.Name, again.Endpoint.Name, d.Endpoint.Name)
	}
}

// Of pools without a weight the keys take any, and of usable ones only those.
func TestKeyWithoutWeights(t *testing.T) {
	w := newWorld()
	var pools []*plan.Pool
	for i := range 3 {
		p := w.pool(fmt.Sprint(i), up(1))
		p.Hash = pick.HashKey(p.Name)
		pools = append(pools, p)
	}
	lb := weighted(model.SteerRandom, pools, []float64{0, 0, 1})
	pools[2].Enabled = false
	seen, r := map[string]bool{}, random()
	for i := range 100 {
		d, ok := Choose(lb, keyedBy(uint64(i)), r, start)
		if !ok {
			t.Fatal("Choose() found nothing")
		}
		seen[d.Pool.Name] = true
	}
	if !seen["0"] || !seen["1"] || seen["2"] {
		t.Errorf("keys led to %v, want 0 and 1", seen)
	}
}
