package loop

import (
	"sync/atomic"
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
