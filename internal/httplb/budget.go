package httplb

import (
	"sync"
	"time"

	"fairlead/internal/loop"
)

// budget bounds retries, so that endpoints that fail are not knocked down for
// good by every request coming twice. It asks for the requests' number only
// once a second and when there is something to retry, so a request that goes
// well pays nothing.
//
// In each span of the last 10 to 20 seconds, retries may be the given share of
// requests, plus 10 a second (Finagle's RetryBudget has the same figures).
type budget struct {
	mu      sync.Mutex
	windows [2]window // the previous and the current
}

type window struct {
	start    loop.Time
	requests uint64 // counted before it began
	retries  uint64
}

const (
	budgetWindow = 10 * time.Second
	budgetSpare  = 10 // retries a second that are always allowed; those of a window may come at once
)

// take asks for one retry. requests is the number of requests so far.
func (b *budget) take(share float64, requests uint64, now loop.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rollLocked(requests, now)
	first := b.windows[0]
	used := first.retries
	if b.windows[1].start != first.start {
		used += b.windows[1].retries
	}
	allowed := share*float64(requests-first.requests) + budgetSpare*max(budgetWindow, now.Sub(first.start)).Seconds()
	if float64(used)+1 > allowed {
		return false
	}
	b.windows[1].retries++
	if b.windows[1].start == first.start {
		b.windows[0].retries++
	}
	return true
}

// roll is called about once a second, so that requests count from before the
// first retry.
func (b *budget) roll(requests uint64, now loop.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rollLocked(requests, now)
}

// rollLocked begins a window when the current one is over.
func (b *budget) rollLocked(requests uint64, now loop.Time) {
	if b.windows[1].start == 0 {
		b.windows[1] = window{start: now, requests: requests - min(requests, 1)}
		b.windows[0] = b.windows[1]
	}
	if now.Sub(b.windows[1].start) >= budgetWindow {
		b.windows[0] = b.windows[1]
		b.windows[1] = window{start: now, requests: requests}
	}
}
