package dnslb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"fairlead/internal/loop"
	"fairlead/internal/udp"
)

// conn is the connection of a client, over TCP or TLS. Its queries are answered in
// their order, as none waits for anything: those that come together are answered
// together (RFC 7766 section 6.2.1).
type conn struct {
	d    loop.Driver
	c    loop.Conn
	ln   *listener
	peer netip.AddrPort
	over transport

	resume   func() // run, as a value that is made once
	deadline loop.Time
	partial  bool         // of a query whose rest is to come
	state    atomic.Int32 // of the wait for queries
}

// States of a connection: whoever closes the listener interrupts only those that
// wait.
const (
	stateBusy int32 = iota
	stateIdle
	stateEnding
)

var errDraining = errors.New("the listener is closed")

// stream is what answering on a stream needs for a moment.
type stream struct {
	responder
	out []byte
}

// flushAt is how many bytes of answers gather before they are sent.
const flushAt = 16 << 10

var streams = sync.Pool{New: func() any { return new(stream) }}

// admit serves a connection unless that would exceed a limit. It is called by
// whoever accepts, and does not wait.
func (l *listener) admit(d loop.Driver, c loop.Conn) {
	set := l.set.Load()
	l.stats.accepted.Inc()
	if l.stats.open.Load() >= int64(set.Connections) {
		l.stats.limits[limitConnections].Inc()
		c.Abort() // leaves no state behind
		return
	}
	k := &conn{d: d, c: c, ln: l, peer: c.Remote(), over: overTCP}
	if !l.perClient.Enter(k.peer.Addr(), set.ConnectionsPerClient) {
		l.stats.limits[limitPerClient].Inc()
		c.Abort()
		return
	}
	l.stats.open.Add(1)
	l.busy.Add(1)
	l.mu.Lock()
	l.open[k] = struct{}{}
	if l.cut {
		c.Abort()
	}
	l.mu.Unlock()
	k.resume = k.run
	d.Start(func() { k.begin(set) })
}

// interrupt ends the wait for a query, if that is what goes on.
func (k *conn) interrupt() {
	if k.state.CompareAndSwap(stateIdle, stateEnding) {
		k.c.Interrupt(errDraining)
	}
}

// task does a part of the connection's work, and ends the connection when that
// says so, or has a defect.
func (k *conn) task(work func() (over bool)) {
	over := true
	defer func() {
		if over {
			k.end()
		}
	}()
	defer k.ln.recovered()
	over = work()
}

func (k *conn) end() {
	l := k.ln
	l.mu.Lock()
	delete(l.open, k)
	l.mu.Unlock()
	k.c.Release()
	k.c.Close()
	l.perClient.Leave(k.peer.Addr())
	l.stats.open.Add(-1)
	l.busy.Done()
}

// begin puts TLS on the connection, where that is what is spoken, and serves it.
func (k *conn) begin(set *settings) {
	k.task(func() (over bool) {
		if set.tls != nil {
			c, _, err := k.d.Secure(k.c, loop.AsServer, set.tls.Config(), loop.Now().Add(set.HeaderTimeout))
			if err != nil {
				k.ln.stats.handshakes.Inc()
				if errors.Is(err, loop.ErrTimeout) {
					k.ln.stats.limits[limitHandshake].Inc()
				}
				k.ln.plane.aside.Debug("TLS handshake", "listener", set.name, "client", k.peer.String(), "error", err)
				return true
			}
			k.ln.mu.Lock() // who aborts reads it
			k.c, k.over = c, overTLS
			k.ln.mu.Unlock()
		}
		k.c.SetWriteTimeout(set.BodyTimeout)
		// The first query has to come as soon as a whole one has.
		k.deadline = loop.Now().Add(set.HeaderTimeout)
		return k.serve()
	})
}

func (k *conn) run() { k.task(k.serve) }

// serve answers queries until the connection ends, or, with false, until it has to
// wait and the driver begins a new task for what comes.
func (k *conn) serve() (over bool) {
	var rest []byte // of a query that has come in part; lent by the connection
	for {
		k.c.SetReadDeadline(k.deadline)
		k.state.Store(stateIdle)
		if k.ln.draining.Load() && len(rest) == 0 {
			return true
		}
		if len(rest) == 0 && !k.d.Idle(k.c, k.resume) {
			return false
		}
		b, err := k.c.Read(rest)
		if !k.state.CompareAndSwap(stateIdle, stateBusy) {
			return true // interrupted
		}
		if err != nil {
			if errors.Is(err, loop.ErrTimeout) {
				k.timedOut()
			}
			return true
		}
		set := k.ln.set.Load()
		complete := judgeable(b)
		if complete {
			if rest, err = k.answer(b); err != nil {
				if errors.Is(err, loop.ErrStalled) {
					k.ln.stats.limits[limitWrite].Inc()
				}
				return true
			}
		} else {
			rest = b
		}
		switch wasPartial := k.partial; {
		case len(rest) == 0:
			k.partial, k.deadline = false, loop.Now().Add(set.IdleTimeout)
			k.c.Release()
		case complete || !wasPartial:
			k.partial, k.deadline = true, loop.Now().Add(set.HeaderTimeout)
		}
	}
}

// judgeable reports whether a query has come, or what can be none.
func judgeable(b []byte) bool {
	if len(b) < 2 {
		return false
	}
	n := int(binary.BigEndian.Uint16(b))
	return n > maxQuery || len(b)-2 >= n
}

func (k *conn) timedOut() {
	if k.partial {
		k.ln.stats.limits[limitQuery].Inc()
	} else {
		k.ln.stats.limits[limitIdle].Inc()
	}
}

// maxQuery is the longest query that is read from a stream.
const maxQuery = udp.MaxDatagram

// answer answers the queries at the start of b and returns what is left: a part of
// one.
func (k *conn) answer(b []byte) (rest []byte, err error) {
	s := streams.Get().(*stream)
	defer streams.Put(s)
	s.ln, s.shard = k.ln, k.d.Index()%k.ln.plane.shards
	s.out = s.out[:0]
	lent := true // what Read lent is gone once a write has to wait
	flush := func() error {
		if len(b) > 0 && lent {
			b, lent = bytes.Clone(b), false
		}
		k.ln.stats.out.Add(uint64(len(s.out)))
		err := k.c.Write(s.out)
		if s.out = s.out[:0]; cap(s.out) > 4*flushAt {
			s.out = nil // one large answer is not kept for all times
		}
		return err
	}
	for len(b) >= 2 {
		n := int(binary.BigEndian.Uint16(b))
		if n > maxQuery {
			k.ln.stats.drop(dropOversize)
			return nil, errNoQuery
		}
		if len(b)-2 < n {
			break
		}
		s.use(time.Now())
		start := len(s.out)
		s.out = s.respond(asker{k.peer, k.over}, b[2:2+n], append(s.out, 0, 0))
		size := len(s.out) - start - 2
		if size == 0 { // whoever sends such things is no client
			return nil, errNoQuery
		}
		binary.BigEndian.PutUint16(s.out[start:], uint16(size))
		k.ln.stats.in.Add(uint64(n + 2))
		b = b[2+n:]
		if len(s.out) >= flushAt {
			if err := flush(); err != nil {
				return nil, err
			}
		}
	}
	if len(s.out) > 0 {
		err = flush()
	}
	return b, err
}

var errNoQuery = errors.New("a message that is no query")
