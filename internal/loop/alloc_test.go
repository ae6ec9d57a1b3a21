//go:build linux

package loop

import (
	"testing"
	"time"
)

// A socket allocates nothing for a read, a write or a question, whatever
// deadlines move.
func TestAllocations(t *testing.T) {
	if raceDetector {
		t.Log("allocations mean nothing with the race detector")
		return
	}
	for _, name := range []string{"socket", "fiber socket"} {
		t.Run(name, func(t *testing.T) {
			p := kindOf(name).new(t)
			go func() { // echoes
				b := make([]byte, 64<<10)
				for {
					n, err := p.peer.Read(b)
					if err != nil {
						return
					}
					if _, err := p.peer.Write(b[:n]); err != nil {
						return
					}
				}
			}()
			p.do(func() { p.allocatesNothing() })
		})
	}
}

func (p *pair) allocatesNothing() {
	c, t := p.c, p.t
	c.SetWriteTimeout(time.Minute)
	hello, world := []byte("hello "), []byte("world")
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	for _, op := range []struct {
		name string
		run  func()
	}{
		{"Write and Read", func() {
			must(c.Write(hello))
			_, err := c.Read(nil)
			must(err)
		}},
		{"Writev and Read", func() {
			must(c.Writev(hello, world))
			_, err := c.Read(nil)
			must(err)
		}},
		{"Read with a prefix", func() {
			must(c.Write(hello))
			b, err := c.Read(nil)
			must(err)
			must(c.Write(world))
			_, err = c.Read(b)
			must(err)
		}},
		{"Ask", func() {
			_, err := c.Ask(hello)
			must(err)
		}},
		{"Ask, with deadlines that move forwards", func() {
			c.SetReadDeadline(Now().Add(time.Minute))
			_, err := c.Ask(hello)
			must(err)
			c.Release()
		}},
		{"Ask, with deadlines that move backwards", func() {
			c.SetReadDeadline(Now().Add(time.Minute))
			_, err := c.Ask(hello)
			must(err)
			c.SetReadDeadline(Now().Add(time.Second))
			_, err = c.Ask(hello)
			must(err)
		}},
		{"Interrupt and Resume", func() {
			c.Resume()
			c.SetReadDeadline(0)
			_, err := c.Ask(hello)
			must(err)
		}},
	} {
		op.run()
		if n := testing.AllocsPerRun(300, op.run); n > 0 {
			t.Errorf("%s: %v allocations", op.name, n)
		}
	}
}

// A connection that idles between its requests needs no new memory for that.
func TestIdleAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Log("allocations mean nothing with the race detector")
		return
	}
	p := kindOf("fiber socket").new(t)
	var serve func()
	serve = func() {
		for {
			p.c.SetReadDeadline(Now().Add(patience))
			b, err := p.c.Read(nil)
			if err != nil || p.c.Write(b) != nil {
				return
			}
			p.c.SetReadDeadline(Now().Add(time.Minute))
			if !p.driver.Idle(p.c, serve) {
				return
			}
		}
	}
	p.driver.Go(func() {
		if p.driver.Idle(p.c, serve) {
			serve()
		}
	})
	hello, b := []byte("hello"), make([]byte, 5)
	cycle := func() {
		p.peer.Write(hello)
		if n, err := p.peer.Read(b); n != 5 || err != nil {
			t.Fatal(n, err)
		}
	}
	cycle()
	if n := testing.AllocsPerRun(300, cycle); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
