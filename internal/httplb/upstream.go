package httplb

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"fairlead/internal/certs"
	"fairlead/internal/load"
	"fairlead/internal/loop"
	"fairlead/internal/model"
	"fairlead/internal/plan"
)

// upstream holds the connections to one endpoint. It outlives plans as long
// as the endpoint is declared the same way, so that a reload closes nothing.
type upstream struct {
	key   upstreamKey
	tls   *certs.Client // nil for plain HTTP
	load  *load.Counter
	pool  *load.Counter // of the endpoint's pool
	stats endpointStats
	idle  []idleConns // by driver, whose tasks alone use a connection
}

// idleConns are the connections of one driver that no request uses.
type idleConns struct {
	// mu guards what follows for the few instructions of a push or a pop. On
	// an event loop nobody ever waits for it.
	mu     sync.Mutex
	list   []*upstreamConn // the most recently used last
	closed bool
	_      [24]byte // a cache line of its own
}

// upstreamKey is what makes connections exchangeable.
type upstreamKey struct {
	pool, endpoint, address string
	tls                     bool
	serverName              string
	files                   model.PoolTLS
}

// upstreamConn is a connection to an endpoint.
type upstreamConn struct {
	loop.Conn
	up     *upstream
	since  loop.Time // when it became idle
	reused bool
}

// maxAddresses bounds the addresses of one host name that one request tries.
const maxAddresses = 4

// take returns the connection to an address that was idle for the shortest
// time, or nil. One that is too old is closed.
func (u *upstream) take(d loop.Driver, e *plan.Endpoint, to netip.AddrPort, now loop.Time) *upstreamConn {
	idle := &u.idle[d.Index()]
	for {
		idle.mu.Lock()
		i := len(idle.list) - 1
		if e.ResolvedName() != nil { // connections may go to several addresses
			for i >= 0 && idle.list[i].Remote().Addr() != to.Addr().Unmap() {
				i--
			}
		}
		if i < 0 {
			idle.mu.Unlock()
			return nil
		}
		c := idle.list[i]
		idle.list = slices.Delete(idle.list, i, i+1)
		idle.mu.Unlock()
		if now.Sub(c.since) < e.Pool.IdleTimeout {
			c.reused = true
			return c
		}
		c.discard()
	}
}

// current reports whether the endpoint still has the connection's address.
func (c *upstreamConn) current(e *plan.Endpoint) bool {
	n := e.ResolvedName()
	return n == nil || n.Has(c.Remote().Addr())
}

// put keeps c for the next request. Each driver keeps its share of what a pool
// allows.
func (u *upstream) put(d loop.Driver, c *upstreamConn, p *plan.Pool, now loop.Time) {
	c.Release()
	c.since = now
	idle := &u.idle[d.Index()]
	share := (p.MaxIdle + len(u.idle) - 1) / len(u.idle)
	idle.mu.Lock()
	if idle.closed || len(idle.list) >= share || p.IdleTimeout <= 0 {
		idle.mu.Unlock()
		c.discard()
		return
	}
	idle.list = append(idle.list, c)
	idle.mu.Unlock()
}

// discard closes c.
func (c *upstreamConn) discard() {
	c.Release()
	c.Close()
	c.gone()
}

// cut closes c so that the endpoint knows that the exchange was broken off.
func (c *upstreamConn) cut() {
	c.Release()
	c.Abort()
	c.gone()
}

func (c *upstreamConn) gone() {
	c.up.load.ConnectionClosed()
	c.up.pool.ConnectionClosed()
}

// sweep closes those connections of a driver that were idle for too long, that
// the endpoint has closed, or whose address it no longer has. A task of the
// driver calls it. They are looked at without the lock: one that is taken
// meanwhile is not disturbed, and is not among the idle ones any more when the
// dead are taken out.
func (u *upstream) sweep(driver int, e *plan.Endpoint, now loop.Time) {
	idle := &u.idle[driver]
	var look []*upstreamConn
	var dead map[*upstreamConn]bool // and whether it was still idle
	die := func(c *upstreamConn) {
		if dead == nil {
			dead = make(map[*upstreamConn]bool)
		}
		dead[c] = false
	}
	idle.mu.Lock()
	for _, c := range idle.list {
		if now.Sub(c.since) >= e.Pool.IdleTimeout || !c.current(e) {
			die(c)
		} else {
			look = append(look, c)
		}
	}
	idle.mu.Unlock()
	for _, c := range look {
		// With TLS, Quiet reads, which whoever takes the connection does too;
		// it is asked when the connection is taken.
		if u.tls != nil && !c.Alive() || u.tls == nil && !c.Quiet() {
			die(c)
		}
	}
	if len(dead) == 0 {
		return
	}
	idle.mu.Lock()
	idle.list = slices.DeleteFunc(idle.list, func(c *upstreamConn) bool {
		_, found := dead[c]
		if found {
			dead[c] = true
		}
		return found
	})
	idle.mu.Unlock()
	for c, ours := range dead {
		if ours {
			c.discard()
		}
	}
}

// close closes a driver's idle connections and lets none become idle again. A
// task of the driver calls it.
func (u *upstream) close(driver int) {
	idle := &u.idle[driver]
	idle.mu.Lock()
	list := idle.list
	idle.list, idle.closed = nil, true
	idle.mu.Unlock()
	for _, c := range list {
		c.discard()
	}
}

// idleCount returns the number of idle connections.
func (u *upstream) idleCount() (n int) {
	for i := range u.idle {
		idle := &u.idle[i]
		idle.mu.Lock()
		n += len(idle.list)
		idle.mu.Unlock()
	}
	return n
}

// connect makes a new connection to an address, or else to others of the
// endpoint in turn, until one accepts or the pool's connect time-out has passed.
func (u *upstream) connect(d loop.Driver, from loop.Sources, e *plan.Endpoint, to netip.AddrPort) (*upstreamConn, *failure, error) {
	deadline := loop.Now().Add(e.Pool.ConnectTimeout)
	tries := 1
	if n := e.ResolvedName(); n != nil {
		tries = min(max(len(n.Addresses()), 1), maxAddresses)
	}
	var f *failure
	var err error
	for ; tries > 0; tries-- {
		// An address that swallows packets leaves time for the others.
		now := loop.Now()
		share := now.Add(max(deadline.Sub(now), 0) / time.Duration(tries))
		var c loop.Conn
		if c, f, err = u.dial(d, from, e, to, share); f == nil {
			u.load.ConnectionOpened()
			u.pool.ConnectionOpened()
			u.stats.connects.Inc()
			return &upstreamConn{Conn: c, up: u}, nil, nil
		}
		if next, ok := e.Address(); ok {
			to = next
		}
	}
	return nil, f, err
}

func (u *upstream) dial(d loop.Driver, from loop.Sources, e *plan.Endpoint, to netip.AddrPort, deadline loop.Time) (loop.Conn, *failure, error) {
	c, err := d.Dial(to, from, deadline)
	if err != nil {
		return nil, connectFailure(err), err
	}
	if u.tls == nil {
		return c, nil, nil
	}
	secured, _, err := d.Secure(c, loop.AsClient, u.tls.Config(e.ServerName), deadline)
	if err != nil {
		c.Close()
		return nil, handshakeFailure(err), err
	}
	return secured, nil, nil
}
