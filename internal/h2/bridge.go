package h2

import (
	"bytes"
	"errors"
	"io"
	"net/netip"
	"time"

	"fairlead/internal/fields"
	"fairlead/internal/h1"
	"fairlead/internal/loop"
)

// bridge is a connection to whose user HTTP/1.1 is spoken, while each request is
// a stream of a client's connection.
type bridge struct {
	k *Client

	// Guarded by the connection's mu.
	s       *Stream // of the exchange that goes on, or nil
	readBy  loop.Time
	timeout time.Duration
	cause   error // of Interrupt
	inside  int   // tasks that may wait on s
	closed  bool

	// The writing task's own.
	req     h1.Request
	part    []byte // of a head, or trailers, that are not complete
	sending sending
	left    int64 // bytes of the body, or of the chunk
	digits  int

	// The reading task's own, but for what the writing one sets before it
	// opens the stream.
	giving  giving
	upgrade []byte // the protocol that was asked for
	accept  []byte // what proves that a WebSocket was accepted
	out     []byte // head, framing, and short bodies as text
}

// sending says what of a request is to be written next.
type sending uint8

const (
	sendHead sending = iota
	sendLength
	sendSize    // the digits of a chunk's size
	sendExt     // the rest of that line
	sendChunk   // data
	sendChunkCR // CRLF behind data
	sendChunkLF
	sendTrailer
	sendRaw  // bytes of an upgraded connection
	sendDone // nothing
)

// giving says what of an answer is to be read next.
type giving uint8

const (
	giveHead giving = iota
	givePlain
	giveChunks
	giveLast // the last chunk
	giveDone
)

// What a bridge refuses to send.
var (
	errRequest = errors.New("HTTP/2 stream: not one well-formed HTTP/1.1 request")
	errNotOver = errors.New("HTTP/2 stream: the exchange before is not over")
)

// Conn returns a connection to whose user the server seems to speak HTTP/1.1.
// Each request that is written to it is made over a stream of its own, one after
// the other; any number of such connections can be used at once. It opens nothing
// by itself, so that it costs nothing while it is kept.
//
// What is written has to be well-formed: a request line in origin-form, Host, and
// a body framed by Content-Length or by chunks. The answer is framed by its
// content-length if it has one and announces no trailers, otherwise by chunks,
// with trailers behind them. A request with Upgrade is sent as extended CONNECT
// (RFC 8441), and accepted with 101.
//
// A request for which no stream can be opened fails with loop.ErrStale, one that
// the server says it has not processed with ErrNotProcessed. Quiet reports
// whether the exchange is complete and the next one can begin. Abort, and Close
// before that, reset the stream with CANCEL.
//
// Unlike those of other connections, Interrupt and Abort are only for tasks of
// the driver; others call Client.Abort.
func (k *Client) Conn() loop.Conn { return &bridge{k: k, timeout: k.c.WriteTimeout} }

// enter begins what may wait on the stream, with mu locked.
func (b *bridge) enter() { b.inside++ }

// leave ends it. The last one to leave a closed bridge lets the stream go.
func (b *bridge) leave() {
	if b.inside--; b.inside == 0 && b.closed {
		b.drop()
	}
}

// drop ends the exchange.
func (b *bridge) drop() {
	if b.s != nil {
		b.s.close()
		b.s = nil
	}
	b.sending, b.giving = sendHead, giveHead
	b.part, b.out, b.upgrade, b.accept = b.part[:0], b.out[:0], nil, nil
}

// complete reports whether the exchange is over in both directions.
func (b *bridge) complete() bool {
	s := b.s
	given := b.giving == giveDone || b.giving == givePlain // whose end nobody needs to read
	return s.recvEnd && s.sentEnd && s.cut == cutNot && given && s.first == nil
}

func (b *bridge) Release() {
	c := &b.k.c
	c.mu.Lock()
	defer c.unlock()
	if b.s == nil {
		return
	}
	b.s.release()
	if cap(b.out) > fields.Keep {
		b.out = nil
	}
	if b.inside == 0 && b.complete() {
		b.drop()
	}
}

func (b *bridge) SetReadDeadline(t loop.Time) {
	b.k.c.mu.Lock()
	defer b.k.c.unlock()
	b.readBy = t
	if b.s != nil {
		b.s.readBy = t
	}
}

func (b *bridge) SetWriteTimeout(d time.Duration) {
	b.k.c.mu.Lock()
	defer b.k.c.unlock()
	b.timeout = d
	if b.s != nil {
		b.s.writeTimeout = d
	}
}

func (b *bridge) Interrupt(cause error) { b.interrupt(cause) }
func (b *bridge) Resume()               { b.interrupt(nil) }

func (b *bridge) interrupt(cause error) {
	b.k.c.mu.Lock()
	defer b.k.c.unlock()
	b.cause = cause
	if b.s != nil {
		b.s.cause = cause
		b.s.wakeRead()
		b.s.wakeWrite()
	}
}

func (b *bridge) CloseWrite() error {
	c := &b.k.c
	c.mu.Lock()
	defer c.unlock()
	switch {
	case b.s == nil || b.closed:
		return errStreamClosed
	case b.s.sentEnd:
		return nil
	case b.sending != sendRaw:
		return errRequest // cut short
	}
	if err := b.s.writable(); err != nil {
		return err
	}
	b.s.push(nil, true)
	return nil
}

func (b *bridge) Close() error {
	b.end()
	return nil
}

func (b *bridge) Abort() { b.end() }

func (b *bridge) end() {
	c := &b.k.c
	c.mu.Lock()
	defer c.unlock()
	if b.closed {
		return
	}
	b.closed = true
	if b.s == nil {
		return
	}
	if b.inside == 0 {
		b.drop()
		return
	}
	// Others are using the stream: they end now, and the last lets it go.
	if !b.complete() {
		b.s.reset(&StreamError{Code: CodeCancel})
	}
	b.s.fail(errStreamClosed)
}

func (b *bridge) Alive() bool {
	c := &b.k.c
	c.mu.Lock()
	defer c.unlock()
	if b.s == nil || b.complete() {
		return !b.closed && !c.gone()
	}
	return b.s.err == nil
}

func (b *bridge) Quiet() bool {
	c := &b.k.c
	c.mu.Lock()
	defer c.unlock()
	return !b.closed && !c.gone() && (b.s == nil || b.complete())
}

func (b *bridge) Remote() netip.AddrPort { return b.k.c.nc.Remote() }
func (b *bridge) Local() netip.AddrPort  { return b.k.c.nc.Local() }

// Ask implements loop.Conn.
func (b *bridge) Ask(p []byte) ([]byte, error) {
	if !b.Quiet() {
		return nil, loop.ErrStale
	}
	werr := b.Write(p)
	if werr != nil && !b.broken() {
		return nil, werr
	}
	// A server may answer before it has read all, and reset the rest.
	answer, err := b.Read(nil)
	switch {
	case err == nil:
		return answer, nil
	case werr != nil && !errors.Is(err, ErrNotProcessed):
		return nil, werr
	}
	return nil, err
}

// broken reports whether the stream has ended before the request.
func (b *bridge) broken() bool {
	b.k.c.mu.Lock()
	defer b.k.c.unlock()
	return b.s != nil && b.s.err != nil
}

// Read implements loop.Conn.
func (b *bridge) Read(prefix []byte) ([]byte, error) {
	c := &b.k.c
	c.mu.Lock()
	defer c.unlock()
	if b.s == nil || b.closed {
		if b.cause != nil {
			return nil, b.cause
		}
		return nil, io.EOF
	}
	b.enter()
	defer b.leave()
	b.out = append(b.out[:0], prefix...) // it may be lent by the stream
	switch b.giving {
	case giveHead:
		h, err := b.s.readHead()
		if err != nil {
			return nil, err
		}
		b.head(h)
		b.short()
		return b.out, nil
	case giveLast:
		b.lastChunk()
		return b.out, nil
	}
	k, err := b.s.readChunk(true)
	if err == io.EOF && b.giving == giveChunks {
		b.lastChunk()
		return b.out, nil
	}
	if err != nil {
		if err == io.EOF {
			b.giving = giveDone
		}
		return nil, err
	}
	data := b.frame(k)
	if b.s.recvEnd && b.s.first == nil {
		if b.giving == giveChunks {
			b.giving = giveLast
		} else {
			b.giving = giveDone
		}
	}
	if len(prefix) == 0 {
		return data, nil
	}
	b.out = append(b.out, data...)
	return b.out, nil
}

// frame returns the chunk's data as it is to be read: where the answer is chunked,
// with the framing written around it.
func (b *bridge) frame(k *chunk) []byte {
	if b.giving != giveChunks {
		return k.data()
	}
	var head [chunkFront]byte
	size := h1.AppendChunkHeader(head[:0], len(k.data()))
	at := chunkFront - len(size)
	copy(k.b[at:], size)
	n := len(k.b)
	k.b = append(k.b, h1.CRLF...)
	framed := k.b[at:]
	k.b = k.b[:n]
	return framed
}

func (b *bridge) lastChunk() {
	b.out = append(b.out, h1.LastChunk...)
	b.out = append(b.out, b.s.trailer.Lines...)
	b.out = append(b.out, h1.CRLF...)
	b.giving = giveDone
}

// head writes a head down in HTTP/1.1.
func (b *bridge) head(h *Head) {
	s := b.s
	if b.upgrade != nil && h.Status/100 == 2 {
		b.out = h1.AppendStatusLine(b.out, 101, "Switching Protocols")
		b.out = append(b.out, "connection: upgrade\r\nupgrade: "...)
		b.out = append(b.out, b.upgrade...)
		b.out = append(b.out, h1.CRLF...)
		if b.accept != nil {
			b.out = append(append(b.out, "sec-websocket-accept: "...), b.accept...)
			b.out = append(b.out, h1.CRLF...)
		}
		b.out = append(b.out, h.Lines...)
		b.out = append(b.out, h1.CRLF...)
		b.giving = givePlain
		return
	}
	b.out = h1.AppendStatusLine(b.out, h.Status, "")
	switch {
	case h.Status < 200:
		b.out = append(b.out, h.Lines...)
	case s.bodiless(h.Status), h.ContentLength >= 0 && (h.End || !h.Announced):
		b.out = append(b.out, h.Lines...)
		b.giving = givePlain
	default:
		// Where there may be trailers, a content-length would leave no place
		// for them.
		b.out = appendUnframed(b.out, h.Lines)
		b.out = append(b.out, "transfer-encoding: chunked\r\n"...)
		b.giving = giveChunks
	}
	b.out = append(b.out, h1.CRLF...)
	if h.Status < 200 {
		return
	}
	if b.upgrade != nil && s.writable() == nil {
		s.push(nil, true) // there will be no tunnel
	}
}

// appendUnframed appends field lines but the content-length.
func appendUnframed(dst, lines []byte) []byte {
	for len(lines) > 0 {
		name, _, rest := fields.Cut(lines)
		if string(name) != "content-length" {
			dst = append(dst, lines[:len(lines)-len(rest)]...)
		}
		lines = rest
	}
	return dst
}

// shortBody is up to where a body is given along with its head.
const shortBody = 4 << 10

// short adds to a final head what is there already of a short body, and its end.
func (b *bridge) short() {
	s := b.s
	if b.giving != givePlain && b.giving != giveChunks {
		return
	}
	for s.first != nil && len(s.first.data()) <= shortBody && s.cause == nil {
		k, err := s.readChunk(false)
		if err != nil {
			return
		}
		b.out = append(b.out, b.frame(k)...)
	}
	switch {
	case s.first != nil || !s.recvEnd:
	case b.giving == giveChunks:
		b.lastChunk()
	default:
		b.giving = giveDone
	}
}

// Write implements loop.Conn.
func (b *bridge) Write(p []byte) error {
	c := &b.k.c
	c.mu.Lock()
	defer c.unlock()
	return b.write(p)
}

// Writev implements loop.Conn.
func (b *bridge) Writev(p, q []byte) error {
	c := &b.k.c
	c.mu.Lock()
	defer c.unlock()
	b.enter()
	n, err := b.feed(p)
	b.leave()
	if err != nil {
		return err
	}
	if n == len(p) {
		return b.write(q)
	}
	joined := outputs.Get().(*output)
	defer joined.free()
	joined.b = append(append(joined.b, p[n:]...), q...)
	return b.write(joined.b)
}

func (b *bridge) write(p []byte) error {
	b.enter()
	defer b.leave()
	n, err := b.feed(p)
	if err != nil || n == len(p) {
		return err
	}
	// p may be borrowed, and is not valid any more after a wait.
	hold := outputs.Get().(*output)
	defer hold.free()
	hold.b = append(hold.b, p[n:]...)
	for rest := hold.b; len(rest) > 0; rest = rest[n:] {
		if err := b.s.waitPush(); err != nil {
			return err
		}
		if n, err = b.feed(rest); err != nil {
			return err
		}
	}
	return nil
}

// feed sends as much of p as it can without waiting, and reports how much that
// was. Only for extended CONNECT it may have to wait, when p is used up.
func (b *bridge) feed(p []byte) (n int, err error) {
	for n < len(p) {
		if b.closed {
			return n, errStreamClosed
		}
		if b.sending == sendHead || b.s != nil && b.sending == sendDone && b.complete() {
			used, err := b.feedHead(p[n:])
			if err != nil {
				return n, err
			}
			n += used
			continue
		}
		if err := b.s.writable(); err != nil {
			return n, err
		}
		switch b.sending {
		case sendLength, sendChunk:
			m := int(min(b.left, int64(len(p)-n)))
			length := b.sending == sendLength
			k := b.s.push(p[n:n+m], length && int64(m) == b.left)
			n += k
			if b.left -= int64(k); b.left == 0 {
				b.sending = sendDone
				if !length {
					b.sending = sendChunkCR
				}
			}
			if k < m {
				return n, nil
			}
		case sendRaw:
			return n + b.s.push(p[n:], false), nil
		case sendDone:
			return n, errRequest
		default:
			if err := b.feedFraming(p[n]); err != nil {
				return n, err
			}
			n++
		}
	}
	return n, nil
}

// feedFraming takes a byte of what stands around the data of chunks. h1.Chunked
// is not for this: it decodes in place, and what is written here is its writer's,
// who may have to send it once more.
func (b *bridge) feedFraming(x byte) error {
	switch b.sending {
	case sendSize:
		if d, ok := hexDigit(x); ok && b.digits < 15 {
			b.left, b.digits = b.left<<4|int64(d), b.digits+1
			return nil
		}
		if b.digits == 0 || x != '\r' && x != ';' {
			return errRequest
		}
		b.sending = sendExt
	case sendExt:
		if x != '\n' {
			return nil
		}
		b.sending, b.digits = sendChunk, 0
		if b.left == 0 {
			b.sending, b.part = sendTrailer, b.part[:0]
		}
	case sendChunkCR:
		if x != '\r' {
			return errRequest
		}
		b.sending = sendChunkLF
	case sendChunkLF:
		if x != '\n' {
			return errRequest
		}
		b.sending, b.left = sendSize, 0
	case sendTrailer:
		if len(b.part) >= b.k.c.HeaderBytes {
			return errRequest
		}
		if b.part = append(b.part, x); x != '\n' {
			return nil
		}
		if lines, ok := bytes.CutSuffix(b.part, crlf); ok && (len(lines) == 0 || bytes.HasSuffix(lines, crlf)) {
			b.s.pushTrailer(lines)
			b.sending = sendDone
		}
	}
	return nil
}

var crlf = []byte(h1.CRLF)

func hexDigit(x byte) (int, bool) {
	switch {
	case x >= '0' && x <= '9':
		return int(x - '0'), true
	case x >= 'a' && x <= 'f':
		return int(x-'a') + 10, true
	case x >= 'A' && x <= 'F':
		return int(x-'A') + 10, true
	}
	return 0, false
}
