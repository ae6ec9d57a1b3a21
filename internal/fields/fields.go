// Package fields reads the field sections of HTTP/2 and HTTP/3, whose rules are
// the same: which pseudo-header fields a message has, which fields it may not
// have, and how its head is written down in lines of HTTP/1.1.
//
// A [Block] takes the fields of one section, in their order, and judges them. How
// they were packed (HPACK, QPACK) and how a peer is told of what is malformed is
// left to the packages of the protocols.
package fields

import (
	"bytes"
	"unsafe"

	"fairlead/internal/h1"
)

// Head is the head of a request or of an answer. Its bytes belong to the stream
// and are valid as long as that; those of an answer until the next ReadHead.
type Head struct {
	// Of a request. For CONNECT there is neither Scheme nor Path, unless
	// Protocol says that it is an extended one. Authority is taken from a host
	// field where there is no :authority; a host field is never in Lines.
	Method, Scheme, Authority, Path, Protocol []byte

	Status int // of an answer

	// Lines are the other fields as lines of HTTP/1.1, each with its CRLF, in
	// the order in which they came, with names in lower case. Cookies are one
	// line, the last.
	Lines []byte

	// ContentLength is what the field of that name says, or -1.
	ContentLength int64

	// End says that neither body nor trailers follow.
	End bool

	// TooLarge says that the head was over a bound. It is then incomplete.
	TooLarge bool

	// Announced says that there is a trailer field.
	Announced bool
}

// pseudo numbers the pseudo-header fields.
type pseudo uint8

const (
	pseudoMethod pseudo = iota
	pseudoScheme
	pseudoAuthority
	pseudoPath
	pseudoProtocol
	pseudoStatus
	pseudos
)

// Section says what a section is of.
type Section uint8

// The sections.
const (
	Request Section = iota
	Response
	Trailer
)

// Limits bound a section.
type Limits struct {
	// Bytes is as RFC 9113 section 6.5.2 counts: name, value and 32 for each
	// field. Count is the number of fields.
	Bytes, Count int
	// ExtendedConnect lets requests have a :protocol.
	ExtendedConnect bool
}

// Block collects the fields of one section and judges them.
type Block struct {
	Head

	of               Section
	extended         bool // :protocol may be used
	maxBytes         int
	maxCount         int
	size, count      int
	buf              []byte // values of pseudo fields, then lines
	start, end       [pseudos]int
	have             [pseudos]bool
	linesAt          int
	regular          bool // a regular field was seen
	host             []byte
	hasHost, cookied bool
	cookies          []byte
	bad              string // what is malformed
}

// Reset prepares f for a section, keeping its buffers.
func (f *Block) Reset(of Section, l Limits) {
	*f = Block{of: of, extended: l.ExtendedConnect, maxBytes: l.Bytes, maxCount: l.Count,
		buf: f.buf[:0], host: f.host[:0], cookies: f.cookies[:0]}
	f.ContentLength = -1
}

// Keep is the largest buffer for heads that is kept.
const Keep = 16 << 10

// Trim lets go of buffers that an unusual head has made large.
func (f *Block) Trim() {
	if cap(f.buf)+cap(f.host)+cap(f.cookies) > Keep {
		f.buf, f.host, f.cookies = nil, nil, nil
	}
}

// Add takes the next field. It keeps neither string.
func (f *Block) Add(name, value string) {
	if f.bad != "" || f.TooLarge {
		return
	}
	f.size += len(name) + len(value) + perField
	f.count++
	if f.size > f.maxBytes || f.count > f.maxCount {
		f.TooLarge = true
		return
	}
	if !validValue(value) {
		f.bad = "malformed field value"
		return
	}
	if len(name) > 0 && name[0] == ':' {
		f.addPseudo(name, value)
		return
	}
	if !f.regular {
		f.regular, f.linesAt = true, len(f.buf)
	}
	if !validName(name) {
		f.bad = "malformed field name"
		return
	}
	switch name {
	case "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
		f.bad = "field of a connection"
		return
	case "te":
		if value != "trailers" {
			f.bad = "te that is not trailers"
			return
		}
	case "content-length":
		f.contentLength(value)
		return
	case "host":
		f.addHost(value)
		return
	case "trailer":
		f.Announced = true
	case "cookie":
		if f.of == Request { // RFC 9113 section 8.2.3
			if len(f.cookies) > 0 && value != "" { // no value ends with a space
				f.cookies = append(f.cookies, "; "...)
			}
			f.cookied = true
			f.cookies = append(f.cookies, value...)
			return
		}
	}
	if f.of == Trailer && !h1.ValidTrailer(Bytes(name)) {
		return // as from a chunked body
	}
	f.line(name, value)
}

func (f *Block) line(name, value string) { f.buf = h1.AppendField(f.buf, name, value) }

func (f *Block) addPseudo(name, value string) {
	var p pseudo
	switch name {
	case ":method":
		p = pseudoMethod
	case ":scheme":
		p = pseudoScheme
	case ":authority":
		p = pseudoAuthority
	case ":path":
		p = pseudoPath
	case ":protocol":
		p = pseudoProtocol
	case ":status":
		p = pseudoStatus
	default:
		f.bad = "unknown pseudo-header field"
		return
	}
	switch {
	case f.of == Trailer:
		f.bad = "pseudo-header field in trailers"
	case f.regular:
		f.bad = "pseudo-header field behind regular ones"
	case f.have[p]:
		f.bad = "pseudo-header field twice"
	case (p == pseudoStatus) != (f.of == Response):
		f.bad = "pseudo-header field of the other direction"
	case p == pseudoProtocol && !f.extended:
		f.bad = ":protocol that was not offered"
	}
	f.have[p] = true
	f.start[p] = len(f.buf)
	f.buf = append(f.buf, value...)
	f.end[p] = len(f.buf)
}

func (f *Block) addHost(value string) {
	switch {
	case f.of != Request:
		if f.of == Response {
			f.line("host", value)
		}
		return
	case f.hasHost:
		f.bad = "host twice"
		return
	}
	f.hasHost = true
	f.host = append(f.host, value...)
}

func (f *Block) contentLength(value string) {
	if f.of == Trailer {
		return
	}
	n := int64(0)
	for i := range len(value) {
		d := value[i] - '0'
		if d > 9 || len(value) > 18 {
			f.bad = "malformed content-length"
			return
		}
		n = n*10 + int64(d)
	}
	if len(value) == 0 || f.ContentLength >= 0 {
		f.bad = "malformed content-length"
		return
	}
	f.ContentLength = n
	f.line("content-length", value)
}

func (f *Block) value(p pseudo) []byte {
	if !f.have[p] {
		return nil
	}
	return f.buf[f.start[p]:f.end[p]:f.end[p]]
}

// Finish judges the whole section and fills in the Head. It returns what is
// malformed, or "".
func (f *Block) Finish(end bool) string {
	f.End = end
	if f.bad != "" {
		return f.bad
	}
	if !f.regular {
		f.linesAt = len(f.buf)
	}
	if f.cookied {
		f.line("cookie", String(f.cookies))
	}
	f.Lines = f.buf[f.linesAt:len(f.buf):len(f.buf)]
	f.Method, f.Scheme, f.Authority = f.value(pseudoMethod), f.value(pseudoScheme), f.value(pseudoAuthority)
	f.Path, f.Protocol = f.value(pseudoPath), f.value(pseudoProtocol)
	switch {
	case f.TooLarge || f.of == Trailer:
		// What is missing may have been left out.
	case f.of == Response:
		f.bad = f.response()
	default:
		f.bad = f.request()
	}
	return f.bad
}

func (f *Block) response() string {
	v := f.value(pseudoStatus)
	if len(v) != 3 || v[0] == '0' {
		return "malformed :status"
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return "malformed :status"
		}
		f.Status = f.Status*10 + int(c-'0')
	}
	switch {
	case f.Status == 101: // RFC 9113 section 8.6
		return "101, which only HTTP/1.1 has"
	case f.Status < 200 && f.End:
		return "interim answer that ends the stream"
	}
	return ""
}

func (f *Block) request() string {
	if !validToken(f.Method) {
		return "malformed or missing :method"
	}
	connect := string(f.Method) == "CONNECT"
	plain := connect && f.Protocol == nil
	switch {
	case f.Protocol != nil && !connect:
		return ":protocol without CONNECT"
	case f.Protocol != nil && !validToken(f.Protocol):
		return "malformed :protocol"
	case plain && (f.have[pseudoScheme] || f.have[pseudoPath]):
		return "CONNECT with :scheme or :path"
	case !plain && !validScheme(f.Scheme):
		return "malformed or missing :scheme"
	case !plain && !validPath(f.Path, f.Method):
		return "malformed or missing :path"
	}
	// RFC 9113 section 8.3.1: two names for the host must not differ, and
	// there must be one.
	switch {
	case f.Authority == nil && f.hasHost && !plain:
		f.Authority = f.host
	case f.hasHost && !bytes.EqualFold(f.Authority, f.host):
		return "host is not :authority"
	}
	if !h1.ValidHost(f.Authority) {
		return "malformed or missing :authority"
	}
	return ""
}

// Classes of bytes.
const (
	inToken = 1 << iota // RFC 9110 section 5.6.2
	inName              // the same without upper case
	inValue             // HTAB, SP, visible ASCII, obs-text
	inPath              // visible ASCII but '#'
)

var class = func() (t [256]uint8) {
	for c := range t {
		if c == '\t' || c >= ' ' && c != 0x7f {
			t[c] |= inValue
		}
		if c > ' ' && c < 0x7f && c != '#' {
			t[c] |= inPath
		}
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' {
			t[c] |= inToken | inName
		}
		if c >= 'A' && c <= 'Z' {
			t[c] |= inToken
		}
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] |= inToken | inName
	}
	return t
}()

func validName(s string) bool {
	for i := range len(s) {
		if class[s[i]]&inName == 0 {
			return false
		}
	}
	return len(s) > 0
}

// validValue reports whether s is a field value: no control bytes, and no white
// space around it (RFC 9113 section 8.2.1).
func validValue(s string) bool {
	for i := range len(s) {
		if class[s[i]]&inValue == 0 {
			return false
		}
	}
	n := len(s)
	return n == 0 || s[0] != ' ' && s[0] != '\t' && s[n-1] != ' ' && s[n-1] != '\t'
}

func validToken(b []byte) bool {
	for _, c := range b {
		if class[c]&inToken == 0 {
			return false
		}
	}
	return len(b) > 0
}

func validScheme(b []byte) bool {
	for i, c := range b {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (i == 0 || (c < '0' || c > '9') && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return len(b) > 0
}

func validPath(b, method []byte) bool {
	for _, c := range b {
		if class[c]&inPath == 0 {
			return false
		}
	}
	return len(b) > 0 && (b[0] == '/' || string(b) == "*" && string(method) == "OPTIONS")
}

// perField is what a field counts beside its name and value.
const perField = 32

// Cut takes the first field line off lines.
func Cut(lines []byte) (name, value, rest []byte) {
	line := lines
	if i := bytes.IndexByte(lines, '\n'); i >= 0 {
		line, rest = lines[:i], lines[i+1:]
	}
	i := bytes.IndexByte(line, ':')
	if i < 0 {
		return nil, nil, rest
	}
	return line[:i], bytes.Trim(line[i+1:], " \t\r"), rest
}

// AppendLower appends b in lower case.
func AppendLower(dst, b []byte) []byte {
	for _, c := range b {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// Sensitive says which fields no one on the way may put into a table, where
// others could guess at them (RFC 7541 section 7.1.3).
func Sensitive(name string) bool {
	switch name {
	case "authorization", "proxy-authorization", "cookie", "set-cookie":
		return true
	}
	return false
}

// String lends bytes as a string.
func String(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Bytes lends a string as bytes.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
