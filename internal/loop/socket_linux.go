package loop

import (
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socket is a Conn over a TCP socket. It makes the system calls itself inside
// the poller's callbacks: that saves the scheduler's part of each call (the
// socket never blocks, so there is nothing to schedule around), takes a buffer
// only once there are bytes for it, and lets Ask check the connection with the
// very call that would otherwise only find out that the answer is not there
// yet.
type socket struct {
	nc            *net.TCPConn
	raw           syscall.RawConn
	remote, local netip.AddrPort
	cause         interruption
	broken        breakage

	// The reading task's.
	rd     deadline
	buf    *buffer // lent, or holding a prefix; nil otherwise
	prefix int     // bytes of it that are kept
	got    int
	rerr   error
	ask    []byte // written by onRead before it waits
	asked  int    // bytes of ask that were written
	stale  bool
	onRead func(fd uintptr) bool

	// The writing task's.
	wd      deadline
	timeout time.Duration
	stall   stall
	out     [2][]byte
	piped   int // bytes in a pipe, for splicing
	werr    error
	wait    bool // onWrite may wait
	onWrite func(fd uintptr) bool
}

func newSocket(nc *net.TCPConn) Conn {
	raw, err := nc.SyscallConn()
	if err != nil {
		return nil
	}
	c := &socket{nc: nc, raw: raw, remote: addrPort(nc.RemoteAddr()), local: addrPort(nc.LocalAddr())}
	c.onRead, c.onWrite = c.readable, c.writable
	return c
}

func (c *socket) Read(prefix []byte) ([]byte, error) {
	c.ask = nil
	if len(prefix) > 0 {
		c.buf = withPrefix(c.buf, prefix)
	}
	c.prefix = len(prefix)
	return c.lend(c.await(c.onRead))
}

func (c *socket) Ask(b []byte) ([]byte, error) {
	c.Release()
	c.prefix, c.ask, c.asked, c.stale = 0, b, 0, false
	err := c.await(c.onRead)
	c.ask = nil
	switch {
	case c.stale:
		return nil, ErrStale
	case err == ErrTimeout && c.asked < len(b):
		// The deadline had passed already, so that not even a look was
		// taken. Who asks must be able to wait on with Read.
		if !c.Quiet() {
			return nil, ErrStale
		}
		if err := c.Write(b); err != nil {
			return nil, err
		}
	case err == errShort:
		werr := c.Write(b[c.asked:])
		if werr != nil && !dead(werr) {
			return nil, werr
		}
		// Where it closed before it had read all, it may have said why.
		if err = c.await(c.onRead); werr != nil && err != nil {
			err = werr
		}
	}
	return c.lend(err)
}

// lend returns what readable brought.
func (c *socket) lend(err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return c.buf.b[:c.prefix+c.got], nil
}

// errShort says that Ask could not write everything at once.
var errShort = io.ErrShortWrite

// await calls try, now and each time the socket may have become readable,
// until it returns true, and returns c.rerr.
func (c *socket) await(try func(fd uintptr) bool) error {
	for {
		if err := c.rd.arm(c.nc.SetReadDeadline); err != nil {
			return closed(err)
		}
		if err := c.cause.err(); err != nil {
			return err
		}
		err := c.raw.Read(try)
		if err == nil {
			return c.rerr
		}
		if !isTimeout(err) {
			return closed(err)
		}
		if cause := c.cause.err(); cause != nil {
			return cause
		}
		if c.rd.over() {
			return ErrTimeout
		}
	}
}

// readable is called before the poller waits and each time the socket may have
// become readable; false means to wait.
func (c *socket) readable(fd uintptr) bool {
	c.rerr = nil
	if c.ask != nil && c.asked < len(c.ask) {
		if state, e := socketPeek(fd); state != socketQuiet {
			c.rerr = c.broken.noteErrno("recv", e)
			c.stale = true
			return true
		}
		n, e := send(fd, c.ask[c.asked:])
		switch {
		case e == 0 && n == len(c.ask):
			// The poller was told to forget older events before this was
			// called, so the answer's arrival cannot be missed: no need
			// to look for it now.
			c.asked = n
			return false
		case e == 0 || e == syscall.EAGAIN:
			c.asked = max(n, 0)
			c.rerr = errShort
			return true
		case e == syscall.EINTR:
			return c.readable(fd)
		default:
			c.rerr = c.broken.noteErrno("send", e)
			c.stale = true // nothing was written
			return true
		}
	}
	if c.buf == nil {
		c.buf = takeBuffer()
	}
	for {
		n, e := recv(fd, c.buf.b[c.prefix:])
		switch {
		case e == 0 && n > 0:
			c.got = n
			return true
		case e == 0:
			c.rerr = c.broken.end(io.EOF)
			return true
		case e == syscall.EINTR:
			continue
		case e == syscall.EAGAIN:
			if c.prefix == 0 {
				c.Release() // who waits owns no buffer
			}
			return false
		default:
			c.rerr = c.broken.noteErrno("recv", e)
			return true
		}
	}
}

func (c *socket) Release() {
	if c.buf != nil {
		c.buf.free()
		c.buf = nil
	}
}

func (c *socket) Write(b []byte) error { return c.Writev(b, nil) }

func (c *socket) Writev(a, b []byte) error {
	c.out = [2][]byte{a, b}
	err := c.flush(c.onWrite)
	c.out = [2][]byte{} // an idle connection keeps nobody's memory
	return err
}

// flush calls try until nothing is left to write. The first try does not wait
// and needs no deadline, which is all that most writes need.
func (c *socket) flush(try func(fd uintptr) bool) error {
	c.wait = false
	for {
		if err := c.cause.err(); err != nil {
			return err
		}
		left := c.left()
		err := c.raw.Write(try)
		switch {
		case err == nil && c.werr != nil:
			return c.werr
		case err == nil && c.left() == 0:
			return nil
		case err == nil:
		case !isTimeout(err):
			return closed(err)
		default:
			if cause := c.cause.err(); cause != nil {
				return cause
			}
			if c.wd.over() && c.wait && c.stall.over(c.timeout, c.acknowledged()) {
				return ErrStalled
			}
		}
		c.wd.want = 0
		if c.timeout > 0 {
			now := Now()
			if !c.wait || c.left() < left {
				c.stall.since = now
			}
			c.wd.want = now.Add(c.timeout / stallLooks)
		}
		c.wait = true
		if err := c.wd.arm(c.nc.SetWriteDeadline); err != nil {
			return closed(err)
		}
	}
}

// left returns the bytes that wait to be written.
func (c *socket) left() int { return len(c.out[0]) + len(c.out[1]) + c.piped }

func (c *socket) writable(fd uintptr) bool {
	c.werr = nil
	for {
		var n int
		var e syscall.Errno
		if len(c.out[1]) == 0 {
			n, e = send(fd, c.out[0])
		} else {
			n, e = sendv(fd, c.out[0], c.out[1])
		}
		switch e {
		case 0:
			k := min(n, len(c.out[0]))
			c.out[0] = c.out[0][k:]
			c.out[1] = c.out[1][n-k:]
			if len(c.out[0]) == 0 && len(c.out[1]) > 0 {
				c.out[0], c.out[1] = c.out[1], nil
			}
			return true // all, or progress that moves the deadline
		case syscall.EINTR:
		case syscall.EAGAIN:
			return !c.wait
		default:
			c.werr = c.broken.noteErrno("send", e)
			return true
		}
	}
}

// acknowledged returns how many bytes the other end has taken in all.
func (c *socket) acknowledged() uint64 { return acknowledged(c.raw) }

func (c *socket) SetReadDeadline(t Time)          { c.rd.want = t }
func (c *socket) SetWriteTimeout(d time.Duration) { c.timeout = d }
func (c *socket) CloseWrite() error               { return c.nc.CloseWrite() }
func (c *socket) Close() error                    { return c.nc.Close() }
func (c *socket) Abort()                          { abort(c.nc) }
func (c *socket) Alive() bool                     { return c.look() != socketEnded }
func (c *socket) Quiet() bool                     { return c.look() == socketQuiet }
func (c *socket) Remote() netip.AddrPort          { return c.remote }
func (c *socket) Local() netip.AddrPort           { return c.local }

func (c *socket) look() socketCondition {
	state, err := socketState(c.raw)
	c.broken.note(err)
	return state
}

func (c *socket) below() (net.Conn, *interruption) { return c.nc, &c.cause }

func (c *socket) Interrupt(cause error) {
	c.cause.set(cause)
	c.nc.SetDeadline(past)
}

func (c *socket) Resume() {
	c.cause.clear()
	c.rd.armed, c.wd.armed = fired, fired
	c.nc.SetDeadline(time.Time{})
}

// closed hides the standard library's wrapping, which allocates its text, for
// the one error that is no news: that we closed the connection ourselves.
func closed(err error) error {
	if _, ok := err.(*net.OpError); ok {
		return net.ErrClosed
	}
	return err
}

// socketCondition is what a look at a socket's input shows.
type socketCondition int

const (
	socketQuiet socketCondition = iota // open, nothing has come
	socketFull                         // bytes wait
	socketEnded                        // the other end has closed or reset it
)

// socketState looks at a socket, and returns the error if it finds one that
// the system will not tell again.
func socketState(raw syscall.RawConn) (state socketCondition, err error) {
	state = socketEnded
	// Control, unlike Read, does not disturb who waits, and has no deadline.
	// It fails once the connection has been closed here.
	_ = raw.Control(func(fd uintptr) {
		var e syscall.Errno
		if state, e = socketPeek(fd); e != 0 {
			err = os.NewSyscallError("recv", e)
		}
		if state == socketFull && hungUp(fd) {
			state = socketEnded
		}
	})
	return state, err
}

// acknowledged returns how many bytes the other end has acknowledged, 0 if that
// is not known.
func acknowledged(raw syscall.RawConn) (n uint64) {
	_ = raw.Control(func(fd uintptr) { n = bytesAcked(int(fd)) })
	return n
}

func bytesAcked(fd int) uint64 {
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0
	}
	return info.Bytes_acked
}

// noteErrno remembers e and returns it as an error.
func (k *breakage) noteErrno(call string, e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	err := os.NewSyscallError(call, e)
	k.note(err)
	return err
}

// hungUp reports whether the other end has closed the connection although
// bytes wait before that: with TLS there is always its farewell.
func hungUp(fd uintptr) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0
}

func socketPeek(fd uintptr) (socketCondition, syscall.Errno) {
	var b [1]byte
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b[0])), 1, syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
		switch {
		case e == syscall.EINTR:
		case e == syscall.EAGAIN:
			return socketQuiet, 0
		case e == 0 && n > 0:
			return socketFull, 0
		default:
			return socketEnded, e
		}
	}
}

func recv(fd uintptr, b []byte) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), 0, 0, 0)
	return int(n), e
}

func send(fd uintptr, b []byte) (int, syscall.Errno) {
	n, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), syscall.MSG_NOSIGNAL, 0, 0)
	return int(n), e
}

func sendv(fd uintptr, a, b []byte) (int, syscall.Errno) {
	iov := [2]syscall.Iovec{{Base: unsafe.SliceData(a)}, {Base: unsafe.SliceData(b)}}
	iov[0].SetLen(len(a))
	iov[1].SetLen(len(b))
	msg := syscall.Msghdr{Iov: &iov[0], Iovlen: 2}
	n, _, e := syscall.RawSyscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&msg)), syscall.MSG_NOSIGNAL)
	return int(n), e
}
