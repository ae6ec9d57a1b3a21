package loop

import (
	"io"
	"sync/atomic"
	"time"
)

// copyFirst is how much is copied before splicing begins: short streams are
// cheaper to copy, as splicing takes a pipe and one more call.
const copyFirst = 256 << 10

// Moving says how Move waits and what it tells.
type Moving struct {
	// Timeout bounds each wait for bytes from the source; 0 is no bound.
	Timeout time.Duration
	// Patience, if given, is asked when Timeout has passed: true lets the
	// wait go on.
	Patience func() bool
	// Progress, if given, is told each number of bytes once they are written;
	// an error ends the move, as one of the source.
	Progress func(n int) error
}

// Move moves n bytes from src to dst, or all until the end of the stream when
// n is below 0. A stream that ends before n bytes is io.ErrUnexpectedEOF. It
// copies at first and splices, where the system can, once the stream is bulk.
// The error is told by its side; at most one is not nil.
func Move(dst, src Conn, n int64, how Moving) (moved int64, srcErr, dstErr error) {
	for n < 0 || moved < n {
		if moved >= copyFirst && canSplice(dst, src) {
			src.Release()
			m, srcErr, dstErr := splice(dst, src, n-moved, n < 0, how)
			return moved + m, srcErr, dstErr
		}
		how.limit(src)
		b, err := src.Read(nil)
		if err == ErrTimeout && how.Patience != nil && how.Patience() {
			continue
		}
		if err != nil {
			if err == io.EOF {
				if n < 0 {
					return moved, nil, nil
				}
				err = io.ErrUnexpectedEOF
			}
			return moved, err, nil
		}
		if n >= 0 {
			// The caller asked for these bytes only: more than that would
			// belong to another message, which a well-behaved source does
			// not send before it is asked.
			if int64(len(b)) > n-moved {
				if err := dst.Write(b[:n-moved]); err != nil {
					return moved, nil, err
				}
				return n, ErrExcess, nil
			}
		}
		if err := dst.Write(b); err != nil {
			return moved, nil, err
		}
		moved += int64(len(b))
		if how.Progress != nil {
			if err := how.Progress(len(b)); err != nil {
				return moved, err, nil
			}
		}
	}
	return moved, nil, nil
}

func (how *Moving) limit(src Conn) {
	if how.Timeout > 0 {
		src.SetReadDeadline(Now().Add(how.Timeout))
	} else {
		src.SetReadDeadline(0)
	}
}

// Relay moves bytes between a and b in both directions until both have ended,
// carrying over half-closes. When one direction breaks, both connections are
// aborted, so that neither end takes a cut stream for a finished one. idle
// bounds how long both directions together may be silent; after that both are
// closed in order and ErrTimeout is returned.
func Relay(d Driver, a, b Conn, idle time.Duration) (aToB, bToA int64, err error) {
	var last atomic.Int64
	last.Store(int64(Now()))
	how := Moving{
		Timeout:  idle,
		Patience: func() bool { return Now().Sub(Time(last.Load())) < idle },
		Progress: func(int) error { last.Store(int64(Now())); return nil },
	}
	var first atomic.Pointer[error]
	run := func(dst, src Conn, moved *int64) {
		n, srcErr, dstErr := Move(dst, src, -1, how)
		*moved = n
		err := srcErr
		if err == nil {
			err = dstErr
		}
		if err == nil {
			err = dst.CloseWrite()
		}
		if err == nil || !first.CompareAndSwap(nil, &err) {
			return
		}
		if err == ErrTimeout && srcErr != nil {
			dst.CloseWrite()
			src.CloseWrite()
			dst.Interrupt(err)
			src.Interrupt(err)
			return
		}
		dst.Abort()
		src.Abort()
	}
	t := d.Spawn(func() { run(a, b, &bToA) })
	run(b, a, &aToB)
	t.Wait()
	if p := first.Load(); p != nil {
		err = *p
	}
	return aToB, bToA, err
}
