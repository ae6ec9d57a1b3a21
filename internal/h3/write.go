package h3

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"time"

	"github.com/quic-go/qpack"

	"fairlead/internal/fields"
	"fairlead/internal/loop"
)

// This file is the answer of a stream.

// packer takes what the encoder of a stream writes.
type packer Stream

func (p *packer) Write(b []byte) (int, error) {
	p.packed = append(p.packed, b...)
	return len(b), nil
}

// field appends a field to the header block.
func (s *Stream) field(name string, value []byte) {
	// It fails only if Write does, and keeps neither string.
	_ = s.enc.WriteField(qpack.HeaderField{Name: name, Value: fields.String(value)})
}

// lines appends field lines of HTTP/1.1 to the header block but those that belong
// to a connection.
func (s *Stream) lines(lines []byte) {
	var room [64]byte
	lower := room[:0]
	for len(lines) > 0 {
		name, value, rest := fields.Cut(lines)
		lines = rest
		lower = fields.AppendLower(lower[:0], name)
		switch string(lower) {
		case "", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "host":
			continue
		case "te":
			if !bytes.EqualFold(value, trailers) {
				continue
			}
			value = trailers
		}
		s.field(fields.String(lower), value)
	}
}

var trailers = []byte("trailers")

// pack makes a HEADERS frame at the end of s.out.
func (s *Stream) pack(status int, lines []byte) {
	s.packed = s.packed[:0]
	if status != 0 {
		var b [3]byte
		s.field(":status", strconv.AppendInt(b[:0], int64(status), 10))
	}
	s.lines(lines)
	s.enc.Close()
	if len(s.packed) == 0 { // nothing but fields that are left out
		s.packed = append(s.packed, 0, 0) // the prefix of a block
	}
	s.out = appendFrame(s.out, frameHeaders, len(s.packed))
	s.out = append(s.out, s.packed...)
}

// Respond sends a head: an interim one (status below 200), or the answer's. lines
// are field lines of HTTP/1.1; those that belong to a connection are left out. end
// says that neither body nor trailers follow.
func (s *Stream) Respond(status int, lines []byte, end bool) error {
	return s.RespondBody(status, lines, nil, end)
}

// together is how much of a body is copied behind what stands before it, so that
// both leave in the same packets.
const together = 16 << 10

// RespondBody is Respond with the beginning of the body.
func (s *Stream) RespondBody(status int, lines, body []byte, end bool) error {
	switch {
	case s.sentEnd:
		return errEnded
	case s.sentHead:
		return errHeadTwice
	case status < 100 || status > 999 || status == 101:
		return errStatus
	}
	s.out = s.out[:0]
	s.pack(status, lines)
	s.sentHead = status >= 200
	return s.send(body, end)
}

// Write writes all of b as a part of the body, and ends it if end is set. A write
// that makes no progress for the write time-out ends with loop.ErrStalled.
func (s *Stream) Write(b []byte, end bool) error {
	switch {
	case s.sentEnd:
		return errEnded
	case !s.sentHead:
		return errNoHead
	}
	s.out = s.out[:0]
	return s.send(b, end)
}

// WriteTrailer ends the body with trailers, given as lines of HTTP/1.1.
func (s *Stream) WriteTrailer(lines []byte) error {
	switch {
	case s.sentEnd:
		return errEnded
	case !s.sentHead:
		return errNoHead
	}
	s.out = s.out[:0]
	s.pack(0, lines)
	return s.send(nil, true)
}

// send writes s.out and then b as a DATA frame.
func (s *Stream) send(b []byte, end bool) error {
	out := s.out
	if len(b) > 0 {
		out = appendFrame(out, frameData, len(b))
		n := min(len(b), together)
		out = append(out, b[:n]...)
		b = b[n:]
	}
	s.out = out[:0]
	err := s.write(out)
	if err == nil && len(b) > 0 {
		err = s.write(b)
	}
	if err != nil {
		return err
	}
	if end {
		return s.close()
	}
	return nil
}

// writePiece is how much is given to quic-go at once: each is progress.
const writePiece = 64 << 10

// write writes bytes of the stream.
func (s *Stream) write(b []byte) error {
	for len(b) > 0 {
		var by time.Time
		if d := time.Duration(s.timeout.Load()); d > 0 {
			by = time.Now().Add(d)
		}
		s.q.SetWriteDeadline(by)
		if err := s.interrupted(); err != nil {
			return err
		}
		n, err := s.q.Write(b[:min(len(b), writePiece)])
		b = b[n:]
		switch {
		case err == nil:
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		case s.interrupted() != nil:
			return s.interrupted()
		case n > 0 || by.IsZero() || time.Now().Before(by):
			// It moves; or the deadline was that of an interruption that is over.
		default:
			s.c.count(EventWriteTimeout)
			return loop.ErrStalled
		}
	}
	return nil
}

// close ends our direction.
func (s *Stream) close() error {
	s.sentEnd = true
	return s.q.Close()
}
