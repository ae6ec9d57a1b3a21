package http_test

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"fairlead/internal/loop/looptest"
	"fairlead/test/lab"
)

// TestMain lets many tests run at once: they wait more than they compute. Those
// that compute much are not parallel, so that they run before the others, whose
// times they would upset. While they run, it looks whether anything in a node
// blocks an event loop.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "16")
	looptest.Main(m)
}

// host is the load balancer that most tests ask for.
const host = "www.example.com"

// site is the configuration that most tests need: a listener, a pool and a load
// balancer. The texts are further keys in YAML's flow style.
type site struct {
	endpoints []string // addresses; they are named A, B and so on
	pool      string   // keys of the pool
	balancer  string   // keys of the load balancer
	listener  string   // keys of the listener
	tls       bool     // the listener speaks https, and HTTP/3
	noHTTP3   bool     // it does not
	top       string   // lines of the top level, in block style
	pools     string   // further pools
}

// server is a running site.
type server struct {
	*lab.Node
	addr string
	ca   *lab.CA // of a listener that speaks https
}

// start runs the site until the test ends. Its access log is a file.
func (s site) start(t *testing.T) server {
	t.Helper()
	var ca *lab.CA
	protocol := "protocol: http"
	if s.tls {
		ca = lab.NewCA(t)
		c := ca.Issue(host, "*.example.com")
		protocol = fmt.Sprintf("protocol: https, certificates: [{certificate: %q, key: %q}]", c.CertFile, c.KeyFile)
		if !s.noHTTP3 {
			protocol += ", http3: true"
		}
	}
	var endpoints []string
	for i, a := range s.endpoints {
		endpoints = append(endpoints, fmt.Sprintf("{name: %c, address: %q}", 'A'+i, a))
	}
	n := lab.Start(t, fmt.Sprintf(`
%s
access_log: {output: %q}
listeners: [{name: web, address: "127.0.0.1:0", %s%s}]
pools: [{name: p, endpoints: [%s]%s}%s]
load_balancers: [{name: %s, proxied: true, default_pools: [p]%s}]
`, s.top, filepath.Join(t.TempDir(), "access.log"), protocol, more(s.listener), strings.Join(endpoints, ", "), more(s.pool), more(s.pools), host, more(s.balancer)))
	return server{n, n.Addr("web"), ca}
}

func more(keys string) string {
	if keys == "" {
		return ""
	}
	return ", " + keys
}

// limits are keys of a listener.
func limits(keys string) string { return "limits: {" + keys + "}" }

// dial connects to the site in HTTP/1.1.
func (s server) dial(t *testing.T) *lab.Client {
	t.Helper()
	if s.ca == nil {
		return lab.Dial(t, s.addr)
	}
	return lab.DialTLS(t, s.addr, s.ca.Client(host, "http/1.1"))
}

// raw is [lab.Raw] for the site.
func (s server) raw(t *testing.T, pieces ...any) lab.Reply {
	t.Helper()
	return s.dial(t).Raw(pieces...)
}

// httpVersion is a version of HTTP.
type httpVersion int

const (
	v1 httpVersion = 1
	v2 httpVersion = 2
	v3 httpVersion = 3
)

// client returns an HTTP client that reaches the site whatever the URL's host, and
// speaks a version of HTTP.
func (s server) client(t *testing.T, v httpVersion) *http.Client {
	if v == v3 {
		return clientOver(s.transport3(t))
	}
	tr := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.addr)
		},
		DisableCompression: true, MaxIdleConnsPerHost: 100,
	}
	if s.ca != nil {
		tr.TLSClientConfig = &tls.Config{RootCAs: s.ca.Pool}
		tr.ForceAttemptHTTP2 = v == v2
		if v == v1 {
			tr.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
		}
	}
	t.Cleanup(tr.CloseIdleConnections)
	return clientOver(tr)
}

// clientOver returns an HTTP client that follows no redirects.
func clientOver(tr http.RoundTripper) *http.Client {
	return &http.Client{Transport: tr, Timeout: 20 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// transport3 is a client of HTTP/3 with a socket of its own.
func (s server) transport3(t *testing.T) *http3.Transport {
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	qt := &quic.Transport{Conn: udp}
	tr := &http3.Transport{
		TLSClientConfig: s.ca.Client(host), DisableCompression: true,
		Dial: func(ctx context.Context, _ string, tlsConfig *tls.Config, config *quic.Config) (*quic.Conn, error) {
			return qt.Dial(ctx, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(s.addr)), tlsConfig, config)
		},
	}
	t.Cleanup(func() {
		tr.Close()
		qt.Close()
		udp.Close()
	})
	return tr
}

// url is the site's, for client.
func (s server) url(path string) string {
	if s.ca != nil {
		return "https://" + host + path
	}
	return "http://" + host + path
}

// get makes a request with a Host and more field lines.
func get(path, lines string) string { return request("GET", path, lines, "") }

func request(method, path, lines, body string) string {
	return method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + lines + "\r\n" + body
}

// protocols runs a test over HTTP/1.1, over HTTP/1.1 in TLS, over HTTP/2 and over
// HTTP/3.
func protocols(t *testing.T, test func(t *testing.T, tls bool, v httpVersion)) {
	t.Run("http1", func(t *testing.T) { t.Parallel(); test(t, false, v1) })
	t.Run("https1", func(t *testing.T) { t.Parallel(); test(t, true, v1) })
	t.Run("http2", func(t *testing.T) { t.Parallel(); test(t, true, v2) })
	t.Run("http3", func(t *testing.T) { t.Parallel(); test(t, true, v3) })
}

// equal compares what was got with what is wanted.
func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %#v, want %#v", what, got, want)
	}
}

// quiet is the error log of servers that are meant to fail: seen only with the
// test's own output.
func quiet(t *testing.T) *log.Logger { return log.New(t.Output(), "", 0) }
