package telemetry

import (
	"log/slog"
	"net/netip"
	"time"
)

// QueryLog writes one JSON line for each DNS query. A nil *QueryLog is one that
// is off.
type QueryLog struct{ lineLog *lineLog }

// OpenQueryLog opens the log: output is "stdout" or the name of a file, which is
// appended to or made with mode 0640; sample is the share of queries that are
// logged, above 0 to 1. Failures to write are logged to log.
func OpenQueryLog(output string, sample float64, log *slog.Logger) (*QueryLog, error) {
	l, err := openLineLog("query log", output, sample, log)
	if err != nil {
		return nil, err
	}
	return &QueryLog{l}, nil
}

// QueryRecord is what the query log says about one query. The log keeps no
// reference to it once Log returned. docs/dns.md describes the line.
type QueryRecord struct {
	// Time is when the query was read.
	Time time.Time
	// Listener, and the name of the zone that answered, "" for none.
	Listener, Zone string
	// Transport is udp, tcp or dot.
	Transport string
	Client    netip.AddrPort
	// Subnet is the client subnet that the query named; invalid for none.
	Subnet netip.Prefix
	// ID of the message, and its opcode.
	ID     uint16
	Opcode uint8
	// Name is the text of what is asked for; Type and Class of it.
	Name        []byte
	Type, Class string
	// RCode is the result; Answers counts the records that answer.
	RCode   string
	Answers int
	// Authoritative, Truncated: flags of the answer. EDNS, DO: of the query.
	Authoritative, Truncated, EDNS, DO bool
	// Cookie is none, client (without a server's), valid or invalid.
	Cookie string
	// LoadBalancer is the one that answered, "" for none; Pool is what it chose, and
	// Reason what led there.
	LoadBalancer, Pool, Reason string
	BytesIn, BytesOut          int
}

// Sampled reports whether a query is one of those that are logged.
func (l *QueryLog) Sampled() bool { return l != nil && l.lineLog.sampled() }

// Log adds the line of r. It never waits for the output: a line that finds the
// buffer full is dropped and counted.
func (l *QueryLog) Log(r *QueryRecord) {
	if l != nil {
		l.lineLog.add(func(b []byte) []byte { return appendQuery(b, r) })
	}
}

// Reopen opens the file by its name again, after it was renamed to be kept.
func (l *QueryLog) Reopen() error {
	if l == nil {
		return nil
	}
	return l.lineLog.reopen()
}

// Close writes what is buffered and closes the file. Later lines are dropped.
func (l *QueryLog) Close() error {
	if l == nil {
		return nil
	}
	return l.lineLog.close()
}

var (
	queryLogLines = &Desc{
		Name: "fairlead_query_log_lines_total",
		Help: "Lines of the query log, by result: written, dropped (the buffer was full) or failed (the output refused them).",
		Kind: CounterKind, Labels: []string{"result"},
	}
	queryLogFailures = &Desc{
		Name: "fairlead_query_log_write_failures_total",
		Help: "Failed writes of the query log.",
		Kind: CounterKind,
	}
)

// Collect emits the counts; nothing for a log that is off.
func (l *QueryLog) Collect(e *Emitter) {
	if l != nil {
		l.lineLog.collect(e, queryLogLines, queryLogFailures)
	}
}

// appendQuery appends the line of r.
func appendQuery(b []byte, r *QueryRecord) []byte {
	e := begin(b, r.Time)
	e.text("listener", r.Listener)
	e.text("transport", r.Transport)
	e.address("client", r.Client)
	if r.Subnet.IsValid() {
		e.key("ecs")
		e.b = append(e.b, '"')
		e.b = r.Subnet.AppendTo(e.b)
		e.b = append(e.b, '"')
	}
	e.integer("id", int64(r.ID))
	e.integer("opcode", int64(r.Opcode))
	e.bytes("name", r.Name)
	e.text("type", r.Type)
	e.text("class", r.Class)
	e.text("zone", r.Zone)
	e.text("rcode", r.RCode)
	e.integer("answers", int64(r.Answers))
	e.boolean("aa", r.Authoritative)
	e.boolean("tc", r.Truncated)
	e.boolean("edns", r.EDNS)
	e.boolean("do", r.DO)
	e.text("cookie", r.Cookie)
	if r.LoadBalancer != "" {
		e.text("load_balancer", r.LoadBalancer)
		e.text("pool", r.Pool)
		e.text("reason", r.Reason)
	}
	e.integer("bytes_in", int64(r.BytesIn))
	e.integer("bytes_out", int64(r.BytesOut))
	return append(e.b, "}\n"...)
}
