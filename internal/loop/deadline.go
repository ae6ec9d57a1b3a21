package loop

import (
	"errors"
	"sync/atomic"
	"syscall"
	"time"
)

// deadline is the bound of one direction. Setting a timer costs more than a
// short read, so what is armed in the poller is allowed to be earlier than
// what is wanted: when it fires too early it is armed again. Deadlines that
// move forwards with every request then cost one timer in each time-out
// period instead of two for each request.
type deadline struct {
	want  Time // 0 is none
	armed Time // what the poller has; 0 is none, fired means that it must be set anew
}

const fired Time = -1

// arm sets the poller's deadline through set if it has to.
func (d *deadline) arm(set func(time.Time) error) error {
	switch {
	case d.armed == fired:
	case d.want == 0 || d.armed != 0 && d.armed <= d.want:
		return nil
	}
	d.armed = d.want
	if d.want == 0 {
		return set(time.Time{})
	}
	return set(d.want.Wall())
}

// over says, once the poller's deadline has fired, whether the wanted one has
// passed as well.
func (d *deadline) over() bool {
	d.armed = fired
	return d.want != 0 && Now() >= d.want
}

// stall judges a write that waits. That the socket takes nothing more says
// little: it becomes writable again only when a third of its buffer is free,
// which can be more than a megabyte. What the other end has acknowledged counts
// as progress too, and is looked at a few times in each time-out.
type stall struct {
	since Time   // of the last progress
	acked uint64 // the last that was seen
}

// stallLooks is how often a waiting write is looked at in each time-out. A
// stall is found so much later, at most, as the first look has nothing to
// compare with.
const stallLooks = 4

// over says whether there has been no progress for the time-out, when acked
// bytes have been acknowledged so far.
func (s *stall) over(timeout time.Duration, acked uint64) bool {
	now := Now()
	if acked != s.acked {
		s.acked, s.since = acked, now
	}
	return now.Sub(s.since) >= timeout
}

// breakage remembers how a connection broke. The system tells that once, to
// whichever call comes first; the calls after that see an ordinary end. A read
// that follows a failed write, or a look at the connection, would take a cut
// stream for a finished one.
type breakage struct{ p atomic.Pointer[error] }

// note remembers err if it is the system's. EPIPE is no news: it follows a break
// that was told already, or an end in order.
func (k *breakage) note(err error) {
	var e syscall.Errno
	if errors.As(err, &e) && e != syscall.EPIPE {
		k.p.CompareAndSwap(nil, &err)
	}
}

// end is what a read returns at the end of the stream.
func (k *breakage) end(eof error) error {
	if p := k.p.Load(); p != nil {
		return *p
	}
	return eof
}

// dead reports whether err, from a write, says that the connection is over. The
// other end may have answered before.
func dead(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// interruption holds why a connection was interrupted.
type interruption struct{ p atomic.Pointer[error] }

func (i *interruption) set(cause error) { i.p.Store(&cause) }

func (i *interruption) clear() { i.p.Store(nil) }

func (i *interruption) err() error {
	if p := i.p.Load(); p != nil {
		return *p
	}
	return nil
}

// past is a deadline that has always passed.
var past = time.Unix(1, 0)
