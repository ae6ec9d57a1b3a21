package acme

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"encoding/pem"
	"time"

	"github.com/caddyserver/certmagic"
	"golang.org/x/crypto/ocsp"
)

// stapled returns cert with an OCSP response. certmagic asks for another in the
// second half of a response's time, and goes without if there is none to be had;
// the one that is shown, or stored, is as good until its end. One without an end
// cannot be told from one that is over, and is not shown.
func (s *Setup) stapled(cert, shown *tls.Certificate) *tls.Certificate {
	if len(cert.OCSPStaple) > 0 {
		if current(cert.OCSPStaple, cert.Leaf) {
			return cert
		}
		cert = bare(cert)
	}
	if len(cert.Leaf.OCSPServer) == 0 {
		return cert
	}
	var staple []byte
	if shown != nil && bytes.Equal(shown.Leaf.Raw, cert.Leaf.Raw) && current(shown.OCSPStaple, cert.Leaf) {
		staple = shown.OCSPStaple
	} else {
		key := certmagic.StorageKeys.OCSPStaple(&certmagic.Certificate{Certificate: *cert, Names: cert.Leaf.DNSNames}, bundle(cert))
		stored, err := s.storage.Load(context.Background(), key)
		if err != nil || !current(stored, cert.Leaf) {
			return cert
		}
		staple = stored
	}
	with := *cert
	with.OCSPStaple = staple
	return &with
}

// current reports whether a response says now that the certificate is good. Who
// has signed it was looked at when it was fetched.
func current(response []byte, leaf *x509.Certificate) bool {
	r, err := ocsp.ParseResponse(response, nil)
	now := time.Now()
	return err == nil && r.Status == ocsp.Good && r.SerialNumber.Cmp(leaf.SerialNumber) == 0 &&
		!now.Before(r.ThisUpdate) && now.Before(r.NextUpdate)
}

// bare returns cert without an OCSP response.
func bare(cert *tls.Certificate) *tls.Certificate {
	without := *cert
	without.OCSPStaple = nil
	return &without
}

// shown is what handshakes find: a certificate, and where it has an OCSP response, how
// long that is good, and the certificate to show from then on. Nobody has to come in
// time to take a response away that is over, however long its responder is silent.
type shown struct {
	cert, bare *tls.Certificate
	until      time.Time
}

func show(cert *tls.Certificate) shown {
	r, err := ocsp.ParseResponse(cert.OCSPStaple, nil)
	if err != nil {
		return shown{cert: cert}
	}
	return shown{cert, bare(cert), r.NextUpdate}
}

// staple returns how long a certificate may be left alone for the sake of its OCSP
// response: until another one is to be fetched, in the middle of its time. Without a
// response, and where none came then, until it is tried again to get one.
func (t *timing) staple(cert *tls.Certificate) time.Duration {
	if len(cert.Leaf.OCSPServer) == 0 {
		return t.check
	}
	r, err := ocsp.ParseResponse(cert.OCSPStaple, nil)
	if err != nil {
		return t.unstapled
	}
	middle := r.ThisUpdate.Add(r.NextUpdate.Sub(r.ThisUpdate) / 2)
	return max(time.Until(middle), t.unstapled)
}

// bundle returns the file of a chain, by which certmagic names its response.
func bundle(cert *tls.Certificate) []byte {
	var b bytes.Buffer
	for _, der := range cert.Certificate {
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: der}) // a buffer takes all
	}
	return b.Bytes()
}

// tlsFeature is the extension by which a certificate demands OCSP stapling
// (must-staple, RFC 7633).
var tlsFeature = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 24}

func mustStaple(leaf *x509.Certificate) bool {
	for _, e := range leaf.Extensions {
		if e.Id.Equal(tlsFeature) {
			return true
		}
	}
	return false
}
