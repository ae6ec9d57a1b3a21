package h1

// maxExtensions bounds the chunk extensions of one body in bytes, over all its
// chunks. They mean nothing to us, are dropped, and are hardly ever sent; without
// a bound over the whole body, a byte of data could be made to cost many.
const maxExtensions = 4096

// maxSizeDigits is as many as an int64 has; leading zeros count.
const maxSizeDigits = 16

// Chunked decodes the chunked transfer coding (RFC 9112 section 7.1). The zero
// value is ready for use with default limits; one that was used is made ready for
// the next body by Reset.
type Chunked struct {
	// Discard drops all trailer fields, which are checked none the less.
	Discard bool

	state    chunkState
	digits   uint8
	left     int64 // size being read, then bytes of data to come
	ext      int   // bytes of extensions so far
	maxBytes int   // of the trailer section
	maxLines int
	bytes    int // of the trailer section so far
	lines    int
	trailer  []byte // accepted lines, then the line being read
	kept     int    // length of the accepted lines
	look     int    // how far lineEnd has looked
}

type chunkState uint8

const (
	chunkSize    chunkState = iota // digits
	chunkPad                       // white space between size and extension
	chunkExt                       // an extension
	chunkSizeLF                    // LF behind the size
	chunkData                      // data
	chunkDataCR                    // CR behind the data
	chunkDataLF                    // LF behind the data
	chunkTrailer                   // the trailer section
	chunkDone
)

// Reset makes c ready for a new body whose trailer section is bounded by lim as a
// head is. It keeps the buffer for trailers and clears Discard.
func (c *Chunked) Reset(lim *Limits) {
	*c = Chunked{
		maxBytes: lim.headBytes(),
		maxLines: lim.fields(),
		trailer:  c.trailer[:0],
	}
}

// Done reports whether the body with its trailer section has been read.
func (c *Chunked) Done() bool { return c.state == chunkDone }

// Left returns how many bytes of the current chunk's data are still to come.
func (c *Chunked) Left() int64 {
	if c.state == chunkData {
		return c.left
	}
	return 0
}

// Trailer returns the accepted trailer lines, each with its CRLF, without the
// blank line. Fields that frame, route, authenticate or control a message are not
// accepted in a trailer section and left out (RFC 9110 section 6.5.1). The bytes
// belong to c until Reset; they are complete when the body is done.
func (c *Chunked) Trailer() []byte { return c.trailer[:c.kept:c.kept] }

// Decode decodes b in place. It moves the data it finds to the front, b[:data],
// and says how many bytes of b it has consumed; the rest, b[used:], is untouched
// and begins the next message once done is true. Unless done, used is len(b). An
// error is always an *Error, after which the connection cannot be used for
// reading; data that came before it is not to be relied on.
func (c *Chunked) Decode(b []byte) (data, used int, done bool, err error) {
	data, used, e := c.decode(b)
	if e != nil {
		return data, used, false, e
	}
	return data, used, c.state == chunkDone, nil
}

func (c *Chunked) decode(b []byte) (data, i int, err *Error) {
	for i < len(b) {
		switch c.state {
		case chunkData:
			n := len(b) - i
			if int64(n) > c.left {
				n = int(c.left)
			}
			if data != i {
				copy(b[data:], b[i:i+n])
			}
			data += n
			i += n
			if c.left -= int64(n); c.left == 0 {
				c.state = chunkDataCR
			}
			continue
		case chunkTrailer:
			n, err := c.readTrailer(b[i:])
			return data, i + n, err
		case chunkDone:
			return data, i, nil
		}
		if err := c.step(b[i]); err != nil {
			return data, i, err
		}
		i++
	}
	return data, i, nil
}

// step reads one byte of what stands around the data.
func (c *Chunked) step(b byte) *Error {
	switch c.state {
	case chunkSize:
		if d := unhex[b]; d != 0xff {
			if c.digits++; c.digits > maxSizeDigits || c.left > 1<<59-1 {
				return ErrChunkBig
			}
			c.left = c.left<<4 | int64(d)
			return nil
		}
		if c.digits == 0 {
			return ErrChunkSize
		}
		switch b {
		case '\r':
			c.state = chunkSizeLF
		case ';':
			c.state = chunkExt
			return c.countExt()
		case ' ', '\t':
			c.state = chunkPad
			return c.countExt()
		default:
			return ErrChunkSize
		}
	case chunkPad:
		// White space is for extensions only: "5 \r\n" is not a size.
		switch b {
		case ';':
			c.state = chunkExt
		case ' ', '\t':
		default:
			return ErrChunkSize
		}
		return c.countExt()
	case chunkExt:
		switch {
		case b == '\r':
			c.state = chunkSizeLF
		case class[b]&isText == 0:
			return ErrChunkExt
		default:
			return c.countExt()
		}
	case chunkSizeLF:
		if b != '\n' {
			return ErrChunkSize
		}
		c.digits = 0
		c.state = chunkData
		if c.left == 0 {
			c.startTrailer()
		}
	case chunkDataCR:
		if b != '\r' {
			return ErrChunkEnd
		}
		c.state = chunkDataLF
	case chunkDataLF:
		if b != '\n' {
			return ErrChunkEnd
		}
		c.state = chunkSize
	}
	return nil
}

func (c *Chunked) countExt() *Error {
	if c.ext++; c.ext > maxExtensions {
		return ErrChunkExtLong
	}
	return nil
}

func (c *Chunked) startTrailer() {
	c.state = chunkTrailer
	if c.maxBytes == 0 { // never Reset
		c.maxBytes, c.maxLines = defaultHeadBytes, defaultFields
	}
}

// readTrailer reads as much of the trailer section as b holds.
func (c *Chunked) readTrailer(b []byte) (used int, err *Error) {
	for used < len(b) {
		// One line at a time, so that what follows the section is not
		// copied. A bare LF goes along and is found by lineEnd.
		n := len(b) - used
		for j, x := range b[used:] {
			if x == '\n' {
				n = j + 1
				break
			}
		}
		full := false
		if room := c.maxBytes - c.bytes; n >= room {
			n, full = room, true
		}
		c.trailer = append(c.trailer, b[used:used+n]...)
		used += n
		c.bytes += n
		end, found, err := lineEnd(c.trailer, c.look)
		switch {
		case err != nil:
			return used, err
		case found && end == c.kept:
			c.trailer = c.trailer[:c.kept]
			c.state = chunkDone
			return used, nil
		case found:
			if err := c.trailerLine(end); err != nil {
				return used, err
			}
		default:
			c.look = end
		}
		if full {
			return used, ErrTrailerLong
		}
	}
	return used, nil
}

// trailerLine checks the line between c.kept and its CRLF at end, and keeps it or
// drops it.
func (c *Chunked) trailerLine(end int) *Error {
	if c.lines++; c.lines > c.maxLines {
		return ErrTrailers
	}
	var f Field
	if err := parseField(c.trailer, c.kept, end, &f); err != nil {
		return err
	}
	if c.Discard || !trailing(c.trailer[f.start:f.nameEnd], f.Kind) {
		c.trailer = c.trailer[:c.kept]
	}
	c.kept = len(c.trailer)
	c.look = c.kept
	return nil
}

// trailing reports whether a field may stand in a trailer section that is passed
// on: whether a recipient that merges trailers into the head, against RFC 9110
// section 6.5.1, would come to no harm.
func trailing(name []byte, k Kind) bool {
	if k != KindOther {
		return false
	}
	for _, n := range notTrailing {
		if foldEqual(name, n) {
			return false
		}
	}
	return true
}

// ValidTrailer reports whether a field of this name may be passed on in a
// trailer section, which Trailer applies by itself.
func ValidTrailer(name []byte) bool { return trailing(name, kindOf(name)) }

// notTrailing lists the fields that have no Kind and may not be trailers.
var notTrailing = []string{
	// framing and content format
	"content-encoding", "content-range", "content-location", "content-language", "mime-version",
	// routing
	"x-forwarded-port", "x-forwarded-server", "x-forwarded-prefix", "max-forwards", "origin", "referer",
	// request modifiers
	"cache-control", "pragma", "range", "if-match", "if-none-match", "if-modified-since",
	"if-unmodified-since", "if-range", "accept", "accept-charset", "accept-encoding",
	"accept-language", "http2-settings",
	// authentication
	"authorization", "www-authenticate", "authentication-info",
	// response control
	"age", "expires", "location", "retry-after", "vary", "warning",
	"strict-transport-security", "access-control-allow-origin", "access-control-allow-credentials",
}
