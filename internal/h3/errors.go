package h3

import (
	"errors"

	"github.com/quic-go/quic-go"
)

// code is an error code of RFC 9114 section 8.1 or of RFC 9204 section 6.
type code uint64

const (
	codeNo                code = 0x100
	codeGeneral           code = 0x101
	codeInternal          code = 0x102
	codeStreamCreation    code = 0x103
	codeClosedCritical    code = 0x104
	codeFrameUnexpected   code = 0x105
	codeFrame             code = 0x106
	codeExcessiveLoad     code = 0x107
	codeID                code = 0x108
	codeSettings          code = 0x109
	codeMissingSettings   code = 0x10a
	codeRequestRejected   code = 0x10b
	codeRequestCancelled  code = 0x10c
	codeRequestIncomplete code = 0x10d
	codeMessage           code = 0x10e
	codeDecompression     code = 0x200
	codeEncoderStream     code = 0x201
	codeDecoderStream     code = 0x202
)

// What ends a stream, or a connection.
var (
	errRefused   = errors.New("HTTP/3 connection refused")
	errMalformed = errors.New("HTTP/3 request is malformed")
	errBreach    = errors.New("HTTP/3 connection ended for a breach of the protocol")
	errEnded     = errors.New("HTTP/3 stream: written after its end")
	errHeadTwice = errors.New("HTTP/3 stream: head was sent already")
	errStatus    = errors.New("HTTP/3 stream: status is not 100 to 999, or is 101")
	errNoHead    = errors.New("HTTP/3 stream: body or trailers before the head")
)

// byClient reports whether a stream was reset by the client.
func byClient(err error) bool {
	var s *quic.StreamError
	return errors.As(err, &s) && s.Remote
}

// IsFlood reports whether we ended a connection because the client did too much of
// what brings nothing.
func IsFlood(err error) bool {
	var e *quic.ApplicationError
	return errors.As(err, &e) && !e.Remote && code(e.ErrorCode) == codeExcessiveLoad
}

// IsTimeout reports whether a connection ended because nothing came in time.
func IsTimeout(err error) bool {
	var handshake *quic.HandshakeTimeoutError
	var idle *quic.IdleTimeoutError
	return errors.As(err, &handshake) || errors.As(err, &idle)
}
