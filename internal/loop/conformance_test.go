//go:build linux

package loop

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	mrand "math/rand/v2"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fairlead/internal/loop/looptest"
)

// The tests of this package run over every kind of connection there is. What a
// connection does is done in tasks of the kind's driver, never by the test
// itself, so that a driver that does not run tasks as goroutines passes through
// the same tests: it adds itself to kinds.

// kind is an implementation of Conn over one sort of transport.
type kind struct {
	name   string
	driver Driver
	// pair returns a connection and its other end, which speaks TLS where the
	// connection does.
	pair func(t *testing.T) (c Conn, peer net.Conn)
	// waits reports whether a task that was started by pair.start waits.
	waits func() bool

	socket bool // the system's own socket: unasked bytes are seen, resets known
	tls    bool
	pipe   bool // no socket: no buffers, no half-close, no reset, no addresses
}

var goroutines = NewGoroutines()

var kinds = []*kind{
	{name: "socket", driver: goroutines, waits: goroutineWaits, pair: socketPair(New), socket: true},
	{name: "stream", driver: goroutines, waits: goroutineWaits, pair: socketPair(func(nc net.Conn) Conn { return newStream(nc) }), socket: true},
	{name: "tls server", driver: goroutines, waits: goroutineWaits, pair: tlsPair(true), tls: true},
	{name: "tls client", driver: goroutines, waits: goroutineWaits, pair: tlsPair(false), tls: true},
	{name: "pipe", driver: goroutines, waits: goroutineWaits, pair: pipePair, pipe: true},
	{name: "fiber socket", driver: fibers, waits: fibers.waits, pair: fibers.pair, socket: true},
	{name: "fiber tls server", driver: fibers, waits: fibers.waits, pair: fibers.tlsPair(AsServer), tls: true},
	{name: "fiber tls client", driver: fibers, waits: fibers.waits, pair: fibers.tlsPair(AsClient), tls: true},
}

// kindOf returns a kind by its name.
func kindOf(name string) *kind {
	for _, k := range kinds {
		if k.name == name {
			return k
		}
	}
	panic("no kind " + name)
}

func each(t *testing.T, f func(t *testing.T, p *pair)) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) { f(t, k.new(t)) })
	}
}

// pair is a connection under test with its other end.
type pair struct {
	*kind
	t    *testing.T
	c    Conn
	peer net.Conn
}

func (k *kind) new(t *testing.T) *pair {
	t.Helper()
	p := &pair{kind: k, t: t}
	p.c, p.peer = k.pair(t)
	t.Cleanup(func() {
		p.c.Abort()
		p.do(p.c.Release)
		abort(p.peer)
	})
	return p
}

// start runs f as a task, which waited and do find by this function's name.
func (p *pair) start(f func()) Task { return p.driver.Spawn(func() { underTest(f) }) }

//go:noinline
func underTest(f func()) { f() }

// do runs f as a task and waits for its end.
func (p *pair) do(f func()) { p.driver.Spawn(f).Wait() }

// waited returns once the task that was started waits.
func (p *pair) waited() {
	p.t.Helper()
	until(p.t, "the task waits", p.waits)
}

// goroutineWaits reports whether the one goroutine that runs underTest waits.
func goroutineWaits() bool {
	stacks := stackBuffer[:runtime.Stack(stackBuffer, true)]
	for g := range strings.SplitSeq(string(stacks), "\n\n") {
		head, _, _ := strings.Cut(g, "\n")
		if strings.Contains(g, "loop.underTest") {
			return strings.Contains(head, "[IO wait") || strings.Contains(head, "[select")
		}
	}
	return false
}

var stackBuffer = make([]byte, 256<<10) // tests that wait so run one at a time

// patience is how long a test waits for what must come, on a loaded machine.
const patience = 20 * time.Second

// until waits for a condition.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for begun := time.Now(); !cond(); <-tick.C {
		if time.Since(begun) > patience {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// read reads once, and copies what was lent.
func (p *pair) read(prefix []byte) (b []byte, err error) {
	p.do(func() {
		var lent []byte
		lent, err = p.c.Read(prefix)
		b = bytes.Clone(lent)
	})
	return b, err
}

// wantRead reads until n bytes have come and compares them.
func (p *pair) wantRead(want []byte) {
	p.t.Helper()
	var got []byte
	for len(got) < len(want) {
		b, err := p.read(nil)
		if err != nil {
			p.t.Fatalf("Read() after %d of %d bytes = %v", len(got), len(want), err)
		}
		got = append(got, b...)
	}
	same(p.t, "what was read", got, want)
}

func (p *pair) wantReadErr(want error) {
	p.t.Helper()
	if b, err := p.read(nil); !errors.Is(err, want) || b != nil {
		p.t.Fatalf("Read() = %d bytes, %v; want none, %v", len(b), err, want)
	}
}

// write makes the other end write, and waits for the end of that unless the
// bytes are only taken when they are read.
func (p *pair) write(b []byte) {
	p.t.Helper()
	if p.pipe || len(b) > 32<<10 {
		go p.peer.Write(b)
		return
	}
	if _, err := p.peer.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

// expect reads len(want) bytes at the other end and compares them.
func (p *pair) expect(want []byte) {
	p.t.Helper()
	got := make([]byte, len(want))
	p.peer.SetReadDeadline(time.Now().Add(2 * patience))
	defer p.peer.SetReadDeadline(time.Time{})
	if n, err := io.ReadFull(p.peer, got); err != nil {
		p.t.Fatalf("the other end got %d of %d bytes: %v", n, len(want), err)
	}
	same(p.t, "what the other end got", got, want)
}

// tcp returns the socket of the other end.
func (p *pair) tcp() *net.TCPConn {
	if w, ok := p.peer.(*tls.Conn); ok {
		return w.NetConn().(*net.TCPConn)
	}
	t, _ := p.peer.(*net.TCPConn)
	return t
}

// system is a socket as the system sees it.
type system interface {
	syscall.Conn
	SetWriteBuffer(bytes int) error
}

// ownTCP returns the socket of the connection under test, nil if it has none.
func ownTCP(c Conn) system {
	switch c := c.(type) {
	case interface{ system() system }:
		return c.system()
	case *stream:
		if w, ok := c.nc.(*tls.Conn); ok {
			return w.NetConn().(*net.TCPConn)
		}
		if t, ok := c.nc.(*net.TCPConn); ok {
			return t
		}
	}
	return nil
}

// reset makes the other end reset the connection, and waits until that has come.
func (p *pair) reset() {
	abort(p.peer)
	if own := ownTCP(p.c); own != nil {
		until(p.t, "the reset has come", func() bool { return tcpState(own) == tcpClosed })
	}
}

// ended makes the other end close in order, and waits until that has come.
func (p *pair) ended() {
	p.t.Helper()
	p.peer.Close()
	if own := ownTCP(p.c); own != nil {
		until(p.t, "the end has come", func() bool { return tcpState(own) == tcpCloseWait })
	}
}

func same(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	t.Fatalf("%s: %d bytes that differ at %d; want %d bytes", what, len(got), at, len(want))
}

// pattern returns n bytes that are different for each seed.
func pattern(seed uint64, n int) []byte {
	b := make([]byte, n)
	src := mrand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1})
	src.Read(b)
	return b
}

// sockets returns the two ends of a TCP connection.
func sockets(t testing.TB) (server, client *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	out, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	in, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return in.(*net.TCPConn), out.(*net.TCPConn)
}

func socketPair(wrap func(net.Conn) Conn) func(*testing.T) (Conn, net.Conn) {
	return func(t *testing.T) (Conn, net.Conn) {
		t.Helper()
		server, client := sockets(t)
		return wrap(server), client
	}
}

func pipePair(*testing.T) (Conn, net.Conn) {
	a, b := net.Pipe()
	return New(a), b
}

var certificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotAfter:     time.Now().Add(24 * time.Hour),
		DNSNames:     []string{"loop.test"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
})

// tlsPair makes pairs over TLS, with the connection under test as the server or
// as the client.
func tlsPair(server bool) func(*testing.T) (Conn, net.Conn) {
	return func(t *testing.T) (Conn, net.Conn) {
		t.Helper()
		in, out := sockets(t)
		roots := x509.NewCertPool()
		roots.AddCert(certificate().Leaf)
		s := tls.Server(in, &tls.Config{Certificates: []tls.Certificate{certificate()}})
		c := tls.Client(out, &tls.Config{ServerName: "loop.test", RootCAs: roots})
		done := make(chan error, 1)
		go func() { done <- s.Handshake() }()
		if err := errors.Join(c.Handshake(), <-done); err != nil {
			t.Fatal(err)
		}
		if server {
			return New(s), c
		}
		return New(c), s
	}
}

// poison is what is in a buffer that was given back.
const poison = 0xdb

// lent is the number of buffers that were taken and not given back.
var lent atomic.Int64

func TestMain(m *testing.M) {
	dead := bytes.Repeat([]byte{poison}, bufferSize)
	lending = func(b []byte, back bool) {
		if !back {
			lent.Add(1)
			return
		}
		lent.Add(-1)
		copy(b, dead)
	}
	watch := looptest.Every(20 * time.Millisecond)
	code := m.Run()
	for _, stack := range watch.Stop() {
		fmt.Printf("a loop was blocked:\n%s\n\n", stack)
		code = 1
	}
	os.Exit(code)
}

// isReset reports whether err says that the connection was cut.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// isClosed reports whether err says that this end closed the connection.
func isClosed(err error) bool {
	return errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe)
}

var errCause = errors.New("interrupted by the test")
