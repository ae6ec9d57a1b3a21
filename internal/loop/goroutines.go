package loop

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

// Goroutines is the driver that runs each task on a goroutine. Its methods may
// be called by anyone.
type Goroutines struct {
	ctx  context.Context // ends dialling when it is done
	stop context.CancelFunc

	index    int
	panicked func(v any, stack []byte) // nil lets panics end the process
	panics   atomic.Uint64
}

// NewGoroutines returns a driver.
func NewGoroutines() *Goroutines {
	g := new(Goroutines)
	g.ctx, g.stop = context.WithCancel(context.Background())
	return g
}

type goroutine struct{ done sync.WaitGroup }

func (g *goroutine) Wait() { g.done.Wait() }

// Spawn implements Driver.
func (g *Goroutines) Spawn(f func()) Task {
	t := new(goroutine)
	t.done.Go(func() { g.run(f) })
	return t
}

// run runs a task.
func (g *Goroutines) run(f func()) {
	if g.panicked != nil {
		defer func() {
			if v := recover(); v != nil {
				g.panics.Add(1)
				g.panicked(v, debug.Stack())
			}
		}()
	}
	f()
}

// Start implements Driver.
func (g *Goroutines) Start(f func()) { go g.run(f) }

// Go implements Driver.
func (g *Goroutines) Go(f func()) { go g.run(f) }

// Do implements Driver.
func (*Goroutines) Do(f func()) { f() }

// Sleep implements Driver.
func (*Goroutines) Sleep(d time.Duration) { time.Sleep(d) }

// Yield implements Driver.
func (*Goroutines) Yield() { runtime.Gosched() }

// Idle implements Driver: a goroutine that waits is all there is to keep.
func (*Goroutines) Idle(Conn, func()) bool { return true }

// Index implements Driver.
func (g *Goroutines) Index() int { return g.index }

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
func (g *Goroutines) Dial(to netip.AddrPort, from Sources, deadline Time) (Conn, error) {
	d := net.Dialer{}
	if deadline != 0 {
		d.Deadline = deadline.Wall()
	}
	if source := from.For(to.Addr()); source.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 0))
	}
	nc, err := d.DialContext(g.ctx, "tcp", to.String())
	switch {
	case err == nil:
		return New(nc), nil
	case g.ctx.Err() != nil:
		return nil, ErrStopped
	case isTimeout(err):
		return nil, ErrTimeout
	}
	return nil, err
}

// Secure implements Driver.
func (g *Goroutines) Secure(c Conn, side Side, config *tls.Config, deadline Time) (Conn, *tls.ConnectionState, error) {
	nc, cause := c.(interface {
		below() (net.Conn, *interruption)
	}).below()
	tc, ctx := tls.Server(nc, config), context.Background()
	if side == AsClient {
		tc, ctx = tls.Client(nc, config), g.ctx
	}
	if deadline != 0 {
		nc.SetDeadline(deadline.Wall())
	}
	err := cause.err() // it may have been set before the deadline was
	if err == nil {
		err = tc.HandshakeContext(ctx)
	}
	if err == nil {
		nc.SetDeadline(time.Time{})
	}
	switch why := cause.err(); {
	case why != nil:
		return nil, nil, why
	case err == nil:
		state := tc.ConnectionState()
		return newStream(tc), &state, nil
	case ctx.Err() != nil:
		err = ErrStopped
	case isTimeout(err):
		err = ErrTimeout
	}
	return nil, nil, err
}

// Preamble implements Driver.
func (g *Goroutines) Preamble(c Conn, deadline Time, parse func(b []byte) (lacks int, err error)) error {
	nc, cause := c.(interface {
		below() (net.Conn, *interruption)
	}).below()
	if deadline != 0 {
		nc.SetReadDeadline(deadline.Wall())
		defer nc.SetReadDeadline(time.Time{})
	}
	var b []byte
	for {
		lacks, err := parse(b)
		if err != nil || lacks == 0 {
			return err
		}
		if err := cause.err(); err != nil { // it may have been set before the deadline was
			return err
		}
		have := len(b)
		b = append(b, make([]byte, lacks)...)
		_, err = io.ReadFull(nc, b[have:])
		switch why := cause.err(); {
		case why != nil:
			return why
		case err == io.EOF:
			return io.ErrUnexpectedEOF
		case isTimeout(err):
			return ErrTimeout
		case err != nil:
			return err
		}
	}
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
