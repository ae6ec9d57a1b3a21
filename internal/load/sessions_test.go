package load

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

func TestSessionsAreCounted(t *testing.T) {
	begin := time.Unix(1_800_000_000, 0).Truncate(sessionPeriod)
	for _, n := range []int{0, 1, 10, 1000, 50_000} {
		var c Counter
		rnd := rand.New(rand.NewPCG(1, uint64(n)))
		ids := make([]uint64, n)
		for i := range ids {
			ids[i] = rnd.Uint64()
		}
		var all sync.WaitGroup
		for range 2 { // each session comes again and again
			all.Go(func() {
				for _, id := range ids {
					c.SessionMet(id, begin.Add(time.Second))
				}
			})
		}
		all.Wait()
		for _, later := range []time.Duration{time.Second, sessionPeriod, 2*sessionPeriod - 1} {
			if got := c.SessionsLately(begin.Add(later)); got < n-n/50-1 || got > n+n/50+1 {
				t.Errorf("%d of %d sessions after %v", got, n, later)
			}
		}
		if got := c.SessionsLately(begin.Add(2 * sessionPeriod)); got != 0 {
			t.Errorf("%d of %d sessions are counted though none came for long", got, n)
		}
	}
}

// Numbers that differ little, such as of a counter, are as good as hashes.
func TestSessionsOfLikeHashes(t *testing.T) {
	var s Sessions
	now := time.Unix(1_800_000_000, 0)
	for i := range uint64(1000) {
		s.Met(i, now)
	}
	if got := s.Lately(now); got < 970 || got > 1030 {
		t.Errorf("%d sessions, want 1000", got)
	}
}

// A session counts while it comes, and for a minute or two after that.
func TestSessionsThatStayAndGo(t *testing.T) {
	var s Sessions
	now := time.Unix(1_800_000_000, 0).Truncate(sessionPeriod)
	for minute := range 5 {
		for i := range uint64(100) {
			if i < 10 || minute == 0 {
				s.Met(i, now)
			}
		}
		want := 10
		if minute < 2 {
			want = 100
		}
		if got := s.Lately(now); got < want-2 || got > want+2 {
			t.Errorf("minute %d: %d sessions, want %d", minute, got, want)
		}
		now = now.Add(sessionPeriod)
	}
}
