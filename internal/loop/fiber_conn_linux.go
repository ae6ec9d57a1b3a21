package loop

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// fiberConn is a Conn over a socket of an event loop. Only Interrupt and Abort
// may be called from elsewhere than the loop's tasks.
type fiberConn struct {
	l             *eventLoop
	fd            int
	generation    int32 // tells events of this connection from those of others that had fd
	remote, local netip.AddrPort
	in, out       side

	ended     bool // epoll has told that the other end has closed its direction, or that all is broken
	closed    bool
	accepted  bool // counted among the loop's clients
	dialling  bool // ends when dialling is stopped
	slow      bool // too slow to gather bytes
	mark      int  // bytes that a wait is for; see gather
	readUntil Time
	timeout   time.Duration // of writes
	stall     stall

	cause    interruption
	broken   breakage
	aborted  atomic.Bool
	notified atomic.Bool // posted is to come
}

// side is one direction of a connection.
type side struct {
	conn   *fiberConn
	ready  bool   // epoll has told so, and no call has found out that it is over
	waiter *fiber // who waits for it
	idle   func() // for reading: what is run instead
	until  Time   // the waiter's deadline
	timer  timer  // set for until or earlier
}

// wake lets who waits look again.
func (s *side) wake() {
	switch f, idle := s.waiter, s.idle; {
	case f != nil:
		s.waiter = nil
		f.loop.ready(f)
	case idle != nil:
		s.idle = nil
		s.conn.l.start(idle, nil)
	}
}

// expired implements expirer.
func (s *side) expired() {
	switch l := s.conn.l; {
	case s.waiter == nil && s.idle == nil || s.until == 0:
	case l.now < s.until:
		l.wheel.add(&s.timer, s.until)
	default:
		s.wake()
	}
}

// arm sets the timer for until, unless it fires before that already: then it is
// set again at that time. Deadlines that only move forwards so cost nothing.
func (s *side) arm(until Time) {
	s.until = until
	if until == 0 {
		return
	}
	w := &s.conn.l.wheel
	if s.timer.set && s.timer.due > dueTick(until) {
		w.remove(&s.timer)
	}
	if !s.timer.set {
		w.add(&s.timer, until)
	}
}

// wait parks the current fiber until a side may be ready, but not beyond a
// deadline (ErrTimeout), an interruption, or the connection's end.
func (c *fiberConn) wait(s *side, until Time) error {
	l := c.l
	for {
		if err := c.over(); err != nil || s.ready {
			return err
		}
		if until != 0 && l.now >= until {
			return ErrTimeout
		}
		if s.waiter != nil {
			panic("loop: two tasks wait for the same direction of a connection")
		}
		s.arm(until)
		s.waiter = l.current
		l.current.park()
		s.waiter = nil
	}
}

// over returns why nothing can be done with the connection any more, or now.
func (c *fiberConn) over() error {
	switch {
	case c.closed || c.aborted.Load():
		return net.ErrClosed
	case c.dialling && c.l.stopped && c.cause.err() == nil:
		return ErrStopped
	}
	return c.cause.err()
}

// mayRead says whether a read may begin.
func (c *fiberConn) mayRead() error {
	if err := c.over(); err != nil {
		return err
	}
	if c.readUntil != 0 && c.l.now >= c.readUntil {
		return ErrTimeout
	}
	return nil
}

func (c *fiberConn) Read(prefix []byte) ([]byte, error) {
	if err := c.mayRead(); err != nil {
		return nil, err
	}
	l := c.l
	var kept []byte
	for {
		if !c.in.ready || l.current.tired() {
			if kept == nil {
				kept = l.keep(prefix)
				prefix = kept
			}
			if err := c.waitRead(); err != nil {
				l.drop(kept)
				return nil, err
			}
		}
		buf := l.room(len(prefix))
		k := copy(buf, prefix)
		if kept == nil { // else it stays where it outlives the next wait too
			prefix = buf[:k]
		}
		n, err := c.recv(buf[k:min(len(buf), k+c.most())])
		switch {
		case n > 0:
			l.drop(kept)
			return l.lend(c, buf[:k+n]), nil
		case err != nil:
			l.drop(kept)
			return nil, err
		}
	}
}

// most is how much a read brings at most. It may have to be kept for a writer
// that waits, so that it is only a buffer once Move has found that the writer
// is slow, or when many are.
func (c *fiberConn) most() int {
	if c.mark == 1 || c.mark == 0 && c.l.spills.held > maxHeld {
		return bufferSize
	}
	return loopBuffer
}

// waitRead waits until there may be bytes. Where there are some already, it only
// lets others run when it is their turn.
func (c *fiberConn) waitRead() error {
	if f := c.l.current; c.in.ready && f.tired() {
		f.rest()
	}
	if c.mark > 1 && !c.in.ready {
		return c.waitGather()
	}
	return c.wait(&c.in, c.readUntil)
}

// recv reads once, and counts that as a step of the fiber. Without bytes and
// without an error there were none.
func (c *fiberConn) recv(b []byte) (int, error) {
	for {
		n, e := recv(uintptr(c.fd), b)
		switch {
		case e == 0 && n > 0:
			if n < len(b) && !c.ended {
				c.in.ready = false // it is empty; what comes now is a new event
			}
			c.l.current.steps++
			return n, nil
		case e == 0:
			c.ended = true
			return 0, c.broken.end(io.EOF)
		case e == syscall.EINTR:
		case e == syscall.EAGAIN:
			c.in.ready = false
			return 0, nil
		default:
			c.ended = true
			return 0, c.broken.noteErrno("recv", e)
		}
	}
}

// Ask looks for what came meanwhile in what epoll has told, no longer than
// lookAfter ago. A connection that was closed before that is found stale without
// a system call of its own. One that is closed in this very moment breaks the
// read, as it would with a look that comes just too early.
func (c *fiberConn) Ask(b []byte) ([]byte, error) {
	if !c.Quiet() {
		return nil, ErrStale
	}
	werr := c.Write(b)
	if werr != nil && !dead(werr) {
		return nil, werr
	}
	// Where it closed before it had read all, it may have said why.
	answer, err := c.Read(nil)
	if werr != nil && err != nil {
		err = werr
	}
	return answer, err
}

func (c *fiberConn) Release() { c.l.release(c) }

func (c *fiberConn) SetReadDeadline(t Time)          { c.readUntil = t }
func (c *fiberConn) SetWriteTimeout(d time.Duration) { c.timeout = d }

func (c *fiberConn) CloseWrite() error {
	if c.closed {
		return net.ErrClosed
	}
	return os.NewSyscallError("shutdown", syscall.Shutdown(c.fd, syscall.SHUT_WR))
}

func (c *fiberConn) Close() error {
	if c.closed {
		return net.ErrClosed
	}
	c.shut()
	return nil
}

// shut ends the connection. The descriptor, which the next connection may get
// at once, is closed last.
func (c *fiberConn) shut() {
	l := c.l
	c.closed = true
	l.conns[c.fd] = nil
	l.open--
	if c.accepted {
		l.clients.Add(-1)
	}
	l.wheel.remove(&c.in.timer)
	l.wheel.remove(&c.out.timer)
	c.in.wake()
	c.out.wake()
	if c.aborted.Load() {
		_ = unix.SetsockoptLinger(c.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	}
	closeSocket(c.fd)
}

// closeSocket closes a socket, which waits for nothing.
func closeSocket(fd int) { _, _, _ = syscall.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

func (c *fiberConn) Abort() {
	c.aborted.Store(true)
	c.notify()
}

func (c *fiberConn) Interrupt(cause error) {
	c.cause.set(cause)
	c.notify()
}

// notify makes the loop look at what was asked from elsewhere.
func (c *fiberConn) notify() {
	if !c.notified.Swap(true) {
		c.l.post(c)
	}
}

// posted implements post.
func (c *fiberConn) posted() {
	c.notified.Store(false)
	switch {
	case c.closed:
	case c.aborted.Load():
		c.shut()
	default:
		c.in.wake()
		c.out.wake()
	}
}

func (c *fiberConn) Resume() { c.cause.clear() }

func (c *fiberConn) Alive() bool { return !c.closed && !c.aborted.Load() && !c.ended }

func (c *fiberConn) Quiet() bool {
	known := c.l.look()
	if !c.Alive() {
		return false
	}
	if c.in.ready || !known {
		state, e := socketPeek(uintptr(c.fd))
		if state != socketQuiet {
			_ = c.broken.noteErrno("recv", e)
			return false
		}
		c.in.ready = false
	}
	return true
}

// idle implements Driver.Idle.
func (c *fiberConn) idle(f func()) bool {
	if c.in.ready || c.mayRead() != nil {
		return true
	}
	c.in.arm(c.readUntil)
	c.in.idle = f
	return false
}

func (c *fiberConn) Remote() netip.AddrPort { return c.remote }

// Local asks the system the first time, as few want to know.
func (c *fiberConn) Local() netip.AddrPort {
	if !c.local.IsValid() && !c.closed {
		c.local = localAddr(c.fd)
	}
	return c.local
}
