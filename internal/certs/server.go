package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"fairlead/internal/model"
	"fairlead/internal/telemetry"
)

// Spec is how a listener speaks TLS.
type Spec struct {
	Certificates []model.CertificateFiles
	// Names are those, in lower case, whose certificates come from Obtained.
	Names      []string
	Obtained   Obtained
	MinVersion model.TLSVersion
	// Clients says what is asked of clients; nil for nothing.
	Clients *model.ClientCertificates
	// Protocols are what is spoken inside (ALPN), the preferred one first.
	Protocols []string
}

// Obtained yields certificates that are not read from files. Its methods are
// called in handshakes, and do not wait.
type Obtained interface {
	// Certificate returns the certificate of a name in lower case, or nil as
	// long as there is none.
	Certificate(name string) *tls.Certificate
	// Challenge returns what proves to an authority that asks now that a name is
	// served here, or nil (TLS-ALPN-01, RFC 8737).
	Challenge(name string) *tls.Certificate
}

// ChallengeProtocol is what an authority that asks for such a proof speaks, and
// nobody else: there is nothing inside.
const ChallengeProtocol = "acme-tls/1"

func (s *Spec) equal(o *Spec) bool {
	return slices.Equal(s.Certificates, o.Certificates) && slices.Equal(s.Names, o.Names) && s.Obtained == o.Obtained && s.MinVersion == o.MinVersion &&
		sameClients(s.Clients, o.Clients) && slices.Equal(s.Protocols, o.Protocols)
}

// sameClients compares what TLS depends on.
func sameClients(a, b *model.ClientCertificates) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.CA == b.CA && a.Mode == b.Mode
}

// Server is the TLS of one listener: the certificates that it shows, and those
// that it asks clients for.
type Server struct {
	spec   Spec
	names  map[string]bool // of the spec
	store  *Store          // nil where no files are named
	config atomic.Pointer[tls.Config]
	quic   atomic.Pointer[tls.Config] // the same for QUIC

	mu      sync.Mutex // held while the authorities of clients are read
	clients *bundle    // nil where nothing is asked of clients
}

// NewServer loads what spec names, all of which must be right. What has not
// changed since old, which may be nil, is taken from it: old itself if nothing
// has, so that clients can resume their sessions.
func NewServer(spec Spec, old *Server, log *slog.Logger) (*Server, error) {
	if old != nil && old.spec.equal(&spec) {
		return old, nil
	}
	s := &Server{spec: spec, names: make(map[string]bool)}
	for _, name := range spec.Names {
		s.names[name] = true
	}
	switch {
	case len(spec.Certificates) == 0 && len(spec.Names) > 0:
	case old != nil && slices.Equal(old.spec.Certificates, spec.Certificates):
		s.store = old.store
	default:
		store, err := New(spec.Certificates, log)
		if err != nil {
			return nil, err
		}
		s.store = store
	}
	if spec.Clients == nil {
		s.use(nil)
		return s, nil
	}
	s.clients = newBundle(log, func(contents [][]byte) error {
		authorities, err := parseAuthorities(spec.Clients.CA, contents[0])
		if err == nil {
			s.use(authorities)
		}
		return err
	}, spec.Clients.CA)
	if err := s.clients.load(); err != nil {
		return nil, err
	}
	return s, nil
}

// use puts the settings in force for handshakes that begin. QUIC has nothing below
// TLS 1.3, and there it is one protocol. Where clients are asked for certificates no
// session of it can be resumed: its tickets would outlive a change of authorities.
func (s *Server) use(clients *x509.CertPool) {
	c := s.newConfig(clients)
	s.config.Store(c)
	q := c.Clone()
	q.NextProtos, q.MinVersion, q.GetConfigForClient = []string{"h3"}, tls.VersionTLS13, nil
	q.SessionTicketsDisabled = clients != nil
	s.quic.Store(q)
}

// QUIC returns the settings of handshakes in QUIC.
func (s *Server) QUIC() *tls.Config { return s.quic.Load() }

// newConfig makes the settings. Each value makes session tickets with keys of
// its own, which rotate daily: what was verified by other authorities, or not
// at all, cannot be resumed. Changed certificates need no new value.
func (s *Server) newConfig(clients *x509.CertPool) *tls.Config {
	c := &tls.Config{
		GetCertificate: s.getCertificate,
		NextProtos:     s.spec.Protocols,
		MinVersion:     tls.VersionTLS12,
		CipherSuites:   forwardSecret(),
	}
	if s.spec.MinVersion == model.TLS13 {
		c.MinVersion = tls.VersionTLS13
	}
	if s.spec.Obtained != nil {
		c.GetConfigForClient = s.challenged
	}
	if clients != nil {
		c.ClientCAs, c.ClientAuth = clients, tls.RequireAndVerifyClientCert
		if s.spec.Clients.Mode == model.ClientCertificateRequest {
			c.ClientAuth = tls.VerifyClientCertIfGiven
		}
		c.VerifyConnection = func(state tls.ConnectionState) error {
			if _, subject := ClientSubject(&state); len(subject) > maxSubject {
				return fmt.Errorf("the subject of the client's certificate is longer than %d bytes", maxSubject)
			}
			return nil
		}
	}
	return c
}

// challenged returns the settings for an authority that asks for a proof, and nil,
// for the usual ones, to anybody else. It shows no certificate of its own, and
// nothing can be resumed.
func (s *Server) challenged(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if len(hello.SupportedProtos) != 1 || hello.SupportedProtos[0] != ChallengeProtocol {
		return nil, nil
	}
	cert := s.spec.Obtained.Challenge(strings.ToLower(hello.ServerName))
	if cert == nil {
		return nil, nil // no protocol in common
	}
	return &tls.Config{
		Certificates: []tls.Certificate{*cert}, NextProtos: []string{ChallengeProtocol},
		MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true,
	}, nil
}

// getCertificate chooses by the name that the client asks for: the one that was
// obtained for it, or what files have for it. There may be none yet: a client that
// is refused tries again, and one that is shown a certificate which nobody has
// signed learns to accept those.
func (s *Server) getCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if len(s.names) == 0 {
		return s.store.GetCertificate(hello)
	}
	name := strings.ToLower(hello.ServerName) // does not copy what is lower case
	var cert *tls.Certificate
	if s.names[name] {
		if cert = s.spec.Obtained.Certificate(name); cert != nil && hello.SupportsCertificate(cert) == nil {
			return cert, nil
		}
	}
	if s.store != nil {
		if fits := s.store.fits(hello, name); fits != nil {
			return fits, nil
		}
	}
	switch {
	case cert != nil:
		return cert, nil // the handshake will say what the client lacks
	case s.names[name]:
		return nil, fmt.Errorf("the certificate of %q has not been obtained yet", name)
	case s.store != nil:
		return s.store.first(hello), nil
	}
	for _, n := range s.spec.Names {
		if cert := s.spec.Obtained.Certificate(n); cert != nil {
			return cert, nil
		}
	}
	return nil, errors.New("no certificate has been obtained yet")
}

// Config returns the settings for connections that begin now. They are shared and
// not to be changed.
func (s *Server) Config() *tls.Config { return s.config.Load() }

// Watch takes up changes of the files, looking each interval, and returns when
// ctx is done.
func (s *Server) Watch(ctx context.Context, interval time.Duration) { watch(ctx, interval, s.poll) }

func (s *Server) poll(now time.Time) {
	if s.store != nil {
		s.store.poll(now)
	}
	if s.clients == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients.poll(now)
}

// Reload reads all files now. What is wrong with them is logged and returned;
// what is in use then stays.
func (s *Server) Reload() error {
	var err error
	if s.store != nil {
		err = s.store.Reload()
	}
	if s.clients == nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, clientsErr := s.clients.reload()
	return errors.Join(err, clientsErr)
}

var (
	clientCAStale = &telemetry.Desc{
		Name: "fairlead_listener_client_ca_stale",
		Help: "1 while the file of the authorities of clients' certificates cannot be used and what was read before is, else 0.",
		Kind: telemetry.GaugeKind, Labels: []string{"listener", "file"},
	}
	clientCAReloads = &telemetry.Desc{
		Name: "fairlead_listener_client_ca_reloads_total",
		Help: "How often changed authorities of clients' certificates were taken up.",
		Kind: telemetry.CounterKind, Labels: []string{"listener", "file"},
	}
)

// Collect emits the metrics of the files of a listener.
func (s *Server) Collect(e *telemetry.Emitter, listener string) {
	if s.store != nil {
		s.store.Collect(e, listener)
	}
	if s.clients != nil {
		e.Gauge(clientCAStale, number(s.clients.stale.Load()), listener, s.spec.Clients.CA)
		e.Counter(clientCAReloads, s.clients.reloads.Load(), listener, s.spec.Clients.CA)
	}
}

// maxSubject bounds the subjects that are passed on in a header. Cut, one could
// be taken for another, so that a longer one is refused.
const maxSubject = 4096

// forwardSecret returns the suites of TLS 1.2 that keep past traffic secret
// when the key leaks and that authenticate what they encrypt. Those of TLS 1.3
// all do.
func forwardSecret() []uint16 {
	return []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}
}
