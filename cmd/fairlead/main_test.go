package main

import (
	"bytes"
	"crypto/tls"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead/internal/config"
	"fairlead/internal/plan"
)

// README.md shows the demo as it is.
func TestReadmeShowsTheDemo(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	introduce(&out, "127.0.0.1:8080", "127.0.0.1:8443", "127.0.0.1:43297", "127.0.0.1:42007")
	if !strings.Contains(string(readme), out.String()) {
		t.Errorf("README.md does not show what the demo prints; it should have:\n%s", out.String())
	}
}

// The demo answers for whatever name it may be asked by, and its file is one
// that serve takes.
func TestDemoFile(t *testing.T) {
	here := []string{"localhost", "127.0.0.1", "::1"}
	for _, test := range []struct {
		address, tls string
		wantTLS      string
		hosts        []string
	}{
		{"127.0.0.1:8080", "", "127.0.0.1:8443", here},
		{"localhost:0", "", "localhost:0", here},
		{"[::1]:8080", "", "[::1]:8443", here},
		{":8080", "", ":8443", here},
		{":8080", "127.0.0.1:1", "127.0.0.1:1", here},
		{"0.0.0.0:8080", "", "0.0.0.0:8443", append(slices.Clip(here), "0.0.0.0")},
		{"192.0.2.1:8080", "192.0.2.2:8443", "192.0.2.2:8443", append(slices.Clip(here), "192.0.2.1", "192.0.2.2")},
		{"demo.example.com:8080", "", "demo.example.com:8443", append(slices.Clip(here), "demo.example.com")},
	} {
		c := &demoCmd{Address: test.address, TLS: test.tls}
		if err := c.Validate(); err != nil || c.TLS != test.wantTLS {
			t.Errorf("--address %s --tls-address %q: %v, the latter is %s, want %s", test.address, test.tls, err, c.TLS, test.wantTLS)
		}
		if got := c.hosts(); !slices.Equal(got, test.hosts) {
			t.Errorf("hosts of %s, %s: %q, want %q", c.Address, c.TLS, got, test.hosts)
		}
		dir := t.TempDir()
		cert, key := filepath.Join(dir, "demo.pem"), filepath.Join(dir, "demo.key")
		if err := signItself(cert, key, c.hosts()); err != nil {
			t.Fatal(err)
		}
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range test.hosts {
			if err := pair.Leaf.VerifyHostname(h); err != nil {
				t.Error(err)
			}
		}
		text := c.file(map[string]string{"a": "127.0.0.1:1", "b": "127.0.0.1:2", "c": "127.0.0.1:3"})
		doc, err := config.Parse("demo.yaml", []byte(text), dir)
		if err == nil && len(config.CheckFiles(doc)) > 0 {
			err = config.CheckFiles(doc)
		}
		if err != nil {
			t.Errorf("%s: %v", test.address, err)
			continue
		}
		if p := plan.Unbuilt(doc.Config); len(doc.Warnings) > 0 || len(p) > 0 {
			t.Errorf("%s: warnings %v, unbuilt %v, want none", test.address, doc.Warnings, p)
		}
	}
}

// Help is read in terminals of 80 columns.
func TestHelpFits(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {"check", "--help"}, {"dnssec", "--help"}, {"dnssec", "ds", "--help"}, {"dnssec", "tell", "--help"}, {"schema", "--help"}, {"demo", "--help"}, {"version", "--help"}} {
		var out, errs bytes.Buffer
		if status := run(args, streams{&out, &errs}); status != 0 || errs.Len() > 0 {
			t.Errorf("%v: status %d, %s", args, status, errs.String())
		}
		for line := range strings.Lines(out.String()) {
			if len(strings.TrimRight(line, "\n")) > 80 {
				t.Errorf("%v: longer than 80 columns: %s", args, line)
			}
		}
	}
}
