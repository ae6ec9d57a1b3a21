package httplb

import (
	"fmt"
	"sync/atomic"

	"fairlead/internal/health"
	"fairlead/internal/loop"
	"fairlead/internal/model"
	"fairlead/internal/plan"
)

// outliers counts how requests fare at one endpoint, where its pool wants to know.
type outliers struct {
	row              atomic.Int32 // failures since the last answer
	requests, errors atomic.Uint64

	// Of the sweep alone.
	begun        loop.Time // of the interval
	asked, wrong uint64    // counts when it began
}

// failed counts a failure at an endpoint.
func (u *upstream) failed(e *plan.Endpoint, f *failure) {
	u.stats.failures[f.kind].Inc()
	if o := &e.Pool.Outliers; o.On() && f.blamesEndpoint() {
		u.outliers.requests.Add(1)
		u.outliers.errors.Add(1)
		if row := u.outliers.row.Add(1); o.ConsecutiveFailures > 0 && int(row) == o.ConsecutiveFailures {
			u.eject(e, fmt.Sprintf("%d failures in a row, the last: %s", row, f.reason))
		}
	}
}

// answered counts an answer of an endpoint.
func (u *upstream) answered(e *plan.Endpoint, status int) {
	if !e.Pool.Outliers.On() {
		return
	}
	u.outliers.requests.Add(1)
	if status >= 500 {
		u.outliers.errors.Add(1)
	}
	if u.outliers.row.Load() != 0 {
		u.outliers.row.Store(0)
	}
}

// eject takes the endpoint out. It is done aside, as the table logs.
func (u *upstream) eject(e *plan.Endpoint, reason string) {
	o := &e.Pool.Outliers
	u.outliers.row.Store(0)
	if !e.Health.EjectedUntil().IsZero() {
		return
	}
	go e.Health.Eject(health.Ejection{Time: o.EjectionTime, MaxPercent: o.MaxEjectedPercent}, reason)
}

// judgeErrors ends an interval once it is over, and takes the endpoint out where too
// many of its requests failed.
func (u *upstream) judgeErrors(e *plan.Endpoint, o *model.OutlierDetection, now loop.Time) {
	x := &u.outliers
	if now.Sub(x.begun) < o.Interval {
		return
	}
	asked, wrong := x.requests.Load(), x.errors.Load()
	n, bad := asked-x.asked, wrong-x.wrong
	first := x.begun == 0
	x.begun, x.asked, x.wrong = now, asked, wrong
	if first || o.ErrorPercent == 0 || n < uint64(o.MinimumRequests) || bad*100 < n*uint64(o.ErrorPercent) {
		return
	}
	u.eject(e, fmt.Sprintf("%d of %d requests failed", bad, n))
}
