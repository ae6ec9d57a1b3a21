package loop

import (
	"context"
	"net/netip"
	"os"
	"runtime/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// bestEngine is what NewEngine makes when no kind is asked for.
const bestEngine = "loop"

// loopEngine runs fibers on event loops.
type loopEngine struct {
	options Options
	loops   []*eventLoop
	beside  *Goroutines
	stop    sync.Once
	over    chan struct{}
	watcher sync.WaitGroup
}

// NewLoopEngine returns an engine of event loops.
func NewLoopEngine(options Options) (Engine, error) {
	e := &loopEngine{options: options, over: make(chan struct{})}
	n := options.Loops
	if n <= 0 {
		n = processors()
	}
	leaveProcessor(n)
	e.beside = NewGoroutines()
	e.beside.index, e.beside.panicked = n, options.Panicked
	for i := range n {
		l, err := newEventLoop(i, &e.options)
		if err != nil {
			e.Close()
			return nil, err
		}
		e.loops = append(e.loops, l)
		// Fibers inherit the label, by which the watchdog and profiles tell
		// the loops apart.
		go pprof.Do(context.Background(), pprof.Labels("loop", strconv.Itoa(i)), func(context.Context) { l.run() })
	}
	e.watcher.Go(e.watch)
	return e, nil
}

func (e *loopEngine) Name() string { return "loop" }

func (e *loopEngine) Drivers() []Driver {
	drivers := make([]Driver, len(e.loops))
	for i, l := range e.loops {
		drivers[i] = l
	}
	return drivers
}

func (e *loopEngine) Goroutines() Driver { return e.beside }

func (e *loopEngine) StopDialling() {
	e.beside.stop()
	for _, l := range e.loops {
		l.post(postFunc(l.stopDialling))
	}
}

func (l *eventLoop) stopDialling() {
	l.stopped = true
	for _, c := range l.conns {
		if c != nil && c.dialling {
			c.in.wake()
			c.out.wake()
		}
	}
}

func (e *loopEngine) Close() {
	e.stop.Do(func() { close(e.over) })
	e.beside.stop()
	for _, l := range e.loops {
		l.post(postFunc(func() { l.ending = true }))
	}
	for _, l := range e.loops {
		<-l.done
	}
	e.watcher.Wait()
}

// loopListener has a socket for each loop, all at one address (SO_REUSEPORT):
// the kernel spreads connections over them, and the loops make that even.
type loopListener struct {
	engine    *loopEngine
	addr      netip.AddrPort
	acceptors []*acceptor

	mu     sync.Mutex
	served bool
	ended  bool         // closing or draining has begun
	left   atomic.Int32 // open sockets, and what goes from one loop to another
	closed chan struct{}
}

func (e *loopEngine) Listen(at netip.AddrPort) (Listener, error) {
	ln := &loopListener{engine: e, closed: make(chan struct{})}
	for _, l := range e.loops {
		fd, err := ln.open(at)
		if err != nil {
			ln.Close()
			return nil, err
		}
		a := &acceptor{l: l, ln: ln, fd: fd}
		if !ln.addr.IsValid() {
			ln.addr = localAddr(fd)
			at = netip.AddrPortFrom(at.Addr(), ln.addr.Port())
		}
		if !ln.addr.Addr().IsUnspecified() {
			a.local = ln.addr
		}
		ln.acceptors = append(ln.acceptors, a)
		ln.left.Add(1)
	}
	return ln, nil
}

// open opens the next socket. The first one is bound without SO_REUSEPORT, so
// that it fails where anybody else has the address, even if they would share
// it; once the option is set, the others can join.
func (ln *loopListener) open(at netip.AddrPort) (fd int, err error) {
	dual := !at.Addr().IsValid()
	ip := at.Addr().Unmap()
	switch {
	case dual && ln.addr.Addr().Is4(): // there is no IPv6, as the first found
		dual, ip = false, netip.IPv4Unspecified()
	case dual:
		ip = netip.IPv6Unspecified()
	}
	fd, err = ln.bind(netip.AddrPortFrom(ip, at.Port()), dual)
	if err != nil && dual && len(ln.acceptors) == 0 && !supportsIPv6() {
		fd, err = ln.bind(netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port()), false)
	}
	return fd, err
}

// supportsIPv6 reports whether the system has IPv6 at all.
func supportsIPv6() bool {
	fd, err := newSocketFD(unix.AF_INET6)
	if err != nil {
		return false
	}
	defer closeSocket(fd)
	return unix.Bind(fd, &unix.SockaddrInet6{Addr: netip.IPv6Loopback().As16()}) == nil
}

func (ln *loopListener) bind(at netip.AddrPort, dual bool) (fd int, err error) {
	zone := 0
	if name := at.Addr().Zone(); name != "" {
		zone = zoneIndex(name)
	}
	family, sa := sockaddr(at, zone)
	if fd, err = newSocketFD(family); err != nil {
		return -1, err
	}
	defer func() {
		if err != nil {
			closeSocket(fd)
		}
	}()
	set := func(level, name, value int) {
		if err == nil {
			err = os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, level, name, value))
		}
	}
	set(unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if family == unix.AF_INET6 {
		only := 1
		if dual {
			only = 0
		}
		set(unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, only)
	}
	first := len(ln.acceptors) == 0
	if !first {
		set(unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}
	if err == nil {
		err = setStreamOptions(fd)
	}
	if err == nil {
		err = os.NewSyscallError("bind", unix.Bind(fd, sa))
	}
	if first {
		set(unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}
	if err == nil {
		err = os.NewSyscallError("listen", unix.Listen(fd, maxBacklog))
	}
	return fd, err
}

// maxBacklog asks for the longest queue of connections that the system allows.
const maxBacklog = 1<<16 - 1

func (ln *loopListener) Addr() netip.AddrPort    { return ln.addr }
func (ln *loopListener) Closed() <-chan struct{} { return ln.closed }

// oneClosed is called once for each that was left.
func (ln *loopListener) oneClosed() {
	if ln.left.Add(-1) == 0 {
		close(ln.closed)
	}
}

func (ln *loopListener) Serve(accept func(Driver, Conn), trouble func(error)) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.ended || ln.served {
		return
	}
	ln.served = true
	for _, a := range ln.acceptors {
		a.accept, a.trouble = accept, trouble
	}
	for _, a := range ln.acceptors {
		a.l.post(postFunc(a.serve))
	}
}

func (ln *loopListener) Drain(grace time.Duration) {
	ln.finish(func(a *acceptor) {
		dropSYN(a.fd)
	}, func(a *acceptor) { a.drain(grace) })
}

func (ln *loopListener) Close() {
	ln.finish(func(*acceptor) {}, (*acceptor).close)
}

// finish ends accepting: now, for all sockets, and later, on the loop of each.
func (ln *loopListener) finish(now, later func(*acceptor)) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if !ln.served && !ln.ended {
		for _, a := range ln.acceptors {
			a.close()
		}
	} else {
		if !ln.ended {
			for _, a := range ln.acceptors {
				now(a)
			}
		}
		for _, a := range ln.acceptors {
			a.l.post(postFunc(func() { later(a) }))
		}
	}
	ln.ended = true
}
