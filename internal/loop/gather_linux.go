package loop

import (
	"golang.org/x/sys/unix"
)

func (c *fiberConn) gather(n int) {
	n = max(n, 1)
	if n == 1 {
		c.slow = false
	} else if c.slow || c.closed {
		return
	}
	if n == max(c.mark, 1) || c.closed {
		return
	}
	if unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, n) == nil {
		c.mark = n
	}
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
