package lab

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// How a connection was found at the end of [Raw].
const (
	Closed = "closed" // by the other end, in order
	Open   = "open"   // still, at the deadline
	Reset  = "reset"
)

// Reply is what came back over a raw connection.
type Reply struct {
	Text string
	End  string // Closed, Open or Reset
}

// Status returns the code of the first status line, "" when there is none.
func (r Reply) Status() string {
	rest, ok := strings.CutPrefix(r.Text, "HTTP/1.1 ")
	if !ok || len(rest) < 3 {
		return ""
	}
	return rest[:3]
}

// Body returns what stands behind the first blank line.
func (r Reply) Body() string {
	_, body, _ := strings.Cut(r.Text, "\r\n\r\n")
	return body
}

// Within is a piece for [Raw]: how long to wait for the end of what comes
// back, instead of 10 s for its beginning and 2 s more for its end.
type Within time.Duration

// Raw connects, sends the pieces (a string is sent, a time.Duration waited
// for), and returns all that comes back until the other end closes or the
// deadline has passed.
func Raw(t testing.TB, addr string, pieces ...any) Reply {
	t.Helper()
	return Dial(t, addr).Raw(pieces...)
}

// Client is a connection to a listener, for bytes that no HTTP client would
// send.
type Client struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

// Dial connects to addr. The connection closes with the test.
func Dial(t testing.TB, addr string) *Client {
	t.Helper()
	nc, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, nc)
}

// DialTLS connects to addr with TLS.
func DialTLS(t testing.TB, addr string, cfg *tls.Config) *Client {
	t.Helper()
	nc, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, nc)
}

func newClient(t testing.TB, nc net.Conn) *Client {
	t.Cleanup(func() { nc.Close() })
	return &Client{nc, t, bufio.NewReader(nc)}
}

// Send writes s. What is not taken any more is no error: that shows in what
// comes back.
func (c *Client) Send(s string) {
	c.SetWriteDeadline(time.Now().Add(10 * time.Second))
	io.WriteString(c.Conn, s)
}

// Raw is [Raw] over this connection.
func (c *Client) Raw(pieces ...any) Reply {
	c.t.Helper()
	within, first := 2*time.Second, 10*time.Second // a loaded machine is slow to answer
	for _, p := range pieces {
		switch p := p.(type) {
		case string:
			c.Send(p)
		case time.Duration:
			time.Sleep(p)
		case Within:
			within, first = time.Duration(p), 0
		default:
			c.t.Fatalf("piece of type %T: want string, time.Duration or Within", p)
		}
	}
	if first > 0 {
		c.SetReadDeadline(time.Now().Add(first))
		_, _ = c.r.Peek(1)
	}
	c.SetReadDeadline(time.Now().Add(within))
	b, err := io.ReadAll(c.r)
	switch {
	case err == nil:
		return Reply{string(b), Closed}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return Reply{string(b), Open}
	default:
		return Reply{string(b), Reset}
	}
}

// Response is an answer that was read whole.
type Response struct {
	*http.Response
	Text string // the body
}

// Response reads the answer to a request of the method given, interim ones too.
func (c *Client) Response(method string) Response {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	res, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		c.t.Fatalf("answer: %v", err)
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatalf("body of the answer: %v after %d bytes", err, len(b))
	}
	return Response{res, string(b)}
}

// Line reads one line, without its end.
func (c *Client) Line() string {
	c.t.Helper()
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	s, err := c.r.ReadString('\n')
	if err != nil {
		c.t.Fatalf("line: %v after %q", err, s)
	}
	return strings.TrimRight(s, "\r\n")
}

// Ended reports how the connection is within d, reading away what comes.
func (c *Client) Ended(d time.Duration) string {
	c.t.Helper()
	return c.Raw(Within(d)).End
}
