package h3

import (
	"errors"
	"io"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"
)

// Types of frames (RFC 9114 section 7.2).
const (
	frameData        = 0x0
	frameHeaders     = 0x1
	frameCancelPush  = 0x3
	frameSettings    = 0x4
	framePushPromise = 0x5
	frameGoAway      = 0x7
	frameMaxPushID   = 0xd
	// RFC 9218: of requests, and of pushes.
	framePriority     = 0xf0700
	framePriorityPush = 0xf0701
)

// Types of unidirectional streams.
const (
	streamControl = 0x0
	streamPush    = 0x1
	streamEncoder = 0x2 // QPACK
	streamDecoder = 0x3
)

// Settings.
const (
	settingFieldSection    = 0x6
	settingExtendedConnect = 0x8
	settingDatagram        = 0x33
)

// reservedFrame reports whether a type is one of HTTP/2 that has no meaning here.
func reservedFrame(t uint64) bool { return t == 0x2 || t == 0x6 || t == 0x8 || t == 0x9 }

// reservedSetting is that for settings.
func reservedSetting(id uint64) bool { return id == 0 || id >= 0x2 && id <= 0x5 }

// appendFrame appends the header of a frame.
func appendFrame(b []byte, t uint64, length int) []byte {
	return quicvarint.Append(quicvarint.Append(b, t), uint64(length))
}

// takeUni takes the client's unidirectional streams.
func (c *Conn) takeUni() {
	for {
		s, err := c.q.AcceptUniStream(c.q.Context())
		if err != nil {
			return
		}
		c.task(func() {
			defer s.ReleaseStreamCredit()
			_ = c.uni(s) // what it was, the connection was told
		})
	}
}

// uni reads a unidirectional stream to its end, and returns why that came.
func (c *Conn) uni(s *quic.ReceiveStream) error {
	r := quicvarint.NewReader(&chunked{r: s})
	t, err := quicvarint.Read(r)
	if err != nil {
		c.flood(EventStreamFlood) // it has no type: RFC 9114 section 6.2 lets it be
		return err
	}
	switch t {
	case streamControl, streamEncoder, streamDecoder:
	case streamPush:
		return c.breach(codeStreamCreation, "push from a client")
	default:
		s.CancelRead(quic.StreamErrorCode(codeStreamCreation))
		c.flood(EventStreamFlood)
		return nil
	}
	if !c.only(t) {
		return c.breach(codeStreamCreation, "stream of a type twice")
	}
	switch t {
	case streamControl:
		err = c.readControl(r)
	case streamEncoder:
		err = c.readEncoder(r)
	default:
		err = c.readDecoder(r)
	}
	if err != errBreach && c.q.Context().Err() == nil {
		return c.breach(codeClosedCritical, "critical stream was closed")
	}
	return err
}

// only reports whether a critical stream is the first of its type.
func (c *Conn) only(t uint64) bool {
	i := 0
	switch t {
	case streamEncoder:
		i = 1
	case streamDecoder:
		i = 2
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !c.critical[i]
	c.critical[i] = true
	return first
}

// chunked reads a stream in larger pieces.
type chunked struct {
	r   io.Reader
	b   [512]byte
	at  int
	end int
}

func (k *chunked) Read(p []byte) (int, error) {
	if k.at == k.end {
		n, err := k.r.Read(k.b[:])
		if n == 0 {
			return 0, err
		}
		k.at, k.end = 0, n // an error comes again
	}
	n := copy(p, k.b[k.at:k.end])
	k.at += n
	return n, nil
}

// readControl reads the control stream.
func (c *Conn) readControl(r quicvarint.Reader) error {
	for first := true; ; first = false {
		t, err := quicvarint.Read(r)
		if err != nil {
			return err
		}
		n, err := quicvarint.Read(r)
		if err != nil {
			return err
		}
		if first && t != frameSettings {
			return c.breach(codeMissingSettings, "control stream does not begin with SETTINGS")
		}
		if !first {
			c.flood(EventFrameFlood)
		}
		switch t {
		case frameSettings:
			if !first {
				return c.breach(codeFrameUnexpected, "SETTINGS twice")
			}
			err = c.readSettings(r, n)
		case frameGoAway, frameMaxPushID, frameCancelPush:
			err = c.readNumber(r, n, t == frameCancelPush)
		case framePriorityPush:
			return c.breach(codeID, "priority of a push")
		case frameData, frameHeaders, framePushPromise:
			return c.breach(codeFrameUnexpected, "frame that does not belong on the control stream")
		default: // priorities too: streams share a connection evenly
			if reservedFrame(t) {
				return c.breach(codeFrameUnexpected, "frame of HTTP/2")
			}
			if n > maxSettings {
				return c.breach(codeExcessiveLoad, "long frame on the control stream")
			}
			_, err = io.CopyN(io.Discard, r, int64(n))
		}
		if err != nil {
			return err
		}
	}
}

// readSettings reads the client's settings, none of which concerns us: we push
// nothing, send no datagrams and use no dynamic table.
func (c *Conn) readSettings(r quicvarint.Reader, n uint64) error {
	if n > maxSettings {
		return c.breach(codeExcessiveLoad, "long SETTINGS")
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return err
	}
	seen := make(map[uint64]bool)
	for len(b) > 0 {
		id, i, err := quicvarint.Parse(b)
		if err != nil {
			return c.breach(codeFrame, "SETTINGS ends within a setting")
		}
		value, j, err := quicvarint.Parse(b[i:])
		if err != nil {
			return c.breach(codeFrame, "SETTINGS ends within a setting")
		}
		b = b[i+j:]
		switch {
		case seen[id]:
			return c.breach(codeSettings, "setting twice")
		case reservedSetting(id):
			return c.breach(codeSettings, "setting of HTTP/2")
		case (id == settingExtendedConnect || id == settingDatagram) && value > 1:
			return c.breach(codeSettings, "setting that is neither 0 nor 1")
		}
		seen[id] = true
	}
	return nil
}

// readNumber reads a frame that holds a number. That of a push names none that
// exists.
func (c *Conn) readNumber(r quicvarint.Reader, n uint64, ofPush bool) error {
	b := make([]byte, 8)
	if n > uint64(len(b)) {
		return c.breach(codeFrame, "frame is too long for a number")
	}
	if _, err := io.ReadFull(r, b[:n]); err != nil {
		return err
	}
	if _, k, err := quicvarint.Parse(b[:n]); err != nil || k != int(n) {
		return c.breach(codeFrame, "frame that is not one number")
	}
	if ofPush {
		return c.breach(codeID, "push that was not promised")
	}
	return nil
}

// readEncoder reads the encoder's instructions of the client, who has no table to
// change: ours has no room.
func (c *Conn) readEncoder(r quicvarint.Reader) error {
	for {
		b, err := r.ReadByte()
		if err != nil {
			return err
		}
		if b != 0x20 { // capacity 0
			return c.breach(codeEncoderStream, "change of a dynamic table without room")
		}
		c.flood(EventFrameFlood)
	}
}

// readDecoder reads the decoder's instructions of the client. Since we refer to no
// dynamic table, there is nothing that it could acknowledge.
func (c *Conn) readDecoder(r quicvarint.Reader) error {
	for {
		b, err := r.ReadByte()
		if err != nil {
			return err
		}
		if b>>6 != 1 { // a stream that was cancelled
			return c.breach(codeDecoderStream, "acknowledgement of what was not sent")
		}
		if b&0x3f == 0x3f {
			if err := skipInteger(r); err != nil {
				if err == errLongInteger {
					return c.breach(codeDecoderStream, "integer is too long")
				}
				return err
			}
		}
		c.flood(EventFrameFlood)
	}
}

var errLongInteger = errors.New("integer is too long")

// skipInteger reads the rest of an integer whose prefix was full (RFC 7541 section
// 5.1).
func skipInteger(r io.ByteReader) error {
	for range 10 {
		b, err := r.ReadByte()
		if err != nil {
			return err
		}
		if b&0x80 == 0 {
			return nil
		}
	}
	return errLongInteger
}
