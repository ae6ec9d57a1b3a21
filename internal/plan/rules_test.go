package plan

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"fairlead/internal/model"
)

const rulesBase = `
pools:
  - {name: one, endpoints: [{name: a, address: 192.0.2.1}]}
  - {name: two, endpoints: [{name: b, address: 192.0.2.2}]}
load_balancers:
  - {name: www.example.com, proxied: true, default_pools: [one], fallback_pool: one, rules: [%s]}
`

// key is what the rules of these places make of the load balancer.
func key(b *LoadBalancer, places ...int) (k []byte) {
	for _, i := range places {
		k = AppendOverride(k, &b.Rules[i])
	}
	return k
}

func TestVariants(t *testing.T) {
	b := compiled(t, fmt.Sprintf(rulesBase, strings.Join([]string{
		`{name: last, priority: 9, condition: ssl, overrides: {fallback_pool: two}}`,
		`{name: off, disabled: true, condition: ssl, overrides: {default_pools: [one]}}`,
		`{name: pools, condition: ssl, overrides: {default_pools: [two, one], steering_policy: random, random_steering: {pool_weights: {one: 0.25}}}}`,
		`{name: back, condition: ssl, overrides: {default_pools: [one], adaptive_routing: {failover_across_pools: true}}}`,
		`{name: pinned, condition: ssl, overrides: {session_affinity: client_ip}}`,
		`{name: answer, condition: ssl, fixed_response: {status_code: 301, location: /x}}`,
	}, ", ")), 1, tables(t)).LoadBalancers[0]
	var names []string
	for i, r := range b.Rules {
		names = append(names, r.Name)
		if r.Index != i || (len(r.Overrides()) > 0) == (r.Response != nil) || r.Last != (r.Name == "answer") {
			t.Errorf("rule %d is %+v", i, r)
		}
	}
	if got := strings.Join(names, " "); got != "pools back pinned answer last" {
		t.Fatalf("rules run in the order %s", got)
	}
	if r := b.Rules[3].Response; *r != (Response{Status: 301, Reason: "Moved Permanently", Lines: "Location: /x\r\n"}) {
		t.Errorf("response %+v", r)
	}

	v := b.With(key(b, 0))
	if v.Policy != model.SteerRandom || len(v.Default) != 2 || v.Default[0].Name != "two" || v.Weights[0] != 1 || v.Weights[1] != 0.25 ||
		v.Fallback != b.Fallback || v.AcrossPools || v.Affinity != nil || v.Index != b.Index || v.Name != b.Name {
		t.Errorf("pools: %+v", v)
	}
	v = b.With(key(b, 0, 1, 2, 4))
	if v.Policy != model.SteerRandom || len(v.Default) != 1 || v.Default[0].Name != "one" || v.Fallback.Name != "two" || !v.AcrossPools ||
		v.Affinity == nil || v.Affinity.Kind != model.AffinityClientIP || v.Affinity.Renew {
		t.Errorf("all: %+v", v)
	}
	if b.With(key(b, 0, 1, 2, 4)) != v {
		t.Error("a variant is made twice")
	}
	if len(b.Default) != 1 || b.Policy != model.SteerFailover || b.Fallback.Name != "one" {
		t.Errorf("the load balancer itself has changed: %+v", b)
	}
	if n := testing.AllocsPerRun(100, func() { b.With([]byte{0, 0, 0, 1, 0, 2, 0, 4}) }); n != 0 {
		t.Errorf("%v allocations for a variant that is known", n)
	}
}

// However many combinations clients make, few are kept, and each is right.
func TestVariantsAreBounded(t *testing.T) {
	const n = 12
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{name: r%d, condition: ssl, overrides: {random_steering: {default_weight: %v}}}`, i, float64(i+1)/n))
	}
	b := compiled(t, fmt.Sprintf(rulesBase, strings.Join(list, ", ")), 1, tables(t)).LoadBalancers[0]
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for set := 1; set < 1<<n; set++ {
				var places []int
				for i := range n {
					if set>>i&1 != 0 {
						places = append(places, i)
					}
				}
				last := places[len(places)-1]
				if got, want := b.With(key(b, places...)).Weights[0], float64(last+1)/n; got != want {
					t.Errorf("rules %v: weight %v, want %v", places, got, want)
				}
			}
		})
	}
	all.Wait()
	if got := len(*b.variants.known.Load()); got > maxVariants {
		t.Errorf("%d variants are kept, want at most %d", got, maxVariants)
	}
}
