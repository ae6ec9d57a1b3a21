package h2

import "fairlead/internal/loop"

// This file is flow control: what may be sent, who waits until it may, and how
// windows that were used up are opened again.

// streamQueue is a queue of streams that wait for something of the connection.
type streamQueue struct{ first, last *Stream }

func (q *streamQueue) push(s *Stream) {
	s.in, s.next = q, nil
	if q.last == nil {
		q.first = s
	} else {
		q.last.next = s
	}
	q.last = s
}

func (q *streamQueue) remove(s *Stream) {
	var before *Stream
	for x := q.first; x != s; x = x.next {
		before = x
	}
	if before == nil {
		q.first = s.next
	} else {
		before.next = s.next
	}
	if q.last == s {
		q.last = before
	}
	s.in, s.next = nil, nil
}

// wakeWaiting wakes the stream whose turn it is, if it can go on. It is called
// where there is more room, or window, and where a stream has left its queue: so
// they are woken one after the other, in their order, as far as there is room.
// Heads come first, as they are small.
func (c *conn) wakeWaiting() {
	switch {
	case !c.room():
	case c.waitingHeads.first != nil:
		c.waitingHeads.first.wakeWrite()
	case c.waiting.first != nil && c.sendWindow > 0:
		c.waiting.first.wakeWrite()
	}
}

// turn reports whether no other stream has waited for longer to send data.
func (s *Stream) turn() bool {
	c := s.c
	return c.waitingHeads.first == nil && (c.waiting.first == nil || c.waiting.first == s)
}

// leaveQueue gives up the place in a queue, if there is one.
func (s *Stream) leaveQueue() {
	if s.in != nil {
		s.in.remove(s)
		s.c.wakeWaiting()
	}
}

// progress notes that something was sent, or that the stream gives up: it has no
// place in a queue any more, and a stall would begin anew.
func (s *Stream) progress() {
	s.stalled = 0
	s.leaveQueue()
}

// wait waits until the writing task of the stream may go on: in a queue of the
// connection, or without one for the stream's own window. It keeps its place in
// the queue until progress, as it does the beginning of the stall: that it was
// woken is no progress.
func (s *Stream) wait(q *streamQueue) error {
	if s.in != q {
		s.leaveQueue()
		if q != nil {
			q.push(s)
		}
	}
	var by loop.Time
	if s.writeTimeout > 0 {
		if s.stalled == 0 {
			s.stalled = loop.Now()
		}
		by = s.stalled.Add(s.writeTimeout)
	}
	s.writeWaits = true
	stall := s.c.pause(s.writeBell, by)
	s.writeWaits = false
	err := s.writable()
	if stall != nil {
		err = loop.ErrStalled
	}
	if err != nil {
		s.progress()
	}
	if stall != nil {
		s.c.count(EventWriteTimeout)
	}
	return err
}

// writable reports why nothing can be written.
func (s *Stream) writable() error {
	switch {
	case s.cause != nil:
		return s.cause
	case s.err != nil:
		return s.err
	case s.sentEnd:
		return errEnded
	}
	return nil
}

// push appends as much of b as it can, as DATA, and reports how much that was.
func (s *Stream) push(b []byte, end bool) int {
	c := s.c
	if len(b) == 0 {
		if end {
			s.endSent()
			c.append(appendFrameHeader(c.output().b, 0, frameData, flagEndStream, s.id))
		}
		return 0
	}
	pushed := 0
	for pushed < len(b) && c.room() && s.turn() {
		n := int(min(int64(len(b)-pushed), maxFrame, s.sendWindow, c.sendWindow))
		if n <= 0 {
			break
		}
		flags := byte(0)
		if end && pushed+n == len(b) {
			flags = flagEndStream
			s.endSent()
		}
		out := appendFrameHeader(c.output().b, n, frameData, flags, s.id)
		c.append(append(out, b[pushed:pushed+n]...))
		s.sendWindow -= int64(n)
		c.sendWindow -= int64(n)
		pushed += n
		c.sent++
	}
	if pushed > 0 {
		s.progress()
	}
	return pushed
}

// Write writes all of b as a part of the body, and ends it if end is set. A write
// that makes no progress for the write time-out ends with loop.ErrStalled.
func (s *Stream) Write(b []byte, end bool) error {
	s.c.mu.Lock()
	defer s.c.unlock()
	return s.write(b, end)
}

func (s *Stream) write(b []byte, end bool) error {
	if err := s.writable(); err != nil {
		return err
	}
	if !s.sentHead {
		return errNoHead
	}
	n := s.push(b, end)
	if n == len(b) {
		return nil
	}
	// b may be borrowed, and is not valid any more after a wait.
	hold := outputs.Get().(*output)
	defer hold.free()
	hold.b = append(hold.b, b[n:]...)
	for rest := hold.b; len(rest) > 0; rest = rest[n:] {
		if err := s.waitPush(); err != nil {
			return err
		}
		n = s.push(rest, end)
	}
	return nil
}

// waitPush waits until data may be pushed again.
func (s *Stream) waitPush() error {
	if s.sendWindow > 0 {
		return s.wait(&s.c.waiting)
	}
	return s.wait(nil)
}

// Respond sends a head: an interim one (status below 200), or the answer's. lines
// are field lines of HTTP/1.1; those that belong to a connection are left out.
// end says that neither body nor trailers follow.
func (s *Stream) Respond(status int, lines []byte, end bool) error {
	return s.RespondBody(status, lines, nil, end)
}

// RespondBody is Respond with the beginning of the body, in one go if it fits.
func (s *Stream) RespondBody(status int, lines, body []byte, end bool) error {
	c := s.c
	c.mu.Lock()
	defer c.unlock()
	if err := s.writable(); err != nil {
		return err
	}
	switch {
	case s.sentHead:
		return errHeadTwice
	case status < 100 || status > 999 || status == 101:
		return errStatus
	}
	if !s.mayHead() {
		hold := outputs.Get().(*output)
		defer hold.free()
		hold.b = append(append(hold.b, lines...), body...)
		lines, body = hold.b[:len(lines)], hold.b[len(lines):]
		if err := s.waitHead(); err != nil {
			return err
		}
	}
	endHead := end && len(body) == 0
	at := c.beginBlock()
	c.enc.status(status)
	c.enc.lines(lines)
	c.endBlock(at, s.id, endHead)
	c.kick()
	if status >= 200 {
		s.sentHead = true
		if endHead {
			s.endSent()
		}
	}
	if endHead || len(body) == 0 {
		return nil
	}
	return s.write(body, end)
}

// mayHead reports whether a head can be appended now.
func (s *Stream) mayHead() bool {
	q := &s.c.waitingHeads
	return s.c.room() && (q.first == nil || q.first == s)
}

// waitHead waits until a head can be appended.
func (s *Stream) waitHead() error {
	for !s.mayHead() {
		if err := s.wait(&s.c.waitingHeads); err != nil {
			return err
		}
	}
	s.progress()
	return nil
}

// WriteTrailer ends the body with trailers, given as lines of HTTP/1.1.
func (s *Stream) WriteTrailer(lines []byte) error {
	c := s.c
	c.mu.Lock()
	defer c.unlock()
	if err := s.writable(); err != nil {
		return err
	}
	if !s.sentHead {
		return errNoHead
	}
	if !s.mayHead() {
		hold := outputs.Get().(*output)
		defer hold.free()
		hold.b = append(hold.b, lines...)
		lines = hold.b
		if err := s.waitHead(); err != nil {
			return err
		}
	}
	s.pushTrailer(lines)
	return nil
}

// pushTrailer appends trailers.
func (s *Stream) pushTrailer(lines []byte) {
	if len(lines) == 0 {
		s.push(nil, true)
		return
	}
	c := s.c
	at := c.beginBlock()
	c.enc.lines(lines)
	c.endBlock(at, s.id, true)
	s.endSent()
	c.kick()
}

// receive keeps data until it is read.
func (s *Stream) receive(b []byte) {
	for len(b) > 0 {
		k := s.last
		if k == nil || k.room() == 0 {
			k = takeChunk(len(b))
			if s.last == nil {
				s.first = k
			} else {
				s.last.next = k
			}
			s.last = k
		}
		n := min(k.room(), len(b))
		k.b = append(k.b, b[:n]...)
		b = b[n:]
	}
	s.wakeRead()
}

// dropData drops what was received and not read.
func (s *Stream) dropData() {
	n := 0
	for s.first != nil {
		k := s.first
		s.first = k.next
		n += len(k.data())
		k.free()
	}
	s.last = nil
	s.c.credit(n)
}

// credit opens the windows again by n bytes that were consumed. It tells the
// other end when half a window has come together.
func (s *Stream) credit(n int) {
	c := s.c
	c.credit(n)
	s.credited += n
	if s.credited < c.StreamWindow/2 || s.recvEnd || s.cut != cutNot || c.err != nil {
		return
	}
	s.recvWindow += int64(s.credited)
	c.append(appendWindowUpdate(c.output().b, s.id, s.credited))
	s.credited = 0
}

// credit is that for the connection's window alone.
func (c *conn) credit(n int) {
	c.credited += n
	if c.credited < c.ConnWindow/2 || c.err != nil {
		return
	}
	c.recvWindow += int64(c.credited)
	c.append(appendWindowUpdate(c.output().b, 0, c.credited))
	c.credited = 0
}
