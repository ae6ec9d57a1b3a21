package health

import "time"

// Suppose gives an endpoint a verdict without a check, for who asks what would be.
func (t *Table) Suppose(e *Endpoint, v Verdict, now time.Time) {
	r := Result{}
	if v == Unhealthy {
		r.Failure = "supposed"
	}
	t.record(e, v, r, now)
}
