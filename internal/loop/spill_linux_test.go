package loop

import (
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The kinds whose writes keep what the socket does not take.
var spilling = []string{"fiber socket", "fiber tls server"}

// readers is how many stall in a test, and perReader what each may cost: room for
// a buffer, the stack of a fiber, and with TLS a record that is read, at both
// ends.
const (
	readers   = 40
	perReader = 160 << 10
)

// heap returns how much is in use, once nothing is garbage.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what pools kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// stalled waits until writing stands still for n connections.
func stalled(t *testing.T, n int) {
	t.Helper()
	until(t, fmt.Sprintf("%d writes wait", n), func() (all bool) {
		fibers.do(func() {
			k := 0
			for _, c := range fibers.conns {
				if c != nil && c.out.waiter != nil {
					k++
				}
			}
			all = k >= n
		})
		return all
	})
}

// costs checks what stalled readers cost, from what was in use before.
func costs(t *testing.T, before int64) {
	t.Helper()
	cost := heap() - before
	held := 0
	fibers.do(func() { held = fibers.spills.held })
	t.Logf("%d KiB for each reader, of it %d in %d KiB that are held in all", cost/readers>>10, held/readers>>10, held>>10)
	if held > maxHeld+loopBuffer {
		t.Errorf("%d KiB are held in all, want about %d", held>>10, maxHeld>>10)
	}
	if each := (cost - int64(held)) / readers; each > perReader {
		t.Errorf("a stalled reader costs %d KiB, want at most %d", each>>10, perReader>>10)
	}
}

func TestStalledWritersHoldLittle(t *testing.T) {
	for _, name := range spilling {
		t.Run(name, func(t *testing.T) {
			pairs := make([]*pair, readers)
			for i := range pairs {
				p := kindOf(name).new(t)
				ownTCP(p.c).SetWriteBuffer(16 << 10)
				p.tcp().SetReadBuffer(16 << 10)
				pairs[i] = p
			}
			piece := make([]byte, bufferSize)
			before := heap()
			for _, p := range pairs {
				p.start(func() {
					for p.c.Write(piece) == nil { // until it stalls, and is aborted
					}
				})
			}
			stalled(t, readers)
			costs(t, before)
		})
	}
}

// A source that is fast does not make a slow reader expensive: neither one whose
// socket is small, nor one that could take much at first.
func TestMoveToStalledReadersHoldsLittle(t *testing.T) {
	for _, size := range []int{16 << 10, 384 << 10} {
		for _, src := range spilling {
			for _, dst := range spilling {
				t.Run(fmt.Sprintf("%s to %s, %d KiB", src, dst, size>>10), func(t *testing.T) {
					routes := make([]route, readers)
					for i := range routes {
						r := route{kindOf(src).new(t), kindOf(dst).new(t)}
						ownTCP(r.dst.c).SetWriteBuffer(size)
						r.dst.tcp().SetReadBuffer(16 << 10)
						routes[i] = r
					}
					junk := make([]byte, 1<<20)
					before := heap()
					for _, r := range routes {
						go func() {
							for {
								if _, err := r.src.peer.Write(junk); err != nil {
									return
								}
							}
						}()
						r.move(1<<30, Moving{})
					}
					stalled(t, readers)
					costs(t, before)
				})
			}
		}
	}
}

// A read brings much, unless many readers are slow, or Move has found that its
// own is.
func TestReadsAreSmallForSlowReaders(t *testing.T) {
	const n = 4 * bufferSize
	for _, c := range []struct {
		name string
		held int
		mark int
		want int
	}{
		{"nobody is slow", maxHeld, 0, n},
		{"many are slow", maxHeld + 1, 0, bufferSize},
		{"many are slow, but not this one", maxHeld + 1, gatherMark, n},
		{"this one is slow", 0, 1, bufferSize},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := kindOf("fiber socket").new(t)
			conn := p.c.(*fiberConn)
			p.do(func() {
				if err := unix.SetsockoptInt(conn.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1<<20); err != nil {
					t.Error(err)
				}
			})
			go p.peer.Write(make([]byte, n))
			until(t, "all has come", func() bool { return received(ownTCP(conn)) == n })
			p.do(func() {
				conn.gather(c.mark)
				fibers.spills.held += c.held
				defer func() { fibers.spills.held -= c.held }()
				conn.SetReadDeadline(Now().Add(patience))
				prefix := []byte("prefix")
				if b, err := conn.Read(prefix); len(b) != len(prefix)+c.want || err != nil {
					t.Errorf("Read() = %d bytes, %v; want the prefix and %d bytes", len(b), err, c.want)
				}
			})
		})
	}
}

// Whoever writes what large reads have brought to readers that stall: together
// they hold what a loop allows, and then a buffer each.
func TestLargeReadsForStalledReaders(t *testing.T) {
	const n = 8 * bufferSize
	routes := make([]route, readers)
	for i := range routes {
		r := route{kindOf("fiber socket").new(t), kindOf("fiber socket").new(t)}
		ownTCP(r.dst.c).SetWriteBuffer(16 << 10)
		r.dst.tcp().SetReadBuffer(16 << 10)
		conn := r.src.c.(*fiberConn)
		r.src.do(func() { unix.SetsockoptInt(conn.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 2<<20) })
		go r.src.peer.Write(make([]byte, n))
		until(t, "all has come", func() bool { return received(ownTCP(conn)) == n })
		routes[i] = r
	}
	before := heap()
	for _, r := range routes {
		r.src.start(func() {
			for {
				b, err := r.src.c.Read(nil)
				if err != nil || r.dst.c.Write(b) != nil {
					return
				}
			}
		})
	}
	stalled(t, readers)
	costs(t, before)
	fibers.do(func() {
		if held := fibers.spills.held; held < maxHeld {
			t.Errorf("%d bytes are held, want %d: the reads were not large", held, maxHeld)
		}
	})
}

// Bytes are gathered only for who can take them at once.
func TestGatherForSpace(t *testing.T) {
	for _, name := range spilling {
		t.Run(name, func(t *testing.T) {
			p := kindOf(name).new(t)
			s := p.c.(spacious)
			space := func() (n int) {
				p.do(func() { n = s.space() })
				return n
			}
			ownTCP(p.c).SetWriteBuffer(1 << 20)
			p.tcp().SetReadBuffer(16 << 10)
			empty := space()
			if empty < gatherFrom {
				t.Errorf("there is space for %d bytes in an empty socket, want %d", empty, gatherFrom)
			}
			p.do(func() { p.c.Write(make([]byte, 512<<10)) })
			if n := space(); n > empty-256<<10 {
				t.Errorf("there is space for %d bytes after half a megabyte, %d before", n, empty)
			}
			p.start(func() { p.c.Write(make([]byte, 16<<20)) })
			stalled(t, 1)
			if n := space(); n != 0 {
				t.Errorf("there is space for %d bytes in a socket that is full", n)
			}
		})
	}
}

func TestTakeSpill(t *testing.T) {
	l := new(eventLoop)
	for n, want := range map[int]int{
		0: 16 << 10, 1: 16 << 10, 16 << 10: 16 << 10, 16<<10 + 1: 72 << 10, bufferSize: 72 << 10,
		72<<10 + 1: 256 << 10, loopBuffer: loopBuffer, loopBuffer + 1: loopBuffer + 1, 3 << 20: 3 << 20,
	} {
		b := l.takeSpill(n)
		if len(b) != want {
			t.Errorf("takeSpill(%d) has %d bytes, want %d", n, len(b), want)
		}
		l.freeSpill(b)
	}
	var taken [][]byte
	for range 100 {
		for _, size := range append(spillSizes[:], 1<<20) {
			taken = append(taken, l.takeSpill(size))
		}
	}
	for _, b := range taken {
		l.freeSpill(b)
	}
	l.freeSpill(nil)
	kept := 0
	if l.spills.held != 0 {
		t.Errorf("%d bytes are counted as held, although all were given back", l.spills.held)
	}
	for i, free := range l.spills.free {
		if len(free) != spillsKept[i] {
			t.Errorf("%d of %d bytes are kept, want %d", len(free), spillSizes[i], spillsKept[i])
		}
		kept += len(free) * spillSizes[i]
	}
	if kept > 6<<20 {
		t.Errorf("a loop keeps %d bytes", kept)
	}
	for range spillsKept[0] {
		l.takeSpill(1)
	}
	if len(l.spills.free[0]) != 0 {
		t.Errorf("%d are left of those that were kept", len(l.spills.free[0]))
	}
}

// However a connection of TLS ends, what was pending gives its room back.
func TestPendingGivesItsRoomBack(t *testing.T) {
	type ending struct {
		name string
		run  func(p *pair)
	}
	for _, e := range []ending{
		{"closed with a farewell", func(p *pair) {
			p.do(func() { // no write waits, and the socket takes nothing
				c := p.c.(*fiberTLS).c
				fillSocket(t, c)
				p.c.Close()
			})
		}},
		{"closed under a write", func(p *pair) {
			task := p.start(func() {
				if err := p.c.Write(make([]byte, 32<<20)); err != net.ErrClosed {
					t.Errorf("Write() = %v, want net.ErrClosed", err)
				}
			})
			p.waited()
			p.do(func() { p.c.Close() })
			task.Wait()
		}},
		{"stalled", func(p *pair) {
			p.do(func() {
				p.c.SetWriteTimeout(20 * time.Millisecond)
				if err := p.c.Write(make([]byte, 32<<20)); err != ErrStalled {
					t.Errorf("Write() = %v, want ErrStalled", err)
				}
			})
			p.do(func() { p.c.Close() })
		}},
		{"reset", func(p *pair) {
			task := p.start(func() { p.c.Write(make([]byte, 32<<20)) })
			p.waited()
			abort(p.peer)
			task.Wait()
		}},
	} {
		t.Run(e.name, func(t *testing.T) {
			p := kindOf("fiber tls server").new(t)
			p.tcp().SetReadBuffer(16 << 10)
			p.do(func() { fillSocket(t, p.c.(*fiberTLS).c) })
			fibers.do(func() { fibers.spills = spills{} })
			e.run(p)
			fibers.do(func() {
				kept := 0
				for _, free := range fibers.spills.free {
					kept += len(free)
				}
				if kept != 1 {
					t.Errorf("%d rooms were given back, want the one that was taken", kept)
				}
				if s := p.c.(*fiberTLS); s.spill != nil || s.pending != nil {
					t.Error("a room is kept by the connection")
				}
			})
		})
	}
}

// fillSocket sends, beneath TLS, until the socket takes nothing more.
func fillSocket(t *testing.T, c *fiberConn) {
	if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 16<<10); err != nil {
		t.Error(err)
	}
	junk := make([]byte, 1<<20)
	for full := 0; full < 20; { // the other end's system takes more for a while
		rest, _, err := c.send(junk, nil)
		if err != nil {
			t.Error(err)
			return
		}
		if full++; len(rest) < len(junk) {
			full = 0
		}
		c.l.Sleep(time.Millisecond)
	}
}
