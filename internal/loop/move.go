package loop

import (
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// copyFirst is how much is copied before splicing begins: short streams are
// cheaper to copy, as splicing takes a pipe and one more call.
const copyFirst = 256 << 10

// Sink takes what is moved: a connection, or what stands before one.
type Sink interface {
	// Write is as that of Conn.
	Write(b []byte) error
}

// Moving says how Move waits and what it tells.
type Moving struct {
	// Timeout bounds each wait for bytes from the source; 0 is no bound.
	Timeout time.Duration
	// Patience, if given, is asked when Timeout has passed: true lets the
	// wait go on.
	Patience func() bool
	// Arrived, if given, is told of bytes once they are read and before they
	// are written; an error ends the move, as one of the source.
	Arrived func(n int) error
	// Progress, if given, is told each number of bytes once they are written;
	// an error ends the move, as one of the source.
	Progress func(n int) error
	// Excess, if given, is told what was read beyond the bytes asked for, and
	// has to copy it. Then ErrExcess is returned.
	Excess func(b []byte)

	// gather, if given, makes waits be for so many bytes.
	gather func(n int)
	// space, if given, is how much the destination takes without waiting.
	space func() int
	// last, if given, is when Timeout began to run last, for a time-out that
	// several moves share.
	last *atomic.Int64
}

// gatherFrom is from what length on it pays to wait for more than the first
// bytes of what is moved.
const gatherFrom = 2 * gatherMark

// errCannotSplice says that the system does not let us.
var errCannotSplice = errors.New("splice is not to be had")

// Move moves n bytes from src to dst, or all until the end of the stream when
// n is below 0. A stream that ends before n bytes is io.ErrUnexpectedEOF. It
// copies at first and splices, where the system can, once the stream is bulk.
// The error is told by its side; at most one is not nil. ErrExcess is only
// returned for what had to be read to see it: what was spliced never holds too
// much, and the excess then waits in src, which is not Quiet.
func Move(dst Sink, src Conn, n int64, how Moving) (moved int64, srcErr, dstErr error) {
	copying := !canSplice(dst, src)
	if a, ok := src.(acker); ok && n >= ackFrom {
		defer a.ackNow()
	}
	if g, ok := src.(gatherer); ok && n >= gatherFrom {
		how.gather = g.gather
		defer g.gather(0)
		if s, ok := dst.(spacious); ok {
			how.space = s.space
		}
	}
	for n < 0 || moved < n {
		if moved >= copyFirst && !copying {
			src.Release()
			m, srcErr, dstErr := splice(dst, src, n-moved, n < 0, how)
			moved += m
			if srcErr != errCannotSplice {
				return moved, srcErr, dstErr
			}
			copying = true
		}
		how.limit(src)
		how.expectCopy(n - moved)
		b, err := src.Read(nil)
		if err == ErrTimeout && how.Patience != nil && how.Patience() {
			continue
		}
		if err != nil {
			return moved, atEnd(err, n < 0), nil
		}
		// The caller asked for n bytes only: more than that would belong to
		// another message, which a well-behaved source does not send before
		// it is asked.
		excess := n >= 0 && int64(len(b)) > n-moved
		if excess {
			if how.Excess != nil {
				how.Excess(b[n-moved:])
			}
			b = b[:n-moved]
		}
		if how.Arrived != nil {
			if err := how.Arrived(len(b)); err != nil {
				return moved, err, nil
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
		if excess {
			return moved, ErrExcess, nil
		}
	}
	return moved, nil, nil
}

// atEnd returns what err, from a read, means for a move, which is open if it
// goes on until the end of the stream.
func atEnd(err error, open bool) error {
	switch {
	case err != io.EOF:
		return err
	case open:
		return nil
	default:
		return io.ErrUnexpectedEOF
	}
}

func (how *Moving) limit(src Conn) {
	switch {
	case how.Timeout <= 0:
		src.SetReadDeadline(0)
	case how.last != nil:
		src.SetReadDeadline(Time(how.last.Load()).Add(how.Timeout))
	default:
		src.SetReadDeadline(Now().Add(how.Timeout))
	}
}

// expect tells a source that can make use of it how much is certain to come.
func (how *Moving) expect(left int64) {
	if how.gather != nil {
		how.gather(int(min(left, gatherMark)))
	}
}

// expectCopy is expect for bytes that are read. They are gathered only while the
// destination can take them at once: what it does not take has to be kept, and
// who reads slowly, as thousands may, is served with what a usual read brings.
func (how *Moving) expectCopy(left int64) {
	switch {
	case how.gather == nil:
	case how.space != nil && how.space() >= gatherFrom:
		how.expect(left)
	default:
		how.gather(1)
	}
}

// errIdle interrupts one direction of a relay when the other has found that
// both are silent.
var errIdle = errors.New("relay was idle")

// Relay moves bytes between a and b in both directions until both have ended,
// carrying over half-closes. When one direction breaks, both connections are
// aborted, so that neither end takes a cut stream for a finished one. idle
// bounds how long both directions together may be silent: after that ErrTimeout
// is returned, with both streams ended in order, or aborted if bytes were
// still on their way.
func Relay(d Driver, a, b Conn, idle time.Duration) (aToB, bToA int64, err error) {
	var last atomic.Int64
	last.Store(int64(Now()))
	how := Moving{
		Timeout:  idle,
		Patience: func() bool { return Now().Sub(Time(last.Load())) < idle },
		Progress: func(int) error { last.Store(int64(Now())); return nil },
		last:     &last,
	}
	var first atomic.Pointer[error]
	var unwritten atomic.Bool // bytes were read and not written
	run := func(dst, src Conn, moved *int64) {
		n, srcErr, dstErr := Move(dst, src, -1, how)
		*moved = n
		if dstErr != nil {
			unwritten.Store(true)
		}
		err := srcErr
		if dstErr != nil {
			err = dstErr
		}
		if err == nil {
			err = dst.CloseWrite()
		}
		if err == nil || !first.CompareAndSwap(nil, &err) {
			return
		}
		if srcErr == ErrTimeout {
			// The streams are ended when both directions have come to
			// rest: a write may be under way.
			dst.Interrupt(errIdle)
			src.Interrupt(errIdle)
			return
		}
		dst.Abort()
		src.Abort()
	}
	t := d.Spawn(func() { run(a, b, &bToA) })
	run(b, a, &aToB)
	t.Wait()
	p := first.Load()
	if p == nil {
		return aToB, bToA, nil
	}
	if *p == ErrTimeout {
		for _, c := range []Conn{a, b} {
			if unwritten.Load() {
				c.Abort()
				continue
			}
			c.Resume()
			c.CloseWrite()
		}
	}
	return aToB, bToA, *p
}
