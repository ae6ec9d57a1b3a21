package httplb

import (
	"fairlead/internal/h2"
	"fairlead/internal/loop"
	"fairlead/internal/model"
	"fairlead/internal/plan"
)

// limitTo takes up the limits of a new plan.
func (u *upstream) limitTo(l model.EndpointLimits) {
	u.requests.set(l.Requests)
	u.conns.set(l.Connections)
}

// mayConnect waits for room for another connection, where these are bounded. Those
// that nothing uses make room, of whichever driver.
func (u *upstream) mayConnect(d loop.Driver, e *plan.Endpoint, alive func() bool) (*failure, error) {
	l := &e.Pool.Limits
	err := u.conns.enter(d, l.Queue, loop.Now().Add(l.QueueTimeout), func() {
		for _, other := range u.drivers {
			other.Go(func() { u.makeRoom(other.Index()) })
		}
	}, alive)
	switch err {
	case nil:
		return nil, nil
	case errFull:
		return failFull, err
	case errQueue:
		return failQueue, err
	}
	return failQueue, err // the client has gone, which whoever asks finds out
}

// makeRoom closes a connection of a driver that nothing uses, if somebody waits for
// its place: the one that was unused for the longest time.
func (u *upstream) makeRoom(driver int) {
	if !u.conns.waits.Load() {
		return
	}
	own := &u.own[driver]
	var idle *upstreamConn
	var client *h2.Client
	own.mu.Lock()
	for i, c := range own.idle {
		if c.of == nil {
			idle = c
			own.idle = append(own.idle[:i], own.idle[i+1:]...)
			break
		}
	}
	if idle == nil {
		for _, c := range own.clients {
			if c.Streams() == 0 {
				client = c
				break
			}
		}
	}
	own.mu.Unlock()
	switch {
	case idle != nil:
		idle.discard()
	case client != nil:
		client.Close()
	}
}
