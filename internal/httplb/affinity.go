package httplb

import (
	"bytes"
	"encoding/binary"
	"iter"
	"time"

	"fairlead/internal/affinity"
	"fairlead/internal/h1"
	"fairlead/internal/loop"
	"fairlead/internal/model"
	"fairlead/internal/plan"
)

// cookieName is that of the cookie in which a session is kept.
const cookieName = "__fairlead"

var sessionCookie = []byte(cookieName)

// maxCookies bounds the cookies of that name that are looked at in a request.
const maxCookies = 8

// binding is what keeps the client of a request on its endpoint.
type binding struct {
	opener  affinity.Opener
	session affinity.Session // that the client has named
	hash    uint64           // of what it is known by, where its endpoint leaves
	held    bool             // the endpoint that was chosen is the session's; its setting says what a failure leads to
	overTLS bool             // the client speaks TLS, to us or to a trusted proxy
	line    []byte           // a Set-Cookie line for the answer, or empty
	key     []byte           // of a session by headers
	slot    uint64           // where the table has it
}

// bind finds out what the request is bound by, before an endpoint is chosen.
func (x *exchange) bind(req *h1.Request) {
	x.facts.Session, x.facts.Keyed = nil, false // of the stream's last request
	x.binding.held, x.binding.line = false, x.binding.line[:0]
	a := x.lb.Affinity
	if a == nil {
		return
	}
	switch a.Kind {
	case model.AffinityClientIP:
		x.facts.KeyByClient()
		return
	case model.AffinityHeader:
		x.bindByHeaders(req, a)
		return
	case model.AffinityIPCookie:
		x.facts.KeyByClient()
	}
	x.binding.overTLS = x.secure
	now := time.Now().Unix() // by the clock of this moment, as other nodes judge it too
	tries := maxCookies
	for i := range req.Fields {
		f := &req.Fields[i]
		if f.Kind == h1.KindXForwardedProto && x.trusted {
			x.binding.overTLS = bytes.EqualFold(req.Value(f), schemeHTTPS)
		}
		if f.Kind != h1.KindCookie || x.facts.Session != nil {
			continue
		}
		for value := range cookies(req.Value(f), sessionCookie) {
			if tries == 0 {
				break
			}
			tries--
			s, ok := x.binding.opener.Open(a.Keys, a.Balancer, value, now)
			if !ok {
				continue
			}
			if e := a.Endpoint(s.Endpoint); e != nil {
				x.binding.session, x.facts.Session = s, e
				if a.Kind == model.AffinityCookie && a.Failover == model.FailoverTemporary {
					x.facts.KeyBy(value) // while it is elsewhere, it is always at the same one
				}
				if e.Leaving() {
					x.binding.hash = x.sessionHash(s.Expires)
				}
				break
			}
		}
	}
}

// bindByHeaders makes the key of the session out of what the configured headers
// have, and looks it up.
func (x *exchange) bindByHeaders(req *h1.Request, a *plan.Affinity) {
	key := x.binding.key[:0]
	found := 0
	for i := range a.Headers {
		h := &a.Headers[i]
		before := len(key)
		for j := range req.Fields {
			f := &req.Fields[j]
			switch {
			case !bytes.EqualFold(req.Name(f), h.Name):
			case len(h.Cookies) == 0:
				key = appendKey(key, i, req.Value(f))
			default:
				for n, name := range h.Cookies {
					for value := range cookies(req.Value(f), name) {
						key = appendKey(appendKey(key, i, name), n, value)
					}
				}
			}
		}
		if len(key) > before {
			found++
		}
	}
	x.binding.key = key
	if found == 0 || a.AllHeaders && found < len(a.Headers) {
		return // no session
	}
	x.facts.KeyBy(key)
	find := (*affinity.Table).Get
	table := x.lbs.sessions.Load()
	switch {
	case x.asks:
		find = (*affinity.Table).Peek
	case table == nil:
		table = x.lbs.table()
	}
	if table == nil {
		return // nobody has a session yet
	}
	x.binding.slot = table.Slot(key)
	if endpoint, ok := find(table, x.binding.slot, uptime(x.start), int64(a.TTL/time.Second)); ok {
		x.facts.Session, x.binding.hash = a.Endpoint(endpoint), x.facts.Key
	}
}

// countSession counts what has become of the request's session.
func (x *exchange) countSession() {
	a := x.lb.Affinity
	if !a.Remembers() {
		return
	}
	kind := sessionNone
	switch {
	case x.binding.held:
		kind = sessionKept
	case x.facts.Session != nil:
		kind = sessionMoved
	case a.Cookie() || x.facts.Keyed:
		kind = sessionNew
	}
	x.lbs.sessionKinds[kind].Inc()
	if e := x.decision.Endpoint; x.binding.held && e.Leaving() {
		e.Load.SessionMet(x.binding.hash, x.start.Wall())
	}
}

// uptime returns a moment in seconds, from 1, that no change of the clock moves.
func uptime(t loop.Time) int64 { return int64(t)/int64(time.Second) + 1 }

// appendKey appends a part of a session's key so that no two lists of parts are
// alike.
func appendKey(key []byte, kind int, value []byte) []byte {
	key = append(key, byte(kind))
	key = binary.BigEndian.AppendUint32(key, uint32(len(value)))
	return append(key, value...)
}

// cookies yields the values of the cookies of a name in a Cookie field. There may
// be several, as of a parent domain.
func cookies(field, name []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(field) > 0 {
			pair, rest, _ := bytes.Cut(field, semicolon)
			field = rest
			key, value, ok := bytes.Cut(bytes.Trim(pair, " \t"), equals)
			if ok && bytes.Equal(key, name) && !yield(value) {
				return
			}
		}
	}
}

var semicolon, equals = []byte(";"), []byte("=")

// keep binds the client to the endpoint which has answered, if it is not that of
// its session: by a cookie in the answer, or in the table.
func (x *exchange) keep() {
	a := x.lb.Affinity
	if a == nil || x.decision.Endpoint == x.facts.Session && !a.Renew {
		return
	}
	moved := x.failedOver && x.binding.held
	if a.Failover == model.FailoverTemporary && (moved || x.waits(a)) {
		return // the session goes on when its endpoint is back
	}
	if a.Kind == model.AffinityHeader && x.facts.Keyed && !x.waits(a) {
		if x.lbs.table().Put(x.binding.slot, x.decision.Endpoint.Session, uptime(x.start), int64(a.TTL/time.Second)) {
			x.lbs.evicted.Inc()
		}
	}
	if !a.Cookie() {
		return
	}
	s := affinity.Session{Endpoint: x.decision.Endpoint.Session, Expires: time.Now().Add(a.TTL).Unix()}
	if moved {
		s.Expires = x.binding.session.Expires // it has moved, and is as old as it was
	}
	x.lbs.sealed.Inc()
	x.binding.line = appendCookie(x.binding.line[:0], a, s, x.binding.overTLS)
}

// waits reports whether the session goes back to its endpoint, which is down and
// still one of those that there are: one by headers, and one in a cookie that is to
// move for a while only. While it is, the key leads to the same other one.
func (x *exchange) waits(a *plan.Affinity) bool {
	e := x.facts.Session
	return e != nil && !e.Health.Up() && a.Keeps(e, x.start.Wall())
}

func appendCookie(out []byte, a *plan.Affinity, s affinity.Session, overTLS bool) []byte {
	out = append(out, "Set-Cookie: "+cookieName+"="...)
	out = a.Keys.Seal(out, a.Balancer, s)
	out = append(out, "; Path=/; Expires="...)
	out = time.Unix(s.Expires, 0).UTC().AppendFormat(out, "Mon, 02 Jan 2006 15:04:05 GMT")
	out = append(out, "; HttpOnly"...)
	// Browsers drop a cookie of SameSite=None that is not Secure.
	secure := a.Secure == model.SecureAlways || a.Secure == model.SecureAuto && overTLS
	switch same := a.SameSite; {
	case same == model.SameSiteStrict:
		out = append(out, "; SameSite=Strict"...)
	case same == model.SameSiteLax, same == model.SameSiteAuto && !(overTLS && secure):
		out = append(out, "; SameSite=Lax"...)
	case secure:
		out = append(out, "; SameSite=None"...)
	}
	if secure {
		out = append(out, "; Secure"...)
	}
	return append(out, h1.CRLF...)
}
