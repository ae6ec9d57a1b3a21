package loop

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

func (c *fiberConn) gather(n int) {
	if n == 0 {
		c.slow = false
	}
	if c.slow {
		return // it waits for the first bytes already
	}
	if low := max(n, 1); low != max(c.mark, 1) {
		if c.closed || unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, low) != nil {
			return
		}
	}
	c.mark = n
}

// waitGather is waitRead while bytes are gathered.
func (c *fiberConn) waitGather() error {
	until := c.l.now.Add(gatherTime)
	if c.readUntil != 0 && c.readUntil <= until {
		return c.wait(&c.in, c.readUntil)
	}
	err := c.wait(&c.in, until)
	if err == ErrTimeout {
		c.gather(1)
		c.slow = true
		c.in.ready = true // what is there is taken
		err = nil
	}
	return err
}

// space implements spacious.
func (c *fiberConn) space() int {
	if !c.out.ready {
		return 0 // it was full, and has not told that it is not any more
	}
	const sndbuf, queued = 3, 5 // of <linux/sock_diag.h>, SK_MEMINFO
	var info [9]uint32
	size := uint32(unsafe.Sizeof(info))
	_, _, e := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(c.fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	if e != 0 {
		return 0 // before Linux 4.12
	}
	return int(info[sndbuf]) - int(info[queued])
}

// space implements spacious.
func (t *fiberTLS) space() int {
	if len(t.pending) > 0 {
		return 0
	}
	return t.c.space()
}
