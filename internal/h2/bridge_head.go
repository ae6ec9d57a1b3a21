package h2

import (
	"bytes"
	"crypto/sha1"
	"encoding/base64"

	"fairlead/internal/fields"
	"fairlead/internal/h1"
	"fairlead/internal/loop"
)

var (
	methodConnect = []byte("CONNECT")
	webSocket     = []byte("websocket")
)

// requestLimits are wide: a request was judged before it came here, and fields
// were added to it since.
var requestLimits = h1.Limits{HeadBytes: 1 << 20, Fields: 1 << 10}

// feedHead takes a request's head, or a part of one, and opens the stream for it.
func (b *bridge) feedHead(p []byte) (used int, err error) {
	if b.s != nil {
		if b.inside > 1 || !b.complete() {
			return 0, errNotOver
		}
		b.drop()
	}
	had := len(b.part)
	head := p
	if had > 0 {
		b.part = append(b.part, p...)
		head = b.part
	}
	n, err := b.req.Parse(head, &requestLimits)
	if err != nil {
		b.part = b.part[:0]
		return 0, err
	}
	if n == 0 {
		if had == 0 {
			b.part = append(b.part[:0], p...)
		}
		return len(p), nil
	}
	err = b.open()
	b.part = b.part[:0]
	return n - had, err
}

// open sends the request that was parsed.
func (b *bridge) open() error {
	c := &b.k.c
	r := &b.req
	if r.Scheme != nil {
		return errRequest // absolute-form
	}
	if b.cause != nil {
		return b.cause
	}
	s, err := c.openStream()
	if err != nil {
		return loop.ErrStale
	}
	b.s = s
	s.readBy, s.writeTimeout = b.readBy, b.timeout
	h := Head{Method: r.Method, Scheme: fields.Bytes(c.Scheme), Authority: r.HostPort, Path: r.Target, Lines: fieldLines(r.Head)}
	end := false
	switch r.Body {
	case h1.BodyNone:
		b.sending, end = sendDone, true
	case h1.BodyLength:
		b.sending, b.left = sendLength, r.Length
	default:
		b.sending, b.left, b.digits = sendSize, 0, 0
	}
	if r.Upgrade != nil {
		if !end {
			b.drop()
			return errRequest
		}
		b.sending, end = sendRaw, false
		b.upgradeHead(&h)
	}
	if err := s.send(&h, end); err != nil {
		b.drop()
		if c.gone() {
			return loop.ErrStale
		}
		return err
	}
	return nil
}

// fieldLines returns the field lines of a head.
func fieldLines(head []byte) []byte {
	return head[bytes.IndexByte(head, '\n')+1 : len(head)-len(h1.CRLF)]
}

// upgradeHead makes an extended CONNECT of h.
func (b *bridge) upgradeHead(h *Head) {
	b.upgrade = fields.AppendLower(nil, b.req.Upgrade)
	h.Method, h.Protocol = methodConnect, b.upgrade
	if !bytes.Equal(b.upgrade, webSocket) {
		return
	}
	// RFC 8441 section 5: the handshake's key is not used.
	var lines []byte
	for rest := h.Lines; len(rest) > 0; {
		name, value, next := fields.Cut(rest)
		if bytes.EqualFold(name, webSocketKey) {
			sum := sha1.Sum(append(bytes.Clone(value), "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"...))
			b.accept = base64.StdEncoding.AppendEncode(nil, sum[:])
		} else {
			lines = append(lines, rest[:len(rest)-len(next)]...)
		}
		rest = next
	}
	h.Lines = lines
}

var webSocketKey = []byte("sec-websocket-key")
