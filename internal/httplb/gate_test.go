package httplb

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairlead/internal/loop"
)

// gateDrivers are two drivers of an engine, from which a gate is used.
func gateDrivers(t *testing.T, kind string) []loop.Driver {
	e, err := loop.NewEngine(kind, loop.Options{Loops: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	d := e.Drivers()
	return []loop.Driver{d[0], d[len(d)-1]}
}

// in runs f as a task and waits for its end.
func in(d loop.Driver, f func()) {
	done := make(chan struct{})
	d.Go(func() {
		defer close(done)
		f()
	})
	<-done
}

func soon() loop.Time { return loop.Now().Add(20 * time.Second) }

// As many as are allowed are in at once, whoever comes gets in at last, and those
// of one task in their order.
func TestGate(t *testing.T) {
	for _, kind := range engines {
		t.Run(kind, func(t *testing.T) {
			const limit, tasks, each = 3, 40, 50
			g := gate{limit: limit}
			var open, most atomic.Int64
			var all sync.WaitGroup
			for i, d := range gateDrivers(t, kind) {
				for range tasks / 2 {
					all.Add(1)
					d.Go(func() {
						defer all.Done()
						for range each {
							if err := g.enter(d, tasks, soon(), nil, always); err != nil {
								t.Errorf("enter() from driver %d = %v", i, err)
								return
							}
							n := open.Add(1)
							for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
							}
							d.Sleep(10 * time.Microsecond)
							open.Add(-1)
							g.leave()
						}
					})
				}
			}
			all.Wait()
			if n := most.Load(); n != limit {
				t.Errorf("%d were in at once, want %d", n, limit)
			}
			if waiting, _ := g.counts(); g.open != 0 || waiting != 0 {
				t.Errorf("%d are in and %d wait at the end", g.open, waiting)
			}
		})
	}
}

func TestGateRefuses(t *testing.T) {
	for _, kind := range engines {
		t.Run(kind, func(t *testing.T) {
			d := gateDrivers(t, kind)
			g := gate{limit: 1}
			enter := func(queue int, deadline loop.Time, alive func() bool) (err error) {
				in(d[0], func() { err = g.enter(d[0], queue, deadline, nil, alive) })
				return err
			}
			if err := enter(0, soon(), always); err != nil {
				t.Fatal(err)
			}
			if err := enter(0, soon(), always); err != errFull {
				t.Errorf("enter() without a queue = %v", err)
			}
			begun := loop.Now()
			if err := enter(1, begun.Add(30*time.Millisecond), always); err != errQueue || loop.Now().Sub(begun) < 30*time.Millisecond {
				t.Errorf("enter() for 30 ms = %v after %v", err, loop.Now().Sub(begun))
			}
			if err := enter(1, soon(), func() bool { return false }); err != errClientGone {
				t.Errorf("enter() of a client that has gone = %v", err)
			}
			// One that waits has the queue to itself, and is let in from elsewhere.
			waits := make(chan error)
			d[1].Go(func() {
				err := g.enter(d[1], 1, soon(), nil, always)
				waits <- err
			})
			for waiting := 0; waiting == 0; waiting, _ = g.counts() {
				time.Sleep(time.Millisecond)
			}
			if err := enter(1, soon(), always); err != errFull {
				t.Errorf("enter() behind a full queue = %v", err)
			}
			g.leave()
			if err := <-waits; err != nil {
				t.Errorf("enter() that waited = %v", err)
			}
			// A wider limit lets in who waits.
			d[1].Go(func() {
				err := g.enter(d[1], 1, soon(), nil, always)
				waits <- err
			})
			for waiting := 0; waiting == 0; waiting, _ = g.counts() {
				time.Sleep(time.Millisecond)
			}
			g.set(2)
			if err := <-waits; err != nil {
				t.Errorf("enter() after set = %v", err)
			}
			g.leave()
			g.leave()
			// Without a bound everybody is let in.
			g.set(1)
			in(d[0], func() { g.enter(d[0], 1, soon(), nil, always) })
			d[1].Go(func() {
				err := g.enter(d[1], 1, soon(), func() { g.set(0) }, always)
				waits <- err
			})
			if err := <-waits; err != nil {
				t.Errorf("enter() whose bound is taken away = %v", err)
			}
			g.leave()
			g.leave()
			if waiting, queued := g.counts(); waiting != 0 || g.open != 0 || queued != 5 || g.waits.Load() {
				t.Errorf("%d wait, %d are in, %d have waited, want 0, 0 and 5", waiting, g.open, queued)
			}
		})
	}
}

func always() bool { return true }
