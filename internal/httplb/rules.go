package httplb

import (
	"bytes"
	"net/netip"

	"fairlead/internal/geo"
	"fairlead/internal/h1"
	"fairlead/internal/loop"
	"fairlead/internal/plan"
	"fairlead/internal/rules"
)

// judgement is what the rules of a load balancer make of a request.
type judgement struct {
	view    view
	scratch rules.Scratch
	key     []byte // of the load balancer's variant

	applied []string // names of the rules that applied
}

// forget lets go of the names of rules.
func (j *judgement) forget() {
	clear(j.applied[:cap(j.applied)])
	j.applied = j.applied[:0]
}

// judge runs the rules of the load balancer. What they change makes x.lb another;
// or one of them has the answer.
func (x *exchange) judge(req *h1.Request) *plan.Response {
	x.look(req, x.s.protocol(), x.ln.bound().Port())
	j := x.judgement
	j.key = j.key[:0]
	defer func() { j.view.req = nil }()
	for i := range x.lb.Rules {
		r := &x.lb.Rules[i]
		j.view.made = j.view.made[:0]
		if !r.Condition.Match(&j.view, &j.scratch) {
			continue
		}
		j.applied = append(j.applied, r.Name)
		x.snap.rules[x.lb.Index][i].Inc()
		if r.Response != nil {
			return r.Response
		}
		j.key = plan.AppendOverride(j.key, r)
		if r.Last {
			break
		}
	}
	if len(j.key) > 0 {
		x.lb = x.lb.With(j.key)
	}
	return nil
}

// look notes what rules know of a request.
func (x *exchange) look(req *h1.Request, protocol string, port uint16) {
	if x.judgement == nil {
		x.judgement = new(judgement)
	}
	v := &x.judgement.view
	v.req, v.protocol, v.port = req, protocol, port
	v.peer, v.where, v.region = x.peer, &x.where, string(x.snap.plan.Node.Region)
	v.balancer, v.secure, v.start = x.lb.Name, x.secure, x.start
	v.serverName = ""
	if x.tls != nil {
		v.serverName = x.tls.ServerName
	}
}

// respond answers with what a rule says.
func (x *exchange) respond(r *plan.Response) outcome {
	x.status = r.Status
	return x.answerSelf(r.Status, r.Reason, r.Lines, r.Body)
}

// view is what rules know of a request. It implements rules.Env.
type view struct {
	req      *h1.Request // borrowed
	made     []byte      // values that the request does not have as they are asked for
	protocol string
	port     uint16 // that the client came to
	peer     netip.AddrPort
	where    *where // of the client
	balancer string
	region   string // of the node
	secure   bool   // the client speaks TLS
	start    loop.Time

	serverName string
}

// Bool implements rules.Env.
func (v *view) Bool(rules.Field) (is, ok bool) { return v.secure, true } // ssl is all there is

// overUDP reports whether the client came over UDP.
func (v *view) overUDP() bool { return v.protocol == protocolThree }

// Int implements rules.Env.
func (v *view) Int(field rules.Field) (n int64, ok bool) {
	switch field {
	case rules.FieldTCPSourcePort:
		return int64(v.peer.Port()), !v.overUDP()
	case rules.FieldTCPPort:
		return int64(v.port), !v.overUDP()
	case rules.FieldUDPSourcePort:
		return int64(v.peer.Port()), v.overUDP()
	case rules.FieldUDPPort:
		return int64(v.port), v.overUDP()
	case rules.FieldTimestamp:
		return v.start.Wall().Unix(), true
	case rules.FieldClientASN:
		asn := v.where.look().ASN
		return int64(asn), asn != 0
	case rules.FieldBodySize:
		switch req := v.req; {
		case req.Body == h1.BodyNone:
			return 0, true
		case req.Length >= 0:
			return req.Length, true
		}
	}
	return 0, false
}

// IP implements rules.Env.
func (v *view) IP(rules.Field) (a netip.Addr, ok bool) { return v.where.client, true } // ip.src is all there is

// String implements rules.Env.
func (v *view) String(field rules.Field) (b []byte, ok bool) {
	req := v.req
	switch field {
	case rules.FieldLoadBalancerName:
		return v.text(v.balancer), true
	case rules.FieldLoadBalancerRegion:
		return v.text(v.region), v.region != ""
	case rules.FieldClientCountry:
		code := v.where.look().Country
		return v.text(string(code)), code != ""
	case rules.FieldClientContinent:
		if c := v.where.country(); c != nil {
			return v.text(c.Continent), true
		}
		return nil, false
	case rules.FieldClientSubdivision:
		at := len(v.made)
		v.made = v.where.look().Subdivision.AppendTo(v.made)
		return v.made[at:], len(v.made) > at
	case rules.FieldClientRegion:
		at := len(v.made)
		v.made = v.where.databases.AppendName(v.made, v.where.client, geo.NameSubdivision)
		return v.made[at:], len(v.made) > at
	case rules.FieldServerName:
		return lower(v.text(v.serverName)), v.serverName != ""
	case rules.FieldHost:
		return lower(v.join(req.Host)), true
	case rules.FieldMethod:
		return upper(v.join(req.Method)), true
	case rules.FieldVersion:
		return v.text(v.protocol), true
	case rules.FieldFullURI:
		scheme := schemeHTTP
		if v.secure {
			scheme = schemeHTTPS
		}
		at := len(v.made)
		v.join(scheme, authority)
		lower(v.join(req.HostPort))
		if v.join(req.Path); req.HasQuery {
			v.join(question, req.Query)
		}
		return v.made[at:], true
	case rules.FieldURI:
		return v.uri(), true
	case rules.FieldPath:
		return req.Path, true
	case rules.FieldQuery:
		return req.Query, true
	case rules.FieldCookie:
		return v.header(headerCookie, cookieSeparator), true
	case rules.FieldReferer:
		return v.header(headerReferer, listSeparator), true
	case rules.FieldUserAgent:
		return v.header(headerUserAgent, listSeparator), true
	case rules.FieldForwardedFor:
		return v.header(headerForwardedFor, listSeparator), true
	}
	return nil, false
}

// Next implements rules.Env.
func (v *view) Next(field rules.Field, at int) (name, value []byte, next int) {
	req := v.req
	switch field {
	case rules.FieldHeaders:
		if at < len(req.Fields) {
			h := &req.Fields[at]
			return req.Name(h), req.Value(h), at + 1
		}
	case rules.FieldCookies:
		return nextCookie(req, at)
	case rules.FieldArgs:
		return nextArgument(req.Query, at)
	}
	return nil, nil, 0
}

// A place among cookies is a field's number and an offset in its value, which no
// head is long enough to exceed.
const cookieOffset = 1 << 21

func nextCookie(req *h1.Request, at int) (name, value []byte, next int) {
	i, offset := at/cookieOffset, at%cookieOffset
	for ; i < len(req.Fields); i, offset = i+1, 0 {
		h := &req.Fields[i]
		if h.Kind != h1.KindCookie {
			continue
		}
		field := req.Value(h)
		for offset < len(field) {
			pair, _, more := bytes.Cut(field[offset:], semicolon)
			offset += len(pair)
			if more {
				offset++
			}
			if name, value, ok := bytes.Cut(bytes.Trim(pair, " \t"), equals); ok {
				return name, value, i*cookieOffset + offset
			}
		}
	}
	return nil, nil, 0
}

// nextArgument returns the argument of a query at an offset, and where the next
// one begins.
func nextArgument(query []byte, at int) (name, value []byte, next int) {
	for at < len(query) {
		argument, _, _ := bytes.Cut(query[at:], ampersand)
		at += len(argument) + 1
		if len(argument) > 0 {
			name, value, _ = bytes.Cut(argument, equals)
			return name, value, at
		}
	}
	return nil, nil, 0
}

// text returns the bytes of a string.
func (v *view) text(s string) []byte {
	at := len(v.made)
	v.made = append(v.made, s...)
	return v.made[at:]
}

// join returns a copy of pieces, one behind the other.
func (v *view) join(pieces ...[]byte) []byte {
	at := len(v.made)
	for _, p := range pieces {
		v.made = append(v.made, p...)
	}
	return v.made[at:]
}

// uri returns path and query.
func (v *view) uri() []byte {
	req := v.req
	if !req.HasQuery {
		return req.Path
	}
	return v.join(req.Path, question, req.Query)
}

// header returns the value of a field, of several with what joins them; nothing
// where there is none.
func (v *view) header(name, separator []byte) (value []byte) {
	req := v.req
	found, at := 0, len(v.made)
	for i := range req.Fields {
		h := &req.Fields[i]
		if !bytes.EqualFold(req.Name(h), name) {
			continue
		}
		switch found++; found {
		case 1:
			value = req.Value(h)
		case 2: // each is copied once
			v.join(value, separator, req.Value(h))
		default:
			v.join(separator, req.Value(h))
		}
	}
	if found > 1 {
		return v.made[at:]
	}
	return value
}

var (
	authority, question, ampersand = []byte("://"), []byte("?"), []byte("&")
	cookieSeparator, listSeparator = []byte("; "), []byte(", ")

	headerCookie, headerReferer         = []byte("cookie"), []byte("referer")
	headerUserAgent, headerForwardedFor = []byte("user-agent"), []byte("x-forwarded-for")
)

// lower and upper change the case of ASCII letters in place.
func lower(b []byte) []byte {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + ('a' - 'A')
		}
	}
	return b
}

func upper(b []byte) []byte {
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - ('a' - 'A')
		}
	}
	return b
}
