package h2

import (
	"errors"
	"io"
	"time"

	"fairlead/internal/fields"
	"fairlead/internal/loop"
)

// cut says how a stream was broken off.
type cut uint8

const (
	cutNot   cut = iota
	cutUs        // RST_STREAM was sent
	cutPeer      // RST_STREAM has come
	cutEnded     // only remembered: both directions have ended
)

// Stream is one request and its answer. A server's handler has it until it
// returns, a client from Open to Close; then it is used for another.
//
// One task reads from it and one writes to it.
type Stream struct {
	// User is the user's. It stays when the stream is used again for another
	// request of the same connection, so that what hangs on it can be too.
	User any

	c     *conn
	id    uint32 // 0 until the request was sent
	open  bool   // of a client: between Open and Close
	run   func() // of a server: the task
	fresh int    // of a server: 1 more than where it stands in conn.fresh, until the task is started

	// All that follows is guarded by c.mu.

	heads    []*fields.Block // those that have come, from headsOut on to be read
	headsIn  int
	headsOut int
	headDone bool // the request's head, or the answer's final one, has come
	trailer  fields.Block

	declared, received int64 // bytes of the body that is received
	noBody             bool  // the answer has no body, whatever it declares
	first, last        *chunk
	lent               *chunk
	recvWindow         int64
	credited           int // as of conn
	recvEnd            bool
	spent              bool // both directions have ended in order

	sendWindow   int64
	sentHead     bool
	sentEnd      bool
	mark         uint64 // c.queued before the request
	writeTimeout time.Duration

	cut   cut
	err   error // why nothing more is sent, and unless recvEnd received
	cause error // of Interrupt

	readBy                loop.Time
	readBell, writeBell   loop.Bell
	readWaits, writeWaits bool
	in                    *streamQueue // where it waits
	next                  *Stream      // behind it there
	stalled               loop.Time    // since when a write that goes on makes no progress; 0 if it does
}

// newStream returns a stream that is not open yet.
func (c *conn) newStream(id uint32) *Stream {
	var s *Stream
	if n := len(c.free); n > 0 {
		s = c.free[n-1]
		c.free = c.free[:n-1]
	} else {
		s = &Stream{c: c, readBell: c.d.Bell(), writeBell: c.d.Bell()}
		s.run = s.serve
	}
	s.id = id
	s.declared = -1
	s.recvWindow, s.sendWindow = int64(c.StreamWindow), c.peerWindow
	s.writeTimeout = c.WriteTimeout
	return s
}

// nextHead returns where the next head is to be put.
func (s *Stream) nextHead() *fields.Block {
	if s.headsOut == s.headsIn {
		// What was read last is still in use, so it is not written over.
		if s.headsIn > 1 {
			s.heads[0], s.heads[s.headsIn-1] = s.heads[s.headsIn-1], s.heads[0]
			s.headsIn, s.headsOut = 1, 1
		}
	}
	if s.headsIn == len(s.heads) {
		s.heads = append(s.heads, new(fields.Block))
	}
	return s.heads[s.headsIn]
}

// open makes a stream one of the connection's.
func (c *conn) open(s *Stream) {
	c.streams[s.id] = s
	c.live++
	c.rested = false
}

// endSent notes that our direction has ended.
func (s *Stream) endSent() {
	s.sentEnd = true
	s.bothEnded()
}

// bothEnded notes the end of a stream whose both directions have ended. A server's
// client may open another in its place from then on, although the handler has
// yet to return.
func (s *Stream) bothEnded() {
	if s.sentEnd && s.recvEnd && s.cut == cutNot && !s.spent {
		s.spent = true
		s.c.spent++
	}
}

// finished reports whether both directions have ended in order, be it that the
// handler has yet to return.
func (s *Stream) finished() bool { return s.spent && s.cut == cutNot }

// forget takes a stream that is over off the connection.
func (c *conn) forget(s *Stream) {
	s.leaveQueue()
	if s.id != 0 {
		delete(c.streams, s.id)
		how := s.cut
		if how == cutNot {
			how = cutEnded
			c.floods.streams++
		}
		if c.server {
			c.remember(s.id, how)
		}
	}
	if s.spent {
		c.spent--
	}
	c.discard(s)
	if c.live--; c.live > 0 {
		return
	}
	c.idle = loop.Now()
	if c.drain == drainRefused || c.peerGone {
		c.wakeReader()
	}
	c.tellReader()
}

// discard keeps a stream for another request.
func (c *conn) discard(s *Stream) {
	s.release()
	s.dropData()
	if c.err != nil || len(c.free) >= int(min(c.MaxStreams, 256)) {
		return
	}
	for _, f := range s.heads {
		f.Trim()
	}
	s.trailer.Trim()
	heads := s.heads
	if len(heads) > 2 {
		clear(heads[2:])
		heads = heads[:2]
	}
	*s = Stream{User: s.User, c: c, run: s.run, heads: heads, trailer: s.trailer,
		readBell: s.readBell, writeBell: s.writeBell}
	s.trailer.Lines = nil
	c.free = append(c.free, s)
}

// Head returns the head of a request that is served.
func (s *Stream) Head() *Head { return &s.heads[0].Head }

// ID returns the number of the stream, 0 while there is none.
func (s *Stream) ID() uint32 {
	s.c.mu.Lock()
	defer s.c.unlock()
	return s.id
}

// ReadHead waits for the next head of the answer: interim ones (1xx), then the
// final one.
func (s *Stream) ReadHead() (*Head, error) {
	s.c.mu.Lock()
	defer s.c.unlock()
	return s.readHead()
}

func (s *Stream) readHead() (*Head, error) {
	for {
		switch {
		case s.cause != nil:
			return nil, s.cause
		case s.headsOut < s.headsIn:
			s.headsOut++
			return &s.heads[s.headsOut-1].Head, nil
		case s.err != nil:
			return nil, s.err
		case s.headDone:
			return nil, io.EOF
		}
		if err := s.waitRead(); err != nil {
			return nil, err
		}
	}
}

// Read waits for the next bytes of the body, and returns io.EOF at its end. The
// bytes are lent until the next Read or Release.
func (s *Stream) Read() ([]byte, error) {
	s.c.mu.Lock()
	defer s.c.unlock()
	k, err := s.readChunk(true)
	if err != nil {
		return nil, err
	}
	return k.data(), nil
}

// errNothing says that there is nothing to read yet.
var errNothing = errors.New("nothing has come")

func (s *Stream) readChunk(wait bool) (*chunk, error) {
	s.release()
	for {
		switch {
		case s.cause != nil:
			return nil, s.cause
		case s.first != nil:
			k := s.first
			if s.first = k.next; s.first == nil {
				s.last = nil
			}
			k.next = nil
			s.lent = k
			s.credit(len(k.data()))
			return k, nil
		case s.recvEnd:
			return nil, io.EOF
		case s.err != nil:
			return nil, s.err
		case !wait:
			return nil, errNothing
		}
		if err := s.waitRead(); err != nil {
			return nil, err
		}
	}
}

// Trailer returns the trailer lines behind a body that was read to its end,
// without those that may not stand there (RFC 9110 section 6.5.1).
func (s *Stream) Trailer() []byte {
	s.c.mu.Lock()
	defer s.c.unlock()
	if !s.recvEnd {
		return nil
	}
	return s.trailer.Lines
}

// Received reports whether the other end has sent everything: what Read has not
// returned yet is there already.
func (s *Stream) Received() bool {
	s.c.mu.Lock()
	defer s.c.unlock()
	return s.recvEnd
}

// Exhausted reports whether Read has returned everything that the other end
// sends.
func (s *Stream) Exhausted() bool {
	s.c.mu.Lock()
	defer s.c.unlock()
	return s.recvEnd && s.first == nil
}

// Release gives back what the last Read lent.
func (s *Stream) Release() {
	s.c.mu.Lock()
	defer s.c.unlock()
	s.release()
}

func (s *Stream) release() {
	if s.lent != nil {
		s.lent.free()
		s.lent = nil
	}
}

// SetReadDeadline bounds waiting in Read and ReadHead, which then return
// loop.ErrTimeout; 0 is no bound. A wait that goes on keeps its own.
func (s *Stream) SetReadDeadline(t loop.Time) {
	s.c.mu.Lock()
	defer s.c.unlock()
	s.readBy = t
}

// SetWriteTimeout bounds how long a write may make no progress; 0 is no bound.
// It begins as Config.WriteTimeout.
func (s *Stream) SetWriteTimeout(d time.Duration) {
	s.c.mu.Lock()
	defer s.c.unlock()
	s.writeTimeout = d
}

// Interrupt ends waiting with the given cause, now and until Resume. A write that
// it ends has sent an unknown part.
func (s *Stream) Interrupt(cause error) {
	s.c.mu.Lock()
	defer s.c.unlock()
	s.cause = cause
	s.wakeRead()
	s.wakeWrite()
}

// Resume lets a stream that was interrupted wait again.
func (s *Stream) Resume() {
	s.c.mu.Lock()
	defer s.c.unlock()
	s.cause = nil
}

// Alive reports whether neither the stream was reset nor the connection lost.
func (s *Stream) Alive() bool { return s.Err() == nil }

// Err returns why nothing more can be sent, or nil.
func (s *Stream) Err() error {
	s.c.mu.Lock()
	defer s.c.unlock()
	return s.err
}

// Reset breaks the stream off, unless it has ended in both directions.
func (s *Stream) Reset(code ErrCode) {
	s.c.mu.Lock()
	defer s.c.unlock()
	s.reset(&StreamError{Code: code})
	s.dropData()
}

// Fail breaks the stream off with INTERNAL_ERROR, unless it has ended.
func (s *Stream) Fail() { s.Reset(CodeInternal) }

// reset sends RST_STREAM for the reason err.
func (s *Stream) reset(err *StreamError) {
	if s.cut != cutNot || s.id == 0 {
		s.fail(err)
		return
	}
	if !s.recvEnd || !s.sentEnd {
		s.cut = cutUs
		if s.c.err == nil {
			s.c.answer(appendRST(s.c.output().b, s.id, err.Code))
		}
	}
	s.fail(err)
}

// fail ends the stream. What has been received to its end can still be read.
func (s *Stream) fail(err error) {
	if s.err != nil {
		return
	}
	s.err = err
	if s.fresh > 0 {
		s.c.stillborn = s
	}
	if !s.recvEnd {
		s.dropData()
	}
	s.wakeRead()
	s.wakeWrite()
}

// processed makes err an ErrNotProcessed if nothing of the request was handed
// to the connection.
func (s *Stream) processed(err error) error {
	if !s.c.server && (s.id == 0 || s.c.handed <= s.mark) {
		return notProcessed{err}
	}
	return err
}

// ended reports whether the answer of a server was sent to its end.
func (s *Stream) ended() bool { return s.sentEnd }

// waitRead waits for anything to change for the reading task.
func (s *Stream) waitRead() error {
	s.readWaits = true
	err := s.c.pause(s.readBell, s.readBy)
	s.readWaits = false
	return err
}

func (s *Stream) wakeRead() {
	if s.readWaits {
		s.readWaits = false
		s.readBell.Ring()
	}
}

func (s *Stream) wakeWrite() {
	if s.writeWaits {
		s.writeWaits = false
		s.writeBell.Ring()
	}
}
