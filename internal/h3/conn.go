package h3

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"

	"fairlead/internal/loop"
)

// connection is what a Conn uses of a connection of quic-go.
type connection interface {
	AcceptStream(context.Context) (*quic.Stream, error)
	AcceptUniStream(context.Context) (*quic.ReceiveStream, error)
	OpenUniStream() (*quic.SendStream, error)
	CloseWithError(quic.ApplicationErrorCode, string) error
	ConnectionStats() quic.ConnectionStats
	Context() context.Context
	RemoteAddr() net.Addr
	LocalAddr() net.Addr
}

// Conn is the connection of a client. Its methods may be called by anyone.
type Conn struct {
	v     *Server
	q     connection
	peer  Peer
	cfg   *Config
	tls   tls.ConnectionState
	tasks sync.WaitGroup

	control *quic.SendStream // written by run, then by the task that drains

	// Unidirectional streams that a client may have one of each.
	critical [3]bool // by type; the task of unidirectional streams has it

	mu       sync.Mutex // guards what follows
	live     int        // requests that are served
	next     quic.StreamID
	idle     *time.Timer
	draining bool
	rejects  bool          // requests are not taken any more
	resting  chan struct{} // closed when, while it rejects, none is served
	closing  bool          // by us, with a reason that was counted
	flooded  bool
	floods   floods
}

func newConn(v *Server, q *quic.Conn, peer Peer) *Conn {
	return &Conn{v: v, q: q, peer: peer, cfg: v.owner.Config(), tls: q.ConnectionState().TLS, resting: make(chan struct{})}
}

// Remote returns the client's address, which may change: clients move.
func (c *Conn) Remote() netip.AddrPort { return addrPort(c.q.RemoteAddr()) }

// Local returns our address.
func (c *Conn) Local() netip.AddrPort { return addrPort(c.q.LocalAddr()) }

// TLS returns what was agreed on in the handshake.
func (c *Conn) TLS() *tls.ConnectionState { return &c.tls }

func (c *Conn) count(e Event) { c.v.owner.Count(e) }

// run serves the connection to its end.
func (c *Conn) run() {
	defer c.end()
	if !c.peer.Begin(c) {
		c.close(codeExcessiveLoad, "too many connections")
		return
	}
	if err := c.greet(); err != nil {
		c.close(codeInternal, "no control stream")
		return
	}
	c.mu.Lock()
	c.idle = time.AfterFunc(c.cfg.IdleTimeout, c.idled)
	c.mu.Unlock()
	c.v.enter(c)
	defer c.v.leave(c)
	c.task(c.takeUni)
	for {
		q, err := c.q.AcceptStream(context.Background())
		if err != nil {
			return
		}
		if !c.begin(q.StreamID()) {
			q.CancelRead(quic.StreamErrorCode(codeRequestRejected))
			q.CancelWrite(quic.StreamErrorCode(codeRequestRejected))
			q.ReleaseStreamCredit()
			continue
		}
		c.task(func() { c.serve(q) })
	}
}

// task runs f beside, as a part of the connection.
func (c *Conn) task(f func()) {
	c.tasks.Add(1)
	c.v.d.Start(func() {
		defer c.tasks.Done()
		f()
	})
}

// end waits for what the connection runs, and tells its owner.
func (c *Conn) end() {
	// After a defect of the task that runs it the connection may be open.
	if c.q.Context().Err() == nil {
		c.close(codeInternal, "")
	}
	c.mu.Lock()
	if c.idle != nil {
		c.idle.Stop()
	}
	c.mu.Unlock()
	c.tasks.Wait()
	err := context.Cause(c.q.Context())
	c.countEnd(err)
	if orderly(err) {
		err = nil
	}
	c.peer.End(err)
}

// orderly reports whether a connection has ended as connections do.
func orderly(err error) bool {
	var a *quic.ApplicationError
	return errors.As(err, &a) && code(a.ErrorCode) == codeNo
}

// greet opens the control stream and says what we can do.
func (c *Conn) greet() error {
	s, err := c.q.OpenUniStream()
	if err != nil {
		return err
	}
	c.control = s
	settings := quicvarint.Append(nil, settingFieldSection)
	settings = quicvarint.Append(settings, uint64(c.cfg.HeaderBytes))
	settings = quicvarint.Append(settings, settingExtendedConnect)
	settings = quicvarint.Append(settings, 1)
	b := quicvarint.Append(nil, streamControl)
	b = appendFrame(b, frameSettings, len(settings))
	return c.tell(append(b, settings...))
}

// tell writes to the control stream.
func (c *Conn) tell(b []byte) error {
	c.control.SetWriteDeadline(time.Now().Add(controlTimeout))
	_, err := c.control.Write(b)
	return err
}

// close ends the connection for a reason.
func (c *Conn) close(why code, text string) {
	_ = c.q.CloseWithError(quic.ApplicationErrorCode(why), text) // it has no error
}

// breach ends the connection, as the client breaks the protocol.
func (c *Conn) breach(why code, text string) error {
	c.mu.Lock()
	first := !c.closing && c.q.Context().Err() == nil
	c.closing = true
	c.mu.Unlock()
	if first {
		c.count(EventProtocol)
	}
	c.close(why, text)
	return errBreach
}

// begin counts a request, unless none is taken any more.
func (c *Conn) begin(id quic.StreamID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rejects {
		return false
	}
	c.next = max(c.next, id+4)
	c.live++
	c.idle.Stop()
	return true
}

// ended counts the end of a request.
func (c *Conn) ended() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live--; c.live > 0 {
		return
	}
	if c.rejects {
		close(c.resting)
		return
	}
	c.idle.Reset(c.cfg.IdleTimeout)
}

// idled ends a connection that has been without requests.
func (c *Conn) idled() {
	c.mu.Lock()
	busy := c.live > 0 || c.draining
	c.mu.Unlock()
	if !busy {
		c.count(EventIdleTimeout)
		c.Drain()
	}
}

// Abort ends the connection now.
func (c *Conn) Abort() {
	c.v.d.Go(func() { c.close(codeInternal, "") }) // it waits for the end
}

// Drain ends the connection in order: the client is told to ask nothing more, and
// requests that are open go on to their end.
func (c *Conn) Drain() {
	c.mu.Lock()
	again := c.draining
	c.draining = true
	c.mu.Unlock()
	if !again {
		c.v.d.Go(c.drain)
	}
}

// lastStream is said to be the last that is served when a drain begins: a request
// may be on its way, which a smaller number would lose.
const lastStream quic.StreamID = 1<<62 - 4

func (c *Conn) drain() {
	// Nothing that the client sends after it has read the first GOAWAY is a
	// request, and by the second everything before has come.
	c.goAway(lastStream)
	if !c.pause(min(max(2*c.q.ConnectionStats().SmoothedRTT, goAwayGrace), drainTimeout)) {
		return // as the client has closed it, which it may do at once
	}
	c.mu.Lock()
	c.rejects = true
	next := c.next
	if c.live == 0 {
		close(c.resting)
	}
	c.mu.Unlock()
	c.goAway(next)
	select {
	case <-c.resting:
	case <-c.q.Context().Done():
		return
	}
	// What was written is not delivered yet, and nothing tells when it is. Who has
	// it all closes the connection, or has had time to ask for what was lost; and a
	// request that comes late is told that it may be sent again.
	if c.pause(min(max(8*c.q.ConnectionStats().SmoothedRTT, minLinger), drainTimeout)) {
		c.close(codeNo, "")
	}
}

// minLinger is how long a connection is kept at least behind its last answer.
const minLinger = 250 * time.Millisecond

// pause waits, and reports whether the connection is still there.
func (c *Conn) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.q.Context().Done():
		return false
	}
}

func (c *Conn) goAway(id quic.StreamID) {
	payload := quicvarint.Append(nil, uint64(id))
	// It fails if the connection is over, or the client does not read; then it is
	// closed without a word.
	_ = c.tell(append(appendFrame(nil, frameGoAway, len(payload)), payload...))
}

// serve is the task of a request.
func (c *Conn) serve(q *quic.Stream) {
	s := streams.Get().(*Stream)
	s.reset(c, q)
	defer func() {
		s.over()
		c.ended()
	}()
	if s.readHead() {
		c.peer.Serve(s)
	}
}

// loopTime is when t is, for quic-go; 0 is none.
func loopTime(t loop.Time) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return t.Wall()
}
