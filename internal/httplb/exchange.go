package httplb

import (
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"time"

	"fairlead/internal/h1"
	"fairlead/internal/loop"
	"fairlead/internal/plan"
	"fairlead/internal/steer"
)

// exchange carries one request to an endpoint and the answer back. It belongs
// to one stream and is used for one request after the other.
//
// What the request's head says is borrowed only until the first wait, so
// everything that is needed later is in out: the head as the endpoint is sent
// it, and as much of the body as may have to be sent again.
type exchange struct {
	ln   *listener
	s    stream
	rnd  rand.PCG
	snap *snapshot

	peer    netip.AddrPort
	secure  bool // the client speaks TLS
	tls     *tls.ConnectionState
	trusted bool // the peer is a trusted proxy

	lb       *plan.LoadBalancer
	lbs      *balancerStats
	facts    steer.Facts
	decision steer.Decision

	out     []byte
	hostAt  int // where the value of the Host line is in out
	hostEnd int
	bodyAt  int    // where the head ends and the body begins
	host    []byte // as the client sent it

	isHead    bool
	upgrading bool
	chunked   bool // the request's body is
	resend    bool // the request may be sent twice: idempotent, all that was sent is in out

	conn   *upstreamConn
	upload upload
	res    h1.Response
	coding h1.Chunked
	hold   []byte // bytes of the answer that outlive a wait

	answered bool // the answer has begun: no page can be sent any more
	record
}

// outcome says what is to become of the client's connection.
type outcome int

const (
	outcomeDone  outcome = iota // the answer is complete
	outcomeCut                  // it is not, and the client must notice
	outcomeTaken                // the connection was relayed and is over
)

// Bounds on answers.
var answerLimits = h1.Limits{HeadBytes: 128 << 10, Fields: 1000}

const (
	// maxInterim bounds the 1xx answers before a final one.
	maxInterim = 32
	// resendLimit bounds the body that is kept to be sent again.
	resendLimit = 64 << 10
	// watchInterval is how often a client that waits for its answer is
	// looked after: an endpoint should not work for one that has gone.
	watchInterval = 500 * time.Millisecond
)

// init prepares x for the requests of one stream.
func (x *exchange) init(ln *listener, s stream, peer netip.AddrPort) {
	x.ln, x.s, x.peer = ln, s, peer
	x.rnd = *randomSource()
}

// run answers a request. first is the start of its body, and complete says that
// it is the whole body.
func (x *exchange) run(req *h1.Request, first []byte, complete bool) (result outcome) {
	x.headDone()
	set := x.ln.set.Load()
	x.isHead = string(req.Method) == "HEAD"
	x.trusted = isTrusted(x.peer.Addr(), set.TrustedProxies)
	x.facts.Client = x.peer.Addr()
	if x.trusted {
		x.facts.Client = clientAddr(x.peer.Addr(), req, set.TrustedProxies)
	}
	x.facts.Place = x.snap.plan.Node
	x.note(req)
	x.lb = x.snap.plan.Host(req.Host)
	if x.lb == nil {
		return x.fail(failNoHost, nil)
	}
	x.lbs = x.snap.balancers[x.lb.Index]
	x.lbs.requests.Inc()
	var ok bool
	x.decision, ok = steer.Choose(x.lb, &x.facts, &x.rnd, x.start.Wall())
	if !ok {
		return x.fail(failNoPool, nil)
	}

	x.upgrading = req.Upgrade != nil && req.Body == h1.BodyNone && switchable(req.Upgrade)
	x.chunked = req.Body == h1.BodyChunked
	x.resend = idempotent(req.Method) && !x.upgrading
	x.requestHead(req, x.decision.Endpoint.Host)
	x.bodyAt = len(x.out)
	x.addBody(first, complete)
	x.upload.begin(x, complete)

	x.hold = x.hold[:0]
	x.enter()
	b, f, err := x.ask()
	for f != nil && x.mayAskAgain(f) && x.failover(f, err) {
		b, f, err = x.ask()
	}
	if f != nil {
		result = x.fail(f, err)
	} else {
		result = x.answer(b, err)
	}
	x.leave()
	return result
}

// addBody appends a piece of the body to out, in the framing that the endpoint
// is sent.
func (x *exchange) addBody(b []byte, last bool) {
	if !x.chunked {
		x.out = append(x.out, b...)
		return
	}
	if len(b) > 0 {
		x.out = h1.AppendChunkHeader(x.out, len(b))
		x.out = append(x.out, b...)
		x.out = append(x.out, h1.CRLF...)
	}
	if last {
		x.out = append(x.out, h1.LastChunk...)
		x.out = append(x.out, x.s.bodyTrailer()...)
		x.out = append(x.out, h1.CRLF...)
	}
}

// idempotent reports whether a request may be sent twice (RFC 9110 section
// 9.2.2).
func idempotent(method []byte) bool {
	switch string(method) {
	case "GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE":
		return true
	}
	return false
}

// method returns what decides whether an answer has a body.
func (x *exchange) method() []byte {
	if x.isHead {
		return methodHead
	}
	return methodGet
}

var (
	methodHead = []byte("HEAD")
	methodGet  = []byte("GET")
)

// enter counts the request as open at the chosen endpoint.
func (x *exchange) enter() {
	e := x.decision.Endpoint
	e.Load.RequestStarted()
	e.Pool.Load.RequestStarted()
}

// leave ends what enter began.
func (x *exchange) leave() {
	e := x.decision.Endpoint
	e.Load.RequestDone()
	e.Pool.Load.RequestDone()
}

// mayAskAgain reports whether another endpoint may be asked after a failure: it
// is certain that this one has not seen the request, or nothing is lost if both
// see it and two connections to this one ended without a byte. That happens to
// both when an endpoint's process is killed: its system closes connections
// first, and accepts new ones until it comes to the listening socket.
func (x *exchange) mayAskAgain(f *failure) bool {
	// A connection that is still there has taken a part of the body.
	return f.again && x.conn == nil || f == failEmpty && x.resend
}

// failover turns to another endpoint after a failure for which that is safe. It
// is done once, when the pool has another endpoint that can be used and the
// retry budget allows it.
func (x *exchange) failover(f *failure, err error) bool {
	if x.failedOver {
		return false
	}
	next, ok := steer.Again(x.decision, x.lb, &x.facts, &x.rnd)
	if !ok {
		return false
	}
	if x.lb.RetryBudget == 0 || !f.free && !x.lbs.budget.take(x.lb.RetryBudget, x.lbs.requests.Load(), loop.Now()) {
		x.lbs.exhausted.Inc()
		return false
	}
	x.lbs.retries.Inc()
	x.retried(f, err)
	x.leave()
	x.decision = next
	x.enter()
	x.retarget(next.Endpoint.Host)
	return true
}

// ask sends the request to the chosen endpoint and waits for the first bytes of
// its answer. Where it returns err without a failure, the client is to blame.
func (x *exchange) ask() (b []byte, f *failure, err error) {
	e := x.decision.Endpoint
	u := x.snap.upstreams[e.Index]
	u.stats.requests.Inc()
	fresh := false // a kept connection is not to be tried again
	for {
		to, ok := e.Address()
		if !ok {
			u.stats.failures[failResolve.kind].Inc()
			return nil, failResolve, errNoAddress
		}
		var c *upstreamConn
		if !fresh {
			c = u.take(e, to, x.start)
		}
		if c == nil {
			begun := loop.Now()
			x.s.release()
			c, f, err = u.connect(x.snap.driver, e, to)
			x.connect += loop.Now().Sub(begun)
			if f != nil {
				u.stats.failures[f.kind].Inc()
				return nil, f, err
			}
			c.SetWriteTimeout(e.Pool.AnswerTimeout)
		}
		x.conn = c
		x.reused = c.reused
		b, err = x.send(c)
		switch {
		case err == nil:
			return b, nil, nil
		case err == loop.ErrStale:
			stale := !c.reused
			x.drop(false)
			if stale { // a new one: not a byte was sent, but this may go on
				if x.resent {
					u.stats.failures[failEmpty.kind].Inc()
					return nil, failEmpty, err
				}
				x.resent, fresh = true, true
				u.stats.resent.Inc()
			}
			continue
		case isClients(err):
			return nil, nil, err
		}
		x.upload.end() // from here on, out and resend are this task's alone
		switch {
		case err == loop.ErrTimeout:
			f = failAnswer
		case !c.reused && alerted(err):
			f = failTLS
			if x.upload.complete {
				x.drop(true)
			}
		case !gone(err) && err != loop.ErrStalled:
			f = failUnknown
		case x.resend && err != loop.ErrStalled:
			// It closed the connection without a byte of an answer. What it
			// may have done can be done again, so it is asked once more over
			// a new connection: this endpoint, since it may be well and only
			// have been about to close a connection that was unused for long.
			x.drop(true)
			x.upload.begin(x, x.s.bodyDone())
			if x.resent {
				f = failEmpty
				break
			}
			x.resent, fresh = true, true
			u.stats.resent.Inc()
			continue
		default:
			x.resend = false // a stalled endpoint may still be reading
			f = failEmpty
		}
		u.stats.failures[f.kind].Inc()
		return nil, f, err
	}
}

// isClients reports whether err is the client's doing.
func isClients(err error) bool {
	if err == errClientGone || err == errSlowBody {
		return true
	}
	_, malformed := err.(*h1.Error)
	return malformed
}

// send writes the request and waits for the first bytes of the answer.
func (x *exchange) send(c *upstreamConn) ([]byte, error) {
	if x.upload.complete {
		now := loop.Now() // the head may have taken long to come, and a first try to fail
		deadline := now.Add(x.decision.Pool.AnswerTimeout)
		c.SetReadDeadline(min(deadline, now.Add(watchInterval)))
		x.s.release()
		b, err := c.Ask(x.out)
		if err != loop.ErrTimeout {
			return b, err
		}
		return x.wait(nil, deadline)
	}
	if c.reused && !c.Quiet() {
		return nil, loop.ErrStale
	}
	x.s.release()
	if err := c.Write(x.out[:x.bodyAt]); err != nil {
		return nil, err
	}
	x.upload.start()
	// The time of the answer runs from the end of the request, which is not
	// there yet: each part of a long body gives the endpoint new time.
	return x.wait(nil, 0)
}

// wait waits for more of the answer. deadline 0 is the pool's answer time-out
// from now, or from when the upload last moved. prefix is what came before.
func (x *exchange) wait(prefix []byte, deadline loop.Time) ([]byte, error) {
	fixed := deadline != 0
	begun := loop.Now()
	for {
		now := loop.Now()
		if !fixed {
			deadline = max(begun, x.upload.moved()).Add(x.decision.Pool.AnswerTimeout)
		}
		if now >= deadline {
			return nil, loop.ErrTimeout
		}
		x.conn.SetReadDeadline(min(deadline, now.Add(watchInterval)))
		b, err := x.conn.Read(prefix)
		if err != loop.ErrTimeout {
			return b, err
		}
		if !x.s.alive() {
			return nil, errClientGone
		}
	}
}

// more waits for more of an answer's head, of which b has come.
func (x *exchange) more(b []byte) ([]byte, error) {
	if len(b) > 0 {
		x.hold = append(x.hold[:0], b...)
		b = x.hold
	}
	return x.wait(b, 0)
}

// answer passes on the answer that begins with b. err is an error of the
// client's that came instead.
func (x *exchange) answer(b []byte, err error) outcome {
	interims := 0
	held := false // b lies in x.hold, where it outlives waits
	for {
		if err != nil {
			return x.broken(err)
		}
		n, perr := x.res.Parse(b, x.method(), &answerLimits)
		if perr != nil {
			return x.bad(perr)
		}
		if n == 0 {
			b, err = x.more(b)
			held = false
			continue
		}
		b = b[n:]
		if x.res.Status >= 200 {
			break
		}
		if !held { // else the head lies there too, before b
			x.hold = append(x.hold[:0], b...)
			b, held = x.hold, true
		}
		if x.res.Status == 101 {
			return x.switchProtocols(b)
		}
		if interims++; interims > maxInterim {
			return x.bad(errors.New("too many interim answers"))
		}
		if err := x.s.interim(&x.res); err != nil {
			return x.clientLost(err)
		}
		if len(b) == 0 {
			b, err = x.wait(nil, 0)
			held = false
		}
	}
	x.firstByte()
	x.answered = true
	x.status = x.res.Status
	return x.passOn(b)
}

// passOn passes on the final answer whose head is in x.res and whose body
// begins with b.
func (x *exchange) passOn(b []byte) outcome {
	keep := !x.res.Close
	var endpointErr, clientErr error
	switch x.res.Body {
	case h1.BodyNone:
		keep = keep && len(b) == 0
		clientErr = x.s.head(&x.res, h1.BodyNone, 0, nil, true)
	case h1.BodyLength:
		length := x.res.Length
		if int64(len(b)) > length {
			keep, b = false, b[:length]
		}
		left := length - int64(len(b))
		clientErr = x.s.head(&x.res, h1.BodyLength, length, b, left == 0)
		if clientErr == nil && left > 0 {
			var excess bool
			excess, endpointErr, clientErr = x.moveBody(left)
			keep = keep && !excess
		}
	case h1.BodyChunked:
		var excess bool
		excess, endpointErr, clientErr = x.chunkedBody(b)
		keep = keep && !excess
	case h1.BodyUntilClose:
		keep = false
		endpointErr, clientErr = x.endlessBody(b)
	}
	switch {
	case clientErr != nil:
		return x.clientLost(clientErr)
	case isClients(endpointErr):
		return x.clientLost(endpointErr)
	case endpointErr != nil:
		x.failure, x.cause = failUnknown, endpointErr
		x.upstream().stats.failures[failUnknown.kind].Inc()
		x.drop(true)
		x.s.cut()
		return outcomeCut
	}
	if x.upload.end() && keep {
		x.over = loop.Now()
		x.upstream().put(x.conn, x.decision.Pool, x.over)
		x.conn = nil
	} else {
		x.drop(false)
	}
	return outcomeDone
}

// moveBody passes on n bytes of body.
func (x *exchange) moveBody(n int64) (excess bool, endpointErr, clientErr error) {
	last := loop.Now()
	_, endpointErr, clientErr = x.s.move(x.conn, n, loop.Moving{
		Timeout:  watchInterval,
		Progress: func(int) error { last = loop.Now(); return nil },
		Patience: func() bool {
			return x.s.alive() && loop.Now().Sub(last) < x.decision.Pool.AnswerTimeout
		},
	})
	if endpointErr == loop.ErrExcess {
		return true, nil, clientErr
	}
	if endpointErr == loop.ErrTimeout && !x.s.alive() {
		endpointErr, clientErr = nil, errClientGone
	}
	return false, endpointErr, clientErr
}

// chunkedBody passes on a chunked body that begins with b, each part as soon as
// it comes.
func (x *exchange) chunkedBody(b []byte) (excess bool, endpointErr, clientErr error) {
	x.coding.Reset(&answerLimits)
	x.coding.Discard = x.res.NamesFields
	for begun := false; ; {
		data, used, done, err := x.coding.Decode(b)
		if err != nil {
			if !begun {
				// The head has not been sent: send it, so that the answer
				// is seen to be cut.
				clientErr = x.s.head(&x.res, h1.BodyChunked, -1, nil, false)
			}
			return false, errBadChunks, clientErr
		}
		excess = used < len(b)
		last := done && len(x.coding.Trailer()) == 0
		if !begun {
			begun = true
			clientErr = x.s.head(&x.res, h1.BodyChunked, -1, b[:data], last)
		} else if clientErr = x.s.body(b[:data]); clientErr == nil && last {
			clientErr = x.s.end(nil)
		}
		if clientErr == nil && done && !last {
			clientErr = x.s.end(x.coding.Trailer())
		}
		if done || clientErr != nil {
			return excess, nil, clientErr
		}
		if b, err = x.wait(nil, 0); err != nil {
			return false, err, nil
		}
	}
}

var errBadChunks = errors.New("malformed chunked body")

// endlessBody passes on a body that ends with the connection.
func (x *exchange) endlessBody(b []byte) (endpointErr, clientErr error) {
	clientErr = x.s.head(&x.res, h1.BodyUntilClose, -1, b, false)
	for clientErr == nil {
		b, err := x.wait(nil, 0)
		if err == io.EOF {
			return nil, x.s.end(nil)
		}
		if err != nil {
			return err, nil
		}
		clientErr = x.s.body(b)
	}
	return nil, clientErr
}

// switchProtocols passes on a 101 and then relays bytes until both ends are
// done. b are the first of the endpoint's; they outlive waits.
func (x *exchange) switchProtocols(b []byte) outcome {
	if !x.upgrading || x.res.Upgrade == nil {
		return x.bad(errors.New("101 that was not asked for"))
	}
	x.firstByte()
	x.answered = true
	x.status = 101
	if err := x.s.interim(&x.res); err != nil {
		return x.clientLost(err)
	}
	client, early := x.s.takeOver()
	x.upgraded = true
	stats := &x.ln.stats
	stats.upgraded.Add(1)
	defer stats.upgraded.Add(-1)
	err := client.Write(b)
	if err == nil {
		err = x.conn.Write(early)
	}
	var in, out int64
	if err == nil {
		in, out, err = loop.Relay(x.snap.driver, client, x.conn, x.ln.set.Load().UpgradeIdleTimeout)
	}
	x.relayedIn, x.relayedOut = in+int64(len(early)), out+int64(len(b))
	if err == loop.ErrTimeout {
		stats.limits[limitUpgradeIdle].Inc()
	}
	x.cause = err
	x.drop(err != nil)
	return outcomeTaken
}

// upstream returns the connections of the chosen endpoint.
func (x *exchange) upstream() *upstream { return x.snap.upstreams[x.decision.Endpoint.Index] }

// drop closes the connection to the endpoint; cut says that it broke something
// off.
func (x *exchange) drop(cut bool) {
	if x.conn == nil {
		return
	}
	if cut {
		x.conn.cut()
	} else {
		x.conn.discard()
	}
	x.conn = nil
}

// bad ends an exchange whose answer cannot be read.
func (x *exchange) bad(err error) outcome {
	x.upstream().stats.failures[failUnknown.kind].Inc()
	return x.fail(failUnknown, err)
}

// broken ends an exchange in which something broke while no answer had begun.
func (x *exchange) broken(err error) outcome {
	e, malformed := err.(*h1.Error)
	switch {
	case err == errClientGone:
		return x.clientLost(err)
	case err == errSlowBody:
		return x.fail(failTimeout, err)
	case malformed:
		return x.fail(refusal(e.Status), err)
	case err == loop.ErrTimeout:
		x.upstream().stats.failures[failAnswer.kind].Inc()
		return x.fail(failAnswer, err)
	default:
		return x.bad(err)
	}
}

// clientLost ends an exchange whose client has gone, or takes no more.
func (x *exchange) clientLost(err error) outcome {
	x.cause = err
	x.clientGone = true
	x.upload.end()
	x.drop(true)
	x.s.cut()
	return outcomeCut
}

// fail answers with an error page.
func (x *exchange) fail(f *failure, err error) outcome {
	x.failure, x.cause = f, err
	x.upload.end()
	x.drop(true)
	x.status = f.status
	x.answered = true
	if err := x.s.page(f); err != nil {
		x.clientGone = true
		x.s.cut()
		return outcomeCut
	}
	return outcomeDone
}
