// Package h1 reads and writes HTTP/1.1 message heads and chunked bodies.
//
// It is strict: a message has one reading or it is an error. Whatever two hops
// could take differently (bare CR or LF, obsolete folding, space before a
// colon, repeated or signed lengths, a length beside a transfer coding, two
// hosts) is refused, because a proxy that guesses lets a request hide inside
// another. RFC 9112 and RFC 9110 are cited where a rule needs its reason.
//
// [Request] and [Response] parse a head from the front of a byte slice. Parsing
// is incremental: with too few bytes it asks for more, and goes on where it
// stopped when it is called again with a longer slice. What it returns borrows
// from the slice given last. [Chunked] decodes a body in place.
//
// The package opens no sockets and starts no goroutines. A value belongs to one
// connection and is reused from message to message: in steady state nothing
// allocates. Values are not safe for concurrent use.
//
// Package h1test holds the tables of good and malformed messages, so that a
// proxy can be sent the same bytes over a socket.
package h1

// Limits bounds a message head, and the trailer section of a chunked body. Zero
// means the default.
type Limits struct {
	// HeadBytes bounds the whole head: request or status line, field lines
	// and blank line. Default 65536, at most 1 GiB.
	HeadBytes int
	// Fields bounds the number of field lines. Default 128.
	Fields int
}

const (
	defaultHeadBytes = 64 << 10
	defaultFields    = 128
	maxHeadBytes     = 1 << 30 // offsets in a head are 32 bits wide

	// maxMethod is well over the longest registered method
	// (UPDATEREDIRECTREF, 17 bytes).
	maxMethod = 32
	// maxOptions bounds the options of all Connection lines together. Each
	// is compared with each field name, so that without a bound one head
	// could cost millions of comparisons.
	maxOptions = 32
	// maxLengthDigits keeps any Content-Length inside an int64.
	maxLengthDigits = 18
	// maxEmptyLines is how many empty lines may stand before a request line.
	// RFC 9112 section 2.2 wants at least one ignored, for old clients that
	// end a POST with an extra CRLF; two is what is seen in the field.
	maxEmptyLines = 2
)

func (l *Limits) headBytes() int {
	if l == nil || l.HeadBytes <= 0 {
		return defaultHeadBytes
	}
	return min(l.HeadBytes, maxHeadBytes)
}

func (l *Limits) fields() int {
	if l == nil || l.Fields <= 0 {
		return defaultFields
	}
	return l.Fields
}

// Body says how the end of a message's body is found.
type Body uint8

// The ways a body ends.
const (
	BodyNone       Body = iota // no byte of body follows
	BodyLength                 // exactly Length bytes follow, at least one
	BodyChunked                // the chunked coding follows; see Chunked
	BodyUntilClose             // the end of the connection ends it; responses only
)

// String returns a word for logs.
func (b Body) String() string {
	switch b {
	case BodyNone:
		return "none"
	case BodyLength:
		return "length"
	case BodyChunked:
		return "chunked"
	case BodyUntilClose:
		return "until close"
	}
	return "invalid"
}
