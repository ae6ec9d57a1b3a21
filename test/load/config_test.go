package loadtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	mrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"fairlead/test/lab"
	"fairlead/test/process"
)

// C42: a configuration with an error is refused whole, with its place, and
// what runs goes on and stays changeable.
func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	addr := serve(t, nil)
	config := func(more string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "listeners: [{name: web, address: \"127.0.0.1:0\", protocol: http}]\npools: [{name: p, endpoints: [{name: a, address: %q}]}]\nload_balancers:\n", addr)
		for i := range 20 {
			fmt.Fprintf(&b, "  - {name: site%d.example.com, proxied: true, default_pools: [p]}\n", i+1)
		}
		return b.String() + "  - {name: www.example.com, proxied: true, default_pools: [p]}\n" + more
	}
	p := process.Start(t, config(""))
	l := startLoad(t, "clients", 4, plain(p.Addr("web")), time.Millisecond, mixed)
	refused := 0
	for _, bad := range []struct{ name, text, want string }{
		{"cut off rule", "  - {name: site21.example.com, proxied: true, default_pools: [p], rules: [{name: r, condition: http.host eq, overrides: {ttl: 60s}}]}\n", "rule"},
		{"expected_codes", "monitors: [{name: m, type: http, expected_codes: \"2x\"}]\n", `expected_codes: "2x"`},
		{"header name", "monitors: [{name: m, type: http, header: {Bad Header: [x]}}]\n", "Bad Header"},
		{"cut off", "  - {name: site21.exa", ""},
		{"not YAML", "}}}}", ""},
		{"binary", "\x00\x01\x02", ""},
		{"unknown key", "weight: 3\n", "weight"},
		{"no pool", "  - {name: site21.example.com, proxied: true, default_pools: [q]}\n", `"q"`},
	} {
		p.Write(config(bad.text))
		p.Signal(syscall.SIGHUP)
		lab.Await(t, bad.name+" to be refused", func() bool { return p.Count("configuration is refused") > refused })
		all := p.Find("configuration is refused")
		text := fmt.Sprint(all[refused:])
		refused = len(all)
		if !strings.Contains(text, bad.want) || !strings.Contains(text, filepath.Base(p.File)+":") {
			t.Errorf("%s: refused with %s, want a place and %q", bad.name, text, bad.want)
		}
	}
	if p.Metric("fairlead_config_refused") != 1 {
		t.Error("no metric tells that the file is refused")
	}
	p.Reload(strings.Replace(config(""), "site5.example.com", "other5.example.com", 1))
	if p.Metric("fairlead_config_refused") != 0 {
		t.Error("the metric still tells that the file is refused")
	}
	l.wantNoFailure()
}

// pair writes a self-signed certificate to two files and returns both texts.
func pair(t testing.TB, serial int64, days int) (cert, key []byte, notAfter time.Time) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	notAfter = time.Now().Add(time.Duration(days) * 24 * time.Hour).Truncate(time.Second)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: notAfter,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &k.PublicKey, k)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), notAfter
}

// C44: a new certificate is used once it and its key fit; until then, and when
// the files are lost, the old one serves.
func TestCertificateRotation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "www.pem"), filepath.Join(dir, "www.key")
	write := func(name string, text []byte) {
		t.Helper()
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert1, key1, after1 := pair(t, 1, 10)
	cert2, key2, after2 := pair(t, 2, 20)
	write(certFile, cert1)
	write(keyFile, key1)
	p := process.Start(t, fmt.Sprintf(`
listeners: [{name: secure, address: "127.0.0.1:0", protocol: https, certificates: [{certificate: %q, key: %q}]}]
pools: [{name: p, endpoints: [{name: a, address: %q}]}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [p]}]
`, certFile, keyFile, serve(t, nil)))
	addr := p.Addr("secure")
	var serial atomic.Int64 // as last seen
	l := startLoad(t, "handshakes", 1, secure(addr, &tls.Config{ServerName: host, InsecureSkipVerify: true}), 50*time.Millisecond, func(c *client, _ int) error {
		nc, err := c.dial()
		if err != nil {
			return err
		}
		defer nc.Close()
		serial.Store(nc.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.Int64())
		return nil
	})
	expires := func(want time.Time) {
		t.Helper()
		lab.Await(t, "the metric of expiry to follow", func() bool {
			return p.Metric("fairlead_listener_certificate_not_after_timestamp_seconds") == float64(want.Unix())
		})
	}
	stays := func(want int64) {
		t.Helper()
		time.Sleep(scaled(2500*time.Millisecond, 10*time.Second))
		if got := serial.Load(); got != want {
			t.Errorf("certificate %d is served, want %d", got, want)
		}
	}
	lab.Await(t, "handshakes", func() bool { return serial.Load() == 1 })
	expires(after1)
	write(keyFile, key2)
	stays(1)
	write(certFile, cert2[:len(cert2)/2])
	stays(1)
	write(certFile, cert2)
	lab.Await(t, "the new certificate", func() bool { return serial.Load() == 2 })
	expires(after2)
	os.Remove(certFile)
	os.Remove(keyFile)
	stays(2)
	if p.Metric("fairlead_listener_certificate_stale") != 1 {
		t.Error("no metric tells that the files are lost")
	}
	write(certFile+".old", cert1)
	write(keyFile+".old", key1)
	os.Rename(certFile+".old", certFile)
	os.Rename(keyFile+".old", keyFile)
	lab.Await(t, "the old certificate", func() bool { return serial.Load() == 1 })
	expires(after1)
	l.wantNoFailure()
}

// C47: no request, handshake or answer makes series of metrics without bound.
func TestSeriesAreBounded(t *testing.T) {
	ca := lab.NewCA(t)
	cert := ca.Issue(host)
	addr := serve(t, nil)
	config := func(pools int) string {
		var b strings.Builder
		fmt.Fprintf(&b, `
listeners:
  - {name: web, address: "127.0.0.1:0", protocol: http}
  - {name: secure, address: "127.0.0.1:0", protocol: https, certificates: [{certificate: %q, key: %q}]}
load_balancers: [{name: www.example.com, proxied: true, default_pools: [p]}]
pools:
  - {name: p, endpoints: [{name: a, address: %q}]}
`, cert.CertFile, cert.KeyFile, addr)
		for i := range pools {
			fmt.Fprintf(&b, "  - {name: more-%d, endpoints: [{name: a, address: 127.0.1.1}]}\n", i)
		}
		return b.String()
	}
	p := process.Start(t, config(0))
	first := len(p.Series())
	web, secureAddr := p.Addr("web"), p.Addr("secure")

	var left atomic.Int64
	token := func() string {
		b := make([]byte, 8)
		for i := range b {
			b[i] = 'A' + byte(mrand.IntN(26))
		}
		return string(b)
	}
	run := func(name string, count, clients int, dial dialer, w work) {
		left.Store(int64(count))
		over := make(chan struct{})
		l := startLoad(t, name, clients, dial, 0, func(c *client, i int) error {
			k := left.Add(-1)
			if k == 0 {
				close(over)
			}
			if k < 0 {
				time.Sleep(time.Millisecond)
				return nil
			}
			return w(c, i)
		})
		select {
		case <-over:
		case <-time.After(2 * time.Minute):
			t.Fatalf("%s take too long", name)
		}
		l.wantNoFailure()
	}
	run("random requests", scaled(5000, 50000), 8, plain(web), func(c *client, i int) error {
		name := token() + ".example.net"
		if i%2 == 0 {
			name = host
		}
		nc, err := c.dial()
		if err != nil {
			return err
		}
		defer nc.Close()
		nc.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprintf(nc, "X%s /%s HTTP/1.1\r\nHost: %s\r\nX-%s: 1\r\nConnection: close\r\n\r\n", token(), token(), name, token())
		b := make([]byte, 12)
		_, err = nc.Read(b)
		return err
	})
	run("random server names", scaled(300, 2000), 4, nil, func(*client, int) error {
		c, err := tls.DialWithDialer(&net.Dialer{Timeout: 10 * time.Second}, "tcp", secureAddr, &tls.Config{ServerName: strings.ToLower(token()) + ".example.net", InsecureSkipVerify: true})
		if err == nil {
			c.Close()
		}
		return nil // whether it is answered is another question
	})
	var code atomic.Int64
	run("all statuses", 2*400, 4, plain(web), func(c *client, _ int) error {
		_, _, err := c.do("GET", fmt.Sprintf("/status?code=%d", 200+code.Add(1)%400), "")
		return err
	})
	run("malformed", 500, 4, plain(web), func(c *client, _ int) error {
		nc, err := c.dial()
		if err != nil {
			return err
		}
		defer nc.Close()
		fmt.Fprintf(nc, "%s / HTTP/1.1\r\n%s : x\r\n\r\n", token(), token())
		_, err = nc.Read(make([]byte, 12))
		return err
	})
	second := len(p.Series())
	p.Reload(config(500))
	many := len(p.Series())
	for range 2 { // what goes is kept for one plan, in case it returns
		p.Reload(config(0))
	}
	third := len(p.Series())
	t.Logf("%d series, then %d; %d with 500 pools, then %d", first, second, many, third)
	if second > first+200 {
		t.Errorf("requests made %d series", second-first)
	}
	if third > second+20 || third < second-20 {
		t.Errorf("%d series behind the pools that went, want %d", third, second)
	}
	began := time.Now()
	if _, err := p.Get("/metrics"); err != nil || time.Since(began) > 500*time.Millisecond {
		t.Errorf("/metrics answers after %v, %v", time.Since(began), err)
	}
	wantMemoryBelow(t, p, 100<<20)
}
