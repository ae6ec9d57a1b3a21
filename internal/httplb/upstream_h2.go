package httplb

import (
	"errors"
	"slices"
	"time"

	"fairlead/internal/h2"
	"fairlead/internal/loop"
	"fairlead/internal/model"
	"fairlead/internal/plan"
)

// shared are the HTTP/2 connections of one driver to an endpoint; the mutex of
// the struct that it is a part of guards it.
type shared struct {
	clients []*h2.Client
	// One task at a time makes a connection, as all that wait can then share
	// it; the bells are theirs.
	dialling bool
	waiting  []loop.Bell
}

// newClientConfig makes the bounds of HTTP/2 connections to a pool's endpoints,
// nil where they speak HTTP/1.1.
func newClientConfig(p *plan.Pool, stats *endpointStats) *h2.Config {
	switch p.Protocol {
	case model.PoolH2, model.PoolH2C, model.PoolAuto:
	default:
		return nil
	}
	scheme := "http"
	if p.TLS {
		scheme = "https"
	}
	return &h2.Config{
		HeaderBytes: answerLimits.HeadBytes, HeaderCount: answerLimits.Fields,
		HeaderTimeout: p.AnswerTimeout, IdleTimeout: max(p.IdleTimeout, minIdle), WriteTimeout: p.AnswerTimeout,
		Scheme: scheme,
		Count:  func(e h2.Event) { stats.http2[e].Inc() },
	}
}

// minIdle is how long an HTTP/2 connection is kept at least: where none is to be
// kept, the requests that come at the same time still share one.
const minIdle = time.Second

// protocols returns what endpoints of a pool are offered to speak over TLS.
func protocols(p *plan.Pool) []string {
	switch p.Protocol {
	case model.PoolH2:
		return []string{"h2"}
	case model.PoolAuto:
		return []string{"h2", "http/1.1"}
	}
	return []string{"http/1.1"}
}

// errNoHTTP2 says that an endpoint does not speak what its pool is declared to.
var errNoHTTP2 = errors.New("endpoint did not agree to speak HTTP/2")

// share returns a part of an HTTP/2 connection, which is made if there is none
// with room. An endpoint that may choose may have chosen HTTP/1.1.
func (u *upstream) share(d loop.Driver, from loop.Sources, e *plan.Endpoint, t *target) (*upstreamConn, *failure, error) {
	own := &u.own[d.Index()]
	deadline, late := t.deadline, failConnect
	if l := &e.Pool.Limits; l.Connections > 0 { // whoever makes one may have to wait
		deadline, late = deadline.Add(l.QueueTimeout), failQueue
	}
	for {
		client, wait := own.enter(d, e)
		switch {
		case client != nil:
			return &upstreamConn{Conn: client.Conn(), up: u, of: client, own: own, reused: true}, nil, nil
		case wait == nil: // nobody else makes one
			defer own.dialled() // whatever becomes of it
			return u.fresh(d, from, e, t)
		}
		if err := wait.Wait(deadline); err != nil {
			return nil, late, err
		}
		if u.noHTTP2.Load() {
			return u.fresh(d, from, e, t)
		}
	}
}

// enter returns a connection that takes another request, or a bell that rings
// once there may be one, or neither: then the caller is to make one, and to call
// dialled after that.
func (o *ownConns) enter(d loop.Driver, e *plan.Endpoint) (*h2.Client, loop.Bell) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c := o.usable(e); c != nil {
		return c, nil
	}
	if !o.dialling {
		o.dialling = true
		return nil, nil
	}
	wait := d.Bell()
	o.waiting = append(o.waiting, wait)
	return nil, wait
}

// dialled lets those go on that wait for a connection.
func (o *ownConns) dialled() {
	o.mu.Lock()
	waiting := o.waiting
	o.dialling, o.waiting = false, nil
	o.mu.Unlock()
	for _, bell := range waiting {
		bell.Ring()
	}
}

// usable returns a connection that takes another request, to an address that the
// endpoint still has.
func (s *shared) usable(e *plan.Endpoint) *h2.Client {
	n := e.ResolvedName()
	for _, c := range s.clients {
		if c.Usable() && (n == nil || n.Has(c.Remote().Addr())) {
			return c
		}
	}
	return nil
}

// client begins HTTP/2 on a connection, and returns a part of it.
func (u *upstream) client(d loop.Driver, c loop.Conn, gated bool) *upstreamConn {
	client := h2.NewClient(d, c, u.http2.Load())
	u.opened()
	own := &u.own[d.Index()]
	own.mu.Lock()
	own.clients = append(own.clients, client)
	own.mu.Unlock()
	d.Start(func() {
		client.Wait()
		own.mu.Lock()
		own.clients = slices.DeleteFunc(own.clients, func(c *h2.Client) bool { return c == client })
		own.mu.Unlock()
		u.closed(gated)
	})
	return &upstreamConn{Conn: client.Conn(), up: u, of: client, own: own}
}

// lost reports whether err is an HTTP/2 endpoint's way to end an exchange without
// an answer.
func lost(err error) bool {
	var s *h2.StreamError
	var c *h2.ConnError
	return errors.As(err, &s) && s.Remote || errors.As(err, &c) && c.Remote || errors.Is(err, h2.ErrNotProcessed)
}
