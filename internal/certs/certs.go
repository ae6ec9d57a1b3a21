// Package certs keeps certificates in memory and current: those that
// listeners show to clients ([Store]) and ask of them ([Server]), and those that
// are used towards the endpoints of a pool ([Client]).
//
// Files are polled. A change is used only once all files of a pair parse, fit
// together and have stopped changing; until then, and when files vanish, what
// was read before stays in use. A change is published by one atomic pointer,
// so handshakes take no lock and sessions can be resumed across it.
package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Interval is how often files are looked at, unless the caller knows better.
const Interval = 2 * time.Second

// parsePair makes a certificate of the contents of its two files.
func parsePair(certFile, keyFile string, cert, key []byte) (*tls.Certificate, error) {
	if _, err := parseCertificates(cert); err != nil {
		return nil, fmt.Errorf("%s: %w", certFile, err)
	}
	if block, _ := pem.Decode(key); block != nil && (block.Type == "ENCRYPTED PRIVATE KEY" || block.Headers["DEK-Info"] != "") {
		return nil, fmt.Errorf("%s: the key is encrypted: want it without a passphrase", keyFile)
	}
	c, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s with %s: %s", certFile, keyFile, strings.TrimPrefix(err.Error(), "tls: "))
	}
	return &c, nil
}

// parseCertificates reads PEM blocks to the end. Unlike the standard library
// it refuses what follows the last whole block when that looks like the
// beginning of another: a chain whose file is still being written must not be
// used without its last part.
func parseCertificates(data []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		data = rest
		if block.Type != "CERTIFICATE" {
			continue // a key or parameters in the same file
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %s", len(all)+1, strings.TrimPrefix(err.Error(), "x509: "))
		}
		all = append(all, c)
	}
	if strings.Contains(string(data), "-----BEGIN") {
		return nil, errors.New("ends within a PEM block: want whole blocks from -----BEGIN to -----END")
	}
	if len(all) == 0 {
		return nil, errors.New("no certificate: want PEM blocks that begin with -----BEGIN CERTIFICATE-----")
	}
	return all, nil
}

// parseAuthorities makes a pool of the contents of a file.
func parseAuthorities(file string, data []byte) (*x509.CertPool, error) {
	authorities, err := parseCertificates(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	pool := x509.NewCertPool()
	for _, a := range authorities {
		pool.AddCert(a)
	}
	return pool, nil
}
