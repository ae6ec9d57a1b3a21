package httplb

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"io"
	"sync"
	"sync/atomic"

	"fairlead/internal/fields"
	"fairlead/internal/h1"
	"fairlead/internal/loop"
)

// multiplexed is one of the streams that a connection carries at the same time: of
// HTTP/2, as package h2 has it, or of HTTP/3, as h3 does.
type multiplexed interface {
	Head() *fields.Head

	Read() ([]byte, error)
	Exhausted() bool
	Trailer() []byte
	Release()
	SetReadDeadline(loop.Time)

	Respond(status int, lines []byte, end bool) error
	RespondBody(status int, lines, body []byte, end bool) error
	Write(b []byte, end bool) error
	WriteTrailer(lines []byte) error

	Interrupt(cause error)
	Resume()
	Alive() bool
	Fail() // breaks it off, so that the client notices
	Tunnel() loop.Conn
}

// muxstream is one stream of HTTP/2 or HTTP/3. The request's head is written down
// in HTTP/1.1 and read by the same parser as any other, so that there is one
// interpretation of requests.
type muxstream struct {
	st  multiplexed
	ln  *listener
	set *settings
	x   exchange

	req  h1.Request
	buf  []byte // the request's head, then fields of answers
	pace pace

	name     string      // of the protocol
	altSvc   string      // a line of answers
	tunnel   bool        // extended CONNECT: becomes an upgrade
	answered atomic.Bool // the answer has begun
	awaiting atomic.Bool
	in, out  int64
}

var muxstreams = sync.Pool{New: func() any {
	s := new(muxstream)
	s.x.init(s)
	return s
}}

// serve answers the stream's request.
func (s *muxstream) serve() {
	s.x.begin(loop.Now())
	head := s.st.Head()
	if head.TooLarge {
		s.ln.stats.countRefused(h1.ErrHeadLong)
		s.refuse(h1.ErrHeadLong)
		return
	}
	if head.Protocol != nil {
		if string(head.Protocol) != "websocket" {
			s.refuse(errTunnel)
			return
		}
		s.tunnel = true
	}
	if !isHTTP(head.Scheme) {
		s.ln.stats.countRefused(h1.ErrTargetForm)
		s.refuse(h1.ErrTargetForm)
		return
	}
	s.head1(head)
	lim := s.set.heads
	n, err := s.req.Parse(s.buf, &lim)
	if err == nil && n != len(s.buf) {
		err = h1.ErrControl
	}
	if err != nil {
		e := err.(*h1.Error)
		s.ln.stats.countRefused(e)
		s.refuse(e)
		return
	}
	done := s.bodyDone()
	s.awaiting.Store(s.req.Expect100 && !done)
	s.pace.start(s.set)
	outcome := s.x.run(&s.req, nil, done)
	if s.x.status == 101 {
		s.x.status = 200 // as HTTP/2 has it
	}
	s.x.finish(s.in, s.out)
	if outcome == outcomeCut {
		s.st.Fail()
	}
}

// isHTTP reports whether a scheme is one that requests in HTTP/1.1 could have;
// plain CONNECT has none.
func isHTTP(scheme []byte) bool {
	return scheme == nil || bytes.EqualFold(scheme, schemeHTTP) || bytes.EqualFold(scheme, schemeHTTPS)
}

var schemeHTTP, schemeHTTPS = []byte("http"), []byte("https")

// errTunnel refuses protocols that cannot be carried to endpoints.
var errTunnel = &h1.Error{Status: 501, Reason: "protocol of an extended CONNECT that is not served"}

// refuse answers a request that cannot be passed on.
func (s *muxstream) refuse(e *h1.Error) {
	s.x.fail(refusal(e.Status), e)
	s.x.finish(s.in, s.out)
}

// close gives the stream back, with nothing of its request but buffers.
func (s *muxstream) close() {
	trim(&s.buf)
	s.x.trim()
	s.st, s.ln, s.set, s.altSvc = nil, nil, nil, ""
	s.req.Reset()
	s.tunnel, s.in, s.out = false, 0, 0
	s.answered.Store(false)
	s.awaiting.Store(false)
	s.x.detach()
	muxstreams.Put(s)
}

// head1 writes the request's head down in HTTP/1.1.
func (s *muxstream) head1(h *fields.Head) {
	b := s.buf[:0]
	if s.tunnel {
		b = append(b, "GET"...)
	} else {
		b = append(b, h.Method...)
	}
	b = append(b, ' ')
	if h.Path != nil {
		b = append(b, h.Path...)
	} else {
		b = append(b, h.Authority...) // CONNECT, which is refused as in HTTP/1.1
	}
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, h.Authority...)
	b = append(b, h1.CRLF...)
	b = append(b, h.Lines...)
	switch {
	case s.tunnel: // RFC 8441 section 5, RFC 9220: what HTTP/1.1 has instead
		b = append(b, "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: "...)
		var key [16]byte
		rand.Read(key[:])
		b = base64.StdEncoding.AppendEncode(b, key[:])
		b = append(b, h1.CRLF...)
	case h.ContentLength >= 0:
	case !h.End:
		b = append(b, "Transfer-Encoding: chunked\r\n"...)
	case expectsContent(h.Method):
		// RFC 9110 section 8.6: a method that expects content says that
		// there is none.
		b = append(b, "Content-Length: 0\r\n"...)
	}
	s.buf = append(b, h1.CRLF...)
	s.in = int64(len(s.buf))
}

func expectsContent(method []byte) bool {
	switch string(method) {
	case "POST", "PUT", "PATCH":
		return true
	}
	return false
}

func (s *muxstream) nextBody() ([]byte, error) {
	s.pace.resume()
	for {
		// A whole window follows the 100, whenever in the wait it comes.
		awaiting := s.awaiting.Load()
		s.st.SetReadDeadline(s.pace.deadline())
		b, err := s.st.Read()
		switch {
		case err == nil:
			s.awaiting.Store(false) // it did not wait
			s.in += int64(len(b))
			s.pace.add(len(b))
			return b, nil
		case err == io.EOF || err == errStopped:
			s.pace.left = loop.Now()
			return nil, err
		case err != loop.ErrTimeout:
			return nil, errClientGone
		case awaiting, s.answered.Load():
			// A 100 that the endpoint has not given; or a stream in both
			// directions, whose client may well be silent: the endpoint's
			// answer time-out bounds how long both are.
			s.pace.start(s.set)
			s.pace.resume()
		case s.pace.slow():
			s.ln.stats.limits[limitBodyTimeout].Inc()
			return nil, errSlowBody
		}
	}
}

func (s *muxstream) moveBody(loop.Conn, func()) (int64, error, error) { return 0, nil, nil }

// bodyDone reports whether everything has been read: a tunnel has no body.
func (s *muxstream) bodyDone() bool       { return s.tunnel || s.st.Exhausted() }
func (s *muxstream) bodyTrailer() []byte  { return s.st.Trailer() }
func (s *muxstream) stopBody(cause error) { s.st.Interrupt(cause) }
func (s *muxstream) resumeBody() bool {
	s.st.Resume()
	return true
}
func (s *muxstream) release()         { s.st.Release() }
func (s *muxstream) alive() bool      { return s.st.Alive() }
func (s *muxstream) protocol() string { return s.name }
func (s *muxstream) cut()             { s.st.Fail() }

func (s *muxstream) takeOver() (loop.Conn, []byte) { return s.st.Tunnel(), nil }

// acceptField proves an upgrade in HTTP/1.1. Here the 200 does.
var acceptField = []byte("sec-websocket-accept")

func (s *muxstream) interim(res *h1.Response) error {
	status := res.Status
	lines := appendFields(s.buf[:0], &res.Message, answers)
	switch status {
	case 100:
		s.awaiting.Store(false)
	case 101:
		status = 200
		lines = s.buf[:0]
		for i := range res.Fields {
			f := &res.Fields[i]
			if !f.Hop && !bytes.EqualFold(res.Name(f), acceptField) {
				lines = append(lines, res.Line(f)...)
				lines = append(lines, h1.CRLF...)
			}
		}
		lines = append(lines, s.x.binding.line...)
	}
	s.buf = lines
	s.countHead(len(lines))
	return s.wrote(s.st.Respond(status, lines, false))
}

// countHead counts a head as long as it would be in HTTP/1.1.
func (s *muxstream) countHead(lines int) { s.out += int64(len("HTTP/2 200\r\n\r\n") + lines) }

func (s *muxstream) head(res *h1.Response, body h1.Body, _ int64, data []byte, last bool) error {
	lines := appendFields(s.buf[:0], &res.Message, answers)
	lines = append(lines, s.x.binding.line...)
	if s.altSvc != "" && s.x.advertises(res) {
		lines = append(lines, s.altSvc...)
	}
	if res.Length >= 0 && res.Status != 204 && body != h1.BodyChunked {
		lines = appendLength(lines, res.Length)
	}
	s.buf = lines
	s.answered.Store(true)
	s.countHead(len(lines))
	s.out += int64(len(data))
	return s.wrote(s.st.RespondBody(res.Status, lines, data, last))
}

func (s *muxstream) body(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	return s.write(data, false)
}

func (s *muxstream) write(data []byte, last bool) error {
	s.out += int64(len(data))
	return s.wrote(s.st.Write(data, last))
}

// wrote sorts an error of writing to the client.
func (s *muxstream) wrote(err error) error {
	if err == loop.ErrStalled {
		s.ln.stats.limits[limitSendTimeout].Inc()
	}
	return err
}

func (s *muxstream) move(from loop.Conn, n int64, how loop.Moving) (moved int64, endpointErr, clientErr error) {
	return loop.Move(&muxsink{s, n}, from, n, how)
}

// muxsink takes the bytes that are moved to a stream, and ends it with the last.
type muxsink struct {
	s    *muxstream
	left int64
}

func (k *muxsink) Write(b []byte) error {
	k.left -= int64(len(b))
	return k.s.write(b, k.left <= 0)
}

func (s *muxstream) end(trailer []byte) error {
	if len(trailer) > 0 {
		return s.wrote(s.st.WriteTrailer(trailer))
	}
	return s.write(nil, true)
}

func (s *muxstream) page(status int, _, lines, body string) error {
	out := append(s.buf[:0], lines...)
	if s.altSvc != "" && s.x.lb != nil {
		out = append(out, s.altSvc...)
	}
	if hasLength(status) {
		out = appendLength(out, int64(len(body)))
	}
	s.countHead(len(out))
	if s.x.isHead {
		body = ""
	}
	s.out += int64(len(body))
	at := len(out)
	s.buf = append(out, body...)
	return s.wrote(s.st.RespondBody(status, s.buf[:at], s.buf[at:], true))
}
