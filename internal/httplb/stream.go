package httplb

import (
	"fairlead/internal/h1"
	"fairlead/internal/loop"
)

// stream is one request of a client and the way its answer takes back. An
// exchange does not know which protocol is behind it.
type stream interface {
	// nextBody returns the next bytes of the request's body, io.EOF behind
	// the last. They are borrowed. One task calls it, and moveBody.
	nextBody() ([]byte, error)
	// moveBody moves as much of the body as it can to an endpoint without
	// handing it out; 0 where that is not possible. progress is called as it
	// moves. Errors are by side.
	moveBody(to loop.Conn, progress func()) (n int64, clientErr, endpointErr error)
	// bodyDone reports whether the client has sent the whole body.
	bodyDone() bool
	// bodyTrailer returns the trailer lines behind a body that is done.
	bodyTrailer() []byte
	// stopBody ends nextBody and moveBody, which may be waiting.
	stopBody(cause error)
	// resumeBody lets them be called again after stopBody, and reports
	// whether the body can be read on.
	resumeBody() bool

	// release gives back what was borrowed from the client's connection; the
	// exchange is about to wait for an endpoint.
	release()
	// alive reports whether the client is still there.
	alive() bool

	// interim passes on an answer of class 1xx, 101 included.
	interim(res *h1.Response) error
	// head begins the answer with the head of res and the first bytes of its
	// body; last says that this is all of it. body and length frame it.
	head(res *h1.Response, body h1.Body, length int64, data []byte, last bool) error
	// body goes on with the answer's body.
	body(data []byte) error
	// move goes on with n bytes of the body, straight from the endpoint.
	move(from loop.Conn, n int64, how loop.Moving) (moved int64, endpointErr, clientErr error)
	// end ends an answer that was not the last at once.
	end(trailer []byte) error
	// page answers with a page of our own: lines of the head, and the body.
	page(status int, reason, lines, body string) error
	// cut breaks an answer off so that the client knows it is not whole.
	cut()

	// protocol names the protocol for the log.
	protocol() string

	// takeOver gives the client's connection away, with what it has sent
	// already, once a 101 was passed on.
	takeOver() (loop.Conn, []byte)
}
