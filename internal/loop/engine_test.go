//go:build linux

package loop

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var engineKinds = []string{"goroutine", "loop"}

// eachEngine runs f with an engine of each kind, and closes it.
func eachEngine(t *testing.T, options Options, f func(t *testing.T, e Engine)) {
	for _, kind := range engineKinds {
		t.Run(kind, func(t *testing.T) {
			e, err := NewEngine(kind, options)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(e.Close)
			f(t, e)
		})
	}
}

// onTask runs f as a task and waits for its end.
func onTask(d Driver, f func()) {
	done := make(chan struct{})
	d.Go(func() {
		defer close(done)
		f()
	})
	<-done
}

// loopback is an address with a port that the system chooses.
var loopback = netip.MustParseAddrPort("127.0.0.1:0")

// serveOn opens an address and gives each of its connections to a task, which
// closes it. It is closed with the test.
func serveOn(t *testing.T, e Engine, at netip.AddrPort, serve func(d Driver, c Conn)) Listener {
	t.Helper()
	ln, err := e.Listen(at)
	if err != nil {
		t.Fatal(err)
	}
	var tasks sync.WaitGroup
	ln.Serve(func(d Driver, c Conn) {
		tasks.Add(1)
		d.Go(func() {
			defer tasks.Done()
			defer c.Close()
			serve(d, c)
		})
	}, func(err error) { t.Errorf("trouble: %v", err) })
	t.Cleanup(func() {
		ln.Close()
		<-ln.Closed()
		tasks.Wait()
	})
	return ln
}

// echo answers until the end.
func echo(_ Driver, c Conn) {
	c.SetReadDeadline(Now().Add(patience))
	for {
		b, err := c.Read(nil)
		if err != nil || c.Write(b) != nil {
			return
		}
	}
}

// echoes connects to an address and expects an echo.
func echoes(to netip.AddrPort) error {
	nc, err := net.DialTimeout("tcp", to.String(), patience)
	if err != nil {
		return err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	b := make([]byte, 4)
	if _, err := nc.Write([]byte("ping")); err != nil {
		return err
	}
	if _, err := io.ReadFull(nc, b); err != nil || string(b) != "ping" {
		return fmt.Errorf("read %q, %v", b, err)
	}
	return nil
}

func TestNewEngine(t *testing.T) {
	for kind, want := range map[string]string{"": "loop", "loop": "loop", "goroutine": "goroutine"} {
		e, err := NewEngine(kind, Options{Loops: 1})
		if err != nil {
			t.Fatal(err)
		}
		if e.Name() != want {
			t.Errorf("NewEngine(%q) is %q, want %q", kind, e.Name(), want)
		}
		e.Close()
	}
	if e, err := NewEngine("uring", Options{}); err == nil || e != nil || !strings.Contains(err.Error(), `"loop" or "goroutine"`) {
		t.Errorf("NewEngine() of no kind = %v, %v", e, err)
	}
}

func TestListen(t *testing.T) {
	eachEngine(t, Options{Loops: 3}, func(t *testing.T, e Engine) {
		used := make([]atomic.Int64, len(e.Drivers()))
		ln := serveOn(t, e, loopback, func(d Driver, c Conn) {
			used[d.Index()].Add(1)
			if c.Local() != netip.AddrPortFrom(loopback.Addr(), c.Local().Port()) || c.Remote().Addr() != loopback.Addr() {
				t.Errorf("from %v to %v", c.Remote(), c.Local())
			}
			echo(d, c)
		})
		if a := ln.Addr(); a.Addr() != loopback.Addr() || a.Port() == 0 {
			t.Errorf("Addr() = %v", a)
		}
		for range 100 {
			if err := echoes(ln.Addr()); err != nil {
				t.Fatal(err)
			}
		}
		for i := range used {
			if n := used[i].Load(); n == 0 {
				t.Errorf("driver %d got none of 100 connections", i)
			}
		}
	})
}

// Connections are made before anyone serves.
func TestListenBeforeServe(t *testing.T) {
	eachEngine(t, Options{Loops: 2}, func(t *testing.T, e Engine) {
		ln, err := e.Listen(loopback)
		if err != nil {
			t.Fatal(err)
		}
		var early []net.Conn
		for range 20 {
			nc, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			early = append(early, nc)
		}
		ln.Serve(func(d Driver, c Conn) {
			d.Go(func() {
				c.Write([]byte("x"))
				c.Close()
			})
		}, func(err error) { t.Error(err) })
		for _, nc := range early {
			if b, err := io.ReadAll(nc); string(b) != "x" || err != nil {
				t.Errorf("read %q, %v", b, err)
			}
		}
		ln.Close()
		<-ln.Closed()
	})
}

func TestListenFamilies(t *testing.T) {
	v4, v6 := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")
	for _, c := range []struct {
		at     netip.Addr
		v4, v6 bool
	}{
		{netip.Addr{}, true, true},
		{netip.IPv4Unspecified(), true, false},
		{netip.IPv6Unspecified(), false, true},
		{v4, true, false},
		{v6, false, true},
	} {
		t.Run(c.at.String(), func(t *testing.T) {
			eachEngine(t, Options{Loops: 2}, func(t *testing.T, e Engine) {
				ln := serveOn(t, e, netip.AddrPortFrom(c.at, 0), func(d Driver, c Conn) {
					if !c.Local().Addr().IsLoopback() || c.Local().Addr().Is4In6() || c.Remote().Addr().Is4In6() {
						t.Errorf("from %v to %v", c.Remote(), c.Local())
					}
					echo(d, c)
				})
				for _, to := range []struct {
					addr netip.Addr
					want bool
				}{{v4, c.v4}, {v6, c.v6}} {
					err := echoes(netip.AddrPortFrom(to.addr, ln.Addr().Port()))
					if to.want && err != nil || !to.want && !errors.Is(err, syscall.ECONNREFUSED) {
						t.Errorf("to %v: %v; want it to be served: %v", to.addr, err, to.want)
					}
				}
			})
		})
	}
}

// An address that anybody has is not shared, whatever they would allow.
func TestListenInUse(t *testing.T) {
	sharing := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) (err error) {
		raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return err
	}}
	eachEngine(t, Options{Loops: 2}, func(t *testing.T, e Engine) {
		for name, lc := range map[string]net.ListenConfig{"plain": {}, "sharing": sharing} {
			lc.SetMultipathTCP(false)
			theirs, err := lc.Listen(t.Context(), "tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			ln, err := e.Listen(theirs.Addr().(*net.TCPAddr).AddrPort())
			if !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("%s: Listen() at an address in use = %v, %v; want EADDRINUSE", name, ln, err)
			}
			theirs.Close()
		}
		before := descriptors(t)
		ln, err := e.Listen(loopback)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if again, err := e.Listen(ln.Addr()); !errors.Is(err, syscall.EADDRINUSE) {
				t.Errorf("Listen() at an own address = %v, %v; want EADDRINUSE", again, err)
			}
		}
		if nc, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", ln.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("someone else got the address: %v, %v", nc, err)
		}
		ln.Close()
		<-ln.Closed()
		if n := descriptors(t); n != before {
			t.Errorf("%d descriptors, %d before", n, before)
		}
		again, err := e.Listen(ln.Addr()) // it is free now
		if err != nil {
			t.Fatal(err)
		}
		again.Close()
	})
}

// Every connection that was made is accepted, however soon the listener drains.
func TestDrain(t *testing.T) {
	for name, served := range map[string]bool{"served": true, "not served": false} {
		t.Run(name, func(t *testing.T) {
			eachEngine(t, Options{Loops: 2}, func(t *testing.T, e Engine) {
				ln, err := e.Listen(loopback)
				if err != nil {
					t.Fatal(err)
				}
				var accepted atomic.Int64
				if served {
					ln.Serve(func(d Driver, c Conn) {
						accepted.Add(1)
						d.Go(func() { c.Close() })
					}, func(err error) { t.Errorf("trouble: %v", err) })
				}
				const n = 300
				for range n {
					nc, err := net.Dial("tcp", ln.Addr().String())
					if err != nil {
						t.Fatal(err)
					}
					defer nc.Close()
				}
				ln.Drain(20 * time.Millisecond)
				ln.Drain(time.Hour) // the first counts
				<-ln.Closed()
				ln.Close() // does no harm
				if served && accepted.Load() != n {
					t.Errorf("%d of %d connections were accepted", accepted.Load(), n)
				}
				if _, err := net.Dial("tcp", ln.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("Dial() when drained = %v, want ECONNREFUSED", err)
				}
			})
		})
	}
}

// While it drains, a listener does not take new connections.
func TestDrainDropsNewOnes(t *testing.T) {
	eachEngine(t, Options{Loops: 2}, func(t *testing.T, e Engine) {
		ln := serveOn(t, e, loopback, echo)
		ln.Drain(200 * time.Millisecond)
		nc, err := net.DialTimeout("tcp", ln.Addr().String(), 50*time.Millisecond)
		if err == nil || !isNetTimeout(err) {
			t.Errorf("Dial() while draining = %v, %v; want a time-out", nc, err)
		}
		<-ln.Closed()
	})
}

func isNetTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}

// Without descriptors accepting rests, is told once, and goes on afterwards.
func TestAcceptTrouble(t *testing.T) {
	eachEngine(t, Options{Loops: 1}, func(t *testing.T, e Engine) {
		ln, err := e.Listen(loopback)
		if err != nil {
			t.Fatal(err)
		}
		var troubles, accepted atomic.Int64
		ln.Serve(func(d Driver, c Conn) {
			accepted.Add(1)
			d.Go(func() { c.Close() })
		}, func(err error) {
			if !errors.Is(err, syscall.EMFILE) {
				t.Errorf("trouble: %v, want EMFILE", err)
			}
			troubles.Add(1)
		})
		fd, err := newSocketFD(unix.AF_INET)
		if err != nil {
			t.Fatal(err)
		}
		defer closeSocket(fd)
		restore := withoutDescriptors(t)
		_, sa := sockaddr(ln.Addr(), 0)
		if err := unix.Connect(fd, sa); err != nil && err != unix.EINPROGRESS {
			t.Fatal(err)
		}
		until(t, "trouble is told", func() bool { return troubles.Load() > 0 })
		time.Sleep(250 * time.Millisecond) // two more tries
		restore()
		until(t, "the connection is accepted", func() bool { return accepted.Load() == 1 })
		if n := troubles.Load(); n != 1 {
			t.Errorf("trouble was told %d times, want once", n)
		}
		ln.Close()
		<-ln.Closed()
	})
}

// withoutDescriptors takes all descriptors away, until restore.
func withoutDescriptors(t *testing.T) (restore func()) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	limited := was
	limited.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limited); err != nil {
		t.Fatal(err)
	}
	restore = sync.OnceFunc(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(restore)
	return restore
}

// Ten thousand connections come, are used and go, a hundred at a time.
func TestManyConnections(t *testing.T) {
	total, together := 10_000, 100
	if raceDetector {
		total = 2000
	}
	eachEngine(t, Options{Loops: 2}, func(t *testing.T, e Engine) {
		ln := serveOn(t, e, loopback, echo)
		before := descriptors(t)
		var left atomic.Int64
		left.Store(int64(total))
		var clients sync.WaitGroup
		for i := range together {
			clients.Add(1)
			d := e.Drivers()[i%len(e.Drivers())]
			d.Go(func() {
				defer clients.Done()
				for left.Add(-1) >= 0 {
					c, err := d.Dial(ln.Addr(), Sources{}, Now().Add(patience))
					if err != nil {
						t.Error(err)
						return
					}
					c.SetReadDeadline(Now().Add(patience))
					if b, err := c.Ask([]byte("hello")); string(b) != "hello" {
						t.Errorf("Ask() = %q, %v", b, err)
					}
					c.Release()
					c.Close()
				}
			})
		}
		clients.Wait()
		until(t, "nothing is left", func() bool { return descriptors(t) <= before })
		for i, s := range e.Stats().Loops {
			if s.FreeFibers > maxFree || s.Fibers > together+10 || s.Panics != 0 {
				t.Errorf("loop %d: %+v", i, s)
			}
			t.Logf("loop %d: %+v", i, s)
		}
	})
}

// An engine gives everything back.
func TestEngineClose(t *testing.T) {
	for _, kind := range engineKinds {
		t.Run(kind, func(t *testing.T) {
			cycle := func() {
				e, err := NewEngine(kind, Options{Loops: 2})
				if err != nil {
					t.Fatal(err)
				}
				ln := serveOn(t, e, loopback, echo)
				var wg sync.WaitGroup
				for range 20 {
					wg.Go(func() {
						if err := echoes(ln.Addr()); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				ln.Close()
				<-ln.Closed()
				until(t, "the connections have ended", func() bool {
					n := 0
					for _, s := range e.Stats().Loops {
						n += s.Connections
					}
					return n == 0
				})
				e.StopDialling()
				e.Close()
				e.Close() // twice does no harm
				for _, d := range e.Drivers() {
					d.Go(func() {}) // nor does what comes too late
				}
			}
			cycle()
			before := descriptors(t)
			for range 5 {
				cycle()
			}
			until(t, "all descriptors are given back", func() bool { return descriptors(t) <= before })
		})
	}
}

// The goroutines of an engine have an index of their own, end with its dialling,
// and tell of panics as loops do.
func TestGoroutinesOfAnEngine(t *testing.T) {
	for _, kind := range engineKinds {
		t.Run(kind, func(t *testing.T) {
			told := make(chan any, 1)
			e, err := NewEngine(kind, Options{Loops: 2, Panicked: func(v any, _ []byte) { told <- v }})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			g, ok := e.Goroutines().(*Goroutines)
			if !ok {
				t.Fatalf("Goroutines() is a %T", e.Goroutines())
			}
			want := len(e.Drivers()) // behind the loops
			if kind == "goroutine" {
				want = 0
			}
			if g.Index() != want {
				t.Errorf("index %d, want %d", g.Index(), want)
			}
			g.Go(func() { panic("test") })
			if v := <-told; v != "test" {
				t.Errorf("told of %v", v)
			}
			if kind == "loop" {
				until(t, "the panic is counted", func() bool { return e.Stats().Beside.Panics == 1 })
			}
			e.StopDialling()
			if _, err := g.Dial(netip.MustParseAddrPort("127.0.0.1:1"), Sources{}, 0); err != ErrStopped {
				t.Errorf("dialling after StopDialling: %v, want %v", err, ErrStopped)
			}
		})
	}
}
