package acme

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3/acme"

	"fairlead/internal/model"
)

// Setup is a configuration that can be put in use.
type Setup struct {
	names   []string // sorted
	http    bool     // a listener answers HTTP-01
	id      string   // tells one authority, account and directory from another
	stored  map[string]*tls.Certificate
	storage certmagic.Storage
	issuer  *issuer
	cache   *certmagic.Cache
	// config is for what speaks to the authority; passive only loads.
	config, passive *certmagic.Config
}

// has reports whether a name is kept.
func (s *Setup) has(name string) bool {
	_, found := slices.BinarySearch(s.names, name)
	return found
}

// Prepare makes a setup of a valid configuration. It reads files and speaks to
// nobody; nothing changes before [Manager.Use].
func (m *Manager) Prepare(c *model.Config) (*Setup, error) {
	s := &Setup{names: names(c)}
	for i := range c.Listeners {
		s.http = s.http || c.Listeners[i].Protocol == model.ListenerHTTP
	}
	if len(s.names) == 0 {
		return s, nil
	}
	roots, mac, err := s.read(c)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	old := m.setup
	m.mu.Unlock()
	if old != nil && old.id == s.id && old.config != nil {
		s.storage, s.issuer, s.cache, s.config, s.passive = old.storage, old.issuer, old.cache, old.config, old.passive
	} else if err := m.establish(s, c, roots, mac); err != nil {
		return nil, err
	}
	m.load(s)
	return s, nil
}

// maxFile bounds the files that acme names.
const maxFile = 1 << 20

// read reads the files that acme names, and makes the id.
func (s *Setup) read(c *model.Config) (roots *x509.CertPool, mac string, err error) {
	a := c.ACME
	var authorities, key []byte
	if a.CA != "" {
		if authorities, err = readFile(a.CA); err != nil {
			return nil, "", fmt.Errorf("acme.ca: %w", err)
		}
		roots = x509.NewCertPool()
		if !roots.AppendCertsFromPEM(authorities) {
			return nil, "", fmt.Errorf("acme.ca %q: holds no certificate", a.CA)
		}
	}
	if e := a.ExternalAccount; e != nil {
		if key, err = readFile(e.Key); err != nil {
			return nil, "", fmt.Errorf("acme.external_account.key: %w", err)
		}
		mac = strings.TrimRight(string(bytes.TrimSpace(key)), "=")
	}
	id, err := json.Marshal([]any{c.DataDir, a, authorities, key})
	s.id = string(id)
	return roots, mac, err
}

func readFile(name string) ([]byte, error) {
	// A named pipe would block here for ever.
	if info, err := os.Stat(name); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if len(data) > maxFile {
		return nil, fmt.Errorf("%s: larger than %d bytes", name, maxFile)
	}
	return data, err
}

// establish makes what speaks to the authority.
func (m *Manager) establish(s *Setup, c *model.Config, roots *x509.CertPool, mac string) error {
	dir := filepath.Join(c.DataDir, "acme")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("certificates by ACME: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil { // it holds keys
		return fmt.Errorf("certificates by ACME: %w", err)
	}
	s.storage = &storage{FileStorage: certmagic.FileStorage{Path: dir}, locks: locksOf(dir)}
	s.issuer = &issuer{
		m: m, declared: *c.ACME, storage: s.storage,
		http: &http.Client{
			Timeout: time.Minute,
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
				TLSHandshakeTimeout: 15 * time.Second, ResponseHeaderTimeout: 30 * time.Second,
				IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
			},
		},
	}
	if e := c.ACME.ExternalAccount; e != nil {
		s.issuer.external = &acme.EAB{KeyID: e.KeyID, MACKey: mac}
	}
	s.issuer.client = s.issuer.newClient(m.client)
	settings := certmagic.Config{
		Storage: s.storage, Issuers: []certmagic.Issuer{s.issuer}, MustStaple: c.ACME.MustStaple, Logger: zapLogger(m.client),
		// With a proxy certmagic uses a client that has a time-out.
		OCSP: certmagic.OCSPConfig{HTTPProxy: http.ProxyFromEnvironment},
	}
	// What the cache looks after by itself is nothing: it leaves what is
	// obtained on demand to handshakes, and of these there are none. The same
	// settings load what is stored, and ask nobody for OCSP responses.
	passive := settings
	passive.OnDemand = &certmagic.OnDemandConfig{}
	passive.OCSP.HTTPProxy = func(*http.Request) (*url.URL, error) { return nil, errOffline }
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cache == nil {
		m.cache = certmagic.NewCache(certmagic.CacheOptions{
			GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return m.passive.Load(), nil },
			// It is renewed earlier by this, so as not to be renewed too late.
			RenewCheckInterval: m.timing.check,
			Logger:             zapLogger(m.client),
		})
	}
	s.cache = m.cache
	s.passive, s.config = certmagic.New(m.cache, passive), certmagic.New(m.cache, settings)
	m.passive.Store(s.passive)
	return nil
}

// errOffline keeps what only loads from speaking to anybody.
var errOffline = errors.New("not while certificates are loaded")

// load finds the certificates that are stored for names which have none in
// memory. What cannot be used is obtained anew later.
func (m *Manager) load(s *Setup) {
	s.stored = make(map[string]*tls.Certificate)
	for _, name := range s.names {
		if m.Certificate(name) != nil {
			continue
		}
		cert, err := s.passive.CacheManagedCertificate(context.Background(), name)
		if err != nil {
			m.client.Debug("no certificate is loaded", "name", name, "error", err)
			continue
		}
		s.stored[name] = s.stapled(&cert.Certificate, nil)
	}
}

// storage is a directory that no other process changes at the same time, so that
// its locks are in memory: those of certmagic's own are files, which stay behind
// when a process dies, and hold up the next.
type storage struct {
	certmagic.FileStorage
	locks *locks
}

type locks struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed when it is not held any more
}

// directories are the locks of each directory: one setup may still be at work
// there when the next begins.
var directories = struct {
	sync.Mutex
	locks map[string]*locks
}{locks: make(map[string]*locks)}

func locksOf(dir string) *locks {
	directories.Lock()
	defer directories.Unlock()
	l := directories.locks[dir]
	if l == nil {
		l = &locks{held: make(map[string]chan struct{})}
		directories.locks[dir] = l
	}
	return l
}

// Lock implements certmagic.Locker.
func (s *storage) Lock(ctx context.Context, name string) error {
	for {
		wait := s.locks.take(name)
		if wait == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wait:
		}
	}
}

// TryLock implements certmagic.TryLocker.
func (s *storage) TryLock(_ context.Context, name string) (bool, error) {
	return s.locks.take(name) == nil, nil
}

// take takes a lock and returns nil, or returns what is closed when that can be
// tried again.
func (l *locks) take(name string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if wait, held := l.held[name]; held {
		return wait
	}
	l.held[name] = make(chan struct{})
	return nil
}

// Unlock implements certmagic.Locker.
func (s *storage) Unlock(_ context.Context, name string) error {
	s.locks.mu.Lock()
	defer s.locks.mu.Unlock()
	wait, held := s.locks.held[name]
	if !held {
		return fmt.Errorf("lock %q is not held", name)
	}
	delete(s.locks.held, name)
	close(wait)
	return nil
}
