package http_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"fairlead/test/lab"
)

// h2Endpoint is an endpoint that speaks HTTP/2 as golang.org/x/net does.
type h2Endpoint struct {
	addr        string
	connections atomic.Int64
}

// serveH2 runs an endpoint, over TLS if cfg is given.
func serveH2(t *testing.T, cfg *tls.Config, h http.HandlerFunc) *h2Endpoint {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &h2Endpoint{addr: ln.Addr().String()}
	var mu sync.Mutex
	var open []net.Conn
	var wg sync.WaitGroup
	serve := func(nc net.Conn) {
		defer nc.Close()
		if cfg != nil {
			tc := tls.Server(nc, cfg)
			if tc.Handshake() != nil {
				return
			}
			nc = tc
		}
		new(http2.Server).ServeConn(nc, &http2.ServeConnOpts{Handler: h, BaseConfig: &http.Server{ErrorLog: quiet(t)}})
	}
	wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			e.connections.Add(1)
			mu.Lock()
			open = append(open, nc)
			mu.Unlock()
			wg.Go(func() { serve(nc) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, nc := range open {
			nc.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return e
}

// echo tells what came, and gives it back with trailers.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Trailer", "X-Sum")
	w.Header().Set("X-Saw", fmt.Sprintf("%s %s %s for %s", r.Proto, r.Method, r.URL.Path, r.Host))
	n, _ := io.Copy(w, r.Body)
	w.Header().Set("X-Sum", fmt.Sprintf("%d,%s", n, r.Trailer.Get("X-Sent")))
}

// Endpoints that speak HTTP/2 serve clients of every protocol.
func TestHTTP2Endpoints(t *testing.T) {
	ca := lab.NewCA(t)
	cert := ca.Issue("a.example.com").TLS
	over := func(protocols ...string) *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: protocols}
	}
	plain := secure(t, over("http/1.1"), "HTTP/1.1")
	inTLS := fmt.Sprintf(", tls: {ca: %q, server_name: a.example.com}", ca.File)
	for _, c := range []struct {
		name, pool string
		e          *h2Endpoint
	}{
		{"h2c", "protocol: h2c", serveH2(t, nil, echo)},
		{"h2", "protocol: h2" + inTLS, serveH2(t, over("h2"), echo)},
		{"auto", "protocol: auto" + inTLS, serveH2(t, over("h2", "http/1.1"), echo)},
	} {
		protocols(t, func(t *testing.T, tls bool, v httpVersion) {
			t.Run(c.name, func(t *testing.T) {
				s := site{endpoints: []string{c.e.addr}, pool: c.pool, tls: tls}.start(t)
				cl := s.client(t, v)
				var wg sync.WaitGroup
				for _, size := range []int{0, 1, 100, 20_000, 3 << 20} {
					for _, chunked := range []bool{false, true} {
						wg.Go(func() {
							body := bytes.Repeat([]byte("0123456789"), size/10+1)[:size]
							req, _ := http.NewRequest("POST", s.url("/echo"), bytes.NewReader(body))
							if chunked {
								req.ContentLength = -1
								req.Trailer = http.Header{"X-Sent": {"sent"}}
							}
							res, err := cl.Do(req)
							if err != nil {
								t.Error(err)
								return
							}
							defer res.Body.Close()
							got, err := io.ReadAll(res.Body)
							if err != nil || !bytes.Equal(got, body) {
								t.Errorf("%d bytes came back, %v; want %d", len(got), err, size)
							}
							equal(t, "what came", res.Header.Get("X-Saw"), "HTTP/2.0 POST /echo for "+host)
							want := fmt.Sprintf("%d,", size)
							if chunked && size > 0 { // without a body the client sends no trailers
								want += "sent"
							}
							equal(t, "trailer", res.Trailer.Get("X-Sum"), want)
						})
					}
				}
				wg.Wait()
				res, err := cl.Head(s.url("/head"))
				if err != nil {
					t.Fatal(err)
				}
				equal(t, "HEAD", res.StatusCode, 200)
			})
		})
	}
	t.Run("h2 that is not agreed on", func(t *testing.T) {
		s := site{endpoints: []string{plain}, pool: "protocol: h2" + inTLS}.start(t)
		equal(t, "status", s.raw(t, get("/", "")).Status(), "525")
	})
	t.Run("auto with HTTP/1.1", func(t *testing.T) {
		s := site{endpoints: []string{plain}, pool: "protocol: auto" + inTLS}.start(t)
		c := s.dial(t)
		for range 3 {
			c.Send(get("/", ""))
			equal(t, "answer", c.Response("GET").Text, "HTTP/1.1 for a.example.com")
		}
		equal(t, "connections", s.Metric("fairlead_endpoint_connects_total"), 1)
	})
}

// Requests that come at once share one connection of each loop, and a new one is
// made once it takes no more.
func TestHTTP2EndpointShares(t *testing.T) {
	t.Parallel()
	var together atomic.Int64
	release := make(chan struct{})
	e := serveH2(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if together.Add(1) == 60 {
			close(release)
		}
		<-release
	})
	s := site{endpoints: []string{e.addr}, pool: "protocol: h2c", tls: true}.start(t)
	cl := s.client(t, v2) // one connection, so that one loop
	var wg sync.WaitGroup
	for range 90 {
		wg.Go(func() {
			res, err := cl.Get(s.url("/"))
			if err != nil {
				t.Error(err)
				return
			}
			res.Body.Close()
			equal(t, "status", res.StatusCode, 200)
		})
	}
	wg.Wait()
	if n := e.connections.Load(); n > 2 {
		t.Errorf("%d connections for 60 requests at once, want 1 or 2 that are shared", n)
	}
}

// refusing is an endpoint that refuses every stream, and counts them.
func refusing(t *testing.T, code http2.ErrCode) (addr string, streams *atomic.Int64) {
	t.Helper()
	streams = new(atomic.Int64)
	o := lab.NewOrigin(t, func(nc *lab.OriginConn) {
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(nc, preface); err != nil {
			return
		}
		f := http2.NewFramer(nc, nc)
		f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		f.WriteSettings()
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					f.WriteSettingsAck()
				}
			case *http2.MetaHeadersFrame:
				streams.Add(1)
				f.WriteRSTStream(frame.StreamID, code)
			}
		}
	})
	return o.Addr, streams
}

// A stream that was refused is asked for once more, then of another endpoint: it
// was certainly not processed, whatever its method.
func TestRefusedStreams(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "POST"} {
		addr, streams := refusing(t, http2.ErrCodeRefusedStream)
		s := site{endpoints: []string{addr}, pool: "protocol: h2c"}.start(t)
		r := s.raw(t, request(method, "/", "Content-Length: 2\r\n", "hi"))
		equal(t, "status", r.Status(), "503")
		equal(t, "streams", streams.Load(), 2)
		equal(t, "log", s.AccessLog(1)[0]["error"], any("refused_stream"))

		good := serveH2(t, nil, echo)
		both := site{endpoints: []string{addr, good.addr}, pool: "protocol: h2c, endpoint_steering: {policy: round_robin}"}.start(t)
		for range 4 {
			equal(t, "status with another endpoint", both.raw(t, request(method, "/", "Content-Length: 2\r\n", "hi")).Status(), "200")
		}
	}
}

// A stream that was reset may have been processed: only what may be repeated is.
func TestResetStreams(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]int64{"GET": 2, "POST": 1} {
		addr, streams := refusing(t, http2.ErrCodeInternal)
		s := site{endpoints: []string{addr}, pool: "protocol: h2c"}.start(t)
		equal(t, method+": status", s.raw(t, request(method, "/", "Content-Length: 2\r\n", "hi")).Status(), "520")
		equal(t, method+": streams", streams.Load(), want)
	}
}

// A WebSocket cannot be carried to an HTTP/2 endpoint that does not offer it.
func TestWebSocketToHTTP2Endpoint(t *testing.T) {
	t.Parallel()
	e := serveH2(t, nil, echo)
	s := site{endpoints: []string{e.addr}, pool: "protocol: h2c"}.start(t)
	r := s.raw(t, get("/chat", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"))
	equal(t, "status", r.Status(), "501")
	equal(t, "log", s.AccessLog(1)[0]["error"], any("no_extended_connect"))
	equal(t, "next", s.raw(t, get("/", "")).Status(), "200")
}

// An endpoint that may choose is asked again with each connection: it may be
// another process by then.
func TestAutoEndpointChanges(t *testing.T) {
	t.Parallel()
	ca := lab.NewCA(t)
	cert := ca.Issue("a.example.com").TLS
	var h2 atomic.Bool
	e := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }))
	e.EnableHTTP2 = true
	e.Config.ErrorLog = quiet(t)
	e.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}}
		if h2.Load() {
			c.NextProtos = []string{"h2", "http/1.1"}
		}
		return c, nil
	}}
	e.StartTLS()
	t.Cleanup(e.Close)
	s := site{endpoints: []string{e.Listener.Addr().String()}, tls: true,
		pool: fmt.Sprintf("protocol: auto, tls: {ca: %q, server_name: a.example.com}", ca.File)}.start(t)
	c := s.dial(t)
	for i, want := range []string{"HTTP/1.1", "HTTP/2.0", "HTTP/1.1", "HTTP/2.0"} {
		h2.Store(want == "HTTP/2.0")
		if i > 0 {
			e.CloseClientConnections()
		}
		for range 2 {
			c.Send(get("/", ""))
			equal(t, "answer", c.Response("GET").Text, want)
		}
	}
}
