package httplb

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"fairlead/internal/h1"
	"fairlead/internal/loop"
)

// session is a run of requests on one HTTP/1.1 connection of a client: it reads
// requests and has an exchange answer each. It is the stream of the exchange
// that runs. Sessions are used again, on any connection, since a client that
// sends nothing needs none.
type session struct {
	k   *client
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
}

var sessions = sync.Pool{New: func() any {
	s := new(session)
	s.x.init(s)
	return s
}}

// openSession returns a session for what has come from a client.
func openSession(k *client) *session {
	s := sessions.Get().(*session)
	s.k, s.c, s.ln = k, k.c, k.ln
	s.x.attach(k)
	return s
}

// close gives the session back, with nothing of its requests but buffers.
func (s *session) close() {
	s.trim()
	s.k, s.c, s.ln, s.set = nil, nil, nil, nil
	s.req.Reset() // the last may have ended within its head
	s.kept, s.over = s.kept[:0], s.over[:0]
	s.bodyKind, s.bodyLeft, s.pace = h1.BodyNone, 0, pace{}
	s.done.Store(false)
	s.awaiting.Store(false)
	s.http10, s.keepAlive, s.chunking, s.closing = false, false, false, false
	s.x.detach()
	sessions.Put(s)
}

// after says what is to become of the connection after a session.
type after int

const (
	afterIdle   after = iota // it waits for the next request
	afterClose               // it is over
	afterCut                 // it is over, and the client must notice
	afterFinish              // it is over, and the client may be sending already
	afterLinger              // it is over, and the client is still sending
)

// serve answers the request that begins with b, and those that came with it.
func (s *session) serve(b []byte) after {
	for {
		next := s.one(b)
		if next != afterIdle || len(s.kept) == 0 {
			return next
		}
		// What was kept may still be read from when the next is kept.
		b = s.kept
		s.kept, s.spare = s.spare[:0], b
	}
}

// one reads one request, which begins with b, and answers it.
func (s *session) one(b []byte) after {
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
			return s.refuse(err)
		}
		if n > 0 {
			break
		}
		if !waited {
			waited = true
			d := start.Add(s.set.HeaderTimeout)
			if s.k.first { // from its connection's start
				d = min(d, s.k.deadline)
			}
			s.c.SetReadDeadline(d)
		}
		have := len(b)
		if b, err = s.c.Read(b); err != nil {
			if err == loop.ErrTimeout {
				s.ln.stats.limits[limitHeaderTimeout].Inc()
				s.closing = true
				s.x.fail(failTimeout, err)
				s.finish()
				return afterLinger
			}
			return afterClose
		}
		s.bytesIn += int64(len(b) - have)
	}
	first, err := s.openBody(b[n:])
	if err != nil {
		return s.refuse(err)
	}
	s.http10 = s.req.HTTP10
	s.keepAlive = s.http10 && !s.req.Close
	s.closing = s.req.Close || s.ln.draining.Load()
	outcome := s.x.run(&s.req, first, s.done.Load())
	s.finish()
	s.c.Release()
	switch {
	case outcome == outcomeCut:
		return afterCut
	case outcome == outcomeTaken:
		return afterClose
	case !s.done.Load():
		return afterLinger
	case s.closing && len(s.kept) > 0:
		return afterLinger
	case s.closing:
		return afterFinish
	}
	return afterIdle
}

// finish ends a request, and starts the time that the client may be silent.
func (s *session) finish() {
	s.x.finish(s.bytesIn, s.bytesOut)
	s.k.first = false
	s.k.deadline = s.x.ended.Add(s.set.IdleTimeout)
}

// keepBuffer is how much of each buffer is kept for the next request. A rare long
// request must not make a session dear for ever.
const keepBuffer = 8 << 10

// trim gives up those buffers that have become large.
func trim(buffers ...*[]byte) {
	for _, b := range buffers {
		if cap(*b) > keepBuffer {
			*b = nil
		}
	}
}

// trim gives up what a request has made large.
func (s *session) trim() {
	trim(&s.out, &s.spare, &s.over)
	if cap(s.kept) > keepBuffer && len(s.kept) == 0 {
		s.kept = nil
	}
	if cap(s.chunked.Trailer()) > keepBuffer {
		s.chunked = h1.Chunked{}
	}
	s.x.trim()
}

// refuse answers a request that could not be read.
func (s *session) refuse(err error) after {
	s.closing = true
	f := failBadRequest
	var e *h1.Error
	if errors.As(err, &e) {
		s.ln.stats.countRefused(e)
		f = refusal(e.Status)
	}
	s.x.fail(f, err)
	s.finish()
	return afterLinger
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
func (s *session) cut()                          {} // the connection is aborted when the session has ended

// Bounds of lingering.
const (
	lingerTime  = 2 * time.Second
	lingerBytes = 16 << 20
)

func (s *session) protocol() string {
	if s.http10 {
		return "HTTP/1.0"
	}
	return "HTTP/1.1"
}
