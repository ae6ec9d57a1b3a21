package loop

import (
	"sync"
	"time"
)

// guard ends a write of a stream that makes no progress. The connection's own
// write deadline would not do: it has to be moved while a write goes on, and
// TLS can write nothing more once a write has timed out, be it only its answer
// to a key update after the last write's deadline.
type guard struct {
	progress func() uint64 // what the other end has taken, if that is known
	cut      func()        // makes the write fail

	mu      sync.Mutex
	timer   *time.Timer
	running bool          // the timer; a write that ends leaves it alone, for the next one
	timeout time.Duration // of the write that goes on; 0 between writes
	stall   stall
	stalled bool
}

// begin is called before a write. timeout 0 is no bound.
func (g *guard) begin(timeout time.Duration) {
	if timeout <= 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timeout, g.stalled, g.stall.since = timeout, false, Now()
	switch {
	case g.timer == nil:
		g.timer = time.AfterFunc(timeout/stallLooks, g.look)
	case !g.running:
		g.timer.Reset(timeout / stallLooks)
	}
	g.running = true
}

// end is called after a write and says whether it was cut.
func (g *guard) end() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.timeout = 0
	return g.stalled
}

func (g *guard) look() {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.timeout == 0:
		g.running = false
	case g.stall.over(g.timeout, g.progress()):
		g.running, g.stalled = false, true
		g.cut()
	default:
		g.timer.Reset(g.timeout / stallLooks)
	}
}
