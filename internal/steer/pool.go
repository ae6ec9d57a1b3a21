package steer

import (
	"math"
	"time"

	"fairlead/internal/model"
	"fairlead/internal/plan"
)

// candidates are the pools that a policy chooses from, in failover order.
type candidates struct {
	lb     *plan.LoadBalancer
	facts  *Facts
	now    time.Time
	list   []*plan.Pool
	reason Reason
	not    *plan.Pool // is left out
	salt   uint64     // of what is shed by chance
}

// choosePool takes a pool by the policy of lb, other than not; nil when no
// candidate can be used.
func choosePool(lb *plan.LoadBalancer, f *Facts, r Source, now time.Time, not *plan.Pool, t *Explanation) (*plan.Pool, Reason) {
	c := candidates{lb: lb, facts: f, now: now, not: not}
	if lb.Sheds {
		c.salt = r.Uint64()
	}
	c.list, c.reason = list(lb, &f.Place)
	i, ok := c.take(r)
	if t != nil {
		t.pools(c, i, ok)
	}
	if !ok {
		return nil, ReasonNone
	}
	return c.list[i], c.because(i)
}

// list returns the candidates and the reason for which one of them is taken.
// In geo steering the first list that is found is the list: when all of its
// pools are out, the fallback pool follows, not the next wider list.
func list(lb *plan.LoadBalancer, place *plan.Place) ([]*plan.Pool, Reason) {
	switch lb.Policy {
	case model.SteerGeo:
		if l := lb.PoPs[place.PoP]; len(l) > 0 {
			return l, ReasonGeoPop
		}
		if l := lb.Countries[place.Country]; len(l) > 0 {
			return l, ReasonGeoCountry
		}
		if l := lb.Regions[place.Region]; len(l) > 0 {
			return l, ReasonGeoRegion
		}
		return lb.Default, ReasonGeoDefault
	case model.SteerRandom:
		return lb.Default, ReasonRandom
	case model.SteerLeastOutstandingRequests:
		return lb.Default, ReasonLeastOutstanding
	case model.SteerLeastConnections:
		return lb.Default, ReasonLeastConnections
	case model.SteerDynamicLatency:
		return lb.Default, ReasonDynamicLatency
	case model.SteerProximity:
		return lb.Default, ReasonProximity
	}
	return lb.Default, ReasonFailover
}

// weighted reports whether the policy draws; the others take the best.
func (c *candidates) weighted() bool {
	return c.reason == ReasonRandom || c.reason == ReasonLeastOutstanding || c.reason == ReasonLeastConnections
}

// take returns the position of the pool to use.
func (c *candidates) take(r Source) (int, bool) {
	if !c.weighted() {
		return c.best()
	}
	if c.facts.Keyed {
		return rendezvous(len(c.list), c.facts.Key, func(i int) uint64 { return c.list[i].Hash }, c.share)
	}
	if c.reason == ReasonRandom && c.lb.Table != nil {
		// The draw below by other means, for the usual case.
		for range tries {
			if i := c.lb.Table.Pick(r.Uint64()); c.usable(i) {
				return i, true
			}
		}
	}
	return draw(len(c.list), c.weight, r)
}

// best returns the usable candidate of the lowest rank, the first of equals.
func (c *candidates) best() (best int, ok bool) {
	lowest := math.Inf(1)
	for i := range c.list {
		if !c.usable(i) {
			continue
		}
		if rank := c.rank(i); !ok || rank < lowest {
			best, lowest, ok = i, rank, true
		}
	}
	return best, ok
}

// usable reports whether the candidate may be taken at all.
func (c *candidates) usable(i int) bool {
	p := c.list[i]
	return p.Enabled && p.Health.Usable() && p != c.not && !c.sheds(p)
}

// share is the weight that was declared, whatever is open.
func (c *candidates) share(i int) float64 {
	if !c.usable(i) {
		return unusable
	}
	return c.lb.Weights[i]
}

// weight is what a draw goes by. The counts are what the planes have open at
// the pool now: with a plane that counts nothing, plain weights decide.
func (c *candidates) weight(i int) float64 {
	w := c.share(i)
	if w < 0 || c.facts.Query {
		return w
	}
	switch c.reason {
	case ReasonLeastOutstanding:
		w /= float64(max(c.list[i].Load.Requests(), 0) + 1)
	case ReasonLeastConnections:
		w /= float64(max(c.list[i].Load.Connections(), 0) + 1)
	}
	return w
}

// rank is what the best candidate has least of. Where nothing is known about a
// pool it ranks behind all pools of which something is, and those that are
// equal keep failover order.
func (c *candidates) rank(i int) float64 {
	switch c.reason {
	case ReasonDynamicLatency:
		if d, counts := latency(c.list[i], c.now); counts {
			return float64(d)
		}
		return math.Inf(1)
	case ReasonProximity:
		return away(c.facts.Place.Position, c.list[i].Position)
	}
	return 0
}

// because returns the reason for which candidate i was taken.
func (c *candidates) because(i int) Reason {
	if math.IsInf(c.rank(i), 1) {
		if c.reason == ReasonDynamicLatency {
			return ReasonLatencyWarming
		}
		return ReasonPlaceUnknown
	}
	return c.reason
}

// latency returns the average round trip of a pool's probes and whether it
// counts: it does once it has run for the pool's warm-up time, so that a few
// lucky probes of a new pool do not attract all traffic. A pool without a
// monitor never has one.
func latency(p *plan.Pool, now time.Time) (d time.Duration, counts bool) {
	profile := p.Health.Profile()
	d, ok := profile.Value()
	return d, ok && now.Sub(profile.Since()) >= p.WarmUp
}

// away grows with the distance of two places: it is the negative dot product,
// from -1 (the same place) to 1 (opposite ends), and infinite where a place is
// unknown.
func away(a, b plan.Position) float64 {
	if !a.Known() || !b.Known() {
		return math.Inf(1)
	}
	return -a.Dot(b)
}
