package load

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// Sessions estimates how many different sessions were met lately: linear counting
// (Whang, Vander-Zanden, Taylor 1990) over two periods. Its zero value is ready, and
// counts some tens of thousands within a few per cent, in 16 KiB.
type Sessions struct{ periods [2]period }

// sessionPeriod is for how long at least a session counts.
const sessionPeriod = time.Minute

type period struct {
	number atomic.Int64
	seen   [1024]atomic.Uint64 // a bit for each hash, or some
}

// Met notes a session by a hash.
func (s *Sessions) Met(hash uint64, now time.Time) {
	n := now.UnixNano() / int64(sessionPeriod)
	p := &s.periods[n&1]
	if was := p.number.Load(); was != n && p.number.CompareAndSwap(was, n) {
		for i := range p.seen {
			p.seen[i].Store(0) // what others note meanwhile may be lost
		}
	}
	hash = hash * 0x9e3779b97f4a7c15 >> 48 // the bits of it that depend on all
	p.seen[hash>>6].Or(1 << (hash & 63))
}

// Lately returns about how many sessions were met within the last one to two
// periods of a minute.
func (s *Sessions) Lately(now time.Time) int {
	n := now.UnixNano() / int64(sessionPeriod)
	var current []*period
	for i := range s.periods {
		if p := &s.periods[i]; n-p.number.Load() <= 1 {
			current = append(current, p)
		}
	}
	const size = 64 * 1024
	free := size
	for i := range 1024 {
		var seen uint64
		for _, p := range current {
			seen |= p.seen[i].Load()
		}
		free -= bits.OnesCount64(seen)
	}
	return int(math.Round(size * math.Log(float64(size)/math.Max(float64(free), 1))))
}

// SessionMet notes that a session of an endpoint that leaves has made a request.
func (c *Counter) SessionMet(hash uint64, now time.Time) {
	s := c.sessions.Load()
	if s == nil {
		c.sessions.CompareAndSwap(nil, new(Sessions))
		s = c.sessions.Load()
	}
	s.Met(hash, now)
}

// SessionsLately returns about how many sessions were noted within the last one to
// two minutes.
func (c *Counter) SessionsLately(now time.Time) int {
	s := c.sessions.Load()
	if s == nil {
		return 0
	}
	return s.Lately(now)
}
