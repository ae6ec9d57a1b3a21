package health

import "time"

// RecordForTest writes a verdict and its result as if a check had come to
// them, for tests of packages that read the table.
func (t *Table) RecordForTest(e *Endpoint, v Verdict, r Result, now time.Time) {
	t.record(e, v, r, now)
}
