package telemetry

import (
	"sync/atomic"
	"time"
)

// Counter only grows. Its zero value is ready. It fills a cache line, so that
// neighbours in a struct or an array do not slow each other.
type Counter struct {
	n atomic.Uint64
	_ [56]byte
}

// Add adds n.
func (c *Counter) Add(n uint64) { c.n.Add(n) }

// Inc adds 1.
func (c *Counter) Inc() { c.n.Add(1) }

// Load returns the sum.
func (c *Counter) Load() uint64 { return c.n.Load() }

// Gauge grows and shrinks. Its zero value is ready. It fills a cache line.
type Gauge struct {
	n atomic.Int64
	_ [56]byte
}

// Add adds n, which may be negative.
func (g *Gauge) Add(n int64) { g.n.Add(n) }

// Load returns the value.
func (g *Gauge) Load() int64 { return g.n.Load() }

// bounds are the upper limits of a Histogram's buckets. They follow the
// series 1, 2.5, 5 over five decades: the round numbers that objectives are
// written in ("99 % within 250 ms") are bounds, and no bucket is wider than
// 2.5 times its lower limit.
var bounds = [...]time.Duration{
	500 * time.Microsecond,
	1 * time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	1 * time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second, 25 * time.Second, 60 * time.Second,
}

// Histogram counts durations in fixed buckets from 0.5 ms to 60 s. Its zero
// value is ready.
type Histogram struct {
	sum     atomic.Int64                   // nanoseconds
	buckets [len(bounds) + 1]atomic.Uint64 // each counts what no earlier one holds; the last has no bound
	_       [48]byte                       // up to whole cache lines
}

// Observe counts d. A negative duration, which only a broken clock makes,
// counts as 0.
func (h *Histogram) Observe(d time.Duration) {
	d = max(d, 0)
	i := 0
	for i < len(bounds) && d > bounds[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.sum.Add(int64(d))
}

// snapshot returns the cumulative counts by bound in seconds, the count of
// all, and their sum in seconds. The count is the sum of the buckets, so that
// the two agree even while observations are being made.
func (h *Histogram) snapshot() (cumulative map[float64]uint64, count uint64, sum float64) {
	cumulative = make(map[float64]uint64, len(bounds))
	for i := range bounds {
		count += h.buckets[i].Load()
		cumulative[bounds[i].Seconds()] = count
	}
	count += h.buckets[len(bounds)].Load()
	return cumulative, count, time.Duration(h.sum.Load()).Seconds()
}
