package acme_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead/internal/loop/looptest"
	"fairlead/test/lab"
	"fairlead/test/pebble"
)

// TestMain looks whether anything in a node blocks an event loop.
func TestMain(m *testing.M) { looptest.Main(m) }

// relay is a port that leads to a listener of a node, which is not there when an
// authority has to know the port. Connections wait until it is.
type relay struct {
	port int

	mu    sync.Mutex
	to    string
	leads chan struct{} // closed while to is known
}

func newRelay(t *testing.T) *relay {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{port: ln.Addr().(*net.TCPAddr).Port, leads: make(chan struct{})}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer in.Close()
				r.mu.Lock()
				leads := r.leads
				r.mu.Unlock()
				select {
				case <-leads:
				case <-time.After(10 * time.Second):
					return
				}
				r.mu.Lock()
				to := r.to
				r.mu.Unlock()
				out, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer out.Close()
				go func() {
					io.Copy(out, in)
					out.(*net.TCPConn).CloseWrite()
				}()
				io.Copy(in, out)
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	return r
}

func (r *relay) lead(addr string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = addr
	close(r.leads)
}

// hold makes connections wait for the next listener.
func (r *relay) hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leads = make(chan struct{})
}

// get asks a listener for a name over TLS.
func get(addr, name string, roots *x509.CertPool, cert *tls.Certificate) (string, error) {
	tr := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
		TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, DisableKeepAlives: true,
	}
	if cert != nil {
		tr.TLSClientConfig.Certificates = []tls.Certificate{*cert}
	}
	c := http.Client{Transport: tr, Timeout: 5 * time.Second}
	res, err := c.Get("https://" + name + "/")
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return fmt.Sprintf("%s %s", res.Proto, b), err
}

// await waits until a name is served over TLS.
func await(t *testing.T, addr, name string, roots *x509.CertPool, cert *tls.Certificate) {
	t.Helper()
	lab.AwaitWithin(t, 30*time.Second, name+" over TLS", func() bool {
		got, err := get(addr, name, roots, cert)
		if err == nil && !strings.HasPrefix(got, "HTTP/2.0 ") {
			t.Fatalf("answer %q", got)
		}
		return err == nil
	})
}

// yaml is the configuration of most tests.
func yaml(a *pebble.Authority, dir, listeners, endpoint string) string {
	return fmt.Sprintf(`
data_dir: %q
acme: {directory: %q, ca: %q, accept_terms_of_service: true}
listeners:
%s
pools: [{name: p, endpoints: [{name: A, address: %q}]}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [p]}, {name: new.example.com, proxied: true, default_pools: [p]}]
`, dir, a.Directory, a.CA, listeners, endpoint)
}

const (
	plain  = `  - {name: web, address: "127.0.0.1:0", protocol: http}` + "\n"
	secure = `  - {name: websecure, address: "127.0.0.1:0", protocol: https, acme: [www.example.com]%s}` + "\n"
)

// Names are proved on the listeners themselves, whatever these ask of clients. A
// request that no authority awaits goes to the endpoint.
func TestChallenges(t *testing.T) {
	t.Parallel()
	clients := lab.NewCA(t)
	alice := clients.Issue("alice").TLS
	for _, c := range []struct {
		name      string
		http, tls bool
		keys      string // of the listener
		cert      *tls.Certificate
	}{
		{"TLS-ALPN-01", false, true, "", nil},
		{"TLS-ALPN-01 where clients show certificates", false, true, fmt.Sprintf(", min_tls_version: \"1.3\", client_certificates: {ca: %q}", clients.File), &alice},
		{"HTTP-01", true, false, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := lab.NewEndpoint(t, "A")
			toHTTP, toTLS := newRelay(t), newRelay(t)
			conf := pebble.Config{}
			listeners := fmt.Sprintf(secure, c.keys)
			if c.http {
				conf.HTTP = toHTTP.port
				listeners = plain + listeners
			}
			if c.tls {
				conf.TLS = toTLS.port
			}
			a := pebble.Start(t, conf)
			n := lab.Start(t, yaml(a, t.TempDir(), listeners, e.Addr))
			toHTTP.lead(n.Addr(map[bool]string{true: "web", false: "websecure"}[c.http]))
			toTLS.lead(n.Addr("websecure"))
			await(t, n.Addr("websecure"), "www.example.com", a.Roots(), c.cert)
			n.AwaitMetric(1, "fairlead_acme_issued_total", "name", "www.example.com", "kind", "first")
			if c.cert != nil {
				if got, err := get(n.Addr("websecure"), "www.example.com", a.Roots(), nil); err == nil {
					t.Errorf("a client without a certificate is served %q", got)
				}
			}
			// Nobody is let in by the protocol of the challenge.
			nc, err := tls.Dial("tcp", n.Addr("websecure"), &tls.Config{ServerName: "www.example.com", InsecureSkipVerify: true, NextProtos: []string{"acme-tls/1"}})
			if err == nil {
				nc.Close()
				t.Error("a handshake for a challenge that nobody awaits succeeds")
			}
			if c.http {
				lines := "GET /.well-known/acme-challenge/token HTTP/1.1\r\nHost: www.example.com\r\nConnection: close\r\n\r\n"
				if got := lab.Raw(t, n.Addr("web"), lines).Body(); !strings.Contains(got, "A") {
					t.Errorf("a request that no authority awaits: %q, want the endpoint's answer", got)
				}
			}
		})
	}
}

// A node starts and serves what it has while the authority is away: plain listeners,
// and over TLS what was stored. A reload adds a name.
func TestStart(t *testing.T) {
	t.Parallel()
	e := lab.NewEndpoint(t, "A")
	toTLS := newRelay(t)
	a := pebble.Start(t, pebble.Config{TLS: toTLS.port})
	dir := t.TempDir()
	text := yaml(a, dir, plain+fmt.Sprintf(secure, ""), e.Addr)
	a.Down()
	n := lab.Start(t, text)
	toTLS.lead(n.Addr("websecure"))
	if got := lab.Raw(t, n.Addr("web"), "GET / HTTP/1.1\r\nHost: www.example.com\r\nConnection: close\r\n\r\n").Status(); !strings.Contains(got, "200") {
		t.Errorf("a plain request while there is no certificate: %q", got)
	}
	if got, err := get(n.Addr("websecure"), "www.example.com", a.Roots(), nil); err == nil {
		t.Errorf("without a certificate: %q, want the handshake refused", got)
	}
	n.AwaitMetric(1, "fairlead_acme_certificate_stale", "name", "www.example.com")
	n.Stop()
	toTLS.hold()
	a.Up()

	n = lab.Start(t, text)
	toTLS.lead(n.Addr("websecure"))
	await(t, n.Addr("websecure"), "www.example.com", a.Roots(), nil)
	n.Stop()
	toTLS.hold()
	a.Down()

	n = lab.Start(t, text)
	toTLS.lead(n.Addr("websecure"))
	if _, err := get(n.Addr("websecure"), "www.example.com", a.Roots(), nil); err != nil {
		t.Errorf("with a stored certificate, at once: %v", err)
	}
	a.Up()
	n.Write(strings.Replace(text, "acme: [www.example.com]", "acme: [www.example.com, new.example.com]", 1))
	n.AwaitRevision(2)
	await(t, n.Addr("websecure"), "new.example.com", a.Roots(), nil)
	if got := n.Metric("fairlead_acme_issued_total", "name", "www.example.com"); got != 0 {
		t.Errorf("%v certificates for a name that has one stored", got)
	}
}
