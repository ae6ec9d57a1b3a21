package httplb

import (
	"errors"
	"sync"
	"sync/atomic"

	"fairlead/internal/loop"
)

// gate bounds what is open at an endpoint, over all drivers. Whoever finds it full
// may wait in a queue, which is served in order: what is given back goes to the
// first that waits, and never to one that comes just then.
type gate struct {
	mu      sync.Mutex // held for a few instructions
	limit   int        // 0: no bound
	open    int
	waiting []*waiter
	queued  uint64 // all that have waited

	waits atomic.Bool // there are some that wait
}

type waiter struct {
	d        loop.Driver
	bell     loop.Bell
	admitted bool // guarded by the gate's mu
}

// What enter ends with.
var (
	errFull  = errors.New("as much is open as is allowed, and as many wait")
	errQueue = errors.New("waited too long for what is open to end")
)

// enter waits until there is room, with at most queue others before it, until the
// deadline. Once it stands in the queue, full is called, which may make room. alive is
// asked now and then whether there is still a reason to wait.
func (g *gate) enter(d loop.Driver, queue int, deadline loop.Time, full func(), alive func() bool) error {
	g.mu.Lock()
	switch {
	case g.hasRoom() && len(g.waiting) == 0:
		g.open++
		g.mu.Unlock()
		return nil
	case len(g.waiting) >= queue:
		g.mu.Unlock()
		return errFull
	}
	w := &waiter{d: d, bell: d.Bell()}
	g.waiting = append(g.waiting, w)
	g.queued++
	g.waits.Store(true)
	g.mu.Unlock()
	if full != nil {
		full()
	}
	for {
		now := loop.Now()
		rung := w.bell.Wait(min(deadline, now.Add(watchInterval))) == nil
		if admitted, err := g.look(w, rung, deadline, alive); admitted || err != nil {
			return err
		}
	}
}

// look sees what has become of w, and takes it out of the queue where it waits in
// vain.
func (g *gate) look(w *waiter, rung bool, deadline loop.Time, alive func() bool) (admitted bool, err error) {
	switch {
	case rung:
	case loop.Now() >= deadline:
		err = errQueue
	case !alive():
		err = errClientGone
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.admitted {
		if err == errClientGone {
			g.giveBack()
			return false, err
		}
		return true, nil
	}
	if err != nil {
		for i, other := range g.waiting {
			if other == w {
				g.waiting = append(g.waiting[:i], g.waiting[i+1:]...)
				break
			}
		}
		g.waits.Store(len(g.waiting) > 0)
	}
	return false, err
}

// leave ends what enter began.
func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.giveBack()
}

// giveBack closes one that is open; the lock is held.
func (g *gate) giveBack() {
	g.open--
	g.admit()
}

func (g *gate) hasRoom() bool { return g.limit == 0 || g.open < g.limit }

// admit lets those in that wait, as far as there is room; the lock is held.
func (g *gate) admit() {
	for len(g.waiting) > 0 && g.hasRoom() {
		w := g.waiting[0]
		g.waiting[0] = nil
		g.waiting = g.waiting[1:]
		w.admitted = true
		g.open++
		w.d.Go(w.bell.Ring)
	}
	g.waits.Store(len(g.waiting) > 0)
}

// set sets the bound, and lets those in for whom there is room now.
func (g *gate) set(limit int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit = limit
	g.admit()
}

// counts returns how many wait, and how many have waited.
func (g *gate) counts() (waiting int, queued uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting), g.queued
}
