package health

import (
	"fmt"
	"net"
	"sync"
)

// guardedConn bounds what is read of a connection, whatever the library above
// it does with what a peer announces, and remembers what ended it, which
// libraries tell as a text.
type guardedConn struct {
	net.Conn
	mu    sync.Mutex
	left  int // bytes that may be read
	limit int
	err   error
}

func guard(c net.Conn, limit int) *guardedConn {
	return &guardedConn{Conn: c, left: limit, limit: limit}
}

// Read implements net.Conn.
func (g *guardedConn) Read(b []byte) (int, error) {
	g.mu.Lock()
	left := g.left
	g.mu.Unlock()
	if left <= 0 && len(b) > 0 {
		return 0, g.end(fmt.Errorf("the endpoint says more than %d bytes", g.limit))
	}
	n, err := g.Conn.Read(b[:min(len(b), left)])
	g.mu.Lock()
	g.left -= n
	g.mu.Unlock()
	return n, g.end(err)
}

// Write implements net.Conn.
func (g *guardedConn) Write(b []byte) (int, error) {
	n, err := g.Conn.Write(b)
	return n, g.end(err)
}

// end notes what ended the connection, if it has ended and nothing did before.
func (g *guardedConn) end(err error) error {
	if err != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.err == nil {
			g.err = err
		}
	}
	return err
}

// ended returns what ended the connection, nil while it has not.
func (g *guardedConn) ended() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}
