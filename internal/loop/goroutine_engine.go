package loop

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// goroutineEngine is the engine on goroutines: one driver, and one goroutine
// that accepts for each listener.
type goroutineEngine struct{ driver *Goroutines }

// NewGoroutineEngine returns an engine that runs everything on goroutines.
func NewGoroutineEngine() Engine { return &goroutineEngine{NewGoroutines()} }

func (e *goroutineEngine) Name() string       { return "goroutine" }
func (e *goroutineEngine) Drivers() []Driver  { return []Driver{e.driver} }
func (e *goroutineEngine) Goroutines() Driver { return e.driver }
func (e *goroutineEngine) StopDialling()      { e.driver.stop() }
func (e *goroutineEngine) Close()             { e.driver.stop() }
func (e *goroutineEngine) Stats() EngineStats {
	return EngineStats{Loops: []DriverStats{{Panics: e.driver.panics.Load()}}}
}

func (e *goroutineEngine) Listen(at netip.AddrPort) (Listener, error) {
	network, host := "tcp", ""
	if a := at.Addr(); a.IsValid() {
		host = a.String()
		network = "tcp6"
		if a.Is4() {
			network = "tcp4"
		}
	}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // plain sockets can be told to stop connecting
	ln, err := lc.Listen(context.Background(), network, net.JoinHostPort(host, strconv.Itoa(int(at.Port()))))
	if err != nil {
		return nil, err
	}
	return &goroutineListener{driver: e.driver, ln: ln.(*net.TCPListener), closed: make(chan struct{})}, nil
}

type goroutineListener struct {
	driver   *Goroutines
	ln       *net.TCPListener
	grace    atomic.Int64 // of draining, a time.Duration
	draining atomic.Bool
	served   atomic.Bool
	end      sync.Once
	closed   chan struct{}
}

func (l *goroutineListener) Addr() netip.AddrPort    { return addrPort(l.ln.Addr()) }
func (l *goroutineListener) Closed() <-chan struct{} { return l.closed }

func (l *goroutineListener) Serve(accept func(Driver, Conn), trouble func(error)) {
	l.served.Store(true)
	go l.serve(func(nc *net.TCPConn) { accept(l.driver, New(nc)) }, trouble)
}

func (l *goroutineListener) serve(accept func(*net.TCPConn), trouble func(error)) {
	defer l.ended()
	troubled := false
	for {
		nc, err := l.ln.AcceptTCP()
		switch {
		case err == nil:
			troubled = false
			accept(nc)
		case l.draining.Load():
			// A deadline that has passed keeps Accept from looking at the
			// queue, which may hold connections that came in time when the
			// machine is busy.
			l.drainQueue(accept)
			return
		default:
			// Out of descriptors or memory: it will pass, and spinning would
			// not help.
			if !troubled {
				troubled = true
				trouble(err)
			}
			time.Sleep(acceptPause)
		}
	}
}

// acceptPause is how long accepting rests when it cannot be done.
const acceptPause = 100 * time.Millisecond

// drainQueue accepts what has come already. No more comes, or, where that cannot
// be had, as much as comes within a bound.
func (l *goroutineListener) drainQueue(accept func(*net.TCPConn)) {
	grace := time.Duration(l.grace.Load())
	end := time.Now().Add(10 * grace)
	for time.Now().Before(end) {
		l.ln.SetDeadline(time.Now().Add(grace / 10))
		nc, err := l.ln.AcceptTCP()
		if err != nil {
			return
		}
		accept(nc)
	}
}

func (l *goroutineListener) Drain(grace time.Duration) {
	l.grace.CompareAndSwap(0, int64(grace)) // before draining is seen
	if l.draining.Swap(true) {
		return
	}
	stopConnecting(l.ln)
	if !l.served.Load() {
		l.ended()
		return
	}
	l.ln.SetDeadline(time.Now().Add(grace)) // serve closes the socket
}

func (l *goroutineListener) Close() {
	l.draining.Store(true)
	l.ln.Close()
	if !l.served.Load() {
		l.ended()
	}
}

func (l *goroutineListener) ended() {
	l.end.Do(func() {
		l.ln.Close()
		close(l.closed)
	})
}
