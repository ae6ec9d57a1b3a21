package perclient

import (
	"maps"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// memory is how long a client is remembered after a flood.
const memory = 10 * time.Second

// maxFlooders bounds the clients that are remembered. Beyond it any of them is
// forgotten for a new one.
const maxFlooders = 1 << 16

// Flooders remembers clients that had a connection ended for a flood, and bounds how
// fast they open others: who is cut off and comes again at once makes handshakes the
// flood. While there was none lately, asking costs one atomic load. The zero value is
// ready; any number of goroutines may use it.
type Flooders struct {
	until atomic.Int64 // when the last one is forgotten, since began

	mu    sync.Mutex // held for a few instructions, but where all are looked at, now and then
	of    map[netip.Addr]flooder
	swept time.Duration // when those that may be forgotten were
}

type flooder struct {
	until time.Duration // when it is forgotten
	// next is when the next connection is due (GCRA, ITU-T I.371: the theoretical
	// arrival time). A second's worth may come early.
	next time.Duration
}

// began is what moments are counted from.
var began = time.Now()

// burst is what a client has not used before and may use at once.
const burst = time.Second

// Note notes a flood of a client, and reports whether it is the first that is
// remembered of it.
func (f *Flooders) Note(a netip.Addr, now time.Time) (first bool) {
	a = network(a)
	at := now.Sub(began)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.until.Load() <= int64(at) {
		clear(f.of) // all may be forgotten
	}
	old, known := f.of[a]
	known = known && old.until > at
	if !known {
		f.makeRoom(at)
		old.next = at - burst
	}
	old.until = at + memory
	if f.of == nil {
		f.of = make(map[netip.Addr]flooder)
	}
	f.of[a] = old
	f.until.Store(int64(max(old.until, time.Duration(f.until.Load()))))
	return !known
}

// makeRoom leaves room for one more. It looks for those that may be forgotten now and
// then only: there may be many floods a second.
func (f *Flooders) makeRoom(at time.Duration) {
	if len(f.of) < maxFlooders {
		return
	}
	if at >= f.swept+memory {
		f.swept = at
		maps.DeleteFunc(f.of, func(_ netip.Addr, o flooder) bool { return o.until <= at })
	}
	for a := range f.of {
		if len(f.of) < maxFlooders {
			return
		}
		delete(f.of, a)
	}
}

// Admit returns how long a new connection of a client has to wait, which is 0 for all
// but those that are remembered and come faster than rate a second. With false it may
// not come at all, as it would have to wait longer than most.
func (f *Flooders) Admit(a netip.Addr, now time.Time, rate int, most time.Duration) (wait time.Duration, ok bool) {
	at := now.Sub(began)
	if f.until.Load() <= int64(at) {
		return 0, true
	}
	a = network(a)
	f.mu.Lock()
	defer f.mu.Unlock()
	o, known := f.of[a]
	if !known {
		return 0, true
	}
	if o.until <= at {
		delete(f.of, a)
		return 0, true
	}
	o.next = max(o.next, at-burst)
	wait = max(0, o.next-at)
	if wait > most {
		return 0, false
	}
	o.next += time.Second / time.Duration(rate)
	f.of[a] = o
	return wait, true
}

// Count returns how many clients are remembered.
func (f *Flooders) Count(now time.Time) int {
	at := now.Sub(began)
	if f.until.Load() <= int64(at) {
		return 0
	}
	n := 0
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.of {
		if o.until > at {
			n++
		}
	}
	return n
}
