package h2

import (
	"errors"
	"fmt"
	"io"
	"strconv"
)

// ErrCode is an error code of RFC 9113 section 7.
type ErrCode uint32

// The error codes.
const (
	CodeNo                 ErrCode = 0x0
	CodeProtocol           ErrCode = 0x1
	CodeInternal           ErrCode = 0x2
	CodeFlowControl        ErrCode = 0x3
	CodeSettingsTimeout    ErrCode = 0x4
	CodeStreamClosed       ErrCode = 0x5
	CodeFrameSize          ErrCode = 0x6
	CodeRefusedStream      ErrCode = 0x7
	CodeCancel             ErrCode = 0x8
	CodeCompression        ErrCode = 0x9
	CodeConnect            ErrCode = 0xa
	CodeEnhanceYourCalm    ErrCode = 0xb
	CodeInadequateSecurity ErrCode = 0xc
	CodeHTTP11Required     ErrCode = 0xd
)

var codeNames = [...]string{
	"NO_ERROR", "PROTOCOL_ERROR", "INTERNAL_ERROR", "FLOW_CONTROL_ERROR", "SETTINGS_TIMEOUT",
	"STREAM_CLOSED", "FRAME_SIZE_ERROR", "REFUSED_STREAM", "CANCEL", "COMPRESSION_ERROR",
	"CONNECT_ERROR", "ENHANCE_YOUR_CALM", "INADEQUATE_SECURITY", "HTTP_1_1_REQUIRED",
}

// String returns the name that the RFC gives the code.
func (c ErrCode) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return "error code 0x" + strconv.FormatUint(uint64(c), 16)
}

// ConnError is an error that ended a connection.
type ConnError struct {
	Code   ErrCode
	Reason string // what was wrong, in a few words of ours
	Remote bool   // the other end said so, with GOAWAY
	event  Event
}

// Error says who ended the connection and why.
func (e *ConnError) Error() string {
	if e.Remote {
		return "HTTP/2 connection ended by the other end: " + e.Code.String()
	}
	return "HTTP/2 connection: " + e.Code.String() + ": " + e.Reason
}

// StreamError is an error that ended one stream, with RST_STREAM.
type StreamError struct {
	Code   ErrCode
	Reason string // what was wrong, in a few words of ours
	Remote bool   // the other end has reset the stream
}

// Error says who reset the stream and why.
func (e *StreamError) Error() string {
	if e.Remote {
		return "HTTP/2 stream reset by the other end: " + e.Code.String()
	}
	if e.Reason == "" {
		return "HTTP/2 stream reset: " + e.Code.String()
	}
	return "HTTP/2 stream reset: " + e.Code.String() + ": " + e.Reason
}

// ErrNotProcessed is what errors of a client's stream are, besides what else they
// are, if the server has certainly not processed the request: it can be made
// again elsewhere.
var ErrNotProcessed = errors.New("request was not processed")

// ErrBusy says that a connection has as many streams open as it may, or more
// waiting to be written than it should.
var ErrBusy = errors.New("HTTP/2 connection takes no further stream now")

// ErrClosed says that a connection takes no new streams any more.
var ErrClosed = errors.New("HTTP/2 connection is closing")

// ErrNoExtendedConnect says that the server has not announced extended CONNECT.
var ErrNoExtendedConnect = errors.New("server does not take extended CONNECT")

// ErrIdle is the end of a connection that was without streams for too long.
var ErrIdle = errors.New("HTTP/2 connection was idle")

// Errors of which users hear.
var (
	errGone         = fmt.Errorf("HTTP/2 connection was closed by the other end: %w", io.ErrUnexpectedEOF)
	errPingTimeout  = errors.New("HTTP/2 connection is dead: PING was not answered")
	errEnded        = errors.New("HTTP/2 stream: written after its end")
	errHeadTwice    = errors.New("HTTP/2 stream: head was sent already")
	errStatus       = errors.New("HTTP/2 stream: status is not 100 to 999, or is 101")
	errNoHead       = errors.New("HTTP/2 stream: body or trailers before the head")
	errStreamClosed = errors.New("HTTP/2 stream is closed")
	errDrained      = errors.New("HTTP/2 connection was drained")
	errDefect       = errors.New("HTTP/2 connection ended by a defect")
	errWake         = errors.New("HTTP/2 connection has something to look at")
)

// notProcessed makes an error an ErrNotProcessed too.
type notProcessed struct{ error }

func (e notProcessed) Unwrap() []error { return []error{ErrNotProcessed, e.error} }

// protocol returns the error for a breach of the protocol.
func protocol(reason string) *ConnError { return &ConnError{Code: CodeProtocol, Reason: reason} }

// frameSize returns the error for a frame of a length that its type cannot have.
func frameSize(reason string) *ConnError { return &ConnError{Code: CodeFrameSize, Reason: reason} }
