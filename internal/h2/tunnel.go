package h2

import (
	"net/netip"
	"time"

	"fairlead/internal/loop"
)

// tunnel is a stream as a connection.
type tunnel struct {
	s      *Stream
	joined []byte // prefix and bytes
}

// Tunnel returns the stream as a connection, for requests that ask for one
// (extended CONNECT). It is for a stream whose head was sent. The end of each
// direction is that of the stream's; Abort resets it with CANCEL. Unlike those of
// other connections, Interrupt and Abort are only for tasks of the driver; others
// abort the connection that the stream is part of.
func (s *Stream) Tunnel() loop.Conn { return &tunnel{s: s} }

func (t *tunnel) Read(prefix []byte) ([]byte, error) {
	if len(prefix) == 0 {
		return t.s.Read()
	}
	t.joined = append(t.joined[:0], prefix...) // it may be lent by the stream
	b, err := t.s.Read()
	if err != nil {
		return nil, err
	}
	t.joined = append(t.joined, b...)
	return t.joined, nil
}

func (t *tunnel) Ask(b []byte) ([]byte, error) {
	if !t.Quiet() {
		return nil, loop.ErrStale
	}
	if err := t.Write(b); err != nil {
		return nil, err
	}
	return t.Read(nil)
}

func (t *tunnel) Release() {
	t.joined = nil
	t.s.Release()
}

func (t *tunnel) Write(b []byte) error { return t.s.Write(b, false) }

func (t *tunnel) Writev(a, b []byte) error {
	s := t.s
	s.c.mu.Lock()
	defer s.c.unlock()
	return s.writev(a, b)
}

// writev writes a and b, of which neither is touched after a wait.
func (s *Stream) writev(a, b []byte) error {
	if err := s.writable(); err != nil {
		return err
	}
	n := s.push(a, false)
	if n == len(a) {
		return s.write(b, false)
	}
	joined := outputs.Get().(*output)
	defer joined.free()
	joined.b = append(append(joined.b, a[n:]...), b...)
	return s.write(joined.b, false)
}

func (t *tunnel) SetReadDeadline(at loop.Time)    { t.s.SetReadDeadline(at) }
func (t *tunnel) SetWriteTimeout(d time.Duration) { t.s.SetWriteTimeout(d) }

func (t *tunnel) CloseWrite() error {
	err := t.s.Write(nil, true)
	if err == errEnded {
		return nil
	}
	return err
}

func (t *tunnel) Close() error {
	s := t.s
	s.c.mu.Lock()
	defer s.c.unlock()
	if s.writable() == nil {
		s.push(nil, true)
	}
	s.fail(errStreamClosed)
	return nil
}

func (t *tunnel) Abort()                { t.s.Reset(CodeCancel) }
func (t *tunnel) Interrupt(cause error) { t.s.Interrupt(cause) }
func (t *tunnel) Resume()               { t.s.Resume() }

func (t *tunnel) Alive() bool {
	s := t.s
	s.c.mu.Lock()
	defer s.c.unlock()
	return s.err == nil && !s.recvEnd
}

func (t *tunnel) Quiet() bool {
	s := t.s
	s.c.mu.Lock()
	defer s.c.unlock()
	return s.err == nil && !s.recvEnd && s.first == nil
}

func (t *tunnel) Remote() netip.AddrPort { return t.s.c.nc.Remote() }
func (t *tunnel) Local() netip.AddrPort  { return t.s.c.nc.Local() }
