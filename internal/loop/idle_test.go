//go:build linux

package loop

import (
	"errors"
	"io"
	"testing"
	"time"
)

// idles begins to idle in a task, which may end with that, and goes on with f.
func (p *pair) idles(f func()) {
	p.do(func() {
		if p.driver.Idle(p.c, f) {
			p.driver.Go(f)
		}
	})
}

// Whatever ends a read ends idling, and the read after it tells.
func TestIdle(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(p *pair)
		want func(b []byte, err error) bool
	}{
		{"bytes", func(p *pair) { p.write([]byte("hello")) }, func(b []byte, err error) bool { return string(b) == "hello" }},
		{"the end", func(p *pair) { p.peer.Close() }, func(_ []byte, err error) bool { return err == io.EOF }},
		{"a reset", func(p *pair) { p.reset() }, func(_ []byte, err error) bool { return err != nil && err != io.EOF }},
		{"an interruption", func(p *pair) { p.c.Interrupt(errCause) }, func(_ []byte, err error) bool { return err == errCause }},
		{"Abort", func(p *pair) { p.c.Abort() }, func(_ []byte, err error) bool { return isClosed(err) }},
		{"Close", func(p *pair) { p.do(func() { p.c.Close() }) }, func(_ []byte, err error) bool { return isClosed(err) }},
		{"nothing", func(*pair) {}, func(_ []byte, err error) bool { return err == ErrTimeout }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, before := range map[string]bool{"before": true, "during": false} {
				t.Run(name, func(t *testing.T) {
					each(t, func(t *testing.T, p *pair) {
						if p.pipe {
							return
						}
						p.do(func() {
							p.c.SetReadDeadline(Now().Add(patience))
							if c.name == "nothing" {
								p.c.SetReadDeadline(Now().Add(20 * time.Millisecond))
							}
						})
						if before {
							c.end(p)
						}
						result := make(chan error, 1)
						p.idles(func() {
							b, err := p.c.Read(nil)
							if !c.want(b, err) {
								err = errors.Join(errors.New("unexpected: "+string(b)), err)
							} else {
								err = nil
							}
							result <- err
						})
						if !before {
							c.end(p)
						}
						if err := <-result; err != nil {
							t.Errorf("Read() after idling: %v", err)
						}
					})
				})
			}
		})
	}
}

// A deadline that was armed earlier does not end idling early, and one that was
// taken away does not end it at all.
func TestIdleDeadlineMovesForwards(t *testing.T) {
	for _, name := range []string{"fiber socket", "fiber tls server"} {
		t.Run(name, func(t *testing.T) {
			p := kindOf(name).new(t)
			soon := Now().Add(10 * time.Millisecond)
			p.timesOut(soon) // arms
			p.write([]byte("x"))
			p.do(func() { p.c.SetReadDeadline(Now().Add(20 * time.Millisecond)) })
			p.wantRead([]byte("x"))
			p.write([]byte("x"))
			p.do(func() { p.c.SetReadDeadline(Now().Add(patience)) })
			p.wantRead([]byte("x"))

			begun := make(chan Time, 1)
			deadline := Now().Add(100 * time.Millisecond)
			p.do(func() { p.c.SetReadDeadline(deadline) })
			p.idles(func() { begun <- Now() })
			if at := <-begun; at < deadline {
				t.Errorf("idling ended %v before its deadline", deadline.Sub(at))
			}
			p.do(func() { p.c.SetReadDeadline(0) })
			p.idles(func() { begun <- Now() })
			passed := Now().Add(100 * time.Millisecond)
			until(t, "the old deadline has passed", func() bool { return Now() > passed })
			select {
			case <-begun:
				t.Error("idling ended without a reason")
			default:
			}
			p.write([]byte("x"))
			<-begun
			p.wantRead([]byte("x"))
		})
	}
}

// A connection that idles owns no fiber.
func TestIdleOwnsNoFiber(t *testing.T) {
	d := newFiberDriver(Options{Loops: 1})
	defer d.engine.Close()
	const n = 200
	ended := make(chan error, n)
	for range n {
		c, peer := d.pair(t)
		defer peer.Close()
		onTask(d, func() {
			serve := func() {
				_, err := c.Read(nil)
				c.Close()
				ended <- err
			}
			if d.Idle(c, serve) {
				serve()
			}
		})
		defer func() {
			peer.Close()
			if err := <-ended; err != io.EOF {
				t.Error(err)
			}
		}()
	}
	until(t, "no fiber is in use", func() bool {
		s := d.engine.Stats().Loops[0]
		return s.Connections == n && s.Fibers == 0 && s.FreeFibers <= 4
	})
}
