//go:build linux

package loadtest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"fairlead/test/lab"
)

// Failures of a request that an endpoint's death explains. Any other is a fault
// of the node.
var (
	errPage = errors.New("page of an error with the endpoint")
	errCut  = errors.New("cut off")
)

// explained tells which failures happened while an endpoint was killed, and
// counts them.
type explained struct {
	mu    sync.Mutex // guards what follows
	dead  bool
	until time.Time // of the last one's being in order again
	kinds map[string]int
}

// afterwards is how long a restarted endpoint may still be the reason of a
// failure: connections to its former life are found out one by one.
const afterwards = 2 * time.Second

func (e *explained) killed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dead = true
}

func (e *explained) restored() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dead, e.until = false, time.Now().Add(afterwards)
}

// judge returns the error of a request that began then, if no kill explains it.
func (e *explained) judge(began time.Time, err error) error {
	kind := "page"
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errCut):
		kind = "cut"
	case !errors.Is(err, errPage):
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.dead && began.After(e.until) {
		return fmt.Errorf("no endpoint was killed: %w", err)
	}
	if e.kinds == nil {
		e.kinds = make(map[string]int)
	}
	e.kinds[kind]++
	return nil
}

func (e *explained) counts() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.kinds)
}

func (e *explained) total() (n int) {
	for _, v := range e.counts() {
		n += v
	}
	return n
}

// mix is a load of everything that clients do.
type mix struct {
	web, secure string // addresses of listeners
	ca          *lab.CA
	seed        uint64
	clients     int // of the load that was started last
	explained   explained

	next atomic.Uint64 // numbers the requests
}

// start starts the load. What it returns stops it and fails the test if a
// request failed for any reason but a killed endpoint.
func (m *mix) start(t testing.TB) (stop func()) {
	web, secure := plain(m.web), secure(m.secure, m.ca.Client(host, "http/1.1"))
	var loads []*load
	m.clients = 0
	add := func(name string, n int, dial dialer, pause time.Duration, w func(c *client, rnd *rand.Rand) error) {
		m.clients += n
		loads = append(loads, startLoad(t, name, n, dial, pause, func(c *client, _ int) error {
			rnd := rand.New(rand.NewPCG(m.seed, m.next.Add(1)))
			began := time.Now()
			return m.explained.judge(began, w(c, rnd))
		}))
	}
	h1 := func(size int64) func(*client, *rand.Rand) error {
		return func(c *client, rnd *rand.Rand) error { return exchange(c, "http", rnd, size) }
	}
	once := func(w func(*client, *rand.Rand) error) func(*client, *rand.Rand) error {
		return func(c *client, rnd *rand.Rand) error {
			defer c.close()
			return w(c, rnd)
		}
	}
	const small, large = 2000, 1 << 20
	add("small", 8, web, time.Millisecond, h1(small))
	add("small, new connections", 2, web, 5*time.Millisecond, once(h1(small)))
	add("small over TLS", 4, secure, 2*time.Millisecond, h1(small))
	add("small, new connections over TLS", 1, secure, 20*time.Millisecond, once(h1(small)))
	add("large", 3, web, 20*time.Millisecond, h1(large))
	add("large over TLS", 2, secure, 20*time.Millisecond, h1(large))

	transport := &http2.Transport{DialTLSContext: func(ctx context.Context, _, _ string, _ *tls.Config) (net.Conn, error) {
		return (&tls.Dialer{Config: m.ca.Client(host, "h2")}).DialContext(ctx, "tcp", m.secure)
	}}
	h2 := func(size int64) func(*client, *rand.Rand) error {
		return func(_ *client, rnd *rand.Rand) error { return exchange(transport, "https", rnd, size) }
	}
	add("small over HTTP/2", 8, nil, 2*time.Millisecond, h2(small))
	add("large over HTTP/2", 2, nil, 20*time.Millisecond, h2(large))

	add("slow", 2, narrow(web), 0, once(slow))
	add("slow over TLS", 1, narrow(secure), 0, once(slow))
	add("upgraded", 3, web, 10*time.Millisecond, once(upgraded))
	add("upgraded over TLS", 1, secure, 10*time.Millisecond, once(upgraded))
	add("vanishing", 2, web, 5*time.Millisecond, once(vanish))
	add("vanishing over TLS", 1, secure, 20*time.Millisecond, once(vanish))
	add("vanishing over HTTP/2", 1, nil, 20*time.Millisecond, func(_ *client, rnd *rand.Rand) error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rnd.IntN(30_000))*time.Microsecond)
		defer cancel()
		_ = get(ctx, transport, "https", rnd.Int64N(1<<20), 8<<20, 0)
		return nil
	})
	return func() {
		var stopped sync.WaitGroup
		for _, l := range loads {
			stopped.Go(func() { l.stop() })
		}
		stopped.Wait()
		for _, l := range loads {
			l.wantNoFailure()
		}
		transport.CloseIdleConnections()
	}
}

// narrow has connections receive little at a time, so that a client that does
// not read is noticed.
func narrow(dial dialer) dialer {
	return func() (net.Conn, error) {
		c, err := dial()
		if err == nil {
			err = tcp(c).SetReadBuffer(64 << 10)
		}
		return c, err
	}
}

// tcp returns what a connection runs over.
func tcp(c net.Conn) *net.TCPConn {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	return c.(*net.TCPConn)
}

// exchange downloads or uploads up to so many bytes, with their length told or
// in chunks.
func exchange(rt http.RoundTripper, scheme string, rnd *rand.Rand, most int64) error {
	seed, size := rnd.Int64N(1<<20), 1+rnd.Int64N(most)
	if rnd.IntN(3) == 0 {
		return put(rt, scheme, seed, size, rnd.IntN(2) == 0)
	}
	return get(context.Background(), rt, scheme, seed, size, rnd.IntN(2))
}

// slow downloads with pauses.
func slow(c *client, rnd *rand.Rand) error {
	req, err := http.NewRequest("GET", download("http", 7, 1<<20, rnd.IntN(2)), nil)
	if err != nil {
		return err
	}
	res, err := answer(c.RoundTrip(req))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return verify(res.Body, 7, 1<<20, time.Duration(5+rnd.IntN(20))*time.Millisecond)
}

func download(scheme string, seed, size int64, chunked int) string {
	url := fmt.Sprintf("%s://%s/download?seed=%d&size=%d", scheme, host, seed, size)
	if chunked > 0 {
		url += "&chunked=1"
	}
	return url
}

func get(ctx context.Context, rt http.RoundTripper, scheme string, seed, size int64, chunked int) error {
	req, err := http.NewRequestWithContext(ctx, "GET", download(scheme, seed, size, chunked), nil)
	if err != nil {
		return err
	}
	res, err := answer(rt.RoundTrip(req))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return verify(res.Body, seed, size, 0)
}

func put(rt http.RoundTripper, scheme string, seed, size int64, chunked bool) error {
	req, err := http.NewRequest("PUT", fmt.Sprintf("%s://%s/upload", scheme, host), struct{ io.Reader }{&pattern{at: seed, left: size}})
	if err != nil {
		return err
	}
	if !chunked {
		req.ContentLength = size
	}
	res, err := rt.RoundTrip(req)
	if err != nil && !errors.Is(err, errConnect) {
		// The node stops reading when the endpoint is gone.
		return fmt.Errorf("PUT: %w: %w", errCut, err)
	}
	if res, err = answer(res, err); err != nil {
		return err
	}
	defer res.Body.Close()
	got, err := io.ReadAll(io.LimitReader(res.Body, 1000))
	if err != nil {
		return fmt.Errorf("PUT: %w: %w", errCut, err)
	}
	if want := digestFrom(seed, size); string(got) != want {
		return fmt.Errorf("PUT: endpoint received %q, want %q", got, want)
	}
	return nil
}

// answer judges the status of an answer, and closes what is not wanted.
func answer(res *http.Response, err error) (*http.Response, error) {
	if err != nil || res.StatusCode == http.StatusOK {
		return res, err
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1000))
	if res.StatusCode >= 520 && res.StatusCode <= 524 {
		return nil, fmt.Errorf("%w: %d %q", errPage, res.StatusCode, text)
	}
	return nil, fmt.Errorf("%w: %d %q", errStatus, res.StatusCode, text)
}

// verify reads a body to its end and compares it with the pattern, pausing
// after each piece.
func verify(body io.Reader, seed, size int64, pause time.Duration) error {
	want := pattern{at: seed, left: size}
	got, expected := make([]byte, 32<<10), make([]byte, 32<<10)
	for {
		n, err := body.Read(got)
		if k, _ := io.ReadFull(&want, expected[:n]); !bytes.Equal(got[:n], expected[:k]) {
			return fmt.Errorf("wrong bytes before byte %d of %d", want.at-seed, size)
		}
		switch {
		case err == io.EOF && want.left > 0:
			return fmt.Errorf("body of %d bytes ends in order after %d", size, size-want.left)
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("%w: after %d of %d bytes: %w", errCut, size-want.left, size, err)
		}
		time.Sleep(pause)
	}
}

// upgraded sends pieces over an upgraded connection and gets them back.
func upgraded(c *client, rnd *rand.Rand) error {
	req, err := http.NewRequest("GET", "http://"+host+"/echo", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Connection", "upgrade")
	req.Header.Set("Upgrade", "echo")
	res, err := c.RoundTrip(req)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		_, err := answer(res, nil)
		return err
	}
	at := rnd.Int64N(1 << 20)
	for range rnd.IntN(40) {
		n := 1 + rnd.Int64N(8<<10)
		if _, err := io.CopyN(c.c, &pattern{at: at, left: n}, n); err != nil {
			return fmt.Errorf("upgraded: %w: %w", errCut, err)
		}
		piece := io.LimitReader(c.r, n)
		if err := verify(piece, at, n, 0); err != nil {
			// A piece that is short is the connection's end.
			if !errors.Is(err, errCut) && piece.(*io.LimitedReader).N > 0 {
				err = fmt.Errorf("%w: %w", errCut, err)
			}
			return fmt.Errorf("upgraded: %w", err)
		}
		at += n
		time.Sleep(time.Duration(rnd.IntN(50)) * time.Millisecond)
	}
	if t, ok := c.c.(*net.TCPConn); ok && rnd.IntN(2) == 0 {
		// A half-close reaches the endpoint, whose end comes back.
		if err := t.CloseWrite(); err != nil {
			return fmt.Errorf("upgraded: %w: %w", errCut, err)
		}
		if rest, err := io.ReadAll(c.r); len(rest) > 0 {
			return fmt.Errorf("upgraded: %q behind the end", rest)
		} else if err != nil {
			return fmt.Errorf("upgraded: end: %w: %w", errCut, err)
		}
	}
	return nil
}

// vanish begins something and leaves, in order or by a reset.
func vanish(c *client, rnd *rand.Rand) error {
	nc, err := c.dial()
	if err != nil {
		return fmt.Errorf("%w: %w", errConnect, err)
	}
	defer nc.Close()
	if rnd.IntN(2) == 0 {
		tcp(nc).SetLinger(0)
	}
	nc.SetDeadline(time.Now().Add(10 * time.Second))
	// What comes of it is of no interest: only that others notice nothing, and
	// that nothing is left of it.
	switch rnd.IntN(5) {
	case 0:
	case 1:
		head := "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
		io.WriteString(nc, head[:1+rnd.IntN(len(head)-1)])
	case 2:
		fmt.Fprintf(nc, "PUT /upload HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000000\r\n\r\n", host)
		io.Copy(nc, &pattern{left: rnd.Int64N(500_000)})
	case 3:
		fmt.Fprintf(nc, "GET /download?size=8000000 HTTP/1.1\r\nHost: %s\r\n\r\n", host)
		io.CopyN(io.Discard, nc, rnd.Int64N(2_000_000))
	case 4:
		fmt.Fprintf(nc, "GET /echo HTTP/1.1\r\nHost: %s\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\nhello", host)
		io.CopyN(io.Discard, nc, 1+rnd.Int64N(70)) // not more than comes
	}
	return nil
}

// RoundTrip makes the client a transport, for one request at a time.
func (c *client) RoundTrip(req *http.Request) (*http.Response, error) {
	if c.c == nil {
		nc, err := c.dial()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errConnect, err)
		}
		c.c, c.r = nc, bufio.NewReaderSize(nc, 16<<10)
	}
	c.c.SetDeadline(time.Now().Add(60 * time.Second))
	// An answer may come although not all of the request was taken.
	writeErr := req.Write(c.c)
	res, err := http.ReadResponse(c.r, req)
	if err != nil {
		c.close()
		return nil, errors.Join(err, writeErr)
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		res.Body = &clientBody{ReadCloser: res.Body, c: c, last: writeErr != nil || res.Close}
	}
	return res, nil
}

// clientBody ends the connection with an answer that is the last one, or was
// not read to its end.
type clientBody struct {
	io.ReadCloser
	c    *client
	last bool
	done bool
}

func (b *clientBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.done = b.done || err == io.EOF
	return n, err
}

func (b *clientBody) Close() error {
	if b.last || !b.done {
		b.c.close() // first: closing the body would read the rest
	}
	return b.ReadCloser.Close()
}

// The checks find what they are for.
func TestVerify(t *testing.T) {
	whole, err := io.ReadAll(&pattern{at: 5, left: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	cut := io.MultiReader(bytes.NewReader(whole[:50_000]), iotest.ErrReader(io.ErrUnexpectedEOF))
	wrong := bytes.Clone(whole)
	wrong[70_000]++
	for _, test := range []struct {
		name string
		body io.Reader
		want string // part of the error; empty: none
	}{
		{"whole", bytes.NewReader(whole), ""},
		{"whole, byte by byte", iotest.OneByteReader(bytes.NewReader(whole)), ""},
		{"one byte wrong", bytes.NewReader(wrong), "wrong bytes"},
		{"from elsewhere", bytes.NewReader(whole[1:]), "wrong bytes"},
		{"short", bytes.NewReader(whole[:99_999]), "ends in order after 99999"},
		{"long", io.MultiReader(bytes.NewReader(whole), strings.NewReader("x")), "wrong bytes"},
		{"cut", cut, errCut.Error()},
	} {
		err := verify(test.body, 5, 100_000, 0)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: verify = %v, want %q", test.name, err, test.want)
		}
		if errors.Is(err, errCut) != (test.name == "cut") {
			t.Errorf("%s: a kill would explain %v", test.name, err)
		}
	}
}

func TestExplained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e explained
		judge := func(when string, began time.Time, err error, fine bool) {
			t.Helper()
			if got := e.judge(began, err); (got == nil) != fine {
				t.Errorf("%s: judge(%v) = %v", when, err, got)
			}
		}
		wrong := errors.New("wrong bytes")
		judge("before a kill", time.Now(), errCut, false)
		judge("before a kill", time.Now(), nil, true)
		e.killed()
		judge("after a kill", time.Now(), errCut, true)
		judge("after a kill", time.Now(), errPage, true)
		judge("after a kill", time.Now(), wrong, false)
		judge("after a kill", time.Now(), errConnect, false)
		e.restored()
		began := time.Now()
		time.Sleep(2 * afterwards)
		judge("long afterwards, begun in time", began, errCut, true)
		judge("long afterwards", time.Now(), errCut, false)
		if n := e.total(); n != 3 {
			t.Errorf("%d failures are explained, want 3: %v", n, e.counts())
		}
	})
}
