package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead/internal/model"
	"fairlead/internal/telemetry"
)

// presenting is a client that shows a certificate, or none, whomever the server
// asks for.
func presenting(c *issued) *tls.Config {
	conf := &tls.Config{InsecureSkipVerify: true, ServerName: "www.example.com", ClientSessionCache: tls.NewLRUClientSessionCache(4)}
	if c != nil {
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &tls.Certificate{Certificate: [][]byte{c.leaf.Raw}, PrivateKey: c.signer}, nil
		}
	}
	return conf
}

func newServer(t *testing.T, spec Spec, old *Server) *Server {
	t.Helper()
	s, err := NewServer(spec, old, quiet(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestClientCertificates(t *testing.T) {
	ca, otherCA := issue(t, 9, nil, nil), issue(t, 9, nil, nil)
	good, bad, brief := issue(t, 5, ca, nil, "client"), issue(t, 5, otherCA, nil, "client"), issue(t, 3, ca, nil, "client")
	file := filepath.Join(t.TempDir(), "clients.pem")
	write(t, file, ca.cert)
	files := []model.CertificateFiles{save(t, issue(t, 6, nil, nil, "www.example.com"))}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, c := range []struct {
			mode  model.ClientCertificateMode
			shown *issued
			want  string // in the client's error
		}{
			{model.ClientCertificateRequire, good, ""},
			{model.ClientCertificateRequire, nil, "remote error"},
			{model.ClientCertificateRequire, bad, "remote error"},
			{model.ClientCertificateRequire, brief, "remote error"},
			{model.ClientCertificateRequest, good, ""},
			{model.ClientCertificateRequest, nil, ""},
			{model.ClientCertificateRequest, bad, "remote error"},
			{model.ClientCertificateRequest, brief, "remote error"},
		} {
			s := newServer(t, Spec{Certificates: files, Clients: &model.ClientCertificates{CA: file, Mode: c.mode}}, nil)
			client := presenting(c.shown)
			client.MaxVersion = version
			server := s.Config()
			if c.shown == brief { // which has expired by then
				server = server.Clone()
				server.Time = func() time.Time { return time.Now().Add(4 * time.Hour) }
			}
			// The second time it resumes its session: the result is the same.
			for range 2 {
				_, atServer, err := handshake(t, server, client)
				if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s: handshake in %s: %v, want %q", c.mode, tls.VersionName(version), err, c.want)
				}
				verified, subject := ClientSubject(&atServer)
				if want := err == nil && c.shown == good; verified != want || verified != (subject == "CN=test") {
					t.Errorf("%s: subject %q, verified %v, want %v", c.mode, subject, verified, want)
				}
			}
		}
	}
}

// What was verified by authorities that are not believed any more is not resumed,
// and neither is what was not verified at all.
func TestClientAuthoritiesChange(t *testing.T) {
	oldCA, newCA := issue(t, 1, nil, nil), issue(t, 2, nil, nil)
	files := []model.CertificateFiles{save(t, issue(t, 3, nil, nil, "www.example.com"))}
	file := filepath.Join(t.TempDir(), "clients.pem")
	write(t, file, oldCA.cert)
	log := quiet(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		write(t, file, oldCA.cert)
		anonymous := newServer(t, Spec{Certificates: files}, nil)
		s := newServer(t, Spec{Certificates: files, Clients: &model.ClientCertificates{CA: file}}, anonymous)
		if s.store != anonymous.store {
			t.Error("certificates were loaded anew though their files are the same")
		}
		ofOld, ofNew := presenting(issue(t, 4, oldCA, nil, "client")), presenting(issue(t, 5, newCA, nil, "client"))
		ofOld.MaxVersion, ofNew.MaxVersion = version, version
		try := func(client *tls.Config, on *Server, ok, resumed bool) {
			t.Helper()
			state, _, err := handshake(t, on.Config(), client)
			if (err == nil) != ok || err == nil && state.DidResume != resumed {
				t.Errorf("%s: handshake: %v, resumed %v, want success %v, resumed %v", tls.VersionName(version), err, state.DidResume, ok, resumed)
			}
		}
		nobody := presenting(nil)
		nobody.MaxVersion = version
		try(nobody, anonymous, true, false)
		try(nobody, anonymous, true, true)
		try(nobody, s, false, false)

		try(ofOld, s, true, false)
		try(ofOld, s, true, true)
		try(ofNew, s, false, false)
		if same := newServer(t, Spec{Certificates: files, Clients: &model.ClientCertificates{CA: file, SubjectHeader: "X-Subject"}}, s); same != s {
			t.Error("another server for the same TLS")
		}
		write(t, file, append(oldCA.cert[:len(oldCA.cert)-40:len(oldCA.cert)-40], "half"...))
		if err := s.Reload(); err == nil {
			t.Error("Reload takes half a certificate")
		}
		try(ofOld, s, true, true)
		if got := scrape(t, func(e *telemetry.Emitter) { s.Collect(e, "web") }); !strings.Contains(got, `fairlead_listener_client_ca_stale{file="`+file+`",listener="web"} 1`) {
			t.Errorf("scrape does not say that the file is stale:\n%s", got)
		}
		write(t, file, newCA.cert)
		now := time.Now()
		for range 3 {
			now = now.Add(Interval)
			s.poll(now)
		}
		try(ofOld, s, false, false)
		try(ofNew, s, true, false)
		if got := scrape(t, func(e *telemetry.Emitter) { s.Collect(e, "web") }); !strings.Contains(got, `fairlead_listener_client_ca_reloads_total{file="`+file+`",listener="web"} 1`) {
			t.Errorf("scrape does not count the reload:\n%s", got)
		}
		// The other mode, and back.
		relaxed := newServer(t, Spec{Certificates: files, Clients: &model.ClientCertificates{CA: file, Mode: model.ClientCertificateRequest}}, s)
		try(nobody, relaxed, true, false)
		strict := newServer(t, Spec{Certificates: files, Clients: &model.ClientCertificates{CA: file, Mode: model.ClientCertificateRequire}}, relaxed)
		try(nobody, strict, false, false)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := NewServer(Spec{Certificates: files, Clients: &model.ClientCertificates{CA: file}}, nil, log); err == nil {
		t.Error("NewServer without the file of the authorities: no error")
	}
}

func TestClientSubject(t *testing.T) {
	printableText := func(typ int, value string) asn1.RawValue { return asn1.RawValue{Tag: typ, Bytes: []byte(value)} }
	attribute := func(oid asn1.ObjectIdentifier, value any) pkix.AttributeTypeAndValue {
		return pkix.AttributeTypeAndValue{Type: oid, Value: value}
	}
	cn, org, mail := asn1.ObjectIdentifier{2, 5, 4, 3}, asn1.ObjectIdentifier{2, 5, 4, 10}, asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}
	for _, c := range []struct {
		name    string
		subject pkix.RDNSequence
		want    string
	}{
		{"plain", pkix.RDNSequence{{attribute(org, "Example")}, {attribute(cn, "client 1")}}, "CN=client 1,O=Example"},
		{"in another order", pkix.RDNSequence{{attribute(cn, "client 1")}, {attribute(org, "Example")}}, "O=Example,CN=client 1"},
		{"two values in one", pkix.RDNSequence{{attribute(org, "Example"), attribute(cn, "a")}}, "CN=a+O=Example"},
		{"separators", pkix.RDNSequence{{attribute(cn, `a,O=Other+"x"\`)}}, `CN=a\,O=Other\+\"x\"\\`},
		{"a line break", pkix.RDNSequence{{attribute(cn, printableText(asn1.TagUTF8String, "a\r\nX-Admin: yes"))}}, `CN=a\0D\0AX-Admin: yes`},
		{"a zero", pkix.RDNSequence{{attribute(cn, printableText(asn1.TagUTF8String, "a\x00b"))}}, `CN=a\00b`},
		{"not ASCII", pkix.RDNSequence{{attribute(cn, "Zoë")}}, `CN=Zo\C3\AB`},
		{"e-mail", pkix.RDNSequence{{attribute(mail, printableText(asn1.TagIA5String, "a@b.c"))}}, "emailAddress=a@b.c"},
		{"a type without a name", pkix.RDNSequence{{attribute(asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 99999, 1}, printableText(asn1.TagIA5String, "x,y"))}}, "1.3.6.1.4.1.99999.1=#1603782c79"},
		{"spaces and a number sign", pkix.RDNSequence{{attribute(cn, " # a ")}, {attribute(org, "#1")}}, `O=\#1,CN=\ # a\ `},
		{"empty", pkix.RDNSequence{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw, err := asn1.Marshal(c.subject)
			if err != nil {
				t.Fatal(err)
			}
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			template := &x509.Certificate{SerialNumber: big.NewInt(1), RawSubject: raw, DNSNames: []string{"x"}, NotAfter: time.Now().Add(time.Hour)}
			der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
			if err != nil {
				t.Fatal(err)
			}
			leaf, err := x509.ParseCertificate(der)
			if err != nil {
				t.Fatal(err)
			}
			state := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
			if verified, got := ClientSubject(state); verified || got != "" {
				t.Errorf("ClientSubject() without verification = %v, %q", verified, got)
			}
			state.VerifiedChains = [][]*x509.Certificate{{leaf}}
			if verified, got := ClientSubject(state); !verified || got != c.want {
				t.Errorf("ClientSubject() = %v, %q, want %q", verified, got, c.want)
			}
		})
	}
}

// Some releases of Go parse certificates with such a name.
func TestDistinguishedNameWithoutText(t *testing.T) {
	raw, err := asn1.Marshal(pkix.RDNSequence{{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: 7}}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := distinguishedName(raw), "CN=#020107"; got != want {
		t.Errorf("distinguishedName() = %q, want %q", got, want)
	}
}
