package steer

import (
	"testing"

	"fairlead/internal/model"
	"fairlead/internal/pick"
	"fairlead/internal/plan"
)

// shedding makes pools a, b and c, of which the first ones shed.
func shedding(policy model.SteeringPolicy, byClient bool, shares ...float64) *plan.LoadBalancer {
	w := newWorld()
	pools := []*plan.Pool{w.pool("a", up(1)), w.pool("b", up(1)), w.pool("c", up(1))}
	for i, share := range shares {
		pools[i].Shedding = plan.Shedding{Share: share, ByClient: byClient}
	}
	for _, p := range pools {
		p.Hash = pick.HashKey(p.Name)
	}
	lb := balancer(policy, pools[:2]...)
	lb.Fallback = pools[2]
	lb.Sheds = len(shares) > 0
	return lb
}

// The share of a pool's traffic that is shed goes where steering sends it
// without that pool; what all shed goes to the fallback pool, whose own shedding
// does not count.
func TestShedding(t *testing.T) {
	const n = 40_000
	for _, tt := range []struct {
		name   string
		policy model.SteeringPolicy
		shares []float64
		want   map[string]float64
	}{
		{"nothing", model.SteerFailover, []float64{0}, map[string]float64{"a": 1}},
		{"a part", model.SteerFailover, []float64{.3}, map[string]float64{"a": .7, "b": .3}},
		{"all", model.SteerFailover, []float64{1}, map[string]float64{"b": 1}},
		{"each its own part", model.SteerFailover, []float64{.5, .5}, map[string]float64{"a": .5, "b": .25, "c": .25}},
		{"all of all", model.SteerFailover, []float64{1, 1, 1}, map[string]float64{"c": 1}},
		// Of the half that falls on a, 40 % go to b.
		{"drawn by weight", model.SteerRandom, []float64{.4}, map[string]float64{"a": .3, "b": .7}},
		{"drawn by weight, by open requests", model.SteerLeastOutstandingRequests, []float64{.4}, map[string]float64{"a": .3, "b": .7}},
	} {
		for _, byClient := range []bool{false, true} {
			name := tt.name + " by chance"
			if byClient {
				name = tt.name + " by client"
			}
			t.Run(name, func(t *testing.T) {
				lb := shedding(tt.policy, byClient, tt.shares...)
				counts, r := map[string]int{}, random()
				for i := range n {
					d, ok := Choose(lb, client(i), r, start)
					if !ok {
						t.Fatal("Choose() found nothing")
					}
					counts[d.Pool.Name]++
				}
				for _, p := range []string{"a", "b", "c"} {
					wantCount(t, p, counts[p], n, tt.want[p])
				}
			})
		}
	}
}

// By client it is always the same ones, whichever node they meet; by chance it is
// nobody in particular.
func TestSheddingByClient(t *testing.T) {
	for _, byClient := range []bool{true, false} {
		lb, same := shedding(model.SteerFailover, byClient, .5), shedding(model.SteerFailover, byClient, .5)
		r, changes := random(), 0
		for i := range 1000 {
			first, _ := Choose(lb, client(i), r, start)
			again, _ := Choose(same, client(i), r, start)
			if first.Pool.Name != again.Pool.Name {
				changes++
			}
		}
		if byClient && changes > 0 || !byClient && changes < 400 {
			t.Errorf("by client %v: %d of 1000 clients changed their pool", byClient, changes)
		}
	}
	// Who has no address is shed by chance.
	lb := shedding(model.SteerFailover, true, .5)
	if counts := poolCounts(t, lb, &Facts{}, 1000); counts["a"] < 400 || counts["b"] < 400 {
		t.Errorf("clients without an address: %v", counts)
	}
}

func TestExplainSaysWhatIsShed(t *testing.T) {
	lb := shedding(model.SteerFailover, false, 1)
	if got := shares(Explain(lb, anyone(), random(), start)); got != "a: shed, b 100.00" {
		t.Errorf("Explain() = %s", got)
	}
}

// A retry may leave the pool, for one that steering would take without it.
func TestElsewhere(t *testing.T) {
	for _, tt := range []struct {
		name  string
		spoil func(lb *plan.LoadBalancer)
		want  string
	}{
		{"the next pool", func(*plan.LoadBalancer) {}, "b"},
		{"the fallback pool", func(lb *plan.LoadBalancer) { lb.Default[1].Enabled = false }, "c"},
		{"nothing", func(lb *plan.LoadBalancer) { lb.Default[1].Enabled, lb.Fallback.Enabled = false, false }, ""},
		{"not back to the pool as the last resort", func(lb *plan.LoadBalancer) { lb.Default[1].Enabled, lb.Fallback = false, lb.Default[0] }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			lb := shedding(model.SteerFailover, false)
			d, _ := Choose(lb, anyone(), random(), start)
			tt.spoil(lb)
			got := ""
			if d, ok := Elsewhere(lb, d, anyone(), random(), start); ok {
				got = d.Pool.Name
			}
			if got != tt.want {
				t.Errorf("Elsewhere() = %q, want %q", got, tt.want)
			}
		})
	}
}
