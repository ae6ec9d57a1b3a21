package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml/ast"

	"fairlead/internal/model"
)

// examples are the files that users start from, and the contract of names.
var examples = []string{"../../examples/complete.yaml", "../../examples/http.yaml", "../../examples/grpc.yaml", "../../examples/dns.yaml", "testdata/contract.yaml"}

// install copies a configuration to a folder of its own and makes the files
// that it names there.
func install(t *testing.T, source string) string {
	t.Helper()
	data, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	doc, err := Parse(source, data, dir)
	if err != nil {
		t.Fatal(err)
	}
	var key []byte // of the certificate before it
	for _, f := range files(doc.Config) {
		var content []byte
		switch f.kind {
		case certificateFile, authorityFile:
			content, key = newPair(t)
		case keyFile:
			content = key
		case macKeyFile:
			content = []byte("zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wE\n")
		case passwordFile:
			content = []byte("password\n")
		case secretsFile:
			content = []byte("e5e973e5a6b2a43f48e7dc849e37bfcf\n")
		case zoneFile:
			content = []byte("@ 300 SOA ns1 hostmaster 1 3600 900 1209600 300\n@ 300 NS ns1\nns1 300 A 192.0.2.53\n")
		case mmdbFile:
			content = append(make([]byte, 1<<10), mmdbMarker...)
		case signingKeyFile: // the key of RFC 8080 section 6.1
			public := strings.TrimSuffix(*f.name, ".private") + ".key"
			text := f.zone + ". IN DNSKEY 257 3 15 l02Woi0iS8Aa25FQkUd9RMzZHJpBoRQwAQEX1SxZJA4=\n"
			if err := os.MkdirAll(filepath.Dir(public), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(public, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			content = []byte("Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\nPrivateKey: ODIyNjAzODQ2MjgwODAxMjI2NDUxOTAyMDQxNDIyNjI=\n")
		default:
			continue
		}
		if _, err := os.Stat(*f.name); err == nil {
			continue // named twice
		}
		if err := os.WriteFile(*f.name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, filepath.Base(source))
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// newPair makes a certificate and its key.
func newPair(t *testing.T) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "www.example.com"}, DNSNames: []string{"www.example.com"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
}

func TestExamplesLoad(t *testing.T) {
	for _, source := range examples {
		t.Run(filepath.Base(source), func(t *testing.T) {
			doc, err := Load(install(t, source))
			if err != nil {
				t.Fatal(err)
			}
			if errs := CheckFiles(doc); len(errs) > 0 {
				t.Errorf("CheckFiles:\n%v", errs)
			}
			if source == "testdata/contract.yaml" {
				return // it shows settings that its policy does not use
			}
			for _, w := range doc.Warnings {
				t.Errorf("warning: %v", w)
			}
		})
	}
}

// examples/complete.yaml is what its first line says.
func TestCompleteExampleHasEveryKey(t *testing.T) {
	data, err := os.ReadFile("../../examples/complete.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// The store excludes what the rest of the file shows, so it is a comment.
	text := strings.Replace(string(data), "# state: {endpoints", "state: {endpoints", 1)
	root, _, errs := parseYAML("complete.yaml", []byte(text))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	seen := map[string]bool{}
	collect(root, reflect.TypeFor[model.Config](), seen)
	for _, typ := range modelTypes() {
		for _, key := range fieldsOf(typ).names {
			if name := typ.Name() + "." + key; !seen[name] && name != "State.embedded" {
				t.Errorf("examples/complete.yaml lacks %s", name)
			}
		}
	}
}

func collect(n ast.Node, typ reflect.Type, seen map[string]bool) {
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	switch {
	case typ.Kind() == reflect.Slice:
		if s, ok := n.(*ast.SequenceNode); ok {
			for _, e := range s.Values {
				collect(e, typ.Elem(), seen)
			}
		}
	case typ.Kind() == reflect.Struct && slices.Contains(modelTypes(), typ):
		values, _ := entries(n)
		for _, e := range values {
			key := e.Key.GetToken().Value
			seen[typ.Name()+"."+key] = true
			if i, ok := fieldsOf(typ).index[key]; ok {
				collect(e.Value, typ.Field(i).Type, seen)
			}
		}
	}
}

// The small example uses only what the first planes serve.
func TestHTTPExampleIsServable(t *testing.T) {
	doc, err := Load(install(t, "../../examples/http.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c := doc.Config
	for i := range c.Listeners {
		if !c.Listeners[i].SpeaksHTTP() {
			t.Errorf("listener %q is not http or https", c.Listeners[i].Name)
		}
	}
	for _, lb := range c.LoadBalancers {
		if !lb.Proxied || lb.SessionAffinity != model.AffinityNone || len(lb.Rules) > 0 || lb.Policy() == model.SteerCapacity {
			t.Errorf("load balancer %q uses what is served later", lb.Name)
		}
	}
	if len(c.Zones) > 0 || c.State != nil {
		t.Error("the example has zones or a store")
	}
}
