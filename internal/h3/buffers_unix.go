//go:build unix

package h3

import "syscall"

func bufferSizes(fd uintptr) (received, sent int) {
	received, _ = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF)
	sent, _ = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF)
	return received, sent
}
