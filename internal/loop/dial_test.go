//go:build linux

package loop

import (
	"errors"
	"net"
	"net/netip"
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

func TestDial(t *testing.T) {
	for name, deadline := range map[string]func() Time{
		"no deadline": func() Time { return 0 },
		"deadline":    func() Time { return Now().Add(patience) },
	} {
		t.Run(name, func(t *testing.T) {
			ln, addr := listen(t)
			goroutines.Spawn(func() {
				c, err := goroutines.Dial(addr, Sources{}, deadline())
				if err != nil {
					t.Errorf("Dial() = %v", err)
					return
				}
				defer c.Close()
				if c.Remote() != addr || !c.Alive() {
					t.Errorf("Remote() = %v, want %v", c.Remote(), addr)
				}
				in, err := ln.Accept()
				if err != nil {
					t.Error(err)
					return
				}
				in.Close()
			}).Wait()
		})
	}
}

func TestDialRefused(t *testing.T) {
	ln, addr := listen(t)
	ln.Close()
	c, err := goroutines.Dial(addr, Sources{}, Now().Add(patience))
	if !errors.Is(err, syscall.ECONNREFUSED) || c != nil {
		t.Errorf("Dial() = %v, %v; want ECONNREFUSED", c, err)
	}
}

func TestDialTimeout(t *testing.T) {
	ln, addr := listen(t)
	if c, err := goroutines.Dial(addr, Sources{}, Now().Add(-time.Second)); err != ErrTimeout || c != nil {
		t.Errorf("Dial() with a deadline in the past = %v, %v; want ErrTimeout", c, err)
	}
	// A listener whose queue is full swallows what comes.
	fill(t, ln)
	until(t, "an attempt is swallowed", func() bool {
		deadline := Now().Add(30 * time.Millisecond)
		c, err := goroutines.Dial(addr, Sources{}, deadline)
		if err == nil {
			t.Cleanup(func() { c.Abort() })
			return false // the queue had room yet
		}
		if err != ErrTimeout || Now() < deadline {
			t.Fatalf("Dial() = %v, %v before its deadline; want ErrTimeout", err, deadline.Sub(Now()))
		}
		return true
	})
}

func TestDialSource(t *testing.T) {
	ln, addr := listen(t)
	for _, c := range []struct {
		from Sources
		want netip.Addr
	}{
		{Sources{}, netip.MustParseAddr("127.0.0.1")},
		{Sources{V4: netip.MustParseAddr("127.0.0.7")}, netip.MustParseAddr("127.0.0.7")},
		{Sources{V6: netip.MustParseAddr("::1")}, netip.MustParseAddr("127.0.0.1")},
	} {
		out, err := goroutines.Dial(addr, c.from, Now().Add(patience))
		if err != nil {
			t.Fatal(err)
		}
		in, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got := in.RemoteAddr().(*net.TCPAddr).AddrPort(); got.Addr() != c.want || out.Local() != got {
			t.Errorf("%+v: came from %v (Local() = %v), want %v", c.from, got, out.Local(), c.want)
		}
		out.Close()
		in.Close()
	}
	from := Sources{V4: netip.MustParseAddr("192.0.2.1")} // not ours
	if c, err := goroutines.Dial(addr, from, Now().Add(patience)); err == nil || err == ErrTimeout {
		t.Errorf("Dial() from an address that is not ours = %v, %v", c, err)
	}
}

// An address in the form that maps IPv4 into IPv6 counts as IPv4.
func TestDialMapped(t *testing.T) {
	ln, addr := listen(t)
	from := Sources{V4: netip.MustParseAddr("127.0.0.9"), V6: netip.MustParseAddr("::1")}
	mapped := netip.AddrPortFrom(netip.AddrFrom16(addr.Addr().As16()), addr.Port())
	c, err := goroutines.Dial(mapped, from, Now().Add(patience))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if c.Local().Addr() != from.V4 || c.Remote() != addr {
		t.Errorf("from %v to %v, want from %v to %v", c.Local(), c.Remote(), from.V4, addr)
	}
}
