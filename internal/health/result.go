package health

import "time"

// Result is what one check found.
type Result struct {
	Failure string        // one of the Failure texts; "" when the check passed
	Cause   string        // what exactly went wrong, for people
	Code    int           // the answer's status code, 0 when there was none
	RTT     time.Duration // of a passed check
}

// Passed reports whether the endpoint did what the monitor asks for.
func (r Result) Passed() bool { return r.Failure == "" }

// Reason is the failure, or NoFailures.
func (r Result) Reason() string {
	if r.Passed() {
		return NoFailures
	}
	return r.Failure
}

// timedOut reports whether another attempt may be made at once.
func (r Result) timedOut() bool { return r.Failure == FailureTCPTimeout || r.Failure == FailureTimeout }
