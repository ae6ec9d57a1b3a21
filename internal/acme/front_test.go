package acme

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead/internal/certs"
	"fairlead/internal/model"
	"fairlead/internal/telemetry"
	"fairlead/test/pebble"
)

// fast is usual timing, some hundred times as fast.
var fast = timing{
	check:   100 * time.Millisecond,
	offline: []time.Duration{20 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond},
	refused: []time.Duration{50 * time.Millisecond, 200 * time.Millisecond},
	limited: time.Second, unstapled: 100 * time.Millisecond,
}

// brief is timing for certificates that last for seconds. The end of the time in
// which the authority suggests to renew them is that at which they expire; they are
// renewed at the latest five checks before.
var brief = func() timing {
	t := fast
	t.check = 500 * time.Millisecond
	return t
}()

// lines collects what is logged.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(b))
	return len(b), nil
}

// with returns the lines that hold all of texts.
func (l *lines) with(texts ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(line, text) }) {
			found = append(found, line)
		}
	}
	return found
}

// front is where an authority asks for proofs, and clients for certificates.
type front struct {
	t         *testing.T
	http, tls int // ports
	timing    timing

	mu  sync.Mutex
	m   *Manager      // nil while there is none
	srv *certs.Server // of m
	log *lines
}

func newFront(t *testing.T) *front {
	t.Helper()
	f := &front{t: t, log: new(lines), timing: fast}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		m := f.m
		f.mu.Unlock()
		token, ok := strings.CutPrefix(r.URL.Path, "/.well-known/acme-challenge/")
		host, _, _ := net.SplitHostPort(r.Host)
		if ok && m != nil {
			if answer, ok := m.HTTPChallenge([]byte(host), []byte(token)); ok {
				fmt.Fprint(w, answer)
				return
			}
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(s.Close)
	f.http = s.Listener.Addr().(*net.TCPAddr).Port
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.tls = ln.Addr().(*net.TCPAddr).Port
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				f.mu.Lock()
				srv := f.srv
				f.mu.Unlock()
				if srv == nil {
					return
				}
				_ = c.SetDeadline(time.Now().Add(10 * time.Second))
				tc := tls.Server(c, srv.Config())
				if tc.Handshake() == nil {
					_, _ = tc.Read(make([]byte, 1))
				}
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	return f
}

// config declares names, with an http listener or without.
func config(a *pebble.Authority, dir string, withHTTP bool, names ...string) *model.Config {
	c := &model.Config{DataDir: dir, ACME: &model.ACME{Directory: a.Directory, CA: a.CA, AcceptTermsOfService: true, Email: "admin@example.com"}}
	c.Listeners = append(c.Listeners, model.Listener{Protocol: model.ListenerHTTPS, ACME: names})
	if withHTTP {
		c.Listeners = append(c.Listeners, model.Listener{Protocol: model.ListenerHTTP})
	}
	return c
}

// start runs a manager until the test ends, or another is started.
func (f *front) start(c *model.Config) *Manager {
	f.t.Helper()
	f.stop()
	log := slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	m := newForTest(log, f.timing)
	f.mu.Lock()
	f.m = m
	f.mu.Unlock()
	f.t.Cleanup(m.Close)
	f.use(c)
	return m
}

func (f *front) stop() {
	f.mu.Lock()
	m := f.m
	f.m, f.srv = nil, nil
	f.mu.Unlock()
	if m != nil {
		m.Close()
	}
}

// use puts a configuration in force, as a node does.
func (f *front) use(c *model.Config) {
	f.t.Helper()
	s, err := f.m.Prepare(c)
	if err != nil {
		f.t.Fatal(err)
	}
	f.m.Preload(s)
	srv, err := certs.NewServer(certs.Spec{Names: names(c), Obtained: f.m, Protocols: []string{"http/1.1"}}, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		f.t.Fatal(err)
	}
	f.mu.Lock()
	f.srv = srv
	f.mu.Unlock()
	f.m.Use(s)
}

// shown returns the certificate that a client is shown, which must be valid.
func (f *front) shown(roots *x509.CertPool, name string) (*tls.ConnectionState, error) {
	d := &net.Dialer{Timeout: 5 * time.Second}
	c, err := tls.DialWithDialer(d, "tcp", fmt.Sprintf("127.0.0.1:%d", f.tls), &tls.Config{RootCAs: roots, ServerName: name})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	state := c.ConnectionState()
	return &state, nil
}

// await waits for a valid certificate that is not the one with a serial number.
func (f *front) await(a *pebble.Authority, name, not string) (serial string) {
	f.t.Helper()
	var last error
	f.until("a certificate for "+name, func() bool {
		state, err := f.shown(a.Roots(), name)
		if last = err; err != nil {
			return false
		}
		serial = state.PeerCertificates[0].SerialNumber.Text(16)
		return serial != not
	}, &last)
	return serial
}

func (f *front) until(what string, done func() bool, last *error) {
	f.t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			why := error(nil)
			if last != nil {
				why = *last
			}
			all := f.log.with("")
			f.t.Fatalf("waited for %s: %v\n%s", what, why, strings.Join(all[max(0, len(all)-40):], ""))
		}
	}
}

// metric returns the value of a series, "" when there is none.
func (f *front) metric(series string) string {
	f.t.Helper()
	r := telemetry.NewRegistry()
	r.Add(f.m)
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (f *front) wantMetric(series, want string) {
	f.t.Helper()
	if got := f.metric(series); got != want {
		f.t.Errorf("%s = %q, want %q", series, got, want)
	}
}
