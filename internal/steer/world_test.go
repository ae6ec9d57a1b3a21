package steer

import (
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead/internal/health"
	"fairlead/internal/load"
	"fairlead/internal/model"
	"fairlead/internal/pick"
	"fairlead/internal/plan"
)

// start is when all tests choose.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// anyone is a client of whom only the address is known.
func anyone() *Facts { return &Facts{Client: netip.MustParseAddr("192.0.2.1")} }

// random is a source that makes failures repeatable.
func random() *rand.PCG { return rand.NewPCG(1, 2) }

// world holds the tables that pools of a test are observed in.
type world struct {
	health *health.Table
	load   load.Table
	// slots of Maglev tables, 0 for the usual number.
	slots int
}

func newWorld() *world {
	return &world{health: health.NewTable(slog.New(slog.DiscardHandler))}
}

// endpoint is how a test describes one: the zero value is of weight 0, enabled
// and down.
type endpoint struct {
	weight   float64
	up       bool
	disabled bool
}

// up returns endpoints that are up, one for each weight.
func up(weights ...float64) []endpoint {
	var es []endpoint
	for _, w := range weights {
		es = append(es, endpoint{weight: w, up: true})
	}
	return es
}

// down returns endpoints that are down, one for each weight.
func down(weights ...float64) []endpoint {
	var es []endpoint
	for _, w := range weights {
		es = append(es, endpoint{weight: w})
	}
	return es
}

// poolOf makes a pool as the plan does. Its endpoints have a monitor.
func (w *world) poolOf(name string, policy model.EndpointPolicy, minimum int, es []endpoint) *plan.Pool {
	keys := make([]string, len(es))
	for slot := range keys {
		keys[slot] = fmt.Sprintf("10.%d.%d.%d:80", name[0], slot>>8, slot&255)
	}
	return w.build(name, policy, minimum, es, keys)
}

// build is poolOf with the addresses of the endpoints.
func (w *world) build(name string, policy model.EndpointPolicy, minimum int, es []endpoint, keys []string) *plan.Pool {
	p := &plan.Pool{
		Name: name, Enabled: true, Policy: policy, WarmUp: 10 * time.Minute,
		Load: w.load.Counter(load.Key{Pool: name}),
	}
	var members []health.Member
	var weights []float64
	for slot, e := range es {
		address := keys[slot]
		k := health.Key{Pool: name, Endpoint: fmt.Sprintf("%s%d", name, slot), Address: address}
		pe := &plan.Endpoint{
			Slot: slot, Name: k.Endpoint, Pool: p, Key: address, Hash: pick.HashKey(address),
			Weight: e.weight, Enabled: !e.disabled,
			Health: w.health.Endpoint(k, true),
			Load:   w.load.Counter(load.Key{Pool: name, Endpoint: k.Endpoint, Address: address}),
		}
		p.Endpoints = append(p.Endpoints, pe)
		w.set(p, slot, e.up) // before there is a view to refresh each time
		members = append(members, health.Member{Endpoint: pe.Health, Enabled: pe.Enabled})
		if pe.Enabled {
			weights = append(weights, e.weight)
		} else {
			weights = append(weights, 0)
		}
	}
	p.Health = w.health.Pool(name, members, minimum)
	p.Even = true
	for i, e := range enabledOf(p, false) {
		p.Even = p.Even && (i == 0 || e.Weight == enabledOf(p, false)[0].Weight)
	}
	switch policy {
	case model.EndpointRoundRobin:
		p.Rotation = pick.NewRotation(weights)
	case model.EndpointRingHash:
		p.Ring = pick.NewRing(keys, weights, 1024, 8<<20)
	case model.EndpointMaglev:
		p.Maglev = pick.NewMaglev(keys, weights, w.slots)
	case model.EndpointHash:
	default:
		p.Table = pick.NewAlias(weights)
	}
	return p
}

// pool makes a pool with random endpoint steering.
func (w *world) pool(name string, es []endpoint) *plan.Pool {
	return w.poolOf(name, model.EndpointRandom, 1, es)
}

// set turns an endpoint up or down. The result says that it failed in either
// case, so that no round trip is measured.
func (w *world) set(p *plan.Pool, slot int, up bool) {
	v := health.Unhealthy
	if up {
		v = health.Healthy
	}
	w.health.RecordForTest(p.Endpoints[slot].Health, v, health.Result{Failure: "set by a test"}, start.Add(-time.Hour))
}

// measure records a round trip of a pool's first endpoint.
func (w *world) measure(p *plan.Pool, rtt time.Duration, at time.Time) {
	w.health.RecordForTest(p.Endpoints[0].Health, p.Endpoints[0].Health.Verdict(), health.Result{RTT: rtt}, at)
}

// balancer makes a load balancer with weight 1 for each pool.
func balancer(policy model.SteeringPolicy, pools ...*plan.Pool) *plan.LoadBalancer {
	return weighted(policy, pools, slices.Repeat([]float64{1}, len(pools)))
}

// weighted makes a load balancer with weights for its pools.
func weighted(policy model.SteeringPolicy, pools []*plan.Pool, weights []float64) *plan.LoadBalancer {
	return &plan.LoadBalancer{Name: "www", Policy: policy, Default: pools, Weights: weights, Table: pick.NewAlias(weights)}
}

// at is the point of a latitude and a longitude in degrees.
func at(latitude, longitude float64) plan.Position {
	lat, lon := latitude*math.Pi/180, longitude*math.Pi/180
	return plan.Position{X: math.Cos(lat) * math.Cos(lon), Y: math.Cos(lat) * math.Sin(lon), Z: math.Sin(lat)}
}

// choice makes one choice and returns "pool reason", or "none".
func choice(lb *plan.LoadBalancer, f *Facts) string {
	d, ok := Choose(lb, f, random(), start)
	if !ok {
		return "none"
	}
	return d.Pool.Name + " " + d.Reason.String()
}

// poolCounts makes n choices and counts the pools.
func poolCounts(t *testing.T, lb *plan.LoadBalancer, f *Facts, n int) map[string]int {
	t.Helper()
	counts, r := map[string]int{}, random()
	for range n {
		d, ok := Choose(lb, f, r, start)
		if !ok {
			t.Fatal("Choose() found nothing")
		}
		counts[d.Pool.Name]++
	}
	return counts
}

// endpointCounts makes n choices and counts the endpoints.
func endpointCounts(t *testing.T, lb *plan.LoadBalancer, f *Facts, n int) map[string]int {
	t.Helper()
	counts, r := map[string]int{}, random()
	for range n {
		d, ok := Choose(lb, f, r, start)
		if !ok {
			t.Fatal("Choose() found nothing")
		}
		counts[d.Endpoint.Name]++
	}
	return counts
}

// slack is how far a count of n trials may be from n*p; a right distribution
// is further off less than once in a billion times.
func slack(p float64, n int) float64 { return 7*math.Sqrt(float64(n)*p*(1-p)) + 10 }

// wantCount checks one count against its probability.
func wantCount(t interface {
	Helper()
	Errorf(string, ...any)
}, name string, got, n int, p float64) {
	t.Helper()
	if math.Abs(float64(got)-p*float64(n)) > slack(p, n) {
		t.Errorf("%s: %d of %d, want %.0f ± %.0f", name, got, n, p*float64(n), slack(p, n))
	}
}

// shares renders what Explain says of pools: "a 33.33 b 66.67 c: weight 0".
func shares(e Explanation) string {
	var parts []string
	for _, p := range e.Pools {
		if p.Dropped != "" {
			parts = append(parts, p.Pool.Name+": "+p.Dropped)
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %.2f", p.Pool.Name, p.Share*100))
	}
	return strings.Join(parts, ", ")
}

// endpointShares renders what Explain says of endpoints.
func endpointShares(e Explanation) string {
	var parts []string
	for _, c := range e.Endpoints {
		if c.Dropped != "" {
			parts = append(parts, c.Endpoint.Name+": "+c.Dropped)
			continue
		}
		parts = append(parts, fmt.Sprintf("%s %.2f", c.Endpoint.Name, c.Share*100))
	}
	return strings.Join(parts, ", ")
}

// reordered makes a pool of the endpoints of p in another order.
func (w *world) reordered(name string, policy model.EndpointPolicy, p *plan.Pool, order []int) *plan.Pool {
	var keys []string
	var es []endpoint
	for _, slot := range order {
		e := p.Endpoints[slot]
		keys = append(keys, e.Key)
		es = append(es, endpoint{weight: e.Weight, up: p.Health.Up(slot), disabled: !e.Enabled})
	}
	return w.build(name, policy, 1, es, keys)
}
