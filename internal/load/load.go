// Package load counts what is open at each endpoint and pool: requests and
// connections. The data planes write, steering and status read.
//
// Counts are kept under the identity of what they count, outside the plan, so
// that a reload forgets nothing about an endpoint that is still declared. A
// plan finds its counters once, when it is compiled; reading and counting are
// single atomic operations.
package load

import (
	"sync"
	"sync/atomic"
)

// Counter counts what is open at one endpoint or one pool. Its zero value is
// ready. It fills a cache line, so that neighbours do not slow each other.
type Counter struct {
	requests    atomic.Int64
	connections atomic.Int64
	turn        atomic.Uint64
	sessions    atomic.Pointer[Sessions]
	_           [32]byte
}

// Requests returns the requests that are open now.
func (c *Counter) Requests() int64 { return c.requests.Load() }

// Connections returns the connections that are open now, idle ones included.
func (c *Counter) Connections() int64 { return c.connections.Load() }

// RequestStarted counts one more open request; RequestDone must follow.
func (c *Counter) RequestStarted() { c.requests.Add(1) }

// RequestDone ends what RequestStarted began.
func (c *Counter) RequestDone() { c.requests.Add(-1) }

// ConnectionOpened counts one more open connection; ConnectionClosed must
// follow.
func (c *Counter) ConnectionOpened() { c.connections.Add(1) }

// ConnectionClosed ends what ConnectionOpened began.
func (c *Counter) ConnectionClosed() { c.connections.Add(-1) }

// Turn returns the next number of a rotation: 0, 1, 2 and so on.
func (c *Counter) Turn() uint64 { return c.turn.Add(1) - 1 }

// Table holds the counters of all endpoints and pools.
type Table struct {
	mu    sync.Mutex
	items map[Key]*Counter
}

// Key identifies what is counted. Endpoint and Address are empty for a pool.
type Key struct{ Pool, Endpoint, Address string }

// Counter finds the counter of k, or makes it.
func (t *Table) Counter(k Key) *Counter {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.items == nil {
		t.items = make(map[Key]*Counter)
	}
	c := t.items[k]
	if c == nil {
		c = new(Counter)
		t.items[k] = c
	}
	return c
}

// Keep forgets every counter for which used is false. A request that is still
// counted by a forgotten counter goes on counting there, unseen.
func (t *Table) Keep(used func(Key) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range t.items {
		if !used(k) {
			delete(t.items, k)
		}
	}
}
