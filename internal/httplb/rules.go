package httplb

import (
	"bytes"
	"net/netip"

	"fairlead/internal/h1"
	"fairlead/internal/plan"
	"fairlead/internal/rules"
)

// judgement is what the rules of a load balancer make of a request.
type judgement struct {
	req     *h1.Request // while rules are run
	scratch rules.Scratch
	made    []byte // values that the request does not have as they are asked for
	key     []byte // of the load balancer's variant

	applied []string // names of the rules that applied
}

// judge runs the rules of the load balancer. What they change makes x.lb another;
// or one of them has the answer.
func (x *exchange) judge(req *h1.Request) *plan.Response {
	j := &x.judgement
	j.req, j.key = req, j.key[:0]
	defer func() { j.req = nil }()
	for i := range x.lb.Rules {
		r := &x.lb.Rules[i]
		j.made = j.made[:0]
		if !r.Condition.Match((*facts)(x), &j.scratch) {
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

// respond answers with what a rule says.
func (x *exchange) respond(r *plan.Response) outcome {
	x.status = r.Status
	return x.answerSelf(r.Status, r.Reason, r.Lines, r.Body)
}

// facts is what rules know of an exchange's request.
type facts exchange

// Bool implements rules.Env.
func (f *facts) Bool(rules.Field) (v, ok bool) { return f.secure, true } // ssl is all there is

// Int implements rules.Env.
func (f *facts) Int(field rules.Field) (v int64, ok bool) {
	switch field {
	case rules.FieldTCPSourcePort:
		return int64(f.peer.Port()), true
	case rules.FieldTCPPort:
		return int64(f.ln.bound().Port()), true
	case rules.FieldTimestamp:
		return f.start.Wall().Unix(), true
	case rules.FieldBodySize:
		switch req := f.judgement.req; {
		case req.Body == h1.BodyNone:
			return 0, true
		case req.Length >= 0:
			return req.Length, true
		}
	}
	return 0, false
}

// IP implements rules.Env.
func (f *facts) IP(rules.Field) (v netip.Addr, ok bool) { return f.facts.Client, true } // ip.src is all there is

// String implements rules.Env.
func (f *facts) String(field rules.Field) (v []byte, ok bool) {
	req := f.judgement.req
	switch field {
	case rules.FieldLoadBalancerName:
		return f.text(f.lb.Name), true
	case rules.FieldLoadBalancerRegion:
		region := f.facts.Place.Region
		return f.text(string(region)), region != ""
	case rules.FieldServerName:
		if f.tls == nil || f.tls.ServerName == "" {
			return nil, false
		}
		return lower(f.text(f.tls.ServerName)), true
	case rules.FieldHost:
		return lower(f.join(req.Host)), true
	case rules.FieldMethod:
		return upper(f.join(req.Method)), true
	case rules.FieldVersion:
		return f.text(f.s.protocol()), true
	case rules.FieldFullURI:
		scheme := schemeHTTP
		if f.secure {
			scheme = schemeHTTPS
		}
		at := len(f.judgement.made)
		f.join(scheme, authority)
		lower(f.join(req.HostPort))
		if f.join(req.Path); req.HasQuery {
			f.join(question, req.Query)
		}
		return f.judgement.made[at:], true
	case rules.FieldURI:
		return f.uri(), true
	case rules.FieldPath:
		return req.Path, true
	case rules.FieldQuery:
		return req.Query, true
	case rules.FieldCookie:
		return f.header(headerCookie, cookieSeparator), true
	case rules.FieldReferer:
		return f.header(headerReferer, listSeparator), true
	case rules.FieldUserAgent:
		return f.header(headerUserAgent, listSeparator), true
	case rules.FieldForwardedFor:
		return f.header(headerForwardedFor, listSeparator), true
	}
	return nil, false // what is not known, as of geography
}

// Next implements rules.Env.
func (f *facts) Next(field rules.Field, at int) (name, value []byte, next int) {
	req := f.judgement.req
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
func (f *facts) text(s string) []byte {
	j := &f.judgement
	at := len(j.made)
	j.made = append(j.made, s...)
	return j.made[at:]
}

// join returns a copy of pieces, one behind the other.
func (f *facts) join(pieces ...[]byte) []byte {
	j := &f.judgement
	at := len(j.made)
	for _, p := range pieces {
		j.made = append(j.made, p...)
	}
	return j.made[at:]
}

// uri returns path and query.
func (f *facts) uri() []byte {
	req := f.judgement.req
	if !req.HasQuery {
		return req.Path
	}
	return f.join(req.Path, question, req.Query)
}

// header returns the value of a field, of several with what joins them; nothing
// where there is none.
func (f *facts) header(name, separator []byte) (value []byte) {
	req := f.judgement.req
	found := 0
	for i := range req.Fields {
		h := &req.Fields[i]
		if !bytes.EqualFold(req.Name(h), name) {
			continue
		}
		if found++; found == 1 {
			value = req.Value(h)
		} else {
			value = f.join(value, separator, req.Value(h)) // few send so
		}
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
