package steer

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"fairlead/internal/model"
	"fairlead/internal/plan"
)

// busy makes a load balancer of four pools of n endpoints for each policy.
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
	for _, policy := range builtPolicies {
		for _, inPool := range endpointPolicies {
			for _, n := range []int{4, 200} {
				for _, state := range []string{"up", "half down", "fallback"} {
					name := fmt.Sprintf("%s/%s/%d/%s", policy, inPool, n, state)
					lb, f := busy(policy, inPool, n)
					for i, p := range lb.Default {
						p.Enabled = state != "fallback" || i == 3
						if state == "half down" {
							p.Enabled = i%2 == 0
						}
					}
					if state == "fallback" {
						lb.Default = lb.Default[:3]
						lb.Weights = lb.Weights[:3]
						lb.Table = nil
						lb.Regions = nil
					}
					r := random()
					now := start
					if allocs := testing.AllocsPerRun(50, func() {
						d, ok := Choose(lb, f, r, now)
						if !ok {
							t.Fatalf("%s: Choose() found nothing", name)
						}
						if _, ok = Again(d, lb, f, r); !ok {
							t.Fatalf("%s: Again() found nothing", name)
						}
					}); allocs != 0 {
						t.Errorf("%s: a choice allocates %v times", name, allocs)
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
