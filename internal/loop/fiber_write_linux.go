package loop

import "syscall"

func (c *fiberConn) Write(b []byte) error { return c.Writev(b, nil) }

func (c *fiberConn) Writev(a, b []byte) error {
	if err := c.over(); err != nil {
		return err
	}
	a, b, err := c.send(a, b)
	if err != nil || len(a)+len(b) == 0 {
		return err
	}
	// What is written may be borrowed, and others are about to run.
	spill := c.l.takeSpill(len(a) + len(b))
	defer c.l.freeSpill(spill)
	rest := append(append(spill[:0], a...), b...)
	c.stall.since = Now()
	for {
		if err := c.waitWrite(); err != nil {
			return err
		}
		left, _, err := c.send(rest, nil)
		if err != nil || len(left) == 0 {
			return err
		}
		if len(left) < len(rest) {
			c.stall.since = Now()
		}
		rest = left
	}
}

// send writes what the socket takes, and returns the rest.
func (c *fiberConn) send(a, b []byte) (restA, restB []byte, err error) {
	for len(a)+len(b) > 0 {
		var n int
		var e syscall.Errno
		switch {
		case len(b) == 0:
			n, e = send(uintptr(c.fd), a)
		case len(a) == 0:
			n, e = send(uintptr(c.fd), b)
		default:
			n, e = sendv(uintptr(c.fd), a, b)
		}
		switch e {
		case 0:
			k := min(n, len(a))
			a, b = a[k:], b[n-k:]
		case syscall.EINTR:
		case syscall.EAGAIN:
			c.out.ready = false
			return a, b, nil
		default:
			return a, b, c.broken.noteErrno("send", e)
		}
	}
	return nil, nil, nil
}

// waitWrite waits until the socket may take bytes again, which it says only when
// a third of its buffer is free, so that it is tried a few times in each
// time-out as well. What the other end has acknowledged is looked at then, and
// counts as progress since c.stall.since, which the caller keeps.
func (c *fiberConn) waitWrite() error {
	var until Time
	if c.timeout > 0 {
		until = c.l.now.Add(c.timeout / stallLooks)
	}
	err := c.wait(&c.out, until)
	if err != ErrTimeout {
		return err
	}
	if c.stall.over(c.timeout, bytesAcked(c.fd)) {
		return ErrStalled
	}
	return nil
}
