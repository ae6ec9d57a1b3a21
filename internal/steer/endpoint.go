package steer

import (
	"math/bits"
	"time"

	"fairlead/internal/model"
	"fairlead/internal/pick"
	"fairlead/internal/plan"
)

const (
	// nobody is the slot that is left out when none is.
	nobody = -1
	// turns is how many turns of a rotation, points of a ring or attempts at
	// a Maglev table are taken before only the endpoints that can be used are
	// looked at. A choice has to end even when one of thousands is left.
	turns = 128
	// many is the number of endpoints from which on it is faster to draw one
	// and to ask how much it has open than to ask all.
	many = 64
)

// endpoints are the endpoints of a pool, by slot.
type endpoints struct {
	pool   *plan.Pool
	ignore bool // of health: the last resort
	room   bool // those that have no room are left out
	not    int  // this slot is left out
	query  bool // nothing open plays a part
	now    time.Time
	offers func(*plan.Endpoint) bool // those that do not are left out; nil for all
}

// endpointIn takes an endpoint of a pool, other than the one in slot not; nil
// when none can be used. Those with room for another request come first, unless a
// key decides, which leads to the same endpoint at every node. In the fallback pool
// the endpoints that are up come before all that are enabled.
func endpointIn(p *plan.Pool, fallback bool, not int, f *Facts, r Source, now time.Time, t *Explanation) *plan.Endpoint {
	c := endpoints{pool: p, not: not, now: now, room: p.Limits.Requests > 0 && !f.Keyed}
	slot, ok := c.take(f, r, t != nil)
	if !ok && c.room {
		c.room = false
		slot, ok = c.take(f, r, t != nil)
	}
	if !ok && fallback {
		c.ignore = true
		slot, ok = c.take(f, r, t != nil)
	}
	if t != nil {
		t.endpoints(c, slot, ok && c.hashes(f))
	}
	if !ok {
		return nil
	}
	return p.Endpoints[slot]
}

// hashes reports whether a hash decides: of the client's address, or the key.
func (c *endpoints) hashes(f *Facts) bool {
	if f.Keyed {
		return true
	}
	switch c.pool.Policy {
	case model.EndpointHash, model.EndpointRingHash, model.EndpointMaglev:
		return f.Client.IsValid()
	}
	return false
}

// take returns the slot of the endpoint to use. look is true where the choice
// is not acted on: it then takes no turn of a rotation from those that are.
//
// A table of all slots is asked first. Where the endpoints that it names are
// not usable, time after time, a pass over all slots finds one: tables cost the
// same whatever the number of endpoints, passes are certain.
func (c *endpoints) take(f *Facts, r Source, look bool) (int, bool) {
	p := c.pool
	if !c.ignore && p.Health.UpCount() == 0 {
		return 0, false
	}
	if f.Keyed {
		return c.byKey(f.Key)
	}
	if c.hashes(f) {
		return c.byHash(pick.HashAddr(f.Client))
	}
	switch p.Policy {
	case model.EndpointRoundRobin:
		if p.Rotation != nil && !look {
			for range min(turns, p.Rotation.Len()) {
				if slot := p.Rotation.At(p.Load.Turn()); c.usable(slot) && c.rises(slot, r) {
					return slot, true
				}
			}
		}
	case model.EndpointLeastOutstandingRequests, model.EndpointLeastConnections:
		if p.Table != nil && len(p.Endpoints) >= many {
			for range tries {
				// Drawn by weight and kept with probability 1/(open+1).
				slot := p.Table.Pick(r.Uint64())
				if keep, _ := bits.Mul64(r.Uint64(), uint64(c.open(slot)+1)); keep == 0 && c.usable(slot) && c.rises(slot, r) {
					return slot, true
				}
			}
		}
	default:
		if p.Table != nil {
			for range tries {
				if slot := p.Table.Pick(r.Uint64()); c.usable(slot) && c.rises(slot, r) {
					return slot, true
				}
			}
		}
	}
	return draw(len(p.Endpoints), c.weight, r)
}

// byHash returns the slot that a client hash leads to.
func (c *endpoints) byHash(hash uint64) (int, bool) {
	switch p := c.pool; {
	case p.Policy == model.EndpointRingHash && p.Ring != nil:
		first := p.Ring.Lookup(hash)
		for i := range min(turns, p.Ring.Len()) {
			if slot := p.Ring.At(first + i); c.usable(slot) {
				return slot, true
			}
		}
	case p.Policy == model.EndpointMaglev && p.Maglev != nil:
		for i := range uint64(turns) {
			if slot := p.Maglev.Lookup(hash, i); c.usable(slot) {
				return slot, true
			}
		}
	}
	return c.byKey(hash)
}

// byKey returns the slot that a hash leads to by rendezvous hashing. What is open
// plays no part in it, since other nodes have other counts.
func (c *endpoints) byKey(hash uint64) (int, bool) {
	return rendezvous(len(c.pool.Endpoints), hash,
		func(slot int) uint64 { return c.pool.Endpoints[slot].Hash },
		func(slot int) float64 {
			if !c.usable(slot) {
				return unusable
			}
			return c.pool.Endpoints[slot].Weight
		})
}

// usable reports whether the endpoint may be taken at all.
func (c *endpoints) usable(slot int) bool {
	if c.offers != nil && !c.offers(c.pool.Endpoints[slot]) {
		return false
	}
	if slot == c.not || c.room && c.pool.Endpoints[slot].Load.Requests() >= int64(c.pool.Limits.Requests) {
		return false
	}
	if c.ignore {
		return c.pool.Endpoints[slot].Enabled
	}
	return c.pool.Health.Up(slot)
}

// weight is what a draw goes by.
func (c *endpoints) weight(slot int) float64 {
	if !c.usable(slot) {
		return unusable
	}
	return c.pool.Endpoints[slot].Weight * c.risen(slot) / float64(c.open(slot)+1)
}

// leastRisen is what an endpoint that slowly starts begins with: a share too small
// to be noticed would never warm it.
const leastRisen = 0.1

// risen returns the share of its weight that an endpoint has while it slowly
// starts: from a tenth on it rises evenly, as in Envoy's slow start mode with an
// aggression of 1.
func (c *endpoints) risen(slot int) float64 {
	p := c.pool
	if p.SlowStart == 0 {
		return 1
	}
	e := p.Endpoints[slot]
	since := e.Health.Since()
	if e.Since.After(since) {
		since = e.Since
	}
	return min(max(float64(c.now.Sub(since))/float64(p.SlowStart), leastRisen), 1)
}

// rises takes an endpoint with the probability that it has risen to.
func (c *endpoints) rises(slot int, r Source) bool {
	risen := c.risen(slot)
	return risen == 1 || float64(r.Uint64()>>11)/(1<<53) < risen
}

// open returns what the pool's policy counts at the endpoint; 0 where it
// counts nothing.
func (c *endpoints) open(slot int) int64 {
	if c.query {
		return 0
	}
	switch c.pool.Policy {
	case model.EndpointLeastOutstandingRequests:
		return max(c.pool.Endpoints[slot].Load.Requests(), 0)
	case model.EndpointLeastConnections:
		return max(c.pool.Endpoints[slot].Load.Connections(), 0)
	}
	return 0
}
