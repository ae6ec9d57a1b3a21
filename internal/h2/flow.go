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

func (q *streamQueue) pop() *Stream {
	s := q.first
	if s == nil {
		return nil
	}
	if q.first = s.next; q.first == nil {
		q.last = nil
	}
	s.in, s.next = nil, nil
	return s
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

// wakeWaiting wakes the stream whose turn it is, if it can go on. Each stream
// that was woken calls it when it has taken its share, or wants none any more: so
// they are woken one after the other, in their order, as far as there is room.
func (c *conn) wakeWaiting() {
	if !c.room() {
		return
	}
	if s := c.waitingHeads.pop(); s != nil {
		s.wakeWrite()
	}
	if c.sendWindow > 0 {
		if s := c.waiting.pop(); s != nil {
			s.wakeWrite()
		}
	}
}

// wait waits until the writing task of the stream may go on: in a queue of the
// connection, or without one for the stream's own window.
func (s *Stream) wait(q *streamQueue) error {
	var by loop.Time
	if s.writeTimeout > 0 {
		by = loop.Now().Add(s.writeTimeout)
	}
	if q != nil {
		q.push(s)
	}
	s.writeWaits = true
	s.c.unlock()
	err := s.writeBell.Wait(by)
	s.c.mu.Lock()
	s.writeWaits = false
	if s.in != nil {
		s.in.remove(s)
	}
	if err == nil {
		err = s.writable()
	} else {
		s.c.count(EventWriteTimeout)
		err = loop.ErrStalled
	}
	if err != nil {
		s.c.wakeWaiting() // it may have been this stream's turn
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
	for pushed < len(b) && c.room() {
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
	c.wakeWaiting()
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
	if !c.room() {
		hold := outputs.Get().(*output)
		defer hold.free()
		hold.b = append(append(hold.b, lines...), body...)
		lines, body = hold.b[:len(lines)], hold.b[len(lines):]
		if err := s.waitRoom(); err != nil {
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
		c.wakeWaiting()
		return nil
	}
	return s.write(body, end)
}

// waitRoom waits until heads can be appended.
func (s *Stream) waitRoom() error {
	for !s.c.room() {
		if err := s.wait(&s.c.waitingHeads); err != nil {
			return err
		}
	}
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
	if !c.room() {
		hold := outputs.Get().(*output)
		defer hold.free()
		hold.b = append(hold.b, lines...)
		lines = hold.b
		if err := s.waitRoom(); err != nil {
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
	c.wakeWaiting()
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
