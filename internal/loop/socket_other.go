//go:build !linux

package loop

import (
	"net"
	"syscall"
)

// newSocket has nothing better than stream here.
func newSocket(*net.TCPConn) Conn { return nil }

type socketCondition int

const (
	socketQuiet socketCondition = iota
	socketFull                  // never seen here
	socketEnded
)

// socketState cannot look without waiting here; the next read will tell.
func socketState(syscall.RawConn) (socketCondition, error) { return socketQuiet, nil }

// ackNow cannot be had here.
func ackNow(syscall.RawConn) {}

// acknowledged is not known here.
func acknowledged(syscall.RawConn) uint64 { return 0 }
