package loop

import (
	"errors"
	"net"
	"time"
)

// wire is the connection that crypto/tls sees.
type wire fiberTLS

func (w *wire) Read(b []byte) (int, error) {
	c := w.c
	for {
		if !c.in.ready && !w.handshaking {
			return 0, errAgain
		}
		if w.handshaking {
			if c.l.current.tired() {
				c.l.current.rest()
			}
			err := c.wait(&c.in, w.until)
			if err == nil && !c.dialling { // as the server: anyone may ask for it
				err = w.begin()
			}
			if err != nil {
				w.why = err
				return 0, err
			}
		}
		if c.closed {
			return 0, net.ErrClosed
		}
		n, err := c.recv(b)
		if n > 0 {
			(*fiberTLS)(w).track(b[:n])
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// begin waits for the turn of a step of the handshake. Its deadline counts when
// that comes: where the queue is longer than clients wait, they cost no handshake.
func (w *wire) begin() error {
	w.c.l.begin()
	if err := w.c.over(); err != nil {
		return err
	}
	if w.until != 0 && w.c.l.now >= w.until {
		return ErrTimeout
	}
	return nil
}

// track follows the records, so that it is known whether part of one has come.
func (t *fiberTLS) track(b []byte) {
	for len(b) > 0 {
		if t.body == 0 {
			n := copy(t.head[t.have:], b)
			b = b[n:]
			if t.have += n; t.have == len(t.head) {
				t.have, t.body = 0, int(t.head[3])<<8|int(t.head[4])
			}
		}
		n := min(len(b), t.body)
		b = b[n:]
		t.body -= n
	}
}

// errAgain is what crypto/tls is told when nothing has come. It takes a
// temporary error for none of the connection's, and can be called again.
var errAgain error = again{}

type again struct{}

func (again) Error() string   { return "nothing has come yet" }
func (again) Timeout() bool   { return true }
func (again) Temporary() bool { return true }

// errFlood says that the other end makes TLS answer and does not take the
// answers.
var errFlood = errors.New("the other end takes no answers of TLS")

func (w *wire) Write(b []byte) (int, error) {
	t, c := (*fiberTLS)(w), w.c
	if c.closed {
		return 0, net.ErrClosed
	}
	if t.corked {
		c.l.cork = append(c.l.cork, b...)
		return len(b), nil
	}
	if !t.handshaking && len(t.pending)+len(b) > usualSpill {
		return 0, errFlood
	}
	if err := t.send(b); err != nil {
		return 0, err
	}
	if t.handshaking && len(t.pending) > 0 {
		if w.why = t.flush(); w.why != nil {
			return 0, w.why
		}
	}
	return len(b), nil
}

func (w *wire) Close() error                     { return w.c.Close() }
func (w *wire) LocalAddr() net.Addr              { return net.TCPAddrFromAddrPort(w.c.Local()) }
func (w *wire) RemoteAddr() net.Addr             { return net.TCPAddrFromAddrPort(w.c.Remote()) }
func (w *wire) SetDeadline(time.Time) error      { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }
