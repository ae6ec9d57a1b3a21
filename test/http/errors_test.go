package http_test

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"fairlead/test/lab"
)

// edgeErrors are all errors that Fairlead answers with instead of an endpoint. Each
// has a host of its own.
var edgeErrors = []struct {
	name   string // of the load balancer's first label, and of its pool
	pool   string // keys of the pool
	addr   func(t *testing.T, ca *lab.CA) string
	status int
	title  string
	reason string
	here   bool // no endpoint is at fault
}{
	{name: "silent", status: 520, title: "Unknown Error", reason: "empty_answer", addr: func(t *testing.T, _ *lab.CA) string {
		return lab.NewOrigin(t, func(c *lab.OriginConn) { c.Head() }).Addr
	}},
	{name: "babble", status: 520, title: "Unknown Error", reason: "bad_answer", addr: func(t *testing.T, _ *lab.CA) string {
		return lab.NewOrigin(t, lab.Answer("babble\r\n\r\n")).Addr
	}},
	{name: "half", status: 520, title: "Unknown Error", reason: "bad_answer", addr: func(t *testing.T, _ *lab.CA) string {
		return lab.NewOrigin(t, func(c *lab.OriginConn) { c.Head(); c.Say("HTTP/1.1 200 OK\r\nX: ") }).Addr
	}},
	{name: "refusing", status: 521, title: "Web Server Is Down", reason: "refused", addr: func(t *testing.T, _ *lab.CA) string {
		return lab.Refusing(t)
	}},
	{name: "hole", pool: "connect_timeout: 100ms", status: 522, title: "Connection Timed Out", reason: "connect_timeout",
		addr: func(t *testing.T, _ *lab.CA) string { return lab.Blackhole(t) }},
	// Which link this address is on, nobody can say: the kernel refuses it.
	{name: "nowhere", status: 523, title: "Origin Is Unreachable", reason: "unreachable", addr: func(*testing.T, *lab.CA) string {
		return "[fe80::1]:80"
	}},
	{name: "slow", pool: "answer_timeout: 100ms", status: 524, title: "A Timeout Occurred", reason: "answer_timeout",
		addr: func(t *testing.T, _ *lab.CA) string { return lab.NewOrigin(t, silent).Addr }},
	{name: "plain", pool: "protocol: https", status: 525, title: "SSL Handshake Failed", reason: "tls_handshake",
		addr: func(t *testing.T, _ *lab.CA) string {
			return lab.NewOrigin(t, func(c *lab.OriginConn) {
				c.Read(make([]byte, 1))
				c.Say("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
			}).Addr
		}},
	{name: "mute", pool: "protocol: https, connect_timeout: 100ms", status: 525, title: "SSL Handshake Failed", reason: "tls_handshake",
		addr: func(t *testing.T, _ *lab.CA) string { return lab.NewOrigin(t, silent).Addr }},
	{name: "othername", pool: "protocol: https, tls: {ca: CA, server_name: wrong.example.com}", status: 526, title: "Invalid SSL Certificate",
		reason: "invalid_certificate", addr: func(t *testing.T, ca *lab.CA) string {
			return secure(t, &tls.Config{Certificates: []tls.Certificate{ca.Issue("right.example.com").TLS}}, "x")
		}},
	{name: "otherca", pool: "protocol: https, tls: {server_name: right.example.com}", status: 526, title: "Invalid SSL Certificate",
		reason: "invalid_certificate", addr: func(t *testing.T, ca *lab.CA) string {
			return secure(t, &tls.Config{Certificates: []tls.Certificate{ca.Issue("right.example.com").TLS}}, "x")
		}},
	{name: "otherkey", pool: "protocol: https, tls: {ca: CA, server_name: right.example.com, pins: [sha256/47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=]}",
		status: 526, title: "Invalid SSL Certificate", reason: "invalid_certificate", addr: func(t *testing.T, ca *lab.CA) string {
			return secure(t, &tls.Config{Certificates: []tls.Certificate{ca.Issue("right.example.com").TLS}}, "x")
		}},
	{name: "nopool", pool: "enabled: false", status: 530, title: "No Healthy Pool", reason: "no_pool", here: true,
		addr: func(t *testing.T, _ *lab.CA) string { return lab.Refusing(t) }},
	{name: "noname", status: 530, title: "Name Not Resolved", reason: "name_not_resolved",
		addr: func(*testing.T, *lab.CA) string { return "nowhere.invalid:80" }},
}

// secure serves name over TLS.
func secure(t *testing.T, cfg *tls.Config, name string) string {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, name+" for "+r.TLS.ServerName)
	}))
	s.TLS = cfg
	s.Config.ErrorLog = quiet(t)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// pinOf returns the pin of a certificate's key, as openssl makes it of the file.
func pinOf(t *testing.T, c tls.Certificate) string {
	t.Helper()
	leaf, err := x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
	return "sha256/" + base64.StdEncoding.EncodeToString(sum[:])
}

func TestEdgeErrors(t *testing.T) {
	t.Parallel()
	ca := lab.NewCA(t)
	cert := ca.Issue("*.example.com")
	var pools, balancers strings.Builder
	for _, e := range edgeErrors {
		keys := strings.ReplaceAll(e.pool, "CA", ca.File)
		fmt.Fprintf(&pools, "  - {name: %s, endpoints: [{name: A, address: %q}]%s}\n", e.name, e.addr(t, ca), more(keys))
		fmt.Fprintf(&balancers, "  - {name: %s.example.com, proxied: true, default_pools: [%[1]s]}\n", e.name)
	}
	n := lab.Start(t, fmt.Sprintf(`
access_log: {output: %q}
listeners:
  - {name: web, address: "127.0.0.1:0", protocol: http}
  - {name: websecure, address: "127.0.0.1:0", protocol: https, certificates: [{certificate: %q, key: %q}]}
pools:
%sload_balancers:
%s`, filepath.Join(t.TempDir(), "access.log"), cert.CertFile, cert.KeyFile, pools.String(), balancers.String()))
	errors := append(edgeErrors, edgeErrors[0])
	last := &errors[len(errors)-1]
	last.name, last.status, last.title, last.reason, last.here = "unknown", 404, "Not Found", "no_load_balancer", true

	t.Run("errors", func(t *testing.T) {
		for _, e := range errors {
			t.Run(e.name, func(t *testing.T) {
				t.Parallel()
				c := lab.Dial(t, n.Addr("web"))
				name := e.name + ".example.com"
				for range 2 { // the client's connection lives on
					c.Send("GET /1 HTTP/1.1\r\nHost: " + name + "\r\n\r\n")
					r := c.Response("GET")
					equal(t, "status line", r.Status, fmt.Sprintf("%d %s", e.status, e.title))
					equal(t, "Content-Type", r.Header.Get("Content-Type"), "text/plain; charset=utf-8")
					equal(t, "Cache-Control", r.Header.Get("Cache-Control"), "no-store")
					equal(t, "Content-Length", r.ContentLength, int64(len(r.Text)))
					if !strings.HasPrefix(r.Text, fmt.Sprintf("%d %s\n\n", e.status, e.title)) {
						t.Errorf("page = %q", r.Text)
					}
				}
				s := server{n, n.Addr("websecure"), ca}
				res, err := s.client(t, v2).Get("https://" + name + "/1")
				if err != nil {
					t.Fatal(err)
				}
				b, _ := io.ReadAll(res.Body)
				res.Body.Close()
				equal(t, "status in HTTP/2", res.StatusCode, e.status)
				if !strings.HasPrefix(string(b), fmt.Sprintf("%d %s\n\n", e.status, e.title)) {
					t.Errorf("page in HTTP/2 = %q", b)
				}
				if !e.here {
					equal(t, "errors of the endpoint", n.Metric("fairlead_endpoint_errors_total", "pool", e.name,
						"status", strconv.Itoa(e.status), "reason", e.reason), 3)
					equal(t, "requests by class", n.Metric("fairlead_http_requests_total", "load_balancer", name, "class", "5xx"), 3)
				}
			})
		}
	})

	wanted := make(map[string]float64)
	byHost := make(map[string]int)
	for i, e := range errors {
		wanted[e.reason] += 2
		byHost[e.name+".example.com"] = i
	}
	for reason, count := range wanted {
		equal(t, "errors for "+reason, n.Metric("fairlead_http_errors_total", "listener", "web", "reason", reason), count)
	}
	equal(t, "unrouted", n.Metric("fairlead_http_unrouted_total", "listener", "web", "class", "4xx"), 2)
	for _, r := range n.AccessLog(3 * len(errors)) {
		e := errors[byHost[r["host"].(string)]]
		equal(t, e.name+": status in the access log", r["status"], any(float64(e.status)))
		equal(t, e.name+": error in the access log", r["error"], any(e.reason))
		if r["error_detail"] == "" && !e.here {
			t.Errorf("%s: no error_detail in the access log", e.name)
		}
	}
}

func TestSecurePools(t *testing.T) {
	t.Parallel()
	ca := lab.NewCA(t)
	ours := ca.Issue("fairlead.example.com")
	ofPlain := ca.Issue("a.example.com", "127.0.0.1").TLS
	plain := secure(t, &tls.Config{Certificates: []tls.Certificate{ofPlain}}, "plain")
	pin := pinOf(t, ofPlain)
	otherPin := pinOf(t, ca.Issue("a.example.com").TLS)
	mutual := secure(t, &tls.Config{Certificates: []tls.Certificate{ca.Issue("a.example.com").TLS},
		ClientCAs: ca.Pool, ClientAuth: tls.RequireAndVerifyClientCert}, "mutual")
	mutual12 := secure(t, &tls.Config{Certificates: []tls.Certificate{ca.Issue("a.example.com").TLS}, MaxVersion: tls.VersionTLS12,
		ClientCAs: ca.Pool, ClientAuth: tls.RequireAndVerifyClientCert}, "mutual")
	pair := fmt.Sprintf("certificate: %q, key: %q", ours.CertFile, ours.KeyFile)
	for _, c := range []struct{ name, tls, endpoint, addr, want string }{
		{"server_name", "server_name: a.example.com", "", plain, "plain for a.example.com"},
		{"name of the Host header", "", "header: {Host: [a.example.com]}", plain, "plain for a.example.com"},
		{"IP address", "", "", plain, "plain for "},
		{"client certificate", "server_name: a.example.com, " + pair, "", mutual, "mutual for a.example.com"},
		{"client certificate in TLS 1.2", "server_name: a.example.com, " + pair, "", mutual12, "mutual for a.example.com"},
		{"no client certificate", "server_name: a.example.com", "", mutual, "525"},
		{"no client certificate in TLS 1.2", "server_name: a.example.com", "", mutual12, "525"},
		{"pinned key", "pins: [" + otherPin + ", " + pin + "]", "", plain, "plain for "},
		{"another key than the pinned one", "pins: [" + otherPin + "]", "", plain, "526"},
		{"pinned key, wrong name", "server_name: b.example.com, pins: [" + pin + "]", "", plain, "526"},
		{"wrong name", "server_name: b.example.com", "", plain, "526"},
		{"wrong name of the Host header", "", "header: {Host: [b.example.com]}", plain, "526"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := lab.Start(t, fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools: [{name: p, protocol: https, tls: {ca: %q%s}, endpoints: [{name: A, address: %q%s}]}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [p]}]
`, ca.File, more(c.tls), c.addr, more(c.endpoint)))
			cl := lab.Dial(t, n.Addr("web"))
			for range 2 {
				cl.Send(get("/", ""))
				r := cl.Response("GET")
				got := r.Text
				if r.StatusCode != 200 {
					got = strconv.Itoa(r.StatusCode)
				}
				equal(t, "answer", got, c.want)
			}
			if !strings.HasPrefix(c.want, "5") {
				equal(t, "connections", n.Metric("fairlead_endpoint_connects_total"), 1)
			}
		})
	}
}

// A connection over TLS that the endpoint has closed is not used again, though
// the endpoint's farewell waits in it.
func TestSecureConnectionEnds(t *testing.T) {
	t.Parallel()
	ca := lab.NewCA(t)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{ca.Issue("127.0.0.1").TLS}})
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan struct{})
	o := lab.NewOriginOn(t, ln, func(c *lab.OriginConn) {
		if _, err := c.Head(); err == nil {
			c.Say(lab.OK)
			c.Conn.(*tls.Conn).CloseWrite()
			c.Conn.(*tls.Conn).NetConn().(*net.TCPConn).CloseWrite()
			closed <- struct{}{}
			c.AwaitEnd()
		}
	})
	s := site{endpoints: []string{o.Addr}, pool: fmt.Sprintf("protocol: https, tls: {ca: %q}", ca.File)}.start(t)
	cl := s.dial(t)
	for range 5 {
		cl.Send(request("POST", "/", "Content-Length: 1\r\n", "x"))
		equal(t, "status", cl.Response("POST").StatusCode, 200)
		<-closed
	}
}
