package httplb

import (
	"bytes"
	"strconv"

	"fairlead/internal/h1"
)

// gRPC clients are told of our errors as gRPC tells of any: by status 200 and a
// grpc-status in the head, without a body ("Trailers-Only" in gRPC over HTTP/2).

var (
	typeGRPC    = []byte("application/grpc")
	protocolOne = "HTTP/1"
)

// isGRPC reports whether a request is a call of gRPC, which needs HTTP/2 at least.
func (x *exchange) isGRPC(req *h1.Request) bool {
	if string(req.Method) != "POST" { // as all calls are
		return false
	}
	if p := x.s.protocol(); p[:len(protocolOne)] == protocolOne {
		return false
	}
	for i := range req.Fields {
		f := &req.Fields[i]
		if f.Kind != h1.KindContentType {
			continue
		}
		v := req.Value(f)
		return len(v) >= len(typeGRPC) && bytes.EqualFold(v[:len(typeGRPC)], typeGRPC) &&
			(len(v) == len(typeGRPC) || v[len(typeGRPC)] == '+' || v[len(typeGRPC)] == ';')
	}
	return false
}

// Codes of gRPC.
const (
	grpcDeadlineExceeded = 4
	grpcUnimplemented    = 12
	grpcInternal         = 13
	grpcUnavailable      = 14
)

// grpcCode returns the code that a failure is to gRPC. Clients may send a call again
// that was Unavailable, so that only what no endpoint has acted upon is.
func (f *failure) grpcCode() int {
	switch {
	case f == failAnswer, f == failTimeout:
		return grpcDeadlineExceeded
	case f == failUnknown, f == failEmpty:
		return grpcInternal
	case f.status == 404, f.status == 501:
		return grpcUnimplemented // as gRPC maps these statuses
	case f.status >= 500:
		return grpcUnavailable
	}
	return grpcInternal
}

// grpcLines returns the lines of the head that tell of a failure.
func (f *failure) grpcLines() string {
	return "Content-Type: application/grpc\r\nGrpc-Status: " + strconv.Itoa(f.grpcCode()) +
		"\r\nGrpc-Message: " + strconv.Itoa(f.status) + " " + f.title + ": " + f.text + "\r\n"
}
