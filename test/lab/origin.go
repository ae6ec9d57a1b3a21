package lab

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Origin is an endpoint that answers by hand and notes every byte that it
// receives.
type Origin struct {
	// Addr is its host:port.
	Addr string

	ln    net.Listener
	mu    sync.Mutex // guards conns, and what is noted in each
	conns []*OriginConn
	wg    sync.WaitGroup
}

// OriginConn is one connection to an Origin.
type OriginConn struct {
	net.Conn
	// Number counts the origin's connections from 1.
	Number int

	o     *Origin
	unhad []byte // read behind a head
	noted bytes.Buffer
	ended error // how reading ended
}

// NewOrigin starts an endpoint that runs serve for each connection and closes
// it afterwards.
func NewOrigin(t testing.TB, serve func(c *OriginConn)) *Origin {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return NewOriginOn(t, ln, serve)
}

// NewOriginOn is [NewOrigin] on a listener of the caller's, of TLS for one.
func NewOriginOn(t testing.TB, ln net.Listener, serve func(c *OriginConn)) *Origin {
	o := &Origin{Addr: ln.Addr().String(), ln: ln}
	o.wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			o.mu.Lock()
			c := &OriginConn{Conn: nc, o: o, Number: len(o.conns) + 1}
			o.conns = append(o.conns, c)
			o.mu.Unlock()
			o.wg.Go(func() {
				defer nc.Close()
				serve(c)
			})
		}
	})
	t.Cleanup(o.Close)
	return o
}

// Close closes the origin and all its connections. The test's end does the
// same.
func (o *Origin) Close() {
	o.ln.Close()
	o.mu.Lock()
	for _, c := range o.conns {
		c.Conn.Close()
	}
	o.mu.Unlock()
	o.wg.Wait()
}

// Answer answers each request head with the same bytes and lets bodies pass,
// until the client closes.
func Answer(answer string) func(c *OriginConn) {
	return func(c *OriginConn) {
		for {
			if _, err := c.Head(); err != nil {
				return
			}
			if c.Say(answer) != nil {
				return
			}
		}
	}
}

// OK is an answer to use with [Answer].
const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// Read reads what was not read as a head, and notes it.
func (c *OriginConn) Read(b []byte) (int, error) {
	if len(c.unhad) > 0 {
		n := copy(b, c.unhad)
		c.unhad = c.unhad[n:]
		return n, nil
	}
	n, err := c.Conn.Read(b)
	c.o.mu.Lock()
	defer c.o.mu.Unlock()
	c.noted.Write(b[:n])
	if err != nil && c.ended == nil {
		c.ended = err
	}
	return n, err
}

// Head reads up to the next blank line and returns what stands before it, line
// ends included.
func (c *OriginConn) Head() (string, error) {
	var head []byte
	b := make([]byte, 32<<10)
	for {
		n, err := c.Read(b)
		head = append(head, b[:n]...)
		if end := bytes.Index(head, []byte("\r\n\r\n")); end >= 0 {
			c.unhad = append(bytes.Clone(head[end+4:]), c.unhad...)
			return string(head[:end+2]), nil
		}
		if err != nil {
			return "", err
		}
	}
}

// Say writes s.
func (c *OriginConn) Say(s string) error {
	_, err := io.WriteString(c.Conn, s)
	return err
}

// AwaitEnd reads until the other end closes.
func (c *OriginConn) AwaitEnd() { io.Copy(io.Discard, c) }

// Connections returns how many connections were accepted.
func (o *Origin) Connections() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.conns)
}

// Open returns how many connections have not been seen to end.
func (o *Origin) Open() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.conns {
		if c.ended == nil {
			n++
		}
	}
	return n
}

// Resets returns how many connections ended by a reset.
func (o *Origin) Resets() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range o.conns {
		if errors.Is(c.ended, syscall.ECONNRESET) {
			n++
		}
	}
	return n
}

// Log returns what was received over each connection.
func (o *Origin) Log() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var all []string
	for _, c := range o.conns {
		all = append(all, c.noted.String())
	}
	return all
}

// Received returns what was received over all connections.
func (o *Origin) Received() string { return strings.Join(o.Log(), "") }

// Serve runs an ordinary HTTP server on a port of the loopback and returns its
// address.
func Serve(t testing.TB, h http.Handler) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// Endpoint is an ordinary HTTP endpoint that answers with its name.
type Endpoint struct {
	Name, Addr string
	server     *httptest.Server
	requests   atomic.Int64
}

// NewEndpoint starts an endpoint.
func NewEndpoint(t testing.TB, name string) *Endpoint {
	e := &Endpoint{Name: name}
	e.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.requests.Add(1)
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, name)
	}))
	e.Addr = e.server.Listener.Addr().String()
	t.Cleanup(e.Stop)
	return e
}

// Requests returns how many requests were answered.
func (e *Endpoint) Requests() int64 { return e.requests.Load() }

// Stop closes the endpoint and its connections: the port refuses from then on.
func (e *Endpoint) Stop() {
	e.server.CloseClientConnections()
	e.server.Close()
}

// Refusing returns an address that refuses connections, and keeps it so: the
// port is taken, and nobody listens.
func Refusing(t testing.TB) string {
	t.Helper()
	fd, addr := bound(t)
	t.Cleanup(func() { syscall.Close(fd) })
	return addr
}

// Blackhole returns an address at which connecting neither succeeds nor fails:
// somebody listens there, accepts nothing, and the queue is full.
func Blackhole(t testing.TB) string {
	t.Helper()
	fd, addr := bound(t)
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for range 16 {
		c, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the queue of a listener with backlog 0 does not fill")
	return ""
}

// bound returns a socket with an address of the loopback.
func bound(t testing.TB) (fd int, addr string) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	a := net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: sa.(*syscall.SockaddrInet4).Port}
	return fd, a.String()
}

// Echo answers each request with the request as it was received, bytes of the
// head and of the body's framing included. It understands lengths and chunks
// as they are written by careful senders only.
func Echo(c *OriginConn) {
	for {
		head, err := c.Head()
		if err != nil {
			return
		}
		raw := head + "\r\n"
		body, err := c.Body(head)
		if err != nil {
			return
		}
		raw += body
		if c.Say("HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(len(raw))+"\r\n\r\n") != nil {
			return
		}
		if !strings.HasPrefix(head, "HEAD ") && c.Say(raw) != nil {
			return
		}
	}
}

// Body reads the body that a head announces and returns its bytes as they came,
// chunk framing included.
func (c *OriginConn) Body(head string) (string, error) {
	if n, err := strconv.Atoi(Field(head, "Content-Length")); err == nil {
		b := make([]byte, n)
		_, err := io.ReadFull(c, b)
		return string(b), err
	}
	if Field(head, "Transfer-Encoding") != "chunked" {
		return "", nil
	}
	var raw strings.Builder
	for {
		line, err := c.line()
		raw.WriteString(line)
		if err != nil {
			return raw.String(), err
		}
		size, _, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ";")
		n, err := strconv.ParseInt(size, 16, 32)
		if err != nil {
			return raw.String(), err
		}
		if n == 0 {
			for line != "\r\n" {
				if line, err = c.line(); err != nil {
					return raw.String(), err
				}
				raw.WriteString(line)
			}
			return raw.String(), nil
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(c, b); err != nil {
			return raw.String(), err
		}
		raw.Write(b)
	}
}

func (c *OriginConn) line() (string, error) {
	var line []byte
	for b := make([]byte, 1); ; {
		n, err := c.Read(b)
		if line = append(line, b[:n]...); n == 1 && b[0] == '\n' {
			return string(line), nil
		}
		if err != nil {
			return string(line), err
		}
	}
}

// Field returns the value of the first field line of that name in a head, ""
// where there is none.
func Field(head, name string) string {
	v := Fields(head, name)
	if len(v) == 0 {
		return ""
	}
	return v[0]
}

// Fields returns the values of all field lines of that name in a head.
func Fields(head, name string) (values []string) {
	head, _, _ = strings.Cut(head, "\r\n\r\n")
	for line := range strings.SplitSeq(head, "\r\n") {
		if n, v, ok := strings.Cut(line, ":"); ok && strings.EqualFold(n, name) {
			values = append(values, strings.TrimSpace(v))
		}
	}
	return values
}
