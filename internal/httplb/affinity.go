package httplb

import (
	"bytes"
	"time"

	"fairlead/internal/affinity"
	"fairlead/internal/h1"
	"fairlead/internal/model"
	"fairlead/internal/plan"
	"fairlead/internal/steer"
)

// cookieName is that of the cookie in which a session is kept.
const cookieName = "__fairlead"

// binding is what keeps the client of a request on its endpoint.
type binding struct {
	opener  affinity.Opener
	session affinity.Session // that the client has named
	held    bool             // its endpoint is the session's
	overTLS bool             // the client speaks TLS, to us or to a trusted proxy
	line    []byte           // a Set-Cookie line for the answer, or empty
}

// bind finds out what the request is bound by, before an endpoint is chosen.
func (x *exchange) bind(req *h1.Request) {
	x.facts.Session, x.facts.Keyed = nil, false // of the stream's last request
	x.binding.held, x.binding.line = false, x.binding.line[:0]
	a := x.lb.Affinity
	if a == nil {
		return
	}
	if a.Kind == model.AffinityClientIP || a.Kind == model.AffinityIPCookie {
		x.facts.KeyByClient()
	}
	if !a.Cookie() {
		return
	}
	x.binding.overTLS = x.secure
	now := x.start.Wall().Unix()
	for i := range req.Fields {
		f := &req.Fields[i]
		if f.Kind == h1.KindXForwardedProto && x.trusted {
			x.binding.overTLS = bytes.EqualFold(req.Value(f), schemeHTTPS)
		}
		if f.Kind != h1.KindCookie || x.facts.Session != nil {
			continue
		}
		for value := range cookies(req.Value(f)) {
			s, ok := x.binding.opener.Open(a.Keys, a.Balancer, value, now)
			if !ok {
				continue
			}
			if e := a.Endpoint(s.Endpoint); e != nil {
				x.binding.session, x.facts.Session = s, e
				break
			}
		}
	}
}

// cookies yields the values in a Cookie field that may be sessions. There may be
// several, as of a parent domain: the first that can be opened is meant.
func cookies(field []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(field) > 0 {
			pair, rest, _ := bytes.Cut(field, semicolon)
			field = rest
			name, value, ok := bytes.Cut(bytes.Trim(pair, " \t"), equals)
			if ok && string(name) == cookieName && !yield(value) {
				return
			}
		}
	}
}

var semicolon, equals = []byte(";"), []byte("=")

// bound notes whether the endpoint that was chosen is the session's. Then the
// load balancer's setting says what a failure leads to.
func (x *exchange) bound() {
	a := x.lb.Affinity
	x.binding.held = a != nil && (x.decision.Reason == steer.ReasonSession || a.Kind == model.AffinityClientIP)
}

// keep writes the cookie that binds the client to the endpoint which has
// answered, if it is not that of its session.
func (x *exchange) keep() {
	a := x.lb.Affinity
	if a == nil || !a.Cookie() || x.decision.Endpoint == x.facts.Session {
		return
	}
	now := x.start.Wall()
	s := affinity.Session{Endpoint: x.decision.Endpoint.Session, Expires: now.Add(a.TTL).Unix()}
	if x.failedOver && x.binding.held {
		if a.Failover == model.FailoverTemporary {
			return // the session goes on when its endpoint is back
		}
		s.Expires = x.binding.session.Expires // it has moved, and is as old as it was
	}
	x.binding.line = appendCookie(x.binding.line[:0], a, s, x.binding.overTLS)
}

func appendCookie(out []byte, a *plan.Affinity, s affinity.Session, overTLS bool) []byte {
	out = append(out, "Set-Cookie: "+cookieName+"="...)
	out = a.Keys.Seal(out, a.Balancer, s)
	out = append(out, "; Path=/; Expires="...)
	out = time.Unix(s.Expires, 0).UTC().AppendFormat(out, "Mon, 02 Jan 2006 15:04:05 GMT")
	out = append(out, "; HttpOnly"...)
	switch same := a.SameSite; {
	case same == model.SameSiteStrict:
		out = append(out, "; SameSite=Strict"...)
	case same == model.SameSiteLax, same == model.SameSiteAuto && !overTLS:
		out = append(out, "; SameSite=Lax"...)
	default:
		out = append(out, "; SameSite=None"...)
	}
	if a.Secure == model.SecureAlways || a.Secure == model.SecureAuto && overTLS {
		out = append(out, "; Secure"...)
	}
	return append(out, h1.CRLF...)
}
