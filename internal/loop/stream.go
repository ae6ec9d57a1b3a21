package loop

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// stream is a Conn over any net.Conn: TLS, pipes in tests, and sockets on
// systems without an implementation of their own.
type stream struct {
	nc            net.Conn
	tcp           syscall.RawConn // beneath nc, or nil
	plain         bool            // nc is tcp itself
	remote, local netip.AddrPort
	cause         interruption
	broken        breakage

	small [2 << 10]byte // where a waiting read puts its first bytes
	said  error         // what Quiet met in place of bytes
	ahead []byte        // in small: what Quiet has read
	bulk  bool          // the last read filled its buffer: more is to come
	buf   *buffer       // lent to the reader, or nil
	rd    deadline

	timeout time.Duration // of writes
	guard   guard
}

func newStream(nc net.Conn) *stream {
	c := &stream{nc: nc, remote: addrPort(nc.RemoteAddr()), local: addrPort(nc.LocalAddr())}
	inner := nc
	if w, ok := nc.(interface{ NetConn() net.Conn }); ok {
		inner = w.NetConn()
	}
	if t, ok := inner.(*net.TCPConn); ok {
		if raw, err := t.SyscallConn(); err == nil {
			c.tcp, c.plain = raw, inner == nc
		}
	}
	c.guard.progress = c.acknowledged
	c.guard.cut = func() { c.nc.SetWriteDeadline(past) }
	return c
}

func (c *stream) Read(prefix []byte) ([]byte, error) {
	if len(c.ahead) > 0 {
		if err := c.cause.err(); err != nil {
			return nil, err
		}
		return c.takeAhead(prefix), nil
	}
	var room []byte
	if len(prefix) > 0 || c.bulk {
		c.buf = withPrefix(c.buf, prefix)
		room = c.buf.b[len(prefix):]
	} else {
		c.Release()
		room = c.small[:]
	}
	for {
		if err := c.rd.arm(c.nc.SetReadDeadline); err != nil {
			return nil, err
		}
		if err := c.cause.err(); err != nil {
			return nil, err
		}
		n, err := c.nc.Read(room)
		if n > 0 {
			c.bulk = n == len(room)
			if c.buf != nil {
				return c.buf.b[:len(prefix)+n], nil
			}
			return c.small[:n], nil
		}
		switch {
		case err == nil:
			continue
		case err == io.EOF:
			return nil, c.broken.end(io.EOF)
		case isTimeout(err):
			if cause := c.cause.err(); cause != nil {
				return nil, cause
			}
			if c.rd.over() {
				return nil, ErrTimeout
			}
		default:
			c.broken.note(err)
			return nil, err
		}
	}
}

// takeAhead returns what Quiet has read.
func (c *stream) takeAhead(prefix []byte) []byte {
	b := c.ahead
	c.ahead = nil
	if len(prefix) == 0 {
		return b
	}
	c.buf = withPrefix(c.buf, prefix)
	return c.buf.b[:len(prefix)+copy(c.buf.b[len(prefix):], b)]
}

func (c *stream) Ask(b []byte) ([]byte, error) {
	if !c.Quiet() {
		if c.said != nil && c.said != io.EOF {
			return nil, c.said // an alert: why the other end will not go on
		}
		return nil, ErrStale
	}
	werr := c.Write(b)
	if werr != nil && !dead(werr) {
		return nil, werr
	}
	// Where it closed before it had read all, it may have said why.
	answer, err := c.Read(nil)
	if werr != nil && dead(err) {
		err = werr // the first sign of it
	}
	return answer, err
}

func (c *stream) Release() {
	if lending != nil && c.ahead == nil {
		clear(c.small[:])
	}
	if c.buf != nil {
		c.buf.free()
		c.buf = nil
	}
}

func (c *stream) Write(b []byte) error {
	// Each piece is progress, for connections that tell nothing else.
	const piece = 64 << 10
	stalled, again := false, false
	for len(b) > 0 {
		if err := c.cause.err(); err != nil {
			return err
		}
		c.guard.begin(c.timeout)
		n, err := c.nc.Write(b[:min(len(b), piece)])
		stalled = c.guard.end() || stalled
		b = b[n:]
		if err == nil {
			if stalled { // it was given up at the moment when it went on
				c.nc.SetWriteDeadline(time.Time{})
				stalled = false
			}
			continue
		}
		if cause := c.cause.err(); cause != nil {
			return cause
		}
		if !isTimeout(err) {
			c.broken.note(err)
			return err
		}
		c.nc.SetWriteDeadline(time.Time{})
		switch {
		case n > 0: // progress after all
			again = false
		case stalled:
			return ErrStalled
		case again:
			return err // TLS cannot go on after an interruption
		default:
			again = true // the deadline of an interruption that is over
		}
	}
	return nil
}

func (c *stream) Writev(a, b []byte) error {
	if len(a)+len(b) <= 16<<10 { // one TLS record
		joined := takeBuffer()
		defer joined.free()
		n := copy(joined.b, a)
		return c.Write(joined.b[:n+copy(joined.b[n:], b)])
	}
	if err := c.Write(a); err != nil {
		return err
	}
	return c.Write(b)
}

func (c *stream) SetReadDeadline(t Time)          { c.rd.want = t }
func (c *stream) SetWriteTimeout(d time.Duration) { c.timeout = d }

func (c *stream) CloseWrite() error {
	if h, ok := c.nc.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}

func (c *stream) Close() error { return c.nc.Close() }
func (c *stream) Abort()       { abort(c.nc) }

func (c *stream) below() (net.Conn, *interruption) { return c.nc, &c.cause }

func (c *stream) Interrupt(cause error) {
	c.cause.set(cause)
	c.nc.SetDeadline(past)
}

func (c *stream) Resume() {
	c.cause.clear()
	c.rd.armed = fired
	c.nc.SetDeadline(time.Time{})
}

// Alive looks at the socket beneath.
func (c *stream) Alive() bool { return c.look() != socketEnded }

// Quiet has to read where there is TLS: bytes that wait may be its business alone
// (session tickets), and bytes that are the stream's own may be inside it
// already. What it finds is kept for the next Read. Unlike on other connections
// it counts as a Read, so that it must not run beside one.
func (c *stream) Quiet() bool {
	state := c.look()
	switch {
	case state == socketEnded || len(c.ahead) > 0:
		return false
	case c.plain || c.tcp == nil:
		return state == socketQuiet
	}
	by := past // what is inside TLS is looked at all the same
	if state == socketFull {
		by = time.Now().Add(time.Millisecond)
	}
	c.rd.armed = fired
	c.nc.SetReadDeadline(by)
	n, err := c.nc.Read(c.small[:])
	if n > 0 {
		c.ahead = c.small[:n]
		return false
	}
	if !isTimeout(err) {
		c.said = err
		return false
	}
	// On a busy machine the deadline may pass before anything is read.
	return state == socketQuiet || c.look() == socketQuiet
}

func (c *stream) look() socketCondition {
	if c.tcp == nil {
		return socketQuiet
	}
	state, err := socketState(c.tcp)
	c.broken.note(err)
	return state
}

func (c *stream) acknowledged() uint64 {
	if c.tcp == nil {
		return 0
	}
	return acknowledged(c.tcp)
}

func (c *stream) Remote() netip.AddrPort { return c.remote }
func (c *stream) Local() netip.AddrPort  { return c.local }
