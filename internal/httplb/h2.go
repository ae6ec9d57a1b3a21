package httplb

import (
	"time"

	"fairlead/internal/h2"
)

// pingTimeout is how long a client that has sent nothing for the body time-out
// may take to answer that it is there.
const pingTimeout = 15 * time.Second

// newH2Config makes the bounds of HTTP/2 connections from those of a listener.
func newH2Config(s *settings) *h2.Config {
	return &h2.Config{
		MaxStreams: uint32(s.ConcurrentStreams),
		// Fields are counted where heads are read, as those of HTTP/1.1 are.
		HeaderBytes: s.HeaderBytes, HeaderCount: s.HeaderBytes/32 + 1,
		HeaderTimeout: s.HeaderTimeout, IdleTimeout: s.IdleTimeout, WriteTimeout: s.BodyTimeout,
		PingAfter: s.BodyTimeout, PingTimeout: pingTimeout,
		ExtendedConnect: true,
		Count:           func(e h2.Event) { s.stats.countHTTP2(e) },
	}
}

// becomesHTTP2 reports whether a client speaks HTTP/2 without having agreed on
// it by TLS (RFC 9113 section 3.3). b is what has come; it waits for more until
// that is certain, and returns all of it.
func (k *client) becomesHTTP2(b []byte) (all []byte, yes bool, err error) {
	if !k.first || k.tls != nil {
		return b, false, nil
	}
	for {
		n := min(len(b), len(h2.Preface))
		if string(b[:n]) != h2.Preface[:n] || n == len(h2.Preface) {
			return b, n == len(h2.Preface) && string(b[:n]) == h2.Preface, nil
		}
		k.c.SetReadDeadline(k.deadline)
		if b, err = k.c.Read(b); err != nil {
			return nil, false, err
		}
	}
}

// h2conn is an HTTP/2 connection of a client, as a listener sees it.
type h2conn struct{ *h2.Server }

// interrupt does nothing: a connection that drains ends by itself.
func (c h2conn) interrupt() {}
func (c h2conn) abort()     { c.Abort() }

// serveHTTP2 serves a connection that speaks HTTP/2 from its first byte on, of
// which some may have been read.
func (k *client) serveHTTP2(set *settings, already []byte) {
	s := h2.NewServer(k.d, k.c, set.h2, k.stream)
	s.OnFlood(k.flooded)
	c := h2conn{s}
	k.ln.enter(c)
	defer k.ln.leave(c)
	if k.ln.draining.Load() {
		s.Drain()
	}
	if err := s.Serve(already); err != nil {
		k.ln.plane.aside.Debug("HTTP/2 connection", "listener", k.ln.name(), "client", k.peer.String(), "error", err)
	}
}

// stream serves one request of an HTTP/2 connection.
func (k *client) stream(st *h2.Stream) {
	defer k.ln.recovered() // the stream, which has not ended, is reset
	s := muxstreams.Get().(*muxstream)
	s.st, s.ln, s.set = st, k.ln, k.ln.set.Load()
	s.name, s.altSvc = "HTTP/2", s.set.altSvc
	s.x.attach(k)
	s.serve()
	s.close()
}
