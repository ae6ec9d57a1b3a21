package h3

import (
	"net/netip"
	"time"

	"fairlead/internal/loop"
)

// tunnel is a stream as a connection.
type tunnel struct {
	s      *Stream
	joined []byte // prefix and bytes, or two pieces that are written together
}

// Tunnel returns the stream as a connection, for requests that ask for one
// (extended CONNECT). It is for a stream whose head was sent. The end of each
// direction is that of the stream's; Abort resets it.
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

func (t *tunnel) Write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	return t.s.Write(b, false)
}

func (t *tunnel) Writev(a, b []byte) error {
	if err := t.Write(a); err != nil {
		return err
	}
	return t.Write(b)
}

func (t *tunnel) SetReadDeadline(at loop.Time)    { t.s.SetReadDeadline(at) }
func (t *tunnel) SetWriteTimeout(d time.Duration) { t.s.SetWriteTimeout(d) }

func (t *tunnel) CloseWrite() error {
	if t.s.sentEnd {
		return nil
	}
	return t.s.close()
}

func (t *tunnel) Close() error {
	t.CloseWrite()
	return nil
}

func (t *tunnel) Abort()                { t.s.abandon(codeRequestCancelled) }
func (t *tunnel) Interrupt(cause error) { t.s.Interrupt(cause) }
func (t *tunnel) Resume()               { t.s.Resume() }

func (t *tunnel) Alive() bool { return !t.s.ended && t.s.Alive() }

func (t *tunnel) Quiet() bool {
	s := t.s
	return t.Alive() && s.failed == nil && s.r == s.w && !s.eof
}

func (t *tunnel) Remote() netip.AddrPort { return t.s.c.Remote() }
func (t *tunnel) Local() netip.AddrPort  { return t.s.c.Local() }
