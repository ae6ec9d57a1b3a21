package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"maps"

	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"

	"fairlead/internal/model"
)

// challenges are what authorities are about to ask for. They are not changed once
// they are known to readers.
type challenges struct {
	tls  map[string]*tls.Certificate // by name
	http map[string]httpChallenge    // by token
}

type httpChallenge struct{ name, answer string }

// Challenge returns the certificate that proves to an authority that a name, in
// lower case, is served here (TLS-ALPN-01, RFC 8737); nil unless one is about to
// ask.
func (m *Manager) Challenge(name string) *tls.Certificate {
	cert := m.challenges.Load().tls[name]
	if cert != nil {
		m.answered[answeredTLS].Inc()
	}
	return cert
}

// HTTPChallenge returns what proves it to one that asks for a token over HTTP
// (HTTP-01, RFC 8555 section 8.3); false unless that is awaited. The host has no
// port.
func (m *Manager) HTTPChallenge(host, token []byte) (answer string, ok bool) {
	c, ok := m.challenges.Load().http[string(token)]
	if !ok || model.CanonicalHost(string(host)) != c.name {
		return "", false
	}
	m.answered[answeredHTTP].Inc()
	return c.answer, true
}

// Positions in answered.
const (
	answeredHTTP = iota
	answeredTLS
)

// solvers returns how names can be validated now. TLS-ALPN-01 always can: a
// certificate is for a listener that speaks TLS.
func (m *Manager) solvers() map[string]acmez.Solver {
	list := map[string]acmez.Solver{acme.ChallengeTypeTLSALPN01: tlsSolver{m}}
	if m.offerHTTP.Load() {
		list[acme.ChallengeTypeHTTP01] = httpSolver{m}
	}
	return list
}

// change changes the challenges that are answered.
func (m *Manager) change(f func(c *challenges)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.challenges.Load()
	next := &challenges{tls: maps.Clone(old.tls), http: maps.Clone(old.http)}
	if next.tls == nil {
		next.tls, next.http = make(map[string]*tls.Certificate), make(map[string]httpChallenge)
	}
	f(next)
	m.challenges.Store(next)
}

type tlsSolver struct{ m *Manager }

// Present implements acmez.Solver.
func (s tlsSolver) Present(_ context.Context, c acme.Challenge) error {
	cert, err := acmez.TLSALPN01ChallengeCert(c)
	if err != nil {
		return err
	}
	if cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0]); err != nil {
		return err
	}
	s.m.change(func(all *challenges) { all.tls[c.Identifier.Value] = cert })
	return nil
}

// CleanUp implements acmez.Solver.
func (s tlsSolver) CleanUp(_ context.Context, c acme.Challenge) error {
	s.m.change(func(all *challenges) { delete(all.tls, c.Identifier.Value) })
	return nil
}

type httpSolver struct{ m *Manager }

// Present implements acmez.Solver.
func (s httpSolver) Present(_ context.Context, c acme.Challenge) error {
	s.m.change(func(all *challenges) { all.http[c.Token] = httpChallenge{c.Identifier.Value, c.KeyAuthorization} })
	return nil
}

// CleanUp implements acmez.Solver.
func (s httpSolver) CleanUp(_ context.Context, c acme.Challenge) error {
	s.m.change(func(all *challenges) { delete(all.http, c.Token) })
	return nil
}
