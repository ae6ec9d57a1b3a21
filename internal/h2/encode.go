package h2

import (
	"bytes"
	"strconv"

	"golang.org/x/net/http2/hpack"

	"fairlead/internal/fields"
)

// encoder writes header blocks. Its dynamic table has no room, so that it keeps
// none of the strings it is given: they may be borrowed bytes. It also makes
// every block readable by itself, so that streams need not agree on an order.
type encoder struct {
	enc   *hpack.Encoder
	out   []byte // the block that is being written; see Write
	lower []byte // a name in lower case
	begun bool   // the other end knows that the table has no room
}

func (e *encoder) init() {
	e.enc = hpack.NewEncoder(e)
	e.enc.SetMaxDynamicTableSizeLimit(0)
	e.field(":path", nil) // takes the change of the table's size with it, which begin sends
	e.out = nil
}

// begin begins a block behind out.
func (e *encoder) begin(out []byte) {
	e.out = out
	if !e.begun {
		e.begun = true
		e.out = append(e.out, 0x20) // dynamic table size update to 0
	}
}

// Write takes what the hpack.Encoder writes.
func (e *encoder) Write(b []byte) (int, error) {
	e.out = append(e.out, b...)
	return len(b), nil
}

// field appends a field.
func (e *encoder) field(name string, value []byte) {
	// It fails only if Write does.
	_ = e.enc.WriteField(hpack.HeaderField{Name: name, Value: fields.String(value), Sensitive: fields.Sensitive(name)})
}

// status appends the :status.
func (e *encoder) status(n int) {
	switch n {
	case 200:
		e.out = append(e.out, 0x80|8) // in the static table
		return
	case 204:
		e.out = append(e.out, 0x80|9)
		return
	case 304:
		e.out = append(e.out, 0x80|11)
		return
	}
	var b [3]byte
	e.field(":status", strconv.AppendInt(b[:0], int64(n), 10))
}

// lines appends field lines of HTTP/1.1 but those that belong to a connection,
// and the host, which has a pseudo-header field.
func (e *encoder) lines(lines []byte) {
	for len(lines) > 0 {
		name, value, rest := fields.Cut(lines)
		lines = rest
		e.lower = fields.AppendLower(e.lower[:0], name)
		switch string(e.lower) {
		case "", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "host":
			continue
		case "te":
			if !bytes.EqualFold(value, trailers) {
				continue
			}
			value = trailers
		}
		e.field(fields.String(e.lower), value)
	}
}

var trailers = []byte("trailers")

// beginBlock starts a header block at the end of the output.
func (c *conn) beginBlock() (at int) {
	o := c.output()
	at = len(o.b)
	c.enc.begin(append(o.b, make([]byte, frameHeaderLen)...))
	return at
}

// endBlock ends the header block that was started at at: it writes the headers
// of its frames, which are several if the other end takes no frame that large.
func (c *conn) endBlock(at int, id uint32, end bool) {
	o := c.output()
	o.b, c.enc.out = c.enc.out, nil
	flags := byte(0)
	if end {
		flags = flagEndStream
	}
	length := len(o.b) - at - frameHeaderLen
	c.queued += uint64(length + frameHeaderLen)
	if length <= maxFrame {
		appendFrameHeader(o.b[:at], length, frameHeaders, flags|flagEndHeaders, id)
		return
	}
	block := append([]byte(nil), o.b[at+frameHeaderLen:]...) // rare
	o.b = o.b[:at]
	typ := byte(frameHeaders)
	for first := true; len(block) > 0; first = false {
		if !first {
			typ, flags = frameContinuation, 0
			c.queued += frameHeaderLen
		}
		n := min(len(block), maxFrame)
		if n == len(block) {
			flags |= flagEndHeaders
		}
		o.b = appendFrameHeader(o.b, n, typ, flags, id)
		o.b = append(o.b, block[:n]...)
		block = block[n:]
	}
}
