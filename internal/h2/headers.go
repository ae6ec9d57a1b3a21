package h2

import (
	"encoding/binary"

	"fairlead/internal/fields"
	"fairlead/internal/loop"
)

// This file is what becomes of header blocks.

func (c *conn) headersFrame(h *frameHeader, p []byte) error {
	p, ok := unpad(h, p)
	if !ok {
		return protocol("more padding than payload")
	}
	self := false
	if h.has(flagPriority) {
		if len(p) < 5 {
			return frameSize("HEADERS is too short for its priority")
		}
		self = binary.BigEndian.Uint32(p)&maxStreamID == h.id
		p = p[5:]
	}
	end := h.has(flagEndStream)
	if h.has(flagEndHeaders) {
		return c.headers(h.id, end, self, p)
	}
	c.block = headerBlock{open: true, id: h.id, end: end, self: self, buf: c.block.buf[:0], by: by(loop.Now(), c.HeaderTimeout)}
	return c.fragment(p)
}

func (c *conn) continuationFrame(h *frameHeader, p []byte) error {
	if !c.block.open {
		return protocol("CONTINUATION without HEADERS")
	}
	if err := c.fragment(p); err != nil || !h.has(flagEndHeaders) {
		return err
	}
	b := &c.block
	b.open = false
	err := c.headers(b.id, b.end, b.self, b.buf)
	if cap(b.buf) > maxFrame {
		b.buf = nil
	}
	return err
}

// fragment adds a part to the header block.
func (c *conn) fragment(p []byte) error {
	b := &c.block
	b.frames++
	if len(p) == 0 {
		b.empty++
	}
	if b.frames > maxFragments || b.empty > maxEmptyFragments || len(b.buf)+len(p) > c.blockBytes() {
		return &ConnError{Code: CodeEnhanceYourCalm, Reason: "header block in too many frames or bytes", event: EventContinuationFlood}
	}
	b.buf = append(b.buf, p...)
	return nil
}

// decode reads a block into f. Without f, it only keeps the decoder's table as
// the other end has it.
func (c *conn) decode(block []byte, f *fields.Block) error {
	c.reading, c.decoded = f, 0
	var err error
	for len(block) > 0 && err == nil {
		// A byte can stand for a field of the decoder's whole table. So the
		// size is looked at every so many, and a block that is meant to cost
		// much is not decoded to its end.
		part := block[:min(len(block), decodePart)]
		block = block[len(part):]
		if _, err = c.dec.Write(part); c.decoded > c.listBytes() {
			return &ConnError{Code: CodeEnhanceYourCalm, Reason: "header block is far too large", event: EventHeaderFlood}
		}
	}
	if cerr := c.dec.Close(); err == nil {
		err = cerr
	}
	c.reading = nil
	if err != nil {
		return &ConnError{Code: CodeCompression, Reason: "malformed header block"}
	}
	if f != nil && f.TooLarge {
		c.count(EventHeaderLimit)
	}
	return nil
}

// headers handles a complete header block.
func (c *conn) headers(id uint32, end, self bool, block []byte) error {
	s := c.streams[id]
	var reason string
	switch {
	case s == nil:
		return c.headersOfNone(id, end, self, block)
	case s.cut == cutUs:
		return c.decode(block, nil)
	case s.finished():
		if err := c.decode(block, nil); err != nil {
			return err
		}
		return c.behindEnd("HEADERS")
	case s.recvEnd || s.cut == cutPeer:
		return c.spoiled(s, block, CodeStreamClosed, "HEADERS behind the end")
	case self:
		return c.spoiled(s, block, CodeProtocol, "stream depends on itself")
	case !s.headDone:
		return c.answerHead(s, end, block)
	case !end:
		return c.spoiled(s, block, CodeProtocol, "second head")
	}
	s.trailer.Reset(fields.Trailer, c.section())
	if err := c.decode(block, &s.trailer); err != nil {
		return err
	}
	reason = s.trailer.Finish(true)
	switch {
	case reason != "":
		return c.malformed(s, reason)
	case s.trailer.TooLarge:
		return c.offend(s, CodeEnhanceYourCalm, "trailers are too large")
	}
	c.endReceived(s)
	return nil
}

// spoiled resets a stream for a header block that is read all the same.
func (c *conn) spoiled(s *Stream, block []byte, code ErrCode, reason string) error {
	if err := c.decode(block, nil); err != nil {
		return err
	}
	return c.offend(s, code, reason)
}

// answerHead takes a head of an answer.
func (c *conn) answerHead(s *Stream, end bool, block []byte) error {
	if s.headsIn-s.headsOut >= maxInterim {
		return c.spoiled(s, block, CodeEnhanceYourCalm, "too many interim answers")
	}
	f := s.nextHead()
	f.Reset(fields.Response, c.section())
	if err := c.decode(block, f); err != nil {
		return err
	}
	if reason := f.Finish(end); reason != "" {
		return c.malformed(s, reason)
	}
	if f.TooLarge {
		return c.offend(s, CodeEnhanceYourCalm, "head is too large")
	}
	s.headsIn++
	if f.Status >= 200 {
		s.headDone = true
		s.declared = f.ContentLength
		if s.bodiless(f.Status) {
			s.declared = 0
		}
	}
	if end {
		c.endReceived(s)
	}
	s.wakeRead()
	return nil
}

// bodiless reports whether an answer of that status has no body, whatever length
// it declares.
func (s *Stream) bodiless(status int) bool { return s.noBody || status == 204 || status == 304 }

// headersOfNone takes a header block for a stream that is not there.
func (c *conn) headersOfNone(id uint32, end, self bool, block []byte) error {
	if !c.server || id <= c.lastID || id&1 == 0 {
		if id&1 == 0 || !c.server && c.isIdle(id) {
			return protocol("HEADERS on a stream that is not open")
		}
		if err := c.decode(block, nil); err != nil {
			return err
		}
		return c.closedFrame(id, "HEADERS")
	}
	c.lastID = id
	c.floods.frames++
	refused := EventRefused
	switch {
	case self:
		if err := c.decode(block, nil); err != nil {
			return err
		}
		c.refuseStream(id, CodeProtocol)
		return c.flood(EventRapidReset)
	case c.drain == drainRefused:
		refused = 0
		fallthrough
	case c.live-c.spent >= int(c.MaxStreams), c.live >= 2*int(c.MaxStreams):
		if err := c.decode(block, nil); err != nil {
			return err
		}
		c.count(refused)
		c.refuseStream(id, CodeRefusedStream)
		return c.flood(EventRefusedFlood)
	}
	s := c.newStream(id)
	f := s.nextHead()
	f.Reset(fields.Request, c.section())
	if err := c.decode(block, f); err != nil {
		c.discard(s)
		return err
	}
	if reason := f.Finish(end); reason != "" {
		c.count(EventMalformed)
		c.refuseStream(id, CodeProtocol)
		c.discard(s)
		return c.flood(EventRapidReset)
	}
	s.headsIn = 1
	s.headDone = true
	s.declared = f.ContentLength
	if end && s.declared > 0 {
		c.count(EventMalformed)
		c.refuseStream(id, CodeProtocol)
		c.discard(s)
		return c.flood(EventRapidReset)
	}
	s.recvEnd = end
	c.open(s)
	c.fresh = append(c.fresh, s)
	s.fresh = len(c.fresh)
	return nil
}

// closedStream remembers how a stream has ended.
type closedStream struct {
	id  uint32
	cut cut
}

// rememberStreams is how many streams are remembered. Frames that were on their
// way when we reset a stream are to be ignored, others on closed streams are
// errors.
const rememberStreams = 128

func (c *conn) remember(id uint32, how cut) {
	if len(c.closed) < rememberStreams {
		c.closed = append(c.closed, closedStream{id, how})
		return
	}
	c.closed[c.closedAt] = closedStream{id, how}
	c.closedAt = (c.closedAt + 1) % rememberStreams
}

// behindEnd judges DATA or HEADERS on a stream that both have ended in order.
func (c *conn) behindEnd(what string) error {
	if !c.server {
		return nil // whatever the server still sends on it is late
	}
	return &ConnError{Code: CodeStreamClosed, Reason: what + " on a stream that is closed"}
}

// closedFrame judges DATA or HEADERS on a stream that is over.
func (c *conn) closedFrame(id uint32, what string) error {
	if !c.server {
		return nil // whatever the server still sends on it is late
	}
	for i := range c.closed {
		if c.closed[i].id != id {
			continue
		}
		switch c.closed[i].cut {
		case cutUs:
			return nil
		case cutPeer:
			c.refuseStream(id, CodeStreamClosed)
			return c.flood(EventResetFlood)
		}
		return c.behindEnd(what)
	}
	if what == "DATA" { // of a stream that ended long ago, or was never opened
		c.refuseStream(id, CodeStreamClosed)
		return c.flood(EventResetFlood)
	}
	return protocol("stream identifier is lower than one before")
}
