//go:build linux

package loop

import (
	"errors"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestSpawnAndWait(t *testing.T) {
	eachDriver(t, func(t *testing.T, d Driver) {
		var n atomic.Int64
		d.Spawn(func() {
			inner := d.Spawn(func() { d.Sleep(time.Millisecond); n.Add(1) })
			other := d.Spawn(func() { inner.Wait(); n.Add(1) }) // more than one may wait
			inner.Wait()
			other.Wait()
			other.Wait() // that it has ended can be asked again
			if n.Load() != 2 {
				t.Errorf("%d of 2 tasks had ended", n.Load())
			}
		}).Wait()
	})
}

func TestBell(t *testing.T) {
	eachDriver(t, func(t *testing.T, d Driver) {
		d.Spawn(func() {
			b := d.Bell()
			b.Ring()
			b.Ring() // counts as one
			if err := b.Wait(0); err != nil {
				t.Errorf("Wait() after a ring = %v", err)
			}
			for range 2 {
				deadline := Now().Add(5 * time.Millisecond)
				if err := b.Wait(deadline); err != ErrTimeout || Now() < deadline {
					t.Errorf("Wait() without a ring = %v, %v before its deadline", err, deadline.Sub(Now()))
				}
			}
			var got []int
			pong := d.Bell()
			task := d.Spawn(func() {
				for i := range 100 {
					b.Wait(Now().Add(patience))
					got = append(got, i)
					pong.Ring()
				}
			})
			for i := range 100 {
				got = append(got, i)
				b.Ring()
				if err := pong.Wait(Now().Add(patience)); err != nil {
					t.Errorf("Wait() for the other task = %v", err)
				}
			}
			task.Wait()
			for i := range 200 {
				if got[i] != i/2 {
					t.Fatalf("the tasks did not take turns: %v", got)
				}
			}
		}).Wait()
	})
}

func TestSleep(t *testing.T) {
	eachDriver(t, func(t *testing.T, d Driver) {
		d.Spawn(func() {
			var ended []time.Duration
			var mu sync.Mutex
			var tasks []Task
			for _, sleep := range []time.Duration{60 * time.Millisecond, 0, 30 * time.Millisecond, -time.Hour, time.Nanosecond} {
				tasks = append(tasks, d.Spawn(func() {
					begun := Now()
					d.Sleep(sleep)
					if took := Now().Sub(begun); took < sleep || took > max(sleep, 0)+late {
						t.Errorf("Sleep(%v) took %v", sleep, took)
					}
					mu.Lock()
					ended = append(ended, max(sleep, 1))
					mu.Unlock()
				}))
			}
			for _, task := range tasks {
				task.Wait()
			}
			if !slices.IsSorted(ended) {
				t.Errorf("they ended in the order %v", ended)
			}
		}).Wait()
	})
}

// While one task blocks in Do, others go on.
func TestDo(t *testing.T) {
	eachDriver(t, func(t *testing.T, d Driver) {
		d.Spawn(func() {
			unblock := make(chan bool)
			d.Spawn(func() { close(unblock) })
			done := false
			d.Do(func() {
				<-unblock
				done = true
			})
			if !done {
				t.Error("Do() returned before its function")
			}
		}).Wait()
	})
}

// panics notes what an engine tells.
type panics struct {
	mu     sync.Mutex
	values []any
	stacks []string
}

func (p *panics) told(v any, stack []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.values = append(p.values, v)
	p.stacks = append(p.stacks, string(stack))
}

//go:noinline
func breaks() { panic("broken") }

// A panic ends its task and nothing else.
func TestPanics(t *testing.T) {
	p := new(panics)
	eachEngine(t, Options{Loops: 1, Panicked: p.told}, func(t *testing.T, e Engine) {
		*p = panics{}
		d := e.Drivers()[0]
		onTask(d, func() {
			released := false
			d.Spawn(func() {
				defer func() { released = true }()
				breaks()
			}).Wait()
			if !released {
				t.Error("a task that has panicked had not ended")
			}
			d.Spawn(func() { d.Do(breaks) }).Wait()
			d.Spawn(func() {
				b := []byte("abc")
				_ = b[len(p.values)+3]
			}).Wait()
		})
		if len(p.values) != 3 || p.values[0] != "broken" || p.values[1] != "broken" {
			t.Fatalf("told of %v", p.values)
		}
		for i, stack := range p.stacks[:2] {
			if !strings.Contains(stack, "loop.breaks") {
				t.Errorf("panic %d: its stack does not show where:\n%s", i, stack)
			}
		}
		d.Go(breaks)
		until(t, "it is told", func() bool { return e.Stats().Loops[0].Panics == 4 })
		// Everything goes on, many times.
		onTask(d, func() {
			for range 3000 {
				d.Spawn(func() { panic("again") }).Wait()
			}
			d.Sleep(1)
		})
		if n := e.Stats().Loops[0].Panics; n != 3004 {
			t.Errorf("%d panics counted, want 3004", n)
		}
	})
}

// A task that ends with runtime.Goexit, as tests do that fail, takes no other
// with it.
func TestGoexit(t *testing.T) {
	d := newFiberDriver(Options{Loops: 1})
	defer d.engine.Close()
	d.Spawn(func() {
		for range 10 {
			var ended bool
			other := d.eventLoop.Spawn(func() {
				d.Sleep(time.Millisecond)
				ended = true
			})
			d.eventLoop.Spawn(runtime.Goexit).Wait()
			d.eventLoop.Spawn(func() { d.Do(runtime.Goexit) }).Wait()
			other.Wait()
			if !ended {
				t.Error("the other task was taken along")
			}
		}
	}).Wait()
	onTask(d, func() {})
}

// Fibers are used again, and those of a burst are given back.
func TestFibersAreGivenBack(t *testing.T) {
	d := newFiberDriver(Options{Loops: 1})
	defer d.engine.Close()
	before := runtime.NumGoroutine()
	onTask(d, func() {
		for range 3 {
			var tasks []Task
			for range 3 * maxFree {
				tasks = append(tasks, d.eventLoop.Spawn(func() { d.Sleep(1) }))
			}
			for _, task := range tasks {
				task.Wait()
			}
		}
	})
	var s DriverStats
	until(t, "they are at rest", func() bool {
		s = d.engine.Stats().Loops[0]
		return s.Fibers == 0
	})
	if s.FreeFibers > maxFree || s.FreeFibers == 0 {
		t.Errorf("%d free fibers, want at most %d", s.FreeFibers, maxFree)
	}
	until(t, "their goroutines have ended", func() bool { return runtime.NumGoroutine() <= before+maxFree })
}

// Tasks of different loops wake each other.
func TestAcrossLoops(t *testing.T) {
	eachEngine(t, Options{Loops: 4}, func(t *testing.T, e Engine) {
		ds := e.Drivers()
		const rounds = 5000
		done := make(chan bool)
		var pass func(i int)
		pass = func(i int) {
			if i == rounds {
				close(done)
				return
			}
			ds[i%len(ds)].Go(func() { pass(i + 1) })
		}
		pass(0)
		<-done

		// Interrupt and Abort reach a task that waits on another loop.
		for i, d := range ds {
			ln, addr := listen(t)
			for _, end := range []struct {
				do   func(c Conn)
				want error
			}{{func(c Conn) { c.Interrupt(errCause) }, errCause}, {Conn.Abort, nil}} {
				conn := make(chan Conn, 1)
				result := make(chan error, 1)
				d.Go(func() {
					c, err := d.Dial(addr, Sources{}, Now().Add(patience))
					if err != nil {
						t.Error(err)
						close(conn)
						return
					}
					conn <- c
					_, err = c.Read(nil)
					c.Close()
					result <- err
				})
				c, ok := <-conn
				if !ok {
					return
				}
				onTask(ds[(i+1)%len(ds)], func() { end.do(c) })
				err := <-result
				if end.want != nil && err != end.want || end.want == nil && !isClosed(err) {
					t.Errorf("the read ended with %v", err)
				}
			}
			ln.Close()
		}
	})
}

// A connection on which bytes come without end takes its turns and no more.
func TestStarvation(t *testing.T) {
	d := newFiberDriver(Options{Loops: 1})
	defer d.engine.Close()
	busy, flood := d.pair(t)
	defer flood.Close()
	fd := busy.(*fiberConn).fd
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1<<20); err != nil {
		t.Fatal(err)
	}
	go func() {
		for junk := make([]byte, 1<<20); ; {
			if _, err := flood.Write(junk); err != nil {
				return
			}
		}
	}()
	// A read that brings less than there was room for says that there is no more,
	// and waits: with little room there is always more.
	prefix := make([]byte, loopBuffer-minRoom)
	waiting := func() int {
		n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for waiting() < 6*maxSteps*minRoom {
		time.Sleep(time.Millisecond)
	}
	var others []Conn
	var peers []net.Conn
	for range 50 {
		c, peer := d.pair(t)
		defer peer.Close()
		others, peers = append(others, c), append(peers, peer)
	}
	reads, answered := 0, 0
	var tasks []Task
	d.do(func() { // all of them begin in one round
		tasks = append(tasks, d.eventLoop.Spawn(func() {
			for answered < len(others) && reads < 100*maxSteps {
				if reads == 1 { // it has the loop, and only now the others have work
					for _, peer := range peers {
						peer.Write([]byte("x"))
					}
				}
				if _, err := busy.Read(prefix); err != nil {
					t.Error(err)
					return
				}
				reads++
			}
		}))
		for _, c := range others {
			tasks = append(tasks, d.eventLoop.Spawn(func() {
				if _, err := c.Read(nil); err != nil {
					t.Error(err)
				}
				answered++
			}))
		}
	})
	onTask(d, func() {
		for _, task := range tasks {
			task.Wait()
		}
	})
	if reads > 4*maxSteps || answered < len(others) {
		t.Errorf("the busy connection was read %d times before all of the others were, want at most %d", reads, 4*maxSteps)
	}
}

// Events that were taken from the system before a connection was closed do not
// reach the one that gets its descriptor in the same round.
func TestStaleEvents(t *testing.T) {
	d := newFiberDriver(Options{Loops: 1})
	defer d.engine.Close()
	oldConn, oldPeer := d.pair(t)
	defer oldPeer.Close()
	old := oldConn.(*fiberConn)
	in, out := sockets(t)
	defer out.Close()
	file, err := in.File()
	if err != nil {
		t.Fatal(err)
	}
	in.Close()
	d.do(func() {
		fd := old.fd
		stale := d.events[0]
		stale.Fd, stale.Pad, stale.Events = int32(fd), old.generation, unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP
		old.shut()
		err := unix.Dup3(int(file.Fd()), fd, unix.O_CLOEXEC)
		file.Close()
		if err != nil {
			t.Error(err)
			return
		}
		unix.SetNonblock(fd, true)
		c, err := d.register(fd, addrPort(out.LocalAddr()), addrPort(out.RemoteAddr()))
		if err != nil {
			t.Error(err)
			return
		}
		d.event(&stale)
		if c.ended || c.in.ready || !c.Alive() {
			t.Error("an event of the old connection has reached the new one")
		}
		stale.Pad = c.generation
		if d.event(&stale); !c.ended {
			t.Error("an event of the new connection has not reached it")
		}
		c.shut()
	})
}

// Tasks that outlive their engine see their connections closed, also those that
// idle.
func TestCloseEndsTasks(t *testing.T) {
	d := newFiberDriver(Options{Loops: 1})
	var errs []error
	for i := range 4 {
		c, peer := d.pair(t)
		defer peer.Close()
		serve := func() {
			_, err := c.Read(nil)
			errs = append(errs, err)
			errs = append(errs, c.Write([]byte("x")))
		}
		onTask(d, func() {
			if i%2 == 0 || d.Idle(c, serve) {
				d.Start(serve)
			}
		})
	}
	until(t, "two tasks wait", d.waits)
	d.engine.Close()
	if len(errs) != 8 {
		t.Fatalf("%d of 8 operations have ended", len(errs))
	}
	for _, err := range errs {
		if !isClosed(err) {
			t.Errorf("an operation ended with %v, want net.ErrClosed", err)
		}
	}
}

// A connection that idles costs little more than its socket.
func TestConnectionIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(fiberConn{}); n > 384 {
		t.Errorf("a connection takes %d bytes, want at most 384", n)
	} else {
		t.Logf("a connection takes %d bytes", n)
	}
}

// Two tasks that wait for the same bytes are a mistake, which is told.
func TestTwoReaders(t *testing.T) {
	p := new(panics)
	d := newFiberDriver(Options{Loops: 1, Panicked: p.told})
	defer d.engine.Close()
	c, peer := d.pair(t)
	var first error
	task := d.Spawn(func() { _, first = c.Read(nil) })
	until(t, "the first reader waits", d.waits)
	d.Spawn(func() { c.Read(nil) }).Wait()
	peer.Close()
	task.Wait()
	if len(p.values) != 1 || first == nil || errors.Is(first, errCause) {
		t.Errorf("told of %v; the first reader got %v", p.values, first)
	}
	onTask(d, func() { c.Close() })
}
