package httplb

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"fairlead/internal/certs"
	"fairlead/internal/h1"
	"fairlead/internal/h3"
	"fairlead/internal/loop"
	"fairlead/internal/plan"
)

// HTTP/3 runs on goroutines, since quic-go does. On event loops its requests
// have a driver of their own, and with that connections to endpoints of their own:
// to hand each request to a loop would cost two switches between threads for every
// wait, of which a request has several, and gain nothing, as quic-go reads and writes
// its packets elsewhere all the same.

// protocolThree is what it is called.
const protocolThree = "HTTP/3"

// http3 is HTTP/3 of a listener, from when it is on until it has drained.
type http3 struct {
	ln     *listener
	socket *socket
	server *h3.Server
}

// newH3Config makes the bounds of HTTP/3 connections from those of a listener.
func newH3Config(s *settings) *h3.Config {
	return &h3.Config{
		MaxStreams: s.ConcurrentStreams,
		// Fields are counted where heads are read, as those of HTTP/1.1 are.
		HeaderBytes: s.HeaderBytes, HeaderCount: s.HeaderBytes/32 + 1,
		HeaderTimeout: s.HeaderTimeout, IdleTimeout: s.IdleTimeout, WriteTimeout: s.BodyTimeout,
		SilentTimeout: s.BodyTimeout + pingTimeout,
	}
}

// altSvcLine tells clients of HTTP/1.1 and HTTP/2 that there is HTTP/3 (RFC 7838),
// for a day.
func altSvcLine(port uint16) string {
	return "Alt-Svc: h3=\":" + strconv.Itoa(int(port)) + "\"; ma=86400\r\n"
}

// advertises reports whether the answer res tells of HTTP/3: not where the endpoint
// has said itself which other services there are.
func (x *exchange) advertises(res *h1.Response) bool {
	for i := range res.Fields {
		if name := res.Name(&res.Fields[i]); len(name) == len(altSvcName) && equalFold(name, altSvcName) {
			return false
		}
	}
	return true
}

const altSvcName = "alt-svc"

// equalFold compares a name with one in lower case.
func equalFold(name []byte, lower string) bool {
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// openHTTP3 opens UDP at the address that a listener has. Nothing is accepted yet.
func openHTTP3(l *listener, m *plan.Listener) (*http3, error) {
	p := l.plane
	at := netip.AddrPortFrom(m.Bind.Addr(), l.bound().Port())
	s, err := p.sockets.take(at)
	if err != nil {
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("UDP address %s, for http3, is in use by another process: %w", at, syscall.EADDRINUSE)
		}
		return nil, err
	}
	h := &http3{ln: l, socket: s}
	if h.server, err = s.serve(p.aloof, h); err != nil {
		p.sockets.give(s)
		return nil, fmt.Errorf("http3: %w", err)
	}
	received, sent := s.Buffers()
	if small := min(received, sent); small > 0 && small < h3.WantedBuffers {
		p.sockets.warn.Do(func() {
			p.log.Warn("buffers for UDP are small: HTTP/3 loses packets when much comes at once; raise net.core.rmem_max and net.core.wmem_max",
				"receive", received, "send", sent, "wanted", h3.WantedBuffers)
		})
	}
	return h, nil
}

// discard closes what never accepted.
func (h *http3) discard() {
	h.server.Drain(0)
	<-h.server.Done()
	h.ln.plane.sockets.give(h.socket)
}

// start begins to accept.
func (h *http3) start() {
	l := h.ln
	l.mu.Lock()
	l.http3s[h] = struct{}{}
	l.mu.Unlock()
	l.sessions.Go(func() {
		<-h.server.Done()
		l.mu.Lock()
		delete(l.http3s, h)
		l.mu.Unlock()
		l.plane.sockets.give(h.socket)
	})
	l.plane.log.Info("listening", "listener", l.name(), "address", l.bound().String(), "protocol", "http3")
	h.server.Start()
}

// switchHTTP3 makes h the listener's HTTP/3, or switches that off; what it had
// drains.
func (l *listener) switchHTTP3(h *http3) {
	old := l.http3.Swap(h)
	if old == h {
		return
	}
	if old != nil {
		old.server.Drain(acceptGrace)
	}
	if h != nil {
		h.start()
	}
}

// Config implements h3.Owner.
func (h *http3) Config() *h3.Config {
	if c := h.ln.set.Load().h3; c != nil {
		return c
	}
	return newH3Config(h.ln.set.Load()) // it is being switched off
}

// TLS implements h3.Owner.
func (h *http3) TLS() *tls.Config { return h.ln.set.Load().tls.QUIC() }

// Count implements h3.Owner.
func (h *http3) Count(e h3.Event) { h.ln.stats.countHTTP3(e) }

// Admit implements h3.Owner. It is admit for a connection of which a packet has
// come.
func (h *http3) Admit(from netip.AddrPort, proven bool) h3.Peer {
	l := h.ln
	set := l.set.Load()
	l.stats.accepted.Inc()
	if l.stats.open.Load() >= int64(set.Connections) {
		l.stats.limits[limitConnections].Inc()
		return nil
	}
	if set.mustIntroduce(from.Addr()) {
		l.stats.preambles.Inc()
		return nil
	}
	k := &quicClient{ln: l}
	// An address that may be forged is counted once it is proved: anybody could
	// use up what another is allowed.
	if proven && !k.enter(from.Addr(), set) {
		return nil
	}
	l.stats.open.Add(1)
	l.stats.http3Open.Add(1)
	return k
}

// quicClient is a client that speaks HTTP/3.
type quicClient struct {
	ln      *listener
	counted netip.Addr // as one of the client's; invalid until then
	c       *h3.Conn
	client  *client // as requests know it
	refused atomic.Bool
}

// mustIntroduce reports whether connections from a have to say who the client is. QUIC
// has no place for that, and without it anybody behind the proxy could say in
// X-Forwarded-For who they are.
func (s *settings) mustIntroduce(a netip.Addr) bool {
	return s.proxyProtocol && isTrusted(a, s.TrustedProxies)
}

// enter counts the connection as one of its client's, unless there are too many.
func (k *quicClient) enter(a netip.Addr, set *settings) bool {
	if !k.ln.perClient.Enter(a, set.ConnectionsPerClient) {
		k.ln.stats.limits[limitPerClient].Inc()
		return false
	}
	if _, ok := k.ln.admitAfterFlood(a, set, 0); !ok { // QUIC asks again by itself
		k.ln.perClient.Leave(a)
		return false
	}
	k.counted = a
	return true
}

// Begin implements h3.Peer.
func (k *quicClient) Begin(c *h3.Conn) bool {
	if !k.counted.IsValid() && !k.enter(c.Remote().Addr(), k.ln.set.Load()) {
		return false
	}
	k.c = c
	k.client = &client{ln: k.ln, d: k.ln.plane.aloof, peer: c.Remote(), tls: c.TLS()}
	k.client.certified, k.client.subject = certs.ClientSubject(k.client.tls)
	return true
}

// End implements h3.Peer.
func (k *quicClient) End(err error) {
	l := k.ln
	if k.counted.IsValid() {
		l.perClient.Leave(k.counted)
		if h3.IsFlood(err) {
			l.flooded(k.counted, err)
		}
	}
	l.stats.open.Add(-1)
	l.stats.http3Open.Add(-1)
	switch {
	case k.c != nil:
		if err != nil {
			l.plane.aside.Debug("HTTP/3 connection", "listener", l.name(), "client", k.c.Remote().String(), "error", err)
		}
	default:
		l.stats.handshakes.Inc()
		if h3.IsTimeout(err) {
			l.stats.limits[limitHandshake].Inc()
		}
		l.plane.aside.Debug("QUIC handshake", "listener", l.name(), "error", err)
	}
}

// Serve implements h3.Peer.
func (k *quicClient) Serve(st *h3.Stream) {
	defer k.ln.recovered() // the stream, which has not ended, is reset
	// Clients move, and prove the address that they move to.
	from := k.c.Remote()
	if k.ln.set.Load().mustIntroduce(from.Addr()) {
		if !k.refused.Swap(true) {
			k.ln.stats.preambles.Inc()
			k.c.Abort()
		}
		return
	}
	s := muxstreams.Get().(*muxstream)
	s.st, s.ln, s.set = st, k.ln, k.ln.set.Load()
	s.name = protocolThree
	s.x.attach(k.client)
	s.x.peer = from
	s.serve()
	s.close()
}

// sockets are the UDP sockets of a plane, by their address. One is kept while
// connections need it, though its listener is gone or has HTTP/3 switched off, and
// taken again when it comes back meanwhile.
type sockets struct {
	mu   sync.Mutex // held while one is opened and closed
	byAt map[netip.AddrPort]*socket
	warn sync.Once
}

// socket is one of them.
type socket struct {
	*h3.Socket
	at    netip.AddrPort
	users int

	// newest is the server that accepts last. Only Apply, which is serialised,
	// makes servers.
	newest *h3.Server
}

// take returns the socket at an address, for as long as it is not given back.
func (s *sockets) take(at netip.AddrPort) (*socket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.byAt[at]; k != nil {
		k.users++
		return k, nil
	}
	opened, err := h3.Open(at)
	if err != nil {
		return nil, err
	}
	if s.byAt == nil {
		s.byAt = make(map[netip.AddrPort]*socket)
	}
	k := &socket{Socket: opened, at: at, users: 1}
	s.byAt[at] = k
	return k, nil
}

// give gives a socket back.
func (s *sockets) give(k *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.users--; k.users == 0 {
		delete(s.byAt, k.at)
		k.Close()
	}
}

// serve makes a server for the socket, when the one before accepts no more.
func (k *socket) serve(d loop.Driver, owner h3.Owner) (*h3.Server, error) {
	if k.newest != nil {
		<-k.newest.Closed()
	}
	v, err := k.Socket.Serve(d, owner)
	if err == nil {
		k.newest = v
	}
	return v, err
}
