//go:build linux

package loop

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// waiting lists what a task may wait in, each with what makes it go on.
var waiting = []struct {
	name  string
	wait  func(c Conn) error
	write bool
}{
	{"Read", func(c Conn) error { _, err := c.Read(nil); return err }, false},
	{"Read with a prefix", func(c Conn) error { _, err := c.Read([]byte("prefix")); return err }, false},
	{"Read with a deadline", func(c Conn) error {
		c.SetReadDeadline(Now().Add(time.Hour))
		_, err := c.Read(nil)
		return err
	}, false},
	{"Ask", func(c Conn) error { _, err := c.Ask([]byte("q")); return err }, false},
	{"Ask, writing", func(c Conn) error { _, err := c.Ask(make([]byte, 32<<20)); return err }, true},
	{"Write", func(c Conn) error { return c.Write(make([]byte, 32<<20)) }, true},
	{"Write with a time-out", func(c Conn) error {
		c.SetWriteTimeout(time.Hour)
		return c.Write(make([]byte, 32<<20))
	}, true},
	{"Writev", func(c Conn) error { return c.Writev(make([]byte, 16<<20), make([]byte, 16<<20)) }, true},
}

func eachWait(t *testing.T, f func(t *testing.T, p *pair, wait func(Conn) error, write bool)) {
	for _, w := range waiting {
		t.Run(w.name, func(t *testing.T) {
			each(t, func(t *testing.T, p *pair) {
				if p.pipe && w.name == "Ask" {
					go io.CopyN(io.Discard, p.peer, 1)
				}
				f(t, p, w.wait, w.write)
			})
		})
	}
}

// After Resume everything works as before.
func (p *pair) works(wrote bool) {
	p.t.Helper()
	p.do(func() {
		p.c.SetReadDeadline(0)
		p.c.SetWriteTimeout(patience)
	})
	p.write([]byte("still here"))
	p.wantRead([]byte("still here"))
	p.timesOut(Now().Add(2 * time.Millisecond))
	if wrote && p.tls {
		return // a TLS write that was cut cannot be followed by another
	}
	data := pattern(8, 3<<20)
	task := p.start(func() {
		if err := p.c.Write(data); err != nil {
			p.t.Errorf("Write() after Resume = %v", err)
		}
	})
	// Before it stands what was written until the interruption.
	got := make([]byte, 0, 40<<20)
	for !bytes.HasSuffix(got, data) {
		n, err := p.peer.Read(got[len(got):cap(got)])
		if err != nil {
			p.t.Fatalf("the other end: %v after %d bytes", err, len(got))
		}
		got = got[:len(got)+n]
	}
	task.Wait()
}

func TestInterruptBefore(t *testing.T) {
	eachWait(t, func(t *testing.T, p *pair, wait func(Conn) error, _ bool) {
		if p.pipe {
			go io.Copy(io.Discard, p.peer) // nothing may come
		}
		p.c.Interrupt(errCause)
		var err error
		for range 2 { // it stays
			p.do(func() { err = wait(p.c) })
			if err != errCause {
				t.Fatalf("returned %v, want the cause", err)
			}
		}
		p.do(p.c.Resume)
		if !p.pipe {
			p.works(false)
		}
	})
}

func TestInterruptDuring(t *testing.T) {
	eachWait(t, func(t *testing.T, p *pair, wait func(Conn) error, write bool) {
		var err error
		task := p.start(func() { err = wait(p.c) })
		p.waited()
		p.c.Interrupt(errCause)
		task.Wait()
		if err != errCause {
			t.Fatalf("returned %v, want the cause", err)
		}
		p.do(p.c.Resume)
		p.works(write)
	})
}

func TestInterruptBetween(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		for range 3 {
			p.write([]byte("x"))
			p.wantRead([]byte("x"))
			p.c.Interrupt(errors.New("first"))
			p.c.Interrupt(errCause) // the last counts
			p.wantReadErr(errCause)
			p.do(p.c.Resume)
			p.timesOut(Now().Add(time.Millisecond))
			p.do(func() { p.c.SetReadDeadline(0) })
		}
		p.works(false)
	})
}

// An interruption takes the poller's deadline, which must not be thought of as
// still there.
func TestDeadlineOutlivesInterruption(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		deadline := Now().Add(30 * time.Millisecond)
		var err error
		task := p.start(func() {
			p.c.SetReadDeadline(deadline)
			_, err = p.c.Read(nil)
		})
		p.waitedOr(task)
		p.c.Interrupt(errCause)
		task.Wait()
		if err != errCause && err != ErrTimeout {
			t.Fatalf("Read() = %v", err)
		}
		p.do(p.c.Resume)
		p.timesOut(deadline.Add(10 * time.Millisecond))
	})
}

// A reader that resumes each time it is interrupted gets every byte once,
// whenever the interruptions come.
func TestInterruptRace(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		data := pattern(11, 1<<20)
		var stop atomic.Bool
		go func() { // the same bytes again and again
			for at := 0; !stop.Load(); {
				n, err := p.peer.Write(data[at:min(at+1999, len(data))])
				if err != nil {
					return
				}
				at = (at + n) % len(data)
			}
			p.peer.Close()
		}()
		var interrupter sync.WaitGroup
		interrupter.Go(func() {
			for !stop.Load() {
				p.c.Interrupt(errCause)
				runtime.Gosched()
			}
		})
		p.do(func() {
			at, interruptions := 0, 0
			for interruptions < 300 {
				p.c.SetReadDeadline(Now().Add(patience))
				b, err := p.c.Read(nil)
				if err == errCause {
					interruptions++
					p.c.Resume()
					continue
				}
				if err != nil {
					t.Errorf("Read() = %v", err)
					break
				}
				for len(b) > 0 {
					n := min(len(b), len(data)-at)
					if !bytes.Equal(b[:n], data[at:at+n]) {
						t.Error("bytes were lost or came twice")
						interruptions = 300
					}
					b, at = b[n:], (at+n)%len(data)
				}
			}
		})
		stop.Store(true)
		interrupter.Wait()
	})
}

// The same for a writer. TLS cannot write on, so it takes no part.
func TestInterruptWriteRace(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		if p.tls {
			return
		}
		const total = 2 << 20
		var stop atomic.Bool
		var interrupter sync.WaitGroup
		interrupter.Go(func() {
			for !stop.Load() {
				p.c.Interrupt(errCause)
				runtime.Gosched()
			}
		})
		read := make(chan int)
		go func() {
			n, _ := io.CopyN(io.Discard, p.peer, total)
			read <- int(n)
		}()
		var n int
		for done := false; !done; {
			p.do(func() {
				p.c.SetWriteTimeout(patience)
				switch err := p.c.Write(make([]byte, 64<<10)); err {
				case nil, errCause:
				default:
					t.Errorf("Write() = %v", err)
					done = true
				}
				p.c.Resume()
			})
			select {
			case n = <-read:
				done = true
			default:
			}
		}
		stop.Store(true)
		interrupter.Wait()
		if n != total {
			t.Errorf("the other end got %d bytes, want %d", n, total)
		}
	})
}
