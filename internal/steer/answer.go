package steer

import (
	"time"

	"fairlead/internal/plan"
)

// Answers chooses what a DNS query is told: a pool, as Choose takes it, and
// endpoints of it, appended to dst. Where all endpoints of the pool have the same
// weight, and no hash decides, these are all that can be used, in an order that
// begins anywhere; else it is one, taken as Choose takes it.
//
// offers says whether an endpoint has what is asked for, an address of a family.
// It plays no part in the choice of the pool: clients that ask for both families
// are not to be led to two places by one policy. So there may be a pool and no
// endpoint. Answers reports false where no pool can be used.
//
// f.Query is to be set. Sessions there are none; f.Keyed leads the same key to the
// same endpoint.
func Answers(lb *plan.LoadBalancer, f *Facts, r Source, now time.Time, offers func(*plan.Endpoint) bool, dst []*plan.Endpoint) (Decision, []*plan.Endpoint, bool) {
	// As in choose, the last endpoint of a pool may have gone.
	var gone *plan.Pool
	for range 2 {
		p, reason := choosePool(lb, f, r, now, gone, nil)
		if p == nil {
			break
		}
		if p.Health.UpCount() > 0 {
			return Decision{Pool: p, Reason: reason}, answers(p, false, f, r, now, offers, dst), true
		}
		gone = p
	}
	if p := lb.Fallback; p != nil && p.Enabled && p.Health.EnabledCount() > 0 {
		return Decision{Pool: p, Reason: ReasonFallback, Fallback: true}, answers(p, true, f, r, now, offers, dst), true
	}
	return Decision{}, dst, false
}

// answers appends the endpoints of a pool that are answered.
func answers(p *plan.Pool, fallback bool, f *Facts, r Source, now time.Time, offers func(*plan.Endpoint) bool, dst []*plan.Endpoint) []*plan.Endpoint {
	c := endpoints{pool: p, not: nobody, now: now, query: true, offers: offers, ignore: fallback && p.Health.UpCount() == 0}
	if !p.Even || c.hashes(f) {
		if slot, ok := c.take(f, r, false); ok {
			dst = append(dst, p.Endpoints[slot])
		}
		return dst
	}
	found := len(dst)
	first := int(r.Uint64() % uint64(len(p.Endpoints)))
	for _, warm := range [...]bool{true, false} {
		for i := range p.Endpoints {
			slot := first + i
			if slot >= len(p.Endpoints) {
				slot -= len(p.Endpoints)
			}
			if c.usable(slot) && (!warm || c.rises(slot, r)) {
				dst = append(dst, p.Endpoints[slot])
			}
		}
		if len(dst) > found {
			break // else all that there is has only begun to rise
		}
	}
	return dst
}
