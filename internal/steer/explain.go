package steer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"fairlead/internal/geo"
	"fairlead/internal/model"
	"fairlead/internal/plan"
)

// Why a candidate cannot be taken, beside its health.
const (
	droppedDisabled = "disabled"
	droppedWeight   = "weight 0"
	droppedEmpty    = "no enabled endpoint"
	droppedShed     = "shed"
	droppedFull     = "as many requests open as are allowed"
	droppedEjected  = "ejected: requests failed"
	droppedFailed   = "it has failed"
)

// Explanation tells how a decision came about.
type Explanation struct {
	Policy model.SteeringPolicy
	// List names the setting that the candidates are from: "default_pools",
	// or with its key, such as "region_pools.WEU".
	List string
	// Pools are the candidates in the order of the list, under dynamic_latency
	// and proximity sorted by what these go by.
	Pools []PoolCandidate
	// Fallback is the last resort, nil where there is none.
	Fallback *PoolCandidate
	// Endpoints are those of the pool that was chosen last, by slot.
	Endpoints []EndpointCandidate
	// Decision is what was decided; OK is false when nothing can take the
	// request. Of a session it is the session's, and the rest is what would be
	// without it.
	Decision Decision
	OK       bool
}

// PoolCandidate is a pool as steering saw it.
type PoolCandidate struct {
	Pool *plan.Pool
	// Weight is what a draw went by, open requests or connections considered;
	// 0 under policies that do not draw.
	Weight float64
	// Share is the probability that the pool is taken.
	Share float64
	// Latency is the average round trip of the probes; 0 where there is none.
	Latency time.Duration
	// Warming is true while that average does not count under
	// dynamic_latency, or where there is none.
	Warming bool
	// Distance from the client's place in kilometres, below 0 where it is
	// unknown.
	Distance float64
	// Dropped says why the pool cannot be taken; empty where it can.
	Dropped string
}

// EndpointCandidate is an endpoint of the chosen pool as steering saw it.
type EndpointCandidate struct {
	Endpoint *plan.Endpoint
	// Weight is what a draw went by, open requests or connections considered.
	Weight float64
	// Share is the probability that the endpoint is taken once its pool is.
	// Where the client's address decides it is 1 for the one it leads to; in a
	// rotation it is the share of the turns.
	Share float64
	// Dropped says why the endpoint cannot be taken; empty where it can.
	Dropped string
}

// Explain makes the choice that Choose makes of the same arguments and tells
// how. It leaves no trace: the one difference is that it takes no turn of a
// rotation but draws an endpoint by weight.
func Explain(lb *plan.LoadBalancer, f *Facts, r Source, now time.Time) Explanation {
	t := Explanation{Policy: lb.Policy}
	kept, shedBy := session(lb, f, now)
	t.Decision, t.OK = chooseWithout(lb, shedBy, f, r, now, &t)
	if kept.Endpoint != nil {
		t.Decision, t.OK = kept, true
	}
	if lb.Fallback != nil {
		pc := newPoolCandidate(lb.Fallback, &f.Place, now)
		switch {
		case !lb.Fallback.Enabled:
			pc.Dropped = droppedDisabled
		case lb.Fallback.Health.EnabledCount() == 0:
			pc.Dropped = droppedEmpty
		case t.Decision.Fallback:
			pc.Share = 1
		}
		t.Fallback = &pc
	}
	return t
}

// pools writes down the candidates; the one at chosen was taken, if any.
func (t *Explanation) pools(c candidates, chosen int, ok bool) {
	t.List = listName(c.reason, &c.facts.Place)
	t.Pools = nil // of a choice that came to nothing
	order := make([]int, len(c.list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(c.rank(a), c.rank(b)) })

	var sum float64
	var equal bool
	if c.weighted() { // else the weights are of another list
		sum, equal = total(len(c.list), c.weight)
	}
	for _, i := range order {
		pc := newPoolCandidate(c.list[i], &c.facts.Place, c.now)
		pc.Dropped = c.dropped(i)
		switch {
		case pc.Dropped != "":
		case c.weighted() && c.facts.Keyed:
			pc.Weight = c.lb.Weights[i]
			if ok && i == chosen {
				pc.Share = 1
			}
		case c.weighted():
			pc.Weight = c.weight(i)
			if pc.Share = stake(pc.Weight, equal) / sum; pc.Share == 0 {
				pc.Dropped = droppedWeight
			}
		case ok && i == chosen:
			pc.Share = 1
		}
		t.Pools = append(t.Pools, pc)
	}
}

// newPoolCandidate says what is known of a pool whatever the policy.
func newPoolCandidate(p *plan.Pool, place *plan.Place, now time.Time) PoolCandidate {
	d, counts := latency(p, now)
	return PoolCandidate{Pool: p, Latency: d, Warming: !counts, Distance: geo.Distance(place.Position, p.Position)}
}

// listName names the list that candidates are from.
func listName(r Reason, place *plan.Place) string {
	switch r {
	case ReasonGeoPop:
		return "pop_pools." + place.PoP
	case ReasonGeoCountry:
		return "country_pools." + string(place.Country)
	case ReasonGeoRegion:
		return "region_pools." + string(place.Region)
	}
	return "default_pools"
}

// endpoints writes down the endpoints of the pool that was chosen. sure is
// true where the one at chosen was bound to be taken.
func (t *Explanation) endpoints(c endpoints, chosen int, sure bool) {
	t.Endpoints = make([]EndpointCandidate, len(c.pool.Endpoints))
	sum, equal := total(len(c.pool.Endpoints), c.weight)
	for slot, e := range c.pool.Endpoints {
		ec := EndpointCandidate{Endpoint: e, Weight: max(c.weight(slot), 0)}
		share := stake(c.weight(slot), equal) / sum
		switch {
		case !e.Enabled:
			ec.Dropped = droppedDisabled
		case !c.usable(slot):
			ec.Dropped = c.unusable(e)
		case share == 0:
			ec.Dropped = droppedWeight
		case !sure:
			ec.Share = share
		case slot == chosen:
			ec.Share = 1
		}
		t.Endpoints[slot] = ec
	}
}

// unusable says why an endpoint that is enabled cannot be taken.
func (c *endpoints) unusable(e *plan.Endpoint) string {
	switch {
	case e.Slot == c.not:
		return droppedFailed
	case e.Health.Up():
		return droppedFull
	case !e.Health.EjectedUntil().IsZero():
		return droppedEjected
	}
	return e.Health.Verdict().String()
}

// dropped says why a pool cannot be taken.
func (c *candidates) dropped(i int) string {
	switch p := c.list[i]; {
	case c.usable(i):
		return ""
	case !p.Enabled:
		return droppedDisabled
	case p.Health.Usable() && c.sheds(p):
		return droppedShed
	default:
		return fmt.Sprintf("critical: %d of %d healthy, %d needed",
			p.Health.UpCount(), p.Health.EnabledCount(), max(p.Health.Minimum(), 1))
	}
}
