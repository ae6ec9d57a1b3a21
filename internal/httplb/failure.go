package httplb

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"syscall"

	"fairlead/internal/loop"
	"fairlead/internal/model"
)

// failure is an error that Fairlead answers with itself. Its values are
// predeclared: few, so that they can be counted and label metrics.
type failure struct {
	status int
	title  string // the page's headline and the status line's reason
	text   string // what the page says
	reason string // constant name in the access log and in metrics
	kind   int    // position in counts

	// again is true where another endpoint may be asked: it is certain that
	// this one has not seen the request.
	again bool

	// free is true where the attempt cost the endpoint nothing, so that a
	// retry adds no load anywhere and needs no budget: the other endpoint gets
	// what it would get anyway once this one is known to be down.
	free bool
}

// blamesEndpoint reports whether a failure says that an endpoint is not well: not that it
// has no room, is full of other work that is bounded, or cannot do what was asked.
func (f *failure) blamesEndpoint() bool {
	switch f {
	case failBusy, failFull, failQueue, failTunnel, failDrained, failResolve:
		return false
	}
	return true
}

// leavesSession reports whether a request that is bound to a session may turn to
// another endpoint for a failure. These are the ones of Cloudflare's zero-downtime
// failover: its endpoint could not be connected to. One that is merely full has its
// sessions still.
func (f *failure) leavesSession() bool {
	switch f.status {
	case 521, 522, 523, 525, 526:
		return true
	}
	return false
}

func (f *failure) Error() string { return f.reason }

// The failures, with the numbers that Cloudflare gives them.
var (
	failBadRequest  = &failure{status: 400, title: "Bad Request", text: "The request could not be read.", reason: "bad_request"}
	failTimeout     = &failure{status: 408, title: "Request Timeout", text: "The request took too long to arrive.", reason: "request_timeout"}
	failNoHost      = &failure{status: 404, title: "Not Found", text: "No site of this name is served here.", reason: "no_load_balancer"}
	failUnknown     = &failure{status: 520, title: "Unknown Error", text: "The server sent an answer that could not be read.", reason: "bad_answer"}
	failEmpty       = &failure{status: 520, title: "Unknown Error", text: "The server closed the connection without an answer.", reason: "empty_answer"}
	failRefused     = &failure{status: 521, title: "Web Server Is Down", text: "The server refused the connection.", reason: "refused", again: true, free: true}
	failConnect     = &failure{status: 522, title: "Connection Timed Out", text: "The server could not be reached in time.", reason: "connect_timeout", again: true}
	failUnreachable = &failure{status: 523, title: "Origin Is Unreachable", text: "There is no route to the server.", reason: "unreachable", again: true, free: true}
	failAnswer      = &failure{status: 524, title: "A Timeout Occurred", text: "The server did not answer in time.", reason: "answer_timeout"}
	failTLS         = &failure{status: 525, title: "SSL Handshake Failed", text: "No secure connection to the server could be made.", reason: "tls_handshake", again: true}
	failBusy        = &failure{status: 503, title: "Service Unavailable", text: "The server takes no more requests now.", reason: "refused_stream", again: true}
	failFull        = &failure{status: 503, title: "Service Unavailable", text: "The server takes no more requests now.", reason: "endpoint_full", again: true, free: true}
	failQueue       = &failure{status: 503, title: "Service Unavailable", text: "The server takes no more requests now.", reason: "queue_timeout", again: true, free: true}
	failTunnel      = &failure{status: 501, title: "Not Implemented", text: "The server does not take WebSockets over HTTP/2.", reason: "no_extended_connect"}
	failCertificate = &failure{status: 526, title: "Invalid SSL Certificate", text: "The server's certificate is not valid.", reason: "invalid_certificate", again: true}
	failNoPool      = &failure{status: 530, title: "No Healthy Pool", text: "No server can take the request.", reason: "no_pool"}
	failResolve     = &failure{status: 530, title: "Name Not Resolved", text: "The server's name has no address (1016).", reason: "name_not_resolved", again: true, free: true}

	// What ends an answer that has begun; no page has it.
	failDrained = &failure{status: 503, title: "Service Unavailable", text: "The server is being taken out of service.", reason: "drained"}

	// What h1 refuses with a status of its own.
	failMethod      = &failure{status: 405, title: "Method Not Allowed", text: "CONNECT is not served.", reason: "connect"}
	failTarget      = &failure{status: 414, title: "URI Too Long", text: "The address asked for is too long.", reason: "target_too_long"}
	failExpectation = &failure{status: 417, title: "Expectation Failed", text: "Only 100-continue can be expected.", reason: "expectation"}
	failHeader      = &failure{status: 431, title: "Request Header Fields Too Large", text: "The request's header is too large.", reason: "header_too_large"}
	failCoding      = &failure{status: 501, title: "Not Implemented", text: "The request uses something that is not served.", reason: "not_implemented"}
	failVersion     = &failure{status: 505, title: "HTTP Version Not Supported", text: "HTTP/1.1 and HTTP/1.0 are served.", reason: "version"}

	failures = []*failure{failBadRequest, failTimeout, failNoHost, failUnknown, failEmpty, failRefused, failConnect,
		failUnreachable, failAnswer, failTLS, failBusy, failFull, failQueue, failTunnel, failCertificate, failNoPool, failResolve, failDrained,
		failMethod, failTarget, failExpectation, failHeader, failCoding, failVersion}
)

// allowLine goes with a 405.
const allowLine = "Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n"

// lines returns the lines of the failure's error page.
func (f *failure) lines() string {
	if f == failMethod {
		return pageLines + allowLine
	}
	return pageLines
}

// pageLines are those of all error pages.
const pageLines = "Content-Type: text/plain; charset=utf-8\r\nCache-Control: no-store\r\n"

// page returns the body of the failure's error page.
func (f *failure) page() string {
	return strconv.Itoa(f.status) + " " + f.title + "\n\n" + f.text + "\n"
}

// refusal returns the failure for a request that h1 refused with a status.
func refusal(status int) *failure {
	for _, f := range [...]*failure{failMethod, failTarget, failExpectation, failHeader, failCoding, failVersion} {
		if f.status == status {
			return f
		}
	}
	return failBadRequest
}

func init() {
	for i, f := range failures {
		f.kind = i
	}
}

// What ends an exchange without an answer to give.
var (
	errClientGone = errors.New("client closed the connection")
	errSlowBody   = errors.New("client sent the body too slowly")
	errDraining   = errors.New("listener is closing")
	errNoAddress  = errors.New("host name has no address")
)

// connectFailure sorts an error of dialling an endpoint.
func connectFailure(err error) *failure {
	switch {
	case errors.Is(err, loop.ErrTimeout), errors.Is(err, syscall.ETIMEDOUT), errors.Is(err, os.ErrDeadlineExceeded):
		return failConnect
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET):
		return failRefused
	default: // no route, network down, no local address or port left
		return failUnreachable
	}
}

// handshakeFailure sorts an error of a TLS handshake with an endpoint.
func handshakeFailure(err error) *failure {
	var invalid *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var pin *model.PinError
	if errors.As(err, &pin) || errors.As(err, &invalid) || errors.As(err, &authority) || errors.As(err, &hostname) {
		return failCertificate
	}
	return failTLS
}

// refusedUs reports whether err is the endpoint's word that it does not accept
// our certificate, or the want of one. In TLS 1.3 it comes after the handshake,
// in the place of an answer; no other alert says that the request was not acted
// upon.
func refusedUs(err error) bool {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return false
	}
	switch op.Err.Error() { // crypto/tls has no type for them
	case "tls: bad certificate", "tls: unsupported certificate", "tls: revoked certificate", "tls: expired certificate",
		"tls: unknown certificate", "tls: unknown certificate authority", "tls: access denied", "tls: certificate required":
		return true
	}
	return false
}

// gone reports whether err means that the other end closed or reset the
// connection, or what stands for one in HTTP/2.
func gone(err error) bool {
	return lost(err) || err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
}
