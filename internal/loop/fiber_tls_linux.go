package loop

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"
)

// fiberTLS is TLS over a connection of an event loop. crypto/tls holds its locks
// while it reads and writes; a fiber that waited meanwhile could block another
// one on them, and with it the loop. After the handshake, which has the
// connection to itself, crypto/tls therefore never waits: reading, it is told
// that nothing has come, and is called again once something has; writing, it
// always succeeds, and what does not fit into the socket waits here.
type fiberTLS struct {
	c  *fiberConn
	tc *tls.Conn

	handshaking bool
	until       Time  // the handshake's deadline
	why         error // what a wait of the handshake ended with

	// The reading task's.
	more  bool   // there may be more inside crypto/tls, or an error
	ahead []byte // what Quiet has read
	said  error  // what Quiet met in place of bytes
	head  [5]byte
	have  int // bytes of head, of the record that has not come whole
	body  int // bytes that it still lacks

	// The writing task's, but for what crypto/tls writes while it reads.
	corked  bool   // writes are collected in the loop's cork
	pending []byte // what is to be sent before anything else, in spill
	spill   []byte
	cut     error // part of a record was lost: nothing can follow
}

const (
	// joinSize is up to which two writes are made one: one record.
	joinSize = 16 << 10
	// writePiece is how much is encrypted before it is sent.
	writePiece = 64 << 10
)

// Secure implements Driver.
func (l *eventLoop) Secure(c Conn, side Side, config *tls.Config, deadline Time) (Conn, *tls.ConnectionState, error) {
	t := &fiberTLS{c: c.(*fiberConn), handshaking: true, until: deadline, more: true}
	if side == AsClient {
		t.tc = tls.Client((*wire)(t), config)
	} else {
		t.tc = tls.Server((*wire)(t), config)
	}
	t.c.dialling = side == AsClient
	err := t.c.over()
	if err == nil {
		err = t.tc.Handshake()
	}
	if why := t.c.over(); why != nil {
		err = why
	}
	t.c.dialling, t.handshaking = false, false
	switch {
	case t.why != nil && err != nil:
		return nil, nil, t.why
	case err != nil:
		return nil, nil, err
	}
	state := t.tc.ConnectionState()
	return t, &state, nil
}

func (t *fiberTLS) Read(prefix []byte) ([]byte, error) {
	c, l := t.c, t.c.l
	if err := c.over(); err != nil {
		return nil, err
	}
	if len(t.ahead) > 0 {
		buf := l.room(len(prefix) + len(t.ahead))
		k := copy(buf, prefix)
		k += copy(buf[k:], t.ahead)
		t.ahead = nil
		return l.lend(t, buf[:k]), nil
	}
	if err := c.mayRead(); err != nil {
		return nil, err
	}
	var kept []byte
	for must := l.current.tired(); ; must = true {
		if must {
			if kept == nil {
				kept = l.keep(prefix)
				prefix = kept
			}
			if f := l.current; f.tired() {
				f.rest()
			}
			err := c.over()
			if err == nil && !t.more {
				err = c.wait(&c.in, c.readUntil)
			}
			if err != nil {
				l.drop(kept)
				return nil, err
			}
		}
		buf := l.room(len(prefix))
		k := copy(buf, prefix)
		if kept == nil { // else it stays where it outlives the next wait too
			prefix = buf[:k]
		}
		n, err := t.fill(buf[k:])
		switch {
		case n > 0:
			l.drop(kept)
			l.current.steps++
			return l.lend(t, buf[:k+n]), nil
		case err == errAgain:
			continue
		case err == io.EOF:
			err = c.broken.end(io.EOF)
		default:
			c.broken.note(err)
		}
		l.drop(kept)
		return nil, err
	}
}

// fill reads the records that are there, up to a buffer. It does not wait.
func (t *fiberTLS) fill(b []byte) (n int, err error) {
	b = b[:min(len(b), bufferSize)]
	for n < len(b) && err == nil {
		var m int
		m, err = t.tc.Read(b[n:])
		n += m
	}
	t.more = err != errAgain
	return n, err
}

// Quiet reads, as bytes that have come may be the business of TLS alone, like
// session tickets. What it finds is kept for the next Read.
func (t *fiberTLS) Quiet() bool {
	c, l := t.c, t.c.l
	if !l.look() {
		c.in.ready = true // reading tells
	}
	if c.closed || c.aborted.Load() || len(t.ahead) > 0 || t.said != nil {
		return false
	}
	if t.more || c.in.ready {
		l.endLoan()
		n, err := t.fill(l.buf)
		switch {
		case n > 0:
			t.ahead = bytes.Clone(l.buf[:n])
			return false
		case err != errAgain:
			c.broken.note(err)
			t.said = err
			return false
		}
	}
	return !c.ended && t.have == 0 && t.body == 0
}

func (t *fiberTLS) Ask(b []byte) ([]byte, error) {
	if !t.Quiet() {
		if op := (*net.OpError)(nil); errors.As(t.said, &op) {
			return nil, t.said // an alert: why the other end will not go on
		}
		return nil, ErrStale
	}
	werr := t.Write(b)
	if werr != nil && !dead(werr) {
		return nil, werr
	}
	// Where it closed before it had read all, it may have said why.
	answer, err := t.Read(nil)
	if werr != nil && (dead(err) || err == ErrTimeout) {
		err = werr
	}
	return answer, err
}

// idle implements Driver.Idle.
func (t *fiberTLS) idle(f func()) bool { return !t.Quiet() || t.c.idle(f) }

func (t *fiberTLS) Write(b []byte) error { return t.Writev(b, nil) }

func (t *fiberTLS) Writev(a, b []byte) error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	if len(b) > 0 && len(a)+len(b) <= joinSize {
		n := copy(t.c.l.join, a)
		a, b = t.c.l.join[:n+copy(t.c.l.join[n:], b)], nil
	}
	var rest []byte
	for len(a)+len(b) > 0 {
		var err error
		if a, b, err = t.encrypt(a, b); err != nil {
			return err
		}
		if err := t.send(t.c.l.cork); err != nil {
			return err
		}
		if len(t.pending) == 0 {
			continue
		}
		if rest == nil && len(a)+len(b) > 0 { // it may be borrowed, and others are about to run
			rest = t.c.l.takeSpill(len(a) + len(b))
			defer t.c.l.freeSpill(rest)
			a, b = append(append(rest[:0], a...), b...), nil
		}
		if err := t.flush(); err != nil {
			return err
		}
	}
	return nil
}

func (t *fiberTLS) mayWrite() error {
	if err := t.c.over(); err != nil {
		return err
	}
	return t.cut
}

// encrypt fills the cork with the records of a piece, and returns the rest.
func (t *fiberTLS) encrypt(a, b []byte) (restA, restB []byte, err error) {
	l := t.c.l
	l.cork, t.corked = l.cork[:0], true
	for room := writePiece; room > 0 && len(a)+len(b) > 0 && err == nil; {
		if len(a) == 0 {
			a, b = b, nil
		}
		n := min(len(a), room)
		_, err = t.tc.Write(a[:n])
		a = a[n:]
		room -= n
	}
	t.corked = false
	return a, b, err
}

// send sends what the socket takes. The rest is pending.
func (t *fiberTLS) send(b []byte) (err error) {
	if t.cut != nil {
		return t.cut
	}
	if len(t.pending) == 0 {
		if b, _, err = t.c.send(b, nil); err != nil {
			t.cut = err
			return err
		}
	}
	if len(b) == 0 {
		return nil
	}
	if len(b) > cap(t.pending)-len(t.pending) {
		l, old := t.c.l, t.spill
		t.spill = l.takeSpill(len(t.pending) + len(b))
		t.pending = append(t.spill[:0], t.pending...)
		l.freeSpill(old)
	}
	t.pending = append(t.pending, b...)
	return nil
}

// drop gives up what is pending.
func (t *fiberTLS) drop() {
	t.c.l.freeSpill(t.spill)
	t.pending, t.spill = nil, nil
}

// flush waits until nothing is pending.
func (t *fiberTLS) flush() error {
	t.c.stall.since = Now()
	for len(t.pending) > 0 && t.cut == nil {
		var err error
		if t.handshaking {
			err = t.c.wait(&t.c.out, t.until)
		} else {
			err = t.c.waitWrite()
		}
		if err == nil {
			err = t.push()
		}
		if err != nil {
			t.cut = err
			t.drop()
		}
	}
	return t.cut
}

// push sends what is pending as far as the socket takes it.
func (t *fiberTLS) push() error {
	left, _, err := t.c.send(t.pending, nil)
	if len(left) < len(t.pending) {
		t.c.stall.since = Now()
	}
	t.pending = left
	if len(left) == 0 || err != nil {
		t.drop()
	}
	return err
}

func (t *fiberTLS) CloseWrite() error {
	if err := t.mayWrite(); err != nil {
		return err
	}
	if err := t.tc.CloseWrite(); err != nil || len(t.pending) == 0 {
		return err
	}
	return t.flush()
}

// Close says farewell if the socket takes it.
func (t *fiberTLS) Close() error {
	defer t.drop()
	if t.c.closed || t.cut != nil || t.c.aborted.Load() {
		return t.c.Close()
	}
	if len(t.pending) > 0 && t.push() != nil {
		return t.c.Close()
	}
	return t.tc.Close()
}

func (t *fiberTLS) Abort()                          { t.c.Abort() }
func (t *fiberTLS) Interrupt(cause error)           { t.c.Interrupt(cause) }
func (t *fiberTLS) Resume()                         { t.c.Resume() }
func (t *fiberTLS) Release()                        { t.c.l.release(t) }
func (t *fiberTLS) SetReadDeadline(d Time)          { t.c.SetReadDeadline(d) }
func (t *fiberTLS) SetWriteTimeout(d time.Duration) { t.c.SetWriteTimeout(d) }
func (t *fiberTLS) Alive() bool                     { return t.c.Alive() }
func (t *fiberTLS) Remote() netip.AddrPort          { return t.c.Remote() }
func (t *fiberTLS) Local() netip.AddrPort           { return t.c.Local() }
