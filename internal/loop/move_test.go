//go:build linux

package loop

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// route is a source and a destination, each with its other end.
type route struct {
	src, dst *pair
}

func eachRoute(t *testing.T, f func(t *testing.T, r route)) {
	socket, stream, tls := kindOf("socket"), kindOf("stream"), kindOf("tls server")
	fiber, fiberTLS := kindOf("fiber socket"), kindOf("fiber tls server")
	for _, r := range []struct{ src, dst *kind }{
		{socket, socket}, // spliced
		{stream, stream},
		{socket, tls},
		{tls, socket},
		{tls, tls},
		{fiber, fiber}, // spliced
		{fiber, fiberTLS},
		{fiberTLS, fiber},
		{fiberTLS, fiberTLS},
	} {
		t.Run(r.src.name+" to "+r.dst.name, func(t *testing.T) {
			f(t, route{r.src.new(t), r.dst.new(t)})
		})
	}
}

type moved struct {
	n              int64
	srcErr, dstErr error
}

// move moves in a task; what it returned can be read when that has ended.
func (r route) move(n int64, how Moving) (Task, *moved) {
	m := new(moved)
	return r.src.start(func() { m.n, m.srcErr, m.dstErr = Move(r.dst.c, r.src.c, n, how) }), m
}

func (m *moved) want(t *testing.T, n int64, srcErr, dstErr error) {
	t.Helper()
	if m.n != n || !errors.Is(m.srcErr, srcErr) || !errors.Is(m.dstErr, dstErr) {
		t.Errorf("Move() = %d, %v, %v; want %d, %v, %v", m.n, m.srcErr, m.dstErr, n, srcErr, dstErr)
	}
}

// feed writes data in pieces of random sizes.
func feed(c net.Conn, data []byte) {
	for len(data) > 0 {
		n := min(len(data), 1+rand.IntN(200_000))
		if _, err := c.Write(data[:n]); err != nil {
			return
		}
		data = data[n:]
	}
}

func halfClose(c net.Conn) { c.(interface{ CloseWrite() error }).CloseWrite() }

func TestMove(t *testing.T) {
	sizes := []int{0, 1, copyFirst - 1, copyFirst, copyFirst + 1, 2*pipeSize + 1, 8 << 20}
	for range 2 {
		sizes = append(sizes, rand.IntN(4<<20))
	}
	for _, n := range sizes {
		for _, open := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d, open %v", n, open), func(t *testing.T) {
				eachRoute(t, func(t *testing.T, r route) {
					data := pattern(uint64(n), n)
					var told int64
					length := int64(n)
					if open {
						length = -1
					}
					task, m := r.move(length, Moving{
						Timeout:  patience,
						Progress: func(n int) error { told += int64(n); return nil },
					})
					go func() {
						feed(r.src.peer, data)
						if open {
							halfClose(r.src.peer)
						}
					}()
					r.dst.expect(data)
					task.Wait()
					m.want(t, int64(n), nil, nil)
					if told != int64(n) {
						t.Errorf("Progress was told of %d bytes, want %d", told, n)
					}
					if open {
						return
					}
					// Both go on as they were.
					r.src.write([]byte("next"))
					r.src.wantRead([]byte("next"))
					r.dst.do(func() { r.dst.c.Write([]byte("next")) })
					r.dst.expect([]byte("next"))
				})
			})
		}
	}
}

// What a source has sent reaches the destination although the source sends
// nothing more for now: bytes are gathered for a moment at most.
func TestMoveHoldsNothingBack(t *testing.T) {
	eachRoute(t, func(t *testing.T, r route) {
		sizes := []int{1, 70_000, 300_000, 10, 200_000, gatherFrom, 5_000, 100_000, 1}
		n := 0
		for _, size := range sizes {
			n += size
		}
		task, m := r.move(int64(n), Moving{Timeout: patience})
		data := pattern(3, n)
		for _, size := range sizes {
			go feed(r.src.peer, data[:size])
			r.dst.expect(data[:size])
			data = data[size:]
		}
		task.Wait()
		m.want(t, int64(n), nil, nil)
		// The source is as before: a byte is enough to be read.
		r.src.write([]byte("x"))
		r.src.wantRead([]byte("x"))
	})
}

func TestMoveShortStream(t *testing.T) {
	for _, n := range []int{0, 1000, copyFirst, 3 * copyFirst} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			eachRoute(t, func(t *testing.T, r route) {
				data := pattern(1, n)
				task, m := r.move(int64(n)+1, Moving{})
				go func() {
					feed(r.src.peer, data)
					halfClose(r.src.peer)
				}()
				r.dst.expect(data)
				task.Wait()
				m.want(t, int64(n), io.ErrUnexpectedEOF, nil)
			})
		})
	}
}

func TestMoveExcess(t *testing.T) {
	for _, n := range []int{0, 10, 1000, copyFirst, 3 * copyFirst} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			eachRoute(t, func(t *testing.T, r route) {
				data := pattern(1, n+500)
				done := make(chan bool)
				go func() {
					r.src.peer.Write(data)
					close(done)
				}()
				if n <= 1000 {
					<-done // all of it is there at once
				}
				told := 0
				task, m := r.move(int64(n), Moving{Progress: func(n int) error { told += n; return nil }})
				r.dst.expect(data[:n])
				task.Wait()
				<-done
				if m.n != int64(n) || m.srcErr != nil && m.srcErr != ErrExcess || m.dstErr != nil || told != n {
					t.Errorf("Move() = %d, %v, %v, and told of %d; want %d", m.n, m.srcErr, m.dstErr, told, n)
				}
				if m.srcErr == nil && n > 0 && n <= 1000 {
					t.Error("Move() has read too much and did not tell")
				}
				// Nothing of it is written, and what is not told is still there.
				if m.srcErr == nil && r.src.socket {
					until(t, "the excess has come", func() (quiet bool) {
						r.src.do(func() { quiet = r.src.c.Quiet() })
						return !quiet
					})
				}
				r.dst.do(func() { r.dst.c.Close() })
				if b, _ := io.ReadAll(r.dst.peer); len(b) > 0 {
					t.Errorf("%d bytes of excess were written", len(b))
				}
			})
		})
	}
}

func TestMoveToSlowReader(t *testing.T) {
	eachRoute(t, func(t *testing.T, r route) {
		r.dst.tcp().SetReadBuffer(64 << 10)
		data := pattern(2, 3<<20)
		r.dst.c.SetWriteTimeout(patience)
		task, m := r.move(-1, Moving{Timeout: patience})
		go func() {
			feed(r.src.peer, data)
			halfClose(r.src.peer)
		}()
		r.dst.waitedOr(task) // the reader has not begun
		got := make([]byte, 0, len(data))
		for i := 0; len(got) < len(data); i++ {
			n, err := r.dst.peer.Read(got[len(got):min(len(got)+1+i*97%50_000, len(data))])
			if got = got[:len(got)+n]; err != nil {
				t.Fatal(err)
			}
		}
		task.Wait()
		same(t, "what the other end got", got, data)
		m.want(t, int64(len(data)), nil, nil)
	})
}

// waitedOr returns once the task waits; it may also have ended.
func (p *pair) waitedOr(task Task) {
	p.t.Helper()
	ended := make(chan bool)
	go func() {
		task.Wait()
		close(ended)
	}()
	until(p.t, "the task waits", func() bool {
		select {
		case <-ended:
			return true
		default:
			return p.waits()
		}
	})
}

// phases are how much is moved before something happens: nothing, so that it
// happens to copying, and more than is copied at first.
var phases = []struct {
	name string
	n    int
}{{"copying", 1000}, {"splicing", 3 * copyFirst}}

func eachPhase(t *testing.T, how func(n int) Moving, f func(t *testing.T, r route, n int, task Task, m *moved)) {
	for _, phase := range phases {
		t.Run(phase.name, func(t *testing.T) {
			eachRoute(t, func(t *testing.T, r route) {
				data := pattern(3, phase.n)
				task, m := r.move(-1, how(phase.n))
				go feed(r.src.peer, data)
				r.dst.expect(data)
				f(t, r, phase.n, task, m)
			})
		})
	}
}

func TestMoveSourceDies(t *testing.T) {
	eachPhase(t, func(int) Moving { return Moving{} }, func(t *testing.T, r route, n int, task Task, m *moved) {
		r.src.waited()
		abort(r.src.peer)
		task.Wait()
		if !isReset(m.srcErr) {
			t.Errorf("the source's error is %v, want a reset", m.srcErr)
		}
		m.want(t, int64(n), m.srcErr, nil)
	})
}

func TestMoveDestinationDies(t *testing.T) {
	eachPhase(t, func(int) Moving { return Moving{} }, func(t *testing.T, r route, n int, task Task, m *moved) {
		go func() {
			for junk := make([]byte, 1<<20); ; { // until nobody takes it
				if _, err := r.src.peer.Write(junk); err != nil {
					return
				}
			}
		}()
		r.dst.expect(make([]byte, 1000))
		abort(r.dst.peer)
		task.Wait()
		if !isReset(m.dstErr) || m.srcErr != nil {
			t.Errorf("Move() = %v, %v; want a reset of the destination", m.srcErr, m.dstErr)
		}
	})
}

func TestMoveInterrupted(t *testing.T) {
	eachPhase(t, func(int) Moving { return Moving{Timeout: time.Hour} }, func(t *testing.T, r route, n int, task Task, m *moved) {
		r.src.waited()
		r.src.c.Interrupt(errCause)
		task.Wait()
		m.want(t, int64(n), errCause, nil)
		r.src.do(r.src.c.Resume)
		r.src.write([]byte("rest"))
		r.src.wantRead([]byte("rest"))
	})
	eachPhase(t, func(int) Moving { return Moving{} }, func(t *testing.T, r route, n int, task Task, m *moved) {
		go r.src.peer.Write(make([]byte, 32<<20))
		until(t, "the destination is full", r.src.waits)
		r.dst.c.Interrupt(errCause)
		r.src.c.Interrupt(errCause) // it may have waited for the source
		task.Wait()
		if m.srcErr != errCause && m.dstErr != errCause {
			t.Errorf("Move() = %v, %v; want the cause", m.srcErr, m.dstErr)
		}
	})
}

func TestMoveDestinationStalls(t *testing.T) {
	for _, phase := range phases {
		t.Run(phase.name, func(t *testing.T) {
			eachRoute(t, func(t *testing.T, r route) {
				r.dst.c.SetWriteTimeout(30 * time.Millisecond)
				if phase.n < copyFirst { // so that it never comes to splicing
					r.dst.tcp().SetReadBuffer(4 << 10)
					ownTCP(r.dst.c).SetWriteBuffer(4 << 10)
				}
				task, m := r.move(-1, Moving{Timeout: patience})
				go feed(r.src.peer, make([]byte, 48<<20))
				task.Wait()
				m.want(t, m.n, nil, ErrStalled)
				abort(r.src.peer)
			})
		})
	}
}

func TestMovePatience(t *testing.T) {
	for _, times := range []int{1, 4} {
		t.Run(fmt.Sprint(times), func(t *testing.T) {
			asked := 0
			how := func(n int) Moving {
				asked = 0
				return Moving{
					Timeout:  3 * time.Millisecond,
					Progress: func(m int) error { n -= m; return nil },
					Patience: func() bool {
						if n > 0 {
							return true // not all has come yet
						}
						asked++
						return asked < times
					},
				}
			}
			eachPhase(t, how, func(t *testing.T, r route, n int, task Task, m *moved) {
				task.Wait()
				if asked != times {
					t.Errorf("Patience was asked %d times, want %d", asked, times)
				}
				m.want(t, int64(n), ErrTimeout, nil)
			})
		})
	}
	t.Run("none", func(t *testing.T) {
		eachRoute(t, func(t *testing.T, r route) {
			begun := Now()
			task, m := r.move(-1, Moving{Timeout: 20 * time.Millisecond})
			task.Wait()
			if took := Now().Sub(begun); took < 20*time.Millisecond {
				t.Errorf("timed out after %v", took)
			}
			m.want(t, 0, ErrTimeout, nil)
		})
	})
}

func TestMoveProgressEnds(t *testing.T) {
	for _, phase := range phases {
		t.Run(phase.name, func(t *testing.T) {
			eachRoute(t, func(t *testing.T, r route) {
				told := 0
				task, m := r.move(-1, Moving{Progress: func(n int) error {
					if told += n; told >= phase.n {
						return errCause
					}
					return nil
				}})
				go feed(r.src.peer, make([]byte, phase.n))
				task.Wait()
				m.want(t, int64(told), errCause, nil)
				r.dst.expect(make([]byte, told)) // what was told was written
			})
		})
	}
}

// joined is a pair of pairs with a relay between them; a and b are the far ends.
type joined struct {
	route
	a, b net.Conn
	task Task
	aToB int64
	bToA int64
	err  error
}

func eachRelay(t *testing.T, idle time.Duration, f func(t *testing.T, j *joined)) {
	eachRoute(t, func(t *testing.T, r route) {
		j := &joined{route: r, a: r.src.peer, b: r.dst.peer}
		j.task = r.src.driver.Spawn(func() {
			j.aToB, j.bToA, j.err = Relay(r.src.driver, r.src.c, r.dst.c, idle)
		})
		f(t, j)
	})
}

func (j *joined) want(t *testing.T, aToB, bToA int, err error) {
	t.Helper()
	j.task.Wait()
	if j.aToB != int64(aToB) || j.bToA != int64(bToA) || !errors.Is(j.err, err) {
		t.Errorf("Relay() = %d, %d, %v; want %d, %d, %v", j.aToB, j.bToA, j.err, aToB, bToA, err)
	}
}

func TestRelayEcho(t *testing.T) {
	eachRelay(t, patience, func(t *testing.T, j *joined) {
		go func() {
			io.Copy(j.b, j.b)
			halfClose(j.b)
		}()
		for i := range 20 {
			line := pattern(uint64(i), 1+i*i*40)
			got := make([]byte, len(line))
			go j.a.Write(line)
			if _, err := io.ReadFull(j.a, got); err != nil {
				t.Fatal(err)
			}
			same(t, "echo", got, line)
		}
		halfClose(j.a)
		if b, err := io.ReadAll(j.a); len(b) > 0 || err != nil {
			t.Errorf("after the last echo came %q, %v", b, err)
		}
		j.task.Wait()
		j.want(t, int(j.aToB), int(j.aToB), nil)
	})
}

func TestRelayHalfCloses(t *testing.T) {
	for _, first := range []string{"a", "b"} {
		t.Run(first+" first", func(t *testing.T) {
			eachRelay(t, patience, func(t *testing.T, j *joined) {
				x, y, sent := j.a, j.b, [2]int{7, 11}
				if first == "b" {
					x, y, sent = j.b, j.a, [2]int{11, 7}
				}
				x.Write([]byte("request"))
				halfClose(x)
				if b, err := io.ReadAll(y); string(b) != "request" || err != nil {
					t.Fatalf("read %q, %v", b, err)
				}
				y.Write([]byte("late answer"))
				halfClose(y)
				if b, err := io.ReadAll(x); string(b) != "late answer" || err != nil {
					t.Fatalf("read %q, %v", b, err)
				}
				j.want(t, sent[0], sent[1], nil)
			})
		})
	}
}

func TestRelayCarriesResets(t *testing.T) {
	eachRelay(t, patience, func(t *testing.T, j *joined) {
		j.a.Write([]byte("part"))
		if _, err := io.ReadFull(j.b, make([]byte, 4)); err != nil {
			t.Fatal(err)
		}
		abort(j.a)
		if n, err := j.b.Read(make([]byte, 1)); n > 0 || !isReset(err) {
			t.Errorf("the other far end got %d bytes, %v; want a reset", n, err)
		}
		j.task.Wait()
		if !isReset(j.err) || j.aToB != 4 || j.bToA != 0 {
			t.Errorf("Relay() = %d, %d, %v; want 4, 0, a reset", j.aToB, j.bToA, j.err)
		}
	})
}

// A reset that comes after one direction has ended is carried over as well.
func TestRelayResetAfterHalfClose(t *testing.T) {
	eachRelay(t, patience, func(t *testing.T, j *joined) {
		halfClose(j.b)
		if b, err := io.ReadAll(j.a); len(b) > 0 || err != nil {
			t.Fatalf("read %q, %v", b, err)
		}
		abort(j.a)
		j.task.Wait()
		if j.err == nil {
			t.Error("Relay() = nil, although one end was cut")
		}
		_, err := j.b.Read(make([]byte, 1))
		if !isReset(err) {
			t.Errorf("the other far end got %v, want a reset", err)
		}
	})
}

func TestRelayIdle(t *testing.T) {
	eachRoute(t, func(t *testing.T, r route) {
		r.src.write([]byte("x")) // is there when it begins
		until(t, "it has come", func() bool { return received(ownTCP(r.src.c)) > 0 })
		r.src.driver.Spawn(func() {
			aToB, bToA, err := Relay(r.src.driver, r.src.c, r.dst.c, 40*time.Millisecond)
			if aToB != 1 || bToA != 0 || err != ErrTimeout {
				t.Errorf("Relay() = %d, %d, %v; want 1, 0, ErrTimeout", aToB, bToA, err)
			}
		}).Wait()
		if b, err := io.ReadAll(r.dst.peer); string(b) != "x" || err != nil {
			t.Errorf("one far end read %q, %v; want the end in order", b, err)
		}
		if b, err := io.ReadAll(r.src.peer); len(b) > 0 || err != nil {
			t.Errorf("the other far end read %q, %v; want the end in order", b, err)
		}
	})
}

func TestRelayBulkBothWays(t *testing.T) {
	eachRelay(t, patience, func(t *testing.T, j *joined) {
		up, down := pattern(5, 8<<20), pattern(6, 8<<20+12345)
		for _, s := range []struct {
			c    net.Conn
			data []byte
		}{{j.a, up}, {j.b, down}} {
			go func() {
				feed(s.c, s.data)
				halfClose(s.c)
			}()
		}
		var gotDown []byte
		read := make(chan bool)
		go func() {
			gotDown, _ = io.ReadAll(j.a)
			close(read)
		}()
		gotUp, err := io.ReadAll(j.b)
		<-read
		if err != nil || !bytes.Equal(gotUp, up) || !bytes.Equal(gotDown, down) {
			t.Errorf("%d and %d bytes, or their contents, are wrong: %v", len(gotUp), len(gotDown), err)
		}
		j.want(t, len(up), len(down), nil)
	})
}

// duplex is a connection over two pipes, one for each direction, so that a relay
// can be tested with a clock of its own.
type duplex struct {
	net.Conn // what is read
	w        net.Conn
}

func (d duplex) Write(b []byte) (int, error)        { return d.w.Write(b) }
func (d duplex) CloseWrite() error                  { return d.w.Close() }
func (d duplex) SetWriteDeadline(t time.Time) error { return d.w.SetWriteDeadline(t) }
func (d duplex) SetDeadline(t time.Time) error {
	return errors.Join(d.Conn.SetDeadline(t), d.w.SetDeadline(t))
}
func (d duplex) Close() error { return errors.Join(d.Conn.Close(), d.w.Close()) }

func newDuplex(t *testing.T) (near, far duplex) {
	r1, w1 := net.Pipe()
	r2, w2 := net.Pipe()
	near, far = duplex{r1, w2}, duplex{r2, w1}
	t.Cleanup(func() {
		near.Close()
		far.Close()
	})
	return near, far
}

// A relay in which one direction speaks lives on; it ends exactly one period
// after the last byte of either.
func TestRelayIdleExactly(t *testing.T) {
	const idle = 10 * time.Second
	for _, c := range []struct {
		name string
		end  bool // after its last byte the direction ends
	}{{"silence", false}, {"one direction ends", true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, farA := newDuplex(t)
				b, farB := newDuplex(t)
				begun := Now()
				done := make(chan error)
				go func() {
					_, _, err := Relay(goroutines, New(a), New(b), idle)
					done <- err
				}()
				for _, far := range []net.Conn{farA, farB} {
					go io.Copy(io.Discard, far)
				}
				for range 5 {
					time.Sleep(idle - 1)
					if _, err := farA.Write([]byte("x")); err != nil {
						t.Fatal(err)
					}
				}
				if c.end {
					farA.CloseWrite()
				}
				if err := <-done; err != ErrTimeout {
					t.Errorf("Relay() = %v, want ErrTimeout", err)
				}
				if took := Now().Sub(begun); took != 5*(idle-1)+idle {
					t.Errorf("ended after %v, want %v", took, 5*(idle-1)+idle)
				}
			})
		})
	}
}

// endings counts how a connection is ended.
type endings struct {
	Conn
	aborts, ends atomic.Int32
}

func (e *endings) Abort()            { e.aborts.Add(1); e.Conn.Abort() }
func (e *endings) CloseWrite() error { e.ends.Add(1); return e.Conn.CloseWrite() }

// An idle relay that has bytes which nobody takes is not ended as if all had
// been said.
func TestRelayIdleWithBytesUnderWay(t *testing.T) {
	for _, c := range []struct {
		name         string
		taken        int
		aborts, ends int32
	}{{"all taken", 10, 0, 1}, {"some not taken", 9, 1, 0}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nearA, farA := newDuplex(t)
				nearB, farB := newDuplex(t)
				a, b := &endings{Conn: New(nearA)}, &endings{Conn: New(nearB)}
				go farA.Write(make([]byte, 10))
				go io.ReadFull(farB, make([]byte, c.taken))
				if _, _, err := Relay(goroutines, a, b, time.Minute); err != ErrTimeout {
					t.Errorf("Relay() = %v, want ErrTimeout", err)
				}
				for _, e := range []*endings{a, b} {
					if aborts, ends := e.aborts.Load(), e.ends.Load(); aborts != c.aborts || ends != c.ends {
						t.Errorf("aborted %d times, ended in order %d times; want %d, %d", aborts, ends, c.aborts, c.ends)
					}
				}
			})
		})
	}
}
