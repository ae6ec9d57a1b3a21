package httplb

import (
	"context"
	"crypto/tls"
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

	// mu guards idle for the few instructions of a push or a pop: any
	// goroutine may use any connection next.
	mu     sync.Mutex
	idle   []*upstreamConn // the most recently used last
	closed bool
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
func (u *upstream) take(e *plan.Endpoint, to netip.AddrPort, now loop.Time) *upstreamConn {
	for {
		u.mu.Lock()
		i := len(u.idle) - 1
		if e.ResolvedName() != nil { // connections may go to several addresses
			for i >= 0 && u.idle[i].Remote().Addr() != to.Addr().Unmap() {
				i--
			}
		}
		if i < 0 {
			u.mu.Unlock()
			return nil
		}
		c := u.idle[i]
		u.idle = slices.Delete(u.idle, i, i+1)
		u.mu.Unlock()
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

// put keeps c for the next request.
func (u *upstream) put(c *upstreamConn, p *plan.Pool, now loop.Time) {
	c.Release()
	c.since = now
	u.mu.Lock()
	if u.closed || len(u.idle) >= p.MaxIdle || p.IdleTimeout <= 0 {
		u.mu.Unlock()
		c.discard()
		return
	}
	u.idle = append(u.idle, c)
	u.mu.Unlock()
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

// sweep closes connections that were idle for too long, that the endpoint has
// closed, or whose address it no longer has. They are looked at without the
// lock: one that is taken meanwhile is not disturbed, and is not among the idle
// ones any more when the dead are taken out.
func (u *upstream) sweep(e *plan.Endpoint, now loop.Time) {
	var look []*upstreamConn
	dead := make(map[*upstreamConn]bool) // and whether it was still idle
	u.mu.Lock()
	for _, c := range u.idle {
		if now.Sub(c.since) >= e.Pool.IdleTimeout || !c.current(e) {
			dead[c] = false
		} else {
			look = append(look, c)
		}
	}
	u.mu.Unlock()
	for _, c := range look {
		// With TLS, Quiet reads, which whoever takes the connection does too;
		// it is asked when the connection is taken.
		if u.tls != nil && !c.Alive() || u.tls == nil && !c.Quiet() {
			dead[c] = false
		}
	}
	if len(dead) == 0 {
		return
	}
	u.mu.Lock()
	u.idle = slices.DeleteFunc(u.idle, func(c *upstreamConn) bool {
		_, found := dead[c]
		if found {
			dead[c] = true
		}
		return found
	})
	u.mu.Unlock()
	for c, ours := range dead {
		if ours {
			c.discard()
		}
	}
}

// close closes all idle connections and lets none become idle again.
func (u *upstream) close() {
	u.mu.Lock()
	idle := u.idle
	u.idle, u.closed = nil, true
	u.mu.Unlock()
	for _, c := range idle {
		c.discard()
	}
}

// idleCount returns the number of idle connections.
func (u *upstream) idleCount() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.idle)
}

// connect makes a new connection to an address, or else to others of the
// endpoint in turn, until one accepts or the pool's connect time-out has passed.
func (u *upstream) connect(d *loop.Goroutines, e *plan.Endpoint, to netip.AddrPort) (*upstreamConn, *failure, error) {
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
		if c, f, err = u.dial(d, e, to, share); f == nil {
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

func (u *upstream) dial(d *loop.Goroutines, e *plan.Endpoint, to netip.AddrPort, deadline loop.Time) (loop.Conn, *failure, error) {
	if u.tls == nil {
		c, err := d.Dial(to, deadline)
		if err != nil {
			return nil, connectFailure(err), err
		}
		return c, nil, nil
	}
	nc, err := d.DialNet(to, deadline)
	if err != nil {
		return nil, connectFailure(err), err
	}
	tc := tls.Client(nc, u.tls.Config(e.ServerName))
	ctx, cancel := context.WithDeadline(d.Dialling(), deadline.Wall())
	defer cancel()
	if err := tc.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, handshakeFailure(err), err
	}
	return loop.New(tc), nil, nil
}
