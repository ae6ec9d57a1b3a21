package telemetry

import (
	"crypto/tls"
	"net/netip"
	"strconv"
	"time"
	"unicode/utf8"
)

// AccessRecord is what the access log says about one request. The log keeps no
// reference to it once Log returned. docs/access-log.md describes the line
// that is written.
type AccessRecord struct {
	// Time is when the request began: its first byte, or for the first
	// request of an HTTP/2 stream its HEADERS frame.
	Time time.Time
	// Names of what served the request. Those that were not reached are empty.
	Listener, LoadBalancer, Pool, Endpoint string
	// Reason is why the pool was chosen, a constant text of package steer.
	Reason string
	// Rules are the names of the rules that applied, in their order.
	Rules []string
	// Client is who the request is from: the peer, or what a trusted proxy
	// says, then with port 0. Peer is the other end of the connection.
	Client, Peer netip.AddrPort
	// Protocol is HTTP/1.1, HTTP/1.0 or HTTP/2.
	Protocol string
	// Method, Host and Path (with the query) are as the client sent them. Each
	// is cut at MaxField bytes.
	Method, Host, Path []byte
	// Status is what the client was sent; 0 when it went away before.
	Status int
	// Error is the constant reason text of an error that Fairlead made, or of
	// a client that went away; empty otherwise. ErrorDetail is the cause in
	// full.
	Error, ErrorDetail string
	// BytesIn is what the client sent and BytesOut what it was sent, heads
	// included, TLS and HTTP/2 framing not.
	BytesIn, BytesOut int64
	// Head runs from Time to the end of the request's head.
	Head time.Duration
	// Connect is what was spent on connecting to endpoints, TLS and failed
	// attempts included; 0 when a kept connection was reused at once.
	Connect time.Duration
	// FirstByte runs from the end of the request's head to the first byte of
	// the final answer's head, Connect included; 0 when none came.
	FirstByte time.Duration
	// Total runs from Time until the last byte was given to the kernel.
	Total time.Duration
	// TLSVersion and TLSCipher are those of crypto/tls; 0 without TLS.
	TLSVersion, TLSCipher uint16
	// ServerName is the name that the client asked for in TLS.
	ServerName string
	// Certified is whether the client has shown a valid certificate, and
	// ClientSubject its subject.
	Certified     bool
	ClientSubject string
	// Reused is whether the answer came over a kept connection.
	Reused bool
	// Retries counts the attempts after the first.
	Retries int
	// Upgraded is whether the connection became a tunnel after status 101.
	Upgraded bool
}

// MaxField bounds each text of a line that clients or endpoints control, in
// bytes before escaping.
const MaxField = 2048

// appendRecord appends the line of r.
func appendRecord(b []byte, r *AccessRecord) []byte {
	e := begin(b, r.Time)
	e.text("listener", r.Listener)
	e.text("load_balancer", r.LoadBalancer)
	e.text("pool", r.Pool)
	e.text("endpoint", r.Endpoint)
	e.text("reason", r.Reason)
	if len(r.Rules) > 0 {
		e.texts("rules", r.Rules)
	}
	e.address("client", r.Client)
	e.address("peer", r.Peer)
	e.text("protocol", r.Protocol)
	e.bytes("method", r.Method)
	e.bytes("host", r.Host)
	e.bytes("path", r.Path)
	e.integer("status", int64(r.Status))
	e.integer("bytes_in", r.BytesIn)
	e.integer("bytes_out", r.BytesOut)
	e.millis("head_ms", r.Head)
	e.millis("connect_ms", r.Connect)
	e.millis("first_byte_ms", r.FirstByte)
	e.millis("total_ms", r.Total)
	e.boolean("reused", r.Reused)
	e.integer("retries", int64(r.Retries))
	if r.Error != "" {
		e.text("error", r.Error)
		e.text("error_detail", r.ErrorDetail)
	}
	if r.TLSVersion != 0 {
		e.text("tls_version", tls.VersionName(r.TLSVersion))
		e.text("tls_cipher", cipherNames[r.TLSCipher])
		e.text("server_name", r.ServerName)
	}
	if r.Certified {
		e.text("client_subject", r.ClientSubject)
	}
	if r.Upgraded {
		e.boolean("upgraded", true)
	}
	if e.cut {
		e.boolean("truncated", true)
	}
	return append(e.b, "}\n"...)
}

// cipherNames are the suites that a handshake can end with. The library's own
// function allocates its whole list for each call.
var cipherNames = func() map[uint16]string {
	names := make(map[uint16]string)
	for _, s := range tls.CipherSuites() {
		names[s.ID] = s.Name
	}
	return names
}()

// line builds one JSON object. Keys are constants that need no escaping.
type line struct {
	b   []byte
	cut bool // a text was longer than MaxField
}

// begin begins a line, with its time.
func begin(b []byte, t time.Time) line {
	b = append(b, `{"time":"`...)
	b = t.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
	return line{b: append(b, '"')}
}

func (l *line) key(k string) {
	l.b = append(l.b, `,"`...)
	l.b = append(l.b, k...)
	l.b = append(l.b, `":`...)
}

func (l *line) text(k, v string) {
	l.key(k)
	if len(v) > MaxField {
		v, l.cut = v[:runeStart(v, MaxField)], true
	}
	l.b = appendQuoted(l.b, v)
}

// texts appends a list of names, which need not be cut.
func (l *line) texts(k string, list []string) {
	l.key(k)
	l.b = append(l.b, '[')
	for i, v := range list {
		if i > 0 {
			l.b = append(l.b, ',')
		}
		l.b = appendQuoted(l.b, v)
	}
	l.b = append(l.b, ']')
}

func (l *line) bytes(k string, v []byte) {
	l.key(k)
	if len(v) > MaxField {
		v, l.cut = v[:runeStart(v, MaxField)], true
	}
	l.b = appendQuoted(l.b, v)
}

func (l *line) integer(k string, v int64) {
	l.key(k)
	l.b = strconv.AppendInt(l.b, v, 10)
}

func (l *line) boolean(k string, v bool) {
	l.key(k)
	l.b = strconv.AppendBool(l.b, v)
}

// millis appends d in milliseconds with three decimals.
func (l *line) millis(k string, d time.Duration) {
	l.key(k)
	us := max(d.Microseconds(), 0)
	l.b = strconv.AppendInt(l.b, us/1000, 10)
	us %= 1000
	l.b = append(l.b, '.', byte('0'+us/100), byte('0'+us/10%10), byte('0'+us%10))
}

// address appends an address, with its port unless that is 0.
func (l *line) address(k string, a netip.AddrPort) {
	l.key(k)
	l.b = append(l.b, '"')
	switch {
	case !a.IsValid():
	case a.Port() == 0:
		l.b = a.Addr().Unmap().AppendTo(l.b)
	default:
		l.b = netip.AddrPortFrom(a.Addr().Unmap(), a.Port()).AppendTo(l.b)
	}
	l.b = append(l.b, '"')
}

// runeStart returns the last position up to n where a character of s begins.
func runeStart[T string | []byte](s T, n int) int {
	for i := n; i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			return i
		}
	}
	return n // not UTF-8: cut anywhere
}

const hex = "0123456789abcdef"

// appendQuoted appends s as a JSON string. Everything that does not print is
// escaped, not only what JSON asks for: control characters (also those of
// ISO 6429 above 0x7f, which terminals obey), line separators, and marks that
// change the direction of text. Each byte that is not UTF-8 becomes U+FFFD.
func appendQuoted[T string | []byte](b []byte, s T) []byte {
	b = append(b, '"')
	done := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c < 0x7f && c != '"' && c != '\\' {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			b = append(b, s[done:i]...)
			b = appendEscape(b, c)
			i++
			done = i
			continue
		}
		r, n := decodeRune(s[i:min(i+utf8.UTFMax, len(s))])
		if (r != utf8.RuneError || n != 1) && strconv.IsPrint(r) {
			i += n
			continue
		}
		b = append(b, s[done:i]...)
		b = appendUnicode(b, r)
		i += n
		done = i
	}
	b = append(b, s[done:]...)
	return append(b, '"')
}

func decodeRune[T string | []byte](s T) (rune, int) {
	var buf [utf8.UTFMax]byte
	return utf8.DecodeRune(buf[:copy(buf[:], s)])
}

// appendEscape appends the escape of an ASCII character.
func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// appendUnicode appends the escape of a character above ASCII, which is a
// surrogate pair beyond 16 bits.
func appendUnicode(b []byte, r rune) []byte {
	if r >= 0x10000 {
		r -= 0x10000
		b = appendUnicode(b, 0xd800+r>>10)
		r = 0xdc00 + r&0x3ff
	}
	return append(b, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}
