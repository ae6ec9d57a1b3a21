package steer

import (
	"time"

	"fairlead/internal/pick"
	"fairlead/internal/plan"
)

// KeyByClient makes the client's address the key.
func (f *Facts) KeyByClient() { f.Key, f.Keyed = pick.HashAddr(f.Client), true }

// KeyBy makes the hash of a session's key the key.
func (f *Facts) KeyBy(key []byte) { f.Key, f.Keyed = pick.HashBytes(key), true }

// session returns the decision that a client's session makes. It wins over all
// steering and weights, whatever the state of the rest of the pool, and yields
// when its endpoint is down, or disabled and drained, or when its pool is disabled or sheds
// it: then shedBy is the pool, to which the client is not to come back by another
// way.
func session(lb *plan.LoadBalancer, f *Facts, now time.Time) (d Decision, shedBy *plan.Pool) {
	e := f.Session
	switch {
	case e == nil || !e.Pool.Enabled || !e.Health.Up() || !lb.Affinity.Keeps(e, now):
		return Decision{}, nil
	case shedsSession(e.Pool, f):
		return Decision{}, e.Pool
	}
	return Decision{Pool: e.Pool, Endpoint: e, Reason: ReasonSession}, nil
}

// shedsSession reports whether a pool turns a session away: always those of the
// same clients. Where the client is not known, no session is.
func shedsSession(p *plan.Pool, f *Facts) bool {
	return p.Shedding.Sessions > 0 && f.Client.IsValid() && shed(pick.HashAddr(f.Client), p, p.Shedding.Sessions)
}
