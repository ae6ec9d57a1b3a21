// Package pebble runs the test authority of Let's Encrypt in the process of a
// test: it speaks ACME in full, validates names by asking for the proof, and
// issues real certificates. Only the ports are others, and the names resolve to
// this machine whatever they are.
//
// An [Authority] can be taken away and brought back, refuse names, want external
// accounts, and say by OCSP what it likes of a certificate.
package pebble

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/letsencrypt/challtestsrv"
	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"golang.org/x/crypto/ocsp"
)

// Config says how an authority differs from the usual.
type Config struct {
	// HTTP and TLS are the ports where it asks for proofs; 0 is one where
	// nobody answers.
	HTTP, TLS int
	// Lifetime of certificates; 0 is Pebble's default, years.
	Lifetime time.Duration
	// ExternalAccounts are keys in base64url by their identifiers; with any, one
	// of them is wanted.
	ExternalAccounts map[string]string
	// Refused are names, with all below them, that get no certificate.
	Refused []string
	// OCSP makes certificates name a responder.
	OCSP bool
}

// Authority is a running one.
type Authority struct {
	// Directory is its URL, and CA the PEM file of who has signed the
	// certificate of its server.
	Directory, CA string

	t       testing.TB
	ca      *ca.CAImpl
	db      *db.MemoryStore
	handler atomic.Pointer[http.Handler]
	down    atomic.Bool
	begin   func() // with an empty memory

	requests atomic.Int64 // of the API
	revoked  sync.Map     // serial numbers
	brief    atomic.Bool
	validity atomic.Int64 // of OCSP responses, where it is set
	stranger atomic.Bool  // signs them
	staples  atomic.Int64
}

// Start runs an authority until the test ends.
func Start(t testing.TB, c Config) *Authority {
	t.Helper()
	environment()
	quiet := newLog(t)
	names := dns(t, quiet)
	a := &Authority{t: t, db: db.NewMemoryStore()}
	responder, algorithm := "", "ecdsa"
	if c.OCSP {
		s := httptest.NewServer(http.HandlerFunc(a.ocsp))
		t.Cleanup(s.Close)
		responder, algorithm = s.URL, "rsa"
	}
	profile := ca.Profile{Description: "of the test", ValidityPeriod: uint64(c.Lifetime / time.Second)}
	unused := closedPort(t)
	port := func(p int) int {
		if p == 0 {
			return unused
		}
		return p
	}
	a.begin = func() {
		for id, key := range c.ExternalAccounts {
			if err := a.db.AddExternalAccountKeyByID(id, key); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range c.Refused {
			if err := a.db.AddBlockedDomain(name); err != nil {
				t.Fatal(err)
			}
		}
		a.ca = ca.New(quiet, a.db, responder, algorithm, 0, 1, map[string]ca.Profile{"default": profile})
		validator := va.New(quiet, port(c.HTTP), port(c.TLS), false, names, a.db)
		front := wfe.New(quiet, a.db, validator, a.ca, []string{"pebble.test"}, false, len(c.ExternalAccounts) > 0, 0, 0)
		h := front.Handler()
		a.handler.Store(&h)
	}
	a.begin()
	a.serve()
	return a
}

// environment is what Pebble reads of it: no pauses before it validates, no
// authorization used again (so that proofs are asked for each time), and now and
// then a nonce that it pretends not to know.
var environment = sync.OnceFunc(func() {
	for name, value := range map[string]string{"PEBBLE_VA_NOSLEEP": "1", "PEBBLE_AUTHZREUSE": "0", "PEBBLE_WFE_NONCEREJECT": "5"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
})

// dns runs a name server for which every name is this machine's.
func dns(t testing.TB, quiet *log.Logger) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0") // the server cannot tell which port it got
	if err != nil {
		t.Fatal(err)
	}
	addr = ln.Addr().String()
	ln.Close()
	s, err := challtestsrv.New(challtestsrv.Config{DNSAddrs: []string{addr}, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	s.SetDefaultDNSIPv4("127.0.0.1")
	s.SetDefaultDNSIPv6("")
	go s.Run()
	t.Cleanup(s.Shutdown)
	for range 1000 {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			return addr
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("the name server does not start")
	return ""
}

func closedPort(t testing.TB) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// serve runs the server of the API.
func (a *Authority) serve() {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the authority's server"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.CA = filepath.Join(a.t.TempDir(), "directory.pem")
	if err := os.WriteFile(a.CA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.requests.Add(1)
		if a.down.Load() {
			panic(http.ErrAbortHandler) // the connection ends without an answer
		}
		(*a.handler.Load()).ServeHTTP(w, r)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	a.t.Cleanup(s.Close)
	a.Directory = s.URL + wfe.DirectoryPath
}

// Down takes the authority away: whoever asks gets no answer. Up brings it back.
func (a *Authority) Down() { a.down.Store(true) }

// Up ends Down.
func (a *Authority) Up() { a.down.Store(false) }

// Forget makes it another one at the same place, which knows no account and signs
// with other keys. Nobody may be asking it meanwhile.
func (a *Authority) Forget() {
	a.db = db.NewMemoryStore()
	a.begin()
}

// Requests returns how many there were.
func (a *Authority) Requests() int64 { return a.requests.Load() }

// Roots are the authorities that sign what is issued.
func (a *Authority) Roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.ca.GetRootCert(0).Cert)
	return pool
}

// Revoke makes OCSP say that a certificate is revoked.
func (a *Authority) Revoke(c *x509.Certificate) { a.revoked.Store(c.SerialNumber.Text(16), true) }

// Issuer is who has signed certificates, and responses about them.
func (a *Authority) Issuer() *x509.Certificate { return a.ca.GetIntermediateCert(0).Cert }

// BriefOCSP makes responses that have to be fetched again at once, from now on.
func (a *Authority) BriefOCSP() { a.brief.Store(true) }

// ShortOCSP makes responses that are over after d, from now on.
func (a *Authority) ShortOCSP(d time.Duration) { a.validity.Store(int64(d)) }

// ForeignOCSP has responses signed by a key that is not the authority's, or by its own
// again.
func (a *Authority) ForeignOCSP(foreign bool) { a.stranger.Store(foreign) }

// Responses returns how many OCSP responses were given.
func (a *Authority) Responses() int64 { return a.staples.Load() }

// ocsp says what is known of a certificate.
func (a *Authority) ocsp(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	if err != nil {
		return
	}
	req, err := ocsp.ParseRequest(body)
	if err != nil || a.down.Load() {
		http.Error(w, "no", http.StatusServiceUnavailable)
		return
	}
	// In the second half of its time a response is fetched again.
	ago, validity := time.Second, time.Hour
	if a.brief.Load() {
		ago, validity = time.Minute, time.Minute+2*time.Second
	}
	if d := a.validity.Load(); d > 0 {
		ago, validity = 0, time.Duration(d)
	}
	now := time.Now()
	response := ocsp.Response{
		Status: ocsp.Good, SerialNumber: req.SerialNumber,
		ThisUpdate: now.Add(-ago).Truncate(time.Second), NextUpdate: now.Add(validity).Truncate(time.Second),
	}
	if _, revoked := a.revoked.Load(req.SerialNumber.Text(16)); revoked {
		response.Status, response.RevokedAt = ocsp.Revoked, now.Add(-time.Minute)
	}
	issuer := a.ca.GetIntermediateCert(0).Cert
	key := a.ca.GetIntermediateKey(0)
	if a.stranger.Load() {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	var der []byte
	if err == nil {
		der, err = ocsp.CreateResponse(issuer, issuer, response, key)
	}
	if err != nil {
		a.t.Error(err)
		return
	}
	a.staples.Add(1)
	w.Header().Set("Content-Type", "application/ocsp-response")
	w.Header().Set("Content-Length", strconv.Itoa(len(der)))
	_, _ = w.Write(der)
}

// testLog is the log of a test, until that ends: Pebble has tasks that nobody can
// wait for.
type testLog struct {
	t     testing.TB
	mu    sync.Mutex
	ended bool
}

func newLog(t testing.TB) *log.Logger {
	l := &testLog{t: t}
	t.Cleanup(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ended = true
	})
	return log.New(l, "pebble: ", 0)
}

func (l *testLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		return l.t.Output().Write(b)
	}
	return len(b), nil
}
