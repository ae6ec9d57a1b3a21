package health

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"syscall"
	"unicode/utf8"

	"fairlead/internal/model"
)

// failed returns the result of a check that did not pass.
func failed(failure, cause string) Result { return Result{Failure: failure, Cause: bounded(cause)} }

// bounded cuts a cause, of which endpoints write a part, to a length that fits
// a log line.
func bounded(s string) string {
	const most = 256
	if len(s) > most {
		s = s[:most] + "..."
	}
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	return s
}

// classify names the failure behind what ended an attempt: the end of its
// time, or else err.
func classify(ctx context.Context, at stage, err error) Result {
	if ctx.Err() != nil { // what err says then is chance
		if at.reaches() {
			return failed(FailureTCPTimeout, "no "+at.String()+" in time")
		}
		return failed(FailureTimeout, "no "+at.String()+" in time")
	}
	return failed(failureOf(at, err), err.Error())
}

// failureOf names the failure behind an error.
func failureOf(at stage, err error) string {
	var dnsErr *net.DNSError
	var netErr net.Error
	switch {
	case errors.As(err, &dnsErr):
		return FailureUnknownHost
	case errors.As(err, &netErr) && netErr.Timeout(): // one of several addresses, or the kernel's own limit
		if at.reaches() {
			return FailureTCPTimeout
		}
		return FailureTimeout
	case errors.Is(err, syscall.ECONNREFUSED):
		return FailureRefused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.EHOSTDOWN):
		return FailureNoRoute
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.ENETDOWN):
		return FailureUnreachable
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED):
		return FailureReset
	case at.reaches(): // nothing that the network said: addresses or files run out, a filter of this machine
		return FailureOther
	}
	if f := tlsFailure(err); f != "" {
		return f
	}
	if at == stageTLS {
		return FailureHandshake
	}
	return FailureInvalid
}

// tlsFailure names what TLS complained about; "" when it was not TLS.
func tlsFailure(err error) string {
	var (
		unknown  x509.UnknownAuthorityError
		invalid  x509.CertificateInvalidError
		roots    x509.SystemRootsError
		hostname x509.HostnameError
		verify   *tls.CertificateVerificationError
		pin      *model.PinError
		record   tls.RecordHeaderError
		op       *net.OpError
	)
	switch {
	case errors.As(err, &hostname):
		return FailureName
	case errors.As(err, &unknown), errors.As(err, &invalid), errors.As(err, &roots), errors.As(err, &verify), errors.As(err, &pin):
		return FailureUntrusted
	case errors.As(err, &record), errors.Is(err, errNoHTTP2):
		return FailureTLSProtocol
	case errors.As(err, &op) && op.Op == "remote error": // an alert, whose type crypto/tls does not export
		switch op.Err.Error() {
		case "tls: unrecognized name":
			return FailureUnrecognized
		case "tls: protocol version not supported":
			return FailureTLSProtocol
		}
		return FailureHandshake
	case strings.Contains(err.Error(), "tls: server selected unsupported protocol version"):
		return FailureTLSProtocol
	}
	return ""
}
