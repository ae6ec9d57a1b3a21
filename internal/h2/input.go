package h2

import (
	"encoding/binary"

	"golang.org/x/net/http2/hpack"

	"fairlead/internal/loop"
)

// dataFrame is a DATA frame whose payload is still coming.
type dataFrame struct {
	open bool
	id   uint32
	left int // bytes of data still to come
	pad  int // bytes of padding behind them
	end  bool
}

// headerBlock is a header block that is not complete.
type headerBlock struct {
	open   bool
	id     uint32
	end    bool // END_STREAM
	self   bool // the stream depends on itself
	buf    []byte
	frames int
	empty  int
	by     loop.Time
}

// What our PINGs carry.
var (
	pingAlive = [8]byte{'a', 'l', 'i', 'v', 'e'}
	pingDrain = [8]byte{'d', 'r', 'a', 'i', 'n'}
)

// input handles the frames in b and returns what is left: the beginning of a
// frame. It does not wait, and nothing keeps a part of b.
func (c *conn) input(b []byte) ([]byte, error) {
	if c.prefaceLeft > 0 {
		n := min(c.prefaceLeft, len(b))
		at := len(Preface) - c.prefaceLeft
		if string(b[:n]) != Preface[at:at+n] {
			return nil, protocol("no HTTP/2 preface")
		}
		c.prefaceLeft -= n
		b = b[n:]
	}
	for {
		if c.stillborn != nil {
			c.bury()
		}
		if c.data.open {
			b = c.moreData(b)
			if c.data.open {
				return b, nil
			}
		}
		if len(b) < frameHeaderLen {
			return b, nil
		}
		h := parseFrameHeader(b)
		if err := c.expected(&h); err != nil {
			return nil, err
		}
		if h.typ == frameData {
			if h.has(flagPadded) && h.length > 0 && len(b) == frameHeaderLen {
				return b, nil // the length of the padding is still to come
			}
			rest, err := c.beginData(&h, b[frameHeaderLen:])
			if err != nil {
				return nil, err
			}
			b = rest
			continue
		}
		if len(b) < frameHeaderLen+h.length {
			return b, nil
		}
		p := b[frameHeaderLen : frameHeaderLen+h.length]
		b = b[frameHeaderLen+h.length:]
		if err := c.frame(&h, p); err != nil {
			return nil, err
		}
	}
}

// expected judges a frame by its header alone.
func (c *conn) expected(h *frameHeader) error {
	switch {
	case h.length > maxFrame:
		return frameSize("frame is larger than SETTINGS_MAX_FRAME_SIZE")
	case c.needSettings && (h.typ != frameSettings || h.has(flagAck)):
		return protocol("first frame is not SETTINGS")
	case c.block.open && (h.typ != frameContinuation || h.id != c.block.id):
		return protocol("header block is not continued")
	}
	switch h.typ {
	case frameData, frameHeaders, framePriority, frameRST, frameContinuation:
		if h.id == 0 {
			return protocol("frame of a stream without a stream")
		}
	case frameSettings, framePing, frameGoAway:
		if h.id != 0 {
			return protocol("frame of the connection on a stream")
		}
	}
	return nil
}

func (c *conn) frame(h *frameHeader, p []byte) error {
	switch h.typ {
	case frameHeaders:
		return c.headersFrame(h, p)
	case frameContinuation:
		return c.continuationFrame(h, p)
	case framePriority:
		return c.priorityFrame(h, p)
	case frameRST:
		return c.rstFrame(h, p)
	case frameSettings:
		return c.settingsFrame(h, p)
	case framePushPromise:
		return protocol("PUSH_PROMISE that was not asked for")
	case framePing:
		return c.pingFrame(h, p)
	case frameGoAway:
		return c.goAwayFrame(p)
	case frameWindowUpdate:
		return c.windowFrame(h, p)
	}
	return c.flood(EventUnknownFlood)
}

// isIdle reports whether a stream was never opened.
func (c *conn) isIdle(id uint32) bool {
	if c.server {
		return id&1 == 0 || id > c.lastID
	}
	return id&1 == 0 || id >= c.nextID
}

// beginData begins a DATA frame; b is what has come of its payload.
func (c *conn) beginData(h *frameHeader, b []byte) ([]byte, error) {
	length, pad := h.length, 0
	if h.has(flagPadded) {
		if length == 0 || int(b[0]) >= length {
			return nil, protocol("more padding than payload")
		}
		pad = int(b[0])
		length -= 1 + pad
		b = b[1:]
	}
	if c.isIdle(h.id) {
		return nil, protocol("DATA on a stream that is not open")
	}
	if int64(h.length) > c.recvWindow {
		return nil, &ConnError{Code: CodeFlowControl, Reason: "DATA over the connection's window"}
	}
	c.recvWindow -= int64(h.length)
	c.credit(h.length - length) // padding is consumed at once
	end := h.has(flagEndStream)
	if length == 0 && !end {
		if err := c.flood(EventEmptyDataFlood); err != nil {
			return nil, err
		}
	}
	c.data = dataFrame{open: true, id: h.id, left: length, pad: pad, end: end}
	s := c.streams[h.id]
	if s == nil {
		return b, c.closedFrame(h.id, "DATA")
	}
	switch {
	case s.cut == cutUs:
		return b, nil
	case s.finished():
		return b, c.behindEnd("DATA")
	case s.recvEnd || s.cut == cutPeer:
		return b, c.offend(s, CodeStreamClosed, "DATA behind the end")
	case !s.headDone:
		return b, c.offend(s, CodeProtocol, "DATA before the head")
	case int64(h.length) > s.recvWindow:
		return b, c.offend(s, CodeFlowControl, "DATA over the window")
	}
	if length > 0 {
		c.floods.frames++
	}
	s.recvWindow -= int64(h.length)
	s.credit(h.length - length)
	s.received += int64(length)
	if s.declared >= 0 && s.received > s.declared {
		return b, c.malformed(s, "body is longer than content-length")
	}
	return b, nil
}

// moreData takes what b holds of the DATA frame that is open.
func (c *conn) moreData(b []byte) []byte {
	d := &c.data
	s := c.streams[d.id]
	if n := min(d.left, len(b)); n > 0 {
		if s != nil && s.cut == cutNot && !s.recvEnd {
			s.receive(b[:n])
		} else {
			c.credit(n)
		}
		d.left -= n
		b = b[n:]
	}
	if d.left > 0 {
		return b
	}
	n := min(d.pad, len(b))
	d.pad -= n
	b = b[n:]
	if d.pad > 0 {
		return b
	}
	d.open = false
	if d.end && s != nil && s.cut == cutNot && !s.recvEnd {
		c.endReceived(s)
	}
	return b
}

// endReceived notes that the other end has ended its direction of a stream.
func (c *conn) endReceived(s *Stream) {
	if s.declared >= 0 && s.received != s.declared {
		c.offended(c.malformed(s, "body is shorter than content-length"))
		return
	}
	s.recvEnd = true
	s.bothEnded()
	s.wakeRead()
}

// offended keeps an error for the next frame, where none can be returned.
func (c *conn) offended(err error) {
	if err != nil && c.err == nil {
		c.err = err
	}
}

// offend resets a stream for what the other end did on it. For a client that
// makes us do so again and again the connection ends.
func (c *conn) offend(s *Stream, code ErrCode, reason string) error {
	if s.cut == cutPeer || s.finished() { // it said that it would send nothing more
		s.cut = cutUs
		c.answer(appendRST(c.output().b, s.id, code))
		return c.flood(EventResetFlood)
	}
	s.reset(&StreamError{Code: code, Reason: reason})
	if c.server && !s.ended() {
		return c.flood(EventRapidReset)
	}
	return nil
}

func (c *conn) malformed(s *Stream, reason string) error {
	c.count(EventMalformed)
	return c.offend(s, CodeProtocol, reason)
}

// refuseStream resets a stream that there is no Stream for.
func (c *conn) refuseStream(id uint32, code ErrCode) {
	c.answer(appendRST(c.output().b, id, code))
	c.remember(id, cutUs)
}

func (c *conn) priorityFrame(h *frameHeader, p []byte) error {
	if err := c.flood(EventPriorityFlood); err != nil {
		return err
	}
	var e *StreamError
	switch {
	case len(p) != 5:
		e = &StreamError{Code: CodeFrameSize, Reason: "PRIORITY is not 5 bytes"}
	case binary.BigEndian.Uint32(p)&maxStreamID == h.id:
		e = &StreamError{Code: CodeProtocol, Reason: "stream depends on itself"}
	default:
		return nil
	}
	if s := c.streams[h.id]; s != nil {
		return c.offend(s, e.Code, e.Reason)
	}
	if c.isIdle(h.id) { // one that does not exist cannot be reset
		return &ConnError{Code: e.Code, Reason: e.Reason}
	}
	c.refuseStream(h.id, e.Code)
	return c.flood(EventResetFlood)
}

func (c *conn) rstFrame(h *frameHeader, p []byte) error {
	switch {
	case len(p) != 4:
		return frameSize("RST_STREAM is not 4 bytes")
	case c.isIdle(h.id):
		return protocol("RST_STREAM on an idle stream")
	}
	s := c.streams[h.id]
	if s == nil || s.cut != cutNot {
		if s != nil && s.cut == cutUs {
			return nil // it crossed ours
		}
		return c.flood(EventResetFlood)
	}
	code := ErrCode(binary.BigEndian.Uint32(p))
	var err error = &StreamError{Code: code, Remote: true}
	if !c.server && code == CodeRefusedStream {
		err = notProcessed{err}
	}
	answered := s.ended()
	s.cut = cutPeer
	s.fail(err)
	if c.server && !answered {
		return c.flood(EventRapidReset)
	}
	return nil
}

func (c *conn) settingsFrame(h *frameHeader, p []byte) error {
	if h.has(flagAck) {
		if len(p) != 0 {
			return frameSize("acknowledgement of SETTINGS with a payload")
		}
		if c.ackBy == 0 {
			return c.flood(EventSettingsFlood)
		}
		c.ackBy = 0
		return nil
	}
	if len(p)%6 != 0 {
		return frameSize("SETTINGS are not of 6 bytes each")
	}
	if len(p)/6 > maxSettings {
		return &ConnError{Code: CodeEnhanceYourCalm, Reason: "too many settings in a frame", event: EventSettingsFlood}
	}
	if c.needSettings {
		c.needSettings, c.settingUp = false, 0
	} else if err := c.flood(EventSettingsFlood); err != nil {
		return err
	}
	window := c.peerWindow
	for ; len(p) > 0; p = p[6:] {
		if err := c.setting(binary.BigEndian.Uint16(p), binary.BigEndian.Uint32(p[2:])); err != nil {
			return err
		}
	}
	if err := c.moveWindows(c.peerWindow - window); err != nil {
		return err
	}
	c.peerSettings = true
	for _, b := range c.settingsWait {
		b.Ring()
	}
	c.settingsWait = nil
	c.answer(appendFrameHeader(c.output().b, 0, frameSettings, flagAck, 0))
	return nil
}

func (c *conn) setting(id uint16, v uint32) error {
	switch id {
	case settingEnablePush:
		if v > 1 || v == 1 && !c.server {
			return protocol("invalid SETTINGS_ENABLE_PUSH")
		}
	case settingMaxStreams:
		c.peerStreams = v
	case settingInitialWindow:
		if v > maxWindow {
			return &ConnError{Code: CodeFlowControl, Reason: "SETTINGS_INITIAL_WINDOW_SIZE over 2^31-1"}
		}
		c.peerWindow = int64(v)
	case settingMaxFrame:
		if v < 16<<10 || v > 1<<24-1 {
			return protocol("invalid SETTINGS_MAX_FRAME_SIZE")
		}
	case settingConnectProtocol:
		if v > 1 || v == 0 && c.peerConnect {
			return protocol("invalid SETTINGS_ENABLE_CONNECT_PROTOCOL")
		}
		c.peerConnect = v == 1
	}
	return nil // our header blocks use no table; the others are hints
}

// moveWindows takes what SETTINGS_INITIAL_WINDOW_SIZE means for streams that are
// open, once for a frame, however often it stood there.
func (c *conn) moveWindows(delta int64) error {
	if delta == 0 {
		return nil
	}
	for _, s := range c.streams {
		if s.sendWindow += delta; s.sendWindow > maxWindow {
			return &ConnError{Code: CodeFlowControl, Reason: "window over 2^31-1"}
		}
		s.wakeWrite()
	}
	return nil
}

func (c *conn) pingFrame(h *frameHeader, p []byte) error {
	if len(p) != 8 {
		return frameSize("PING is not 8 bytes")
	}
	data := [8]byte(p)
	if !h.has(flagAck) {
		if err := c.flood(EventPingFlood); err != nil {
			return err
		}
		c.answer(appendPing(c.output().b, flagAck, data))
		return nil
	}
	switch {
	case data == pingAlive && c.pings > 0:
		c.pings--
	case data == pingDrain && c.drain == drainRound:
		c.refuse()
	default:
		return c.flood(EventPingFlood) // one that we have not asked for
	}
	return nil
}

func (c *conn) goAwayFrame(p []byte) error {
	if len(p) < 8 {
		return frameSize("GOAWAY is shorter than 8 bytes")
	}
	last := binary.BigEndian.Uint32(p) & maxStreamID
	code := ErrCode(binary.BigEndian.Uint32(p[4:]))
	c.peerGone = true
	if c.server {
		return c.flood(EventGoAwayFlood) // it opens no more streams; those that are open go on
	}
	err := &ConnError{Code: code, Remote: true}
	for id, s := range c.streams {
		if id > last {
			s.fail(notProcessed{err})
		}
	}
	return nil
}

func (c *conn) windowFrame(h *frameHeader, p []byte) error {
	if len(p) != 4 {
		return frameSize("WINDOW_UPDATE is not 4 bytes")
	}
	n := int64(binary.BigEndian.Uint32(p) & maxStreamID)
	if err := c.flood(EventWindowFlood); err != nil {
		return err
	}
	if h.id == 0 {
		if n == 0 {
			return protocol("WINDOW_UPDATE by 0")
		}
		if c.sendWindow += n; c.sendWindow > maxWindow {
			return &ConnError{Code: CodeFlowControl, Reason: "window over 2^31-1"}
		}
		c.wakeWaiting()
		return nil
	}
	if c.isIdle(h.id) {
		return protocol("WINDOW_UPDATE on an idle stream")
	}
	s := c.streams[h.id]
	switch {
	case s == nil || s.cut != cutNot:
		return nil // the stream may have ended while it was on its way
	case n == 0:
		return c.offend(s, CodeProtocol, "WINDOW_UPDATE by 0")
	}
	if s.sendWindow += n; s.sendWindow > maxWindow {
		return c.offend(s, CodeFlowControl, "window over 2^31-1")
	}
	s.wakeWrite()
	return nil
}

// emit takes a field from the decoder.
func (c *conn) emit(f hpack.HeaderField) {
	c.decoded += int(f.Size())
	if c.reading != nil {
		c.reading.Add(f.Name, f.Value)
	}
}
