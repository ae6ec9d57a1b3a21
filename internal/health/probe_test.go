package health

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"fairlead/internal/model"
	"fairlead/internal/resolve"
)

// once probes a target, as the checker does.
func once(t *testing.T, target Target) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), target.Monitor.Timeout)
	defer cancel()
	r := probe(ctx, &target)
	t.Logf("result: %+v", r)
	return r
}

// at returns a target on the loopback.
func at(port int, edit func(*model.Monitor)) Target {
	return Target{Key: Key{"web", "a", "127.0.0.1"}, Host: "127.0.0.1", Port: port, Monitor: monitor(func(m *model.Monitor) {
		m.Timeout = 5 * time.Second
		if edit != nil {
			edit(m)
		}
	})}
}

func ok(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "All Is Well") }

// TestFailures brings about each failure that a server on the loopback can
// cause.
func TestFailures(t *testing.T) {
	ca := newAuthority(t)
	hour := time.Now().Add(time.Hour)
	good := ca.certificate(t, hour, "127.0.0.1", "www.example.test")
	server := func(c *tls.Certificate) *tls.Config { return &tls.Config{Certificates: []tls.Certificate{*c}} }
	short := func(m *model.Monitor) { m.Timeout = 200 * time.Millisecond }
	https := func(m *model.Monitor) { m.Type = model.MonitorHTTPS }
	alert := func(code byte) func(net.Conn) {
		return func(c net.Conn) {
			c.Read(make([]byte, 4096))
			c.Write([]byte{21, 3, 3, 0, 2, 2, code})
			never(c)
		}
	}
	both := func(edits ...func(*model.Monitor)) func(*model.Monitor) {
		return func(m *model.Monitor) {
			for _, e := range edits {
				e(m)
			}
		}
	}
	for _, c := range []struct {
		name string
		port func(*testing.T) int
		edit func(*model.Monitor)
		want string
		code int
	}{
		{"http refused", closedPort, nil, FailureRefused, 0},
		{"tcp refused", closedPort, func(m *model.Monitor) { m.Type = model.MonitorTCP }, FailureRefused, 0},
		{"no connection in time", fullBacklog, short, FailureTCPTimeout, 0},
		{"no TCP connection in time", fullBacklog, both(short, func(m *model.Monitor) { m.Type = model.MonitorTCP }), FailureTCPTimeout, 0},
		{"no answer in time", raw(never), short, FailureTimeout, 0},
		{"no handshake in time", raw(never), both(https, short), FailureTimeout, 0},
		{"no body in time", raw(func(c net.Conn) {
			says("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nall")(c)
			never(c)
		}), both(short, func(m *model.Monitor) { m.ExpectedBody = "all is well" }), FailureTimeout, 0},
		{"reset", raw(func(c net.Conn) {
			readHead(c)
			c.(*net.TCPConn).SetLinger(0)
		}), nil, FailureReset, 0},
		{"other code", plain(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }), nil, FailureCode, 503},
		{"redirect not followed", plain(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", 302) }), nil, FailureCode, 302},
		{"other body", plain(ok), func(m *model.Monitor) { m.ExpectedBody = "all is lost" }, FailureBody, 200},
		{"garbage", raw(says("SSH-2.0-OpenSSH\r\n")), nil, FailureInvalid, 0},
		{"no answer", raw(readHead), nil, FailureInvalid, 0},
		{"half a head", raw(says("HTTP/1.1 200 OK\r\nDate: ")), nil, FailureInvalid, 0},
		{"endless head", raw(func(c net.Conn) {
			says("HTTP/1.1 200 OK\r\n")(c)
			for {
				if _, err := io.WriteString(c, "X-Filler: 0123456789\r\n"); err != nil {
					return
				}
			}
		}), nil, FailureInvalid, 0},
		{"endless informational answers", raw(func(c net.Conn) {
			readHead(c)
			for {
				if _, err := io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n"); err != nil {
					return
				}
			}
		}), nil, FailureInvalid, 0},
		{"bad chunk", raw(says("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")), func(m *model.Monitor) { m.ExpectedBody = "x" }, FailureInvalid, 0},
		{"unknown authority", tlsPort(ok, server(newAuthority(t).certificate(t, hour, "127.0.0.1"))), https, FailureUntrusted, 0},
		{"expired", tlsPort(ok, server(ca.certificate(t, time.Now().Add(-time.Minute), "127.0.0.1"))), https, FailureUntrusted, 0},
		{"other address in the certificate", tlsPort(ok, server(ca.certificate(t, hour, "127.0.0.2"))), https, FailureName, 0},
		{"other name in the certificate", tlsPort(ok, server(good)), both(https, func(m *model.Monitor) { m.Header = map[string][]string{"Host": {"other.example.test"}} }), FailureName, 0},
		{"no TLS", raw(func(c net.Conn) {
			c.Read(make([]byte, 4096))
			io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
		}), https, FailureTLSProtocol, 0},
		{"old TLS", tlsPort(ok, &tls.Config{Certificates: []tls.Certificate{*good}, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}), https, FailureTLSProtocol, 0},
		{"alert: unrecognized name", raw(alert(112)), https, FailureUnrecognized, 0},
		{"alert: handshake failure", raw(alert(40)), https, FailureHandshake, 0},
		{"closed in the handshake", raw(func(c net.Conn) { c.Read(make([]byte, 4096)) }), https, FailureHandshake, 0},
		{"certificate asked for", tlsPort(ok, &tls.Config{Certificates: []tls.Certificate{*good}, ClientAuth: tls.RequireAnyClientCert}), https, FailureHandshake, 0},
		{"path that is none", closedPort, func(m *model.Monitor) { m.Path = "healthz" }, FailureConfig, 0},
		{"codes that are none", closedPort, func(m *model.Monitor) { m.ExpectedCodes = "ok" }, FailureConfig, 0},
		{"type of a later day", closedPort, func(m *model.Monitor) { m.Type = "later" }, FailureConfig, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := at(c.port(t), c.edit)
			target.RootCAs = ca.pool()
			r := once(t, target)
			if r.Failure != c.want || r.Code != c.code || r.Cause == "" {
				t.Errorf("result = %+v, want %s with code %d and a cause", r, c.want, c.code)
			}
		})
	}
}

// TestUnknownHost: a name that has no address yet is not probed.
func TestUnknownHost(t *testing.T) {
	target := at(80, nil)
	target.Host, target.Name = "www.example.test", new(resolve.Name)
	if r := once(t, target); r.Failure != FailureUnknownHost {
		t.Errorf("result = %+v, want %s", r, FailureUnknownHost)
	}
}

// TestFailureOf classifies what no server on the loopback can bring about.
func TestFailureOf(t *testing.T) {
	op := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	for _, c := range []struct {
		at   stage
		err  error
		want string
	}{
		{stageConnect, op(syscall.EHOSTUNREACH), FailureNoRoute},
		{stageConnect, op(syscall.EHOSTDOWN), FailureNoRoute},
		{stageConnect, op(syscall.ENETUNREACH), FailureUnreachable},
		{stageConnect, op(syscall.ETIMEDOUT), FailureTCPTimeout},
		{stageAnswer, op(syscall.ETIMEDOUT), FailureTimeout},
		{stageConnect, op(syscall.EADDRNOTAVAIL), FailureOther},
		{stageConnect, op(syscall.EMFILE), FailureOther},
		{stageConnect, op(syscall.EPERM), FailureOther},
		{stageAnswer, op(syscall.EPIPE), FailureReset},
		{stageTLS, op(syscall.ECONNRESET), FailureReset},
		{stageAnswer, op(syscall.EHOSTUNREACH), FailureNoRoute},
		{stageTLS, io.EOF, FailureHandshake},
		{stageAnswer, io.ErrUnexpectedEOF, FailureInvalid},
		{stageConnect, &net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}, FailureUnknownHost},
		{stageTLS, &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, FailureUntrusted},
		{stageTLS, &tls.CertificateVerificationError{Err: errors.New("any other")}, FailureUntrusted},
	} {
		if got := failureOf(c.at, c.err); got != c.want {
			t.Errorf("failureOf(%v, %v) = %s, want %s", c.at, c.err, got, c.want)
		}
	}
}

func TestFailuresAreListed(t *testing.T) {
	seen := make(map[string]bool)
	for _, f := range Failures() {
		if seen[f] || f == NoFailures {
			t.Errorf("%q is listed twice", f)
		}
		seen[f] = true
	}
	if len(seen) != 17 {
		t.Errorf("%d failures are listed, want 17", len(seen))
	}
}

func TestPassed(t *testing.T) {
	ca := newAuthority(t)
	cert := ca.certificate(t, time.Now().Add(time.Hour), "127.0.0.1")
	cfg := &tls.Config{Certificates: []tls.Certificate{*cert}}
	for _, c := range []struct {
		name string
		port func(*testing.T) int
		edit func(*model.Monitor)
		code int
	}{
		{"http", plain(ok), nil, 200},
		{"tcp", raw(never), func(m *model.Monitor) { m.Type = model.MonitorTCP }, 0},
		{"https", tlsPort(ok, cfg), func(m *model.Monitor) { m.Type = model.MonitorHTTPS }, 200},
		{"body in another case", plain(ok), func(m *model.Monitor) { m.ExpectedBody = "aLL is WELL" }, 200},
		{"listed codes", plain(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }), func(m *model.Monitor) { m.ExpectedCodes = "200-204,404" }, 404},
		{"HEAD", plain(ok), func(m *model.Monitor) { m.Method = http.MethodHead }, 200},
		{"informational answers first", raw(says("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")), nil, 200},
		{"HTTP/1.0", raw(says("HTTP/1.0 204 No Content\r\n\r\n")), nil, 204},
		{"a body that does not end", raw(func(c net.Conn) {
			says("HTTP/1.1 200 OK\r\n\r\ndata: ready\n\n")(c)
			never(c)
		}), func(m *model.Monitor) { m.ExpectedBody = "ready" }, 200},
		{"a body that nobody looks at", raw(func(c net.Conn) {
			says("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n")(c)
			never(c)
		}), nil, 200},
		{"the body's last searched byte", plain(func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, strings.Repeat("x", maxBody-5)+"ready"+strings.Repeat("x", maxBody))
		}), func(m *model.Monitor) { m.ExpectedBody = "READY" }, 200},
		{"an answer before the request is read", raw(func(c net.Conn) { io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n"); readHead(c) }), nil, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := at(c.port(t), c.edit)
			target.RootCAs = ca.pool()
			if r := once(t, target); !r.Passed() || r.Code != c.code || r.RTT <= 0 {
				t.Errorf("result = %+v, want passed with code %d and a round trip", r, c.code)
			}
		})
	}
}

func TestContains(t *testing.T) {
	for _, c := range []struct {
		body, text string
		want       bool
	}{
		{"", "x", false},
		{"x", "x", true},
		{"All Is Well", "IS WELL", true},
		{"straße ÄÖÜ", "äöü", true},
		{"\u212A", "k", true}, // KELVIN SIGN: three bytes, lower case one
		{strings.Repeat("ab", 5000) + "abc", "abc", true},
		{strings.Repeat("ab", 5000), "abc", false},
		{"\xff\xfeready\xff", "READY", true},
	} {
		for name, r := range map[string]io.Reader{
			"at once":  strings.NewReader(c.body),
			"by bytes": iotest.OneByteReader(strings.NewReader(c.body)),
			"by half":  iotest.HalfReader(strings.NewReader(c.body)),
			"with EOF": iotest.DataErrReader(strings.NewReader(c.body)),
		} {
			if got, err := contains(r, c.text); got != c.want || err != nil {
				t.Errorf("contains(%.20q %s, %q) = %v, %v", c.body, name, c.text, got, err)
			}
		}
	}
	if _, err := contains(iotest.ErrReader(io.ErrUnexpectedEOF), "x"); err != io.ErrUnexpectedEOF {
		t.Errorf("error = %v", err)
	}
}

// TestRequest checks what an endpoint is asked.
func TestRequest(t *testing.T) {
	ca := newAuthority(t)
	cert := ca.certificate(t, time.Now().Add(time.Hour), "127.0.0.1", "www.example.test", "mon.example.test", "tls.example.test")
	type seen struct {
		method, uri, host, sni, agent, accept, x string
		alpn                                     string
	}
	for _, c := range []struct {
		name   string
		edit   func(*Target)
		scheme model.MonitorType
		want   seen
	}{
		{"plain", nil, model.MonitorHTTP, seen{method: "GET", uri: "/", host: "127.0.0.1:PORT"}},
		{"path and query, method", func(t *Target) { t.Monitor.Path, t.Monitor.Method = "/healthz?deep=1&x=%20", "HEAD" }, model.MonitorHTTP,
			seen{method: "HEAD", uri: "/healthz?deep=1&x=%20", host: "127.0.0.1:PORT"}},
		{"monitor's Host and headers", func(t *Target) {
			t.Monitor.Header = map[string][]string{"Host": {"mon.example.test"}, "x-token": {"t"}, "User-Agent": {"other"}}
		}, model.MonitorHTTP, seen{method: "GET", uri: "/", host: "mon.example.test", x: "t"}},
		{"endpoint's Host before the monitor's", func(t *Target) {
			t.HostHeader = "www.example.test"
			t.Monitor.Header = map[string][]string{"Host": {"mon.example.test"}}
		}, model.MonitorHTTP, seen{method: "GET", uri: "/", host: "www.example.test"}},
		{"https by address sends no name", nil, model.MonitorHTTPS, seen{method: "GET", uri: "/", host: "127.0.0.1:PORT"}},
		{"https by Host", func(t *Target) { t.HostHeader = "www.example.test:8443" }, model.MonitorHTTPS,
			seen{method: "GET", uri: "/", host: "www.example.test:8443", sni: "www.example.test"}},
		{"https by server name", func(t *Target) { t.HostHeader, t.ServerName = "www.example.test", "tls.example.test" }, model.MonitorHTTPS,
			seen{method: "GET", uri: "/", host: "www.example.test", sni: "tls.example.test"}},
		{"allow_insecure", func(t *Target) { t.Monitor.AllowInsecure, t.RootCAs, t.HostHeader = true, nil, "any.example.test" }, model.MonitorHTTPS,
			seen{method: "GET", uri: "/", host: "any.example.test", sni: "any.example.test"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := make(chan seen, 1)
			var cfg *tls.Config
			if c.scheme == model.MonitorHTTPS {
				cfg = &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"h2", "http/1.1"}}
			}
			port := httpServer(t, func(w http.ResponseWriter, r *http.Request) {
				s := seen{method: r.Method, uri: r.RequestURI, host: r.Host, agent: r.UserAgent(), accept: r.Header.Get("Accept-Encoding"), x: r.Header.Get("X-Token")}
				if r.TLS != nil {
					s.sni, s.alpn = r.TLS.ServerName, r.TLS.NegotiatedProtocol
				}
				if r.ProtoMajor != 1 || !r.Close {
					t.Errorf("asked by %s, close %v; want HTTP/1.1 and close", r.Proto, r.Close)
				}
				got <- s
			}, cfg)
			target := at(port, func(m *model.Monitor) { m.Type = c.scheme })
			target.RootCAs = ca.pool()
			if c.edit != nil {
				c.edit(&target)
			}
			if r := once(t, target); !r.Passed() {
				t.Fatalf("result = %+v", r)
			}
			want := c.want
			want.host = strings.Replace(want.host, "PORT", fmt.Sprint(port), 1)
			want.agent = "Mozilla/5.0 (compatible; Fairlead-Monitor/1.0; pool: web)"
			if c.scheme == model.MonitorHTTPS {
				want.alpn = "http/1.1"
			}
			if s := <-got; s != want {
				t.Errorf("asked %+v,\nwant  %+v", s, want)
			}
		})
	}
}

// TestHost covers the defaults of ports, which tests cannot listen on.
func TestHost(t *testing.T) {
	for _, c := range []struct {
		host        string
		port, probe int
		scheme      int
		want        string
	}{
		{"192.0.2.1", 80, 0, 80, "192.0.2.1"},
		{"192.0.2.1", 443, 0, 80, "192.0.2.1:443"},
		{"192.0.2.1", 8080, 80, 80, "192.0.2.1"},
		{"www.example.test", 443, 0, 443, "www.example.test"},
		{"2001:db8::1", 443, 0, 443, "[2001:db8::1]"},
		{"2001:db8::1", 443, 8443, 443, "[2001:db8::1]:8443"},
	} {
		target := Target{Host: c.host, Port: c.port, Monitor: &model.Monitor{Port: c.probe}}
		if got := target.host(c.scheme); got != c.want {
			t.Errorf("host of %s:%d (monitor %d) = %s, want %s", c.host, c.port, c.probe, got, c.want)
		}
	}
}

// TestMonitorPort is the public case on ports: the monitor's is probed and no
// other, and without one each endpoint has its own verdict.
func TestMonitorPort(t *testing.T) {
	touched := func(t *testing.T) int {
		return rawServer(t, func(net.Conn) { t.Error("the traffic port was probed") })
	}
	health := httpServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			w.WriteHeader(404)
		}
	}, nil)
	for range 2 {
		if r := once(t, at(touched(t), func(m *model.Monitor) { m.Path, m.Port = "/healthz", health })); !r.Passed() {
			t.Errorf("result = %+v", r)
		}
	}
	log, _ := newLog(t)
	table := NewTable(log)
	c := NewChecker(CheckerConfig{Table: table})
	defer c.Close()
	m := monitor(func(m *model.Monitor) { m.Path = "/healthz" })
	var targets []Target
	var members []Member
	for i, status := range []int{200, 503} {
		port := httpServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }, nil)
		k := Key{"web", fmt.Sprint("a", i), fmt.Sprint("127.0.0.1:", port)}
		e := table.Endpoint(k, true)
		members = append(members, Member{e, true})
		targets = append(targets, Target{Key: k, Endpoint: e, Monitor: m, Host: "127.0.0.1", Port: port})
	}
	p := table.Pool("web", members, 1)
	c.Prime(t.Context(), targets)
	if !p.Up(0) || p.Up(1) || p.State() != PoolDegraded {
		t.Errorf("up = %v, %v; state %v", p.Up(0), p.Up(1), p.State())
	}
	if d := members[1].Endpoint.Detail(); d.Code != 503 || d.Failure != FailureCode {
		t.Errorf("detail = %+v", d)
	}
	if _, ok := members[0].Endpoint.Latency().Value(); !ok {
		t.Error("the passed probe has left no round trip")
	}
}

func TestRedirects(t *testing.T) {
	ca := newAuthority(t)
	cert := ca.certificate(t, time.Now().Add(time.Hour), "127.0.0.1", "www.example.test")
	secure := httpServer(t, ok, &tls.Config{Certificates: []tls.Certificate{*cert}})
	other := httpServer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Token") != "" {
			w.WriteHeader(418) // a secret that was for another host
		}
	}, nil)
	mux := http.NewServeMux()
	to := func(path string, code int, location string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", location)
			w.WriteHeader(code)
		})
	}
	mux.HandleFunc("/end", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Token") != "t" {
			w.WriteHeader(418)
		}
	})
	mux.HandleFunc("/method", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Method) })
	to("/relative", 302, "end")
	to("/absolute", 301, "http://www.example.test/end")
	to("/loop", 302, "/loop")
	to("/ftp", 302, "ftp://www.example.test/")
	to("/nowhere", 302, "")
	to("/other", 307, fmt.Sprintf("http://localhost:%d/", other))
	to("/secure", 308, fmt.Sprintf("https://www.example.test:%d/", secure))
	to("/port", 302, "http://www.example.test:99999/")
	to("/seeother", 303, "/method")
	for i := range maxRedirects {
		to(fmt.Sprintf("/hop/%d", i), 302, fmt.Sprintf("/hop/%d", i+1))
	}
	to("/far", 302, "/hop/0")
	mux.HandleFunc("/hop/10", func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		path, method, body string
		want               string
		code               int
	}{
		{"/relative", "GET", "", "", 200},
		{"/absolute", "GET", "", "", 200}, // the endpoint itself, whatever port it is on
		{"/loop", "GET", "", FailureCode, 302},
		{"/ftp", "GET", "", FailureCode, 302},
		{"/nowhere", "GET", "", FailureCode, 302},
		{"/other", "GET", "", "", 200},
		{"/secure", "GET", "is well", "", 200},
		{"/port", "GET", "", FailureOther, 0},
		{"/seeother", "POST", "get", "", 200},
		{"/hop/0", "GET", "", "", 200},
		{"/far", "GET", "", FailureCode, 302},
	} {
		t.Run(c.path[1:], func(t *testing.T) {
			target := at(httpServer(t, mux.ServeHTTP, nil), func(m *model.Monitor) {
				m.Path, m.Method, m.ExpectedBody, m.FollowRedirects = c.path, c.method, c.body, true
				m.Header = map[string][]string{"Host": {"www.example.test"}, "X-Token": {"t"}}
			})
			target.RootCAs = ca.pool()
			if r := once(t, target); r.Failure != c.want || r.Code != c.code {
				t.Errorf("result = %+v, want %q with code %d", r, c.want, c.code)
			}
		})
	}
}

// TestSourceAddress: probes come from the node's address of the family.
func TestSourceAddress(t *testing.T) {
	from := make(chan string, 1)
	port := rawServer(t, func(c net.Conn) {
		host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		from <- host
	})
	target := at(port, func(m *model.Monitor) { m.Type = model.MonitorTCP })
	target.SourceAddresses = []netip.Addr{netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("127.0.0.9")}
	if r := once(t, target); !r.Passed() {
		t.Fatalf("result = %+v", r)
	}
	if got := <-from; got != "127.0.0.9" {
		t.Errorf("came from %s, want 127.0.0.9", got)
	}
}

// TestSame: what a check depends on makes another target, and nothing else.
func TestSame(t *testing.T) {
	base := at(80, nil)
	ca := newAuthority(t)
	for _, c := range []struct {
		name string
		edit func(*Target)
		want bool
	}{
		{"nothing", func(*Target) {}, true},
		{"name of the monitor", func(t *Target) { t.Monitor.Name, t.Monitor.Description = "x", "y" }, true},
		{"headers written anew", func(t *Target) { t.Monitor.Header = map[string][]string{"A": {"b"}} }, false},
		{"interval", func(t *Target) { t.Monitor.Interval++ }, false},
		{"port", func(t *Target) { t.Port++ }, false},
		{"Host", func(t *Target) { t.HostHeader = "x" }, false},
		{"authorities", func(t *Target) { t.RootCAs = ca.pool() }, false},
		{"certificate", func(target *Target) { target.Certificate = ca.certificate(t, time.Now().Add(time.Hour)) }, false},
		{"TLS", func(t *Target) { t.TLS = true }, false},
		{"source", func(t *Target) { t.SourceAddresses = []netip.Addr{netip.IPv6Loopback()} }, false},
		{"endpoint", func(t *Target) { t.Endpoint = new(Endpoint) }, false},
	} {
		o := base
		m := *base.Monitor
		o.Monitor = &m
		c.edit(&o)
		if got := base.same(&o); got != c.want {
			t.Errorf("%s: same = %v, want %v", c.name, got, c.want)
		}
	}
}

// TestBounded: what endpoints put into causes fits a log line.
func TestBounded(t *testing.T) {
	if s := bounded(strings.Repeat("ä", 1000)); len(s) > 270 || strings.ContainsRune(s[:200], '\uFFFD') {
		t.Errorf("%d bytes: %q", len(s), s)
	}
}

// A probe judges the pins that traffic meets, whatever it does not verify. A
// redirect to another host leaves them behind.
func TestPins(t *testing.T) {
	ca := newAuthority(t)
	cert := ca.certificate(t, time.Now().Add(time.Hour), "127.0.0.1", "localhost")
	other := ca.certificate(t, time.Now().Add(time.Hour), "127.0.0.1")
	pin := func(c *tls.Certificate) string {
		leaf, err := x509.ParseCertificate(c.Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		return model.PinOf(leaf.RawSubjectPublicKeyInfo)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"h2"}}
	port := httpServer(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }, cfg)
	from := httpServer(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, fmt.Sprintf("https://localhost:%d/", port), http.StatusFound)
	}, &tls.Config{Certificates: []tls.Certificate{*other}})
	for _, c := range []struct {
		name string
		port int
		pins []string
		edit func(*model.Monitor)
		want string
	}{
		{"pinned", port, []string{pin(other), pin(cert)}, nil, ""},
		{"not pinned", port, []string{pin(other)}, nil, FailureUntrusted},
		{"not pinned, nothing else verified", port, []string{pin(other)}, func(m *model.Monitor) { m.AllowInsecure = true }, FailureUntrusted},
		{"redirect", from, []string{pin(other)}, func(m *model.Monitor) { m.FollowRedirects = true }, ""},
		{"redirect from one that is not pinned", from, []string{pin(cert)}, func(m *model.Monitor) { m.FollowRedirects = true }, FailureUntrusted},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := at(c.port, func(m *model.Monitor) {
				m.Type = model.MonitorHTTPS
				if c.edit != nil {
					c.edit(m)
				}
			})
			target.RootCAs, target.Pins = ca.pool(), c.pins
			if r := once(t, target); r.Failure != c.want {
				t.Errorf("result = %+v, want %q", r, c.want)
			}
		})
	}
}
