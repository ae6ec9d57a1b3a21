package steer

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"fairlead/internal/model"
	"fairlead/internal/pick"
	"fairlead/internal/plan"
)

// query is a question of a client.
func query(i int) *Facts {
	f := client(i)
	f.Query = true
	return f
}

// everything is what offers says where the family plays no part.
func everything(*plan.Endpoint) bool { return true }

// names of endpoints, sorted.
func names(es []*plan.Endpoint) string {
	var list []string
	for _, e := range es {
		list = append(list, e.Name)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func TestAnswers(t *testing.T) {
	odd := func(e *plan.Endpoint) bool { return e.Slot%2 == 1 }
	disabled := func(es []endpoint, slot int) []endpoint {
		es[slot].disabled = true
		return es
	}
	one := []string{"a0", "a1"}
	for _, c := range []struct {
		name     string
		policy   model.EndpointPolicy
		a        []endpoint
		fallback []endpoint
		offers   func(*plan.Endpoint) bool
		keyed    bool
		want     []string // what may be answered; each must be
		pool     string
	}{
		{name: "equal weights are answered together", a: up(1, 1, 1), want: []string{"a0 a1 a2"}, pool: "a"},
		{name: "equal weights that are all 0 too", a: up(0, 0), want: []string{"a0 a1"}, pool: "a"},
		{name: "only what is up", a: append(up(1, 1), down(1)...), want: []string{"a0 a1"}, pool: "a"},
		{name: "not what is disabled, whose weight counts for nothing", a: disabled(up(1, 1, .5), 2), want: []string{"a0 a1"}, pool: "a"},
		{name: "one where a weight differs", a: up(1, .5), want: one, pool: "a"},
		{name: "one where a weight differs of what is down", a: append(up(1, 1), down(.5)...), want: one, pool: "a"},
		{name: "one where a weight differs, by turns", policy: model.EndpointRoundRobin, a: up(1, .5), want: one, pool: "a"},
		{name: "all where the policy goes by turns", policy: model.EndpointRoundRobin, a: up(1, 1), want: []string{"a0 a1"}, pool: "a"},
		{name: "all where the policy counts what is open", policy: model.EndpointLeastConnections, a: up(1, 1), want: []string{"a0 a1"}, pool: "a"},
		{name: "one where the policy hashes", policy: model.EndpointHash, a: up(1, 1), want: one, pool: "a"},
		{name: "one of a ring", policy: model.EndpointRingHash, a: up(1, 1), want: one, pool: "a"},
		{name: "one of a Maglev table", policy: model.EndpointMaglev, a: up(1, 1), want: one, pool: "a"},
		{name: "one for a key", a: up(1, 1), keyed: true, want: one, pool: "a"},
		{name: "of what is offered", a: up(1, 1, 1, 1), offers: odd, want: []string{"a1 a3"}, pool: "a"},
		{name: "one of what is offered", a: up(1, 1, 1, .5), offers: odd, want: []string{"a1", "a3"}, pool: "a"},
		{name: "nothing where the pool offers nothing", a: up(1), fallback: up(1, 1), offers: odd, want: []string{""}, pool: "a"},
		{name: "the fallback pool", a: down(1), fallback: append(up(1), down(1)...), want: []string{"f0"}, pool: "f"},
		{name: "the fallback pool whatever its health", a: down(1), fallback: down(1, 1), want: []string{"f0 f1"}, pool: "f"},
		{name: "the fallback pool whatever its health, by weight", a: down(1), fallback: down(1, .5), want: []string{"f0", "f1"}, pool: "f"},
		{name: "no fallback pool", a: down(1)},
		{name: "a fallback pool with nothing enabled", a: down(1), fallback: disabled(up(1), 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			if c.policy == "" {
				c.policy = model.EndpointRandom
			}
			lb := balancer(model.SteerFailover, w.poolOf("a", c.policy, 1, c.a))
			if c.fallback != nil {
				lb.Fallback = w.pool("f", c.fallback)
			}
			if c.offers == nil {
				c.offers = everything
			}
			seen := map[string]bool{}
			r := random()
			for i := range 300 {
				f := query(i)
				if c.keyed {
					f.KeyByClient()
				}
				d, es, ok := Answers(lb, f, r, start, c.offers, nil)
				if ok != (c.pool != "") {
					t.Fatalf("Answers() found a pool: %v", ok)
				}
				if ok && d.Pool.Name != c.pool {
					t.Fatalf("pool %s, want %s", d.Pool.Name, c.pool)
				}
				if ok {
					seen[names(es)] = true
				}
				if c.policy == model.EndpointHash || c.keyed {
					if _, again, _ := Answers(lb, f, r, start, c.offers, nil); names(again) != names(es) {
						t.Fatalf("client %d: %s, then %s", i, names(es), names(again))
					}
				}
			}
			for _, want := range c.want {
				if !seen[want] {
					t.Errorf("never answered %q", want)
				}
				delete(seen, want)
			}
			for other := range seen {
				t.Errorf("answered %q, want one of %q", other, c.want)
			}
		})
	}
}

// Resolvers and clients that take the first address only are spread all the same.
func TestAnswersBeginAnywhere(t *testing.T) {
	w := newWorld()
	lb := balancer(model.SteerFailover, w.pool("a", up(1, 1, 1, 1)))
	first, r := map[string]int{}, random()
	const n = 8000
	for i := range n {
		_, es, _ := Answers(lb, query(i), r, start, everything, nil)
		first[es[0].Name]++
	}
	for name, got := range first {
		if share := float64(got) / n; math.Abs(share-.25) > .03 {
			t.Errorf("%s comes first in %.3f of the answers, want 0.25", name, share)
		}
	}
}

// What is open at pools and endpoints, by way of other planes, plays no part.
func TestAnswersCountNothing(t *testing.T) {
	for _, policy := range []model.SteeringPolicy{model.SteerLeastOutstandingRequests, model.SteerLeastConnections} {
		t.Run(string(policy), func(t *testing.T) {
			w := newWorld()
			busy := w.poolOf("a", model.EndpointLeastConnections, 1, up(1, .5))
			for range 50 {
				busy.Load.RequestStarted()
				busy.Load.ConnectionOpened()
				busy.Endpoints[0].Load.RequestStarted()
				busy.Endpoints[0].Load.ConnectionOpened()
			}
			lb := weighted(policy, []*plan.Pool{busy, w.pool("b", up(1))}, []float64{.75, .25})
			counts, r := map[string]int{}, random()
			const n = 20_000
			for i := range n {
				_, es, _ := Answers(lb, query(i), r, start, everything, nil)
				counts[es[0].Name]++
			}
			for name, want := range map[string]float64{"a0": .5, "a1": .25, "b0": .25} {
				if share := float64(counts[name]) / n; math.Abs(share-want) > .015 {
					t.Errorf("%s has a share of %.3f, want %.3f", name, share, want)
				}
			}
		})
	}
}

// As resolvers keep answers for many clients, the same addresses are always shed.
func TestAnswersAreShedByClient(t *testing.T) {
	for _, keyed := range []bool{false, true} {
		lb := shedding(model.SteerFailover, false, .3)
		lb.Default[0].Shedding.Sessions = .6
		want := .3
		if keyed {
			want = .6
		}
		shed, r := 0, random()
		const n = 20_000
		for i := range n {
			f := query(i)
			if keyed {
				f.KeyByClient()
			}
			d, _, _ := Answers(lb, f, r, start, everything, nil)
			again, _, _ := Answers(lb, f, r, start, everything, nil)
			if d.Pool != again.Pool {
				t.Fatalf("keyed %v, client %d: pool %s, then %s", keyed, i, d.Pool.Name, again.Pool.Name)
			}
			if d.Pool.Name == "b" {
				shed++
			}
		}
		if share := float64(shed) / n; math.Abs(share-want) > .015 {
			t.Errorf("keyed %v: shed %.3f, want %.3f", keyed, share, want)
		}
	}
}

// Whatever is answered may be, and something is answered where something may be.
func TestPropertyAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		s.facts.Query = true
		if s.facts.Client.IsValid() && rapid.Bool().Draw(t, "keyed") {
			s.facts.Key, s.facts.Keyed = pick.HashAddr(s.facts.Client), true
		}
		some := slices.ContainsFunc(s.candidates(), usable)
		last := s.lb.Fallback
		lastResort := last != nil && last.Enabled && len(enabledOf(last, false)) > 0
		d, es, ok := Answers(s.lb, s.facts, rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0), start, everything, nil)
		if want := some || lastResort; ok != want {
			t.Fatalf("Answers() found a pool: %v, want %v", ok, want)
		}
		if !ok {
			return
		}
		if d.Fallback == some || !d.Pool.Enabled || len(es) == 0 {
			t.Fatalf("pool %s, fallback %v, enabled %v, %d endpoints", d.Pool.Name, d.Fallback, d.Pool.Enabled, len(es))
		}
		up := enabledOf(d.Pool, true)
		for _, e := range es {
			if len(up) > 0 && !slices.Contains(up, e) || !e.Enabled || e.Pool != d.Pool {
				t.Fatalf("endpoint %s is not to be answered", e.Name)
			}
		}
		slots := map[int]bool{}
		for _, e := range es {
			if slots[e.Slot] {
				t.Fatalf("endpoint %s is answered twice", e.Name)
			}
			slots[e.Slot] = true
		}
	})
}

func TestAnswersAllocateNothing(t *testing.T) {
	w := newWorld()
	lb := balancer(model.SteerRandom, w.pool("a", up(1, 1)), w.pool("b", up(1, .5)), w.poolOf("c", model.EndpointMaglev, 1, up(1, 1)))
	f, r := query(1), random()
	family := 1
	offers := func(e *plan.Endpoint) bool { return e.Slot <= family }
	var buffer [4]*plan.Endpoint
	if n := testing.AllocsPerRun(100, func() { Answers(lb, f, r, start, offers, buffer[:0]) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
