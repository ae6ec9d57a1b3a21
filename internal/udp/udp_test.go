package udp

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// echo answers with what came, and nothing to "silence".
type echo struct{ batches atomic.Int64 }

func (e *echo) Begin() { e.batches.Add(1) }

func (e *echo) Answer(from netip.AddrPort, datagram, reply []byte) []byte {
	if string(datagram) == "silence" {
		return nil
	}
	if string(datagram) == "who" {
		return from.AppendTo(reply)
	}
	return append(reply, datagram...)
}

// kinds are the ways to open an address.
var kinds = map[string]func(netip.AddrPort) ([]Socket, error){
	"batches":  func(at netip.AddrPort) ([]Socket, error) { return Listen(at, 2) },
	"portable": ListenPortable,
}

// serve opens an address and answers on it until the test ends.
func serve(t testing.TB, open func(netip.AddrPort) ([]Socket, error), at string) ([]Socket, []Stats) {
	t.Helper()
	bind := netip.AddrPort{}
	if at != "" {
		bind = netip.MustParseAddrPort(at)
	}
	sockets, err := open(bind)
	if err != nil {
		t.Fatal(err)
	}
	stats := make([]Stats, len(sockets))
	var wg sync.WaitGroup
	for i, s := range sockets {
		wg.Go(func() {
			if err := s.Serve(new(echo), &stats[i]); !errors.Is(err, ErrClosed) {
				t.Errorf("Serve ended with %v", err)
			}
		})
	}
	t.Cleanup(func() {
		for _, s := range sockets {
			s.Close()
		}
		wg.Wait()
		for _, s := range sockets {
			s.Close() // once more does nothing
			if err := s.Serve(new(echo), new(Stats)); !errors.Is(err, ErrClosed) {
				t.Errorf("Serve after Close: %v", err)
			}
		}
	})
	return sockets, stats
}

func dial(t testing.TB, to netip.AddrPort) *net.UDPConn {
	t.Helper()
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(5 * time.Second))
	return c
}

func exchange(t testing.TB, c *net.UDPConn, text string) string {
	t.Helper()
	b := make([]byte, 8192)
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func TestExchange(t *testing.T) {
	for kind, open := range kinds {
		t.Run(kind, func(t *testing.T) {
			sockets, stats := serve(t, open, "127.0.0.1:0")
			for range 20 { // which the kernel spreads
				c := dial(t, sockets[0].Addr())
				if got := exchange(t, c, "hello"); got != "hello" {
					t.Errorf("got %q", got)
				}
				if got := exchange(t, c, "who"); got != c.LocalAddr().String() {
					t.Errorf("the source is said to be %s, want %s", got, c.LocalAddr())
				}
				c.Write([]byte("silence"))
				c.Write(nil) // a datagram without anything is one
				long := make([]byte, MaxDatagram)
				if got := exchange(t, c, string(long)); got != string(long) {
					t.Errorf("a long one comes back with %d bytes", len(got))
				}
				c.Write(make([]byte, MaxDatagram+1))
				if got := exchange(t, c, "after"); got != "after" {
					t.Errorf("after one that is too long: %q", got)
				}
			}
			var received, sent, oversize, in, out uint64
			for i := range stats {
				received += stats[i].Received.Load()
				sent += stats[i].Sent.Load()
				oversize += stats[i].Oversize.Load()
				in += stats[i].BytesReceived.Load()
				out += stats[i].BytesSent.Load()
			}
			if received != 20*7 || oversize != 20 || sent < 20*4 || in < 20*MaxDatagram || out < 20*MaxDatagram {
				t.Errorf("received %d (%d bytes), sent %d (%d bytes), too long %d", received, in, sent, out, oversize)
			}
		})
	}
}

// All that is waiting is answered, in batches or one by one, and each to its
// client.
func TestMany(t *testing.T) {
	for kind, open := range kinds {
		t.Run(kind, func(t *testing.T) {
			sockets, _ := serve(t, open, "127.0.0.1:0")
			var wg sync.WaitGroup
			for range 8 {
				c := dial(t, sockets[0].Addr())
				wg.Go(func() {
					b := make([]byte, 64)
					for round := range 20 {
						for i := range 20 {
							fmt.Fprintf(c, "%s %d %d", c.LocalAddr(), round, i)
						}
						for range 20 {
							n, err := c.Read(b)
							if err != nil || !bytes.HasPrefix(b[:n], []byte(c.LocalAddr().String())) {
								t.Errorf("got %q, %v", b[:n], err)
								return
							}
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

// Answers come from the address that was asked, of either family.
func TestSource(t *testing.T) {
	for kind, open := range kinds {
		for bind, asked := range map[string][]string{
			"":          {"127.0.0.1", "127.0.0.7", "::1"},
			"0.0.0.0:0": {"127.0.0.1", "127.0.0.7"},
			"[::]:0":    {"::1"},
		} {
			t.Run(kind+" "+bind, func(t *testing.T) {
				sockets, _ := serve(t, open, bind)
				for _, ip := range asked {
					c := dial(t, netip.AddrPortFrom(netip.MustParseAddr(ip), sockets[0].Addr().Port()))
					if got := exchange(t, c, "hello"); got != "hello" { // a connected socket takes no other source
						t.Errorf("%s: %q", ip, got)
					}
				}
			})
		}
	}
}

func TestInUse(t *testing.T) {
	for kind, open := range kinds {
		t.Run(kind, func(t *testing.T) {
			sockets, _ := serve(t, open, "127.0.0.1:0")
			for other, again := range kinds {
				if s, err := again(sockets[0].Addr()); !errors.Is(err, syscall.EADDRINUSE) {
					t.Errorf("%s opens the same address: %v, %v", other, s, err)
				}
			}
		})
	}
}

// A socket that never served frees its address, and one that has waits for nobody.
func TestClose(t *testing.T) {
	for kind, open := range kinds {
		t.Run(kind, func(t *testing.T) {
			sockets, err := open(netip.MustParseAddrPort("127.0.0.1:0"))
			if err != nil {
				t.Fatal(err)
			}
			at := sockets[0].Addr()
			for range 3 {
				for _, s := range sockets {
					s.Close()
				}
				if sockets, err = open(at); err != nil {
					t.Fatal(err)
				}
			}
			done := make(chan error, len(sockets))
			for _, s := range sockets {
				go func() { done <- s.Serve(new(echo), new(Stats)) }()
			}
			exchange(t, dial(t, at), "hello") // one of them serves; the other may be about to
			start := time.Now()
			for _, s := range sockets {
				s.Close()
			}
			for range sockets {
				if err := <-done; !errors.Is(err, ErrClosed) {
					t.Errorf("Serve = %v", err)
				}
			}
			if took := time.Since(start); took > 500*time.Millisecond {
				t.Errorf("Close took %v", took)
			}
		})
	}
}

// Nothing is allocated for a datagram: the client of this test does not either, so
// that the count is of the whole process.
func TestDatagramAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has batches")
	}
	sockets, _ := serve(t, kinds["batches"], "127.0.0.1:0")
	c := dial(t, sockets[0].Addr())
	b := make([]byte, 64)
	if n := testing.AllocsPerRun(200, func() {
		c.Write(b[:32])
		if n, err := c.Read(b); n != 32 || err != nil {
			t.Error(n, err)
		}
	}); n > 0 {
		t.Errorf("%v allocations for a datagram", n)
	}
}
