package loop

import (
	"syscall"

	"golang.org/x/sys/unix"
)

func (c *fiberConn) ackNow() {
	if !c.closed {
		quickAck(c.fd)
	}
}

func (t *fiberTLS) ackNow() { t.c.ackNow() }

func (c *socket) ackNow() { ackNow(c.raw) }

func ackNow(raw syscall.RawConn) { _ = raw.Control(func(fd uintptr) { quickAck(int(fd)) }) }

// quickAck sends an acknowledgement that is due. It is no setting: what is
// written and read later decides anew.
func quickAck(fd int) { _ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUICKACK, 1) }
