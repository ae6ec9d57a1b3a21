package httplb

import (
	"bytes"
	"errors"
	"io"

	"fairlead/internal/h1"
	"fairlead/internal/loop"
)

// This file is the second half of an exchange: from the answer's first bytes
// to its last.

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
	x.status = x.res.Status
	x.keep()
	return x.passOn(b)
}

// passOn passes on the final answer whose head is in x.res and whose body
// begins with b.
func (x *exchange) passOn(b []byte) outcome {
	keep := !x.res.Close
	var endpointErr, clientErr error
	if x.res.Body != h1.BodyNone && x.res.Length != int64(len(b)) {
		x.remain(false)
	}
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
	drained := x.remained()
	switch {
	case clientErr != nil:
		return x.clientLost(clientErr)
	case drained && endpointErr != nil:
		x.failure, x.cause = failDrained, endpointErr
		x.upload.end()
		x.drop(true)
		x.s.cut()
		return outcomeCut
	case isClients(endpointErr):
		return x.clientLost(endpointErr)
	case endpointErr != nil:
		x.failure, x.cause = failUnknown, endpointErr
		x.upload.end()
		x.upstream().failed(x.decision.Endpoint, failUnknown)
		x.drop(true)
		x.s.cut()
		return outcomeCut
	}
	x.upstream().answered(x.decision.Endpoint, x.status)
	if x.upload.end() && keep && !drained {
		x.over = loop.Now()
		x.upstream().put(x.d, x.conn, x.decision.Pool, x.snap.sharers, x.over)
		x.conn = nil
	} else {
		x.drop(false)
	}
	return outcomeDone
}

// moveBody passes on n bytes of body.
func (x *exchange) moveBody(n int64) (excess bool, endpointErr, clientErr error) {
	last := loop.Now()
	_, endpointErr, clientErr = x.s.move(x.conn.Conn, n, loop.Moving{
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
	if !x.upgrading || !bytes.EqualFold(x.res.Upgrade, x.protocol) {
		return x.bad(errors.New("101 that was not asked for"))
	}
	x.firstByte()
	x.status = 101
	x.upstream().answered(x.decision.Endpoint, x.status)
	x.keep()
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
		x.remain(true)
		in, out, err = loop.Relay(x.d, client, x.conn.Conn, x.ln.set.Load().UpgradeIdleTimeout)
		if x.remained() {
			x.failure = failDrained
		}
	}
	x.relayedIn, x.relayedOut = in+int64(len(early)), out+int64(len(b))
	if err == loop.ErrTimeout {
		stats.limits[limitUpgradeIdle].Inc()
	}
	x.cause = err
	x.drop(err != nil && err != loop.ErrTimeout) // one that was silent for too long was ended in order
	return outcomeTaken
}
