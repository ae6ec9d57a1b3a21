package plan

import (
	"time"

	"fairlead/internal/model"
)

// An endpoint that was disabled or removed keeps the sessions that it has until its
// drain ends; see [Affinity.Keeps]. It stays in its pool for that long, as one that
// is disabled, and is probed. Since when it leaves is known by the plan before.

// DrainRest is how long an endpoint stays known once no session keeps it: what is
// left of sessions at it, such as open WebSockets, is ended meanwhile.
const DrainRest = 10 * time.Second

// Keeps reports whether sessions at an endpoint may go on there, as far as its
// declaration goes.
func (a *Affinity) Keeps(e *Endpoint, now time.Time) bool {
	return e.Enabled || a != nil && e.Leaving() && now.Before(e.Left.Add(a.Drain))
}

// Leaving reports whether the endpoint was disabled or removed while this process
// served it.
func (e *Endpoint) Leaving() bool { return !e.Left.IsZero() }

// Draining reports whether sessions of some load balancer may still go on at an
// endpoint that leaves.
func (e *Endpoint) Draining(now time.Time) bool { return now.Before(e.Until) }

// NextDrained returns when the next endpoint is to be forgotten, or to be probed no
// longer, because its drain is over: then the plan is to be compiled again. It is the
// zero time where there is none.
func (p *Plan) NextDrained() (next time.Time) {
	for _, e := range p.Endpoints {
		if e.Until.IsZero() {
			continue
		}
		if end := e.Until.Add(DrainRest); next.IsZero() || end.Before(next) {
			next = end
		}
	}
	return next
}

// drains returns the longest drain of each pool's sessions, of all load balancers
// that have it.
func drains(c *model.Config) map[string]time.Duration {
	longest := make(map[string]time.Duration)
	for i := range c.LoadBalancers {
		b := &c.LoadBalancers[i]
		if !b.Enabled {
			continue
		}
		d := drain(b)
		for j := range b.Rules {
			if o := b.Rules[j].Overrides; o != nil {
				d = max(d, drain(o.Apply(b)))
			}
		}
		for pool := range b.Candidates() {
			longest[pool] = max(longest[pool], d)
		}
	}
	return longest
}

// drain returns how long sessions of a load balancer stay at an endpoint that leaves.
func drain(b *model.LoadBalancer) time.Duration {
	if !b.Proxied {
		return 0
	}
	if hasCookie(b.SessionAffinity) || b.SessionAffinity == model.AffinityHeader {
		return b.SessionAffinityAttributes.DrainDuration
	}
	return 0
}

// leave notes that endpoints of p are about to leave, and adds those that the plan
// before has and the file has no more.
func (k *compiler) leave(p *Pool, m *model.Pool, monitored bool) error {
	before := k.before[p.Name]
	if before == nil {
		return nil
	}
	enabled := make(map[uint64]time.Time)
	for _, was := range before.Endpoints {
		if was.Enabled {
			enabled[was.Session] = was.Since
		}
	}
	for _, e := range p.Endpoints {
		if since, ok := enabled[e.Session]; ok {
			e.Since = since
		} else {
			e.Since = k.now
		}
	}
	declared := make(map[uint64]*Endpoint, len(p.Endpoints))
	for _, e := range p.Endpoints {
		declared[e.Session] = e
	}
	for _, was := range before.Endpoints {
		left := was.Left
		if was.Enabled {
			left = k.now
		}
		until := left.Add(k.drains[p.Name])
		if until.Before(was.Until) { // what is open goes on by the drain that it began under
			until = was.Until
		}
		over := left.IsZero() || until.Equal(left) || !k.now.Before(until.Add(DrainRest))
		switch e := declared[was.Session]; {
		case over, e != nil && e.Enabled:
		case e != nil:
			e.Left, e.Until = left, until
		default:
			gone := *was.declared
			gone.Enabled = false
			e, err := k.endpoint(p, &gone, m.DefaultPort(), monitored)
			if err != nil {
				return err
			}
			e.Left, e.Until, e.Removed = left, until, true
			p.Endpoints = append(p.Endpoints, e)
		}
	}
	return nil
}
