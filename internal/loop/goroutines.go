package loop

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// Goroutines is the driver that runs each task on a goroutine.
type Goroutines struct {
	// Source4 and Source6 are the addresses that connections are made from;
	// the zero Addr leaves the choice to the kernel.
	Source4, Source6 netip.Addr
	// Context ends dialling when it is done; nil is never.
	Context context.Context
}

// Dialling returns the context of dialling, which is never nil.
func (g *Goroutines) Dialling() context.Context {
	if g.Context != nil {
		return g.Context
	}
	return context.Background()
}

type goroutine struct{ done sync.WaitGroup }

func (g *goroutine) Wait() { g.done.Wait() }

// Spawn implements Driver.
func (*Goroutines) Spawn(f func()) Task {
	g := new(goroutine)
	g.done.Go(f)
	return g
}

// Do implements Driver.
func (*Goroutines) Do(f func()) { f() }

// Sleep implements Driver.
func (*Goroutines) Sleep(d time.Duration) { time.Sleep(d) }

// Bell implements Driver.
func (*Goroutines) Bell() Bell { return &bell{rung: make(chan struct{}, 1)} }

type bell struct {
	rung  chan struct{}
	timer *time.Timer // made by the first wait that has a deadline
}

func (b *bell) Ring() {
	select {
	case b.rung <- struct{}{}:
	default:
	}
}

func (b *bell) Wait(deadline Time) error {
	if deadline == 0 {
		<-b.rung
		return nil
	}
	d := deadline.Sub(Now())
	if b.timer == nil {
		b.timer = time.NewTimer(d)
	} else {
		b.timer.Reset(d)
	}
	defer b.timer.Stop()
	select {
	case <-b.rung:
		return nil
	case <-b.timer.C:
		return ErrTimeout
	}
}

// Dial implements Driver.
func (g *Goroutines) Dial(to netip.AddrPort, deadline Time) (Conn, error) {
	nc, err := g.DialNet(to, deadline)
	if err != nil {
		return nil, err
	}
	return New(nc), nil
}

// DialNet is Dial for code that needs the standard library's connection, to
// put TLS on it.
func (g *Goroutines) DialNet(to netip.AddrPort, deadline Time) (net.Conn, error) {
	d := net.Dialer{}
	if deadline != 0 {
		d.Deadline = deadline.Wall()
	}
	from := g.Source4
	if to.Addr().Unmap().Is6() {
		from = g.Source6
	}
	if from.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	nc, err := d.DialContext(g.Dialling(), "tcp", to.String())
	if err != nil && isTimeout(err) {
		return nil, ErrTimeout
	}
	return nc, err
}

// New returns the connection for nc, which must not be used in any other way
// from then on.
func New(nc net.Conn) Conn {
	if t, ok := nc.(*net.TCPConn); ok {
		if c := newSocket(t); c != nil {
			return c
		}
	}
	return newStream(nc)
}

// isTimeout reports whether a deadline of ours has passed. The system's own
// time-outs (ETIMEDOUT: the other end has vanished) break the connection and
// are not meant, although net.Error calls them time-outs as well.
func isTimeout(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}

func addrPort(a net.Addr) netip.AddrPort {
	if t, ok := a.(*net.TCPAddr); ok {
		ap := t.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	return netip.AddrPort{}
}

// abort closes nc with a reset where it can.
func abort(nc net.Conn) {
	type lingerer interface{ SetLinger(int) error }
	type wrapped interface{ NetConn() net.Conn }
	inner := nc
	if w, ok := nc.(wrapped); ok { // TLS: no alert, the stream is cut
		inner = w.NetConn()
	}
	if l, ok := inner.(lingerer); ok {
		l.SetLinger(0)
	}
	inner.Close()
}
