package httplb

import (
	"crypto/tls"
	"errors"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"fairlead/internal/certs"
	"fairlead/internal/loop"
)

// client is the connection of a client, and all that is kept of it while it
// waits for its next request: what a request needs is its session's, which it
// has only while it is served.
type client struct {
	d    loop.Driver
	c    loop.Conn
	ln   *listener
	peer netip.AddrPort
	tls  *tls.ConnectionState // nil where it speaks plain HTTP

	preamble  bool          // a header of the PROXY protocol is to come
	counted   netip.Addr    // among the connections of one client; invalid where it is not
	delay     time.Duration // before anything is done for it, as the client has flooded us
	certified bool          // it has shown a certificate that was verified
	subject   string        // of that

	resume   func()       // run, as a value that is made once
	begun    bool         // the wait for this request's first bytes has begun
	first    bool         // no request has been answered
	deadline loop.Time    // of the first byte of the next request
	wait     loop.Time    // the end of the wait, which may be earlier
	state    atomic.Int32 // of the wait between requests
}

// States of the wait between requests: whoever closes the listener interrupts
// only clients that wait for a request of which nothing has come.
const (
	stateBusy int32 = iota
	stateIdle
	stateInterrupting
	stateInterrupted
)

// interrupt ends the wait for the next request, if that is what goes on.
func (k *client) interrupt() {
	if k.state.CompareAndSwap(stateIdle, stateInterrupting) {
		k.c.Interrupt(errDraining)
		k.state.Store(stateInterrupted)
	}
}

// busy ends the state of waiting. If the wait was interrupted when bytes had
// come already, the request is still answered.
func (k *client) busy() {
	if k.state.CompareAndSwap(stateIdle, stateBusy) {
		return
	}
	for k.state.Load() == stateInterrupting {
		runtime.Gosched()
	}
	k.c.Resume()
	k.state.Store(stateBusy)
}

func (k *client) abort() { k.c.Abort() }

// begin finds out what the client speaks, and serves it.
func (k *client) begin(set *settings) {
	k.first = true
	k.deadline = loop.Now().Add(set.HeaderTimeout)
	k.task(func() (over bool) {
		if k.preamble && !k.introduced(set) {
			k.c.Abort()
			return true
		}
		if k.delay > 0 {
			k.d.Sleep(k.delay)
			if k.ln.draining.Load() {
				k.c.Abort()
				return true
			}
			k.deadline = k.deadline.Add(k.delay)
		}
		if set.tls != nil && !k.secure(set) {
			return true
		}
		if k.tls != nil && k.tls.NegotiatedProtocol == certs.ChallengeProtocol {
			return true // the handshake was all that it is for
		}
		if k.tls != nil && k.tls.NegotiatedProtocol == "h2" {
			k.serveHTTP2(set, nil)
			return true
		}
		k.c.SetWriteTimeout(set.BodyTimeout)
		k.ln.enter(k)
		return k.serve()
	})
}

// run goes on after a wait that left the task.
func (k *client) run() { k.task(k.serve) }

// task does a part of the connection's work, and ends the connection when that
// says so, or has a defect.
func (k *client) task(work func() (over bool)) {
	over := true
	defer func() {
		if over {
			k.end()
		}
	}()
	defer k.ln.recovered()
	over = work()
}

// end ends the connection.
func (k *client) end() {
	k.ln.leave(k)
	k.c.Release()
	k.c.Close()
	if k.counted.IsValid() {
		k.ln.perClient.Leave(k.counted)
	}
	k.ln.stats.open.Add(-1)
	k.ln.sessions.Done()
}

// serve answers requests until the connection ends, or, with false, until it
// has to wait and the driver begins a new task for what comes.
func (k *client) serve() (over bool) {
	for {
		if !k.begun {
			k.begun = true
			k.wait = k.deadline
			k.state.Store(stateIdle)
			if k.ln.draining.Load() {
				k.wait = min(k.wait, loop.Now().Add(idleGrace))
			}
			k.c.SetReadDeadline(k.wait)
			if !k.d.Idle(k.c, k.resume) {
				return false
			}
		}
		b, err := k.c.Read(nil)
		if err == errDraining && k.c.Alive() && !k.c.Quiet() {
			// A request came in the same moment.
			k.busy()
			b, err = k.c.Read(nil)
		}
		if err != nil {
			k.unanswered(err)
			return true
		}
		k.busy()
		k.begun = false
		b, isHTTP2, err := k.becomesHTTP2(b)
		if err != nil {
			k.unanswered(err)
			return true
		}
		if isHTTP2 {
			k.ln.leave(k)
			k.serveHTTP2(k.ln.set.Load(), b)
			return true
		}
		s := openSession(k)
		after := s.serve(b)
		s.close()
		switch after {
		case afterClose:
			return true
		case afterCut:
			k.c.Abort()
			return true
		case afterFinish, afterLinger:
			if after == afterLinger || !k.c.Quiet() {
				loop.Linger(k.c, lingerTime, lingerBytes)
			}
			return true
		}
	}
}

// unanswered counts why no request came.
func (k *client) unanswered(err error) {
	switch {
	case err != loop.ErrTimeout || k.wait != k.deadline:
	case k.first:
		k.ln.stats.limits[limitHeaderTimeout].Inc()
	default:
		k.ln.stats.limits[limitIdleTimeout].Inc()
	}
}

// secure puts TLS on the connection, and reports whether it could.
func (k *client) secure(set *settings) bool {
	l := k.ln
	h := handshake{k.c}
	l.enter(h)
	c, state, err := k.d.Secure(k.c, loop.AsServer, set.tls.Config(), k.deadline)
	l.leave(h)
	if err != nil {
		l.stats.handshakes.Inc()
		if errors.Is(err, loop.ErrTimeout) {
			l.stats.limits[limitHandshake].Inc()
		}
		l.plane.aside.Debug("TLS handshake", "listener", l.name(), "client", k.peer.String(), "error", err)
		return false
	}
	k.c, k.tls = c, state
	k.certified, k.subject = certs.ClientSubject(state)
	c.Resume() // an interruption that came too late; the listener is draining then
	return true
}

// handshake is a connection that has not got further.
type handshake struct{ c loop.Conn }

func (h handshake) interrupt() { h.c.Interrupt(errDraining) }
func (h handshake) abort()     { h.c.Abort() }
