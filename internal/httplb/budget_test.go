package httplb

import (
	"testing"
	"time"

	"fairlead/internal/loop"
)

func TestBudget(t *testing.T) {
	const share, perSecond = 0.2, 1000
	at := func(d time.Duration) loop.Time { return loop.Time(time.Hour + d) }
	// taken returns how many retries are allowed at once.
	taken := func(b *budget, requests uint64, now loop.Time) int {
		n := 0
		for n < 1_000_000 && b.take(share, requests, now) {
			n++
		}
		return n
	}
	tests := []struct {
		name   string
		rolled time.Duration // for how long requests came before the first failure
		want   int
	}{
		{"at the start", 0, 10 * budgetSpare},
		{"after a second", time.Second, share*perSecond + 10*budgetSpare},
		{"after a window and a half", 15 * time.Second, share*15*perSecond + 15*budgetSpare},
		{"after an hour: two windows at most", time.Hour, share*20*perSecond + 20*budgetSpare},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var b budget
			requests := uint64(0)
			for d := time.Duration(0); d <= test.rolled; d += time.Second {
				requests = uint64(d.Seconds()) * perSecond
				b.roll(requests, at(d))
			}
			got := taken(&b, requests, at(test.rolled))
			if got > test.want || got < test.want/2 {
				t.Errorf("%d retries are allowed, want about %d", got, test.want)
			}
			if n := taken(&b, requests, at(test.rolled)); n != 0 {
				t.Errorf("%d more retries are allowed, want none", n)
			}
			if n := taken(&b, requests+perSecond, at(test.rolled+time.Second)); n < share*perSecond || n > share*perSecond+budgetSpare {
				t.Errorf("%d retries are allowed in the next second, want %v and up to %v more", n, share*perSecond, budgetSpare)
			}
		})
	}
}
