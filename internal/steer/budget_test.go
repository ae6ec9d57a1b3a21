package steer

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"fairlead/internal/model"
	"fairlead/internal/pick"
	"fairlead/internal/plan"
)

// busy makes a load balancer of four pools of n endpoints.
func busy(policy model.SteeringPolicy, inPool model.EndpointPolicy, n int) (*plan.LoadBalancer, *Facts) {
	w := newWorld()
	var pools []*plan.Pool
	for i := range 4 {
		p := w.poolOf(string(rune('a'+i)), inPool, 1, up(slices.Repeat([]float64{1}, n)...))
		p.Position = at(float64(i*10), 20)
		w.measure(p, time.Duration(10+i)*time.Millisecond, start.Add(-time.Hour))
		pools = append(pools, p)
	}
	lb := weighted(policy, pools, []float64{.7, .3, .5, .1})
	lb.Fallback = pools[3]
	lb.Regions = map[model.Region][]*plan.Pool{"WEU": pools}
	f := anyone()
	f.Place = plan.Place{PoP: "FRA", Country: "DE", Region: "WEU", Position: at(50, 8)}
	return lb, f
}

func TestChoosingAllocatesNothing(t *testing.T) {
	for _, inPool := range endpointPolicies {
		for _, n := range []int{4, many} {
			lb, f := busy(model.SteerFailover, inPool, n)
			pools := lb.Default
			for _, policy := range builtPolicies {
				for name, usable := range map[string][]bool{
					"all up":    {true, true, true, true},
					"half down": {false, true, false, true},
					"fallback":  {false, false, false, true},
				} {
					lb.Policy, lb.Default = policy, pools
					lb.Regions = map[model.Region][]*plan.Pool{"WEU": pools}
					if name == "fallback" {
						lb.Default, lb.Regions["WEU"] = pools[:3], pools[:3]
					}
					lb.Table = pick.NewAlias(lb.Weights[:len(lb.Default)])
					for i, p := range pools {
						p.Enabled = usable[i]
					}
					r := random()
					if allocs := testing.AllocsPerRun(20, func() {
						d, ok := Choose(lb, f, r, start)
						if !ok || d.Fallback != (name == "fallback") {
							t.Fatalf("Choose() = %+v, %v", d, ok)
						}
						if _, ok = Again(d, f, r, start); !ok {
							t.Fatal("Again() found nothing")
						}
					}); allocs != 0 {
						t.Errorf("%s, %s of %d, %s: a choice allocates %v times", policy, inPool, n, name, allocs)
					}
				}
			}
		}
	}
}

var sink Decision

func BenchmarkChoose(b *testing.B) {
	run := func(policy model.SteeringPolicy, inPool model.EndpointPolicy, n int) {
		b.Run(fmt.Sprintf("%s/%s/%d", policy, inPool, n), func(b *testing.B) {
			lb, f := busy(policy, inPool, n)
			r := random()
			b.ReportAllocs()
			for b.Loop() {
				sink, _ = Choose(lb, f, r, start)
			}
		})
	}
	for _, policy := range builtPolicies {
		run(policy, model.EndpointRandom, 4)
	}
	for _, inPool := range endpointPolicies[1:] {
		run(model.SteerFailover, inPool, 4)
	}
	for _, inPool := range endpointPolicies {
		run(model.SteerFailover, inPool, 2000)
	}
}
