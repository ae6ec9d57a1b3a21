package h2

import (
	"net/netip"

	"fairlead/internal/loop"
)

// Client is the client's side of one connection.
type Client struct {
	c    conn
	task loop.Task
}

// NewClient begins HTTP/2 on a connection to a server, and starts the task that
// reads it. The caller, a task of the driver, does not use nc any more.
func NewClient(d loop.Driver, nc loop.Conn, cfg *Config) *Client {
	k := &Client{}
	c := &k.c
	c.start(d, nc, cfg)
	c.greet()
	k.task = d.Spawn(func() { _ = c.run(nil) }) // the reason stays in c.err
	return k
}

// Open returns a stream for a request, for which its Close is to be called once.
// It returns ErrBusy if the server takes no more now and ErrClosed if it takes
// none any more; nothing has been sent then.
func (k *Client) Open() (*Stream, error) {
	k.c.mu.Lock()
	defer k.c.unlock()
	return k.c.openStream()
}

func (c *conn) openStream() (*Stream, error) {
	if err := c.usable(); err != nil {
		return nil, err
	}
	s := c.newStream(0)
	s.open = true
	c.live++
	c.rested = false
	return s, nil
}

// usable reports why no stream can be opened.
func (c *conn) usable() error {
	switch {
	case c.gone() || int64(c.nextID)+2*int64(c.live) > maxStreamID:
		return ErrClosed
	case c.live >= int(min(c.peerStreams, maxWindow)) || c.out != nil && len(c.out.b) > headBound:
		return ErrBusy
	}
	return nil
}

// gone reports whether no request can be made any more.
func (c *conn) gone() bool {
	return c.err != nil || c.closing || c.peerGone || c.drain != drainNone
}

// Usable reports whether Open would return a stream.
func (k *Client) Usable() bool {
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	return k.c.usable() == nil
}

// Alive reports whether the connection takes further requests, now or later.
func (k *Client) Alive() bool {
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	return !k.c.gone()
}

// Streams returns how many streams are open.
func (k *Client) Streams() int {
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	return k.c.live
}

// Err returns what ended the connection, nil while it lives.
func (k *Client) Err() error {
	k.c.mu.Lock()
	defer k.c.mu.Unlock()
	return k.c.err
}

// Close ends the connection in order once the open streams have ended. No new
// ones are opened.
func (k *Client) Close() {
	c := &k.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drain == drainNone {
		c.drain = drainRefused
		c.wakeReader()
	}
}

// Abort ends the connection with a reset.
func (k *Client) Abort() { k.c.nc.Abort() }

// Wait waits until the connection has ended.
func (k *Client) Wait() { k.task.Wait() }

// Send sends the request's head, of which it takes the pseudo-header fields and
// the lines. end says that neither body nor trailers follow. Extended CONNECT,
// where h.Protocol is not nil, waits for the server's SETTINGS, until the read
// deadline; h may be borrowed none the less.
func (s *Stream) Send(h *Head, end bool) error {
	s.c.mu.Lock()
	defer s.c.unlock()
	return s.send(h, end)
}

func (s *Stream) send(h *Head, end bool) error {
	c := s.c
	if h.Protocol != nil && !c.peerSettings && c.err == nil {
		h = cloneHead(h)
		if err := s.waitSettings(); err != nil {
			return err
		}
	}
	switch {
	case s.sentHead:
		return errHeadTwice
	case c.gone():
		return notProcessed{ErrClosed}
	case h.Protocol != nil && !c.peerConnect:
		return ErrNoExtendedConnect
	}
	if err := s.writable(); err != nil {
		return err
	}
	s.id = c.nextID
	c.nextID += 2
	c.streams[s.id] = s
	s.sendWindow = c.peerWindow
	s.mark = c.queued
	s.noBody = string(h.Method) == "HEAD"

	at := c.beginBlock()
	c.enc.field(":method", h.Method)
	if h.Protocol != nil {
		c.enc.field(":protocol", h.Protocol)
	}
	if h.Scheme != nil {
		c.enc.field(":scheme", h.Scheme)
	}
	if h.Authority != nil {
		c.enc.field(":authority", h.Authority)
	}
	if h.Path != nil {
		c.enc.field(":path", h.Path)
	}
	c.enc.lines(h.Lines)
	c.endBlock(at, s.id, end)
	s.sentHead, s.sentEnd = true, end
	c.kick()
	return nil
}

// clone returns a head that borrows nothing.
func cloneHead(h *Head) *Head {
	keep := func(b []byte) []byte {
		if b == nil {
			return nil
		}
		return append([]byte{}, b...)
	}
	return &Head{Method: keep(h.Method), Scheme: keep(h.Scheme), Authority: keep(h.Authority),
		Path: keep(h.Path), Protocol: keep(h.Protocol), Lines: keep(h.Lines)}
}

// waitSettings waits until the server has said what it takes.
func (s *Stream) waitSettings() error {
	c := s.c
	for !c.peerSettings && c.err == nil {
		if s.cause != nil {
			return s.cause
		}
		c.settingsWait = append(c.settingsWait, s.readBell)
		if err := s.waitRead(); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the use of a client's stream. One that has not ended in both
// directions is reset with CANCEL.
func (s *Stream) Close() {
	s.c.mu.Lock()
	defer s.c.unlock()
	s.close()
}

func (s *Stream) close() {
	if !s.open {
		return
	}
	s.open = false
	if s.id != 0 && (!s.recvEnd || !s.sentEnd) {
		s.reset(&StreamError{Code: CodeCancel})
	}
	s.c.forget(s)
}

// Remote returns the address of the server.
func (k *Client) Remote() netip.AddrPort { return k.c.nc.Remote() }
