package http_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"fairlead/test/lab"
)

// limited returns how often a limit of the listener held.
func (s server) limited(limit string) float64 {
	return s.Metric("fairlead_http_limited_total", "listener", "web", "limit", limit)
}

func (s server) awaitLimited(t *testing.T, limit string, times float64) {
	t.Helper()
	s.AwaitMetric(times, "fairlead_http_limited_total", "listener", "web", "limit", limit)
}

func TestHeaderLimits(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Answer(lab.OK))
	s := site{endpoints: []string{o.Addr}, listener: limits("header_bytes: 2048, header_count: 10")}.start(t)
	long := strings.Repeat("x", 2100)
	for _, c := range []struct {
		name, raw, status string
	}{
		{"within", get("/", "X: "+strings.Repeat("x", 1900)+"\r\n"), "200"},
		{"bytes", get("/", "X: "+long+"\r\n"), "431"},
		{"target", "GET /" + long + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n", "414"},
		{"count within", get("/", strings.Repeat("X: 1\r\n", 9)), "200"},
		{"count", get("/", strings.Repeat("X: 1\r\n", 10)), "431"},
	} {
		c1 := s.dial(t)
		c1.Send(c.raw)
		r := c1.Response("GET")
		equal(t, c.name+": status", strconv.Itoa(r.StatusCode), c.status)
		if c.status != "200" {
			equal(t, c.name+": end", c1.Ended(2*time.Second), lab.Closed)
		}
	}
	equal(t, "requests at the endpoint", strings.Count(o.Received(), "GET / "), 2)
	equal(t, "header_bytes", s.limited("header_bytes"), 2)
	equal(t, "header_count", s.limited("header_count"), 1)
}

func TestHeaderLimitsHTTP2(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Answer(lab.OK))
	s := site{endpoints: []string{o.Addr}, tls: true, listener: limits("header_bytes: 2048, header_count: 10")}.start(t)
	c := s.client(t, v2)
	for count, want := range map[int]int{2: 200, 20: 431} {
		req, _ := http.NewRequest("GET", s.url("/"), nil)
		for i := range count {
			req.Header.Set(fmt.Sprintf("X-%d", i), "1")
		}
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		equal(t, fmt.Sprintf("status with %d fields", count), res.StatusCode, want)
	}
	equal(t, "header_count", s.limited("header_count"), 1)
}

func TestHeaderTimeout(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Answer(lab.OK))
	s := site{endpoints: []string{o.Addr}, listener: limits("header_timeout: 500ms, idle_timeout: 10s")}.start(t)
	t.Run("limits", func(t *testing.T) {
		t.Run("silent", func(t *testing.T) {
			t.Parallel()
			r := s.raw(t, lab.Within(5*time.Second))
			equal(t, "text", r.Text, "")
			equal(t, "end", r.End, lab.Closed)
		})
		for _, name := range []string{"dripping", "dripping second request"} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				client := s.dial(t)
				if name != "dripping" {
					client.Send(get("/", ""))
					equal(t, "status of the first", client.Response("GET").StatusCode, 200)
				}
				begun := time.Now()
				go func() {
					for _, b := range get("/", "X: "+strings.Repeat("x", 2000)+"\r\n") {
						client.Send(string(b))
						time.Sleep(10 * time.Millisecond)
					}
				}()
				r := client.Response("GET")
				equal(t, "status", r.StatusCode, 408)
				if d := time.Since(begun); d < 200*time.Millisecond || d > slack+5*time.Second {
					t.Errorf("408 after %v", d)
				}
			})
		}
	})
	equal(t, "header_timeout", s.limited("header_timeout"), 3)
	equal(t, "408 in the metrics", s.Metric("fairlead_http_errors_total", "status", "408"), 2)
}

func TestHandshakeTimeout(t *testing.T) {
	t.Parallel()
	s := site{endpoints: []string{lab.Refusing(t)}, tls: true, listener: limits("header_timeout: 200ms")}.start(t)
	r := lab.Raw(t, s.addr, "\x16\x03", lab.Within(5*time.Second))
	if r.End == lab.Open {
		t.Error("connection that does not finish its handshake stays open")
	}
	s.awaitLimited(t, "tls_handshake_timeout", 1)
	// Nor does one that agrees on HTTP/2 and then says nothing.
	c := lab.DialTLS(t, s.addr, s.ca.Client(host, "h2"))
	if end := c.Ended(10 * time.Second); end == lab.Open {
		t.Error("HTTP/2 connection without a preface stays open")
	}
}

func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, tls bool, v httpVersion) {
		o := lab.NewOrigin(t, lab.Answer(lab.OK))
		s := site{endpoints: []string{o.Addr}, tls: tls, listener: limits("idle_timeout: 300ms")}.start(t)
		begun := time.Now()
		if v != v1 {
			res, err := s.client(t, v).Get(s.url("/"))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			lab.Await(t, "the connection to close", func() bool { return s.Status().Listeners[0].OpenConnections == 0 })
		} else {
			c := s.dial(t)
			c.Send(get("/", ""))
			equal(t, "status", c.Response("GET").StatusCode, 200)
			equal(t, "end", c.Ended(5*time.Second), lab.Closed)
			equal(t, "idle_timeout", s.limited("idle_timeout"), 1)
			equal(t, "header_timeout", s.limited("header_timeout"), 0)
		}
		if d := time.Since(begun); d < 250*time.Millisecond || d > slack+5*time.Second {
			t.Errorf("closed after %v", d)
		}
	})
}

// drip is a body that brings n bytes each gap.
type drip struct {
	n    int
	gap  time.Duration
	left int
}

func (d *drip) Read(b []byte) (int, error) {
	if d.left <= 0 {
		return 0, io.EOF
	}
	time.Sleep(d.gap)
	n := min(d.n, d.left, len(b))
	clear(b[:n])
	d.left -= n
	return n, nil
}

func TestBodyRate(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, tls bool, v httpVersion) {
		addr := lab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n, " ", err)
		}))
		s := site{endpoints: []string{addr}, tls: tls, listener: limits("body_timeout: 1s, body_min_rate: 64")}.start(t)
		c := s.client(t, v)
		for _, test := range []struct {
			name   string
			body   *drip
			length int64
			want   int
		}{
			// The rate is met all along, for longer than the time-out.
			{"200 bytes a second", &drip{20, 100 * time.Millisecond, 400}, 400, 200},
			{"200 bytes a second in chunks", &drip{20, 100 * time.Millisecond, 400}, -1, 200},
			{"ten bytes a second", &drip{1, 100 * time.Millisecond, 400}, 400, 408},
			{"ten bytes a second in chunks", &drip{1, 100 * time.Millisecond, 400}, -1, 408},
			{"nothing", &drip{1, 3 * time.Second, 1}, 400, 408},
		} {
			req, _ := http.NewRequest("POST", s.url("/"), test.body)
			req.ContentLength = test.length
			res, err := c.Do(req)
			if err != nil {
				t.Errorf("%s: %v", test.name, err)
				continue
			}
			io.Copy(io.Discard, res.Body)
			res.Body.Close()
			equal(t, test.name+": status", res.StatusCode, test.want)
		}
		equal(t, "body_timeout", s.limited("body_timeout"), 3)
	})
}

// Time in which the endpoint takes nothing is not the client's.
func TestBodyWaitsForEndpoint(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, tls bool, v httpVersion) {
		const size = 12 << 20
		addr := lab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(2500 * time.Millisecond)
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n)
		}))
		s := site{endpoints: []string{addr}, tls: tls, listener: limits("body_timeout: 1s")}.start(t)
		for _, length := range []int64{size, -1} {
			req, _ := http.NewRequest("POST", s.url("/"), io.LimitReader(zeros{}, size))
			req.ContentLength = length
			res, err := s.client(t, v).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(res.Body)
			res.Body.Close()
			equal(t, "status", res.StatusCode, 200)
			equal(t, "bytes", string(b), fmt.Sprint(size))
		}
	})
}

// A client that never reads its answer.
func TestSendTimeout(t *testing.T) {
	t.Parallel()
	endless := func(c *lab.OriginConn) {
		if _, err := c.Head(); err != nil {
			return
		}
		c.Say("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
		io.Copy(c.Conn, io.LimitReader(zeros{}, 1_000_000_000))
	}
	protocols(t, func(t *testing.T, tls bool, v httpVersion) {
		o := lab.NewOrigin(t, endless)
		s := site{endpoints: []string{o.Addr}, tls: tls, listener: limits("body_timeout: 300ms")}.start(t)
		if v != v1 {
			res, err := s.client(t, v).Get(s.url("/"))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close() // which is not read
		} else {
			s.dial(t).Send(get("/", ""))
		}
		s.awaitLimited(t, "send_timeout", 1)
		s.AwaitMetric(1, "fairlead_http_client_gone_total")
		r := s.AccessLog(1)[0]
		equal(t, "error in the access log", r["error"], any("client_gone"))
	})
}

// tooMany tries a connection that is to be refused, which may show already when
// connecting.
func tooMany(t *testing.T, s server) string {
	t.Helper()
	nc, err := net.Dial("tcp", s.addr)
	if err == nil {
		defer nc.Close()
		nc.SetReadDeadline(time.Now().Add(10 * time.Second))
		_, err = nc.Read(make([]byte, 1))
	}
	if errors.Is(err, syscall.ECONNRESET) {
		return lab.Reset
	}
	return fmt.Sprint(err)
}

func TestConnectionsPerClient(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Answer(lab.OK))
	s := site{endpoints: []string{o.Addr}, listener: limits("connections_per_client: 3")}.start(t)
	var open []*lab.Client
	for range 3 {
		c := s.dial(t)
		c.Send(get("/", ""))
		equal(t, "status", c.Response("GET").StatusCode, 200)
		open = append(open, c)
	}
	equal(t, "end of one too many", tooMany(t, s), lab.Reset)
	equal(t, "connections_per_client", s.limited("connections_per_client"), 1)
	open[0].Close()
	lab.Await(t, "a place to be free", func() bool { return s.Status().Listeners[0].OpenConnections == 2 })
	c := s.dial(t)
	c.Send(get("/", ""))
	equal(t, "status once one has gone", c.Response("GET").StatusCode, 200)
}

func TestConnections(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Answer(lab.OK))
	s := site{endpoints: []string{o.Addr}, listener: limits("connections: 2")}.start(t)
	for range 2 {
		c := s.dial(t)
		c.Send(get("/", ""))
		equal(t, "status", c.Response("GET").StatusCode, 200)
	}
	equal(t, "end of one too many", tooMany(t, s), lab.Reset)
	equal(t, "connections", s.limited("connections"), 1)
}

// frames is an HTTP/2 client that does what it is told.
type frames struct {
	*http2.Framer
	c        *lab.Client
	t        *testing.T
	settings map[http2.SettingID]uint32
}

// framed connects with HTTP/2 and reads the server's settings.
func (s server) framed(t *testing.T) *frames {
	t.Helper()
	c := lab.DialTLS(t, s.addr, &tls.Config{RootCAs: s.ca.Pool, ServerName: host, NextProtos: []string{"h2"}})
	c.Send(http2.ClientPreface)
	f := &frames{http2.NewFramer(c.Conn, c.Conn), c, t, make(map[http2.SettingID]uint32)}
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	f.WriteSettings()
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	first := f.next()
	settings, ok := first.(*http2.SettingsFrame)
	if !ok {
		t.Fatalf("first frame is %v", first)
	}
	settings.ForeachSetting(func(s http2.Setting) error { f.settings[s.ID] = s.Val; return nil })
	f.WriteSettingsAck()
	return f
}

func (f *frames) next() http2.Frame {
	f.t.Helper()
	frame, err := f.ReadFrame()
	if err != nil {
		f.t.Fatalf("frame: %v", err)
	}
	return frame
}

// headers opens a stream with fields in pairs of name and value.
func (f *frames) headers(stream uint32, end bool, fields ...string) {
	f.t.Helper()
	var block strings.Builder
	e := hpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte(block.String()), EndHeaders: true, EndStream: end})
}

// request opens a stream with a GET.
func (f *frames) request(stream uint32, path string) {
	f.headers(stream, true, ":method", "GET", ":scheme", "https", ":authority", host, ":path", path)
}

// result waits for how a stream ends: a status, or the code of a reset.
func (f *frames) result(stream uint32) string {
	f.t.Helper()
	for {
		switch frame := f.next().(type) {
		case *http2.MetaHeadersFrame:
			if frame.StreamID == stream {
				return frame.PseudoValue("status")
			}
		case *http2.RSTStreamFrame:
			if frame.StreamID == stream {
				return frame.ErrCode.String()
			}
		case *http2.GoAwayFrame:
			return "GOAWAY " + frame.ErrCode.String()
		}
	}
}

func TestConcurrentStreams(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	addr := lab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-release }))
	s := site{endpoints: []string{addr}, tls: true, listener: limits("concurrent_streams: 3")}.start(t)
	f := s.framed(t)
	equal(t, "setting", f.settings[http2.SettingMaxConcurrentStreams], 3)
	for i := range uint32(3) {
		f.request(2*i+1, "/")
	}
	lab.Await(t, "the requests to be open", func() bool { return s.Status().Pools[0].OpenRequests == 3 })
	f.request(7, "/")
	equal(t, "one too many", f.result(7), "REFUSED_STREAM")
	equal(t, "concurrent_streams", s.limited("concurrent_streams"), 1)
	close(release)
	equal(t, "one of the others", f.result(5), "200")
}

// A WebSocket over HTTP/2 reaches an endpoint that speaks HTTP/1.1.
func TestC07ExtendedConnect(t *testing.T) {
	t.Parallel()
	s := site{endpoints: []string{echoSocket(t)}, tls: true}.start(t)
	f := s.framed(t)
	equal(t, "SETTINGS_ENABLE_CONNECT_PROTOCOL", f.settings[http2.SettingEnableConnectProtocol], 1)
	connect := func(stream uint32, protocol string) {
		f.headers(stream, false, ":method", "CONNECT", ":protocol", protocol, ":scheme", "https", ":authority", host, ":path", "/chat",
			"sec-websocket-version", "13")
	}
	connect(1, "websocket")
	equal(t, "extended CONNECT", f.result(1), "200")
	f.WriteData(1, false, []byte("\x81\x85\x00\x00\x00\x00hello"))
	equal(t, "echo", f.data(1, 7), "\x81\x05hello")
	equal(t, "open upgraded connections", s.Metric("fairlead_http_upgraded_open"), 1)
	f.WriteData(1, true, nil)
	equal(t, "rest", f.data(1, -1), "")
	connect(3, "webtransport")
	equal(t, "another protocol", f.result(3), "501")
	f.headers(5, false, ":method", "CONNECT", ":authority", "www.example.com:443")
	equal(t, "plain CONNECT", f.result(5), "405")
	f.request(7, "/")
	equal(t, "stream behind", f.result(7), "426") // what the endpoint answers to a plain GET
	f.WriteRSTStream(1, http2.ErrCodeCancel)
}

// data reads n bytes of a stream's body, or with n below 0 all until its end or
// reset.
func (f *frames) data(stream uint32, n int) string {
	f.t.Helper()
	var b []byte
	for n < 0 || len(b) < n {
		switch frame := f.next().(type) {
		case *http2.DataFrame:
			if frame.StreamID == stream {
				b = append(b, frame.Data()...)
				if frame.StreamEnded() {
					return string(b)
				}
			}
		case *http2.RSTStreamFrame:
			if frame.StreamID == stream {
				return string(b)
			}
		case *http2.GoAwayFrame:
			f.t.Fatalf("GOAWAY %v", frame.ErrCode)
		}
	}
	return string(b)
}
