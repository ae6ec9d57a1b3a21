//go:build linux

package loop

import (
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

func TestWriteSizes(t *testing.T) {
	sizes := []int{0, 1, 1000, 16 << 10, 64<<10 + 1, 5 << 20} // the last does not fit into a socket
	for _, a := range sizes {
		for _, b := range sizes {
			if a+b > 6<<20 || a > 1<<20 && b > 0 && b < 64<<10 {
				continue
			}
			t.Run(fmt.Sprintf("%d and %d", a, b), func(t *testing.T) {
				each(t, func(t *testing.T, p *pair) {
					first, second := pattern(uint64(a), a), pattern(uint64(b)+7, b)
					var err error
					task := p.start(func() {
						if b == 0 {
							err = p.c.Write(first)
						} else {
							err = p.c.Writev(first, second)
						}
					})
					p.expect(append(first, second...))
					task.Wait()
					if err != nil {
						t.Fatal(err)
					}
				})
			})
		}
	}
}

func TestWriteStalls(t *testing.T) {
	const timeout = 60 * time.Millisecond
	each(t, func(t *testing.T, p *pair) {
		p.do(func() {
			p.c.SetWriteTimeout(timeout)
			begun := Now()
			if err := p.c.Write(make([]byte, 32<<20)); err != ErrStalled {
				t.Errorf("Write() = %v, want ErrStalled", err)
			}
			if took := Now().Sub(begun); took < timeout {
				t.Errorf("given up after %v, before the time-out of %v", took, timeout)
			}
			if p.tls {
				return // nothing can follow
			}
			// There is hardly any room yet, and the time runs anew.
			begun = Now()
			if err := p.c.Write(make([]byte, 32<<20)); err != ErrStalled {
				t.Errorf("Write() after a stall = %v, want ErrStalled", err)
			}
			if took := Now().Sub(begun); took < timeout {
				t.Errorf("given up the second time after %v, before the time-out of %v", took, timeout)
			}
			p.c.SetWriteTimeout(0)
		})
		if p.tls {
			return
		}
		// What it took is read, and then there is room again.
		go io.Copy(io.Discard, p.peer)
		p.do(func() {
			if err := p.c.Write([]byte("more")); err != nil {
				t.Errorf("Write() after a stall = %v", err)
			}
		})
	})
}

// A time-out that passed between writes, or was taken away, does not show.
func TestWriteTimeoutIsOfOneWrite(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		if p.pipe {
			return // see TestStallExactly: a pipe stalls when nobody reads
		}
		for i := range 3 {
			p.do(func() {
				p.c.SetWriteTimeout([]time.Duration{40 * time.Millisecond, 0, 10 * time.Second}[i])
				if err := p.c.Write([]byte("x")); err != nil {
					t.Errorf("Write() %d = %v", i, err)
				}
			})
			passed := Now().Add(50 * time.Millisecond)
			until(t, "the time-out has passed", func() bool { return Now() > passed })
		}
		p.expect([]byte("xxx"))
	})
}

// A reader that takes little at a time makes the socket writable far more
// seldom than it makes progress.
func TestSlowReaderIsNotStalled(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			p := k.new(t)
			if p.pipe {
				return // see TestStallExactly
			}
			// Its system tells what it takes in steps of half its buffer. One
			// smaller than a segment would stop it between probes.
			if err := p.tcp().SetReadBuffer(96 << 10); err != nil {
				t.Fatal(err)
			}
			if err := ownTCP(p.c).SetWriteBuffer(1 << 20); err != nil {
				t.Fatal(err)
			}
			const timeout = 400 * time.Millisecond
			data := pattern(4, 3<<20)
			var err error
			longest := time.Duration(0)
			task := p.start(func() {
				p.c.SetWriteTimeout(timeout)
				for rest := data; len(rest) > 0 && err == nil; rest = rest[64<<10:] {
					begun := Now()
					err = p.c.Write(rest[:64<<10])
					longest = max(longest, Now().Sub(begun))
				}
				if err != nil {
					p.c.Abort() // the reader does not wait for more
				}
			})
			got := make([]byte, len(data))
			pace := time.NewTicker(5 * time.Millisecond)
			defer pace.Stop()
			n := 0
			paused, last := time.Duration(0), Now() // by the machine, when it is busy
			for slow := Now().Add(2 * time.Second); Now() < slow && n < len(got); <-pace.C {
				paused, last = max(paused, Now().Sub(last)), Now()
				m, rerr := p.peer.Read(got[n:min(n+4<<10, len(got))])
				if n += m; rerr != nil {
					break
				}
			}
			p.tcp().SetReadBuffer(4 << 20) // the rest may be quick
			_, rerr := io.ReadFull(p.peer, got[n:])
			task.Wait()
			if err == ErrStalled && paused > timeout/8 {
				t.Logf("the reader itself was paused for %v: nothing is known", paused)
				return
			}
			if rerr != nil {
				t.Errorf("the other end: %v", rerr)
			}
			if err != nil {
				t.Fatalf("Write() = %v although the other end took bytes all the time", err)
			}
			same(t, "what the other end got", got, data)
			t.Logf("the longest write took %v, the time-out is %v", longest, timeout)
		})
	}
}

// With a clock of its own: a stall is found no earlier than the time-out and no
// later than a quarter after it, and progress postpones it.
func TestStallExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := kindOf("pipe").new(t)
		const timeout = 8 * time.Second
		p.c.SetWriteTimeout(timeout)
		for range 3 { // the timer of one write is still running in the next
			begun := Now()
			done := make(chan error)
			go func() { done <- p.c.Write(make([]byte, 3*64<<10)) }()
			for range 2 { // a piece in each period and a half would be too slow
				time.Sleep(timeout - 1)
				io.ReadFull(p.peer, make([]byte, 64<<10))
			}
			last := Now()
			if err := <-done; err != ErrStalled {
				t.Errorf("Write() = %v, want ErrStalled", err)
			}
			if took := Now().Sub(last); took < timeout || took > timeout+timeout/stallLooks {
				t.Errorf("stalled %v after the last progress, want %v to %v", took, timeout, timeout+timeout/stallLooks)
			}
			if last.Sub(begun) != 2*(timeout-1) {
				t.Errorf("progress ended after %v", last.Sub(begun))
			}
		}
	})
}

func TestStallOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := stall{since: Now()}
		const timeout = 4 * time.Second
		for i, c := range []struct {
			acked uint64
			want  bool
		}{
			{100, false}, // the first look has nothing to compare with
			{100, false}, {100, false}, {100, false}, {100, true},
			{101, false}, // progress
			{101, false}, {101, false}, {101, false}, {101, true}, {101, true},
		} {
			time.Sleep(timeout / stallLooks)
			if got := s.over(timeout, c.acked); got != c.want {
				t.Errorf("look %d: over() = %v, want %v", i, got, c.want)
			}
		}
	})
}

// A write that ends at the very moment at which it is given up spoils nothing.
func TestStallAtTheEndOfAWrite(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		s, ok := p.c.(*stream)
		if !ok || p.pipe {
			return
		}
		s.nc = &lateCut{Conn: s.nc, guard: &s.guard}
		go io.Copy(io.Discard, p.peer)
		p.do(func() {
			s.SetWriteTimeout(time.Hour)
			for range 3 {
				if err := s.Write(make([]byte, 200_000)); err != nil {
					t.Errorf("Write() = %v", err)
				}
			}
			s.SetWriteTimeout(0)
			if err := s.Write([]byte("x")); err != nil {
				t.Errorf("Write() = %v", err)
			}
		})
	})
}

// lateCut writes, and looks for a stall before it returns.
type lateCut struct {
	net.Conn
	guard *guard
}

func (c *lateCut) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.guard.mu.Lock()
	defer c.guard.mu.Unlock()
	if c.guard.timeout > 0 {
		c.guard.stalled = true
		c.guard.cut()
	}
	return n, err
}
