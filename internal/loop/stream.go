package loop

import (
	"io"
	"net"
	"net/netip"
	"time"
)

// stream is a Conn over any net.Conn: TLS, pipes in tests, and sockets on
// systems without an implementation of their own.
type stream struct {
	nc            net.Conn
	remote, local netip.AddrPort
	cause         interruption

	small [2 << 10]byte // where a waiting read puts its first bytes
	bulk  bool          // the last read filled its buffer: more is to come
	buf   *buffer       // lent to the reader, or nil
	rd    deadline

	timeout time.Duration // of writes
	gather  []byte        // joins two short writes to one
}

func newStream(nc net.Conn) *stream {
	return &stream{nc: nc, remote: addrPort(nc.RemoteAddr()), local: addrPort(nc.LocalAddr())}
}

func (c *stream) Read(prefix []byte) ([]byte, error) {
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
			return nil, io.EOF
		case isTimeout(err):
			if cause := c.cause.err(); cause != nil {
				return nil, cause
			}
			if c.rd.over() {
				return nil, ErrTimeout
			}
		default:
			return nil, err
		}
	}
}

func (c *stream) Ask(b []byte) ([]byte, error) {
	if !c.Quiet() {
		return nil, ErrStale
	}
	if err := c.Write(b); err != nil {
		return nil, err
	}
	return c.Read(nil)
}

func (c *stream) Release() {
	if c.buf != nil {
		c.buf.free()
		c.buf = nil
	}
}

func (c *stream) Write(b []byte) error {
	if err := c.cause.err(); err != nil {
		return err
	}
	// Each piece has the whole time-out, so that a slow reader is not cut off
	// while it makes progress. A TLS record holds 16 KiB.
	const piece = 64 << 10
	for len(b) > 0 {
		if c.timeout > 0 {
			if err := c.nc.SetWriteDeadline(time.Now().Add(c.timeout)); err != nil {
				return err
			}
			if err := c.cause.err(); err != nil {
				return err
			}
		}
		n, err := c.nc.Write(b[:min(len(b), piece)])
		b = b[n:]
		if err != nil {
			if cause := c.cause.err(); cause != nil {
				return cause
			}
			if isTimeout(err) {
				return ErrStalled
			}
			return err
		}
	}
	return nil
}

func (c *stream) Writev(a, b []byte) error {
	if len(a)+len(b) <= 16<<10 {
		c.gather = append(append(c.gather[:0], a...), b...)
		return c.Write(c.gather)
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
	return nil
}

func (c *stream) Close() error { return c.nc.Close() }
func (c *stream) Abort()       { abort(c.nc) }

func (c *stream) Interrupt(cause error) {
	c.cause.set(cause)
	c.nc.SetDeadline(past)
}

func (c *stream) Resume() {
	c.cause.clear()
	c.rd.armed = fired
	c.nc.SetDeadline(time.Time{})
}

// Alive looks at the socket beneath. Bytes that wait there may belong to TLS
// itself (session tickets), so only an ended stream tells something.
func (c *stream) Alive() bool {
	inner := c.nc
	if w, ok := inner.(interface{ NetConn() net.Conn }); ok {
		inner = w.NetConn()
	}
	if t, ok := inner.(*net.TCPConn); ok {
		return socketState(t) != socketEnded
	}
	return true
}

// Quiet cannot tell more than Alive: see there.
func (c *stream) Quiet() bool { return c.Alive() }

func (c *stream) Remote() netip.AddrPort { return c.remote }
func (c *stream) Local() netip.AddrPort  { return c.local }
