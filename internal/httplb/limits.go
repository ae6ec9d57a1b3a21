package httplb

import (
	"fairlead/internal/loop"
	"fairlead/internal/model"
	"fairlead/internal/plan"
)

// bound takes up the limits of a new plan.
func (u *upstream) bound(l model.EndpointLimits) {
	u.maxConns.Store(int64(l.Connections))
	u.requests.widen(l.Requests)
	u.conns.widen(l.Connections)
}

// mayConnect waits for room for another connection, where these are bounded. Those
// that nothing uses make room: of this driver at once, of others when they come to
// it.
func (u *upstream) mayConnect(d loop.Driver, e *plan.Endpoint, deadline loop.Time) (*failure, error) {
	l := &e.Pool.Limits
	err := u.conns.enter(d, l.Connections, 0, deadline, always)
	if err == nil {
		return nil, nil
	}
	for _, other := range u.drivers {
		if other.Index() == d.Index() {
			u.dropIdle(d.Index())
		} else {
			other.Go(func() { u.dropIdle(other.Index()) })
		}
	}
	until := min(deadline, loop.Now().Add(l.QueueTimeout))
	switch err = u.conns.enter(d, l.Connections, l.Queue, until, always); err {
	case nil:
		return nil, nil
	case errFull:
		return failFull, err
	}
	return failQueue, err
}

func always() bool { return true }

// dropIdle closes the connection of a driver that was unused for the longest time,
// if somebody waits for its place or is about to.
func (u *upstream) dropIdle(driver int) {
	own := &u.own[driver]
	own.mu.Lock()
	var c *upstreamConn
	if len(own.idle) > 0 {
		c = own.idle[0]
		own.idle = append(own.idle[:0], own.idle[1:]...)
	}
	own.mu.Unlock()
	if c != nil {
		c.discard()
	}
}
