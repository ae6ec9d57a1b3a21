package http_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quic-go/quic-go/http3"

	"fairlead/test/lab"
)

// shown makes a client show a certificate.
func shown(c *http.Client, cert lab.Certificate) *http.Client {
	show := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert.TLS, nil }
	switch tr := c.Transport.(type) {
	case *http.Transport:
		tr.TLSClientConfig.GetClientCertificate = show
	case *http3.Transport:
		tr.TLSClientConfig.GetClientCertificate = show
	}
	return c
}

// subjectHeader is a header that an endpoint believes.
const subjectHeader = "X-Client-Certificate-Subject"

// Endpoints are told who a client is, and by nobody but Fairlead: not by headers
// of a client, with a certificate or without, nor by trailers, nor on a listener
// that asks for no certificate.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	e := lab.NewOrigin(t, lab.Echo)
	clients := lab.NewCA(t)
	alice, mallory := clients.Issue("alice"), lab.NewCA(t).Issue("alice")
	ask := func(mode string) string {
		return fmt.Sprintf("client_certificates: {ca: %q, mode: %s, subject_header: %s}", clients.File, mode, subjectHeader)
	}
	for _, mode := range []string{"require", "request"} {
		for _, version := range []httpVersion{v1, v2, v3} {
			t.Run(fmt.Sprintf("%s/%d", mode, version), func(t *testing.T) {
				s := site{endpoints: []string{e.Addr}, tls: true, listener: ask(mode)}.start(t)
				send := func(c *http.Client) (string, error) {
					req, _ := http.NewRequest("POST", s.url("/"), io.MultiReader(strings.NewReader("body")))
					for _, name := range []string{subjectHeader, "x-client-certificate-subject", "X_Client_Certificate_Subject", "X-Other"} {
						req.Header[name] = []string{"CN=root"}
					}
					req.Trailer = http.Header{subjectHeader: {"CN=root"}, "X-Sum": {"1"}}
					res, err := c.Do(req)
					if err != nil {
						return "", err
					}
					defer res.Body.Close()
					b, err := io.ReadAll(res.Body)
					return string(b), err
				}
				got, err := send(shown(s.client(t, version), alice))
				if err != nil {
					t.Fatal(err)
				}
				if want := subjectHeader + ": CN=alice\r\n"; !strings.Contains(got, want) ||
					strings.Count(got, "=root") != 1 || !strings.Contains(strings.ToLower(got), "x-other: cn=root\r\n") || !strings.Contains(strings.ToLower(got), "x-sum: 1\r\n") {
					t.Errorf("the endpoint was sent %q, want only %q of its kind", got, want)
				}
				if got, err := send(shown(s.client(t, version), mallory)); err == nil {
					t.Errorf("a client of another authority is served %q", got)
				}
				got, err = send(s.client(t, version))
				switch {
				case mode == "require" && err == nil:
					t.Errorf("a client without a certificate is served %q", got)
				case mode == "request" && (err != nil || strings.Contains(strings.ToLower(got), "subject") && strings.Count(got, "=root") != 1):
					t.Errorf("a client without a certificate: %v, the endpoint was sent %q, want no subject", err, got)
				}
				log := s.AccessLog(1)
				equal(t, "client_subject", log[0]["client_subject"], any("CN=alice"))
				if mode == "request" {
					if _, found := s.AccessLog(2)[1]["client_subject"]; found {
						t.Error("client_subject in the log of a client without a certificate")
					}
				}
			})
		}
	}
	t.Run("on another listener", func(t *testing.T) {
		ca := lab.NewCA(t)
		cert := ca.Issue(host)
		n := lab.Start(t, fmt.Sprintf(`
listeners:
  - {name: web, address: "127.0.0.1:0", protocol: http}
  - {name: secure, address: "127.0.0.1:0", protocol: https, certificates: [{certificate: %q, key: %q}], %s}
pools: [{name: p, endpoints: [{name: A, address: %q}]}]
load_balancers: [{name: %s, proxied: true, default_pools: [p]}]
`, cert.CertFile, cert.KeyFile, ask("require"), e.Addr, host))
		c := lab.Dial(t, n.Addr("web"))
		c.Send(get("/", subjectHeader+": CN=root\r\nx_client-certificate_SUBJECT: CN=root\r\nX-Other: CN=root\r\n"))
		if got := c.Response("GET").Text; strings.Count(got, "=root") != 1 {
			t.Errorf("the endpoint was sent %q, want no subject", got)
		}
	})
}

// C45, host m: it is for clients with a certificate, which a listener of its own asks
// for; a rule sends away who comes by another, also over a connection that was opened
// for another host.
func TestC45ClientCertificates(t *testing.T) {
	t.Parallel()
	a, m := lab.NewEndpoint(t, "A"), lab.NewEndpoint(t, "M")
	ca, clients := lab.NewCA(t), lab.NewCA(t)
	cert, alice := ca.Issue("*.example.com"), clients.Issue("alice")
	yaml := func(rule string) string {
		pair := fmt.Sprintf("protocol: https, http3: true, certificates: [{certificate: %q, key: %q}]", cert.CertFile, cert.KeyFile)
		return fmt.Sprintf(`
listeners:
  - {name: web, address: "127.0.0.1:0", %s}
  - {name: mutual, address: "127.0.0.1:0", %[1]s, client_certificates: {ca: %[2]q, mode: require}}
pools: [{name: a, endpoints: [{name: A, address: %[3]q}]}, {name: m, endpoints: [{name: M, address: %[4]q}]}]
load_balancers:
  - {name: a.example.com, proxied: true, default_pools: [a]}
  - {name: m.example.com, proxied: true, default_pools: [m]%[5]s}
`, pair, clients.File, a.Addr, m.Addr, rule)
	}
	n := lab.Start(t, yaml(""))
	web, mutual := server{n, n.Addr("web"), ca}, server{n, n.Addr("mutual"), ca}
	_, port, _ := strings.Cut(mutual.addr, ":")
	n.Write(yaml(fmt.Sprintf(`, rules: [{name: certified, condition: "not (tcp.dstport eq %s or udp.dstport eq %[1]s)", fixed_response: {status_code: 421}}]`, port)))
	n.AwaitRevision(2)
	get := func(c *http.Client, host string) string {
		req, _ := http.NewRequest("GET", "https://a.example.com/", nil)
		req.Host = host
		res, err := c.Do(req)
		if err != nil {
			return "refused"
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		if res.StatusCode != 200 {
			return fmt.Sprint(res.StatusCode)
		}
		return string(b)
	}
	for _, v := range []httpVersion{v1, v2, v3} {
		open, with, without := web.client(t, v), shown(mutual.client(t, v), alice), mutual.client(t, v)
		for _, c := range []struct {
			what   string
			client *http.Client
			host   string
			want   string
		}{
			{"no certificate is asked for", open, "a.example.com", "A"},
			{"no certificate is asked for", open, "m.example.com", "421"},
			{"no certificate is asked for", open, "a.example.com", "A"},
			{"with a certificate", with, "m.example.com", "M"},
			{"with a certificate", with, "a.example.com", "A"},
			{"without one", without, "m.example.com", "refused"},
			{"without one", without, "a.example.com", "refused"},
		} {
			equal(t, fmt.Sprintf("%s, HTTP/%d: %s", c.what, v, c.host), get(c.client, c.host), c.want)
		}
	}
	equal(t, "requests at M", m.Requests(), 3)
}

// openssl s_client, which is not of crypto/tls, shows certificates, resumes its
// session, and does so in vain once other authorities are believed.
func TestClientCertificatesWithOpenSSL(t *testing.T) {
	t.Parallel()
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("openssl is not installed")
	}
	e := lab.NewOrigin(t, lab.Echo)
	first, second := lab.NewCA(t), lab.NewCA(t)
	alice, bob := first.Issue("alice"), second.Issue("bob")
	file := filepath.Join(t.TempDir(), "clients.pem")
	install := func(ca *lab.CA) {
		t.Helper()
		data, err := os.ReadFile(ca.File)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file+".next", data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".next", file); err != nil {
			t.Fatal(err)
		}
	}
	install(first)
	s := site{endpoints: []string{e.Addr}, tls: true,
		listener: fmt.Sprintf("client_certificates: {ca: %q, subject_header: %s}", file, subjectHeader)}.start(t)
	run := func(version string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), openssl, append([]string{"s_client", "-connect", s.addr, "-servername", host, "-CAfile", s.ca.File,
			"-verify_return_error", "-ign_eof", version}, args...)...)
		cmd.Stdin = strings.NewReader(get("/", "Connection: close\r\n"))
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		_ = cmd.Run() // what it prints says more
		return out.String()
	}
	with := func(c lab.Certificate) []string { return []string{"-cert", c.CertFile, "-key", c.KeyFile} }
	const served = "HTTP/1.1 200 OK"
	sessions := map[string]string{}
	for _, version := range []string{"-tls1_2", "-tls1_3"} {
		sessions[version] = filepath.Join(t.TempDir(), "session")
		got := run(version, append(with(alice), "-sess_out", sessions[version])...)
		if !strings.Contains(got, served) || !strings.Contains(got, subjectHeader+": CN=alice") || !strings.Contains(got, "Acceptable client certificate CA names\nCN = lab") && !strings.Contains(got, "Acceptable client certificate CA names\nCN=lab") {
			t.Errorf("%s: with a certificate, s_client prints\n%s", version, got)
		}
		if got := run(version, append(with(alice), "-sess_in", sessions[version])...); !strings.Contains(got, "Reused, TLS") || !strings.Contains(got, subjectHeader+": CN=alice") {
			t.Errorf("%s: with a session, s_client prints\n%s", version, got)
		}
		for name, args := range map[string][]string{"without a certificate": nil, "with that of another authority": with(bob)} {
			if got := run(version, args...); strings.Contains(got, served) || !strings.Contains(got, "alert") {
				t.Errorf("%s: %s, s_client prints\n%s", version, name, got)
			}
		}
	}
	install(second)
	s.AwaitMetric(1, "fairlead_listener_client_ca_reloads_total")
	for version, session := range sessions {
		if got := run(version, append(with(alice), "-sess_in", session)...); strings.Contains(got, served) || strings.Contains(got, "Reused, TLS") {
			t.Errorf("%s: with a session under the old authority, s_client prints\n%s", version, got)
		}
		if got := run(version, with(bob)...); !strings.Contains(got, subjectHeader+": CN=bob") {
			t.Errorf("%s: with a certificate of the new authority, s_client prints\n%s", version, got)
		}
	}
}

// Who has shown a certificate is asked for it with each connection: a session would
// outlive the authority that has vouched for it.
func TestNoResumptionWithClientCertificates(t *testing.T) {
	t.Parallel()
	clients := lab.NewCA(t)
	alice := clients.Issue("alice")
	s := site{endpoints: []string{lab.NewOrigin(t, lab.Echo).Addr}, tls: true,
		listener: fmt.Sprintf("client_certificates: {ca: %q}", clients.File)}.start(t)
	sessions := tls.NewLRUClientSessionCache(10)
	for range 2 {
		tr := s.transport3(t)
		tr.TLSClientConfig.ClientSessionCache = sessions
		res, err := shown(clientOver(tr), alice).Get(s.url("/"))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		equal(t, "session is resumed", res.TLS.DidResume, false)
		tr.CloseIdleConnections()
	}
}
