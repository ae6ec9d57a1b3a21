package loop

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fibers is a loop whose Spawn may be called by tests, which are no tasks.
var fibers = newFiberDriver(Options{Loops: 1})

type fiberDriver struct {
	*eventLoop
	engine *loopEngine
	tasks  sync.Map // the goroutines that are its fibers, by id
}

func newFiberDriver(options Options) *fiberDriver {
	e, err := NewLoopEngine(options)
	if err != nil {
		panic(err)
	}
	engine := e.(*loopEngine)
	return &fiberDriver{eventLoop: engine.loops[0], engine: engine}
}

func goroutineID() string {
	b := make([]byte, 64)
	return string(bytes.Fields(b[:runtime.Stack(b, false)])[1])
}

type outerTask chan struct{}

func (t outerTask) Wait() { <-t }

func (d *fiberDriver) Spawn(f func()) Task {
	marked := func() {
		id := goroutineID()
		d.tasks.Store(id, true)
		f()
	}
	if _, ok := d.tasks.Load(goroutineID()); ok {
		return d.eventLoop.Spawn(marked)
	}
	t := make(outerTask)
	d.Go(func() {
		defer close(t)
		marked()
	})
	return t
}

// do runs f on the loop, outside of tasks, and waits for its end.
func (l *eventLoop) do(f func()) {
	done := make(chan struct{})
	l.post(postFunc(func() {
		f()
		close(done)
	}))
	<-done
}

// waits reports whether some task waits for a connection.
func (l *eventLoop) waits() (waits bool) {
	l.do(func() {
		for _, c := range l.conns {
			waits = waits || c != nil && (c.in.waiter != nil || c.out.waiter != nil)
		}
	})
	return waits
}

// adopt makes a connection of the loop from one of the net package.
func (l *eventLoop) adopt(t *testing.T, nc *net.TCPConn) (c *fiberConn) {
	t.Helper()
	f, err := nc.File()
	if err != nil {
		t.Fatal(err)
	}
	local, remote := addrPort(nc.LocalAddr()), addrPort(nc.RemoteAddr())
	nc.Close()
	defer f.Close()
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	l.do(func() { c, err = l.register(fd, remote, local) })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (d *fiberDriver) pair(t *testing.T) (Conn, net.Conn) {
	t.Helper()
	server, client := sockets(t)
	return d.adopt(t, server), client
}

func (d *fiberDriver) tlsPair(side Side) func(t *testing.T) (Conn, net.Conn) {
	return func(t *testing.T) (Conn, net.Conn) {
		t.Helper()
		in, out := sockets(t)
		mine, theirs := in, out
		if side == AsClient {
			mine, theirs = out, in
		}
		server := &tls.Config{Certificates: []tls.Certificate{certificate()}}
		roots := x509.NewCertPool()
		roots.AddCert(certificate().Leaf)
		client := &tls.Config{ServerName: "loop.test", RootCAs: roots}
		peer, config := tls.Server(theirs, server), client
		if side == AsServer {
			peer, config = tls.Client(theirs, client), server
		}
		done := make(chan error, 1)
		go func() { done <- peer.Handshake() }()
		c := d.adopt(t, mine)
		var s Conn
		var err error
		d.Spawn(func() { s, _, err = d.Secure(c, side, config, Now().Add(patience)) }).Wait()
		if err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		return s, peer
	}
}

// fiberSocket shows tests the socket of a connection.
type fiberSocket struct{ c *fiberConn }

func (c *fiberConn) system() system { return fiberSocket{c} }
func (t *fiberTLS) system() system  { return fiberSocket{t.c} }

func (s fiberSocket) SyscallConn() (syscall.RawConn, error) { return s, nil }

func (s fiberSocket) SetWriteBuffer(n int) error {
	return s.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, n) })
}

func (s fiberSocket) Control(f func(fd uintptr)) (err error) {
	s.c.l.do(func() {
		if err = net.ErrClosed; !s.c.closed {
			err = nil
			f(uintptr(s.c.fd))
		}
	})
	return err
}

func (fiberSocket) Read(func(uintptr) bool) error  { return syscall.ENOTSUP }
func (fiberSocket) Write(func(uintptr) bool) error { return syscall.ENOTSUP }

// pause lets other tasks of a driver run, from one that never waits.
func pause(d Driver) { d.Sleep(time.Microsecond) }
