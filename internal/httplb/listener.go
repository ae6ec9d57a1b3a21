package httplb

import (
	"context"
	"errors"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"fairlead/internal/certs"
	"fairlead/internal/h1"
	"fairlead/internal/h2"
	"fairlead/internal/h3"
	"fairlead/internal/loop"
	"fairlead/internal/model"
	"fairlead/internal/perclient"
	"fairlead/internal/plan"
)

// listener is an open address and the connections that it accepted.
type listener struct {
	plane *Plane
	key   string
	ln    loop.Listener
	set   atomic.Pointer[settings]
	http3 atomic.Pointer[http3] // nil where it is off; only Apply writes it
	stats listenerStats

	draining  atomic.Bool
	told      atomic.Int64 // when a request was explained last
	perClient perclient.Counter
	flooders  perclient.Flooders
	sessions  sync.WaitGroup

	mu   sync.Mutex // guards what follows
	open map[connection]struct{}
	cut  bool // connections end at once

	http3s map[*http3]struct{} // that are open, be it that they drain
}

// connection is one that can be told to end.
type connection interface {
	// interrupt ends it as soon as no request is under way.
	interrupt()
	// abort ends it now.
	abort()
}

// settings are what a reload may change on a listener that stays open. They
// are never written once they are in use.
type settings struct {
	model.Limits
	name           string
	protocol       model.ListenerProtocol
	heads          h1.Limits
	TrustedProxies []netip.Prefix
	proxyProtocol  bool           // trusted proxies send its header
	explain        []byte         // name of the header that asks for it; nil for none
	stats          *listenerStats // of the listener that uses them
	h2             *h2.Config

	// TLS listeners only.
	tls           *certs.Server
	subjectHeader string // in which endpoints are told the subject of a client's certificate

	http3  bool
	h3     *h3.Config // where http3 is on
	altSvc string     // the line that tells of it, with its CRLF; "" where it is off
}

// newSettings makes the settings of m. Certificates that are loaded are kept,
// and with them the sessions that clients may resume.
func newSettings(p *Plane, m *model.Listener, old *settings) (*settings, error) {
	s := &settings{
		name: m.Name, Limits: m.Limits, protocol: m.Protocol, TrustedProxies: m.TrustedProxies,
		heads: h1.Limits{HeadBytes: m.Limits.HeaderBytes, Fields: m.Limits.HeaderCount},
	}
	s.proxyProtocol = m.AcceptProxyProtocol
	if m.ExplainHeader != "" {
		s.explain = []byte(m.ExplainHeader)
	}
	s.h2 = newH2Config(s)
	if m.Protocol != model.ListenerHTTPS {
		return s, nil
	}
	spec := certs.Spec{
		Certificates: m.Certificates, MinVersion: m.MinTLSVersion, Clients: m.ClientCertificates,
		Protocols: []string{"h2", "http/1.1"},
	}
	if p.proofs != nil { // an authority may ask any listener
		spec.Obtained = p.proofs
		for _, name := range m.ACME {
			spec.Names = append(spec.Names, model.CanonicalHost(name))
		}
	}
	if m.ClientCertificates != nil {
		s.subjectHeader = m.ClientCertificates.SubjectHeader
	}
	var before *certs.Server
	if old != nil {
		before = old.tls
	}
	var err error
	if s.tls, err = certs.NewServer(spec, before, p.log); err != nil {
		return nil, err
	}
	if s.http3 = m.HTTP3; s.http3 {
		s.h3 = newH3Config(s)
	}
	return s, nil
}

// listen opens an address. Nothing is accepted yet, but clients' connections
// are: they wait in the kernel's queue.
func listen(p *Plane, m *plan.Listener, set *settings) (*listener, error) {
	for tries := 0; ; tries++ {
		ln, err := p.engine.Listen(m.Bind)
		if err != nil {
			if errors.Is(err, syscall.EADDRINUSE) {
				return nil, p.inUse(m)
			}
			return nil, err
		}
		l := &listener{plane: p, key: listenerKey(m), ln: ln, open: make(map[connection]struct{}), http3s: make(map[*http3]struct{})}
		l.stats.init()
		if !m.HTTP3 {
			l.use(set)
			return l, nil
		}
		h, err := openHTTP3(l, m)
		if err == nil {
			l.http3.Store(h)
			l.use(set)
			return l, nil
		}
		l.discard()
		// Where the kernel chooses the port, it may be one that somebody has for
		// UDP.
		if m.Bind.Port() != 0 || !errors.Is(err, syscall.EADDRINUSE) || tries == maxPortTries {
			return nil, err
		}
		<-ln.Closed()
	}
}

// maxPortTries bounds the ports that are tried until one is free for TCP and for
// UDP.
const maxPortTries = 20

// use puts settings in force for connections and requests that begin.
func (l *listener) use(set *settings) {
	set.stats = &l.stats
	if set.http3 {
		set.altSvc = altSvcLine(l.bound().Port())
	}
	old := l.set.Swap(set)
	if set.tls == nil || old != nil && old.tls == set.tls {
		return
	}
	l.plane.wg.Go(func() {
		ctx, stop := context.WithCancel(l.plane.ctx)
		defer stop()
		// Its files are looked after until another takes its place, which is
		// noticed at the next look.
		set.tls.Watch(whileUsed(ctx, l, set.tls), certInterval)
	})
}

// whileUsed returns a context that ends when the listener closes or uses
// other certificates.
func whileUsed(ctx context.Context, l *listener, tls *certs.Server) context.Context {
	ctx, stop := context.WithCancel(ctx)
	t := time.NewTicker(certInterval)
	l.plane.wg.Go(func() {
		defer stop()
		defer t.Stop()
		for !l.draining.Load() && l.set.Load().tls == tls {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
		}
	})
	return ctx
}

// name returns the name that the newest plan gives the listener.
func (l *listener) name() string { return l.set.Load().name }

// bound returns the address that the listener has.
func (l *listener) bound() netip.AddrPort { return l.ln.Addr() }

// discard closes a listener that never accepted.
func (l *listener) discard() {
	l.draining.Store(true)
	l.ln.Close()
	if h := l.http3.Load(); h != nil {
		h.discard()
	}
}

// Bounds of closing.
const (
	// acceptGrace is for connections that are on their way: their clients may
	// have sent a request already, which closing would reset.
	acceptGrace = 100 * time.Millisecond
	// idleGrace is for clients that are about to send a request over a
	// connection that they have: its answer tells them to close it. Nobody
	// can tell a connection that is not used any more from one whose next
	// request is on its way.
	idleGrace = time.Second
)

// close stops accepting. What was accepted is served: connections are told to
// end by their next answer, and those without a request end after a while.
func (l *listener) close() {
	if l.draining.Swap(true) {
		return
	}
	l.ln.Drain(acceptGrace)
	l.switchHTTP3(nil)
	l.goAway()
	l.sessions.Go(func() {
		select {
		case <-l.ln.Closed():
		case <-l.plane.ctx.Done():
		}
	})
	t := time.AfterFunc(idleGrace, func() {
		l.goAway() // to those that came meanwhile
		l.mu.Lock()
		defer l.mu.Unlock()
		for c := range l.open {
			c.interrupt()
		}
	})
	l.plane.wg.Go(func() {
		l.sessions.Wait()
		t.Stop()
	})
}

// goAway tells clients of HTTP/2 to go.
func (l *listener) goAway() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		if c, ok := c.(h2conn); ok {
			c.Drain()
		}
	}
}

// abort ends all connections and returns their number.
func (l *listener) abort() int {
	l.ln.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for c := range l.open {
		c.abort()
	}
	n := len(l.open)
	for h := range l.http3s {
		n += h.server.Abort()
	}
	return n
}

// troubled says that connections cannot be accepted.
func (l *listener) troubled(err error) {
	l.plane.aside.Error("cannot accept connections", "listener", l.name(), "error", err)
}

// admit serves a connection unless that would exceed a limit. It is called by
// whoever accepts, and does not wait.
func (l *listener) admit(d loop.Driver, c loop.Conn) {
	set := l.set.Load()
	l.stats.accepted.Inc()
	peer := c.Remote()
	if l.stats.open.Load() >= int64(set.Connections) {
		l.stats.limits[limitConnections].Inc()
		c.Abort() // leaves no state behind
		return
	}
	k := &client{d: d, c: c, ln: l, peer: peer}
	k.preamble = set.proxyProtocol && isTrusted(peer.Addr(), set.TrustedProxies)
	if !k.preamble && !k.count(set) { // else the client is not known yet
		c.Abort()
		return
	}
	l.stats.open.Add(1)
	l.sessions.Add(1)
	k.resume = k.run
	d.Start(func() { k.begin(set) })
}

// recovered keeps a defect that one connection meets from ending the process.
// It is deferred.
func (l *listener) recovered() {
	if v := recover(); v != nil {
		l.defect(v)
	}
}

// defect counts and logs a panic.
func (l *listener) defect(v any) {
	l.stats.panics.Inc()
	l.plane.aside.Error("defect: connection ended", "listener", l.name(), "panic", v, "stack", string(debug.Stack()))
}

// enter lists a connection, so that it can be told to end.
func (l *listener) enter(c connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[c] = struct{}{}
	if l.cut {
		c.abort()
	}
}

func (l *listener) leave(c connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
}
