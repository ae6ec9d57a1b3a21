package loop

import (
	"io"
	"net"
	"runtime"
	"testing"
	"time"
)

// closes checks that an engine can be closed.
func closes(t *testing.T, e Engine) {
	t.Helper()
	closed := make(chan struct{})
	go func() {
		e.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("Close() does not return")
	}
}

// Tasks that outlive their engine may end as they like.
func TestEngineEndsAlthoughTasksExit(t *testing.T) {
	for _, n := range []int{1, 5} {
		e, err := NewLoopEngine(Options{Loops: 1})
		if err != nil {
			t.Fatal(err)
		}
		d := e.Drivers()[0]
		ln := serveOn(t, e, loopback, func(_ Driver, c Conn) {
			if _, err := c.Read(nil); err == nil || err == io.EOF {
				t.Errorf("Read() = %v at the engine's end", err)
			}
			runtime.Goexit()
		})
		for range n {
			c, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
		}
		l := d.(*eventLoop)
		until(t, "all read", func() (all bool) {
			l.do(func() { all = l.open == n })
			return all && l.waits()
		})
		closes(t, e)
	}
}

// A task that never ends, in whatever way, does not keep its engine.
func TestEngineEndsAlthoughTasksGoOn(t *testing.T) {
	e, err := NewLoopEngine(Options{Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	d := e.Drivers()[0]
	var again func()
	again = func() {
		d.Sleep(0)
		d.Start(again)
		runtime.Goexit()
	}
	onTask(d, func() { d.Start(again) })
	closes(t, e)
}

// An engine that is closed closes all its listeners.
func TestEngineClosesListeners(t *testing.T) {
	e, err := NewLoopEngine(Options{Loops: 2})
	if err != nil {
		t.Fatal(err)
	}
	var all []Listener
	for range 3 {
		ln, err := e.Listen(loopback)
		if err != nil {
			t.Fatal(err)
		}
		ln.Serve(func(Driver, Conn) {}, func(error) {})
		all = append(all, ln)
	}
	closes(t, e)
	for i, ln := range all {
		select {
		case <-ln.Closed():
		case <-time.After(patience):
			t.Errorf("listener %d is still open", i)
		}
	}
}
