package httplb

import (
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"fairlead/internal/certs"
	"fairlead/internal/h2"
	"fairlead/internal/load"
	"fairlead/internal/loop"
	"fairlead/internal/model"
	"fairlead/internal/plan"
)

// upstream holds the connections to one endpoint. It outlives plans as long
// as the endpoint is declared the same way, so that a reload closes nothing.
type upstream struct {
	key      upstreamKey
	tls      *certs.Client // nil for plain HTTP
	load     *load.Counter
	pool     *load.Counter // of the endpoint's pool
	stats    endpointStats
	outliers outliers

	// http2 holds the bounds of new connections, nil where HTTP/1.1 is spoken.
	http2 atomic.Pointer[h2.Config]
	// noHTTP2 is set while an endpoint that may choose chooses HTTP/1.1, as then
	// nobody waits for a connection to share.
	noHTTP2 atomic.Bool

	own []ownConns // by driver, whose tasks alone use a connection

	requests, conns gate          // what endpoint_limits bound
	drivers         []loop.Driver // of the engine
}

// ownConns are the connections of one driver.
type ownConns struct {
	// mu guards what follows for the few instructions of a push or a pop. On
	// an event loop nobody ever waits for it.
	mu      sync.Mutex
	idle    []*upstreamConn // that no request uses, the most recently used last
	closed  bool            // no connection is kept any more
	staying *stay           // the first of the answers that sessions have open
	shared                  // where HTTP/2 is spoken
	_       [16]byte        // a cache line of its own
}

// upstreamKey is what makes connections exchangeable.
type upstreamKey struct {
	pool, endpoint, address string
	protocol                model.PoolProtocol
	serverName              string
	tls                     string // model.PoolTLS.ID, where TLS is spoken
}

// upstreamConn is a connection to an endpoint, for one request at a time: with
// HTTP/2 a part of one.
type upstreamConn struct {
	loop.Conn
	up     *upstream
	since  loop.Time // when it became idle
	reused bool

	gated bool // counted by the gate of connections

	of  *h2.Client // of which it is a part, or nil
	own *ownConns  // where that is listed
}

// take returns the connection to an address that was idle for the shortest
// time, or nil. One that is too old is closed.
func (u *upstream) take(d loop.Driver, e *plan.Endpoint, to netip.AddrPort, now loop.Time) *upstreamConn {
	own := &u.own[d.Index()]
	for {
		own.mu.Lock()
		i := len(own.idle) - 1
		if e.ResolvedName() != nil { // connections may go to several addresses
			for i >= 0 && own.idle[i].Remote().Addr() != to.Addr().Unmap() {
				i--
			}
		}
		if i < 0 {
			own.mu.Unlock()
			return nil
		}
		c := own.idle[i]
		own.idle = slices.Delete(own.idle, i, i+1)
		own.mu.Unlock()
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

// put keeps c for the next request. Each of the drivers that share keeps its part of
// what a pool allows.
func (u *upstream) put(d loop.Driver, c *upstreamConn, p *plan.Pool, sharers int, now loop.Time) {
	c.Release()
	c.since = now
	own := &u.own[d.Index()]
	share := (p.MaxIdle + sharers - 1) / sharers
	own.mu.Lock()
	if own.closed || len(own.idle) >= share || p.IdleTimeout <= 0 {
		own.mu.Unlock()
		c.discard()
		return
	}
	own.idle = append(own.idle, c)
	own.mu.Unlock()
	u.makeRoom(d.Index())
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
	if c.of != nil {
		c.own.mu.Lock()
		closed := c.own.closed
		c.own.mu.Unlock()
		if closed { // it may have been made after that
			c.of.Close()
		}
		return
	}
	c.up.closed(c.gated)
}

// closed ends what opened began.
func (u *upstream) closed(gated bool) {
	u.load.ConnectionClosed()
	u.pool.ConnectionClosed()
	if gated {
		u.conns.leave()
	}
}

// sweep closes those connections of a driver that were idle for too long, that
// the endpoint has closed, or whose address it no longer has. A task of the
// driver calls it. They are looked at without the lock: one that is taken
// meanwhile is not disturbed, and is not among the idle ones any more when the
// dead are taken out.
func (u *upstream) sweep(driver int, e *plan.Endpoint, now loop.Time) {
	own := &u.own[driver]
	var look []*upstreamConn
	var dead map[*upstreamConn]bool // and whether it was still idle
	die := func(c *upstreamConn) {
		if dead == nil {
			dead = make(map[*upstreamConn]bool)
		}
		dead[c] = false
	}
	own.mu.Lock()
	for _, c := range own.idle {
		if now.Sub(c.since) >= e.Pool.IdleTimeout || !c.current(e) {
			die(c)
		} else {
			look = append(look, c)
		}
	}
	own.mu.Unlock()
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
	own.mu.Lock()
	own.idle = slices.DeleteFunc(own.idle, func(c *upstreamConn) bool {
		_, found := dead[c]
		if found {
			dead[c] = true
		}
		return found
	})
	own.mu.Unlock()
	for c, ours := range dead {
		if ours {
			c.discard()
		}
	}
}

// close closes a driver's connections that nothing uses and lets none become idle
// again; those that are shared end with their last request, which is waited for
// if wait is true. A task of the driver calls it.
func (u *upstream) close(driver int, wait bool) {
	own := &u.own[driver]
	own.mu.Lock()
	idle, clients := own.idle, slices.Clone(own.clients)
	own.idle, own.closed = nil, true
	own.mu.Unlock()
	for _, c := range idle {
		c.discard()
	}
	for _, c := range clients {
		c.Close()
	}
	for _, c := range clients {
		if wait {
			c.Wait()
		}
	}
}

// idleCount returns the number of connections that no request uses.
func (u *upstream) idleCount() (n int) {
	for i := range u.own {
		own := &u.own[i]
		own.mu.Lock()
		for _, c := range own.idle {
			if c.of == nil {
				n++
			}
		}
		clients := slices.Clone(own.clients)
		own.mu.Unlock()
		for _, c := range clients {
			if c.Streams() == 0 {
				n++
			}
		}
	}
	return n
}

// connect makes a new connection to an address, or else to others of the endpoint,
// until the pool's connect time-out has passed. Where one accepts that cannot be
// used, the others are tried as well. It may have to wait for room first, as long as
// alive says so.
func (u *upstream) connect(d loop.Driver, from loop.Sources, e *plan.Endpoint, to netip.AddrPort, alive func() bool) (c *upstreamConn, f *failure, err error) {
	t := target{addrs: addresses(e, to), deadline: loop.Now().Add(e.Pool.ConnectTimeout), alive: alive}
	for len(t.addrs) > 0 {
		t.connected = netip.AddrPort{}
		if u.http2.Load() != nil && !u.noHTTP2.Load() {
			c, f, err = u.share(d, from, e, &t)
		} else {
			c, f, err = u.fresh(d, from, e, &t)
		}
		if f == nil || !t.connected.IsValid() || loop.Now() >= t.deadline {
			break
		}
		t.addrs = slices.DeleteFunc(t.addrs, func(a netip.AddrPort) bool { return a == t.connected })
	}
	return c, f, err
}

// fresh makes a connection, and returns a part of it if it speaks HTTP/2. An
// endpoint that may choose does so with each connection.
func (u *upstream) fresh(d loop.Driver, from loop.Sources, e *plan.Endpoint, t *target) (c *upstreamConn, f *failure, err error) {
	gated := e.Pool.Limits.Connections > 0
	if gated {
		begun := loop.Now()
		if f, err := u.mayConnect(d, e, t.alive); f != nil {
			return nil, f, err
		}
		t.deadline = t.deadline.Add(loop.Now().Sub(begun)) // to wait is not to connect
		defer func() {
			if c == nil {
				u.conns.leave()
			}
		}()
	}
	conn, protocol, f, err := u.dial(d, from, e, t)
	switch {
	case f != nil:
		return nil, f, err
	case u.http2.Load() == nil:
		return u.exclusive(conn, gated), nil, nil
	case u.tls == nil || protocol == "h2":
		u.noHTTP2.Store(false)
		return u.client(d, conn, gated), nil, nil
	case u.key.protocol == model.PoolAuto:
		u.noHTTP2.Store(true)
		return u.exclusive(conn, gated), nil, nil
	}
	conn.Close()
	return nil, failTLS, errNoHTTP2
}

// exclusive counts a connection that is for one request at a time.
func (u *upstream) exclusive(c loop.Conn, gated bool) *upstreamConn {
	u.opened()
	return &upstreamConn{Conn: c, up: u, gated: gated}
}

// opened counts a connection.
func (u *upstream) opened() {
	u.load.ConnectionOpened()
	u.pool.ConnectionOpened()
	u.stats.connects.Inc()
}

// dial connects to one of the addresses. protocol is what was agreed on by TLS.
func (u *upstream) dial(d loop.Driver, from loop.Sources, e *plan.Endpoint, t *target) (c loop.Conn, protocol string, f *failure, err error) {
	c, err = t.connect(d, from)
	if err != nil {
		return nil, "", connectFailure(err), err
	}
	if u.tls == nil {
		return c, "", nil, nil
	}
	secured, state, err := d.Secure(c, loop.AsClient, u.tls.Config(e.ServerName), t.deadline)
	if err != nil {
		c.Close()
		return nil, "", handshakeFailure(err), err
	}
	return secured, state.NegotiatedProtocol, nil, nil
}
