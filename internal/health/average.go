package health

import (
	"math"
	"sync/atomic"
	"time"
)

// Average is an exponentially weighted moving average for samples at
// irregular intervals (Eckner, "Algorithms for Unevenly Spaced Time Series"):
// w = exp(-dt/tau); average = sample*(1-w) + average*w. It has one writer.
//
// A sample counts for the time since the one before it. Among samples of one
// pool that arrive together the first counts most; which one that is changes
// with every round, because the schedules are jittered independently.
type Average struct {
	bits  atomic.Uint64 // of a float64, nanoseconds; 0 is no sample
	first atomic.Int64  // unix nanoseconds of the first sample
	last  atomic.Int64  // unix nanoseconds of the newest sample
}

// tau is the mean lifetime of a sample: half of what is known is forgotten
// every 41 s (tau times ln 2), which smooths single slow probes and follows a
// lasting change within a few minutes.
const tau = 60 * time.Second

// Value returns the average and whether there is one.
func (a *Average) Value() (time.Duration, bool) {
	b := a.bits.Load()
	return time.Duration(math.Float64frombits(b)), b != 0
}

// Since returns when the first sample was taken; the zero time when none was.
func (a *Average) Since() time.Time {
	if f := a.first.Load(); f != 0 {
		return time.Unix(0, f)
	}
	return time.Time{}
}

// observe adds a sample taken at now. Only the table calls it.
func (a *Average) observe(sample time.Duration, now time.Time) {
	sample = max(sample, 1) // so that the bits of a sample are never those of none
	old := a.bits.Load()
	if old == 0 {
		a.first.Store(now.UnixNano())
		a.bits.Store(math.Float64bits(float64(sample)))
	} else {
		dt := max(now.UnixNano()-a.last.Load(), 0) // the wall clock may step back
		w := math.Exp(-float64(dt) / float64(tau))
		a.bits.Store(math.Float64bits(float64(sample)*(1-w) + math.Float64frombits(old)*w))
	}
	a.last.Store(now.UnixNano())
}
