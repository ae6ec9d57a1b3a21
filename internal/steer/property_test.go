package steer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"fairlead/internal/model"
	"fairlead/internal/plan"
)

// few slots make a Maglev table that is quickly built; which slot a client
// has is of no interest here.
const few = 1009

// A scene is a load balancer with everything that a choice depends on.
type scene struct {
	w     *world
	lb    *plan.LoadBalancer
	facts *Facts
}

// weights are multiples of 0.01, often 0.
func drawWeight(t *rapid.T) float64 {
	return float64(rapid.OneOf(rapid.Just(0), rapid.IntRange(1, 100)).Draw(t, "weight")) / 100
}

// drawPool makes a pool in any state.
func (s *scene) drawPool(t *rapid.T, name string) *plan.Pool {
	es := make([]endpoint, rapid.IntRange(1, 6).Draw(t, "endpoints"))
	for i := range es {
		es[i] = endpoint{
			weight: drawWeight(t), up: rapid.IntRange(0, 2).Draw(t, "up") > 0,
			disabled: rapid.IntRange(0, 4).Draw(t, "disabled") == 0,
		}
	}
	p := s.w.poolOf(name, rapid.SampledFrom(endpointPolicies).Draw(t, "endpoint policy"), rapid.IntRange(0, 2).Draw(t, "minimum"), es)
	p.Enabled = rapid.IntRange(0, 5).Draw(t, "pool disabled") > 0
	if rapid.Bool().Draw(t, "measured") {
		s.w.measure(p, time.Duration(rapid.IntRange(1, 5).Draw(t, "ms"))*time.Millisecond, start.Add(-time.Duration(rapid.IntRange(1, 20).Draw(t, "minutes"))*time.Minute))
	}
	if rapid.Bool().Draw(t, "placed") {
		p.Position = at(float64(rapid.IntRange(-80, 80).Draw(t, "latitude")), float64(rapid.IntRange(-170, 170).Draw(t, "longitude")))
	}
	for range rapid.IntRange(0, 5).Draw(t, "open") {
		p.Load.RequestStarted()
		p.Load.ConnectionOpened()
		p.Endpoints[0].Load.RequestStarted()
		p.Endpoints[0].Load.ConnectionOpened()
	}
	return p
}

// drawScene makes a load balancer in any state.
func drawScene(t *rapid.T) *scene {
	s := &scene{w: newWorld(), facts: anyone()}
	s.w.slots = few
	var pools []*plan.Pool
	var weights []float64
	for i := range rapid.IntRange(1, 4).Draw(t, "pools") {
		pools = append(pools, s.drawPool(t, string(rune('a'+i))))
		weights = append(weights, drawWeight(t))
	}
	s.lb = weighted(rapid.SampledFrom(builtPolicies).Draw(t, "policy"), pools, weights)
	switch rapid.IntRange(0, 2).Draw(t, "fallback") {
	case 1:
		s.lb.Fallback = pools[len(pools)-1]
	case 2:
		s.lb.Fallback = s.drawPool(t, "z")
	}
	backwards := slices.Clone(pools)
	slices.Reverse(backwards)
	s.lb.Regions = map[model.Region][]*plan.Pool{"WEU": backwards}
	if rapid.Bool().Draw(t, "client placed") {
		s.facts.Place = plan.Place{Region: "WEU", Position: at(50, 8)}
	}
	if rapid.Bool().Draw(t, "no address") {
		s.facts = &Facts{Place: s.facts.Place}
	}
	return s
}

// candidates are the pools that the policy chooses from, found the plain way.
func (s *scene) candidates() []*plan.Pool {
	if s.lb.Policy == model.SteerGeo && s.facts.Place.Region == "WEU" {
		return s.lb.Regions["WEU"]
	}
	return s.lb.Default
}

// usable reports whether steering may choose the pool.
func usable(p *plan.Pool) bool { return p.Enabled && p.Health.Usable() }

// enabledOf returns the enabled endpoints, only those that are up if up is set.
func enabledOf(p *plan.Pool, up bool) []*plan.Endpoint {
	var es []*plan.Endpoint
	for _, e := range p.Endpoints {
		if e.Enabled && (!up || e.Health.Up()) {
			es = append(es, e)
		}
	}
	return es
}

// Nothing that is disabled or unhealthy is ever chosen while something else
// can be, nothing of weight 0 while something with weight can be, and nothing
// is refused while something can take it.
func TestPropertyOnlyWhatMayBeChosenIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		r := rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)
		some := slices.ContainsFunc(s.candidates(), usable)
		last := s.lb.Fallback
		lastResort := last != nil && last.Enabled && len(enabledOf(last, false)) > 0
		for range 20 {
			d, ok := Choose(s.lb, s.facts, r, start)
			if want := some || lastResort; ok != want {
				t.Fatalf("Choose() found something: %v, want %v", ok, want)
			}
			if !ok {
				return
			}
			if d.Endpoint.Pool != d.Pool || !d.Endpoint.Enabled || !d.Pool.Enabled {
				t.Fatalf("endpoint %s of pool %s is disabled or not of the pool", d.Endpoint.Name, d.Pool.Name)
			}
			if d.Fallback == some {
				t.Fatalf("fallback %v while a candidate can be used: %v", d.Fallback, some)
			}
			may := enabledOf(d.Pool, true)
			if d.Fallback {
				if d.Pool != last {
					t.Fatalf("pool %s is not the fallback pool", d.Pool.Name)
				}
				if len(may) == 0 {
					may = enabledOf(d.Pool, false)
				}
			} else if !usable(d.Pool) || !slices.Contains(s.candidates(), d.Pool) {
				t.Fatalf("pool %s may not be chosen", d.Pool.Name)
			}
			if !slices.Contains(may, d.Endpoint) {
				t.Fatalf("endpoint %s is down while another is up", d.Endpoint.Name)
			}
			heavy := func(e *plan.Endpoint) bool { return e.Weight > 0 }
			if d.Endpoint.Weight == 0 && slices.ContainsFunc(may, heavy) {
				t.Fatalf("endpoint %s of weight 0 is chosen while one with weight can be", d.Endpoint.Name)
			}
			if i := slices.Index(s.lb.Default, d.Pool); d.Reason == ReasonRandom && s.lb.Weights[i] == 0 {
				for j, p := range s.lb.Default {
					if usable(p) && s.lb.Weights[j] > 0 {
						t.Fatalf("pool %s of weight 0 is chosen while %s can be", d.Pool.Name, p.Name)
					}
				}
			}
		}
	})
}

// The retry goes to another endpoint of the same pool, one that is up unless
// the pool is the last resort.
func TestPropertyAgainIsAnother(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		r := rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)
		for range 20 {
			d, ok := Choose(s.lb, s.facts, r, start)
			if !ok {
				return
			}
			isFirst := func(e *plan.Endpoint) bool { return e == d.Endpoint }
			may := slices.DeleteFunc(enabledOf(d.Pool, true), isFirst)
			if d.Fallback && len(may) == 0 {
				may = slices.DeleteFunc(enabledOf(d.Pool, false), isFirst)
			}
			again, ok := Again(d, s.facts, r, start)
			if ok != (len(may) > 0) {
				t.Fatalf("Again() found something: %v, with %d others", ok, len(may))
			}
			if ok && !slices.Contains(may, again.Endpoint) {
				t.Fatalf("Again() after %s = %s", d.Endpoint.Name, again.Endpoint.Name)
			}
		}
	})
}

// What Explain says is what Choose does: the same decision from the same
// random bits, and shares that are the frequencies of many choices.
func TestPropertyExplainTellsWhatChooseDoes(t *testing.T) {
	const n = 1000
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		seed := rapid.Uint64().Draw(t, "seed")
		e := Explain(s.lb, s.facts, rand.NewPCG(seed, 0), start)
		d, ok := Choose(s.lb, s.facts, rand.NewPCG(seed, 0), start)
		if ok != e.OK || d.Pool != e.Decision.Pool || d.Reason != e.Decision.Reason || d.Fallback != e.Decision.Fallback {
			t.Fatalf("Choose() = %+v, %v; Explain() = %+v, %v", d, ok, e.Decision, e.OK)
		}
		if !ok {
			return
		}
		if d.Pool.Policy != model.EndpointRoundRobin && d.Endpoint != e.Decision.Endpoint {
			t.Fatalf("Choose() = %s, Explain() = %s", d.Endpoint.Name, e.Decision.Endpoint.Name)
		}

		pools, endpoints, inPool := map[*plan.Pool]int{}, map[*plan.Endpoint]int{}, 0
		r := rand.NewPCG(seed, 1)
		for range n {
			c, _ := Choose(s.lb, s.facts, r, start)
			pools[c.Pool]++
			if c.Pool == d.Pool {
				inPool++
				endpoints[c.Endpoint]++
			}
		}
		sum := 0.0
		for _, p := range e.Pools {
			if p.Dropped != "" && p.Share != 0 {
				t.Errorf("pool %s is dropped (%s) and has a share of %v", p.Pool.Name, p.Dropped, p.Share)
			}
			sum += p.Share
			if !d.Fallback {
				wantCount(t, p.Pool.Name, pools[p.Pool], n, p.Share)
			}
		}
		want := 1.0
		if d.Fallback {
			want = 0
			wantCount(t, "fallback", pools[d.Pool], n, e.Fallback.Share)
		}
		if math.Abs(sum-want) > 1e-9 {
			t.Errorf("the shares of pools add up to %v, want %v", sum, want)
		}
		sum = 0
		for _, c := range e.Endpoints {
			if c.Dropped != "" && c.Share != 0 {
				t.Errorf("endpoint %s is dropped (%s) and has a share of %v", c.Endpoint.Name, c.Dropped, c.Share)
			}
			sum += c.Share
			wantCount(t, c.Endpoint.Name, endpoints[c.Endpoint], inPool, c.Share)
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Errorf("the shares of endpoints add up to %v, want 1", sum)
		}
	})
}

// Shares converge to the weights of what is up.
func TestPropertySharesConverge(t *testing.T) {
	const n = 5000
	policies := []model.EndpointPolicy{model.EndpointRandom, model.EndpointRoundRobin, model.EndpointHash, model.EndpointMaglev}
	rapid.Check(t, func(t *rapid.T) {
		es := make([]endpoint, rapid.IntRange(2, 8).Draw(t, "endpoints"))
		sum := 0.0
		for i := range es {
			es[i] = endpoint{weight: float64(rapid.IntRange(1, 100).Draw(t, "weight")) / 100, up: rapid.IntRange(0, 3).Draw(t, "up") > 0}
			if i == 0 {
				es[i].up = true
			}
			if es[i].up {
				sum += es[i].weight
			}
		}
		policy := rapid.SampledFrom(policies).Draw(t, "policy")
		lb := only(newWorld().poolOf("a", policy, 1, es))
		r := rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)
		counts := make([]int, len(es))
		for i := range n {
			d, _ := Choose(lb, client(i), r, start)
			counts[d.Endpoint.Slot]++
		}
		for slot, e := range es {
			p := 0.0
			if e.up {
				p = e.weight / sum
			}
			wantCount(t, lb.Default[0].Endpoints[slot].Name, counts[slot], n, p)
		}
	})
}

// Under every hashing policy, taking one endpoint down moves its own clients
// only, whatever the weights; reordering the list moves nobody.
func TestPropertyHashIsSteady(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		es := make([]endpoint, rapid.IntRange(2, 8).Draw(t, "endpoints"))
		for i := range es {
			es[i] = endpoint{weight: float64(rapid.IntRange(1, 100).Draw(t, "weight")) / 100, up: true}
		}
		policy := rapid.SampledFrom(hashPolicies).Draw(t, "policy")
		w, v := newWorld(), newWorld()
		w.slots, v.slots = few, few
		p := w.poolOf("a", policy, 1, es)
		slots := make([]int, len(es))
		for i := range slots {
			slots[i] = i
		}
		order := rapid.Permutation(slots).Draw(t, "order")
		q := v.reordered("a", policy, p, order)
		gone := rapid.IntRange(0, len(es)-1).Draw(t, "gone")
		r := rand.NewPCG(0, 0)
		before := make([]*plan.Endpoint, 500)
		for i := range before {
			d, _ := Choose(only(p), client(i), r, start)
			before[i] = d.Endpoint
			if e, _ := Choose(only(q), client(i), r, start); e.Endpoint.Key != d.Endpoint.Key {
				t.Fatalf("reordering moved client %d from %s to %s", i, d.Endpoint.Key, e.Endpoint.Key)
			}
		}
		w.set(p, gone, false)
		for i, b := range before {
			d, _ := Choose(only(p), client(i), r, start)
			if d.Endpoint != b && b.Slot != gone {
				t.Fatalf("client %d moved from %s to %s though %d went down", i, b.Name, d.Endpoint.Name, gone)
			}
		}
	})
}
