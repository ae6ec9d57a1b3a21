package certs

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fairlead/internal/model"
	"fairlead/internal/telemetry"
)

// issued is a certificate with its key, as PEM.
type issued struct {
	cert, key []byte
	leaf      *x509.Certificate
	signer    crypto.Signer
}

var rsaKey = sync.OnceValue(func() crypto.Signer {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

// issue makes a certificate with a serial number for names, which may be IP
// addresses. Without an issuer it signs itself and is an authority.
func issue(t *testing.T, serial int64, by *issued, signer crypto.Signer, names ...string) *issued {
	t.Helper()
	if signer == nil {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		signer = k
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Duration(serial) * time.Hour).Truncate(time.Second),
		BasicConstraintsValid: true, IsCA: by == nil,
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, n)
		}
	}
	parent, parentKey := template, signer
	if by != nil {
		parent, parentKey = by.leaf, by.signer
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, signer.Public(), parentKey)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		t.Fatal(err)
	}
	return &issued{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		leaf: leaf, signer: signer,
	}
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// save writes a pair into a new directory.
func save(t *testing.T, c *issued) model.CertificateFiles {
	t.Helper()
	dir := t.TempDir()
	f := model.CertificateFiles{Certificate: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	write(t, f.Certificate, c.cert)
	write(t, f.Key, c.key)
	return f
}

func quiet(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

func newStore(t *testing.T, log *slog.Logger, files ...model.CertificateFiles) *Store {
	t.Helper()
	s, err := New(files, log)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serverConfig returns the settings of a listener with the certificates of s.
func serverConfig(s *Store, least model.TLSVersion, protocols []string) *tls.Config {
	return (&Server{store: s, spec: Spec{MinVersion: least, Protocols: protocols}}).newConfig(nil)
}

// connect returns both ends of a connection. A net.Pipe would not do: it holds
// nothing, so two ends that send an alert at the same time wait for each other.
func connect(t *testing.T) (near, far net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if near, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []net.Conn{near, far} {
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	return near, far
}

// handshake connects a client to a server and returns what each saw.
func handshake(t *testing.T, server, client *tls.Config) (atClient, atServer tls.ConnectionState, err error) {
	t.Helper()
	near, far := connect(t)
	defer near.Close()
	defer far.Close()
	c, s := tls.Client(near, client), tls.Server(far, server)
	served := make(chan error, 1)
	go func() {
		err := s.Handshake()
		if err == nil {
			_, err = s.Write([]byte("x")) // takes the session ticket along
		}
		served <- err
	}()
	err = c.Handshake()
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	near.Close()
	if serverErr := <-served; err == nil {
		err = serverErr
	}
	return c.ConnectionState(), s.ConnectionState(), err
}

// serial returns the serial number of the certificate that a client is shown.
func serial(t *testing.T, s *Store, name string, change ...func(*tls.Config)) int64 {
	t.Helper()
	conf := &tls.Config{ServerName: name, InsecureSkipVerify: true}
	for _, f := range change {
		f(conf)
	}
	state, _, err := handshake(t, serverConfig(s, model.TLS12, []string{"h2", "http/1.1"}), conf)
	if err != nil {
		t.Fatalf("handshake for %q: %v", name, err)
	}
	return state.PeerCertificates[0].SerialNumber.Int64()
}

func TestChoiceByServerName(t *testing.T) {
	s := newStore(t, quiet(t),
		save(t, issue(t, 1, nil, rsaKey(), "default.example.net")),
		save(t, issue(t, 2, nil, nil, "www.example.com", "example.com")),
		save(t, issue(t, 3, nil, nil, "*.example.com", "Mixed.Example.org")),
		save(t, issue(t, 4, nil, rsaKey(), "both.example.org")),
		save(t, issue(t, 5, nil, nil, "both.example.org")),
		save(t, issue(t, 6, nil, rsaKey(), "*.exact.example.org")),
		save(t, issue(t, 7, nil, nil, "a.exact.example.org")),
	)
	only := func(suite uint16) func(*tls.Config) {
		return func(c *tls.Config) { c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{suite} }
	}
	onlyRSA := only(tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256)
	onlyECDSA := only(tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256)
	tests := []struct {
		name, ask string
		client    func(*tls.Config)
		want      int64
	}{
		{"exact", "www.example.com", nil, 2},
		{"exact in other case", "WWW.Example.COM", nil, 2},
		{"another name of it", "example.com", nil, 2},
		{"exact in a certificate with capitals", "mixed.example.org", nil, 3},
		{"wildcard", "api.example.com", nil, 3},
		{"wildcard in other case", "API.example.com", nil, 3},
		{"wildcard covers one label", "a.b.example.com", nil, 1},
		{"unknown", "www.example.invalid", nil, 1},
		{"no name", "", nil, 1},
		{"one label", "localhost", nil, 1},
		{"unknown to a client without RSA", "www.example.invalid", onlyECDSA, 2},
		{"no name from a client without RSA", "", onlyECDSA, 2},
		{"two types, client of any", "both.example.org", nil, 4},
		{"two types, client without RSA", "both.example.org", onlyECDSA, 5},
		{"two types, client without ECDSA", "both.example.org", onlyRSA, 4},
		{"exact before wildcard", "a.exact.example.org", nil, 7},
		{"wildcard where the exact one is of the wrong type", "a.exact.example.org", onlyRSA, 6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			change := tt.client
			if change == nil {
				change = func(*tls.Config) {}
			}
			if got := serial(t, s, tt.ask, change); got != tt.want {
				t.Errorf("certificate for %q is number %d, want %d", tt.ask, got, tt.want)
			}
		})
	}
	t.Run("no type fits", func(t *testing.T) {
		_, _, err := handshake(t, serverConfig(s, model.TLS12, nil), func() *tls.Config {
			c := &tls.Config{ServerName: "www.example.com", InsecureSkipVerify: true}
			onlyRSA(c)
			return c
		}())
		if err == nil {
			t.Error("handshake succeeded with a certificate for another name, want it refused")
		}
	})
}

func TestWrongFiles(t *testing.T) {
	a, b := issue(t, 1, nil, nil, "a.example.com"), issue(t, 2, nil, nil, "b.example.com")
	chain := append(bytes.Clone(a.cert), b.cert...)
	tests := []struct {
		name      string
		cert, key []byte // nil: no such file
		want      string
	}{
		{"no certificate file", nil, a.key, "no such file"},
		{"no key file", a.cert, nil, "no such file"},
		{"empty certificate", []byte{}, a.key, "no certificate: want PEM blocks"},
		{"not PEM", []byte("hello"), a.key, "no certificate: want PEM blocks"},
		{"key of another certificate", a.cert, b.key, "private key does not match public key"},
		{"key in place of the certificate", a.key, a.key, "no certificate: want PEM blocks"},
		{"certificate in place of the key", a.cert, a.cert, "found a certificate rather than a key"},
		{"half a certificate", a.cert[:len(a.cert)/2], a.key, "ends within a PEM block"},
		{"chain cut within its second part", chain[:len(chain)-40], a.key, "ends within a PEM block"},
		{"chain with a broken second part", append(bytes.Clone(a.cert), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})...), a.key, "certificate 2:"},
		{"half a key", a.cert, a.key[:len(a.key)/2], "failed to find any PEM data"},
		{"encrypted key", a.cert, pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")}), "key is encrypted: want it without a passphrase"},
		{"too large", bytes.Repeat([]byte("x"), maxFile+1), a.key, "larger than 1048576 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			f := model.CertificateFiles{Certificate: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
			if tt.cert != nil {
				write(t, f.Certificate, tt.cert)
			}
			if tt.key != nil {
				write(t, f.Key, tt.key)
			}
			_, err := New([]model.CertificateFiles{f}, quiet(t))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("New() = %v, want an error with %q and the file's name", err, tt.want)
			}
		})
	}
	t.Run("all at once", func(t *testing.T) {
		_, err := New([]model.CertificateFiles{{Certificate: "no-1.pem", Key: "k"}, save(t, a), {Certificate: "no-2.pem", Key: "k"}}, quiet(t))
		if err == nil || !strings.Contains(err.Error(), "no-1.pem") || !strings.Contains(err.Error(), "no-2.pem") {
			t.Errorf("New() = %v, want both errors", err)
		}
	})
	t.Run("none", func(t *testing.T) {
		if _, err := New(nil, quiet(t)); err == nil {
			t.Error("New() without certificates succeeded")
		}
	})
	t.Run("directory", func(t *testing.T) {
		_, err := New([]model.CertificateFiles{{Certificate: t.TempDir(), Key: "k"}}, quiet(t))
		if err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("New() = %v, want that it is not a regular file", err)
		}
	})
}

func TestDoubtfulCertificatesAreLogged(t *testing.T) {
	tests := []struct {
		name string
		cert *issued
		when time.Duration // from now
		want string
	}{
		{"expired", issue(t, 1, nil, nil, "a.example.com"), 2 * time.Hour, "certificate has expired"},
		{"not valid yet", issue(t, 1, nil, nil, "a.example.com"), -2 * time.Hour, "certificate is not valid yet"},
		{"without names", issue(t, 1, nil, nil), 0, "certificate has no DNS names"},
	}
	// Case C46, where stapling is not offered at all.
	staple := issue(t, 1, nil, nil, "a.example.com")
	staple.leaf.Extensions = append(staple.leaf.Extensions, pkix.Extension{Id: tlsFeature, Value: []byte{0x30, 3, 2, 1, 5}})
	tests = append(tests, struct {
		name string
		cert *issued
		when time.Duration
		want string
	}{"must-staple", staple, 0, "stapled OCSP response"})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			warn(slog.New(slog.NewTextHandler(&log, nil)), "cert.pem", tt.cert.leaf, time.Now().Add(tt.when))
			if !strings.Contains(log.String(), tt.want) {
				t.Errorf("log = %q, want %q", log.String(), tt.want)
			}
		})
	}
}

// Case C44: a renewal that writes the key, then half of the certificate, then
// the rest; both files deleted; the old ones put back by rename.
func TestC44Renewal(t *testing.T) {
	before, after := issue(t, 1, nil, nil, "www.example.com"), issue(t, 2, nil, nil, "www.example.com")
	files := save(t, before)
	var log bytes.Buffer
	s := newStore(t, slog.New(slog.NewTextHandler(&log, nil)), files)
	now := time.Now()
	backup := t.TempDir()
	steps := []struct {
		name   string
		do     func()
		serial int64
		lines  int // logged by the step
		says   string
		stale  bool
	}{
		{"nothing changed", func() {}, 1, 0, "", false},
		{"new key", func() { write(t, files.Key, after.key) }, 1, 1, "private key does not match", true},
		{"half of the new certificate", func() { write(t, files.Certificate, after.cert[:len(after.cert)/2]) }, 1, 1, "ends within a PEM block", true},
		{"all of the new certificate", func() { write(t, files.Certificate, after.cert) }, 2, 1, "reloaded", false},
		{"both deleted", func() {
			for _, f := range []string{files.Certificate, files.Key} {
				if err := os.Remove(f); err != nil {
					t.Fatal(err)
				}
			}
		}, 2, 1, "no such file", true},
		{"old ones put back by rename", func() {
			for f, data := range map[string][]byte{files.Certificate: before.cert, files.Key: before.key} {
				kept := filepath.Join(backup, filepath.Base(f))
				write(t, kept, data)
				if err := os.Rename(kept, f); err != nil {
					t.Fatal(err)
				}
			}
		}, 1, 1, "reloaded", false},
		{"emptied", func() { write(t, files.Certificate, nil) }, 1, 1, "no certificate", true},
		{"filled with what is in use", func() { write(t, files.Certificate, before.cert) }, 1, 1, "again what is in use", false},
	}
	for _, step := range steps {
		log.Reset()
		step.do()
		for range 5 { // 10 s
			now = now.Add(Interval)
			s.poll(now)
			if got := serial(t, s, "www.example.com"); got != step.serial && got != 3-step.serial {
				t.Fatalf("%s: certificate number %d", step.name, got)
			}
		}
		if got := serial(t, s, "www.example.com"); got != step.serial {
			t.Errorf("%s: certificate number %d is served, want %d", step.name, got, step.serial)
		}
		if n := strings.Count(log.String(), "\n"); n != step.lines || !strings.Contains(log.String(), step.says) {
			t.Errorf("%s: logged %d lines, want %d with %q:\n%s", step.name, n, step.lines, step.says, &log)
		}
		status := s.Status()[0]
		if (status.Problem != "") != step.stale {
			t.Errorf("%s: problem = %q, want one: %v", step.name, status.Problem, step.stale)
		}
		if want := map[int64]*issued{1: before, 2: after}[step.serial].leaf.NotAfter; !status.NotAfter.Equal(want) {
			t.Errorf("%s: expiry = %v, want that of the certificate in use, %v", step.name, status.NotAfter, want)
		}
	}
}

func TestNoticedChanges(t *testing.T) {
	before, after := issue(t, 1, nil, rsaKey(), "www.example.com"), issue(t, 2, nil, rsaKey(), "www.example.com")
	link := func(t *testing.T, dir string, c *issued, n string) {
		t.Helper()
		sub := filepath.Join(dir, n)
		if err := os.Mkdir(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(sub, "cert.pem"), c.cert)
		write(t, filepath.Join(sub, "key.pem"), c.key)
		if err := os.Symlink(n, filepath.Join(dir, "new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "current")); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("a swapped symbolic link", func(t *testing.T) {
		dir := t.TempDir()
		link(t, dir, before, "1")
		s := newStore(t, quiet(t), model.CertificateFiles{Certificate: dir + "/current/cert.pem", Key: dir + "/current/key.pem"})
		link(t, dir, after, "2")
		now := time.Now().Add(time.Hour)
		s.poll(now)
		s.poll(now)
		if got := serial(t, s, "www.example.com"); got != 2 {
			t.Errorf("certificate number %d, want 2", got)
		}
	})
	t.Run("a file of the same size and time", func(t *testing.T) {
		files := save(t, before)
		s := newStore(t, quiet(t), files)
		info, err := os.Stat(files.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		if len(before.cert) != len(after.cert) {
			t.Logf("sizes differ by chance: %d, %d", len(before.cert), len(after.cert))
		}
		write(t, files.Certificate, after.cert) // the key is the same
		if err := os.Chtimes(files.Certificate, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
		now := time.Now().Add(time.Hour)
		for range rereadEvery + 1 {
			s.poll(now)
		}
		if got := serial(t, s, "www.example.com"); got != 2 {
			t.Errorf("certificate number %d, want 2", got)
		}
	})
	t.Run("asked to reload", func(t *testing.T) {
		files := save(t, before)
		s := newStore(t, quiet(t), files)
		write(t, files.Certificate, after.cert)
		if err := s.Reload(); err != nil {
			t.Fatal(err)
		}
		if got := serial(t, s, "www.example.com"); got != 2 {
			t.Errorf("certificate number %d, want 2", got)
		}
		write(t, files.Certificate, []byte("x"))
		if err := s.Reload(); err == nil || !strings.Contains(err.Error(), "no certificate") {
			t.Errorf("Reload() = %v, want an error", err)
		}
		if got := serial(t, s, "www.example.com"); got != 2 {
			t.Errorf("after a refused reload certificate number %d, want 2", got)
		}
	})
	t.Run("a file that goes on changing", func(t *testing.T) {
		files := save(t, before)
		s := newStore(t, quiet(t), files)
		now := time.Now()
		for i := range 4 {
			write(t, files.Certificate, append(bytes.Clone(after.cert), strings.Repeat("\n", i)...))
			now = now.Add(Interval)
			s.poll(now)
			if got := serial(t, s, "www.example.com"); got != 1 {
				t.Fatalf("taken up while it changes")
			}
		}
		s.poll(now.Add(Interval))
		if got := serial(t, s, "www.example.com"); got != 2 {
			t.Errorf("certificate number %d once it stood still, want 2", got)
		}
	})
}

func TestWatch(t *testing.T) {
	before, after := issue(t, 1, nil, nil, "www.example.com"), issue(t, 2, nil, nil, "www.example.com")
	files := save(t, before)
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, quiet(t), files)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { s.Watch(ctx, Interval); close(done) }()
		write(t, files.Certificate, after.cert)
		write(t, files.Key, after.key)
		time.Sleep(3 * Interval)
		if got := s.Status()[0].Reloads; got != 1 {
			t.Errorf("reloads after three intervals = %d, want 1", got)
		}
		cancel()
		<-done
	})
}

// Handshakes go on while certificates are swapped under them.
func TestHandshakesDuringReloads(t *testing.T) {
	pairs := []*issued{issue(t, 1, nil, nil, "www.example.com"), issue(t, 2, nil, nil, "www.example.com")}
	files := save(t, pairs[0])
	s := newStore(t, slog.New(slog.DiscardHandler), files)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					serial(t, s, "www.example.com")
				}
			}
		})
	}
	for i := range 30 {
		write(t, files.Key, pairs[i%2].key)
		_ = s.Reload() // the pair does not fit
		write(t, files.Certificate, pairs[i%2].cert)
		if err := s.Reload(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
}

func TestServerConfig(t *testing.T) {
	s := newStore(t, quiet(t), save(t, issue(t, 1, nil, rsaKey(), "www.example.com")))
	tests := []struct {
		name   string
		min    model.TLSVersion
		client *tls.Config
		ok     bool
		proto  string
	}{
		{"TLS 1.3", model.TLS12, &tls.Config{NextProtos: []string{"h2", "http/1.1"}}, true, "h2"},
		{"TLS 1.2", model.TLS12, &tls.Config{MaxVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, true, "http/1.1"},
		{"no ALPN", model.TLS12, &tls.Config{}, true, ""},
		{"an ALPN that is not spoken", model.TLS12, &tls.Config{NextProtos: []string{"spdy/3"}}, false, ""},
		{"TLS 1.1", model.TLS12, &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, false, ""},
		{"TLS 1.2 where 1.3 is the lowest", model.TLS13, &tls.Config{MaxVersion: tls.VersionTLS12}, false, ""},
		{"TLS 1.3 where it is the lowest", model.TLS13, &tls.Config{}, true, ""},
		{"a suite with CBC", model.TLS12, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA}}, false, ""},
		{"a suite without forward secrecy", model.TLS12, &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256}}, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := tt.client.Clone()
			client.ServerName, client.InsecureSkipVerify = "www.example.com", true
			state, _, err := handshake(t, serverConfig(s, tt.min, []string{"h2", "http/1.1"}), client)
			if (err == nil) != tt.ok {
				t.Fatalf("handshake: %v, want success: %v", err, tt.ok)
			}
			if state.NegotiatedProtocol != tt.proto && tt.ok {
				t.Errorf("protocol = %q, want %q", state.NegotiatedProtocol, tt.proto)
			}
		})
	}
}

func TestSessionsOutliveAReload(t *testing.T) {
	files := save(t, issue(t, 1, nil, nil, "www.example.com"))
	s := newStore(t, quiet(t), files)
	server := serverConfig(s, model.TLS12, nil)
	client := &tls.Config{ServerName: "www.example.com", InsecureSkipVerify: true, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	for i, want := range []bool{false, true, true} {
		if i == 2 {
			next := issue(t, 2, nil, nil, "www.example.com")
			write(t, files.Certificate, next.cert)
			write(t, files.Key, next.key)
			if err := s.Reload(); err != nil {
				t.Fatal(err)
			}
		}
		state, _, err := handshake(t, server, client)
		if err != nil || state.DidResume != want {
			t.Errorf("handshake %d: resumed = %v, %v, want %v", i, state.DidResume, err, want)
		}
	}
}

func scrape(t *testing.T, collect func(*telemetry.Emitter)) string {
	t.Helper()
	r := telemetry.NewRegistry()
	r.Add(source(collect))
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

type source func(*telemetry.Emitter)

func (s source) Collect(e *telemetry.Emitter) { s(e) }

func TestMetrics(t *testing.T) {
	c := issue(t, 1, nil, nil, "www.example.com")
	files := save(t, c)
	s := newStore(t, quiet(t), files)
	if err := os.Remove(files.Key); err != nil {
		t.Fatal(err)
	}
	if err := s.Reload(); err == nil {
		t.Error("Reload() without the key file succeeded")
	}
	got := scrape(t, func(e *telemetry.Emitter) { s.Collect(e, "web") })
	for _, want := range []string{
		`fairlead_listener_certificate_stale{file="` + files.Certificate + `",listener="web"} 1`,
		`fairlead_listener_certificate_reloads_total{file="` + files.Certificate + `",listener="web"} 0`,
		`fairlead_listener_certificate_not_after_timestamp_seconds{file="` + files.Certificate + `",listener="web"} `,
		`fairlead_metrics_failed_series_total 0`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("scrape lacks %s", want)
		}
	}
}
