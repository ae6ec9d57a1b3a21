package telemetry

import (
	"io"
	"log/slog"
)

// AccessLog writes one JSON line for each request. A nil *AccessLog is one
// that is off.
type AccessLog struct{ lineLog *lineLog }

// accessLogName is what messages call it.
const accessLogName = "access log"

// OpenAccessLog opens the log: output is "stdout" or the name of a file, which
// is appended to or made with mode 0640; sample is the share of requests that
// are logged, above 0 to 1. Failures to write are logged to log.
func OpenAccessLog(output string, sample float64, log *slog.Logger) (*AccessLog, error) {
	l, err := openLineLog(accessLogName, output, sample, log)
	if err != nil {
		return nil, err
	}
	return &AccessLog{l}, nil
}

func startAccessLog(path string, out io.WriteCloser, sample float64, log *slog.Logger) *AccessLog {
	return &AccessLog{startLineLog(accessLogName, path, out, sample, log)}
}

// Log adds the line of r, unless sampling leaves it out. It never waits for
// the output: a line that finds the buffer full is dropped and counted.
// Requests that ended in an error made by Fairlead are never left out by
// sampling.
func (l *AccessLog) Log(r *AccessRecord) {
	if l == nil || r.Error == "" && !l.lineLog.sampled() {
		return
	}
	l.lineLog.add(func(b []byte) []byte { return appendRecord(b, r) })
}

// Reopen opens the file by its name again, after it was renamed to be kept.
// Lines that wait in the buffer go to the new file. On an error the old file
// stays in use.
func (l *AccessLog) Reopen() error {
	if l == nil {
		return nil
	}
	return l.lineLog.reopen()
}

// Close writes what is buffered and closes the file. Later lines are dropped.
func (l *AccessLog) Close() error {
	if l == nil {
		return nil
	}
	return l.lineLog.close()
}

// AccessLogStats are the counts of an access log since it was opened.
type AccessLogStats lineStats

// Stats returns the counts.
func (l *AccessLog) Stats() AccessLogStats {
	if l == nil {
		return AccessLogStats{}
	}
	return AccessLogStats(l.lineLog.stats())
}

var (
	accessLogLines = &Desc{
		Name: "fairlead_access_log_lines_total",
		Help: "Lines of the access log, by result: written, dropped (the buffer was full) or failed (the output refused them).",
		Kind: CounterKind, Labels: []string{"result"},
	}
	accessLogFailures = &Desc{
		Name: "fairlead_access_log_write_failures_total",
		Help: "Failed writes of the access log.",
		Kind: CounterKind,
	}
)

// Collect emits the counts; nothing for a log that is off.
func (l *AccessLog) Collect(e *Emitter) {
	if l != nil {
		l.lineLog.collect(e, accessLogLines, accessLogFailures)
	}
}
