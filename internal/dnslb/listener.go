package dnslb

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"fairlead/internal/certs"
	"fairlead/internal/loop"
	"fairlead/internal/model"
	"fairlead/internal/perclient"
	"fairlead/internal/plan"
	"fairlead/internal/udp"
)

// listener is an open address: UDP and TCP, or TCP with TLS.
type listener struct {
	plane *Plane
	key   string
	tcp   loop.Listener
	udp   []udp.Socket // empty for dot
	set   atomic.Pointer[settings]
	stats listenerStats

	udpStats  []udp.Stats // of each socket
	perClient perclient.Counter
	draining  atomic.Bool
	busy      sync.WaitGroup // connections, sockets

	mu   sync.Mutex // guards what follows
	open map[*conn]struct{}
	cut  bool // connections end at once
}

// settings are what a reload may change on a listener that stays open. They are
// never written once they are in use.
type settings struct {
	model.Limits
	name              string
	protocol          model.ListenerProtocol
	udpSize           int
	nsid              string
	version, identity string
	cookies           *cookies // nil where they are off
	cookieFile        string
	rate              *rateLimit // nil for none
	keepalive         int        // what clients of streams are told, in units of 100 ms
	tls               *certs.Server
}

// newSettings makes the settings of m. Secrets, counts and certificates are kept
// where they have not changed.
func newSettings(p *Plane, m *model.Listener, old *settings) (*settings, error) {
	s := &settings{
		Limits: m.Limits, name: m.Name, protocol: m.Protocol, udpSize: m.DNS.UDPSize, nsid: m.DNS.NSID,
		version: m.DNS.Version, identity: m.DNS.Identity, cookieFile: m.DNS.CookieSecrets,
		keepalive: int(min(m.Limits.IdleTimeout/(100*time.Millisecond), 65535)),
	}
	var err error
	switch {
	case !m.DNS.Cookies:
	case s.cookieFile != "":
		if s.cookies, err = loadCookies(s.cookieFile); err != nil {
			return nil, err
		}
	case old != nil && old.cookies != nil && old.cookieFile == "":
		s.cookies = old.cookies
	default:
		s.cookies = newCookies()
	}
	var before *rateLimit
	if old != nil {
		before = old.rate
	}
	s.rate = newRateLimit(m.DNS.RateLimit, before)
	if m.Protocol != model.ListenerDoT {
		return s, nil
	}
	var tls *certs.Server
	if old != nil {
		tls = old.tls
	}
	spec := certs.Spec{Certificates: m.Certificates, MinVersion: m.MinTLSVersion, Protocols: []string{"dot"}}
	s.tls, err = certs.NewServer(spec, tls, p.log)
	return s, err
}

// maxPortTries bounds the ports that are tried until one is free for TCP and for
// UDP.
const maxPortTries = 20

// listen opens an address. Nothing is answered yet.
func (p *Plane) listen(m *plan.Listener, set *settings) (*listener, error) {
	for tries := 0; ; tries++ {
		l := &listener{plane: p, key: listenerKey(m), open: make(map[*conn]struct{})}
		var err error
		if l.tcp, err = p.engine.Listen(m.Bind); err != nil {
			return nil, inUse(err, "TCP", m.Address)
		}
		if m.Protocol == model.ListenerDNS {
			at := netip.AddrPortFrom(m.Bind.Addr(), l.bound().Port())
			if p.engine.Name() == "goroutine" {
				l.udp, err = udp.ListenPortable(at)
			} else {
				l.udp, err = udp.Listen(at, p.shards)
			}
		}
		if err == nil {
			l.udpStats = make([]udp.Stats, len(l.udp))
			l.use(set)
			return l, nil
		}
		l.discard()
		// Where the kernel chooses the port, it may be one that somebody has for
		// UDP.
		if m.Bind.Port() != 0 || !errors.Is(err, syscall.EADDRINUSE) || tries == maxPortTries {
			return nil, inUse(err, "UDP", m.Address)
		}
		<-l.tcp.Closed()
	}
}

func inUse(err error, what, address string) error {
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s address %s is in use by another process, or listener: %w", what, address, syscall.EADDRINUSE)
	}
	return err
}

// use puts settings in force.
func (l *listener) use(set *settings) {
	old := l.set.Swap(set)
	if set.tls == nil || old != nil && old.tls == set.tls {
		return
	}
	l.plane.wg.Go(func() {
		ctx, stop := context.WithCancel(l.plane.ctx)
		defer stop()
		l.plane.wg.Go(func() { // its files are looked after until another takes its place
			defer stop()
			t := time.NewTicker(certInterval)
			defer t.Stop()
			for !l.draining.Load() && l.set.Load().tls == set.tls {
				select {
				case <-ctx.Done():
					return
				case <-t.C:
				}
			}
		})
		set.tls.Watch(ctx, certInterval)
	})
}

// name returns the name that the newest plan gives the listener.
func (l *listener) name() string { return l.set.Load().name }

// bound returns the address that the listener has.
func (l *listener) bound() netip.AddrPort { return l.tcp.Addr() }

// serve begins to answer.
func (l *listener) serve() {
	l.tcp.Serve(l.admit, func(err error) {
		l.plane.aside.Error("cannot accept connections", "listener", l.name(), "error", err)
	})
	for i, s := range l.udp {
		w := newWorker(l, i)
		l.busy.Go(func() {
			if err := s.Serve(w, &l.udpStats[i]); !errors.Is(err, udp.ErrClosed) {
				l.plane.log.Error("UDP socket has failed: restart the node", "listener", l.name(), "error", err)
			}
		})
	}
}

// discard closes a listener that never answered.
func (l *listener) discard() {
	l.draining.Store(true)
	l.tcp.Close()
	for _, s := range l.udp {
		s.Close()
	}
}

// acceptGrace is for connections that are on their way: their clients may have
// sent a query already, which closing would reset.
const acceptGrace = 100 * time.Millisecond

// close stops listening. What has come is answered; connections end when they have
// no query.
func (l *listener) close() {
	if l.draining.Swap(true) {
		return
	}
	l.tcp.Drain(acceptGrace)
	for _, s := range l.udp {
		s.Close()
	}
	l.busy.Go(func() {
		<-l.tcp.Closed()
		l.mu.Lock()
		defer l.mu.Unlock()
		for c := range l.open {
			c.interrupt()
		}
	})
}

// awaitFree waits until the address is free.
func (l *listener) awaitFree() {
	<-l.tcp.Closed()
	if len(l.udp) > 0 {
		l.busy.Wait()
	}
}

// abort ends all connections and returns their number.
func (l *listener) abort() int {
	l.tcp.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = true
	for c := range l.open {
		c.c.Abort()
	}
	return len(l.open)
}

// recovered keeps a defect that one query meets from ending the process. It is
// deferred.
func (l *listener) recovered() {
	if v := recover(); v != nil {
		l.stats.panics.Inc()
		l.plane.aside.Error("defect: query was not answered", "listener", l.name(), "panic", v, "stack", string(debug.Stack()))
	}
}
