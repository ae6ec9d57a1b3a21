package httplb

import (
	"bytes"
	"net/netip"
	"slices"

	"fairlead/internal/h1"
	"fairlead/internal/model"
	"fairlead/internal/plan"
)

// mask is a set of field kinds.
type mask uint64

func kinds(list ...h1.Kind) (m mask) {
	for _, k := range list {
		m |= 1 << k
	}
	return m
}

func (m mask) has(k h1.Kind) bool { return m>>k&1 != 0 }

// What is not copied to endpoints: Host and the framing are written anew, and what tells about
// the client is replaced by what we saw, except that a trusted proxy is
// believed.
var (
	fromStrangers = kinds(h1.KindHost, h1.KindContentLength, h1.KindXForwardedFor, h1.KindXForwardedProto, h1.KindXForwardedHost, h1.KindForwarded, h1.KindClientIP)
	fromTrusted   = kinds(h1.KindHost, h1.KindContentLength, h1.KindXForwardedFor)

	// answers: Content-Length is written anew, so that one form of it is
	// passed on.
	answers = kinds(h1.KindContentLength)
)

// requestHead writes the head that the endpoint is sent to x.out. The endpoint
// may have a host of its own.
func (x *exchange) requestHead(req *h1.Request, e *plan.Endpoint) {
	out := append(x.out[:0], req.Method...)
	out = append(out, ' ')
	out = append(out, req.Path...)
	if req.HasQuery {
		out = append(out, '?')
		out = append(out, req.Query...)
	}
	out = append(out, " HTTP/1.1\r\n"...)
	x.host = append(x.host[:0], req.HostPort...)
	x.trailers = req.TETrailers
	x.targetAt = len(out)
	out = x.appendTarget(out, e)
	x.targetEnd = len(out)

	x.disown(&req.Message)
	drop := fromStrangers
	if x.trusted {
		drop = fromTrusted
	}
	out = appendFields(out, &req.Message, drop)
	switch {
	case req.Body == h1.BodyChunked:
		out = append(out, "Transfer-Encoding: chunked\r\n"...)
	case req.Length >= 0:
		out = appendLength(out, req.Length)
	}
	if x.upgrading {
		x.protocol = append(x.protocol[:0], req.Upgrade...)
		out = append(out, "Connection: upgrade\r\nUpgrade: "...)
		out = append(out, req.Upgrade...)
		out = append(out, h1.CRLF...)
	}
	out = x.forwarded(out, req)
	x.out = append(out, h1.CRLF...)
}

// appendTarget appends the lines that depend on the endpoint.
func (x *exchange) appendTarget(out []byte, e *plan.Endpoint) []byte {
	out = append(out, "Host: "...)
	if e.Host != "" {
		out = append(out, e.Host...)
	} else {
		out = append(out, x.host...)
	}
	out = append(out, h1.CRLF...)
	if x.trailers && e.Pool.Protocol != model.PoolHTTP && e.Pool.Protocol != model.PoolHTTPS {
		out = append(out, "TE: trailers\r\n"...) // gRPC asks for it to know that proxies speak HTTP/2
	}
	return out
}

func appendLength(out []byte, n int64) []byte {
	out = append(out, "Content-Length: "...)
	out = h1.AppendUint(out, uint64(n))
	return append(out, h1.CRLF...)
}

// switchable reports whether a change to a protocol may be passed on. One to
// another version of HTTP, or to TLS, would carry requests past everything that
// is looked at here; a list would leave the choice to the endpoint.
func switchable(protocol []byte) bool {
	if bytes.ContainsAny(protocol, ", \t") {
		return false
	}
	for _, p := range [...]string{"h2", "http", "tls"} {
		if len(protocol) >= len(p) && bytes.EqualFold(protocol[:len(p)], []byte(p)) {
			return false
		}
	}
	return true
}

// appendFields appends the field lines that may be forwarded, in runs.
func appendFields(out []byte, m *h1.Message, drop mask) []byte {
	first := -1
	for i := range m.Fields {
		f := &m.Fields[i]
		if !f.Hop && !drop.has(f.Kind) {
			if first < 0 {
				first = i
			}
			continue
		}
		if first >= 0 {
			out = append(out, m.Lines(&m.Fields[first], &m.Fields[i-1])...)
			first = -1
		}
	}
	if first >= 0 {
		out = append(out, m.Lines(&m.Fields[first], &m.Fields[len(m.Fields)-1])...)
	}
	return out
}

// forwarded appends what tells the endpoint about the client.
func (x *exchange) forwarded(out []byte, req *h1.Request) []byte {
	proto := "http"
	if x.secure {
		proto = "https"
	}
	out = append(out, "X-Forwarded-For: "...)
	told := mask(0)
	if x.trusted {
		for i := range req.Fields {
			f := &req.Fields[i]
			told |= kinds(f.Kind)
			if f.Kind == h1.KindXForwardedFor && !f.Hop && len(req.Value(f)) > 0 {
				out = append(out, req.Value(f)...)
				out = append(out, ", "...)
			}
		}
	}
	out = appendAddr(out, x.peer.Addr())
	out = append(out, h1.CRLF...)
	if !told.has(h1.KindXForwardedProto) {
		out = h1.AppendField(out, "X-Forwarded-Proto", proto)
	}
	if !told.has(h1.KindXForwardedHost) {
		out = append(out, "X-Forwarded-Host: "...)
		out = append(out, req.HostPort...)
		out = append(out, h1.CRLF...)
	}
	if !told.has(h1.KindForwarded) { // RFC 7239
		out = append(out, "Forwarded: for="...)
		if x.peer.Addr().Is4() {
			out = x.peer.Addr().AppendTo(out)
		} else {
			out = append(out, `"[`...)
			out = appendAddr(out, x.peer.Addr())
			out = append(out, `]"`...)
		}
		out = append(out, `;host="`...)
		out = append(out, req.HostPort...) // ValidHost knows no quotes
		out = append(out, `";proto=`...)
		out = append(out, proto...)
		out = append(out, h1.CRLF...)
	}
	return x.identified(out)
}

// appendAddr appends an address without its zone, which means nothing to
// anybody else.
func appendAddr(out []byte, a netip.Addr) []byte { return a.WithZone("").AppendTo(out) }

// retarget changes the lines in x.out that depend on the endpoint.
func (x *exchange) retarget(e *plan.Endpoint) {
	want := x.appendTarget(nil, e) // a retry, for once, may allocate
	if bytes.Equal(x.out[x.targetAt:x.targetEnd], want) {
		return
	}
	x.out = slices.Replace(x.out, x.targetAt, x.targetEnd, want...)
	x.bodyAt += len(want) - (x.targetEnd - x.targetAt)
	x.targetEnd = x.targetAt + len(want)
}

// clientAddr returns whom the request is from: the peer, or, where the peer is
// a trusted proxy, the last address in X-Forwarded-For that is not one. The
// list is read from its end, since everything before the last untrusted hop
// could have been written by anyone. An entry that is not an address ends the
// reading: what stands before it cannot be trusted either.
func clientAddr(peer netip.Addr, req *h1.Request, trusted []netip.Prefix) netip.Addr {
	client := peer
	for i := len(req.Fields) - 1; i >= 0; i-- {
		f := &req.Fields[i]
		if f.Kind != h1.KindXForwardedFor || f.Hop {
			continue
		}
		rest := req.Value(f)
		for len(rest) > 0 {
			entry := rest
			if c := bytes.LastIndexByte(rest, ','); c >= 0 {
				entry, rest = rest[c+1:], rest[:c]
			} else {
				rest = nil
			}
			a, ok := forwardedAddr(bytes.TrimSpace(entry))
			if !ok {
				return client
			}
			client = a
			if !isTrusted(a, trusted) {
				return client
			}
		}
	}
	return client
}

// forwardedAddr reads an address as proxies write it: bare, or with a port.
func forwardedAddr(b []byte) (netip.Addr, bool) {
	if len(b) == 0 || len(b) > 64 {
		return netip.Addr{}, false
	}
	s := string(b)
	if a, err := netip.ParseAddr(s); err == nil {
		return a.Unmap().WithZone(""), true
	}
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone(""), true
	}
	if n := len(s); s[0] == '[' && s[n-1] == ']' {
		if a, err := netip.ParseAddr(s[1 : n-1]); err == nil {
			return a.Unmap().WithZone(""), true
		}
	}
	return netip.Addr{}, false
}

func isTrusted(a netip.Addr, trusted []netip.Prefix) bool {
	a = a.WithZone("")
	for _, p := range trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// addrOnly is an address whose port is not known.
func addrOnly(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, 0) }
