//go:build linux

package loadtest

import (
	"bufio"
	"bytes"
	"crypto/subtle"
	be "encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// Kinds of frames (RFC 6455 section 5.2), and bits of a frame's first two bytes.
const (
	opContinuation = 0
	opText         = 1
	opBinary       = 2
	opClose        = 8
	opPing         = 9
	opPong         = 10

	final  = 1 << 7 // in the first: no more frames of this message
	masked = 1 << 7 // in the second
)

const (
	// lastPing marks the ping that comes before theEnd.
	lastPing = 1 << 63
	// tail is how many messages are said by the end that closes last, after the other
	// has ended its direction.
	tail = 2
	// lateBy is how long connections may take to come to their end.
	lateBy = 2 * time.Minute
)

// closing is a close frame's payload: a normal end (1000).
var closing = []byte("\x03\xe8done")

// socket is one end of a connection, after the handshake.
type socket interface {
	io.ReadWriteCloser
	CloseWrite() error
}

// counts are what all ends have heard, and how many there are.
type counts struct {
	ends                                             atomic.Int64
	messages, fragments, large, bytes, pings, halves atomic.Int64
}

func (c *counts) String() string {
	return fmt.Sprintf("%d messages in %d frames with %d MiB, %d of them of %d MiB; %d pings answered; %d ends closed while the other went on",
		c.messages.Load(), c.fragments.Load(), c.bytes.Load()>>20, c.large.Load(), largeMessage>>20, c.pings.Load(), c.halves.Load())
}

// talk is what both ends know of a connection.
type talk struct {
	seed     uint64
	messages int       // to be said by each
	until    time.Time // no message begins
	pause    time.Duration
	large    chan struct{} // so many large messages at once
	counts   *counts
}

// peer is one end of a WebSocket. It says its script, and compares what it hears with
// the other's: messages, how they are cut into frames, pings between them, and the
// answers to its own. At last one of both closes and ends its direction; the other
// hears that, says some more messages, and closes, too.
type peer struct {
	talk
	sock         socket
	in           *bufio.Reader
	out          *bufio.Writer
	client       bool
	closesFirst  bool
	mine, theirs *script

	key       [4]byte
	mask      [8 << 10]byte // the key, over and over
	spoken    [8 << 10]byte
	got, want [8 << 10]byte

	pings    uint64 // that were sent
	pinged   uint64 // that were heard
	answered uint64 // pings of mine

	mu    sync.Mutex    // guards pongs
	pongs []uint64      // that are to be sent
	wake  chan struct{} // there are some

	heard chan struct{} // closed when theEnd and the answers to all my pings are heard
	done  chan struct{} // closed when nothing more is heard
}

// newPeer makes an end; in may hold bytes that came with the handshake.
func newPeer(s socket, in *bufio.Reader, client bool, t talk) *peer {
	p := &peer{
		talk: t, sock: s, in: in, out: bufio.NewWriterSize(s, 16<<10),
		client: client, closesFirst: (t.seed%2 == 0) == client,
		mine: newScript(t.seed, client), theirs: newScript(t.seed, !client),
		wake: make(chan struct{}, 1), heard: make(chan struct{}), done: make(chan struct{}),
	}
	if client {
		be.BigEndian.PutUint32(p.key[:], uint32(t.seed)|1)
	}
	for i := range p.mask {
		p.mask[i] = p.key[i%4]
	}
	return p
}

// run says and hears everything, and closes the connection.
func (p *peer) run() error {
	p.counts.ends.Add(1)
	defer p.counts.ends.Add(-1)
	defer p.sock.Close()
	late := time.AfterFunc(time.Until(p.until)+lateBy, func() { p.sock.Close() })
	defer late.Stop()
	var listening error
	go func() {
		defer close(p.done)
		if listening = p.listen(); listening != nil {
			listening = fmt.Errorf("listening: %w", listening)
			p.sock.Close()
		}
	}()
	err := p.speak()
	if err != nil {
		err = fmt.Errorf("speaking: %w", err)
		p.sock.Close()
	}
	<-p.done
	return errors.Join(listening, err)
}

var errNotHeard = errors.New("the other end does not listen any more")

// speak says the script, in bursts, and closes.
func (p *peer) speak() error {
	pauses := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for range p.messages {
		if !time.Now().Before(p.until) {
			break
		}
		if err := p.say(p.mine.next()); err != nil {
			return err
		}
		if pauses.IntN(10) == 0 {
			timer := time.After(min(time.Duration(pauses.Int64N(int64(p.pause))), time.Until(p.until)))
			if err := p.answerUntil(timer, nil); err != nil {
				return err
			}
		}
	}
	if err := p.ping(lastPing); err != nil {
		return err
	}
	if err := p.control(final|opText, []byte(theEnd)); err != nil {
		return err
	}
	if err := p.answerUntil(nil, p.heard); err != nil {
		return err
	}
	if !p.closesFirst {
		<-p.done
		for range tail {
			m := p.mine.next()
			m.quiet()
			if err := p.say(m); err != nil {
				return err
			}
		}
	}
	if err := p.control(final|opClose, closing); err != nil {
		return err
	}
	if err := p.out.Flush(); err != nil {
		return err
	}
	return p.sock.CloseWrite()
}

// answerUntil sends what there is, and answers to pings, until one of both happens.
func (p *peer) answerUntil(timer <-chan time.Time, heard <-chan struct{}) error {
	for more := true; ; {
		if err := p.answer(); err != nil {
			return err
		}
		if err := p.out.Flush(); err != nil {
			return err
		}
		if !more {
			return nil
		}
		select {
		case <-p.wake:
		case <-timer:
			more = false
		case <-heard:
			more = false
		case <-p.done:
			select {
			case <-p.heard:
			default:
				return errNotHeard
			}
			more = false
		}
	}
}

// answer says what pings are due an answer.
func (p *peer) answer() error {
	p.mu.Lock()
	due := p.pongs
	p.pongs = nil
	p.mu.Unlock()
	for _, n := range due {
		if err := p.control(final|opPong, be.BigEndian.AppendUint64(nil, n)); err != nil {
			return err
		}
	}
	return nil
}

func (p *peer) ping(mark uint64) error {
	p.pings++
	return p.control(final|opPing, be.BigEndian.AppendUint64(nil, p.pings|mark))
}

// say says a message, with answers to pings between its frames.
func (p *peer) say(m message) error {
	if m.size == largeMessage {
		select {
		case p.large <- struct{}{}:
			defer func() { <-p.large }()
		case <-time.After(time.Until(p.until) + lateBy):
			return errors.New("others do not come to an end with their large messages")
		}
	}
	for i, piece := range m.pieces {
		if err := p.answer(); err != nil {
			return err
		}
		if piece.ping {
			if err := p.ping(0); err != nil {
				return err
			}
		}
		if err := p.head(m.head(i), piece.size); err != nil {
			return err
		}
		for rest := piece.size; rest > 0; {
			b := p.spoken[:min(rest, len(p.spoken))]
			m.fill(b)
			if err := p.write(b); err != nil {
				return err
			}
			rest -= len(b)
		}
	}
	return p.out.Flush()
}

// control says a frame with a short payload.
func (p *peer) control(first byte, payload []byte) error {
	if err := p.head(first, len(payload)); err != nil {
		return err
	}
	return p.write(p.spoken[:copy(p.spoken[:], payload)])
}

// head says the head of a frame.
func (p *peer) head(first byte, size int) error {
	b := []byte{first, 0}
	switch {
	case size < 126:
		b[1] = byte(size)
	case size < 1<<16:
		b[1] = 126
		b = be.BigEndian.AppendUint16(b, uint16(size))
	default:
		b[1] = 127
		b = be.BigEndian.AppendUint64(b, uint64(size))
	}
	if p.client {
		b[1] |= masked
		b = append(b, p.key[:]...)
	}
	_, err := p.out.Write(b)
	return err
}

// write says bytes of a frame, of which all pieces but the last are as long as the
// mask. It changes them.
func (p *peer) write(b []byte) error {
	if p.client {
		subtle.XORBytes(b, b, p.mask[:])
	}
	_, err := p.out.Write(b)
	return err
}

// listen hears everything.
func (p *peer) listen() error {
	m := p.theirs.next()
	for n := 1; ; n++ {
		ended, err := p.hear(&m)
		if err != nil {
			return fmt.Errorf("message %d of %d bytes: %w", n, m.size, err)
		}
		if ended {
			break // m is still to come
		}
		m = p.theirs.next()
	}
	for p.answered&lastPing == 0 {
		h, pong, err := p.next()
		if err != nil {
			return fmt.Errorf("answers to pings: %w", err)
		}
		if !pong {
			return fmt.Errorf("%v, want answers to pings", h)
		}
	}
	close(p.heard)
	if p.closesFirst {
		for n := range tail {
			m.quiet()
			if _, err := p.hear(&m); err != nil {
				return fmt.Errorf("message %d of %d bytes, after my close: %w", n+1, m.size, err)
			}
			m = p.theirs.next()
		}
		p.counts.halves.Add(1)
	}
	h, err := p.frame()
	if err != nil {
		return fmt.Errorf("close: %w", err)
	}
	payload, err := p.short(h)
	if err != nil {
		return fmt.Errorf("close: %w", err)
	}
	if h.first != final|opClose || !bytes.Equal(payload, closing) {
		return fmt.Errorf("%v %q, want the close frame", h, payload)
	}
	switch _, err := p.in.ReadByte(); err {
	case io.EOF:
		return nil
	case nil:
		return errors.New("something comes after the close frame")
	default:
		return fmt.Errorf("after the close frame: %w", err)
	}
}

// hear hears a message, or theEnd in place of it.
func (p *peer) hear(m *message) (ended bool, err error) {
	for i, piece := range m.pieces {
		h, err := p.frame()
		if err != nil {
			return false, err
		}
		if h.first == final|opPing {
			n, err := p.number(h)
			if err != nil {
				return false, err
			}
			p.pinged++
			if n&^lastPing != p.pinged || n&lastPing == 0 && !piece.ping {
				return false, fmt.Errorf("ping %d (%#x) before frame %d, want %d there: %v", p.pinged, n, i+1, p.pinged, piece.ping)
			}
			p.mu.Lock()
			p.pongs = append(p.pongs, n)
			p.mu.Unlock()
			select {
			case p.wake <- struct{}{}:
			default:
			}
			if h, err = p.frame(); err != nil {
				return false, err
			}
			if n&lastPing != 0 {
				payload, err := p.short(h)
				if err == nil && (i > 0 || h.first != final|opText || string(payload) != theEnd) {
					err = fmt.Errorf("%v %q behind the last ping, want the end", h, payload)
				}
				return err == nil, err
			}
		} else if piece.ping {
			return false, fmt.Errorf("%v, want ping %d before frame %d", h, p.pinged+1, i+1)
		}
		if h.first != m.head(i) || h.size != piece.size {
			return false, fmt.Errorf("frame %d: %v, want %v", i+1, h, header{first: m.head(i), size: piece.size})
		}
		for at := 0; at < h.size; {
			got := p.got[:min(h.size-at, len(p.got))]
			if _, err := io.ReadFull(p.in, got); err != nil {
				return false, fmt.Errorf("frame %d at byte %d of %d: %w", i+1, at, h.size, err)
			}
			h.unmask(got)
			want := p.want[:len(got)]
			m.fill(want)
			if !bytes.Equal(got, want) {
				return false, fmt.Errorf("frame %d of %d bytes: other bytes from byte %d", i+1, h.size, at)
			}
			at += len(got)
		}
		p.counts.fragments.Add(1)
	}
	p.counts.messages.Add(1)
	p.counts.bytes.Add(int64(m.size))
	if m.size == largeMessage {
		p.counts.large.Add(1)
	}
	return false, nil
}

// header is the head of a frame.
type header struct {
	first byte
	size  int
	key   [4]byte
}

func (h header) String() string {
	return fmt.Sprintf("frame %#02x of %d bytes", h.first, h.size)
}

// unmask takes the mask off bytes that begin at a multiple of its length.
func (h header) unmask(b []byte) {
	if h.key == [4]byte{} {
		return
	}
	k := be.LittleEndian.Uint32(h.key[:])
	wide := uint64(k)<<32 | uint64(k)
	for ; len(b) >= 8; b = b[8:] {
		be.LittleEndian.PutUint64(b, be.LittleEndian.Uint64(b)^wide)
	}
	for i := range b {
		b[i] ^= h.key[i%4]
	}
}

// frame returns the head of the next frame that answers no ping.
func (p *peer) frame() (header, error) {
	for {
		h, pong, err := p.next()
		if err != nil || !pong {
			return h, err
		}
	}
}

// next returns the head of the next frame. Where that answers a ping, which has to be
// the next of mine, it is read whole.
func (p *peer) next() (h header, pong bool, err error) {
	var b [8]byte
	if _, err := io.ReadFull(p.in, b[:2]); err != nil {
		return h, false, err
	}
	h.first, h.size = b[0], int(b[1]&^masked)
	if client := b[1]&masked != 0; client == p.client {
		return h, false, fmt.Errorf("%v is masked: %v, want %v", h, client, !client)
	}
	if long := map[int]int{126: 2, 127: 8}[h.size]; long > 0 {
		clear(b[:])
		if _, err := io.ReadFull(p.in, b[8-long:]); err != nil {
			return h, false, err
		}
		h.size = int(be.BigEndian.Uint64(b[:]))
	}
	if !p.client {
		if _, err := io.ReadFull(p.in, h.key[:]); err != nil {
			return h, false, err
		}
	}
	if h.first != final|opPong {
		return h, false, nil
	}
	n, err := p.number(h)
	if err != nil {
		return h, true, err
	}
	p.answered++
	if n&^lastPing != p.answered {
		return h, true, fmt.Errorf("answer to ping %#x, want to %d", n, p.answered)
	}
	p.answered |= n & lastPing
	p.counts.pings.Add(1)
	return h, true, nil
}

// number returns the number of a ping or its answer.
func (p *peer) number(h header) (uint64, error) {
	payload, err := p.short(h)
	if err == nil && len(payload) != 8 {
		err = fmt.Errorf("%v %q, want a number in 8 bytes", h, payload)
	}
	if err != nil {
		return 0, err
	}
	return be.BigEndian.Uint64(payload), nil
}

// short returns a short payload.
func (p *peer) short(h header) ([]byte, error) {
	if h.size > 125 {
		return nil, fmt.Errorf("%v, want a short one", h)
	}
	b := make([]byte, h.size)
	_, err := io.ReadFull(p.in, b)
	h.unmask(b)
	return b, err
}
