package loop

import (
	"io"
	"syscall"
)

// spliceFibers is splice for connections of one loop.
func spliceFibers(dst, src *fiberConn, n int64, open bool, how Moving) (moved int64, srcErr, dstErr error) {
	p, err := getPipe()
	if err != nil {
		return 0, errCannotSplice, nil // out of descriptors, most likely
	}
	piped := 0
	defer func() { p.put(piped == 0) }()
	for open || moved < n {
		want := int64(pipeSize)
		if !open {
			want = min(want, n-moved)
		}
		how.limit(src)
		if !open {
			how.expect(n - moved)
		}
		err := src.mayRead()
		if err == nil {
			err = src.waitRead()
		}
		if err == ErrTimeout && how.Patience != nil && how.Patience() {
			continue
		}
		if err != nil {
			return moved, err, nil
		}
		m, err := syscall.Splice(src.fd, nil, p.w, nil, int(want), spliceMove|spliceNonblock)
		switch err {
		case nil:
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			src.in.ready = false
			continue
		case syscall.EINVAL, syscall.ENOSYS, syscall.EPERM:
			return moved, errCannotSplice, nil
		default:
			return moved, src.broken.noteErrno("splice", err.(syscall.Errno)), nil
		}
		if m == 0 {
			return moved, atEnd(src.broken.end(io.EOF), open), nil
		}
		src.l.current.steps++
		piped = int(m)
		if how.Arrived != nil {
			if err := how.Arrived(piped); err != nil {
				return moved, err, nil
			}
		}
		if piped, err = dst.drain(p, piped); err != nil {
			return moved, nil, err
		}
		moved += m
		if how.Progress != nil {
			if err := how.Progress(int(m)); err != nil {
				return moved, err, nil
			}
		}
	}
	return moved, nil, nil
}

// drain writes the n bytes that are in a pipe, and returns how many are left if
// it cannot.
func (c *fiberConn) drain(p pipe, n int) (left int, err error) {
	if err := c.over(); err != nil {
		return n, err
	}
	c.stall.since = Now()
	for n > 0 {
		m, err := syscall.Splice(p.r, nil, c.fd, nil, n, spliceMove|spliceNonblock)
		switch err {
		case nil:
			n -= int(m)
			c.stall.since = Now()
		case syscall.EINTR:
		case syscall.EAGAIN:
			c.out.ready = false
			if err := c.waitWrite(); err != nil {
				return n, err
			}
		default:
			return n, c.broken.noteErrno("splice", err.(syscall.Errno))
		}
	}
	return 0, nil
}
