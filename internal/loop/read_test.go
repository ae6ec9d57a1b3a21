//go:build linux

package loop

import (
	"bytes"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"
)

func TestReadEveryByteOnce(t *testing.T) {
	for _, n := range []int{1, 2047, 2048, 2049, 16 << 10, bufferSize - 1, bufferSize, bufferSize + 1, 300_000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			each(t, func(t *testing.T, p *pair) {
				data := pattern(uint64(n), n)
				p.write(data)
				p.wantRead(data)
				p.write([]byte("more"))
				p.wantRead([]byte("more"))
			})
		})
	}
}

func TestReadPrefix(t *testing.T) {
	outside := func(n int) func([]byte) []byte {
		return func([]byte) []byte { return pattern(9, n) }
	}
	for _, c := range []struct {
		name   string
		prefix func(lent []byte) []byte
	}{
		{"none", func([]byte) []byte { return nil }},
		{"all that was lent", func(b []byte) []byte { return b }},
		{"start of what was lent", func(b []byte) []byte { return b[:100] }},
		{"end of what was lent", func(b []byte) []byte { return b[len(b)-100:] }},
		{"middle, overlapping its new place", func(b []byte) []byte { return b[1 : len(b)-1] }},
		{"not lent", outside(100)},
		{"not lent, nearly a buffer", outside(bufferSize - minRoom)},
		{"not lent, leaves too little room", outside(bufferSize - minRoom + 1)},
		{"not lent, a buffer", outside(bufferSize)},
		{"not lent, longer than a buffer", outside(3*bufferSize + 1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, p *pair) {
				first := pattern(1, 1000)
				p.write(first)
				var prefix, got []byte
				var err error
				var begun atomic.Bool
				task := p.start(func() {
					var b []byte
					for len(b) < len(first) && err == nil {
						b, err = p.c.Read(b)
					}
					same(t, "what was read first", b, first)
					lent := c.prefix(b)
					prefix = bytes.Clone(lent)
					begun.Store(true)
					b, err = p.c.Read(lent) // waits
					got = bytes.Clone(b)
				})
				until(t, "the first bytes were read", begun.Load)
				p.waited()
				p.write([]byte("behind"))
				task.Wait()
				if err != nil {
					t.Fatal(err)
				}
				if len(got) == len(prefix) {
					t.Fatal("Read() returned the prefix alone")
				}
				for len(got) < len(prefix)+len("behind") {
					if got, err = p.read(got); err != nil {
						t.Fatal(err)
					}
				}
				same(t, "prefix and what came", got, append(prefix, "behind"...))
			})
		})
	}
}

// A head that comes in pieces is read with all of it as the prefix, again and
// again, and may grow beyond a buffer.
func TestReadGrowingPrefix(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		data := pattern(2, 4*bufferSize)
		go func() {
			for rest := data; len(rest) > 0; {
				n := min(len(rest), 7001)
				p.peer.Write(rest[:n])
				rest = rest[n:]
			}
		}()
		p.do(func() {
			var b []byte
			var err error
			for len(b) < len(data) {
				if b, err = p.c.Read(b); err != nil {
					t.Error(err)
					return
				}
			}
			if !bytes.Equal(b, data) {
				t.Error("the prefix did not survive being grown")
			}
			p.c.Release()
		})
	})
}

// Timers that fire before the deadline that is wanted must not show, nor
// disturb the prefix.
func TestReadPrefixOutlivesEarlyTimers(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		p.write([]byte("head "))
		p.do(func() { p.c.SetReadDeadline(Now().Add(patience)) })
		p.wantRead([]byte("head "))
		var got []byte
		var err error
		soon := Now().Add(20 * time.Millisecond)
		task := p.start(func() {
			for range 2 { // the second arms a timer that the read after it does not want
				p.c.SetReadDeadline(soon)
				if _, err := p.c.Read(nil); err != ErrTimeout {
					t.Errorf("Read() = %v, want ErrTimeout", err)
				}
				p.c.SetReadDeadline(Now().Add(20 * time.Millisecond))
			}
			p.c.SetReadDeadline(Now().Add(patience))
			var b []byte
			b, err = p.c.Read([]byte("head "))
			got = bytes.Clone(b)
		})
		until(t, "both timers have fired", func() bool { return Now() > soon.Add(50*time.Millisecond) && p.waits() })
		p.write([]byte("x"))
		task.Wait()
		if string(got) != "head x" || err != nil {
			t.Fatalf("Read() = %q, %v", got, err)
		}
	})
}

// What a look has found is read as if there had been no look.
func TestReadAfterQuiet(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		if p.pipe {
			return
		}
		data := pattern(14, 5000)
		for _, prefix := range []string{"", "prefix "} {
			p.write(data)
			until(t, "something has come", func() bool { return received(ownTCP(p.c)) > 0 })
			for range 2 {
				p.do(func() {
					if p.c.Quiet() {
						t.Error("Quiet() = true, although bytes wait")
					}
				})
			}
			p.c.Interrupt(errCause)
			p.wantReadErr(errCause)
			p.do(p.c.Resume)
			got := []byte(prefix)
			for len(got) < len(prefix)+len(data) {
				b, err := p.read(got)
				if err != nil {
					t.Fatal(err)
				}
				got = b
			}
			same(t, "prefix and what came", got, append([]byte(prefix), data...))
			p.do(func() {
				if !p.c.Quiet() {
					t.Error("Quiet() = false, although all was read")
				}
			})
			p.timesOut(Now().Add(time.Millisecond)) // the deadline is the caller's again
			p.do(func() { p.c.SetReadDeadline(0) })
		}
	})
}

func TestEndComesAfterTheBytes(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		data := pattern(3, 150_000)
		go func() {
			p.peer.Write(data)
			p.peer.Close()
		}()
		p.wantRead(data)
		p.wantReadErr(io.EOF)
		p.wantReadErr(io.EOF)
	})
}

// Who waits owns no buffer, and what was released is not looked at again: the
// tests overwrite it.
func TestBuffersAreGivenBack(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		before := lent.Load()
		p.write([]byte("hello"))
		p.do(func() {
			b, err := p.c.Read(nil)
			if string(b) != "hello" {
				t.Errorf("Read() = %q, %v", b, err)
			}
			p.c.Release()
			if bytes.Contains(b, []byte("h")) {
				t.Errorf("what was lent is %q after Release: it was not overwritten, so that its use would not show", b)
			}
		})
		task := p.start(func() { p.c.Read(nil) })
		p.waited()
		if n := lent.Load() - before; n != 0 {
			t.Errorf("a connection that waits owns %d buffers", n)
		}
		p.write([]byte("x"))
		task.Wait()
		p.do(p.c.Release)
		p.do(p.c.Release) // twice does no harm
		if n := lent.Load() - before; n != 0 {
			t.Errorf("%d buffers were not given back", n)
		}
	})
}

func TestWithPrefix(t *testing.T) {
	mark := lent.Load()
	old := withPrefix(nil, nil)
	for n := range bufferSize {
		if n%997 != 0 && n < bufferSize-minRoom-2 {
			continue
		}
		want := pattern(uint64(n), n)
		old = withPrefix(old, want)
		if got := old.b[:n]; !bytes.Equal(got, want) {
			t.Fatalf("withPrefix(%d bytes) lost them", n)
		}
		if room := len(old.b) - n; room < minRoom {
			t.Fatalf("withPrefix(%d bytes) leaves room for %d, want %d", n, room, minRoom)
		}
	}
	old.free()
	if n := lent.Load() - mark; n != 0 {
		t.Errorf("%d buffers were not given back", n)
	}
}
