package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead/internal/model"
	"fairlead/internal/telemetry"
)

// endpointConfig is the TLS side of an endpoint that wants to see a
// certificate signed by the given authority, or none.
func endpointConfig(c, clientCA *issued) *tls.Config {
	conf := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{c.leaf.Raw}, PrivateKey: c.signer, Leaf: c.leaf}}}
	if clientCA != nil {
		conf.ClientAuth, conf.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		conf.ClientCAs.AddCert(clientCA.leaf)
	}
	return conf
}

func pinOf(c *issued) string { return model.PinOf(c.leaf.RawSubjectPublicKeyInfo) }

func TestClient(t *testing.T) {
	ca, otherCA := issue(t, 1, nil, nil), issue(t, 2, nil, nil)
	named := issue(t, 3, ca, nil, "endpoint.example.com", "10.0.0.1")
	shown := issue(t, 4, ca, nil, "fairlead.example.com")
	dir := t.TempDir()
	names := model.PoolTLS{CA: filepath.Join(dir, "ca.pem"), Certificate: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	write(t, names.CA, append(bytes.Clone(otherCA.cert), ca.cert...))
	write(t, names.Certificate, shown.cert)
	write(t, names.Key, shown.key)
	tests := []struct {
		name       string
		files      model.PoolTLS
		serverName string
		server     *tls.Config
		want       string // in the error; "" for success
	}{
		{"own authority", model.PoolTLS{CA: names.CA}, "endpoint.example.com", endpointConfig(named, nil), ""},
		{"an address", model.PoolTLS{CA: names.CA}, "10.0.0.1", endpointConfig(named, nil), ""},
		{"another name", model.PoolTLS{CA: names.CA}, "other.example.com", endpointConfig(named, nil), "not other.example.com"},
		{"another address", model.PoolTLS{CA: names.CA}, "10.0.0.2", endpointConfig(named, nil), "not 10.0.0.2"},
		{"the system's authorities", model.PoolTLS{}, "endpoint.example.com", endpointConfig(named, nil), "unknown authority"},
		{"a certificate is shown", names, "endpoint.example.com", endpointConfig(named, ca), ""},
		{"shown though its issuer is not listed", names, "endpoint.example.com", endpointConfig(named, otherCA), "unknown certificate authority"},
		{"none to show", model.PoolTLS{CA: names.CA}, "endpoint.example.com", endpointConfig(named, ca), "certificate required"},
		{"a pinned key", model.PoolTLS{CA: names.CA, Pins: []string{pinOf(otherCA), pinOf(named)}}, "endpoint.example.com", endpointConfig(named, nil), ""},
		{"another key than the pinned one", model.PoolTLS{CA: names.CA, Pins: []string{pinOf(shown)}}, "endpoint.example.com", endpointConfig(named, nil),
			"not pinned: it is " + pinOf(named)},
		{"the key of its issuer pinned", model.PoolTLS{CA: names.CA, Pins: []string{pinOf(ca)}}, "endpoint.example.com", endpointConfig(named, nil), "not pinned"},
		{"a pinned key of another name", model.PoolTLS{CA: names.CA, Pins: []string{pinOf(named)}}, "other.example.com", endpointConfig(named, nil), "not other.example.com"},
		{"a pinned key of an unknown authority", model.PoolTLS{Pins: []string{pinOf(named)}}, "endpoint.example.com", endpointConfig(named, nil), "unknown authority"},
		{"TLS 1.1", model.PoolTLS{CA: names.CA}, "endpoint.example.com", func() *tls.Config {
			c := endpointConfig(named, nil)
			c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
			return c
		}(), "protocol version"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := NewClient(tt.files, []string{"http/1.1"}, quiet(t))
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = handshake(t, tt.server, c.Config(tt.serverName))
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("handshake: %v, want %q", err, tt.want)
			}
		})
	}
}

func TestClientFiles(t *testing.T) {
	ca, pair, other := issue(t, 1, nil, nil), issue(t, 2, nil, nil), issue(t, 3, nil, nil)
	dir := t.TempDir()
	at := func(name string, data []byte) string {
		name = filepath.Join(dir, name)
		write(t, name, data)
		return name
	}
	caFile, certFile, keyFile := at("ca.pem", ca.cert), at("cert.pem", pair.cert), at("key.pem", pair.key)
	tests := []struct {
		name        string
		files       model.PoolTLS
		roots, cert bool
		want        string
	}{
		{"none", model.PoolTLS{}, false, false, ""},
		{"authority", model.PoolTLS{CA: caFile}, true, false, ""},
		{"certificate", model.PoolTLS{Certificate: certFile, Key: keyFile}, false, true, ""},
		{"all", model.PoolTLS{CA: caFile, Certificate: certFile, Key: keyFile}, true, true, ""},
		{"authority missing", model.PoolTLS{CA: dir + "/no.pem"}, false, false, "no such file"},
		{"authority without certificates", model.PoolTLS{CA: keyFile}, false, false, "key.pem: no certificate"},
		{"authority cut off", model.PoolTLS{CA: at("cut.pem", ca.cert[:100])}, false, false, "cut.pem: ends within a PEM block"},
		{"key of another", model.PoolTLS{Certificate: certFile, Key: at("other.pem", other.key)}, false, false, "does not match"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			roots, cert, err := LoadClient(tt.files)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("LoadClient() = %v, want %q", err, tt.want)
			}
			if (roots != nil) != tt.roots || (cert != nil) != tt.cert {
				t.Errorf("roots: %v, certificate: %v, want %v, %v", roots != nil, cert != nil, tt.roots, tt.cert)
			}
			if _, err := NewClient(tt.files, []string{"http/1.1"}, quiet(t)); (err == nil) != (tt.want == "") {
				t.Errorf("NewClient() = %v, want as LoadClient", err)
			}
		})
	}
}

// A change of the authority holds for new connections, and what was verified
// under the old one is not resumed.
func TestClientReload(t *testing.T) {
	oldCA, newCA := issue(t, 1, nil, nil), issue(t, 2, nil, nil)
	server := endpointConfig(issue(t, 3, oldCA, nil, "endpoint.example.com"), nil)
	file := filepath.Join(t.TempDir(), "ca.pem")
	write(t, file, oldCA.cert)
	c, err := NewClient(model.PoolTLS{CA: file}, []string{"http/1.1"}, quiet(t))
	if err != nil {
		t.Fatal(err)
	}
	conf := c.Config("endpoint.example.com")
	for _, resumed := range []bool{false, true} {
		state, _, err := handshake(t, server, c.Config("endpoint.example.com"))
		if err != nil || state.DidResume != resumed {
			t.Fatalf("handshake: resumed = %v, %v, want %v", state.DidResume, err, resumed)
		}
	}
	if c.Config("endpoint.example.com") != conf || c.Config("other.example.com") == conf {
		t.Error("Config is not one value for each name")
	}
	now := time.Now()
	polls := func() {
		for range 3 {
			now = now.Add(Interval)
			c.poll(now)
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	polls()
	if c.Config("endpoint.example.com") != conf {
		t.Error("deleting the file changed the settings")
	}
	if got := scrape(t, func(e *telemetry.Emitter) { c.Collect(e, "web") }); !strings.Contains(got, `fairlead_pool_certificate_stale{pool="web"} 1`) {
		t.Errorf("scrape does not say that the files are stale:\n%s", got)
	}
	write(t, file, newCA.cert)
	polls()
	if _, _, err := handshake(t, server, c.Config("endpoint.example.com")); err == nil || !strings.Contains(err.Error(), "unknown authority") {
		t.Errorf("handshake under the new authority: %v, want it refused", err)
	}
	write(t, file, oldCA.cert)
	if err := c.Reload(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := handshake(t, server, c.Config("endpoint.example.com")); err != nil {
		t.Error(err)
	}
	if got := scrape(t, func(e *telemetry.Emitter) { c.Collect(e, "web") }); !strings.Contains(got, `fairlead_pool_certificate_reloads_total{pool="web"} 2`) {
		t.Errorf("scrape does not count two reloads:\n%s", got)
	}
}
