package httplb

import (
	"time"

	"fairlead/internal/h1"
	"fairlead/internal/loop"
	"fairlead/internal/telemetry"
)

// record is what is noted of an exchange, for counters and the access log.
type record struct {
	start loop.Time // first byte of the request
	ended loop.Time // of the exchange; 0 before
	over  loop.Time // the answer's last byte was written; 0 where that was not looked at

	status     int
	failure    *failure
	cause      error // what exactly went wrong
	clientGone bool
	reused     bool
	upgraded   bool
	resent     bool // sent once more to the same endpoint
	failedOver bool // sent to another endpoint
	connect    time.Duration

	relayedIn, relayedOut int64 // after an upgrade

	// Only while there is an access log.
	headAt   loop.Time // the request's head was complete
	answerAt loop.Time // the final answer began
	text     []byte    // method, host and target, one after the other
	host0    int       // where the host begins in text
	target0  int       // where the target begins
}

// begin starts a new record, under the newest plan.
func (x *exchange) begin(start loop.Time) {
	x.record = record{start: start, text: x.text[:0]}
	x.snap = x.ln.plane.snap.Load()
	x.lb, x.lbs = nil, nil
	if x.judgement != nil {
		x.judgement.applied = x.judgement.applied[:0]
	}
	x.isHead, x.trusted, x.grpc = false, false, false
	x.decision.Pool, x.decision.Endpoint = nil, nil
	x.upload.begin(x, true)
}

func (x *exchange) headDone() {
	if x.snap.log != nil {
		x.headAt = loop.Now()
	}
}

func (x *exchange) firstByte() {
	if x.snap.log != nil {
		x.answerAt = loop.Now()
	}
}

// note copies what the access log says of the request's head.
func (x *exchange) note(req *h1.Request) {
	if x.snap.log == nil {
		return
	}
	cut := func(b []byte) []byte { return b[:min(len(b), telemetry.MaxField+1)] } // the log marks what it cuts
	x.text = append(x.text[:0], cut(req.Method)...)
	x.host0 = len(x.text)
	x.text = append(x.text, cut(req.HostPort)...)
	x.target0 = len(x.text)
	x.text = append(x.text, cut(req.Path)...)
	if req.HasQuery {
		x.text = append(x.text, '?')
		x.text = append(x.text, cut(req.Query)...)
	}
}

// retried notes that another endpoint is asked.
func (x *exchange) retried(f *failure, err error) {
	x.failedOver = true
	x.cause = err
	x.ln.plane.aside.Debug("request goes to another endpoint", "pool", x.decision.Pool.Name,
		"endpoint", x.decision.Endpoint.Name, "reason", f.reason, "error", err)
}

// finish counts the exchange and writes it to the access log.
func (x *exchange) finish(bytesIn, bytesOut int64) {
	if x.ended = x.over; x.over == 0 {
		x.ended = loop.Now()
	}
	stats := &x.ln.stats
	stats.bytesIn.Add(uint64(bytesIn + x.relayedIn))
	stats.bytesOut.Add(uint64(bytesOut + x.relayedOut))
	status := x.status
	if x.failure != nil && x.grpc { // which has its errors in a 200
		status = x.failure.status
	}
	class := min(max(status/100, 0), len(stats.classes)-1)
	if x.lbs != nil {
		x.lbs.classes[class].Inc()
		if !x.upgraded {
			x.lbs.duration.Observe(x.ended.Sub(x.start))
		}
		if x.clientGone {
			x.lbs.clientGone.Inc()
		}
	} else {
		stats.classes[class].Inc()
	}
	if x.failure != nil {
		stats.failures[x.failure.kind].Inc()
	}
	// The log may have been changed since the exchange began, long ago perhaps.
	if log := x.ln.plane.snap.Load().log; log != nil && x.snap.log != nil {
		x.log(log, bytesIn, bytesOut)
	}
}

func (x *exchange) log(log *telemetry.AccessLog, bytesIn, bytesOut int64) {
	r := telemetry.AccessRecord{
		Time: time.Now().Add(-loop.Now().Sub(x.start)), Listener: x.ln.name(), Client: x.peer, Peer: x.peer,
		Protocol: x.s.protocol(), Status: x.status,
		BytesIn: bytesIn + x.relayedIn, BytesOut: bytesOut + x.relayedOut,
		Connect: x.connect, Total: x.ended.Sub(x.start),
		Reused: x.reused, Upgraded: x.upgraded,
	}
	if len(x.text) > 0 {
		r.Method, r.Host, r.Path = x.text[:x.host0], x.text[x.host0:x.target0], x.text[x.target0:]
	}
	if c := x.facts.Client; x.trusted && c != x.peer.Addr() {
		r.Client = addrOnly(c)
	}
	if x.headAt != 0 {
		r.Head = x.headAt.Sub(x.start)
		if x.answerAt != 0 {
			r.FirstByte = x.answerAt.Sub(x.headAt)
		}
	}
	if x.lb != nil {
		r.LoadBalancer = x.lb.Name
		if x.judgement != nil {
			r.Rules = x.judgement.applied
		}
	}
	if x.decision.Pool != nil {
		r.Pool, r.Endpoint, r.Reason = x.decision.Pool.Name, x.decision.Endpoint.Name, x.decision.Reason.String()
	}
	if x.resent {
		r.Retries++
	}
	if x.failedOver {
		r.Retries++
	}
	switch {
	case x.failure != nil:
		r.Error = x.failure.reason
	case x.clientGone:
		r.Error = "client_gone"
	}
	if x.cause != nil && r.Error != "" {
		r.ErrorDetail = x.cause.Error()
	}
	r.Certified, r.ClientSubject = x.certified, x.subject
	if x.tls != nil {
		r.TLSVersion, r.TLSCipher, r.ServerName = x.tls.Version, x.tls.CipherSuite, x.tls.ServerName
	}
	log.Log(&r)
}
