package certs

import (
	"crypto/tls"
	"strings"
	"testing"

	"fairlead/internal/model"
)

// obtained is a source of certificates.
type obtained struct{ certificates, challenges map[string]*tls.Certificate }

func (o *obtained) Certificate(name string) *tls.Certificate { return o.certificates[name] }
func (o *obtained) Challenge(name string) *tls.Certificate   { return o.challenges[name] }

func asTLS(c *issued) *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{c.leaf.Raw}, PrivateKey: c.signer, Leaf: c.leaf}
}

func TestObtained(t *testing.T) {
	o := &obtained{
		certificates: map[string]*tls.Certificate{
			"a.example.com": asTLS(issue(t, 1, nil, nil, "a.example.com")),
			"b.example.com": asTLS(issue(t, 2, nil, nil, "b.example.com")),
			"other.example": asTLS(issue(t, 3, nil, nil, "other.example")), // of another listener
		},
		challenges: map[string]*tls.Certificate{"pending.example.com": asTLS(issue(t, 9, nil, nil, "pending.example.com"))},
	}
	names := []string{"pending.example.com", "waits.files.example", "a.example.com", "b.example.com"}
	wildcard := save(t, issue(t, 4, nil, nil, "*.files.example"))
	first := save(t, issue(t, 5, nil, rsaKey(), "files.example", "b.example.com"))
	onlyRSA := func(c *tls.Config) {
		c.MaxVersion, c.CipherSuites = tls.VersionTLS12, []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
	}
	challenge := func(c *tls.Config) { c.NextProtos = []string{ChallengeProtocol} }
	for _, c := range []struct {
		name   string
		files  []model.CertificateFiles
		ask    string
		change func(*tls.Config)
		want   int64  // serial number
		err    string // at the client
	}{
		{name: "obtained", ask: "a.example.com", want: 1},
		{name: "in upper case", ask: "B.Example.COM", want: 2},
		{name: "of another listener", ask: "other.example", want: 1},
		{name: "no name", ask: "", want: 1},
		{name: "not obtained yet", ask: "pending.example.com", err: "internal error"},
		{name: "beside files", files: []model.CertificateFiles{first}, ask: "b.example.com", want: 2},
		{name: "beside files, of a kind that the client lacks", files: []model.CertificateFiles{first}, ask: "b.example.com", change: onlyRSA, want: 5},
		{name: "a file until it is obtained", files: []model.CertificateFiles{first, wildcard}, ask: "waits.files.example", want: 4},
		{name: "not obtained yet, beside files", files: []model.CertificateFiles{first}, ask: "pending.example.com", err: "internal error"},
		{name: "files", files: []model.CertificateFiles{first}, ask: "files.example", want: 5},
		{name: "another name beside files", files: []model.CertificateFiles{first}, ask: "other.example", want: 5},
		{name: "an authority asks", ask: "pending.example.com", change: challenge, want: 9},
		{name: "an authority asks in upper case", ask: "Pending.Example.com", change: challenge, want: 9},
		{name: "a challenge that nobody awaits", ask: "a.example.com", change: challenge, err: "no application protocol"},
		{name: "a challenge among other protocols", ask: "pending.example.com", change: func(c *tls.Config) { c.NextProtos = []string{"h2", ChallengeProtocol} }, err: "internal error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newServer(t, Spec{Certificates: c.files, Names: names, Obtained: o, MinVersion: model.TLS12, Protocols: []string{"h2", "http/1.1"}}, nil)
			client := &tls.Config{ServerName: c.ask, InsecureSkipVerify: true, NextProtos: []string{"h2"}}
			if c.change != nil {
				c.change(client)
			}
			state, _, err := handshake(t, s.Config(), client)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("handshake: %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := state.PeerCertificates[0].SerialNumber.Int64(); got != c.want {
				t.Errorf("certificate %d, want %d", got, c.want)
			}
			if want := map[bool]string{true: ChallengeProtocol, false: "h2"}[c.want == 9]; state.NegotiatedProtocol != want {
				t.Errorf("protocol %q, want %q", state.NegotiatedProtocol, want)
			}
		})
	}
	// An authority is let in without a certificate, and gets no session.
	ca := issue(t, 7, nil, nil)
	dir := save(t, ca)
	s := newServer(t, Spec{Names: names, Obtained: o, MinVersion: model.TLS13, Clients: &model.ClientCertificates{CA: dir.Certificate}}, nil)
	client := &tls.Config{ServerName: "pending.example.com", InsecureSkipVerify: true, NextProtos: []string{ChallengeProtocol}, MaxVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	for range 2 {
		if state, _, err := handshake(t, s.Config(), client); err != nil || state.DidResume {
			t.Errorf("challenge where clients show certificates: %v, resumed %v", err, state.DidResume)
		}
	}
	// New certificates end no session; other names make no difference to files.
	next := newServer(t, Spec{Names: names[:2], Obtained: o, MinVersion: model.TLS13, Clients: &model.ClientCertificates{CA: dir.Certificate}}, s)
	if next == s {
		t.Error("the same server for other names")
	}
	none := newServer(t, Spec{Names: names[:1], Obtained: &obtained{}}, nil)
	if _, _, err := handshake(t, none.Config(), &tls.Config{ServerName: "x", InsecureSkipVerify: true}); err == nil {
		t.Error("a handshake succeeds without any certificate")
	}
}
