package h3

import (
	"context"
	"crypto/tls"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"fairlead/internal/loop"
)

// Server accepts connections at a socket. Its methods may be called by anyone.
type Server struct {
	owner   Owner
	d       loop.Driver
	ln      *quic.Listener
	ready   chan struct{} // accepting has begun, or will never
	cutting chan struct{} // connections end at once
	closed  chan struct{}
	done    chan struct{}

	mu          sync.Mutex // guards what follows
	started     bool
	draining    bool // connections end in order
	refusing    bool // none begins
	cut         bool
	over        bool // closed is
	peers       int  // that were admitted and have not ended
	handshaking int
	unproven    int // of those, whose address may be forged
	conns       map[*Conn]struct{}
}

// Serve makes a server for the socket, whose tasks run on d, a driver of
// goroutines. It accepts nothing before Start: what comes waits. There may have
// been another server, which is Closed; its connections go on.
func (s *Socket) Serve(d loop.Driver, owner Owner) (*Server, error) {
	v := &Server{
		owner: owner, d: d, conns: make(map[*Conn]struct{}),
		ready: make(chan struct{}), cutting: make(chan struct{}), closed: make(chan struct{}), done: make(chan struct{}),
	}
	before := s.server.Swap(v) // what quic-go calls finds it there
	var err error
	v.ln, err = s.tr.Listen(&tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{"h3"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return owner.TLS(), nil },
	}, &quic.Config{
		// What a client proved by a Retry holds for twice that.
		HandshakeIdleTimeout: retryTokenTime / 2,
		GetConfigForClient: func(*quic.ClientInfo) (*quic.Config, error) {
			<-v.ready
			return owner.Config().quic(), nil
		},
	})
	if err != nil {
		s.server.Store(before)
		return nil, err
	}
	return v, nil
}

// retryTokenTime is how long a client may take to come back with what it was
// given to prove its address with.
const retryTokenTime = 10 * time.Second

// Start begins to accept.
func (v *Server) Start() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.started {
		return
	}
	v.started = true
	close(v.ready)
	v.d.Go(v.accept)
}

// Closed is closed once nothing is accepted any more, and the socket may have
// another server.
func (v *Server) Closed() <-chan struct{} { return v.closed }

// Done is closed once all connections have ended as well.
func (v *Server) Done() <-chan struct{} { return v.done }

// Open returns how many connections have ended their handshake and are open.
func (v *Server) Open() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.conns)
}

// suspects reports whether a newcomer is to prove its address first.
func (v *Server) suspects() bool {
	v.mu.Lock()
	yes := v.unproven >= unprovenBound
	v.mu.Unlock()
	if yes {
		v.owner.Count(EventRetry)
	}
	return yes
}

// guest is a connection from its first packet on.
type guest struct {
	peer    Peer
	proven  bool
	shaken  atomic.Bool // the handshake is over, be it that it failed
	claimed atomic.Bool // somebody will call peer.End
}

type guestKey struct{}

// connContext decides on a connection that begins. The context that it returns is
// done when that is over.
func (s *Socket) connContext(ctx context.Context, info *quic.ClientInfo) (context.Context, error) {
	v := s.server.Load()
	<-v.ready
	g := &guest{proven: info.AddrVerified}
	if !v.arrive(g) {
		return nil, errRefused
	}
	if g.peer = v.owner.Admit(addrPort(info.RemoteAddr), g.proven); g.peer == nil {
		v.shaken(g)
		v.left()
		return nil, errRefused
	}
	ctx = context.WithValue(ctx, guestKey{}, g)
	context.AfterFunc(ctx, func() {
		v.shaken(g)
		if g.claimed.CompareAndSwap(false, true) {
			g.peer.End(context.Cause(ctx))
			v.left()
		}
	})
	return ctx, nil
}

// arrive counts a connection that begins, unless none may.
func (v *Server) arrive(g *guest) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.refusing {
		return false
	}
	v.peers++
	v.handshaking++
	if !g.proven {
		v.unproven++
	}
	return true
}

// shaken notes, once, that a handshake is over.
func (v *Server) shaken(g *guest) {
	if !g.shaken.CompareAndSwap(false, true) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.handshaking--
	if !g.proven {
		v.unproven--
	}
}

// left notes the end of a connection.
func (v *Server) left() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.peers--
	v.finish()
}

// finish tells of the end if this is it; v.mu is held.
func (v *Server) finish() {
	if v.over && v.peers == 0 {
		close(v.done)
	}
}

// accept takes connections whose handshake is over, until the server is closed.
func (v *Server) accept() {
	for {
		q, err := v.ln.Accept(context.Background())
		if err != nil {
			break
		}
		g := q.Context().Value(guestKey{}).(*guest)
		v.shaken(g)
		if !g.claimed.CompareAndSwap(false, true) {
			continue // it has ended meanwhile
		}
		c := newConn(v, q, g.peer)
		v.d.Start(func() {
			defer v.left()
			c.run()
		})
	}
	v.end()
}

// end notes that nothing is accepted any more.
func (v *Server) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.over = true
	close(v.closed)
	v.finish()
}

// enter lists a connection.
func (v *Server) enter(c *Conn) {
	v.mu.Lock()
	v.conns[c] = struct{}{}
	draining, cut := v.draining, v.cut
	v.mu.Unlock()
	switch {
	case cut:
		c.Abort()
	case draining:
		c.Drain()
	}
}

func (v *Server) leave(c *Conn) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.conns, c)
}

// open returns the connections.
func (v *Server) open() []*Conn {
	v.mu.Lock()
	defer v.mu.Unlock()
	list := make([]*Conn, 0, len(v.conns))
	for c := range v.conns {
		list = append(list, c)
	}
	return list
}

// Drain ends the server in order. Clients are told to go elsewhere with what they
// have not asked yet. Those that come within grace are still served, and so are
// requests that are under way, to their end. It returns at once; Closed and Done
// tell how far it is.
func (v *Server) Drain(grace time.Duration) {
	v.mu.Lock()
	again, started := v.draining, v.started
	v.draining = true
	v.mu.Unlock()
	switch {
	case again:
	case !started:
		v.discard()
	default:
		v.d.Go(func() { v.drain(grace) })
	}
}

func (v *Server) drain(grace time.Duration) {
	for _, c := range v.open() {
		c.Drain()
	}
	if v.pause(grace) {
		v.refuse()
		const look = 10 * time.Millisecond
		for waited := time.Duration(0); waited < handshakeGrace && v.shaking() && v.pause(look); waited += look {
		}
	}
	v.refuse()
	v.ln.Close()
}

// pause waits, and reports whether there is still time.
func (v *Server) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-v.cutting:
		return false
	case <-t.C:
		return true
	}
}

func (v *Server) shaking() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.handshaking > 0
}

func (v *Server) refuse() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refusing = true
}

// discard ends a server that was never started.
func (v *Server) discard() {
	v.refuse()
	v.mu.Lock()
	v.started = true
	v.mu.Unlock()
	close(v.ready)
	v.ln.Close()
	v.end()
}

// Abort ends the server and its connections now, and returns how many these were.
func (v *Server) Abort() int {
	v.Drain(0)
	v.mu.Lock()
	again := v.cut
	v.cut = true
	v.mu.Unlock()
	if !again {
		close(v.cutting)
	}
	conns := v.open()
	for _, c := range conns {
		c.Abort()
	}
	return len(conns)
}
