package loadtest

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const host = "www.example.com"

// dialer makes connections to a listener.
type dialer func() (net.Conn, error)

func plain(addr string) dialer {
	return func() (net.Conn, error) { return net.DialTimeout("tcp", addr, 10*time.Second) }
}

func secure(addr string, cfg *tls.Config) dialer {
	return func() (net.Conn, error) {
		return tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", addr, cfg)
	}
}

// client is one keep-alive connection that hides nothing: unlike the standard
// library's client it never sends a request twice.
type client struct {
	dial dialer
	c    net.Conn
	r    *bufio.Reader
	used bool // a request went well over c
}

// errBeforeRequest marks failures to connect.
var errConnect = errors.New("connect")

// do sends a request with a short body and returns the answer, read whole.
func (c *client) do(method, path, body string) (*http.Response, string, error) {
	if c.c == nil {
		nc, err := c.dial()
		if err != nil {
			return nil, "", fmt.Errorf("%w: %w", errConnect, err)
		}
		c.c, c.r, c.used = nc, bufio.NewReader(nc), false
	}
	res, text, err := c.exchange(method, path, body)
	if err != nil || res.Close {
		c.close()
	}
	c.used = true
	return res, text, err
}

func (c *client) exchange(method, path, body string) (*http.Response, string, error) {
	c.c.SetDeadline(time.Now().Add(20 * time.Second))
	head := method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\n"
	if body != "" || method == "POST" || method == "PUT" {
		head += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	if _, err := io.WriteString(c.c, head+"\r\n"+body); err != nil {
		return nil, "", err
	}
	res, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		return nil, "", err
	}
	b, err := io.ReadAll(res.Body)
	return res, string(b), err
}

func (c *client) close() {
	if c.c != nil {
		c.c.Close()
		c.c = nil
	}
}

// load is clients at work.
type load struct {
	t    testing.TB
	name string
	end  chan struct{}
	wg   sync.WaitGroup

	done   atomic.Int64 // requests that went well
	failed atomic.Int64
	mu     sync.Mutex
	errs   map[string]int // first failures, by text
}

// work is one request of a client; an error counts as a failure.
type work func(c *client, i int) error

// startLoad has n clients repeat a request, with a pause after each, until the
// load is stopped.
func startLoad(t testing.TB, name string, n int, dial dialer, pause time.Duration, w work) *load {
	l := &load{t: t, name: name, end: make(chan struct{}), errs: make(map[string]int)}
	for k := range n {
		l.wg.Go(func() {
			c := &client{dial: dial}
			defer c.close()
			for i := k; ; i++ {
				select {
				case <-l.end:
					return
				default:
				}
				if pause > 0 {
					select {
					case <-l.end:
						return
					case <-time.After(pause):
					}
				}
				if err := w(c, i); err != nil {
					l.fail(err)
				} else {
					l.done.Add(1)
				}
			}
		})
	}
	t.Cleanup(func() { l.stop() })
	return l
}

func (l *load) fail(err error) {
	l.failed.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if text := err.Error(); len(l.errs) < 20 || l.errs[text] > 0 {
		l.errs[text]++
	}
}

// stop ends the load and returns how many requests went well and failed.
func (l *load) stop() (done, failed int64) {
	select {
	case <-l.end:
	default:
		close(l.end)
	}
	l.wg.Wait()
	return l.done.Load(), l.failed.Load()
}

// wantNoFailure stops the load and fails the test if a request failed.
func (l *load) wantNoFailure() {
	l.t.Helper()
	done, failed := l.stop()
	l.t.Logf("%s: %d requests", l.name, done)
	if failed > 0 {
		l.t.Errorf("%s: %d of %d requests failed: %v", l.name, failed, done+failed, l.errs)
	}
	if done == 0 {
		l.t.Errorf("%s: no request was made", l.name)
	}
}

// expect is work: a request whose answer is 200.
func expect(method, path, body string) work {
	return func(c *client, _ int) error {
		res, text, err := c.do(method, path, body)
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		if res.StatusCode != 200 {
			return fmt.Errorf("%s: %w: %d %q", method, errStatus, res.StatusCode, text)
		}
		return nil
	}
}

// mixed alternates GET and PUT.
func mixed(c *client, i int) error {
	if i%2 == 0 {
		return expect("GET", "/", "")(c, i)
	}
	return expect("PUT", "/", "body")(c, i)
}
