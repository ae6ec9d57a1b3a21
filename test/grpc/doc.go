// Package grpc tests gRPC through the HTTP plane, with the clients and servers
// that everybody uses: all kinds of calls, deadlines, cancellation, errors, and
// streams that are long.
package grpc
