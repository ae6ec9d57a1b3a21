package httplb

import (
	"crypto/tls"
	"errors"
	"io"
	"runtime"
	"sync/atomic"
	"time"

	"fairlead/internal/h1"
	"fairlead/internal/loop"
)

// session is one HTTP/1.1 connection of a client: it reads requests and has
// an exchange answer each. It is the stream of the exchange that runs.
type session struct {
	c   loop.Conn
	ln  *listener
	set *settings
	x   exchange

	req   h1.Request
	kept  []byte // bytes that were read and not used: the start of the next request
	spare []byte // becomes kept; what was kept may still be read from
	out   []byte // answer heads are made here

	// The request's body.
	bodyKind  h1.Body
	bodyLeft  int64  // for BodyLength
	over      []byte // what moveBody read of the part that is not moved
	chunked   h1.Chunked
	done      atomic.Bool // the whole body was read
	awaiting  atomic.Bool // the client sends no body before it is told to
	pace      pace
	http10    bool
	keepAlive bool // the client asked for it in HTTP/1.0
	chunking  bool // the answer's body is chunked
	closing   bool // the connection ends after this answer
	bytesIn   int64
	bytesOut  int64

	state atomic.Int32 // of the wait between requests
}

// States of the wait between requests: whoever closes the listener interrupts
// only sessions that wait for a request of which nothing has come.
const (
	stateBusy int32 = iota
	stateIdle
	stateInterrupting
	stateInterrupted
)

// newSession prepares a session on c.
func newSession(ln *listener, c loop.Conn, tlsState *tls.ConnectionState) *session {
	s := &session{c: c, ln: ln, set: ln.set.Load()}
	s.x.init(ln, s, c.Remote())
	if tlsState != nil {
		s.x.secure = true
		s.x.tls = tlsState
	}
	return s
}

// serve answers requests until the connection ends.
func (s *session) serve() {
	defer s.c.Close()
	deadline := loop.Now().Add(s.set.HeaderTimeout) // of the first request, from its connection's start
	for s.one(deadline) {
		deadline = s.x.ended.Add(s.set.IdleTimeout)
	}
}

// interrupt ends the wait for the next request, if that is what goes on.
func (s *session) interrupt() {
	if s.state.CompareAndSwap(stateIdle, stateInterrupting) {
		s.c.Interrupt(errDraining)
		s.state.Store(stateInterrupted)
	}
}

// busy ends the state of waiting. If the wait was interrupted when bytes had
// come already, the request is still answered.
func (s *session) busy() {
	if s.state.CompareAndSwap(stateIdle, stateBusy) {
		return
	}
	for s.state.Load() == stateInterrupting {
		runtime.Gosched()
	}
	s.c.Resume()
	s.state.Store(stateBusy)
}

// one reads one request and answers it. deadline is for its first byte.
func (s *session) one(deadline loop.Time) (again bool) {
	b := s.kept
	s.kept, s.spare = s.spare[:0], b
	if len(b) == 0 {
		s.state.Store(stateIdle)
		wait := deadline
		if s.ln.draining.Load() {
			wait = min(wait, loop.Now().Add(idleGrace))
		}
		s.c.SetReadDeadline(wait)
		var err error
		b, err = s.c.Read(nil)
		if err == errDraining && s.c.Alive() && !s.c.Quiet() {
			// A request came in the same moment.
			s.busy()
			b, err = s.c.Read(nil)
		}
		if err != nil {
			switch {
			case err != loop.ErrTimeout || wait != deadline:
			case s.x.ended == 0:
				s.ln.stats.limits[limitHeaderTimeout].Inc()
			default:
				s.ln.stats.limits[limitIdleTimeout].Inc()
			}
			return false
		}
		s.busy()
	}
	s.set = s.ln.set.Load()
	start := loop.Now()
	s.done.Store(false)
	s.x.begin(start)
	s.bytesIn, s.bytesOut = int64(len(b)), 0
	lim := s.set.heads
	var n int
	for waited := false; ; {
		var err error
		if n, err = s.req.Parse(b, &lim); err != nil {
			s.refuse(err)
			return false
		}
		if n > 0 {
			break
		}
		if !waited {
			waited = true
			d := start.Add(s.set.HeaderTimeout)
			if s.x.ended == 0 {
				d = min(d, deadline)
			}
			s.c.SetReadDeadline(d)
		}
		have := len(b)
		if b, err = s.c.Read(b); err != nil {
			if err == loop.ErrTimeout {
				s.ln.stats.limits[limitHeaderTimeout].Inc()
				s.closing = true
				s.x.fail(failTimeout, err)
				s.x.finish(s.bytesIn, s.bytesOut)
				s.linger()
			}
			return false
		}
		s.bytesIn += int64(len(b) - have)
	}
	first, err := s.openBody(b[n:])
	if err != nil {
		s.refuse(err)
		return false
	}
	s.http10 = s.req.HTTP10
	s.keepAlive = s.http10 && !s.req.Close
	s.closing = s.req.Close || s.ln.draining.Load()
	outcome := s.x.run(&s.req, first, s.done.Load())
	s.x.finish(s.bytesIn, s.bytesOut)
	s.c.Release()
	s.trim()
	switch {
	case outcome == outcomeCut:
		s.c.Abort()
		return false
	case outcome == outcomeTaken:
		return false
	case !s.done.Load():
		s.linger()
		return false
	case s.closing:
		s.finish()
		return false
	}
	return true
}

// keepBuffer is how much of each buffer is kept for the next request. A rare long
// request must not make the connection dear for ever.
const keepBuffer = 8 << 10

// trim gives up buffers that a request has made large.
func (s *session) trim() {
	for _, b := range [...]*[]byte{&s.out, &s.spare, &s.over, &s.x.out, &s.x.hold, &s.x.text, &s.x.host} {
		if cap(*b) > keepBuffer {
			*b = nil
		}
	}
	if cap(s.kept) > keepBuffer && len(s.kept) == 0 {
		s.kept = nil
	}
	if cap(s.chunked.Trailer()) > keepBuffer {
		s.chunked = h1.Chunked{}
	}
	if cap(s.x.coding.Trailer()) > keepBuffer {
		s.x.coding = h1.Chunked{}
	}
}

// refuse answers a request that could not be read.
func (s *session) refuse(err error) {
	s.closing = true
	f := failBadRequest
	var e *h1.Error
	if errors.As(err, &e) {
		s.ln.stats.countRefused(e)
		f = refusal(e.Status)
	}
	s.x.fail(f, err)
	s.x.finish(s.bytesIn, s.bytesOut)
	s.linger()
}

// openBody prepares for the body of s.req, whose start is in b behind the
// head, and returns that start. What follows the body is kept.
func (s *session) openBody(b []byte) (first []byte, err error) {
	s.bodyKind = s.req.Body
	done := true
	switch s.req.Body {
	case h1.BodyLength:
		k := int(min(int64(len(b)), s.req.Length))
		first, b = b[:k], b[k:]
		s.bodyLeft = s.req.Length - int64(k)
		done = s.bodyLeft == 0
	case h1.BodyChunked:
		lim := s.set.heads
		s.chunked.Reset(&lim)
		s.chunked.Discard = s.req.NamesFields
		data, used, ended, err := s.chunked.Decode(b)
		if err != nil {
			return nil, err
		}
		first, b, done = b[:data], b[used:], ended
	}
	if len(b) > 0 {
		s.keep(b)
	}
	s.done.Store(done)
	s.awaiting.Store(!done && s.req.Expect100 && len(first) == 0)
	if !done {
		s.pace.start(s.set)
	}
	return first, nil
}

// keep stores what was read and belongs to the next request, where it counts.
func (s *session) keep(b []byte) {
	s.kept = append(s.kept[:0], b...)
	s.bytesIn -= int64(len(b))
}

func (s *session) nextBody() ([]byte, error) {
	if s.done.Load() {
		return nil, io.EOF
	}
	s.pace.resume()
	for {
		s.c.SetReadDeadline(s.pace.deadline())
		b, err, awaiting := s.over, error(nil), false
		if s.over = s.over[:0]; len(b) == 0 {
			// A whole window follows the 100, whenever in the wait it comes.
			awaiting = s.awaiting.Load()
			b, err = s.c.Read(nil)
		}
		switch {
		case err == loop.ErrTimeout:
			if awaiting { // a 100 that the endpoint has not given
				s.pace.start(s.set)
				s.pace.resume()
				continue
			}
			if s.pace.slow() {
				s.ln.stats.limits[limitBodyTimeout].Inc()
				return nil, errSlowBody
			}
			continue
		case err == errStopped:
			s.pace.left = loop.Now()
			return nil, err
		case err != nil:
			return nil, errClientGone
		}
		s.awaiting.Store(false) // it did not wait
		s.bytesIn += int64(len(b))
		s.pace.add(len(b))
		if s.bodyKind == h1.BodyLength {
			k := int(min(int64(len(b)), s.bodyLeft))
			if s.bodyLeft -= int64(k); s.bodyLeft == 0 {
				s.keep(b[k:])
				s.done.Store(true)
			}
			return b[:k], nil
		}
		data, used, ended, err := s.chunked.Decode(b)
		if err != nil {
			s.ln.stats.countRefused(err.(*h1.Error))
			return nil, err
		}
		if ended {
			s.keep(b[used:])
			s.done.Store(true)
		}
		if data > 0 {
			return b[:data], nil
		}
		if ended {
			return nil, io.EOF
		}
	}
}

// Bodies longer than bulkBody are moved rather than read; their last bodyTail
// bytes are read, so that the whole body counts as done before its last byte
// is written, and an answer to it is never taken for an early one.
const (
	bulkBody = 1 << 20
	bodyTail = 64 << 10
)

func (s *session) moveBody(to loop.Conn, progress func()) (n int64, clientErr, endpointErr error) {
	if s.bodyKind != h1.BodyLength || s.bodyLeft < bulkBody {
		return 0, nil, nil
	}
	s.pace.resume()
	n, clientErr, endpointErr = loop.Move(to, s.c, s.bodyLeft-bodyTail, loop.Moving{
		Timeout: s.set.BodyTimeout,
		Arrived: s.pace.arrived,
		Progress: func(int) error { // the endpoint has taken it
			s.pace.resume()
			progress()
			return nil
		},
		Excess: func(b []byte) { s.over = append(s.over[:0], b...) },
	})
	s.bodyLeft -= n
	s.bytesIn += n
	if clientErr == errStopped {
		s.pace.left = loop.Now()
	}
	switch {
	case clientErr == loop.ErrExcess: // where it could only copy
		clientErr = nil
	case clientErr == loop.ErrTimeout, clientErr == errSlowBody:
		s.ln.stats.limits[limitBodyTimeout].Inc()
		clientErr = errSlowBody
	case clientErr != nil && clientErr != errStopped:
		clientErr = errClientGone
	}
	return n, clientErr, endpointErr
}

func (s *session) bodyDone() bool       { return s.done.Load() }
func (s *session) bodyTrailer() []byte  { return s.chunked.Trailer() }
func (s *session) stopBody(cause error) { s.c.Interrupt(cause) }
func (s *session) resumeBody() bool {
	s.c.Resume()
	return true
}
func (s *session) release()    { s.c.Release() }
func (s *session) alive() bool { return s.c.Alive() }

func (s *session) takeOver() (loop.Conn, []byte) { return s.c, s.kept }
func (s *session) cut()                          {} // serve aborts the connection

// finish closes the connection after the last answer.
func (s *session) finish() {
	if len(s.kept) > 0 || !s.c.Quiet() {
		s.linger()
	}
}

// Bounds of lingering.
const (
	lingerTime  = 2 * time.Second
	lingerBytes = 16 << 20
)

// linger lets the client read the answer although it is still sending: closing
// with unread bytes would reset the connection, and the reset overtakes the
// answer (RFC 9112 section 9.6).
func (s *session) linger() {
	if s.c.CloseWrite() != nil {
		return
	}
	s.c.SetReadDeadline(loop.Now().Add(lingerTime))
	for n := 0; n < lingerBytes; {
		b, err := s.c.Read(nil)
		if err != nil {
			return
		}
		n += len(b)
	}
}

func (s *session) protocol() string {
	if s.http10 {
		return "HTTP/1.0"
	}
	return "HTTP/1.1"
}
