package httplb

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"fairlead/internal/loop"
)

// host returns an address of the loopback of its own, with a port: one that
// accepts, refuses, or says nothing.
func host(t *testing.T, kind string, number int) netip.AddrPort {
	t.Helper()
	ip := fmt.Sprintf("127.0.0.%d", number)
	if kind == "accepts" {
		ln, err := net.Listen("tcp", ip+":0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ln.Close() })
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				defer c.Close()
			}
		}()
		return netip.MustParseAddrPort(ln.Addr().String())
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: netip.MustParseAddr(ip).As4()}); err != nil {
		t.Fatal(err)
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.AddrPortFrom(netip.MustParseAddr(ip), uint16(sa.(*syscall.SockaddrInet4).Port))
	if kind == "silent" { // its queue is full
		syscall.Listen(fd, 0)
		for range 16 {
			c, err := net.DialTimeout("tcp", addr.String(), 100*time.Millisecond)
			if err != nil {
				break
			}
			t.Cleanup(func() { c.Close() })
		}
	}
	return addr
}

// Whichever address accepts first has the connection; one that says nothing costs
// the attempt delay, and one that refuses nothing.
func TestConnectToSeveral(t *testing.T) {
	for _, kind := range engines {
		for _, c := range []struct {
			hosts []string
			wins  int
			least time.Duration // it takes at least
			most  time.Duration // and less than that
		}{
			{[]string{"accepts"}, 0, 0, attemptDelay},
			{[]string{"accepts", "silent"}, 0, 0, attemptDelay},
			{[]string{"refuses", "accepts"}, 1, 0, attemptDelay},
			{[]string{"refuses", "refuses", "refuses", "accepts"}, 3, 0, attemptDelay},
			{[]string{"silent", "accepts"}, 1, attemptDelay, 900 * time.Millisecond},
			{[]string{"silent", "refuses", "accepts"}, 2, attemptDelay, 900 * time.Millisecond},
			{[]string{"silent", "silent", "accepts"}, 2, 2 * attemptDelay, 900 * time.Millisecond},
		} {
			t.Run(fmt.Sprint(kind, c.hosts), func(t *testing.T) {
				t.Parallel()
				d := gateDrivers(t, kind)[0]
				var to target
				for i, h := range c.hosts {
					to.addrs = append(to.addrs, host(t, h, 10+i))
				}
				in(d, func() {
					begun := loop.Now()
					to.deadline = begun.Add(5 * time.Second)
					conn, err := to.connect(d, loop.Sources{})
					took := loop.Now().Sub(begun)
					if err != nil {
						t.Errorf("connect() = %v", err)
						return
					}
					defer conn.Close()
					if conn.Remote() != to.addrs[c.wins] || to.connected != to.addrs[c.wins] || took < c.least || took >= c.most {
						t.Errorf("connected to %v, told %v, after %v; want address %d after %v to %v", conn.Remote(), to.connected, took, c.wins, c.least, c.most)
					}
				})
			})
		}
	}
}

func TestConnectToSeveralFails(t *testing.T) {
	for _, kind := range engines {
		t.Run(kind, func(t *testing.T) {
			d := gateDrivers(t, kind)[0]
			refusing := target{addrs: []netip.AddrPort{host(t, "refuses", 20), host(t, "refuses", 21)}}
			silent := target{addrs: []netip.AddrPort{host(t, "silent", 22), host(t, "refuses", 23), host(t, "silent", 24)}}
			in(d, func() {
				refusing.deadline = soon()
				if c, err := refusing.connect(d, loop.Sources{}); c != nil || !errors.Is(err, syscall.ECONNREFUSED) || refusing.connected.IsValid() {
					t.Errorf("where all refuse: %v, %v", c, err)
				}
				begun := loop.Now()
				silent.deadline = begun.Add(time.Second)
				c, err := silent.connect(d, loop.Sources{})
				if took := loop.Now().Sub(begun); c != nil || err != loop.ErrTimeout || took < time.Second || took > 5*time.Second {
					t.Errorf("where nobody answers: %v, %v after %v", c, err, took)
				}
			})
		})
	}
}

func TestAddressesAlternate(t *testing.T) {
	a := netip.MustParseAddrPort
	got := interleave(a("[2001:db8::1]:80"), []netip.Addr{
		netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("2001:db8::3"),
		netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2"),
	})
	want := []netip.AddrPort{a("[2001:db8::1]:80"), a("192.0.2.1:80"), a("[2001:db8::2]:80"), a("192.0.2.2:80")}
	if !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
	if got := interleave(a("192.0.2.1:80"), []netip.Addr{netip.MustParseAddr("192.0.2.1")}); len(got) != 1 {
		t.Errorf("of one address: %v", got)
	}
}
