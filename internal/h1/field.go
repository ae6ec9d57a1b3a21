package h1

import "encoding/binary"

// Kind tells which of the known fields a line is.
type Kind uint8

// The kinds of field that framing, routing and forwarding have to recognise.
const (
	KindOther Kind = iota
	KindConnection
	KindContentLength
	KindContentType
	KindCookie
	KindDate
	KindExpect
	KindForwarded
	KindHost
	KindKeepAlive
	KindProxyAuth // Proxy-Authenticate, Proxy-Authorization, Proxy-Authentication-Info
	KindProxyConnection
	KindServer
	KindSetCookie
	KindTE
	KindTrailer
	KindTransferEncoding
	KindUpgrade
	KindVia
	KindXForwardedFor
	KindXForwardedHost
	KindXForwardedProto
	KindClientIP // X-Real-IP, CF-Connecting-IP, True-Client-IP: one claim in three spellings
)

// Field is one field line of a head.
type Field struct {
	start, nameEnd, valueStart, valueEnd, end uint32 // offsets into Head

	Kind Kind

	// Hop says that the line is for this connection only and must not be
	// forwarded: Connection and each field that any Connection line lists;
	// Keep-Alive, Proxy-Connection, TE, Transfer-Encoding and Upgrade,
	// listed or not (RFC 9110 section 7.6.1).
	//
	// Proxy-Authenticate and its kin are not in that section's list any
	// more, but they concern "only the next" proxy (section 11.7), and here
	// none follows: passed on, they would hand credentials meant for a
	// proxy to an application. So they are Hop.
	//
	// Trailer is not: it describes the message, and trailers are forwarded.
	//
	// Expect is Hop where it asks for nothing: in HTTP/1.0 (RFC 9110
	// section 10.1.1) and without a body. So is the Content-Length of a
	// response that cannot have one (1xx, 204).
	Hop bool
}

// known lists the field names that have a Kind.
var known = []struct {
	name string
	kind Kind
}{
	{"te", KindTE},
	{"via", KindVia},
	{"date", KindDate},
	{"host", KindHost},
	{"cookie", KindCookie},
	{"expect", KindExpect},
	{"server", KindServer},
	{"trailer", KindTrailer},
	{"upgrade", KindUpgrade},
	{"forwarded", KindForwarded},
	{"x-real-ip", KindClientIP},
	{"connection", KindConnection},
	{"keep-alive", KindKeepAlive},
	{"set-cookie", KindSetCookie},
	{"content-type", KindContentType},
	{"content-length", KindContentLength},
	{"true-client-ip", KindClientIP},
	{"x-forwarded-for", KindXForwardedFor},
	{"cf-connecting-ip", KindClientIP},
	{"proxy-connection", KindProxyConnection},
	{"x-forwarded-host", KindXForwardedHost},
	{"transfer-encoding", KindTransferEncoding},
	{"x-forwarded-proto", KindXForwardedProto},
	{"proxy-authenticate", KindProxyAuth},
	{"proxy-authorization", KindProxyAuth},
	{"proxy-authentication-info", KindProxyAuth},
}

// kindEntry is a known name with its first eight bytes as one word, so that
// nearly every name is told apart from the few of its length by one comparison.
type kindEntry struct {
	word uint64
	name string
	kind Kind
}

// maxKnown is the length of the longest known name.
const maxKnown = 25

// byLength holds the known names of each length.
var byLength = func() (t [maxKnown + 1][]kindEntry) {
	for _, k := range known {
		t[len(k.name)] = append(t[len(k.name)], kindEntry{firstWord([]byte(k.name)), k.name, k.kind})
	}
	return t
}()

// firstWord returns up to eight bytes of a name as a word, letters in lower case.
// Other bytes may be changed too; the full comparison settles that.
func firstWord(name []byte) uint64 {
	if len(name) >= 8 {
		return binary.LittleEndian.Uint64(name) | ones*0x20
	}
	w := uint64(0)
	for i, c := range name {
		w |= uint64(c) << (8 * i)
	}
	return w | ones*0x20
}

// kindOf returns the kind of the field called name.
func kindOf(name []byte) Kind {
	if len(name) > maxKnown {
		return KindOther
	}
	entries := byLength[len(name)]
	if len(entries) == 0 {
		return KindOther
	}
	w := firstWord(name)
	for i := range entries {
		if e := &entries[i]; e.word == w && foldEqual(name, e.name) {
			return e.kind
		}
	}
	return KindOther
}

// hop says which kinds are hop-by-hop wherever they stand; see Field.Hop.
var hop = [256]bool{
	KindConnection:       true,
	KindKeepAlive:        true,
	KindProxyAuth:        true,
	KindProxyConnection:  true,
	KindTE:               true,
	KindTransferEncoding: true,
	KindUpgrade:          true,
}

// vital says which kinds stay although Connection lists them. A client must not
// be able to take the length or the host off a message it has us forward, nor to
// erase what a trusted proxy said about where a request came from.
var vital = [256]bool{
	KindClientIP:        true,
	KindContentLength:   true,
	KindExpect:          true,
	KindForwarded:       true,
	KindHost:            true,
	KindXForwardedFor:   true,
	KindXForwardedHost:  true,
	KindXForwardedProto: true,
}

// parseField reads the field line b[start:end], end being the place of its CRLF.
// lineEnd has found no control byte in it.
func parseField(b []byte, start, end int, f *Field) *Error {
	i := start
	for class[b[i]]&isToken != 0 { // stops at the CR
		i++
	}
	if b[i] != ':' || i == start {
		return nameError(b[start:end], i-start)
	}
	v, e := i+1, end
	for v < e && (b[v] == ' ' || b[v] == '\t') {
		v++
	}
	for e > v && (b[e-1] == ' ' || b[e-1] == '\t') {
		e--
	}
	k := kindOf(b[start:i])
	f.start, f.nameEnd = uint32(start), uint32(i)
	f.valueStart, f.valueEnd = uint32(v), uint32(e)
	f.end = uint32(end + 2)
	f.Kind, f.Hop = k, hop[k]
	return nil
}

// nameError says what is wrong with a field line whose name, or what should be
// one, stops at line[i].
func nameError(line []byte, i int) *Error {
	switch {
	case i == len(line):
		return ErrNoColon
	case line[i] == ':':
		return ErrEmptyName
	case line[i] != ' ' && line[i] != '\t':
		return ErrName
	case i == 0:
		return ErrFold
	}
	for ; i < len(line) && (line[i] == ' ' || line[i] == '\t'); i++ {
	}
	if i < len(line) && line[i] == ':' {
		return ErrSpaceInName
	}
	return ErrName
}
