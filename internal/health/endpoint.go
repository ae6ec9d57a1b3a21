package health

import (
	"cmp"
	"strings"
	"sync/atomic"
	"time"
)

// Verdict is what is known about one endpoint.
type Verdict uint32

// The verdicts. Unknown counts as unhealthy in steering; Unmonitored counts
// as healthy.
const (
	Unknown Verdict = iota
	Healthy
	Unhealthy
	Unmonitored
)

// String returns the verdict's name in logs and status.
func (v Verdict) String() string {
	return [...]string{"unknown", "healthy", "unhealthy", "unmonitored"}[v]
}

// Key identifies an endpoint across reloads: the same name at another
// address is another endpoint.
type Key struct{ Pool, Endpoint, Address string }

// compare orders keys for listings.
func (k Key) compare(o Key) int {
	return cmp.Or(strings.Compare(k.Pool, o.Pool), strings.Compare(k.Endpoint, o.Endpoint), strings.Compare(k.Address, o.Address))
}

// Endpoint is the observed state of one endpoint. Readers are many and never
// lock; only the Table writes.
type Endpoint struct {
	Key     Key
	table   *Table
	verdict atomic.Uint32
	ejected atomic.Bool
	until   atomic.Int64 // end of the last ejection, Unix nanoseconds
	latency Average
	detail  atomic.Pointer[Detail]

	// The table's lock guards what follows.
	monitored bool   // as the newest plan said when it was compiled
	changes   uint64 // of the verdict
	ejection  ejection
	was       *Endpoint // by another name, until a plan that has this one is in force
}

// Detail is what status shows beside a verdict. A stored Detail is never
// written again.
type Detail struct {
	Since   time.Time     // when the verdict began
	Checked time.Time     // when the last check ended
	Failure string        // why the last check failed, one of the Failure texts; "" when it passed
	Cause   string        // what exactly went wrong, for people; "" when the last check passed
	Code    int           // the answer's status code, 0 when there was none
	RTT     time.Duration // of the last passed check, 0 when there was none
	// Monitors are those of the group, where there is one. Of its members that
	// vote, Checked is then the newest, RTT the mean, and Failure, Cause and
	// Code those of one that fails: the first, those first that must be healthy.
	Monitors []MonitorDetail
}

// MonitorDetail is what one monitor of a group says of an endpoint.
type MonitorDetail struct {
	Monitor        string
	MustBeHealthy  bool
	MonitoringOnly bool
	Verdict        Verdict
	Since, Checked time.Time
	Failure, Cause string
	Code           int
	RTT            time.Duration
}

// Verdict returns what is known now.
func (e *Endpoint) Verdict() Verdict { return Verdict(e.verdict.Load()) }

// Up reports whether traffic may be sent to the endpoint.
func (e *Endpoint) Up() bool {
	v := e.Verdict()
	return (v == Healthy || v == Unmonitored) && !e.ejected.Load()
}

// Since returns when the verdict began, or the last ejection ended.
func (e *Endpoint) Since() (since time.Time) {
	if d := e.detail.Load(); d != nil {
		since = d.Since
	}
	if back := e.returns(); back.After(since) {
		since = back
	}
	return since
}

// Latency returns the moving average of the endpoint's probe round trips.
func (e *Endpoint) Latency() *Average { return &e.latency }

// Detail returns what is known beside the verdict.
func (e *Endpoint) Detail() Detail {
	if d := e.detail.Load(); d != nil {
		return *d
	}
	return Detail{}
}
