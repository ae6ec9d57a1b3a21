package steer

import (
	"testing"

	"fairlead/internal/model"
	"fairlead/internal/plan"
)

// What plan.Compile lays out is what steering takes it for: weights that leave
// out disabled endpoints, pools by position, and pools without a monitor up.
func TestChoosingFromACompiledPlan(t *testing.T) {
	pool := func(name string, policy model.EndpointPolicy, endpoints ...model.Endpoint) model.Pool {
		var p model.Pool
		p.SetDefaults()
		p.Name, p.Endpoints, p.EndpointSteering.Policy = name, endpoints, policy
		return p
	}
	endpoint := func(name, address string, weight float64, enabled bool) model.Endpoint {
		return model.Endpoint{Name: name, Address: address, Weight: weight, Enabled: enabled}
	}
	for _, policy := range endpointPolicies {
		t.Run(string(policy), func(t *testing.T) {
			var lb model.LoadBalancer
			lb.SetDefaults()
			lb.Name, lb.DefaultPools, lb.FallbackPool = "www.example.com", []string{"one", "two", "three"}, "three"
			lb.SteeringPolicy = model.SteerRandom
			lb.RandomSteering = model.RandomSteering{DefaultWeight: .6, PoolWeights: map[string]float64{"one": .8, "two": .5}}
			c := &model.Config{
				Pools: []model.Pool{
					pool("three", policy, endpoint("c0", "192.0.2.30", 1, true)),
					pool("two", policy, endpoint("b0", "192.0.2.20", 1, true)),
					pool("one", policy, endpoint("a0", "192.0.2.10", 1, false), endpoint("a1", "192.0.2.11", .5, true), endpoint("a2", "192.0.2.12", 0, true)),
				},
				LoadBalancers: []model.LoadBalancer{lb},
			}
			w := newWorld()
			p, err := plan.Compile(c, nil, plan.Tables{Health: w.health, Load: &w.load})
			if err != nil {
				t.Fatal(err)
			}
			compiled := p.LoadBalancers[0]
			e := Explain(compiled, &Facts{}, random(), start)
			if got, want := shares(e), "one 42.11, two 26.32, three 31.58"; got != want {
				t.Errorf("pools: %s, want %s", got, want)
			}
			compiled.Default[0].Enabled, compiled.Default[1].Enabled, compiled.Default[2].Enabled = true, false, false
			for i := range 200 {
				d, ok := Choose(compiled, client(i), random(), start)
				if !ok || d.Endpoint.Name != "a1" {
					t.Fatalf("Choose() = %+v, %v, want the one endpoint that is enabled and has weight", d.Endpoint, ok)
				}
			}
		})
	}
}
