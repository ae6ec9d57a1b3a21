//go:build linux

package loop

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"
)

// listen returns a listener and its address.
func listen(t *testing.T) (*net.TCPListener, netip.AddrPort) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln.(*net.TCPListener), ln.Addr().(*net.TCPAddr).AddrPort()
}

// drivers are those that can dial.
var drivers = map[string]Driver{"goroutines": goroutines, "fibers": fibers}

func eachDriver(t *testing.T, f func(t *testing.T, d Driver)) {
	for name, d := range drivers {
		t.Run(name, func(t *testing.T) { f(t, d) })
	}
}

// dial dials in a task.
func dial(d Driver, to netip.AddrPort, from Sources, deadline Time) (c Conn, err error) {
	d.Spawn(func() { c, err = d.Dial(to, from, deadline) }).Wait()
	return c, err
}

func TestDial(t *testing.T) {
	for name, deadline := range map[string]func() Time{
		"no deadline": func() Time { return 0 },
		"deadline":    func() Time { return Now().Add(patience) },
	} {
		t.Run(name, func(t *testing.T) {
			eachDriver(t, func(t *testing.T, d Driver) {
				ln, addr := listen(t)
				c, err := dial(d, addr, Sources{}, deadline())
				if err != nil {
					t.Fatalf("Dial() = %v", err)
				}
				in, err := ln.Accept()
				if err != nil {
					t.Fatal(err)
				}
				defer in.Close()
				d.Spawn(func() {
					defer c.Close()
					if c.Remote() != addr || c.Local() != addrPort(in.RemoteAddr()) || !c.Alive() || !c.Quiet() {
						t.Errorf("from %v to %v, want %v", c.Local(), c.Remote(), addr)
					}
				}).Wait()
			})
		})
	}
}

func TestDialRefused(t *testing.T) {
	eachDriver(t, func(t *testing.T, d Driver) {
		ln, addr := listen(t)
		ln.Close()
		c, err := dial(d, addr, Sources{}, Now().Add(patience))
		if !errors.Is(err, syscall.ECONNREFUSED) || c != nil {
			t.Errorf("Dial() = %v, %v; want ECONNREFUSED", c, err)
		}
	})
}

func TestDialTimeout(t *testing.T) {
	eachDriver(t, func(t *testing.T, d Driver) {
		ln, addr := listen(t)
		if c, err := dial(d, addr, Sources{}, Now().Add(-time.Second)); err != ErrTimeout || c != nil {
			t.Errorf("Dial() with a deadline in the past = %v, %v; want ErrTimeout", c, err)
		}
		swallowing(t, d, ln)
		deadline := Now().Add(30 * time.Millisecond)
		c, err := dial(d, addr, Sources{}, deadline)
		if err != ErrTimeout || c != nil || Now() < deadline {
			t.Errorf("Dial() = %v, %v, %v before its deadline; want ErrTimeout", c, err, deadline.Sub(Now()))
		}
	})
}

// swallowing makes a listener swallow what comes: its queue is full.
func swallowing(t *testing.T, d Driver, ln *net.TCPListener) {
	t.Helper()
	fill(t, ln)
	until(t, "an attempt is swallowed", func() bool {
		c, err := dial(d, addrPort(ln.Addr()), Sources{}, Now().Add(30*time.Millisecond))
		if err == nil {
			t.Cleanup(func() { c.Abort() })
			return false // the queue had room yet
		}
		return err == ErrTimeout
	})
}

func TestDialSource(t *testing.T) {
	eachDriver(t, func(t *testing.T, d Driver) {
		ln, addr := listen(t)
		for _, c := range []struct {
			from Sources
			want netip.Addr
		}{
			{Sources{}, netip.MustParseAddr("127.0.0.1")},
			{Sources{V4: netip.MustParseAddr("127.0.0.7")}, netip.MustParseAddr("127.0.0.7")},
			{Sources{V6: netip.MustParseAddr("::1")}, netip.MustParseAddr("127.0.0.1")},
		} {
			out, err := dial(d, addr, c.from, Now().Add(patience))
			if err != nil {
				t.Fatal(err)
			}
			in, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			d.Spawn(func() {
				if got := in.RemoteAddr().(*net.TCPAddr).AddrPort(); got.Addr() != c.want || out.Local() != got {
					t.Errorf("%+v: came from %v (Local() = %v), want %v", c.from, got, out.Local(), c.want)
				}
				out.Close()
			}).Wait()
			in.Close()
		}
		from := Sources{V4: netip.MustParseAddr("192.0.2.1")} // not ours
		if c, err := dial(d, addr, from, Now().Add(patience)); !errors.Is(err, syscall.EADDRNOTAVAIL) {
			t.Errorf("Dial() from an address that is not ours = %v, %v; want EADDRNOTAVAIL", c, err)
		}
	})
}

// An address in the form that maps IPv4 into IPv6 counts as IPv4.
func TestDialMapped(t *testing.T) {
	eachDriver(t, func(t *testing.T, d Driver) {
		ln, addr := listen(t)
		from := Sources{V4: netip.MustParseAddr("127.0.0.9"), V6: netip.MustParseAddr("::1")}
		mapped := netip.AddrPortFrom(netip.AddrFrom16(addr.Addr().As16()), addr.Port())
		c, err := dial(d, mapped, from, Now().Add(patience))
		if err != nil {
			t.Fatal(err)
		}
		in, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		d.Spawn(func() {
			defer c.Close()
			if c.Local().Addr() != from.V4 || c.Remote() != addr {
				t.Errorf("from %v to %v, want from %v to %v", c.Local(), c.Remote(), from.V4, addr)
			}
		}).Wait()
	})
}

func TestDialIPv6(t *testing.T) {
	eachDriver(t, func(t *testing.T, d Driver) {
		for _, host := range []string{"::1", "::1%lo"} {
			ln, err := net.Listen("tcp6", "[::1]:0")
			if err != nil {
				t.Fatal(err)
			}
			to := netip.AddrPortFrom(netip.MustParseAddr(host), uint16(ln.Addr().(*net.TCPAddr).Port))
			c, err := dial(d, to, Sources{V6: netip.MustParseAddr("::1")}, Now().Add(patience))
			if err != nil {
				t.Fatalf("Dial(%v) = %v", to, err)
			}
			c.Abort()
			ln.Close()
		}
	})
}

// Whatever dials when dialling is stopped ends, and so does what would begin.
func TestStopDialling(t *testing.T) {
	eachEngine(t, Options{Loops: 1}, func(t *testing.T, e Engine) {
		d := e.Drivers()[0]
		full, fullAddr := listen(t)
		mute, muteAddr := listen(t) // takes connections and says nothing
		if e.Name() == "loop" {
			swallowing(t, fibers, full)
		} else {
			swallowing(t, goroutines, full)
		}
		var dialled, secured error
		var tasks sync.WaitGroup
		tasks.Add(2)
		d.Go(func() {
			defer tasks.Done()
			_, dialled = d.Dial(fullAddr, Sources{}, 0)
		})
		handshaking := make(chan bool)
		d.Go(func() {
			defer tasks.Done()
			c, err := d.Dial(muteAddr, Sources{}, 0)
			if err != nil {
				t.Errorf("Dial() = %v", err)
				return
			}
			defer c.Close()
			close(handshaking)
			_, _, secured = d.Secure(c, AsClient, &tls.Config{ServerName: "loop.test"}, 0)
		})
		<-handshaking
		in, err := mute.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		in.Read(make([]byte, 1)) // the handshake has begun
		e.StopDialling()
		e.StopDialling()
		tasks.Wait()
		var later error
		onTask(d, func() { _, later = d.Dial(muteAddr, Sources{}, 0) })
		if dialled != ErrStopped || secured != ErrStopped || later != ErrStopped {
			t.Errorf("dialling ended with %v, a handshake with %v, dialling later with %v; want ErrStopped", dialled, secured, later)
		}
	})
}
