package loop

import (
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// pipeSize is what one splice can move. Small pipes cost throughput: the
// receiver gets many small fragments.
const pipeSize = 1 << 20

// pipe carries bytes between two splices.
type pipe struct{ r, w int }

// pipes keeps pipes that are empty and not in use. It is only asked once for
// each bulk stream, so a lock does no harm.
var pipes struct {
	sync.Mutex
	free []pipe
}

const maxFreePipes = 32

func getPipe() (pipe, error) {
	pipes.Lock()
	if n := len(pipes.free); n > 0 {
		p := pipes.free[n-1]
		pipes.free = pipes.free[:n-1]
		pipes.Unlock()
		return p, nil
	}
	pipes.Unlock()
	var fds [2]int
	if err := syscall.Pipe2(fds[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		return pipe{}, os.NewSyscallError("pipe2", err)
	}
	// A smaller pipe than asked for (a limit of the system) works as well.
	_, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, pipeSize)
	return pipe{r: fds[0], w: fds[1]}, nil
}

// put gives back a pipe, which must be empty to be used again.
func (p pipe) put(empty bool) {
	if empty {
		pipes.Lock()
		if len(pipes.free) < maxFreePipes {
			pipes.free = append(pipes.free, p)
			pipes.Unlock()
			return
		}
		pipes.Unlock()
	}
	syscall.Close(p.r)
	syscall.Close(p.w)
}

func canSplice(dst Sink, src Conn) bool {
	switch src := src.(type) {
	case *socket:
		_, ok := dst.(*socket)
		return ok
	case *fiberConn:
		dst, ok := dst.(*fiberConn)
		return ok && dst.l == src.l
	}
	return false
}

// splice flags of <fcntl.h>.
const (
	spliceMove     = 1
	spliceNonblock = 2
)

// splice moves n bytes, or all until the end when open is true, through a
// pipe, without copying them into the process. The error of the source is
// errCannotSplice where the system does not let it, so that the rest must be
// copied.
func splice(to Sink, from Conn, n int64, open bool, how Moving) (moved int64, srcErr, dstErr error) {
	if src, ok := from.(*fiberConn); ok {
		return spliceFibers(to.(*fiberConn), src, n, open, how)
	}
	dst, src := to.(*socket), from.(*socket)
	p, err := getPipe()
	if err != nil {
		return 0, errCannotSplice, nil // out of descriptors, most likely
	}
	defer func() { p.put(dst.piped == 0); dst.piped = 0 }()

	var got int
	fill := func(fd uintptr) bool {
		want := int64(pipeSize)
		if !open {
			want = min(want, n-moved)
		}
		src.rerr = nil
		for {
			m, err := syscall.Splice(int(fd), nil, p.w, nil, int(want), spliceMove|spliceNonblock)
			switch err {
			case nil:
				got = int(m)
				return true
			case syscall.EINTR:
			case syscall.EAGAIN:
				return false
			case syscall.EINVAL, syscall.ENOSYS, syscall.EPERM:
				src.rerr = errCannotSplice
				return true
			default:
				src.rerr = src.broken.noteErrno("splice", err.(syscall.Errno))
				return true
			}
		}
	}
	drain := func(fd uintptr) bool {
		dst.werr = nil
		for {
			m, err := syscall.Splice(p.r, nil, int(fd), nil, dst.piped, spliceMove|spliceNonblock)
			switch err {
			case nil:
				dst.piped -= int(m)
				return true
			case syscall.EINTR:
			case syscall.EAGAIN:
				return !dst.wait
			default:
				dst.werr = dst.broken.noteErrno("splice", err.(syscall.Errno))
				return true
			}
		}
	}
	for open || moved < n {
		how.limit(src)
		err := src.await(fill)
		if err == ErrTimeout && how.Patience != nil && how.Patience() {
			continue
		}
		if err != nil {
			return moved, err, nil
		}
		if got == 0 {
			return moved, atEnd(src.broken.end(io.EOF), open), nil
		}
		dst.piped = got
		if how.Arrived != nil {
			if err := how.Arrived(got); err != nil {
				return moved, err, nil
			}
		}
		if err := dst.flush(drain); err != nil {
			return moved, nil, err
		}
		moved += int64(got)
		if how.Progress != nil {
			if err := how.Progress(got); err != nil {
				return moved, err, nil
			}
		}
	}
	return moved, nil, nil
}
