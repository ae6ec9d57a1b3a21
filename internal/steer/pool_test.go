package steer

import (
	"testing"
	"time"

	"fairlead/internal/model"
	"fairlead/internal/plan"
)

// The worked examples of the sources, as exact probabilities and by
// frequency, for pools and, as the sources say that the same sums hold there,
// for the endpoints of a pool.
func TestWeightExamples(t *testing.T) {
	for _, tt := range []struct {
		name    string
		weights []float64
		open    []int
		pools   model.SteeringPolicy
		inPool  model.EndpointPolicy
		want    string
		wantIn  string
	}{
		{"example 1: weight 1 each", []float64{1, 1, 1}, nil, model.SteerRandom, model.EndpointRandom,
			"a 33.33, b 33.33, c 33.33", "a0 33.33, a1 33.33, a2 33.33"},
		{"example 1: any equal weight, .1", []float64{.1, .1, .1}, nil, model.SteerRandom, model.EndpointRandom,
			"a 33.33, b 33.33, c 33.33", "a0 33.33, a1 33.33, a2 33.33"},
		{"example 1: any equal weight, .7", []float64{.7, .7, .7}, nil, model.SteerRandom, model.EndpointRandom,
			"a 33.33, b 33.33, c 33.33", "a0 33.33, a1 33.33, a2 33.33"},
		{"example 2: 4, 5 and 6 endpoints", []float64{.4, .5, .6}, nil, model.SteerRandom, model.EndpointRandom,
			"a 26.67, b 33.33, c 40.00", "a0 26.67, a1 33.33, a2 40.00"},
		{"example 3: the first of twice the capacity", []float64{.8, .5, .6}, nil, model.SteerRandom, model.EndpointRandom,
			"a 42.11, b 26.32, c 31.58", "a0 42.11, a1 26.32, a2 31.58"},
		{"least outstanding requests", []float64{.4, .6}, []int{3, 0}, model.SteerLeastOutstandingRequests, model.EndpointLeastOutstandingRequests,
			"a 14.29, b 85.71", "a0 14.29, a1 85.71"},
		{"least outstanding requests, nothing open: as random", []float64{.4, .6}, []int{0, 0}, model.SteerLeastOutstandingRequests, model.EndpointLeastOutstandingRequests,
			"a 40.00, b 60.00", "a0 40.00, a1 60.00"},
		{"least connections", []float64{.4, .6}, []int{3, 0}, model.SteerLeastConnections, model.EndpointLeastConnections,
			"a 14.29, b 85.71", "a0 14.29, a1 85.71"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const n = 100_000
			w := newWorld()
			var pools []*plan.Pool
			for i := range tt.weights {
				pools = append(pools, w.pool(string(rune('a'+i)), up(1)))
			}
			lb := weighted(tt.pools, pools, tt.weights)
			one := w.poolOf("a", tt.inPool, 1, up(tt.weights...))
			for i, open := range tt.open {
				for range open {
					if tt.pools == model.SteerLeastConnections {
						pools[i].Load.ConnectionOpened()
						one.Endpoints[i].Load.ConnectionOpened()
					} else {
						pools[i].Load.RequestStarted()
						one.Endpoints[i].Load.RequestStarted()
					}
				}
			}
			e := Explain(lb, anyone(), random(), start)
			if got := shares(e); got != tt.want {
				t.Errorf("pools: %s, want %s", got, tt.want)
			}
			counts := poolCounts(t, lb, anyone(), n)
			for _, p := range e.Pools {
				wantCount(t, p.Pool.Name, counts[p.Pool.Name], n, p.Share)
			}

			lb = balancer(model.SteerFailover, one)
			e = Explain(lb, anyone(), random(), start)
			if got := endpointShares(e); got != tt.wantIn {
				t.Errorf("endpoints: %s, want %s", got, tt.wantIn)
			}
			counts = endpointCounts(t, lb, anyone(), n)
			for _, c := range e.Endpoints {
				wantCount(t, c.Endpoint.Name, counts[c.Endpoint.Name], n, c.Share)
			}
		})
	}
}

// "70 % of the traffic can go to one of two pools and within it evenly to four
// endpoints"; and 100,000 requests are within 1 % of that.
func TestSeventyThirtyThenFourEvenly(t *testing.T) {
	const n = 100_000
	w := newWorld()
	lb := weighted(model.SteerRandom, []*plan.Pool{w.pool("a", up(1, 1, 1, 1)), w.pool("b", up(1))}, []float64{.7, .3})
	counts := endpointCounts(t, lb, anyone(), n)
	a := counts["a0"] + counts["a1"] + counts["a2"] + counts["a3"]
	if a < 69_000 || a > 71_000 {
		t.Errorf("the pool of weight .7 took %d of %d, want 70000 ± 1000", a, n)
	}
	for _, name := range []string{"a0", "a1", "a2", "a3"} {
		wantCount(t, name, counts[name], n, .175)
	}
	wantCount(t, "b0", counts["b0"], n, .3)
}

// The shares follow weight / sum of the weights of the healthy ones, whatever
// their order or number (k8gb-io/k8gb#1964).
func TestSharesWhateverTheOrder(t *testing.T) {
	const n = 10_000
	for _, tt := range []struct {
		name    string
		order   []string
		weights map[string]float64
		down    string
		want    map[string]float64
	}{
		{"in order", []string{"p1", "p2", "p3"}, map[string]float64{"p1": .5, "p2": .3, "p3": .2}, "",
			map[string]float64{"p1": .5, "p2": .3, "p3": .2}},
		{"reversed", []string{"p3", "p2", "p1"}, map[string]float64{"p1": .5, "p2": .3, "p3": .2}, "",
			map[string]float64{"p1": .5, "p2": .3, "p3": .2}},
		{"first down", []string{"p1", "p2", "p3"}, map[string]float64{"p1": .5, "p2": .3, "p3": .2}, "p1",
			map[string]float64{"p1": 0, "p2": .6, "p3": .4}},
		{"thirds", []string{"p1", "p2", "p3"}, map[string]float64{"p1": 1, "p2": 1, "p3": 1}, "",
			map[string]float64{"p1": 1. / 3, "p2": 1. / 3, "p3": 1. / 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			var pools []*plan.Pool
			var weights []float64
			for _, name := range tt.order {
				es := up(1)
				if name == tt.down {
					es = down(1)
				}
				pools = append(pools, w.pool(name, es))
				weights = append(weights, tt.weights[name])
			}
			counts := poolCounts(t, weighted(model.SteerRandom, pools, weights), anyone(), n)
			for name, p := range tt.want {
				wantCount(t, name, counts[name], n, p)
			}
		})
	}
}

// IBM's table: how each mode treats a fallback pool that is a default pool as
// well, while all pools are healthy, while only the fallback is, and while
// none is.
func TestFallbackPoolInEachMode(t *testing.T) {
	type row struct {
		name   string
		policy model.SteeringPolicy
		// What the pools a (primary) and b (fallback) take.
		bothUp, onlyFallbackUp, nothingUp string
	}
	for _, tt := range []row{
		{"failover: only when all of higher priority are out", model.SteerFailover,
			"a 100.00, b 0.00", "a: critical: 0 of 1 healthy, 1 needed, b 100.00", "b fallback"},
		{"random: also while the others are healthy", model.SteerRandom,
			"a 50.00, b 50.00", "a: critical: 0 of 1 healthy, 1 needed, b 100.00", "b fallback"},
		{"dynamic: takes part while healthy", model.SteerDynamicLatency,
			"b 100.00, a 0.00", "b 100.00, a: critical: 0 of 1 healthy, 1 needed", "b fallback"},
		{"geo: takes part while healthy", model.SteerGeo,
			"b 100.00, a 0.00", "b 100.00, a: critical: 0 of 1 healthy, 1 needed", "b fallback"},
		{"proximity: takes part while healthy", model.SteerProximity,
			"b 100.00, a 0.00", "b 100.00, a: critical: 0 of 1 healthy, 1 needed", "b fallback"},
		{"least outstanding requests: also while the others are healthy", model.SteerLeastOutstandingRequests,
			"a 50.00, b 50.00", "a: critical: 0 of 1 healthy, 1 needed, b 100.00", "b fallback"},
		{"least connections: also while the others are healthy", model.SteerLeastConnections,
			"a 50.00, b 50.00", "a: critical: 0 of 1 healthy, 1 needed, b 100.00", "b fallback"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			a, b := w.pool("a", up(1)), w.pool("b", up(1))
			// The fallback pool is the faster, the nearer, and the one of the
			// client's region, so that taking part shows.
			w.measure(a, 80*time.Millisecond, start.Add(-time.Hour))
			w.measure(b, 20*time.Millisecond, start.Add(-time.Hour))
			a.Position, b.Position = at(50, 8), at(1, 103)
			lb := balancer(tt.policy, a, b)
			lb.Fallback = b
			lb.Regions = map[model.Region][]*plan.Pool{"SEAS": {b, a}}
			f := anyone()
			f.Place = plan.Place{Region: "SEAS", Position: at(3, 101)}

			if got := shares(Explain(lb, f, random(), start)); got != tt.bothUp {
				t.Errorf("both up: %s, want %s", got, tt.bothUp)
			}
			w.set(a, 0, false)
			if got := shares(Explain(lb, f, random(), start)); got != tt.onlyFallbackUp {
				t.Errorf("only the fallback up: %s, want %s", got, tt.onlyFallbackUp)
			}
			w.set(b, 0, false)
			if got := choice(lb, f); got != tt.nothingUp {
				t.Errorf("nothing up: %s, want %s", got, tt.nothingUp)
			}
		})
	}
}

// IBM's example: pool B shows a maintenance page. Random steering sends users
// there though A is well, failover does not.
func TestMaintenancePageAsFallback(t *testing.T) {
	w := newWorld()
	a, b := w.pool("a", up(1)), w.pool("b", up(1))
	lb := balancer(model.SteerRandom, a, b)
	lb.Fallback = b
	if counts := poolCounts(t, lb, anyone(), 1000); counts["b"] == 0 {
		t.Error("random steering never chose the maintenance page")
	}
	lb.Policy = model.SteerFailover
	if counts := poolCounts(t, lb, anyone(), 1000); counts["b"] != 0 {
		t.Errorf("failover chose the maintenance page %d times while the primary pool is healthy", counts["b"])
	}
	w.set(a, 0, false)
	if counts := poolCounts(t, lb, anyone(), 1000); counts["b"] != 1000 {
		t.Errorf("failover chose the maintenance page %d times of 1000 while the primary pool is down", counts["b"])
	}
}

// A fallback pool outside the default pools takes nothing while one of them
// can be used, in any mode.
func TestFallbackPoolThatIsNoDefaultPool(t *testing.T) {
	for _, policy := range builtPolicies {
		t.Run(string(policy), func(t *testing.T) {
			w := newWorld()
			a, b := w.pool("a", up(1)), w.pool("b", up(1))
			lb := balancer(policy, a)
			lb.Fallback = b
			if counts := poolCounts(t, lb, anyone(), 100); counts["b"] != 0 {
				t.Errorf("the fallback pool took %d of 100 while a default pool is healthy", counts["b"])
			}
			a.Enabled = false
			if got := choice(lb, anyone()); got != "b fallback" {
				t.Errorf("with every default pool disabled: %s, want b fallback", got)
			}
		})
	}
}

// builtPolicies are the policies that can be served.
var builtPolicies = []model.SteeringPolicy{
	model.SteerFailover, model.SteerRandom, model.SteerGeo, model.SteerDynamicLatency, model.SteerProximity,
	model.SteerLeastOutstandingRequests, model.SteerLeastConnections,
}

// The fallback pool does not depend on what monitors say.
func TestFallbackIgnoresHealth(t *testing.T) {
	for _, tt := range []struct {
		name    string
		minimum int
		es      []endpoint
		want    string // endpoints that take traffic
	}{
		{"healthy endpoints first", 2, []endpoint{{weight: 1}, {weight: 1, up: true}, {weight: 1}},
			"b0: unhealthy, b1 100.00, b2: unhealthy"},
		{"none healthy: all that are enabled, by weight", 1, []endpoint{{weight: .2}, {weight: .6}, {weight: 1, disabled: true}},
			"b0 25.00, b1 75.00, b2: disabled"},
		{"none healthy, none with weight: evenly", 1, []endpoint{{}, {}},
			"b0 50.00, b1 50.00"},
		{"none healthy, weight 0 beside others", 1, []endpoint{{}, {weight: .5}},
			"b0: weight 0, b1 100.00"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const n = 20_000
			w := newWorld()
			lb := balancer(model.SteerFailover, w.pool("a", down(1)))
			lb.Fallback = w.poolOf("b", model.EndpointRandom, tt.minimum, tt.es)
			e := Explain(lb, anyone(), random(), start)
			if got := endpointShares(e); got != tt.want {
				t.Errorf("endpoints: %s, want %s", got, tt.want)
			}
			if !e.Decision.Fallback || e.Decision.Reason != ReasonFallback || e.Fallback.Share != 1 {
				t.Errorf("decision %v with a share of %v for the fallback pool, want the fallback pool for certain", e.Decision.Reason, e.Fallback.Share)
			}
			counts := endpointCounts(t, lb, anyone(), n)
			for _, c := range e.Endpoints {
				wantCount(t, c.Endpoint.Name, counts[c.Endpoint.Name], n, c.Share)
			}
		})
	}
}

func TestNothingCanTakeTheRequest(t *testing.T) {
	for _, tt := range []struct {
		name     string
		fallback func(*world) *plan.Pool
		want     string // why not the fallback pool
	}{
		{"no fallback pool", func(*world) *plan.Pool { return nil }, ""},
		{"fallback pool disabled", func(w *world) *plan.Pool {
			p := w.pool("b", up(1))
			p.Enabled = false
			return p
		}, "disabled"},
		{"every endpoint of the fallback pool disabled", func(w *world) *plan.Pool {
			return w.pool("b", []endpoint{{weight: 1, up: true, disabled: true}})
		}, "no enabled endpoint"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			lb := balancer(model.SteerRandom, w.pool("a", down(1, 1)))
			lb.Fallback = tt.fallback(w)
			if d, ok := Choose(lb, anyone(), random(), start); ok {
				t.Errorf("Choose() = %s, want nothing", d.Endpoint.Name)
			}
			e := Explain(lb, anyone(), random(), start)
			if e.OK || e.Decision.Reason != ReasonNone {
				t.Errorf("Explain() = %v, %v, want nothing", e.Decision.Reason, e.OK)
			}
			if e.Fallback != nil && e.Fallback.Dropped != tt.want || e.Fallback == nil && tt.want != "" {
				t.Errorf("the fallback pool is %+v, want dropped as %q", e.Fallback, tt.want)
			}
		})
	}
}

// Failover: the first pool that can be used takes everything.
func TestFailover(t *testing.T) {
	w := newWorld()
	a, b, c := w.pool("a", up(1, 1)), w.poolOf("b", model.EndpointRandom, 2, up(1, 1)), w.pool("c", up(1))
	lb := balancer(model.SteerFailover, a, b, c)
	for _, step := range []struct {
		name   string
		change func()
		want   string
	}{
		{"all healthy", func() {}, "a 100.00, b 0.00, c 0.00"},
		{"a lower pool down changes nothing", func() { w.set(c, 0, false) }, "a 100.00, b 0.00, c: critical: 0 of 1 healthy, 1 needed"},
		{"a degraded pool keeps its turn", func() { w.set(a, 0, false); w.set(c, 0, true) }, "a 100.00, b 0.00, c 0.00"},
		{"the first is down", func() { w.set(a, 1, false) }, "a: critical: 0 of 2 healthy, 1 needed, b 100.00, c 0.00"},
		{"the second is below its minimum", func() { w.set(b, 1, false) }, "a: critical: 0 of 2 healthy, 1 needed, b: critical: 1 of 2 healthy, 2 needed, c 100.00"},
		{"the first is back", func() { w.set(a, 0, true) }, "a 100.00, b: critical: 1 of 2 healthy, 2 needed, c 0.00"},
		{"the first is disabled", func() { a.Enabled = false }, "a: disabled, b: critical: 1 of 2 healthy, 2 needed, c 100.00"},
	} {
		step.change()
		e := Explain(lb, anyone(), random(), start)
		if got := shares(e); got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
		if e.Decision.Reason != ReasonFailover {
			t.Errorf("%s: reason %v, want failover", step.name, e.Decision.Reason)
		}
	}
}

// Geo: PoP, then country, then region, then the default pools; the first list
// that is found is the list, in failover order, and then comes the fallback
// pool, not the next wider list.
func TestGeo(t *testing.T) {
	w := newWorld()
	pools := map[string]*plan.Pool{}
	for _, name := range []string{"pop1", "pop2", "country", "region", "default", "fallback"} {
		pools[name] = w.pool(name, up(1))
	}
	lb := balancer(model.SteerGeo, pools["default"])
	lb.Fallback = pools["fallback"]
	lb.PoPs = map[string][]*plan.Pool{"FRA": {pools["pop1"], pools["pop2"]}}
	lb.Countries = map[model.Country][]*plan.Pool{"DE": {pools["country"]}}
	lb.Regions = map[model.Region][]*plan.Pool{"WEU": {pools["region"]}}

	for _, tt := range []struct {
		name  string
		place plan.Place
		down  []string
		want  string
		list  string
	}{
		{"all known", plan.Place{PoP: "FRA", Country: "DE", Region: "WEU"}, nil, "pop1 geo_pop", "pop_pools.FRA"},
		{"other PoP", plan.Place{PoP: "MUC", Country: "DE", Region: "WEU"}, nil, "country geo_country", "country_pools.DE"},
		{"other country", plan.Place{PoP: "CDG", Country: "FR", Region: "WEU"}, nil, "region geo_region", "region_pools.WEU"},
		{"no entry: default failover order", plan.Place{PoP: "SIN", Country: "SG", Region: "SEAS"}, nil, "default geo_default", "default_pools"},
		{"nothing known", plan.Place{}, nil, "default geo_default", "default_pools"},
		{"failover inside the list", plan.Place{PoP: "FRA"}, []string{"pop1"}, "pop2 geo_pop", "pop_pools.FRA"},
		{"list out: fallback, not country", plan.Place{PoP: "FRA", Country: "DE", Region: "WEU"}, []string{"pop1", "pop2"}, "fallback fallback", "pop_pools.FRA"},
		{"country out: fallback, not region", plan.Place{Country: "DE", Region: "WEU"}, []string{"country"}, "fallback fallback", "country_pools.DE"},
		{"region out: fallback, not default", plan.Place{Region: "WEU"}, []string{"region"}, "fallback fallback", "region_pools.WEU"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, p := range pools {
				w.set(p, 0, true)
				for _, d := range tt.down {
					if d == name {
						w.set(p, 0, false)
					}
				}
			}
			f := anyone()
			f.Place = tt.place
			if got := choice(lb, f); got != tt.want {
				t.Errorf("Choose() = %s, want %s", got, tt.want)
			}
			if e := Explain(lb, f, random(), start); e.List != tt.list {
				t.Errorf("List = %s, want %s", e.List, tt.list)
			}
		})
	}
}

// Dynamic latency: the lowest average of the pools whose profile has run for
// the warm-up time; failover order where there is none.
func TestDynamicLatency(t *testing.T) {
	const ms = time.Millisecond
	old, young := start.Add(-10*time.Minute), start.Add(-10*time.Minute+time.Second)
	type sample struct {
		rtt time.Duration
		at  time.Time
	}
	for _, tt := range []struct {
		name    string
		samples map[string]sample
		down    string
		want    string
		order   string
	}{
		{"no data: failover order", nil, "", "a latency_warming", "a 100.00, b 0.00, c 0.00"},
		{"IBM's figure: the lowest of three", map[string]sample{"a": {90 * ms, old}, "b": {40 * ms, old}, "c": {160 * ms, old}}, "",
			"b dynamic_latency", "b 100.00, a 0.00, c 0.00"},
		{"the fastest is down", map[string]sample{"a": {90 * ms, old}, "b": {40 * ms, old}, "c": {160 * ms, old}}, "b",
			"a dynamic_latency", "b: critical: 0 of 1 healthy, 1 needed, a 100.00, c 0.00"},
		{"all warming: failover order", map[string]sample{"a": {90 * ms, young}, "b": {40 * ms, young}}, "",
			"a latency_warming", "a 100.00, b 0.00, c 0.00"},
		{"a young profile does not count yet", map[string]sample{"a": {90 * ms, young}, "b": {40 * ms, young}, "c": {160 * ms, old}}, "",
			"c dynamic_latency", "c 100.00, a 0.00, b 0.00"},
		{"the only measured pool is down", map[string]sample{"c": {40 * ms, old}}, "c",
			"a latency_warming", "c: critical: 0 of 1 healthy, 1 needed, a 100.00, b 0.00"},
		{"equal: failover order", map[string]sample{"b": {40 * ms, old}, "c": {40 * ms, old}}, "",
			"b dynamic_latency", "b 100.00, c 0.00, a 0.00"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			var pools []*plan.Pool
			for _, name := range []string{"a", "b", "c"} {
				p := w.poolOf(name, model.EndpointRandom, 1, down(1))
				// The first check's round trip starts the profile.
				if s, ok := tt.samples[name]; ok {
					w.measure(p, s.rtt, s.at)
				}
				pools = append(pools, p)
			}
			lb := balancer(model.SteerDynamicLatency, pools...)
			for _, p := range pools {
				w.set(p, 0, p.Name != tt.down)
			}
			if got := choice(lb, anyone()); got != tt.want {
				t.Errorf("Choose() = %s, want %s", got, tt.want)
			}
			e := Explain(lb, anyone(), random(), start)
			if got := shares(e); got != tt.order {
				t.Errorf("pools: %s, want %s", got, tt.order)
			}
			for _, p := range e.Pools {
				s := tt.samples[p.Pool.Name]
				if p.Latency != s.rtt || p.Warming != (s.at != old) {
					t.Errorf("pool %s: latency %v, warming %v, want %v, %v", p.Pool.Name, p.Latency, p.Warming, s.rtt, s.at != old)
				}
			}
		})
	}
}

// A pool that is new starves no longer than its warm-up, attracts nothing
// before, and a pool that was slow is taken again once it is fast: round trips
// come from probes, which go on whatever steering does.
func TestDynamicLatencyTriesNewAndOnceSlowPools(t *testing.T) {
	w := newWorld()
	a, b := w.pool("a", down(1)), w.pool("b", down(1))
	a.WarmUp, b.WarmUp = time.Minute, time.Minute
	w.set(a, 0, true)
	w.set(b, 0, true)
	lb := balancer(model.SteerDynamicLatency, a, b)
	became := map[int]string{}
	last := ""
	for second := range 1200 {
		now := start.Add(time.Duration(second) * time.Second)
		w.measure(a, 10*time.Millisecond, now)
		switch {
		case second >= 600: // slow for five minutes, then fast again
			w.measure(b, 5*time.Millisecond, now)
		case second >= 300:
			w.measure(b, 300*time.Millisecond, now)
		case second >= 100: // new, and fast
			w.measure(b, 5*time.Millisecond, now)
		}
		d, _ := Choose(lb, anyone(), random(), now)
		if d.Pool.Name != last {
			last = d.Pool.Name
			became[second] = last
		}
	}
	if became[0] != "a" || became[160] != "b" {
		t.Errorf("the faster new pool was chosen at %v, want 60 s after its first sample at 100 s", became)
	}
	away, back := 0, 0
	for second, name := range became {
		if second >= 300 && second < 600 && name == "a" {
			away = second
		}
		if second >= 600 && name == "b" {
			back = second
		}
	}
	if away == 0 || away > 310 || back == 0 || back > 900 {
		t.Errorf("choices changed at %v, want away from the slow pool soon after 300 s and back to it within minutes after 600 s", became)
	}
}

// Proximity: the nearest pool that can be used.
func TestProximity(t *testing.T) {
	places := map[string]plan.Position{"frankfurt": at(50.1, 8.7), "singapore": at(1.3, 103.9), "ashburn": at(38.9, -77), "nowhere": {}}
	for _, tt := range []struct {
		name   string
		client plan.Position
		pools  []string
		down   string
		want   string
	}{
		{"Paris", at(48.9, 2.4), []string{"singapore", "ashburn", "frankfurt"}, "", "frankfurt proximity"},
		{"New York", at(40.7, -74), []string{"singapore", "ashburn", "frankfurt"}, "", "ashburn proximity"},
		{"across the date line", at(60, -179), []string{"frankfurt", "singapore", "ashburn"}, "", "ashburn proximity"},
		{"the nearest is down", at(48.9, 2.4), []string{"singapore", "ashburn", "frankfurt"}, "frankfurt", "ashburn proximity"},
		{"place unknown: failover order", plan.Position{}, []string{"singapore", "ashburn", "frankfurt"}, "", "singapore place_unknown"},
		{"place unknown, first down", plan.Position{}, []string{"singapore", "ashburn", "frankfurt"}, "singapore", "ashburn place_unknown"},
		{"a pool without coordinates comes last", at(48.9, 2.4), []string{"nowhere", "singapore"}, "", "singapore proximity"},
		{"only a pool without coordinates is left", at(48.9, 2.4), []string{"nowhere", "singapore"}, "singapore", "nowhere place_unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			var pools []*plan.Pool
			for _, name := range tt.pools {
				p := w.pool(name, []endpoint{{weight: 1, up: name != tt.down}})
				p.Position = places[name]
				pools = append(pools, p)
			}
			f := anyone()
			f.Place.Position = tt.client
			if got := choice(balancer(model.SteerProximity, pools...), f); got != tt.want {
				t.Errorf("Choose() = %s, want %s", got, tt.want)
			}
		})
	}
}

// Weight 0 takes nothing while anything else can be taken, and its equal share
// when nothing else can.
func TestPoolsOfWeightZero(t *testing.T) {
	for _, tt := range []struct {
		name    string
		weights []float64
		down    string
		want    string
	}{
		{"beside others", []float64{1, 0, .5}, "", "a 66.67, b: weight 0, c 33.33"},
		{"all", []float64{0, 0, 0}, "", "a 33.33, b 33.33, c 33.33"},
		{"all that are left", []float64{1, 0, 0}, "a", "a: critical: 0 of 1 healthy, 1 needed, b 50.00, c 50.00"},
	} {
		for _, policy := range []model.SteeringPolicy{model.SteerRandom, model.SteerLeastOutstandingRequests, model.SteerLeastConnections} {
			t.Run(tt.name+"/"+string(policy), func(t *testing.T) {
				const n = 20_000
				w := newWorld()
				var pools []*plan.Pool
				for _, name := range []string{"a", "b", "c"} {
					pools = append(pools, w.pool(name, []endpoint{{weight: 1, up: name != tt.down}}))
				}
				lb := weighted(policy, pools, tt.weights)
				e := Explain(lb, anyone(), random(), start)
				if got := shares(e); got != tt.want {
					t.Errorf("pools: %s, want %s", got, tt.want)
				}
				counts := poolCounts(t, lb, anyone(), n)
				for _, p := range e.Pools {
					wantCount(t, p.Pool.Name, counts[p.Pool.Name], n, p.Share)
				}
			})
		}
	}
}

func TestReasonsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for r := ReasonNone; r <= ReasonFallback; r++ {
		if name := r.String(); name == "" || seen[name] {
			t.Errorf("reason %d is called %q, which is empty or taken", r, name)
		}
		seen[r.String()] = true
	}
}
