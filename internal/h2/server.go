package h2

import "fairlead/internal/loop"

// Server is the server's side of one connection.
type Server struct{ c conn }

// NewServer returns the server for a connection that is to speak HTTP/2 from its
// first byte on. handle is called for each request, in a task of its own. What it
// has not ended when it returns is reset: an answer that is not complete with
// INTERNAL_ERROR, a request that is still coming with NO_ERROR.
func NewServer(d loop.Driver, nc loop.Conn, cfg *Config, handle func(*Stream)) *Server {
	s := &Server{}
	c := &s.c
	c.server, c.handle = true, handle
	c.prefaceLeft = len(Preface)
	c.start(d, nc, cfg)
	return s
}

// OnFlood has f told why, once the connection ends because the client did too much of
// what brings nothing. f must not wait, nor use the server. It is set before Serve.
func (s *Server) OnFlood(f func(error)) { s.c.flooded = f }

// Serve serves the connection until it is over and all handlers have returned.
// already are bytes that were read from it before. The connection is closed. The
// error is nil if it was drained.
func (s *Server) Serve(already []byte) error {
	s.c.greet()
	return s.c.run(already)
}

// Drain ends the connection in order: the client is told to open no more
// streams, those that are open go on to their end.
func (s *Server) Drain() {
	c := &s.c
	c.mu.Lock()
	defer c.mu.Unlock() // never the first to append: that is not for strangers
	if c.drain == drainNone {
		c.drain = drainWanted
		c.wakeReader()
	}
}

// Abort ends the connection with a reset.
func (s *Server) Abort() { s.c.nc.Abort() }

// Streams returns how many requests are being served.
func (s *Server) Streams() int {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.c.live
}

// freshBatch bounds the requests of one connection that begin in one round of an
// event loop: each may connect to an endpoint, and hundreds of them would hold up
// everybody else's for some tens of milliseconds.
const freshBatch = 32

// spawnFresh starts the handlers of requests whose heads have come.
func (c *conn) spawnFresh() {
	started := 0
	for i, s := range c.fresh {
		c.fresh[i] = nil
		if s == nil {
			continue
		}
		if started++; started > freshBatch {
			started = 1
			c.d.Yield()
		}
		c.d.Start(s.run)
	}
	c.fresh = c.fresh[:0]
}

// bury forgets a request that was reset before its handler was started. It is
// done at once, so that the next one can have its place: who opens streams only
// to reset them does not even make us allocate.
func (c *conn) bury() {
	s := c.stillborn
	c.stillborn = nil
	c.fresh[s.fresh-1] = nil
	c.forget(s)
}

// readyFresh leaves in fresh what is to be started.
func (c *conn) readyFresh() {
	c.stillborn = nil
	for i, s := range c.fresh {
		switch {
		case s == nil:
		case s.err != nil:
			c.fresh[i] = nil
			c.forget(s)
		default:
			s.fresh = 0
		}
	}
}

// serve is the task of a request.
func (s *Stream) serve() {
	defer s.over()
	s.c.handle(s)
}

var (
	errUnanswered = &StreamError{Code: CodeInternal, Reason: "answer was not finished"}
	errUnread     = &StreamError{Code: CodeNo, Reason: "answered without the rest of the request"}
)

// over ends what the handler has left open.
func (s *Stream) over() {
	c := s.c
	c.mu.Lock()
	defer c.unlock()
	switch {
	case !s.sentEnd:
		s.reset(errUnanswered)
	case !s.recvEnd:
		s.reset(errUnread)
	}
	c.forget(s)
}
