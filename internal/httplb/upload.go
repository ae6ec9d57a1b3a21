package httplb

import (
	"errors"
	"io"
	"sync/atomic"

	"fairlead/internal/h1"
	"fairlead/internal/loop"
)

// upload sends the part of a request's body that had not come with its head,
// beside the task that waits for the answer: an endpoint may answer before it
// has read the whole body, and its answer must not wait (RFC 9112 section 9.6).
type upload struct {
	x        *exchange
	complete bool // the whole body is in x.out
	task     loop.Task
	sent     atomic.Bool  // the body was sent to its end
	last     atomic.Int64 // when it last moved, a loop.Time
	head     [32]byte     // for chunk headers
}

// errStopped ends an upload that nobody wants any more.
var errStopped = errors.New("upload stopped")

// begin prepares for a request.
func (u *upload) begin(x *exchange, complete bool) {
	u.x, u.complete, u.task = x, complete, nil
	u.sent.Store(complete)
	u.last.Store(0)
}

// start begins to send, over x.conn.
func (u *upload) start() {
	c := u.x.conn.Conn
	u.task = u.x.d.Spawn(func() {
		defer u.x.ln.recovered()
		u.run(c)
	})
}

// moving notes that the upload moves.
func (u *upload) moving() { u.last.Store(int64(loop.Now())) }

// moved returns when the upload last moved, 0 if it never did.
func (u *upload) moved() loop.Time { return loop.Time(u.last.Load()) }

// run sends the body. An error of the client's ends the wait for the answer; one
// of the endpoint's only ends the upload, since the answer may be on its way.
func (u *upload) run(to loop.Conn) {
	x := u.x
	if err := to.Write(x.out[x.bodyAt:]); err != nil {
		return
	}
	u.moving()
	for {
		b, err := x.s.nextBody()
		if err == errStopped {
			return
		}
		if err != nil && err != io.EOF {
			to.Interrupt(err)
			return
		}
		done := x.s.bodyDone()
		if err := u.piece(to, b, done); err != nil {
			return
		}
		if done {
			u.sent.Store(true)
			return
		}
		if x.resend {
			continue
		}
		_, clientErr, endpointErr := x.s.moveBody(to, u.moving)
		if clientErr == errStopped || endpointErr != nil {
			return
		}
		if clientErr != nil {
			to.Interrupt(clientErr)
			return
		}
	}
}

// piece sends a part of the body. While the request may have to be sent again,
// it is kept in x.out.
func (u *upload) piece(to loop.Conn, b []byte, done bool) error {
	x := u.x
	if x.resend && len(x.out)-x.bodyAt+len(b) > x.lb.RetryBody {
		x.resend = false
	}
	var err error
	switch {
	case x.resend:
		from := len(x.out)
		x.addBody(b, done)
		err = to.Write(x.out[from:])
	case !x.chunked:
		err = to.Write(b)
	default:
		err = u.chunk(to, b, done)
	}
	u.moving()
	return err
}

// chunk sends b as a chunk, and the end of the body if it is done.
func (u *upload) chunk(to loop.Conn, b []byte, done bool) error {
	if len(b) > 0 {
		head := h1.AppendChunkHeader(u.head[:0], len(b))
		// The bytes behind b were chunk framing, and are free.
		if err := to.Writev(head, append(b, h1.CRLF...)); err != nil {
			return err
		}
	}
	if !done {
		return nil
	}
	tail := u.x.appendTrailer([]byte(h1.LastChunk), u.x.s.bodyTrailer())
	return to.Write(append(tail, h1.CRLF...))
}

// end stops the upload if it still goes on, waits for its end, and reports
// whether the body was sent whole, so that the connection can be used again.
func (u *upload) end() bool {
	if u.task == nil {
		return u.sent.Load()
	}
	x := u.x
	if u.sent.Load() {
		u.task.Wait()
		u.task = nil
		return true
	}
	if x.conn != nil {
		x.conn.Interrupt(errStopped)
	}
	x.s.stopBody(errStopped)
	u.task.Wait()
	u.task = nil
	if !x.s.resumeBody() {
		x.resend = false
	}
	if x.conn != nil {
		x.conn.Resume()
	}
	return u.sent.Load()
}
