package lab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// CA is a certificate authority for one test.
type CA struct {
	File string         // its certificate
	Pool *x509.CertPool // holding only it

	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Certificate is one that a CA issued.
type Certificate struct {
	CertFile, KeyFile string
	TLS               tls.Certificate
}

// NewCA makes an authority.
func NewCA(t testing.TB) *CA {
	t.Helper()
	ca := &CA{t: t, dir: t.TempDir(), Pool: x509.NewCertPool()}
	der, key := ca.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "lab"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	ca.cert, ca.key = ca.parse(der), key
	ca.Pool.AddCert(ca.cert)
	ca.File = ca.write("ca-*.pem", "CERTIFICATE", der)
	return ca
}

// Issue makes a certificate for server and client use; names that are IP
// addresses become such.
func (ca *CA) Issue(names ...string) Certificate {
	ca.t.Helper()
	c := &x509.Certificate{
		Subject:     pkix.Name{CommonName: names[0]},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, n)
		}
	}
	der, key := ca.sign(c)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		ca.t.Fatal(err)
	}
	return Certificate{
		CertFile: ca.write("cert-*.pem", "CERTIFICATE", der),
		KeyFile:  ca.write("key-*.pem", "PRIVATE KEY", keyDER),
		TLS:      tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
	}
}

// Client returns the TLS settings of a client that trusts the authority, asks
// for a server name and offers the protocols.
func (ca *CA) Client(serverName string, protocols ...string) *tls.Config {
	return &tls.Config{RootCAs: ca.Pool, ServerName: serverName, NextProtos: protocols}
}

// sign completes c and signs it, by itself when there is no authority yet.
func (ca *CA) sign(c *x509.Certificate) (der []byte, key *ecdsa.PrivateKey) {
	ca.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		ca.t.Fatal(err)
	}
	c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		ca.t.Fatal(err)
	}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent, signer := ca.cert, ca.key
	if parent == nil {
		parent, signer = c, key
	}
	if der, err = x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer); err != nil {
		ca.t.Fatal(err)
	}
	return der, key
}

func (ca *CA) parse(der []byte) *x509.Certificate {
	ca.t.Helper()
	c, err := x509.ParseCertificate(der)
	if err != nil {
		ca.t.Fatal(err)
	}
	return c
}

func (ca *CA) write(pattern, kind string, der []byte) string {
	ca.t.Helper()
	f, err := os.CreateTemp(ca.dir, pattern)
	if err != nil {
		ca.t.Fatal(err)
	}
	defer f.Close()
	if err := pem.Encode(f, &pem.Block{Type: kind, Bytes: der}); err != nil {
		ca.t.Fatal(err)
	}
	return filepath.Clean(f.Name())
}
