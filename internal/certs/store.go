package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fairlead/internal/model"
	"fairlead/internal/telemetry"
)

// Store holds the certificates of one listener.
type Store struct {
	log     *slog.Logger
	current atomic.Pointer[set]

	mu    sync.Mutex // held while files are read
	pairs []*pair
}

// pair is a certificate with its key, as files and in memory.
type pair struct {
	names model.CertificateFiles
	files *bundle
	cert  *tls.Certificate
}

// set is what handshakes choose from. It is never written again once it is
// current.
type set struct {
	all   []*tls.Certificate            // in the order of the configuration
	names map[string][]*tls.Certificate // by exact name and by *.suffix, in lower case
	state []Status
}

// Status is what is known about one certificate.
type Status struct {
	File     string    // name of the certificate's file
	Names    []string  // the DNS names that it is chosen for
	NotAfter time.Time // when the certificate in use expires
	Problem  string    // why the files, as they are now, are not in use; else ""
	Reloads  uint64    // how often a changed pair was taken up
}

// New loads the certificates, each of which must be right. It returns all
// errors at once.
func New(certificates []model.CertificateFiles, log *slog.Logger) (*Store, error) {
	if len(certificates) == 0 {
		return nil, errors.New("no certificates: want at least one")
	}
	s := &Store{log: log}
	var problems []error
	for _, names := range certificates {
		p := &pair{names: names}
		p.files = newBundle(log, func(contents [][]byte) error {
			cert, err := parsePair(names.Certificate, names.Key, contents[0], contents[1])
			if err == nil {
				p.cert = cert
				warn(log, names.Certificate, cert.Leaf, time.Now())
			}
			return err
		}, names.Certificate, names.Key)
		if err := p.files.load(); err != nil {
			problems = append(problems, err)
		}
		s.pairs = append(s.pairs, p)
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	s.publish()
	return s, nil
}

// tlsFeature is the extension by which a certificate demands OCSP stapling
// (must-staple, RFC 7633).
var tlsFeature = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 24}

// warn logs what is doubtful about a certificate that is taken up all the
// same: what is declared is served.
func warn(log *slog.Logger, file string, leaf *x509.Certificate, now time.Time) {
	switch {
	case now.After(leaf.NotAfter):
		log.Warn("certificate has expired", "file", file, "not_after", leaf.NotAfter)
	case now.Before(leaf.NotBefore):
		log.Warn("certificate is not valid yet", "file", file, "not_before", leaf.NotBefore)
	}
	for _, e := range leaf.Extensions {
		if e.Id.Equal(tlsFeature) {
			log.Warn("certificate asks for a stapled OCSP response, which is not offered; strict clients will refuse it", "file", file)
		}
	}
	if len(leaf.DNSNames) == 0 {
		log.Warn("certificate has no DNS names; it is served only where it is the first", "file", file)
	}
}

// publish makes the pairs what handshakes choose from.
func (s *Store) publish() {
	c := &set{names: make(map[string][]*tls.Certificate)}
	for _, p := range s.pairs {
		c.all = append(c.all, p.cert)
		for _, name := range p.cert.Leaf.DNSNames {
			name = strings.ToLower(name)
			c.names[name] = append(c.names[name], p.cert)
		}
		c.state = append(c.state, Status{
			File: p.names.Certificate, Names: p.cert.Leaf.DNSNames, NotAfter: p.cert.Leaf.NotAfter,
			Problem: p.files.problem, Reloads: p.files.reloads.Load(),
		})
	}
	s.current.Store(c)
}

// GetCertificate chooses by the name that the client asks for: exactly, then
// by a wildcard for its first label (RFC 9525, section 6.3), else the first of
// the configuration. Among several, those of a type that the client supports
// come first.
func (s *Store) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	name := strings.ToLower(hello.ServerName) // does not copy what is lower case
	if cert := s.fits(hello, name); cert != nil {
		return cert, nil
	}
	return s.first(hello), nil
}

// fits returns a certificate that has a name, or nil.
func (s *Store) fits(hello *tls.ClientHelloInfo, name string) *tls.Certificate {
	c := s.current.Load()
	exact := c.names[name]
	if cert := supported(hello, exact); cert != nil {
		return cert
	}
	var wild []*tls.Certificate
	if first, rest, ok := strings.Cut(name, "."); ok && first != "" {
		wild = c.names["*."+rest]
	}
	if cert := supported(hello, wild); cert != nil {
		return cert
	}
	if fits := append(exact[:len(exact):len(exact)], wild...); len(fits) > 0 {
		return fits[0] // the handshake will say what the client lacks
	}
	return nil
}

// first returns the certificate for names that none has, which
// SupportsCertificate would hold against each.
func (s *Store) first(hello *tls.ClientHelloInfo) *tls.Certificate {
	c := s.current.Load()
	nameless := *hello
	nameless.ServerName = ""
	if cert := supported(&nameless, c.all); cert != nil {
		return cert
	}
	return c.all[0]
}

// supported returns the first certificate that the client can use, or nil.
func supported(hello *tls.ClientHelloInfo, candidates []*tls.Certificate) *tls.Certificate {
	for _, cert := range candidates {
		if hello.SupportsCertificate(cert) == nil {
			return cert
		}
	}
	return nil
}

// Watch takes up changes of the files, looking each interval, and returns
// when ctx is done.
func (s *Store) Watch(ctx context.Context, interval time.Duration) { watch(ctx, interval, s.poll) }

func (s *Store) poll(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	news := false
	for _, p := range s.pairs {
		news = p.files.poll(now) || news
	}
	if news {
		s.publish()
	}
}

// Reload reads all files now. What is wrong with them is logged and returned;
// the certificates in use then stay.
func (s *Store) Reload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var problems []error
	for _, p := range s.pairs {
		if _, err := p.files.reload(); err != nil {
			problems = append(problems, err)
		}
	}
	s.publish()
	return errors.Join(problems...)
}

// Status returns what is known about each certificate, in the order of the
// configuration. It is not to be changed.
func (s *Store) Status() []Status { return s.current.Load().state }

var (
	listenerNotAfter = &telemetry.Desc{
		Name: "fairlead_listener_certificate_not_after_timestamp_seconds",
		Help: "When the certificate in use expires, in seconds since 1970.",
		Kind: telemetry.GaugeKind, Labels: []string{"listener", "file"},
	}
	listenerStale = &telemetry.Desc{
		Name: "fairlead_listener_certificate_stale",
		Help: "1 while the files cannot be used and what was read before is served, else 0.",
		Kind: telemetry.GaugeKind, Labels: []string{"listener", "file"},
	}
	listenerReloads = &telemetry.Desc{
		Name: "fairlead_listener_certificate_reloads_total",
		Help: "How often a changed certificate was taken up.",
		Kind: telemetry.CounterKind, Labels: []string{"listener", "file"},
	}
)

// Collect emits the metrics of the certificates of a listener.
func (s *Store) Collect(e *telemetry.Emitter, listener string) {
	for _, c := range s.Status() {
		e.Gauge(listenerNotAfter, float64(c.NotAfter.Unix()), listener, c.File)
		e.Gauge(listenerStale, number(c.Problem != ""), listener, c.File)
		e.Counter(listenerReloads, c.Reloads, listener, c.File)
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
