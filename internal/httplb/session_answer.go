package httplb

import (
	"strconv"

	"fairlead/internal/h1"
	"fairlead/internal/loop"
)

// This file is the way back of a session: answers in HTTP/1.1.

// copyLimit is up to where a piece of body is copied behind its head: one
// plain write is cheaper than one of two parts.
const copyLimit = 16 << 10

func (s *session) interim(res *h1.Response) error {
	if res.Status == 100 {
		s.awaiting.Store(false)
	}
	if s.http10 {
		return nil // RFC 9110 section 15.2: not to be sent to it
	}
	out := appendStatus(s.out[:0], res)
	out = appendFields(out, &res.Message, answers)
	if res.Status == 101 {
		out = append(out, s.x.binding.line...)
		out = append(out, "Connection: upgrade\r\nUpgrade: "...)
		out = append(out, res.Upgrade...)
		out = append(out, h1.CRLF...)
	}
	return s.write(append(out, h1.CRLF...), nil)
}

func appendStatus(out []byte, res *h1.Response) []byte {
	out = append(out, "HTTP/1.1 "...)
	out = strconv.AppendInt(out, int64(res.Status), 10)
	out = append(out, ' ')
	out = append(out, res.Reason...)
	return append(out, h1.CRLF...)
}

func (s *session) head(res *h1.Response, body h1.Body, _ int64, data []byte, last bool) error {
	out := appendStatus(s.out[:0], res)
	out = appendFields(out, &res.Message, answers)
	out = append(out, s.x.binding.line...)
	if s.set.altSvc != "" && s.x.advertises(res) {
		out = append(out, s.set.altSvc...)
	}
	if res.Length >= 0 && res.Status != 204 {
		out = appendLength(out, res.Length)
	}
	s.chunking = false
	if body == h1.BodyChunked || body == h1.BodyUntilClose {
		if s.http10 {
			s.closing = true // the end of the connection ends the body
		} else {
			s.chunking = true
			out = append(out, "Transfer-Encoding: chunked\r\n"...)
		}
	}
	out = s.connectionLine(out)
	out = append(out, h1.CRLF...)
	if len(data) == 0 && !(last && s.chunking) {
		return s.write(out, nil)
	}
	return s.piece(out, data, last)
}

// connectionLine appends what the client has to know about the connection.
func (s *session) connectionLine(out []byte) []byte {
	// A client that still sends its body cannot go on with another request.
	if !s.done.Load() || s.ln.draining.Load() {
		s.closing = true
	}
	switch {
	case s.closing:
		return append(out, "Connection: close\r\n"...)
	case s.keepAlive:
		return append(out, "Connection: keep-alive\r\n"...)
	}
	return out
}

func (s *session) body(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	return s.piece(s.out[:0], data, false)
}

// piece writes out, then data in the answer's framing. What stands behind data is
// overwritten where there is room for framing: it was the endpoint's own (with
// the last chunk at least as long as ours), or free.
func (s *session) piece(out, data []byte, last bool) error {
	if !s.chunking {
		return s.write(out, data)
	}
	if len(data) > 0 {
		out = h1.AppendChunkHeader(out, len(data))
		data = append(data, h1.CRLF...)
	}
	if last {
		data = append(data, h1.LastChunk+h1.CRLF...)
	}
	return s.write(out, data)
}

func (s *session) end(trailer []byte) error {
	if !s.chunking {
		return nil
	}
	out := append(s.out[:0], h1.LastChunk...)
	out = append(out, trailer...)
	return s.write(append(out, h1.CRLF...), nil)
}

// write writes out, which is s.out grown, and data.
func (s *session) write(out, data []byte) error {
	n := len(out) + len(data)
	var err error
	switch {
	case len(data) <= copyLimit:
		out = append(out, data...)
		err = s.c.Write(out)
	case len(out) == 0:
		err = s.c.Write(data)
	default:
		err = s.c.Writev(out, data)
	}
	s.out = out[:0] // trim gives it up between requests if it has become large
	if err != nil {
		return s.writeErr(err)
	}
	s.bytesOut += int64(n)
	return nil
}

// writeErr sorts an error of writing to the client.
func (s *session) writeErr(err error) error {
	if err == loop.ErrStalled {
		s.ln.stats.limits[limitSendTimeout].Inc()
	}
	return err
}

func (s *session) move(from loop.Conn, n int64, how loop.Moving) (moved int64, endpointErr, clientErr error) {
	moved, endpointErr, clientErr = loop.Move(s.c, from, n, how)
	s.bytesOut += moved
	if clientErr != nil {
		clientErr = s.writeErr(clientErr)
	}
	return moved, endpointErr, clientErr
}

// hasLength reports whether an answer of ours with a status says how long it is:
// one that never has a body does not (RFC 9110 section 8.6).
func hasLength(status int) bool { return status != 204 && status != 304 }

func (s *session) page(status int, reason, lines, body string) error {
	out := h1.AppendStatusLine(s.out[:0], status, reason)
	out = append(out, lines...)
	if s.set.altSvc != "" && s.x.lb != nil {
		out = append(out, s.set.altSvc...)
	}
	if hasLength(status) {
		out = appendLength(out, int64(len(body)))
	}
	out = s.connectionLine(out)
	out = append(out, h1.CRLF...)
	if !s.x.isHead {
		out = append(out, body...)
	}
	return s.write(out, nil)
}
