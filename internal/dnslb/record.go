package dnslb

import (
	"fairlead/internal/dnswire"
	"fairlead/internal/telemetry"
)

// count counts an answer.
func (r *responder) count() {
	s := &r.ln.stats
	s.queries[r.who.transport].Inc()
	if r.q.Cookie != nil {
		s.cookies[r.cookieKind()].Inc()
	}
	zone := r.zone
	if zone < 0 {
		zone = len(r.snap.zones) - 1
	}
	t := r.q.Type
	if !r.q.Question {
		t = 0
	}
	r.snap.zones[zone].count(r.shard, t, r.m.rcode)
}

// cookieKind judges the cookie of the query.
func (r *responder) cookieKind() cookieKind {
	switch c := r.q.Cookie; {
	case c == nil || r.set.cookies == nil:
		return cookieNone
	case len(c) == clientCookie:
		return cookieClient
	default:
		if ok, _ := r.set.cookies.valid(c, r.who.addr.Addr(), r.now); ok {
			return cookieValid
		}
		return cookieInvalid
	}
}

// log writes the line of an answer to the query log.
func (r *responder) log(log *telemetry.QueryLog, in, out int) {
	q := &r.q
	rec := telemetry.QueryRecord{
		Time: r.now, Listener: r.set.name, Transport: r.who.transport.String(), Client: r.who.addr,
		ID: q.ID, Opcode: uint8(q.Opcode), RCode: r.m.rcode.String(), Answers: int(r.m.count[answerSection]),
		Authoritative: r.m.flags&dnswire.FlagAA != 0, Truncated: r.m.flags&dnswire.FlagTC != 0,
		EDNS: q.EDNS, DO: q.DO, Cookie: r.cookieKind().String(), BytesIn: in, BytesOut: out,
	}
	if r.zone >= 0 {
		rec.Zone = r.snap.plan.Zones[r.zone].Name
	}
	if q.HasECS {
		rec.Subnet = q.ECS.Prefix
	}
	if d := &r.decided; d.balancer != nil {
		rec.LoadBalancer = d.balancer.Name
		if d.pool != nil {
			rec.Pool, rec.Reason = d.pool.Name, d.reason.String()
		}
	}
	var text [4 * dnswire.MaxName]byte
	if q.Question {
		rec.Name = dnswire.AppendName(text[:0], q.Name)
		rec.Type = q.Type.String()
		rec.Class = q.Class.String()
	}
	log.Log(&rec)
}
