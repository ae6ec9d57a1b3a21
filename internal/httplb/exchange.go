package httplb

import (
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net/netip"
	"time"

	"fairlead/internal/h1"
	"fairlead/internal/h2"
	"fairlead/internal/loop"
	"fairlead/internal/model"
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
	d    loop.Driver
	s    stream
	rnd  rand.PCG
	snap *snapshot

	peer    netip.AddrPort
	secure  bool // the client speaks TLS
	tls     *tls.ConnectionState
	trusted bool // the peer is a trusted proxy

	certified bool   // the client has shown a certificate that was verified
	asks      bool   // what would be: nothing may change by it
	subject   string // of the client's certificate

	lb        *plan.LoadBalancer
	lbs       *balancerStats
	facts     steer.Facts
	where     where
	decision  steer.Decision
	binding   binding
	judgement *judgement // of rules, once there were some

	host     []byte // as the client sent it
	trailers bool   // the client takes them

	out       []byte
	targetAt  int // where the lines are in out that depend on the endpoint
	targetEnd int
	bodyAt    int // where the head ends and the body begins

	isHead    bool
	grpc      bool // a call of gRPC, to whom errors are told in its way
	upgrading bool
	chunked   bool // the request's body is
	resend    bool // the request may be sent twice: idempotent, all that was sent is in out

	protocol []byte // that the client wants to change to
	counted  bool   // as open at the chosen endpoint
	gate     *gate  // of the endpoint's requests, where the request has gone through it

	conn   *upstreamConn
	stay   stay
	upload upload
	res    h1.Response
	coding h1.Chunked
	hold   []byte // bytes of the answer that outlive a wait

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
	// maxStale bounds the kept connections that one request tries.
	maxStale = 1000
	// maxInterim bounds the 1xx answers before a final one.
	maxInterim = 32
	// watchInterval is how often a client that waits for its answer is
	// looked after: an endpoint should not work for one that has gone.
	watchInterval = 500 * time.Millisecond
)

// init prepares x for the requests of one stream.
func (x *exchange) init(s stream) {
	x.s = s
	x.rnd = *rand.NewPCG(rand.Uint64(), rand.Uint64()) // its own: choosing shares nothing
}

// attach says where the requests that follow come from.
func (x *exchange) attach(k *client) {
	x.ln, x.d, x.peer = k.ln, k.d, k.peer
	x.secure, x.tls = k.tls != nil, k.tls
	x.certified, x.subject = k.certified, k.subject
}

// detach forgets the requests, and lets go of what they would keep from being
// collected.
func (x *exchange) detach() {
	x.ln, x.d, x.tls, x.snap, x.lb, x.lbs = nil, nil, nil, nil, nil, nil
	x.peer, x.secure, x.trusted = netip.AddrPort{}, false, false
	x.certified, x.subject = false, ""
	x.decision, x.facts = steer.Decision{}, steer.Facts{}
	x.where.databases = nil
	x.binding.line = x.binding.line[:0]
	if x.judgement != nil {
		x.judgement.forget()
	}
	x.isHead, x.upgrading, x.chunked, x.resend = false, false, false, false
	x.res.Reset()
	x.record = record{text: x.text[:0]}
}

// trim gives up what a request has made large.
func (x *exchange) trim() {
	trim(&x.out, &x.hold, &x.text, &x.host, &x.protocol, &x.binding.key)
	if x.judgement != nil {
		trim(&x.judgement.view.made)
	}
	if cap(x.coding.Trailer()) > keepBuffer {
		x.coding = h1.Chunked{}
	}
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
	x.where.of(x.facts.Client, x.snap.plan.Geo)
	x.note(req)
	x.grpc = x.isGRPC(req)
	if !x.secure {
		if proof, ok := x.proof(req); ok {
			x.status = 200
			return x.answerSelf(200, "OK", proofLines, proof)
		}
	}
	x.lb = x.snap.plan.Host(req.Host)
	if x.lb == nil {
		return x.fail(failNoHost, nil)
	}
	if set.explain != nil && x.trusted && hasField(req, set.explain) {
		x.tell(req)
	}
	x.lbs = x.snap.balancers[x.lb.Index]
	x.lbs.requests.Inc()
	if len(x.lb.Rules) > 0 {
		if response := x.judge(req); response != nil {
			return x.respond(response)
		}
	}
	x.situate()
	x.bind(req)
	var ok bool
	x.decision, ok = steer.Choose(x.lb, &x.facts, &x.rnd, x.start.Wall())
	if !ok {
		return x.fail(failNoPool, nil)
	}
	x.binding.held = x.decision.Reason == steer.ReasonSession
	if x.lb.Affinity != nil {
		x.countSession()
	}

	x.upgrading = req.Upgrade != nil && req.Body == h1.BodyNone && switchable(req.Upgrade)
	x.chunked = req.Body == h1.BodyChunked
	x.resend = idempotent(req.Method) && !x.upgrading
	x.requestHead(req, x.decision.Endpoint)
	x.bodyAt = len(x.out)
	x.addBody(first, complete)
	x.resend = x.resend && len(x.out)-x.bodyAt <= x.lb.RetryBody
	x.upload.begin(x, complete)

	x.hold = x.hold[:0]
	x.res.Reset() // the last answer may have ended within its head
	x.enter()
	defer x.settle()
	b, f, err := x.ask()
	for f != nil && x.mayAskAgain(f) && x.failover(f, err) {
		b, f, err = x.ask()
	}
	if f != nil {
		result = x.fail(f, err)
	} else {
		result = x.answer(b, err)
	}
	return result
}

// settle ends what is still open when the exchange is over, which after a
// defect may be anything.
func (x *exchange) settle() {
	x.remained()
	x.upload.end()
	x.drop(true)
	x.leave()
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
		x.out = x.appendTrailer(x.out, x.s.bodyTrailer())
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
	x.counted = true
	e := x.decision.Endpoint
	e.Load.RequestStarted()
	e.Pool.Load.RequestStarted()
}

// leave ends what enter began.
func (x *exchange) leave() {
	if !x.counted {
		return
	}
	x.counted = false
	e := x.decision.Endpoint
	e.Load.RequestDone()
	e.Pool.Load.RequestDone()
	if x.gate != nil {
		x.gate.leave()
		x.gate = nil
	}
}

// admit waits for room at the chosen endpoint where the requests there are bounded.
func (x *exchange) admit(u *upstream, e *plan.Endpoint) (*failure, error) {
	l := &e.Pool.Limits
	x.s.release()
	err := u.requests.enter(x.d, l.Queue, loop.Now().Add(l.QueueTimeout), nil, x.s.alive)
	switch err {
	case nil:
		x.gate = &u.requests
		return nil, nil
	case errFull:
		return failFull, err
	case errQueue:
		return failQueue, err
	}
	return nil, err
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
// is done once, when the pool has another endpoint that can be used, or another
// pool may be taken and has one, and the retry budget allows it.
func (x *exchange) failover(f *failure, err error) bool {
	if x.failedOver || x.binding.held && (x.lb.Affinity.Failover == model.FailoverNone || !f.leavesSession()) {
		return false
	}
	next, ok := steer.Again(x.decision, &x.facts, &x.rnd, x.start.Wall())
	if !ok && x.lb.AcrossPools {
		next, ok = steer.Elsewhere(x.lb, x.decision, &x.facts, &x.rnd, x.start.Wall())
	}
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
	x.retarget(next.Endpoint)
	return true
}

// ask sends the request to the chosen endpoint and waits for the first bytes of
// its answer. Where it returns err without a failure, the client is to blame.
func (x *exchange) ask() (b []byte, f *failure, err error) {
	e := x.decision.Endpoint
	u := x.snap.upstreams[e.Index]
	u.stats.requests.Inc()
	if e.Pool.Limits.Requests > 0 && x.gate == nil {
		if f, err = x.admit(u, e); f != nil || err != nil {
			if f != nil {
				u.failed(e, f)
			}
			return nil, f, err
		}
	}
	fresh := false // a kept connection is not to be tried again
	stale := 0     // kept ones that were tried
	for {
		to, ok := e.Address()
		if !ok {
			u.failed(e, failResolve)
			return nil, failResolve, errNoAddress
		}
		var c *upstreamConn
		if !fresh {
			c = u.take(x.d, e, to, loop.Now())
		}
		if c == nil {
			begun := loop.Now()
			x.s.release()
			c, f, err = u.connect(x.d, x.snap.sources, e, to, x.s.alive)
			x.connect += loop.Now().Sub(begun)
			if f != nil {
				u.failed(e, f)
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
		case err == loop.ErrStale && c.reused && stale < maxStale:
			stale++
			x.drop(false) // a kept one that is over, or a shared one that was full a moment ago
			continue
		case err == loop.ErrStale, x.upload.complete && errors.Is(err, h2.ErrNotProcessed):
			// Nothing was sent, or nothing was looked at; but this may go on.
			x.drop(false)
			if x.resent {
				f = failEmpty
				if err != loop.ErrStale {
					f = failBusy
				}
				u.failed(e, f)
				return nil, f, err
			}
			x.resent, fresh = true, true
			u.stats.resent.Inc()
			continue
		case errors.Is(err, h2.ErrNoExtendedConnect):
			x.drop(false)
			u.failed(e, failTunnel)
			return nil, failTunnel, err
		case isClients(err):
			return nil, nil, err
		}
		x.upload.end() // from here on, out and resend are this task's alone
		switch {
		case err == loop.ErrTimeout:
			f = failAnswer
		case !c.reused && refusedUs(err):
			f = failTLS
			if x.upload.complete {
				x.drop(true)
			}
		case !gone(err) && err != loop.ErrStalled:
			f = failUnknown
		case !x.resend && errors.Is(err, h2.ErrNotProcessed):
			f = failBusy // a part of the body is gone
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
		u.failed(e, f)
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
	x.upstream().failed(x.decision.Endpoint, failUnknown)
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
		x.upstream().failed(x.decision.Endpoint, failAnswer)
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
	if x.grpc {
		x.status = 200
		return x.answerSelf(x.status, "", f.grpcLines(), "")
	}
	return x.answerSelf(f.status, f.title, f.lines(), f.page())
}

// answerSelf answers with a page of our own.
func (x *exchange) answerSelf(status int, reason, lines, body string) outcome {
	if err := x.s.page(status, reason, lines, body); err != nil {
		x.clientGone = true
		x.s.cut()
		return outcomeCut
	}
	return outcomeDone
}
