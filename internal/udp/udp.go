// Package udp answers datagrams in batches.
//
// A [Socket] gives each datagram that comes to a [Handler], and sends what that
// answers, from the address that the datagram came to. On Linux it receives and
// sends many with one system call, on one socket for each processor, over which
// the kernel spreads clients; elsewhere, and where that is asked for, one at a
// time in Go's ways. Nothing is allocated for a datagram.
//
// Each socket has one goroutine, which calls the handler; answers are made where
// they are asked for, so that a handler must not wait.
package udp

import (
	"errors"
	"net/netip"
	"sync/atomic"
	"syscall"
)

// Limits of datagrams, in bytes.
const (
	// MaxDatagram is the longest that is taken; what is longer is dropped.
	MaxDatagram = 4096
	// MaxAnswer is the longest that is sent.
	MaxAnswer = 4096
)

// maxFailures is after how many failures in a row, and no datagram between them, a
// socket is given up: what does not pass is not to be tried as fast as it can be.
const maxFailures = 1000

// passes reports whether an error of a socket says nothing about the next datagram: a
// signal, a time-out, or what ICMP tells of an answer.
func passes(e syscall.Errno) bool {
	switch e {
	case syscall.EINTR, syscall.EAGAIN, syscall.ECONNREFUSED, syscall.EHOSTUNREACH, syscall.ENETUNREACH, syscall.EMSGSIZE:
		return true
	}
	return false
}

// Handler answers datagrams.
type Handler interface {
	// Begin is called when datagrams have come, before Answer is for each.
	Begin()
	// Answer appends the answer to datagram to reply, which has room for
	// MaxAnswer bytes, and returns it; empty for none. Neither is kept.
	Answer(from netip.AddrPort, datagram, reply []byte) []byte
}

// Stats are what a socket has counted.
type Stats struct {
	Received, Sent           atomic.Uint64 // datagrams
	BytesReceived, BytesSent atomic.Uint64
	Oversize                 atomic.Uint64 // longer than MaxDatagram, dropped
	Unsent                   atomic.Uint64 // answers that the system did not take
}

// ErrClosed ends Serve after Close.
var ErrClosed = errors.New("socket is closed")

// Socket is a UDP address, or a share of one. Serve is called once, Close by
// anyone.
type Socket interface {
	// Addr is the address as bound.
	Addr() netip.AddrPort
	// Serve answers datagrams until Close, then returns ErrClosed.
	Serve(h Handler, s *Stats) error
	// Close makes Serve answer what has come, and end; before Serve, it frees the
	// address.
	Close()
}
