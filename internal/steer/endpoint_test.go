package steer

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"fairlead/internal/health"
	"fairlead/internal/model"
	"fairlead/internal/plan"
)

// endpointPolicies are all of them.
var endpointPolicies = []model.EndpointPolicy{
	model.EndpointRandom, model.EndpointHash, model.EndpointLeastOutstandingRequests, model.EndpointLeastConnections,
	model.EndpointRoundRobin, model.EndpointRingHash, model.EndpointMaglev,
}

// hashPolicies are those that keep a client on an endpoint.
var hashPolicies = []model.EndpointPolicy{model.EndpointHash, model.EndpointRingHash, model.EndpointMaglev}

// client returns the facts of the i-th of many clients.
func client(i int) *Facts {
	return &Facts{Client: netip.AddrFrom4([4]byte{198, byte(i >> 16), byte(i >> 8), byte(i)})}
}

// only wraps a pool into a load balancer.
func only(p *plan.Pool) *plan.LoadBalancer { return balancer(model.SteerFailover, p) }

func TestEndpointsThatTakeTraffic(t *testing.T) {
	for _, tt := range []struct {
		name string
		es   []endpoint
		want string
	}{
		{"disabled and down ones left out", []endpoint{{weight: 1, up: true}, {weight: 1, up: true, disabled: true}, {weight: 1}, {weight: .5, up: true}},
			"a0 66.67, a1: disabled, a2: unhealthy, a3 33.33"},
		{"weight 0 takes nothing", []endpoint{{weight: 1, up: true}, {up: true}}, "a0 100.00, a1: weight 0"},
		{"all of weight 0: evenly among the healthy", []endpoint{{up: true}, {up: true}, {}}, "a0 50.00, a1 50.00, a2: unhealthy"},
		{"only weight 0 is up: it takes all", []endpoint{{weight: 1}, {up: true}}, "a0: unhealthy, a1 100.00"},
	} {
		for _, policy := range endpointPolicies {
			t.Run(tt.name+"/"+string(policy), func(t *testing.T) {
				w := newWorld()
				lb := only(w.poolOf("a", policy, 1, tt.es))
				// Where a client's address decides, the shares are those over
				// all clients, which is what is explained for an unknown one.
				e := Explain(lb, &Facts{}, random(), start)
				if got := endpointShares(e); got != tt.want {
					t.Errorf("endpoints: %s, want %s", got, tt.want)
				}
				const n = 20_000
				counts, r := map[string]int{}, random()
				for i := range n {
					d, ok := Choose(lb, client(i), r, start)
					if !ok {
						t.Fatal("Choose() found nothing")
					}
					counts[d.Endpoint.Name]++
				}
				for _, c := range e.Endpoints {
					got := counts[c.Endpoint.Name]
					if policy == model.EndpointRingHash && c.Share > 0 && c.Share < 1 {
						// The points of a ring are not spread as evenly.
						if p := float64(got) / n; p < c.Share-.1 || p > c.Share+.1 {
							t.Errorf("%s took %.3f, want about %.3f", c.Endpoint.Name, p, c.Share)
						}
						continue
					}
					wantCount(t, c.Endpoint.Name, got, n, c.Share)
				}
			})
		}
	}
}

// Before its first check an endpoint with a monitor takes nothing.
func TestUnknownVerdictTakesNoTraffic(t *testing.T) {
	w := newWorld()
	p := w.pool("a", up(1, 1))
	w.health.RecordForTest(p.Endpoints[1].Health, health.Unknown, health.Result{Failure: "set by a test"}, start)
	if got, want := endpointShares(Explain(only(p), anyone(), random(), start)), "a0 100.00, a1: unknown"; got != want {
		t.Errorf("endpoints: %s, want %s", got, want)
	}
}

// Round robin takes each endpoint as often as its weight says in every cycle,
// evenly spread, and stays exact when one is down.
func TestRoundRobin(t *testing.T) {
	for _, tt := range []struct {
		name string
		es   []endpoint
		want []string
	}{
		{"in turn", up(1, 1, 1), []string{"a0", "a1", "a2", "a0", "a1", "a2"}},
		{"smooth", up(.5, .1, .1), []string{"a0", "a0", "a1", "a0", "a2", "a0", "a0"}},
		{"one of three down", []endpoint{{weight: 1, up: true}, {weight: 1}, {weight: 1, up: true}}, []string{"a0", "a2", "a0", "a2", "a0", "a2"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			lb := only(w.poolOf("a", model.EndpointRoundRobin, 1, tt.es))
			var got []string
			for range tt.want {
				// Explaining in between takes nobody's turn.
				Explain(lb, anyone(), random(), start)
				d, _ := Choose(lb, anyone(), random(), start)
				got = append(got, d.Endpoint.Name)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("turns %v, want %v", got, tt.want)
			}
		})
	}
}

// Requests of one address go to one endpoint as long as the pool is the same,
// whichever way the address is written.
func TestHashKeepsAClient(t *testing.T) {
	for _, policy := range hashPolicies {
		t.Run(string(policy), func(t *testing.T) {
			w := newWorld()
			lb := only(w.poolOf("a", policy, 1, up(1, .5, 1, .25, 1)))
			r := random()
			for i := range 1000 {
				f := client(i)
				first, _ := Choose(lb, f, r, start)
				mapped := &Facts{Client: netip.AddrFrom16(f.Client.As16())}
				for _, again := range []*Facts{f, mapped} {
					if d, _ := Choose(lb, again, r, start); d.Endpoint != first.Endpoint {
						t.Fatalf("%v went to %s, then to %s as %v", f.Client, first.Endpoint.Name, d.Endpoint.Name, again.Client)
					}
				}
			}
			e := Explain(lb, client(7), r, start)
			d, _ := Choose(lb, client(7), r, start)
			for _, c := range e.Endpoints {
				want := 0.0
				if c.Endpoint == d.Endpoint {
					want = 1
				}
				if c.Share != want {
					t.Errorf("%s has a share of %v of the client's requests, want %v", c.Endpoint.Name, c.Share, want)
				}
			}
		})
	}
}

// One of N goes down, or leaves the list: no more clients move than its share
// and 5 %; once it is back, all are where they were.
func TestHashMovesFewClients(t *testing.T) {
	const clients = 20_000
	for _, policy := range hashPolicies {
		for _, n := range []int{3, 10} {
			t.Run(fmt.Sprintf("%s/%d", policy, n), func(t *testing.T) {
				w := newWorld()
				es := up(slices.Repeat([]float64{1}, n)...)
				p := w.poolOf("a", policy, 1, es)
				where := func(p *plan.Pool) []string {
					lb, r := only(p), random()
					keys := make([]string, clients)
					for i := range keys {
						d, ok := Choose(lb, client(i), r, start)
						if !ok {
							t.Fatal("Choose() found nothing")
						}
						keys[i] = d.Endpoint.Key
					}
					return keys
				}
				before := where(p)
				gone := p.Endpoints[1].Key
				compare := func(what string, after []string, strict bool) {
					t.Helper()
					own, moved := 0, 0
					for i := range before {
						if before[i] == gone {
							own++
						}
						if before[i] != after[i] {
							moved++
						}
					}
					limit := own + clients*5/100
					if strict {
						limit = own
					}
					if moved > limit {
						t.Errorf("%s: %d clients moved, want at most %d", what, moved, limit)
					}
				}
				w.set(p, 1, false)
				after := where(p)
				compare("down", after, true) // tables stay: only its own move
				counts := map[string]int{}
				for i := range after {
					if before[i] == gone {
						counts[after[i]]++
					}
				}
				if len(counts) != n-1 {
					t.Errorf("the clients of the endpoint that is down went to %d others, want all %d", len(counts), n-1)
				}
				w.set(p, 1, true)
				if !slices.Equal(before, where(p)) {
					t.Error("with the endpoint back, not all clients are where they were")
				}

				es[1].disabled = true
				compare("removed", where(newWorld().poolOf("a", policy, 1, es)), policy != model.EndpointMaglev)
			})
		}
	}
}

// Moving endpoints about in the list moves no client.
func TestReorderingEndpointsMovesNobody(t *testing.T) {
	for _, policy := range hashPolicies {
		t.Run(string(policy), func(t *testing.T) {
			p := newWorld().poolOf("a", policy, 1, up(1, .5, .25, 1, .75))
			q := newWorld().reordered("a", policy, p, []int{3, 0, 4, 2, 1})
			r := random()
			for i := range 20_000 {
				b, _ := Choose(only(p), client(i), r, start)
				a, _ := Choose(only(q), client(i), r, start)
				if a.Endpoint.Key != b.Endpoint.Key {
					t.Fatalf("client %d moved from %s to %s", i, b.Endpoint.Key, a.Endpoint.Key)
				}
			}
		})
	}
}

// Where the address is unknown the hashing policies draw by weight.
func TestHashWithoutAnAddressDraws(t *testing.T) {
	const n = 20_000
	for _, policy := range hashPolicies {
		t.Run(string(policy), func(t *testing.T) {
			w := newWorld()
			counts := endpointCounts(t, only(w.poolOf("a", policy, 1, up(.4, .5, .6))), &Facts{}, n)
			for slot, p := range []float64{.4 / 1.5, .5 / 1.5, .6 / 1.5} {
				name := fmt.Sprintf("a%d", slot)
				wantCount(t, name, counts[name], n, p)
			}
		})
	}
}

// In a big pool least_* draws before it counts; the shares are the same.
func TestLeastInABigPool(t *testing.T) {
	const n, size = 40_000, 100
	for _, open := range []struct {
		name string
		of   func(slot int) int
	}{
		{"few open", func(slot int) int { return slot % 4 }},
		{"many open", func(slot int) int { return 100 + slot }},
	} {
		t.Run(open.name, func(t *testing.T) {
			w := newWorld()
			es := make([]endpoint, size)
			for slot := range es {
				es[slot] = endpoint{weight: float64(slot%10) / 10, up: slot%7 != 0}
			}
			p := w.poolOf("a", model.EndpointLeastOutstandingRequests, 1, es)
			for slot, e := range p.Endpoints {
				for range open.of(slot) {
					e.Load.RequestStarted()
				}
			}
			lb := only(p)
			e := Explain(lb, anyone(), random(), start)
			counts := endpointCounts(t, lb, anyone(), n)
			for _, c := range e.Endpoints {
				wantCount(t, c.Endpoint.Name, counts[c.Endpoint.Name], n, c.Share)
			}
		})
	}
}

// One endpoint of thousands is found, whichever it is and whatever the policy.
func TestTheLastOneOfThousands(t *testing.T) {
	const size = 2000
	for _, policy := range endpointPolicies {
		for _, tt := range []struct {
			name   string
			weight float64
		}{{"with weight", 1}, {"of weight 0", 0}} {
			t.Run(string(policy)+"/"+tt.name, func(t *testing.T) {
				w := newWorld()
				es := down(slices.Repeat([]float64{.1}, size)...)
				for _, slot := range []int{0, 1777, size - 1} {
					es[slot].weight = tt.weight
				}
				p := w.poolOf("a", policy, 1, es)
				lb, r := only(p), random()
				for _, slot := range []int{0, 1777, size - 1} {
					w.set(p, slot, true)
					for i := range 8 {
						d, ok := Choose(lb, client(i), r, start)
						if !ok || d.Endpoint.Slot != slot {
							t.Fatalf("Choose() = %v, %v, want slot %d", d.Endpoint, ok, slot)
						}
					}
					w.set(p, slot, false)
				}
			})
		}
	}
}

func TestAgain(t *testing.T) {
	for _, policy := range endpointPolicies {
		t.Run(string(policy), func(t *testing.T) {
			w := newWorld()
			p := w.poolOf("a", policy, 1, []endpoint{{weight: 1, up: true}, {weight: 1}, {weight: .5, up: true}, {weight: 1, up: true, disabled: true}})
			lb, r := only(p), random()
			for i := range 1000 {
				d, _ := Choose(lb, client(i), r, start)
				again, ok := Again(d, client(i), r, start)
				if !ok || again.Endpoint == d.Endpoint || again.Endpoint.Slot == 1 || again.Endpoint.Slot == 3 {
					t.Fatalf("Again() after slot %d = %+v, %v", d.Endpoint.Slot, again, ok)
				}
				if again.Pool != d.Pool || again.Reason != d.Reason {
					t.Fatalf("Again() = %s by %v, want the same pool and reason", again.Pool.Name, again.Reason)
				}
			}
			w.set(p, 2, false)
			d, _ := Choose(lb, anyone(), r, start)
			if again, ok := Again(d, anyone(), r, start); ok {
				t.Errorf("Again() = slot %d where no other endpoint is up", again.Endpoint.Slot)
			}

			// As the last resort the others are tried though they are down.
			lb = balancer(model.SteerFailover, w.pool("b", down(1)))
			lb.Fallback = p
			d, _ = Choose(lb, anyone(), r, start)
			again, ok := Again(d, anyone(), r, start)
			if d.Endpoint.Slot != 0 || !ok || !again.Fallback || again.Endpoint.Slot == 0 || again.Endpoint.Slot == 3 {
				t.Errorf("as fallback: slot %d, then %+v, %v, want the one that is up, then one that is enabled", d.Endpoint.Slot, again, ok)
			}
		})
	}
}

// While verdicts change under way, a choice never comes to nothing as long as
// something is up.
func TestChoosingWhileVerdictsChange(t *testing.T) {
	w := newWorld()
	a, b := w.pool("a", up(1)), w.pool("b", up(1, 1))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 3000 {
			w.set(a, 0, i%2 == 0)
			w.set(b, 1, i%3 == 0)
		}
	}()
	lb := balancer(model.SteerFailover, a, b)
	r := rand.NewPCG(3, 4)
	for {
		select {
		case <-done:
			return
		default:
		}
		if _, ok := Choose(lb, anyone(), r, start); !ok {
			t.Fatal("Choose() found nothing though an endpoint is up")
		}
	}
}
