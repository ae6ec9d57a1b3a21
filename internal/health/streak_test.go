package health

import (
	"testing"

	"fairlead/internal/model"
)

// TestStreak runs scripts of results, 1 for a passed check, and compares the
// verdict after each: u is healthy (up), d unhealthy.
func TestStreak(t *testing.T) {
	for _, c := range []struct {
		name     string
		from     Verdict
		up, down int
		script   string
		want     string
	}{
		{"three down, two up", Unknown, 2, 3, "1100100100010111", "uuuuuuuuuudddduu"},
		{"zero means at once", Unknown, 0, 0, "10101", "ududu"},
		{"one means at once", Unknown, 1, 1, "10101", "ududu"},
		{"first pass decides alone", Unknown, 5, 1, "1", "u"},
		{"first failure decides alone", Unknown, 1, 5, "01", "du"},
		{"first verdict starts no count", Unknown, 1, 2, "100", "uud"},
		{"unmonitored is decided by the first check", Unmonitored, 3, 3, "0111", "dddu"},
		{"up to the limit", Healthy, 1, 4, "0001000", "uuuuuuu"},
		{"past the limit", Healthy, 1, 4, "00001", "uuudu"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s streak
			v, got := c.from, ""
			for _, r := range c.script {
				v = s.next(v, r == '1', &model.Monitor{ConsecutiveUp: c.up, ConsecutiveDown: c.down})
				got += map[Verdict]string{Healthy: "u", Unhealthy: "d"}[v]
			}
			if got != c.want {
				t.Errorf("verdicts after %s = %s, want %s", c.script, got, c.want)
			}
		})
	}
}
