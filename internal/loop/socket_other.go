//go:build !linux

package loop

import "net"

// newSocket has nothing better than stream here.
func newSocket(*net.TCPConn) Conn { return nil }

type socketCondition int

const (
	socketQuiet socketCondition = iota
	socketEnded
)

// socketState cannot look without waiting here; the next read will tell.
func socketState(*net.TCPConn) socketCondition { return socketQuiet }
