package h3

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"

	"fairlead/internal/fields"
	"fairlead/internal/loop"
)

// requestStream is what a Stream uses of a stream of quic-go.
type requestStream interface {
	io.ReadWriteCloser
	CancelRead(quic.StreamErrorCode)
	CancelWrite(quic.StreamErrorCode)
	SetDeadline(time.Time) error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	Context() context.Context
	ReleaseStreamCredit()
}

// Stream is one request and its answer. It is a handler's until that returns.
//
// One task reads from it and one writes to it. Interrupt may be called by anyone.
type Stream struct {
	c *Conn
	q requestStream

	block   fields.Block // the request's head
	trailer fields.Block

	// The reading task's own.
	small    [2 << 10]byte // where bytes come while they are few
	large    *readBuffer   // or there, once they are many
	buf      []byte        // one of them
	r, w     int           // what has come and was not used: buf[r:w]
	bulk     bool          // the last read filled its buffer
	eof      bool          // nothing follows what has come
	frame    uint64        // bytes of DATA that are still to be read
	left     uint64        // bytes of another frame that are
	trailing bool          // that is the trailers
	received int64         // bytes of the body
	ended    bool          // body and trailers were read
	tunnel   bool          // bytes follow that are no message
	failed   error         // why nothing more can be read
	faulty   bool          // it was reset for what the client has sent, or not sent
	readBy   loop.Time
	armed    loop.Time // what quic-go has as deadline
	raw      []byte    // a header block

	// The writing task's own.
	enc      *qpack.Encoder
	packed   []byte // a header block
	out      []byte
	sentHead bool
	sentEnd  bool

	timeout atomic.Int64          // of writes
	cause   atomic.Pointer[error] // of Interrupt
	cut     atomic.Bool           // reset by us
}

var streams = sync.Pool{New: func() any {
	s := new(Stream)
	s.enc = qpack.NewEncoder((*packer)(s))
	return s
}}

// readBuffer is for what comes in bulk. Two bytes at the end are left free: whoever
// is lent what ends a buffer may append as much to it.
type readBuffer [32<<10 + spare]byte

const spare = 2

var readBuffers = sync.Pool{New: func() any { return new(readBuffer) }}

// reset prepares s for a request.
func (s *Stream) reset(c *Conn, q requestStream) {
	s.c, s.q = c, q
	s.buf, s.r, s.w = s.small[:], 0, 0
	s.bulk, s.eof, s.ended, s.tunnel, s.failed, s.faulty = false, false, false, false, nil, false
	s.frame, s.left, s.trailing, s.received = 0, 0, false, 0
	s.readBy, s.armed = 0, 0
	s.sentHead, s.sentEnd = false, false
	s.timeout.Store(int64(c.cfg.WriteTimeout))
	s.cause.Store(nil)
	s.cut.Store(false)
	s.trailer.Reset(fields.Trailer, c.cfg.section())
}

// over ends what the handler has left open, and gives the stream back.
func (s *Stream) over() {
	c, q := s.c, s.q
	if !s.sentEnd {
		s.Fail()
	}
	wasted := s.faulty || byClient(s.failed) || byClient(context.Cause(q.Context()))
	// The rest of a request that is answered is not of interest. This does nothing
	// where the end was read.
	q.CancelRead(quic.StreamErrorCode(codeNo))
	q.ReleaseStreamCredit()
	s.giveBack()
	s.block.Trim()
	s.trailer.Trim()
	for _, b := range []*[]byte{&s.raw, &s.packed, &s.out} {
		if cap(*b) > fields.Keep {
			*b = nil
		}
	}
	s.c, s.q = nil, nil
	streams.Put(s)
	if wasted {
		c.flood(EventRapidReset)
	} else {
		c.useful(0, 1)
	}
}

// giveBack gives up the large buffer.
func (s *Stream) giveBack() {
	if s.large == nil {
		return
	}
	readBuffers.Put(s.large)
	s.large, s.buf = nil, s.small[:]
	s.r, s.w = 0, 0
}

// Head returns the head of the request.
func (s *Stream) Head() *fields.Head { return &s.block.Head }

// readHead reads the head of the request, and reports whether that is to be
// served.
func (s *Stream) readHead() bool {
	s.readBy = loop.Now().Add(s.c.cfg.HeaderTimeout)
	err := s.head()
	switch {
	case err == nil:
		return true
	case err == loop.ErrTimeout:
		s.c.count(EventHeaderTimeout)
		s.faulty = true
		s.abandon(codeRequestIncomplete)
	case err == io.EOF:
		s.faulty = true
		s.abandon(codeRequestIncomplete)
	case err == errMalformed:
		s.malformed()
	default: // the client has reset it, or the connection is over
		s.abandon(codeRequestCancelled)
	}
	return false
}

func (s *Stream) head() error {
	for {
		t, n, err := s.header()
		if err != nil {
			return err
		}
		if t == frameHeaders {
			if err := s.section(&s.block, fields.Request, n); err != nil {
				return err
			}
			break
		}
		if err := s.other(t, n); err != nil {
			return err
		}
	}
	h := &s.block.Head
	if s.block.Finish(false) != "" {
		return errMalformed
	}
	if h.TooLarge {
		// No more is read: what would follow is not worth it.
		s.c.count(EventHeaderLimit)
		s.ended = true
		return nil
	}
	s.tunnel = h.Protocol != nil
	if err := s.look(); err != nil {
		return err
	}
	h.End = s.eof && s.r == s.w
	if h.End && h.ContentLength > 0 {
		return errMalformed
	}
	s.ended = h.End
	return nil
}

// look waits for what follows the head of a request that seldom has a body: the end
// may be a packet behind, and a request without a body is to be passed on as one.
func (s *Stream) look() error {
	h := &s.block.Head
	if s.r < s.w || s.eof || h.ContentLength >= 0 || s.tunnel {
		return nil
	}
	switch string(h.Method) {
	case "GET", "HEAD", "DELETE", "OPTIONS", "TRACE", "CONNECT":
	default: // a body may come when the answer has begun
		return nil
	}
	s.readBy = min(s.readBy, loop.Now().Add(endTimeout))
	if err := s.fill(); err != nil && err != loop.ErrTimeout {
		return err
	}
	return nil
}

// header reads the type and the length of the next frame. Between frames the
// stream's end is io.EOF.
func (s *Stream) header() (t, n uint64, err error) {
	for {
		b := s.buf[s.r:s.w]
		if t, i, err := quicvarint.Parse(b); err == nil {
			if n, j, err := quicvarint.Parse(b[i:]); err == nil {
				s.r += i + j
				return t, n, nil
			}
		}
		if s.eof {
			if len(b) == 0 {
				return 0, 0, io.EOF
			}
			return 0, 0, s.c.breach(codeFrame, "stream ends within a frame")
		}
		if err := s.fill(); err != nil {
			return 0, 0, err
		}
	}
}

// other handles a frame that is neither DATA nor HEADERS where those may stand, or
// one of them where it may not.
func (s *Stream) other(t, n uint64) error {
	switch t {
	case frameData, frameHeaders, frameCancelPush, frameSettings, framePushPromise, frameGoAway, frameMaxPushID, framePriority, framePriorityPush:
		return s.c.breach(codeFrameUnexpected, "frame that does not belong there")
	}
	if reservedFrame(t) {
		return s.c.breach(codeFrameUnexpected, "frame of HTTP/2")
	}
	s.c.flood(EventFrameFlood)
	s.left = n
	return s.skip()
}

// skip reads what is left of a frame that has no meaning. It can be called again
// where a deadline or an interruption has ended it.
func (s *Stream) skip() error {
	for s.left > 0 {
		k, err := s.some()
		if err != nil {
			return err
		}
		s.r += k
		s.left -= uint64(k)
	}
	return nil
}

// some waits for some of what is left of a frame, and returns how much there is.
func (s *Stream) some() (int, error) {
	if s.r == s.w {
		if s.eof {
			return 0, s.c.breach(codeFrame, "stream ends within a frame")
		}
		if err := s.fill(); err != nil {
			return 0, err
		}
	}
	return int(min(s.left, uint64(s.w-s.r))), nil
}

// section begins to read a header block of n bytes. One that is too large is left
// unread.
func (s *Stream) section(f *fields.Block, of fields.Section, n uint64) error {
	f.Reset(of, s.c.cfg.section())
	if n > s.c.cfg.blockBytes() {
		f.TooLarge = true
		return nil
	}
	if uint64(s.w-s.r) >= n {
		block := s.buf[s.r : s.r+int(n)]
		s.r += int(n)
		return s.unpack(f, block)
	}
	s.raw, s.left = s.raw[:0], n // raw grows with what comes, not with what is announced
	return s.gather(f)
}

// gather goes on with section. It can be called again, as skip.
func (s *Stream) gather(f *fields.Block) error {
	for s.left > 0 {
		k, err := s.some()
		if err != nil {
			return err
		}
		s.raw = append(s.raw, s.buf[s.r:s.r+k]...)
		s.r += k
		s.left -= uint64(k)
	}
	return s.unpack(f, s.raw)
}

// unpack reads the fields of a header block.
func (s *Stream) unpack(f *fields.Block, block []byte) error {
	next := decoder.Decode(block)
	for !f.TooLarge {
		h, err := next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return s.c.breach(codeDecompression, "malformed header block")
		}
		f.Add(h.Name, h.Value)
	}
	return nil
}

// decoder knows only the static table, and so has no state.
var decoder = qpack.NewDecoder()

// fill reads more of the stream.
func (s *Stream) fill() error {
	if s.failed != nil {
		return s.failed
	}
	switch {
	case s.r < s.w: // few bytes: of a frame's header
		copy(s.buf, s.buf[s.r:s.w])
		s.r, s.w = 0, s.w-s.r
	case s.bulk && s.large == nil:
		s.large = readBuffers.Get().(*readBuffer)
		s.buf = s.large[:]
		fallthrough
	default:
		s.r, s.w = 0, 0
	}
	room := s.buf[s.w : len(s.buf)-spare]
	for {
		if s.armed != s.readBy {
			s.armed = s.readBy
			s.q.SetReadDeadline(loopTime(s.readBy))
		}
		if err := s.interrupted(); err != nil {
			return err
		}
		n, err := s.q.Read(room)
		s.w += n
		s.bulk = n == len(room)
		switch {
		case err == io.EOF:
			s.eof = true
			return nil
		case n > 0:
			return nil // an error comes again
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			if cause := s.interrupted(); cause != nil {
				return cause
			}
			s.armed = -1 // it may have been that of an interruption
			if s.readBy != 0 && loop.Now() >= s.readBy {
				return loop.ErrTimeout
			}
		default:
			s.failed = err
			return err
		}
	}
}

// Read waits for the next bytes of the body, and returns io.EOF at its end. The
// bytes are lent until the next Read or Release.
func (s *Stream) Read() ([]byte, error) {
	for {
		if err := s.interrupted(); err != nil {
			return nil, err
		}
		switch {
		case s.frame > 0:
			if b, err := s.data(); b != nil || err != nil {
				return b, err
			}
		case s.ended:
			return nil, io.EOF
		case s.failed != nil:
			return nil, s.failed
		default:
			if err := s.next(); err != nil {
				return nil, err
			}
		}
	}
}

// data returns what has come of a DATA frame; nothing if the rest is to be read.
func (s *Stream) data() ([]byte, error) {
	if s.r == s.w {
		if s.eof {
			return nil, s.breach(codeFrame, "stream ends within a frame")
		}
		if err := s.fill(); err != nil {
			return nil, err
		}
		return nil, nil
	}
	n := int(min(s.frame, uint64(s.w-s.r)))
	b := s.buf[s.r : s.r+n : s.r+n]
	if s.r+n == s.w {
		b = s.buf[s.r : s.r+n : s.r+n+spare]
	}
	s.r += n
	s.frame -= uint64(n)
	s.received += int64(n)
	s.atEnd()
	return b, nil
}

// atEnd looks whether the body has ended where it is. With its length declared that
// is so before the stream's end has come, which may be a packet behind.
func (s *Stream) atEnd() {
	switch {
	case s.whole():
		s.ended = true
	case s.tunnel || s.block.ContentLength < 0:
		s.ended = s.frame == 0 && s.r == s.w && s.eof
	}
}

// whole reports whether everything that was declared has come.
func (s *Stream) whole() bool {
	return !s.tunnel && s.block.ContentLength >= 0 && s.received == s.block.ContentLength
}

// next reads on to the next bytes of the body, or to its end.
func (s *Stream) next() error {
	err := s.step()
	if err == errBreach {
		s.failed = err
	}
	return err
}

func (s *Stream) step() error {
	switch {
	case s.trailing:
		return s.trailers(s.gather(&s.trailer))
	case s.left > 0:
		return s.skip()
	}
	t, n, err := s.header()
	switch {
	case err == io.EOF:
		if s.block.ContentLength >= 0 && !s.tunnel && s.received != s.block.ContentLength {
			return s.short()
		}
		s.ended = true
		return nil
	case err != nil:
		return err
	case t == frameData:
		if n == 0 {
			s.c.flood(EventFrameFlood)
		} else {
			s.c.useful(1, 0)
		}
		left := s.block.ContentLength - s.received
		if s.block.ContentLength >= 0 && !s.tunnel && n > uint64(left) {
			return s.short()
		}
		s.frame = n
		return nil
	case t == frameHeaders && !s.tunnel:
		s.trailing = true
		return s.trailers(s.section(&s.trailer, fields.Trailer, n))
	}
	return s.other(t, n)
}

// trailers judges the trailers, behind which nothing is of interest.
func (s *Stream) trailers(err error) error {
	if err != nil {
		return err
	}
	s.trailing = false
	if s.trailer.TooLarge {
		s.c.count(EventHeaderLimit)
		return s.short()
	}
	if s.trailer.Finish(true) != "" || s.block.ContentLength >= 0 && s.received != s.block.ContentLength {
		return s.short()
	}
	s.ended = true
	return nil
}

// short ends a request whose body is not what its head says.
func (s *Stream) short() error {
	s.failed = errMalformed
	s.malformed()
	return errMalformed
}

// malformed resets a request that is malformed.
func (s *Stream) malformed() {
	s.c.count(EventMalformed)
	s.faulty = true
	s.abandon(codeMessage)
}

func (s *Stream) breach(why code, text string) error {
	s.failed = s.c.breach(why, text)
	return s.failed
}

// Exhausted reports whether Read has returned everything that the client sends.
func (s *Stream) Exhausted() bool { return s.frame == 0 && (s.ended || s.whole()) }

// Trailer returns the trailer lines behind a body that was read to its end,
// without those that may not stand there (RFC 9110 section 6.5.1).
func (s *Stream) Trailer() []byte {
	if !s.ended {
		return nil
	}
	return s.trailer.Lines
}

// Release gives back what the last Read lent.
func (s *Stream) Release() {
	if s.r == s.w {
		s.giveBack()
	}
}

// SetReadDeadline bounds waiting in Read, which then returns loop.ErrTimeout; 0 is
// no bound.
func (s *Stream) SetReadDeadline(t loop.Time) { s.readBy = t }

// SetWriteTimeout bounds how long a write may make no progress; 0 is no bound. It
// begins as Config.WriteTimeout.
func (s *Stream) SetWriteTimeout(d time.Duration) { s.timeout.Store(int64(d)) }

// past is a deadline that has always passed.
var past = time.Unix(1, 0)

// Interrupt ends waiting with the given cause, now and until Resume. A write that
// it ends has sent an unknown part.
func (s *Stream) Interrupt(cause error) {
	s.cause.Store(&cause)
	s.q.SetDeadline(past)
}

// Resume lets a stream that was interrupted wait again. No task may be waiting.
func (s *Stream) Resume() {
	s.cause.Store(nil)
	s.armed = -1
	s.q.SetDeadline(time.Time{})
}

func (s *Stream) interrupted() error {
	if p := s.cause.Load(); p != nil {
		return *p
	}
	return nil
}

// Alive reports whether the client still waits for the answer, as far as is known.
func (s *Stream) Alive() bool { return s.q.Context().Err() == nil }

// Fail breaks the stream off with H3_INTERNAL_ERROR, unless it has ended.
func (s *Stream) Fail() { s.abandon(codeInternal) }

// abandon resets the stream in both directions.
func (s *Stream) abandon(why code) {
	if s.cut.Swap(true) {
		return
	}
	s.q.CancelWrite(quic.StreamErrorCode(why))
	s.q.CancelRead(quic.StreamErrorCode(why))
}
