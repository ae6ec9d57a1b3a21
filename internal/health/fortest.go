package health

import "time"

// RecordForTest writes a verdict and its result as if a check had come to
// them, for tests of packages that read the table.
func (t *Table) RecordForTest(e *Endpoint, v Verdict, r Result, now time.Time) {
	t.record(e, v, r, now)
}

// RecordGroupForTest is RecordForTest for an endpoint that is probed by a group
// of monitors, with what each of them found.
func (t *Table) RecordGroupForTest(e *Endpoint, v Verdict, r Result, monitors []MonitorDetail, now time.Time) {
	t.write(e, finding{
		verdict: v, reason: r.Reason(), checked: now, failure: r.Failure, cause: r.Cause, code: r.Code,
		rtt: r.RTT, sample: r.Passed(), monitors: monitors,
	}, now)
}
