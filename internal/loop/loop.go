// Package loop gives protocol code its connections.
//
// Protocol code is written straight: it reads, writes and waits as if it were
// alone. It never sees a net.Conn, a bufio.Reader or a channel, only [Conn] and
// [Driver], so that the driver can be changed beneath it. An [Engine] has the
// drivers of a process and spreads connections over them. There are two kinds:
//
//   - On Linux, event loops ([NewLoopEngine]): each has its own epoll descriptor,
//     timers and listening sockets, and runs its tasks as fibers, coroutines
//     that give control back to the loop where they have to wait. A connection
//     that idles owns neither a fiber nor a buffer.
//   - Everywhere, goroutines ([NewGoroutineEngine]): one for each task, which
//     waits in Go's network poller. Tests run on it with pipes and a clock of
//     their own.
//
// The tests of this package hold both to the same contract.
//
// # Borrowed bytes
//
// Read lends bytes instead of filling a buffer of the caller's: a connection
// that waits owns no buffer, and buffers that are in use stay warm in the
// processor's cache. What Read returned is valid until the code that holds it
// waits again, on any connection: for the next Read, for a Write that does not
// fit into the socket, for a connection to an endpoint. Whatever is needed
// longer must be copied first. (On goroutines the bytes are kept until the next
// Read or Release of the same connection; code that relies on that breaks on
// event loops, where the tests overwrite them as soon as their task waits.)
//
// # Blocking
//
// A task of an event loop waits only in the ways of Conn, Driver, Task and Bell.
// Whatever else may block, like files, names to be looked up, or locks that are
// held for long, holds up all connections of the loop and belongs into
// Driver.Do. A task that holds its loop for more than 10 ms is counted and told,
// see [Options]; package looptest finds those that block it.
//
// # Concurrency
//
// One task reads a connection and one, which may be another, writes it.
// Interrupt and Abort may be called by anyone at any time, everything else only
// by tasks of the connection's driver.
package loop

import (
	"crypto/tls"
	"errors"
	"net/netip"
	"os"
	"time"
)

// Conn is one connection.
type Conn interface {
	// Read waits until bytes have come and returns prefix followed by them;
	// the prefix may be part of what the last Read lent. At the end of the
	// stream it returns io.EOF, at the deadline ErrTimeout, after Interrupt
	// its cause. Together with an error it returns no bytes, and a prefix
	// that was lent is then lost.
	Read(prefix []byte) ([]byte, error)

	// Ask makes sure that nothing has come meanwhile, writes b, and waits for
	// the first bytes that come back. ErrStale says that the other end had
	// closed the connection, or had sent something unasked, before a byte of
	// b was written. ErrTimeout says that all of b was written: the answer
	// can be waited for with Read. What comes back although not all of b was
	// taken is returned if the other end has closed, as it may say why. b
	// must not be lent by this connection.
	Ask(b []byte) ([]byte, error)

	// Release gives back what the last Read lent.
	Release()

	// Write writes all of b. A write that makes no progress for the write
	// time-out ends with ErrStalled.
	Write(b []byte) error

	// Writev writes all of a, then all of b, in one go where it can.
	Writev(a, b []byte) error

	// SetReadDeadline bounds all waiting for bytes in Read and Ask from now
	// on; 0 is no bound. It costs nothing when deadlines only move forwards.
	SetReadDeadline(t Time)

	// SetWriteTimeout bounds how long a write, from the next one on, may make
	// no progress; 0 is no bound. A stall may be found a quarter later. What
	// the other end's system takes is progress, where that can be seen.
	SetWriteTimeout(d time.Duration)

	// CloseWrite ends the stream in the direction to the other end. It is the
	// writing task's, as its last write.
	CloseWrite() error

	// Close ends the connection in order: what was written is still sent.
	Close() error

	// Abort ends the connection with a reset, so that the other end knows
	// that the stream was cut.
	Abort()

	// Interrupt ends waiting with the given cause, now and until Resume. A
	// write that it ends leaves an unknown part unwritten, and with TLS no
	// write can follow it.
	Interrupt(cause error)

	// Resume lets a connection that was interrupted wait again. No task may
	// be waiting on it.
	Resume()

	// Alive reports whether the other end has not closed the connection, as
	// far as is known without waiting. Quiet reports that, and that nothing
	// has come that was not read. With TLS only reading can tell that, so
	// that Quiet is the reading task's, waits for a moment when part of a
	// record has come, and ends the loan of what the last Read lent.
	Alive() bool
	Quiet() bool

	// Remote and Local return the addresses of the two ends.
	Remote() netip.AddrPort
	Local() netip.AddrPort
}

// Task is something that runs beside its starter.
type Task interface {
	// Wait waits for its end.
	Wait()
}

// Bell lets one task wait until others have something for it. All of them
// belong to the driver that made the bell.
type Bell interface {
	// Wait waits until the bell has been rung since the last Wait, or until
	// the deadline (ErrTimeout); 0 is none. One task at a time waits.
	Wait(deadline Time) error
	// Ring ends the wait that goes on, or else the next one. Rings that come
	// before a wait count as one.
	Ring()
}

// Driver runs protocol code and makes connections for it. A task calls the
// methods of its own driver; those that say so may be called by anyone.
type Driver interface {
	// Spawn runs f beside the caller.
	Spawn(f func()) Task
	// Start is Spawn for tasks that nobody waits for. It allocates nothing
	// that it can avoid.
	Start(f func())
	// Go runs f as a task. It may be called by anyone.
	Go(f func())
	// Do runs f, which may block, while other tasks go on.
	Do(f func())
	// Sleep waits for d.
	Sleep(d time.Duration)
	// Yield lets other tasks run, for one that has computed for long. Those
	// that yield go on in order, few at a time beside the others.
	Yield()
	// Bell returns a new bell.
	Bell() Bell
	// Idle is for a task that would wait for bytes, or the end, of c next and
	// has nothing to keep meanwhile. If it returns true, the task goes on to
	// read. If it returns false, the task has to end: f runs as a new one once
	// a Read would return, be it by the deadline or an interruption.
	Idle(c Conn, f func()) bool
	// Dial connects to an address until the deadline. Errors are those of the
	// operating system, ErrTimeout and ErrStopped.
	Dial(to netip.AddrPort, from Sources, deadline Time) (Conn, error)
	// Preamble reads what stands before the protocol on a connection from which
	// nothing was read, and no byte more: parse is called with what has come,
	// which is its until the end, and returns how many bytes are lacking at
	// least, 0 if none are. It ends at the deadline with ErrTimeout, on Interrupt
	// with its cause, at the end of the stream with io.ErrUnexpectedEOF, and with
	// the error of parse.
	Preamble(c Conn, deadline Time, parse func(b []byte) (lacks int, err error)) error
	// Secure puts TLS on a connection from which nothing was read. It ends at
	// the deadline with ErrTimeout, on Interrupt of c with its cause, and, as
	// the client, with ErrStopped. With an error c is still to be closed;
	// without one c belongs to the returned connection, and only Interrupt and
	// Abort may be called on it.
	Secure(c Conn, side Side, config *tls.Config, deadline Time) (Conn, *tls.ConnectionState, error)
	// Index is the driver's number among those of its engine.
	Index() int
}

// Sources are the addresses that connections are made from, by family; the zero
// Addr leaves the choice to the system.
type Sources struct{ V4, V6 netip.Addr }

// For returns the source for connections to an address.
func (s Sources) For(to netip.Addr) netip.Addr {
	if to.Unmap().Is4() {
		return s.V4
	}
	return s.V6
}

// Side is a side of a TLS handshake.
type Side bool

// The sides.
const (
	AsServer Side = false
	AsClient Side = true
)

// ErrTimeout is returned when a read deadline has passed.
var ErrTimeout = os.ErrDeadlineExceeded

// ErrStalled is returned by a write that made no progress for too long.
var ErrStalled = errors.New("the other end takes no more bytes")

// ErrExcess is returned by Move when the source sent more than was asked for;
// what was asked for has been written.
var ErrExcess = errors.New("more bytes came than were announced")

// ErrStale is returned by Ask when the connection was over before anything was
// asked.
var ErrStale = errors.New("connection was closed by the other end while unused")

// Time is a moment on the process's monotonic clock, in nanoseconds since it
// started. The zero Time is none.
type Time int64

var start = time.Now()

// ErrStopped is returned by dialling that was stopped, see Engine.
var ErrStopped = errors.New("shutting down")

// Now returns the current moment.
func Now() Time { return Time(time.Since(start)) + 1 }

// Add returns the moment d later.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }

// Sub returns how much later t is than u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Wall returns the moment in calendar time.
func (t Time) Wall() time.Time { return start.Add(time.Duration(t - 1)) }
