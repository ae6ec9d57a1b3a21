package http_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"fairlead/test/lab"
)

// status3 asks once over HTTP/3 and returns the status.
func status3(t *testing.T, c *http.Client, url string) int {
	t.Helper()
	res, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, res.Body)
	res.Body.Close()
	return res.StatusCode
}

// Answers tell of HTTP/3 where there is such, and only to those that do not speak it.
func TestAltSvc(t *testing.T) {
	t.Parallel()
	addr := lab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/own" {
			w.Header().Set("Alt-Svc", "clear")
		}
		w.Header().Set("X-Early", "1")
		w.WriteHeader(http.StatusEarlyHints)
	}))
	rules := `rules: [{name: r, condition: 'http.request.uri.path eq "/fixed"', fixed_response: {status_code: 410}}]`
	on := site{endpoints: []string{addr}, tls: true, balancer: rules}.start(t)
	off := site{endpoints: []string{addr}, tls: true, noHTTP3: true, balancer: rules}.start(t)
	plain := site{endpoints: []string{addr}, balancer: rules}.start(t)
	_, port, _ := net.SplitHostPort(on.addr)
	here := fmt.Sprintf(`h3=":%s"; ma=86400`, port)
	for _, test := range []struct {
		name string
		s    server
		v    httpVersion
		path string
		host string
		want string
	}{
		{"HTTP/1.1", on, v1, "/", host, here},
		{"HTTP/2", on, v2, "/", host, here},
		{"HTTP/3", on, v3, "/", host, ""},
		{"our own answer over HTTP/1.1", on, v1, "/fixed", host, here},
		{"our own answer over HTTP/2", on, v2, "/fixed", host, here},
		{"our own answer over HTTP/3", on, v3, "/fixed", host, ""},
		{"the endpoint's own", on, v1, "/own", host, "clear"},
		{"the endpoint's own over HTTP/2", on, v2, "/own", host, "clear"},
		{"a host that nobody has", on, v1, "/", "none.example.com", ""},
		{"off", off, v1, "/", host, ""},
		{"off over HTTP/2", off, v2, "/fixed", host, ""},
		{"without TLS", plain, v1, "/", host, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			req, _ := http.NewRequest("GET", test.s.url(test.path), nil)
			req.Host = test.host
			res, err := test.s.client(t, test.v).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			equal(t, "Alt-Svc", strings.Join(res.Header.Values("Alt-Svc"), "|"), test.want)
		})
	}
}

// Lines of the access log have what other protocols' have.
func TestAccessLogOfHTTP3(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Echo)
	s := site{endpoints: []string{o.Addr}, tls: true, listener: "trusted_proxies: [127.0.0.0/8]"}.start(t)
	req, _ := http.NewRequest("POST", s.url("/a?b"), strings.NewReader("hello"))
	req.Header.Set("X-Forwarded-For", "203.0.113.7")
	res, err := s.client(t, v3).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	seen, _ := io.ReadAll(res.Body)
	res.Body.Close()
	equal(t, "X-Forwarded-For", strings.Join(lab.Fields(string(seen), "X-Forwarded-For"), "|"), "203.0.113.7, 127.0.0.1")
	equal(t, "Content-Length", lab.Field(string(seen), "Content-Length"), "5")
	r := s.AccessLog(1)[0]
	for field, want := range map[string]any{
		"protocol": "HTTP/3", "method": "POST", "path": "/a?b", "host": host, "status": 200.0, "client": "203.0.113.7",
		"tls_version": "TLS 1.3", "server_name": host, "load_balancer": host, "endpoint": "A",
	} {
		equal(t, field, r[field], want)
	}
	if r["bytes_in"].(float64) < 100 || r["bytes_out"].(float64) < float64(len(seen)) {
		t.Errorf("bytes: %v in, %v out", r["bytes_in"], r["bytes_out"])
	}
}

// A client that expects 100 sends its body when the endpoint has said so.
func TestContinueOverHTTP3(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, func(c *lab.OriginConn) {
		head, err := c.Head()
		if err != nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
		c.Say("HTTP/1.1 100 Continue\r\n\r\n")
		body, _ := c.Body(head)
		c.Say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	})
	s := site{endpoints: []string{o.Addr}, tls: true, listener: limits("body_timeout: 300ms")}.start(t)
	st := s.dial3(t).open(h3head("POST", "/", "expect", "100-continue", "content-length", "5"))
	equal(t, "interim answer", st.status(), "100")
	st.Write(h3frame(0, []byte("hello")))
	st.Close()
	equal(t, "answer", st.status(), "200")
	_, data, err := st.next()
	if string(data) != "hello" || err != nil {
		t.Errorf("body %q, %v", data, err)
	}
	// One that sends nothing is not waited for longer than the time-out.
	slow := s.dial3(t).open(h3head("POST", "/", "content-length", "5"))
	equal(t, "interim answer", slow.status(), "100")
	equal(t, "answer to a body that does not come", slow.status(), "408")
	s.awaitLimited(t, "body_timeout", 1)
}

// A WebSocket over HTTP/3 (RFC 9220) is an upgrade towards the endpoint.
func TestWebSocketOverHTTP3(t *testing.T) {
	t.Parallel()
	s := site{endpoints: []string{echoSocket(t)}, tls: true}.start(t)
	c := s.dial3(t)
	st := c.open(h3head("CONNECT", "/chat", ":protocol", "websocket", "sec-websocket-version", "13", "origin", "https://"+host))
	head, _, err := st.next()
	if err != nil || head[":status"] != "200" {
		t.Fatalf("answer %v, %v", head, err)
	}
	for _, name := range []string{"upgrade", "connection", "sec-websocket-accept"} {
		if head[name] != "" {
			t.Errorf("%s: %s", name, head[name])
		}
	}
	// A text frame with a mask of zeros, in two DATA frames.
	message := append([]byte{0x81, 0x80 | 5, 0, 0, 0, 0}, "hello"...)
	st.Write(h3frame(0, message[:4]))
	st.Write(h3frame(0, message[4:]))
	var got []byte
	for len(got) < 7 {
		_, data, err := st.next()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, data...)
	}
	equal(t, "echo", string(got), "\x81\x05hello")
	equal(t, "open upgraded connections", s.Metric("fairlead_http_upgraded_open"), 1)
	st.Write(h3frame(0, []byte{0x88, 0x80, 0, 0, 0, 0})) // Close
	st.Close()
	equal(t, "end", st.reset(), 0)
	r := s.AccessLog(1)[0]
	equal(t, "status", r["status"], any(200.0))
	equal(t, "upgraded", r["upgraded"], any(true))

	other := c.open(h3head("CONNECT", "/", ":protocol", "connect-udp"))
	equal(t, "another protocol", other.status(), "501")
}

// Limits of the listener hold for HTTP/3, and each is counted.
func TestLimitsOfHTTP3(t *testing.T) {
	t.Parallel()
	t.Run("connections", func(t *testing.T) {
		t.Parallel()
		s := site{endpoints: []string{lab.NewOrigin(t, lab.Echo).Addr}, tls: true, listener: limits("connections: 2")}.start(t)
		s.dial3(t)
		s.dial(t)
		lab.Await(t, "both to be open", func() bool { return s.Status().Listeners[0].OpenConnections == 2 })
		if _, err := s.tryDial3(t, nil); err == nil {
			t.Error("a third connection is let in")
		}
		s.awaitLimited(t, "connections", 1) // each packet of a newcomer is refused
		equal(t, "HTTP/3 connections", s.Metric("fairlead_http3_connections_open"), 1)
	})
	t.Run("connections per client", func(t *testing.T) {
		t.Parallel()
		s := site{endpoints: []string{lab.NewOrigin(t, lab.Echo).Addr}, tls: true, listener: limits("connections_per_client: 2")}.start(t)
		first := s.dial3(t)
		equal(t, "first", first.ask("/").status(), "200")
		s.dial(t)
		lab.Await(t, "both to be open", func() bool { return s.Status().Listeners[0].OpenConnections == 2 })
		if c, err := s.tryDial3(t, nil); err == nil {
			<-c.Context().Done() // the handshake proves the address, and then it is counted
		}
		s.awaitLimited(t, "connections_per_client", 1)
		lab.Await(t, "the third to be gone", func() bool { return s.Status().Listeners[0].OpenConnections == 2 })
		first.CloseWithError(0x100, "")
		lab.Await(t, "one to be gone", func() bool { return s.Status().Listeners[0].OpenConnections == 1 })
		equal(t, "a next one", s.dial3(t).ask("/").status(), "200")
	})
	t.Run("connections after a flood", func(t *testing.T) {
		t.Parallel()
		s := site{endpoints: []string{lab.NewOrigin(t, lab.Echo).Addr}, tls: true, listener: limits("connections_after_flood: 1")}.start(t)
		kept := s.dial3(t)
		c := s.dial3(t)
		for c.Context().Err() == nil { // streams of a type that nobody knows
			if st, err := c.OpenUniStreamSync(c.Context()); err == nil {
				st.Write([]byte{0x21})
				st.Close()
			}
		}
		lab.Await(t, "the flood to be known", func() bool { return s.Metric("fairlead_http_flooding_clients") == 1 })
		for s.limited("connections_after_flood") == 0 {
			if c, err := s.tryDial3(t, nil); err == nil {
				c.CloseWithError(0x100, "")
			}
		}
		equal(t, "a connection that it has", kept.ask("/").status(), "200")
	})
	t.Run("heads", func(t *testing.T) {
		t.Parallel()
		s := site{endpoints: []string{lab.NewOrigin(t, lab.Echo).Addr}, tls: true,
			listener: limits("header_bytes: 2000, header_count: 20, header_timeout: 500ms")}.start(t)
		c := s.dial3(t)
		equal(t, "long", c.ask("/", "x", strings.Repeat("x", 3000)).status(), "431")
		equal(t, "header_bytes", s.limited("header_bytes"), 1)
		many := strings.Split(strings.Repeat("x,y,", 30)+"x,y", ",")
		equal(t, "many", c.ask("/", many...).status(), "431")
		equal(t, "header_count", s.limited("header_count"), 1)
		equal(t, "slow", c.open(h3head("GET", "/")[:10]).reset(), 0x10d)
		equal(t, "header_timeout", s.limited("header_timeout"), 1)
		equal(t, "after that", c.ask("/").status(), "200")
	})
	t.Run("streams", func(t *testing.T) {
		t.Parallel()
		s := site{endpoints: []string{lab.NewOrigin(t, silent).Addr}, tls: true, listener: limits("concurrent_streams: 3")}.start(t)
		c := s.dial3(t)
		for range 3 {
			c.ask("/")
		}
		if _, err := c.OpenStream(); err == nil {
			t.Error("a fourth request is let in")
		}
	})
	t.Run("handshakes", func(t *testing.T) {
		t.Parallel()
		s := site{endpoints: []string{lab.NewOrigin(t, lab.Echo).Addr}, tls: true, listener: limits("header_timeout: 300ms")}.start(t)
		udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		tr := &quic.Transport{Conn: mute{udp}}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		tr.Dial(ctx, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(s.addr)), s.ca.Client(host, "h3"), nil)
		cancel()
		tr.Close()
		udp.Close()
		s.awaitLimited(t, "tls_handshake_timeout", 1)
		s.AwaitMetric(1, "fairlead_http_tls_failed_total")
		lab.Await(t, "it to be gone", func() bool { return s.Status().Listeners[0].OpenConnections == 0 })
	})
	t.Run("resets", func(t *testing.T) {
		t.Parallel()
		s := site{endpoints: []string{lab.NewOrigin(t, silent).Addr}, tls: true, listener: limits("concurrent_streams: 10")}.start(t)
		c := s.dial3(t)
		for c.Context().Err() == nil {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			st, err := c.OpenStreamSync(ctx)
			cancel()
			if err != nil {
				break
			}
			st.Write(h3head("GET", "/"))
			st.CancelRead(0x10c)
			st.CancelWrite(0x10c)
		}
		s.AwaitMetric(1, "fairlead_http3_events_total", "event", "rapid_reset")
	})
}

// mute is a socket on which nothing is heard.
type mute struct{ net.PacketConn }

func (m mute) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		if n, a, err := m.PacketConn.ReadFrom(b); err != nil {
			return n, a, err
		}
	}
}

// A changed certificate is shown to the next connection; TLS sessions can be resumed,
// but nothing is taken from what comes with the first packets.
func TestCertificatesOfHTTP3(t *testing.T) {
	t.Parallel()
	s := site{endpoints: []string{lab.NewOrigin(t, lab.Echo).Addr}, tls: true, listener: limits("header_timeout: 10s")}.start(t)
	tr := s.transport3(t)
	sessions := tls.NewLRUClientSessionCache(10)
	tr.TLSClientConfig.ClientSessionCache = sessions
	c := clientOver(tr)
	equal(t, "status", status3(t, c, s.url("/")), 200)
	lab.Await(t, "a session ticket", func() bool { _, ok := sessions.Get(host); return ok })
	tr.CloseIdleConnections()
	res, err := c.Get(s.url("/"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	equal(t, "session is resumed", res.TLS.DidResume, true)
	early := s.transport3(t)
	early.TLSClientConfig.ClientSessionCache = sessions
	var used atomic.Bool
	early.Dial = func(ctx context.Context, _ string, tlsConfig *tls.Config, config *quic.Config) (*quic.Conn, error) {
		udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return nil, err
		}
		qt := &quic.Transport{Conn: udp}
		t.Cleanup(func() {
			qt.Close()
			udp.Close()
		})
		q, err := qt.DialEarly(ctx, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(s.addr)), tlsConfig, config)
		if err == nil {
			<-q.HandshakeComplete()
			used.Store(q.ConnectionState().Used0RTT)
		}
		return q, err
	}
	equal(t, "status", status3(t, clientOver(early), s.url("/")), 200)
	equal(t, "0-RTT was used", used.Load(), false)

	config, err := os.ReadFile(s.File)
	if err != nil {
		t.Fatal(err)
	}
	field := func(name string) string {
		_, rest, _ := strings.Cut(string(config), name+`: "`)
		value, _, _ := strings.Cut(rest, `"`)
		return value
	}
	before := s.dial3(t).ConnectionState().TLS.PeerCertificates[0].SerialNumber
	next := s.ca.Issue(host)
	for from, to := range map[string]string{next.CertFile: field("certificate"), next.KeyFile: field("key")} {
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to+".next", b, 0o600)
		}
		if err == nil {
			err = os.Rename(to+".next", to)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	lab.Await(t, "the new certificate", func() bool {
		return s.dial3(t).ConnectionState().TLS.PeerCertificates[0].SerialNumber.Cmp(before) != 0
	})
}

// switchedSite is a site whose file has HTTP/3 on or off.
type switchedSite struct {
	t          *testing.T
	n          *lab.Node
	s          server
	cert       lab.Certificate
	addr, pool string
	revision   uint64
}

func newSwitchedSite(t *testing.T, endpoint string, on bool) *switchedSite {
	t.Helper()
	ca := lab.NewCA(t)
	w := &switchedSite{t: t, cert: ca.Issue(host), addr: "127.0.0.1:0", pool: endpoint, revision: 1}
	w.n = lab.Start(t, w.config(on, ""))
	w.s = server{w.n, w.n.Addr("web"), ca}
	return w
}

func (w *switchedSite) config(on bool, more string) string {
	return fmt.Sprintf(`
shutdown_timeout: 10s
listeners:
  - {name: web, address: %q, protocol: https, http3: %v, certificates: [{certificate: %q, key: %q}]}
  %s
pools: [{name: p, endpoints: [{name: A, address: %q}]}]
load_balancers: [{name: %s, proxied: true, default_pools: [p]}]
`, w.addr, on, w.cert.CertFile, w.cert.KeyFile, more, w.pool, host)
}

func (w *switchedSite) set(on bool) {
	w.t.Helper()
	w.write(w.config(on, ""))
}

func (w *switchedSite) write(text string) {
	w.t.Helper()
	w.revision++
	w.n.Write(text)
	w.n.AwaitRevision(w.revision)
}

// held is an endpoint whose answers to /slow wait until they are let go.
func held(t *testing.T) (addr string, arrived chan struct{}, release chan struct{}) {
	arrived, release = make(chan struct{}, 100), make(chan struct{})
	return lab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			arrived <- struct{}{}
			<-release
		}
		fmt.Fprint(w, "ok")
	})), arrived, release
}

// HTTP/3 is switched off and on by reloads. Requests that are under way finish, over
// the socket that the next connections share with them.
func TestSwitchHTTP3(t *testing.T) {
	t.Parallel()
	addr, arrived, release := held(t)
	w := newSwitchedSite(t, addr, false)
	if _, err := w.s.tryDial3(t, &quic.Config{HandshakeIdleTimeout: 300 * time.Millisecond}); err == nil {
		t.Fatal("HTTP/3 is spoken although it is off")
	}
	var slow []h3stream
	for range 3 {
		w.set(true)
		c := w.s.dial3(t)
		equal(t, "status", c.ask("/").status(), "200")
		slow = append(slow, c.ask("/slow"))
		<-arrived
		w.set(false)
		// The client is told to go, and a new one is not let in.
		lab.Await(t, "HTTP/3 to be off", func() bool {
			_, err := w.s.tryDial3(t, &quic.Config{HandshakeIdleTimeout: 200 * time.Millisecond})
			return err != nil
		})
		r := w.s.dial(t)
		r.Send(get("/", ""))
		equal(t, "Alt-Svc while it is off", r.Response("GET").Header.Get("Alt-Svc"), "")
	}
	w.set(true)
	equal(t, "status", w.s.dial3(t).ask("/").status(), "200")
	close(release)
	for _, st := range slow {
		equal(t, "status of what was under way", st.status(), "200")
		_, data, err := st.next()
		if string(data) != "ok" || err != nil {
			t.Errorf("body %q, %v", data, err)
		}
		equal(t, "end", st.reset(), 0)
	}
}

// No request is lost, and no connection, while the file changes.
func TestReloadsUnderHTTP3(t *testing.T) {
	t.Parallel()
	addr, _, release := held(t)
	close(release)
	w := newSwitchedSite(t, addr, true)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var asked, failed atomic.Int64
	for range 4 {
		c := w.s.client(t, v3)
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				res, err := c.Get(w.s.url("/"))
				if err != nil {
					failed.Add(1)
					t.Errorf("request %d: %v", asked.Load(), err)
					return
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
				if res.StatusCode != 200 {
					failed.Add(1)
					t.Errorf("status %d", res.StatusCode)
				}
				asked.Add(1)
			}
		})
	}
	for i := range 6 {
		w.write(w.config(true, fmt.Sprintf(`# change %d`, i)))
		now := asked.Load()
		lab.Await(t, "more requests", func() bool { return asked.Load() > now+50 || failed.Load() > 0 })
	}
	close(stop)
	wg.Wait()
	equal(t, "connections", w.n.Metric("fairlead_http_connections_total"), 4)
}

// A listener that is removed, and a node that stops, let requests finish.
func TestDrainOfHTTP3(t *testing.T) {
	for _, how := range []string{"removed", "stopped"} {
		t.Run(how, func(t *testing.T) {
			lab.NoLeaks(t)
			addr, arrived, release := held(t)
			w := newSwitchedSite(t, addr, true)
			c := w.s.client(t, v3)
			equal(t, "status", status3(t, c, w.s.url("/")), 200)
			done := make(chan int, 1)
			go func() {
				res, err := c.Get(w.s.url("/slow"))
				if err != nil {
					t.Error(err)
					done <- 0
					return
				}
				b, err := io.ReadAll(res.Body)
				res.Body.Close()
				if string(b) != "ok" || err != nil {
					t.Errorf("body %q, %v", b, err)
				}
				done <- res.StatusCode
			}()
			<-arrived
			if how == "removed" {
				w.write(strings.Replace(w.config(true, ""), "name: web", "name: other", 1))
				time.AfterFunc(300*time.Millisecond, func() { close(release) })
			} else {
				time.AfterFunc(300*time.Millisecond, func() { close(release) })
				w.n.Stop()
			}
			equal(t, "status", <-done, 200)
			if how == "removed" {
				lab.Await(t, "nothing to be left of the listener", func() bool {
					_, err := w.s.tryDial3(t, &quic.Config{HandshakeIdleTimeout: 200 * time.Millisecond})
					return err != nil
				})
				w.n.Stop()
			}
		})
	}
}

// A UDP port that somebody has is told, and what runs stays; where the kernel chooses,
// another is taken.
func TestUDPPortTaken(t *testing.T) {
	t.Parallel()
	addr, _, _ := held(t)
	w := newSwitchedSite(t, addr, false)
	udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(w.s.addr)))
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	w.n.Write(w.config(true, ""))
	w.n.AwaitRefusals(1)
	if e := fmt.Sprint(w.n.Status().Config.Error); !strings.Contains(e, "UDP address "+w.s.addr+", for http3, is in use by another process") {
		t.Errorf("error = %q", e)
	}
	r := w.s.dial(t)
	r.Send(get("/", ""))
	res := r.Response("GET")
	equal(t, "status", res.StatusCode, 200)
	equal(t, "Alt-Svc", res.Header.Get("Alt-Svc"), "")
	udp.Close()
	w.n.Write(w.config(true, "# again"))
	w.n.AwaitRevision(2)
	equal(t, "status over HTTP/3", w.s.dial3(t).ask("/").status(), "200")
}

// Sessions hold over HTTP/3, a request goes to another endpoint when one refuses, and
// whoever is cut notices.
func TestExchangesOverHTTP3(t *testing.T) {
	t.Parallel()
	a := lab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "ok") }))
	s := site{endpoints: []string{lab.Refusing(t), a}, tls: true, pool: "endpoint_steering: {policy: round_robin}", balancer: "retry_budget: 1"}.start(t)
	c := s.client(t, v3)
	for range 10 {
		equal(t, "status", status3(t, c, s.url("/")), 200)
	}
	if s.Metric("fairlead_http_retries_total") == 0 {
		t.Error("no request went to the other endpoint")
	}
	equal(t, "connections to the endpoint", s.Metric("fairlead_endpoint_connects_total", "endpoint", "B"), 1)
	var wg sync.WaitGroup
	for range 50 { // all over one connection
		wg.Go(func() { equal(t, "status", status3(t, c, s.url("/")), 200) })
	}
	wg.Wait()
	equal(t, "connections of the client", s.Metric("fairlead_http_connections_total"), 1)
}
