package acme

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mholt/acmez/v3/acme"
	"golang.org/x/crypto/ocsp"

	"fairlead/internal/model"
	"fairlead/test/pebble"
)

func TestObtain(t *testing.T) {
	for _, c := range []struct {
		name      string
		http, tls bool // the authority reaches it
		declared  bool // an http listener
		challenge string
	}{
		{"TLS-ALPN-01", false, true, false, "tls-alpn-01"},
		{"HTTP-01", true, false, true, "http-01"},
		{"whichever", true, true, true, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t)
			var conf pebble.Config
			if c.http {
				conf.HTTP = f.http
			}
			if c.tls {
				conf.TLS = f.tls
			}
			a := pebble.Start(t, conf)
			dir := t.TempDir()
			f.start(config(a, dir, c.declared, "www.example.com", "Other.Example.com."))
			f.await(a, "www.example.com", "")
			f.await(a, "other.example.com", "")
			for _, name := range []string{"www.example.com", "other.example.com"} {
				f.until("metrics", func() bool { return f.metric(`fairlead_acme_issued_total{kind="first",name="`+name+`"}`) == "1" }, nil)
				f.wantMetric(`fairlead_acme_issued_total{kind="renewal",name="`+name+`"}`, "0")
				f.wantMetric(`fairlead_acme_certificate_stale{name="`+name+`"}`, "0")
				f.wantMetric(`fairlead_acme_last_failure_timestamp_seconds{name="`+name+`"}`, "")
				if f.metric(`fairlead_acme_certificate_not_after_timestamp_seconds{name="`+name+`"}`) == "" {
					t.Error("no time when it expires")
				}
			}
			if c.challenge != "" && f.metric(`fairlead_acme_challenges_answered_total{challenge="`+c.challenge+`"}`) == "0" {
				t.Errorf("no %s challenge is counted", c.challenge)
			}
			if left := f.m.challenges.Load(); len(left.tls)+len(left.http) > 0 {
				t.Errorf("challenges that are over are still answered: %+v", left)
			}
			if _, err := f.shown(a.Roots(), "third.example.com"); err == nil || !strings.Contains(err.Error(), "not third.example.com") {
				t.Errorf("another name: %v, want the certificate of the first", err)
			}
			checkModes(t, filepath.Join(dir, "acme"))
			checkSecrets(t, f.log, dir)
		})
	}
}

// checkModes: what is stored is for the process alone.
func checkModes(t *testing.T, dir string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if mode := info.Mode().Perm(); d.IsDir() && mode != 0o700 || !d.IsDir() && mode != 0o600 {
			t.Errorf("%s has mode %o", name, mode)
		}
		if !d.IsDir() {
			files++
		}
		return nil
	})
	if err != nil || files < 4 {
		t.Errorf("%d files in %s: %v, want an account, a certificate, a key and what is known of it", files, dir, err)
	}
}

// checkSecrets: no line of the log, at whatever level, has a part of a key.
func checkSecrets(t *testing.T, log *lines, dir string) {
	t.Helper()
	keys := 0
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		_, data, ok := bytes.Cut(data, []byte("PRIVATE KEY-----"))
		if !ok {
			return nil
		}
		keys++
		for _, line := range strings.FieldsFunc(strings.ReplaceAll(string(data), `\n`, "\n"), func(r rune) bool { return r == '\n' }) {
			if len(line) > 32 && !strings.Contains(line, "-----") && len(log.with(line[:32])) > 0 {
				t.Errorf("a key of %s is in the log", name)
			}
		}
		return nil
	})
	if err != nil || keys < 2 {
		t.Errorf("%d keys: %v", keys, err)
	}
}

// A certificate is renewed before it expires, and no client ever meets one that is
// not valid.
func TestRenewal(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	f.timing = brief
	a := pebble.Start(t, pebble.Config{TLS: f.tls, Lifetime: 12 * time.Second})
	f.start(config(a, t.TempDir(), false, "www.example.com"))
	first := f.await(a, "www.example.com", "")
	serials := map[string]bool{first: true}
	for len(serials) < 3 {
		state, err := f.shown(a.Roots(), "www.example.com")
		if err != nil {
			t.Fatalf("after %d certificates: %v", len(serials), err)
		}
		serials[state.PeerCertificates[0].SerialNumber.Text(16)] = true
		time.Sleep(20 * time.Millisecond)
	}
	f.until("two lines of the log", func() bool { return len(f.log.with("level=INFO", "certificate renewed", "name=www.example.com")) >= 2 }, nil)
	if got := f.log.with("level=ERROR"); len(got) > 0 {
		t.Errorf("errors in the log: %q", got)
	}
}

// A start does not wait for the authority, and a handshake is refused at once as
// long as there is no certificate. The failure is logged once.
func TestAuthorityDownAtStart(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	a := pebble.Start(t, pebble.Config{TLS: f.tls})
	a.Down()
	begun := time.Now()
	f.start(config(a, t.TempDir(), false, "www.example.com"))
	if d := time.Since(begun); d > 2*time.Second {
		t.Errorf("the start took %v", d)
	}
	if _, err := f.shown(a.Roots(), "www.example.com"); err == nil || !strings.Contains(err.Error(), "remote error: tls: internal error") {
		t.Errorf("handshake without a certificate: %v, want it refused", err)
	}
	f.until("failures", func() bool { return f.metric(`fairlead_acme_failures_total{name="www.example.com"}`) >= "2" }, nil)
	f.wantMetric(`fairlead_acme_certificate_stale{name="www.example.com"}`, "1")
	f.wantMetric(`fairlead_acme_certificate_not_after_timestamp_seconds{name="www.example.com"}`, "")
	if f.metric(`fairlead_acme_last_failure_timestamp_seconds{name="www.example.com"}`) == "" {
		t.Error("no time of the last failure")
	}
	if got := f.log.with("level=ERROR"); len(got) != 1 || !strings.Contains(got[0], "certificate cannot be obtained") || !strings.Contains(got[0], "EOF") {
		t.Errorf("errors in the log: %q, want one with the reason", got)
	}
	a.Up()
	f.await(a, "www.example.com", "")
	f.until("the state", func() bool { return f.metric(`fairlead_acme_certificate_stale{name="www.example.com"}`) == "0" }, nil)
}

// While the authority is away the certificate stays, and it is renewed as soon as
// the authority is back.
func TestAuthorityDownForAWhile(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	f.timing = brief
	a := pebble.Start(t, pebble.Config{TLS: f.tls, Lifetime: 20 * time.Second})
	f.start(config(a, t.TempDir(), false, "www.example.com"))
	first := f.await(a, "www.example.com", "")
	a.Down()
	f.until("a failure", func() bool { return f.metric(`fairlead_acme_certificate_stale{name="www.example.com"}`) == "1" }, nil)
	if state, err := f.shown(a.Roots(), "www.example.com"); err != nil || state.PeerCertificates[0].SerialNumber.Text(16) != first {
		t.Errorf("while the authority is away: %v, want the certificate that is there", err)
	}
	if got := f.log.with("level=ERROR"); len(got) != 1 || !strings.Contains(got[0], "certificate cannot be renewed; the present one is used") {
		t.Errorf("errors in the log: %q, want one", got)
	}
	a.Up()
	f.await(a, "www.example.com", first)
}

// What one name is refused does not touch others.
func TestRefused(t *testing.T) {
	t.Parallel()
	t.Run("the name", func(t *testing.T) {
		t.Parallel()
		f := newFront(t)
		a := pebble.Start(t, pebble.Config{TLS: f.tls, Refused: []string{"refused.example.com"}})
		f.start(config(a, t.TempDir(), false, "refused.example.com", "www.example.com"))
		f.await(a, "www.example.com", "")
		f.until("failures", func() bool { return f.metric(`fairlead_acme_failures_total{name="refused.example.com"}`) >= "2" }, nil)
		if got := f.log.with("level=ERROR"); len(got) != 1 || !strings.Contains(got[0], "name=refused.example.com") || !strings.Contains(got[0], "rejectedIdentifier") {
			t.Errorf("errors in the log: %q, want one with the reason", got)
		}
		if _, err := f.shown(a.Roots(), "refused.example.com"); err == nil || !strings.Contains(err.Error(), "internal error") {
			t.Errorf("handshake for the name: %v, want it refused", err)
		}
	})
	t.Run("the proof", func(t *testing.T) {
		t.Parallel()
		f := newFront(t)
		a := pebble.Start(t, pebble.Config{})
		f.start(config(a, t.TempDir(), true, "www.example.com"))
		f.until("a failure", func() bool { return f.metric(`fairlead_acme_certificate_stale{name="www.example.com"}`) == "1" }, nil)
		if got := f.log.with("level=ERROR"); len(got) < 1 || !strings.Contains(got[0], "urn:ietf:params:acme:error:") {
			t.Errorf("errors in the log: %q, want one with the reason", got)
		}
	})
}

// A certificate that is stored is there when the process starts again, whether the
// authority is or not, and it is not asked.
func TestRestart(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	a := pebble.Start(t, pebble.Config{TLS: f.tls})
	dir := t.TempDir()
	c := config(a, dir, false, "www.example.com")
	f.start(c)
	first := f.await(a, "www.example.com", "")
	f.stop()
	a.Down()
	before := a.Requests()
	f.start(c)
	state, err := f.shown(a.Roots(), "www.example.com") // at once
	if err != nil || state.PeerCertificates[0].SerialNumber.Text(16) != first {
		t.Fatalf("after a restart: %v, want the stored certificate", err)
	}
	time.Sleep(5 * fast.check)
	if n := a.Requests() - before; n > 0 {
		t.Errorf("%d requests to the authority for a certificate that is good", n)
	}
	f.wantMetric(`fairlead_acme_issued_total{kind="first",name="www.example.com"}`, "0")
	f.wantMetric(`fairlead_acme_failures_total{name="www.example.com"}`, "0")
}

// What is stored and means nothing is obtained anew; so is an account.
func TestBrokenFiles(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	a := pebble.Start(t, pebble.Config{TLS: f.tls})
	dir := t.TempDir()
	c := config(a, dir, false, "www.example.com")
	f.start(c)
	serial := f.await(a, "www.example.com", "")
	find := func(pattern string) string {
		t.Helper()
		var found string
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if ok, _ := filepath.Match(pattern, d.Name()); ok && !d.IsDir() {
				found = name
			}
			return err
		})
		if err != nil || found == "" {
			t.Fatalf("no file %s: %v", pattern, err)
		}
		return found
	}
	for _, b := range []struct {
		name, file string
		change     func(name string) error
	}{
		{"a key that is cut off", "*.key", func(name string) error { return os.Truncate(name, 50) }},
		{"no key", "*.key", os.Remove},
		{"an empty certificate", "*.crt", func(name string) error { return os.Truncate(name, 0) }},
		{"a certificate that is none", "*.crt", func(name string) error {
			return os.WriteFile(name, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), 0o600)
		}},
		{"knowledge that is none", "www.example.com.json", func(name string) error { return os.WriteFile(name, []byte("{"), 0o600) }},
		{"an account that is none", "admin*.json", func(name string) error { return os.WriteFile(name, []byte("{}"), 0o600) }},
	} {
		f.stop()
		if err := b.change(find(b.file)); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(b.file, "admin") {
			if err := os.Remove(find("*.key")); err != nil {
				t.Fatal(err)
			}
		}
		f.start(c)
		next := f.await(a, "www.example.com", serial)
		t.Logf("%s: %s after %s", b.name, next, serial)
		serial = next
	}
	if got := f.log.with("level=ERROR"); len(got) > 0 {
		t.Errorf("errors in the log: %q", got)
	}
	checkSecrets(t, f.log, dir)
}

// An authority that knows the account no more, as one that was set up anew, gets
// another.
func TestAccountIsForgotten(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	a := pebble.Start(t, pebble.Config{TLS: f.tls})
	c := config(a, t.TempDir(), false, "www.example.com")
	f.start(c)
	f.await(a, "www.example.com", "")
	f.stop()
	a.Forget()
	c.Listeners[0].ACME = []string{"www.example.com", "new.example.com"}
	f.start(c)
	f.await(a, "new.example.com", "")
	if got := f.log.with("level=WARN", "does not know the account any more"); len(got) != 1 {
		t.Errorf("warnings in the log: %q, want one", got)
	}
}

func TestExternalAccount(t *testing.T) {
	t.Parallel()
	const key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"
	write := func(text string) string {
		name := filepath.Join(t.TempDir(), "eab.key")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, c := range []struct {
		name     string
		external *model.ACMEExternalAccount
		want     string // in the error
	}{
		{"right", &model.ACMEExternalAccount{KeyID: "kid-1", Key: write(key + "\n")}, ""},
		{"another key", &model.ACMEExternalAccount{KeyID: "kid-1", Key: write("A" + key[1:])}, "unauthorized"},
		{"none", nil, "externalAccountRequired"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t)
			a := pebble.Start(t, pebble.Config{TLS: f.tls, ExternalAccounts: map[string]string{"kid-1": key}})
			conf := config(a, t.TempDir(), false, "www.example.com")
			conf.ACME.ExternalAccount = c.external
			f.start(conf)
			if c.want == "" {
				f.await(a, "www.example.com", "")
			} else {
				f.until("a failure", func() bool { return len(f.log.with("level=ERROR")) > 0 }, nil)
				if got := f.log.with("level=ERROR", c.want); len(got) == 0 {
					t.Errorf("errors in the log: %q, want %q", f.log.with("level=ERROR"), c.want)
				}
			}
			if len(f.log.with(key[1:20])) > 0 {
				t.Error("the key is in the log")
			}
		})
	}
}

// A certificate that demands a stapled response is shown with one, at once after a
// restart too; one that is revoked is replaced.
func TestMustStaple(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	a := pebble.Start(t, pebble.Config{TLS: f.tls, OCSP: true})
	c := config(a, t.TempDir(), false, "www.example.com")
	c.ACME.MustStaple = true
	f.start(c)
	first := f.await(a, "www.example.com", "")
	t.Logf("the first certificate is %s", first)
	stapled := func() *x509.Certificate {
		t.Helper()
		state, err := f.shown(a.Roots(), "www.example.com")
		if err != nil {
			t.Fatal(err)
		}
		leaf := state.PeerCertificates[0]
		if !mustStaple(leaf) || len(state.OCSPResponse) == 0 {
			t.Fatalf("must-staple: %v, %d bytes stapled\n%s", mustStaple(leaf), len(state.OCSPResponse), strings.Join(f.log.with(""), ""))
		}
		return leaf
	}
	stapled()
	n := a.Responses()
	f.start(c)
	stapled()
	if more := a.Responses() - n; more > 0 {
		t.Errorf("%d responses fetched while a stored one is good", more)
	}
	// The stored one is thrown away. The next is to be fetched again at once; it
	// is used until its end, here and after a restart, if none can be had.
	f.stop()
	if err := os.RemoveAll(filepath.Join(c.DataDir, "acme", "ocsp")); err != nil {
		t.Fatal(err)
	}
	a.BriefOCSP()
	f.start(c)
	f.until("a response to staple", func() bool {
		state, err := f.shown(a.Roots(), "www.example.com")
		return err == nil && len(state.OCSPResponse) > 0
	}, nil)
	a.Down()
	time.Sleep(3 * fast.check)
	stapled()
	f.start(c)
	stapled()
	a.Up()
	f.until("a response to staple", func() bool {
		state, err := f.shown(a.Roots(), "www.example.com")
		return err == nil && len(state.OCSPResponse) > 0
	}, nil)
	a.Revoke(stapled())
	f.await(a, "www.example.com", first)
	stapled()
	if got := f.log.with("level=ERROR"); len(got) > 0 {
		t.Errorf("errors in the log: %q", got)
	}
}

// C46: a response is shown while it is good, signed by the authority, and not over;
// without one there is none, and the next comes by itself.
func TestC46Staple(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	f.timing.check = time.Hour // what comes sooner comes for the response's sake
	a := pebble.Start(t, pebble.Config{TLS: f.tls, OCSP: true})
	a.ShortOCSP(2 * time.Second)
	f.start(config(a, t.TempDir(), false, "www.example.com"))
	f.await(a, "www.example.com", "")
	stapled := func() bool {
		began := time.Now()
		state, err := f.shown(a.Roots(), "www.example.com")
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("a handshake took %v", took)
		}
		if len(state.OCSPResponse) == 0 {
			return false
		}
		r, err := ocsp.ParseResponse(state.OCSPResponse, a.Issuer())
		if err != nil {
			t.Errorf("a response is stapled that is not good: %v", err)
		} else if !began.Before(r.NextUpdate) {
			t.Errorf("a response is stapled that is over since %v", began.Sub(r.NextUpdate))
		}
		return true
	}
	with := func() bool { return stapled() }
	without := func() bool { return !stapled() }
	f.until("a response to staple", with, nil)
	n := a.Responses()
	f.until("two more responses", func() bool { stapled(); return a.Responses() >= n+2 }, nil)
	a.Down()
	f.until("the end of the response, with the responder down", without, nil)
	a.Up()
	f.until("a response after the responder's return", with, nil)
	a.ForeignOCSP(true)
	f.until("the end of the response, with a wrong signer", without, nil)
	a.ForeignOCSP(false)
	f.until("a response by the right signer", with, nil)
}

// Without a response to staple the certificate is used, and the state says so.
func TestNoStaple(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	a := pebble.Start(t, pebble.Config{TLS: f.tls})
	c := config(a, t.TempDir(), false, "www.example.com")
	c.ACME.MustStaple = true
	f.start(c)
	f.await(a, "www.example.com", "")
	f.until("the state", func() bool { return f.metric(`fairlead_acme_certificate_stale{name="www.example.com"}`) == "1" }, nil)
	if got := f.log.with("level=ERROR"); len(got) != 1 || !strings.Contains(got[0], "stapled OCSP response") {
		t.Errorf("errors in the log: %q, want one", got)
	}
}

// Names come and go without touching others; another authority takes over when it
// has issued.
func TestReload(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	a := pebble.Start(t, pebble.Config{TLS: f.tls})
	dir := t.TempDir()
	f.start(config(a, dir, false, "a.example.com", "b.example.com"))
	first, gone := f.await(a, "a.example.com", ""), f.await(a, "b.example.com", "")
	requests := a.Requests()
	f.use(config(a, dir, true, "a.example.com"))
	if got := f.await(a, "a.example.com", ""); got != first {
		t.Error("another certificate for the name that stays")
	}
	if cert := f.m.Certificate("b.example.com"); cert != nil {
		t.Error("the name that went still has its certificate")
	}
	f.wantMetric(`fairlead_acme_certificate_stale{name="b.example.com"}`, "")
	f.use(config(a, dir, false, "a.example.com", "b.example.com"))
	if got := f.await(a, "b.example.com", ""); got != gone {
		t.Error("another certificate for a name that is back, and has one stored")
	}
	if n := a.Requests() - requests; n > 0 {
		t.Errorf("%d requests to the authority, though all certificates are there", n)
	}
	f.use(config(a, dir, false, "a.example.com", "b.example.com", "c.example.com"))
	f.await(a, "c.example.com", "")

	b := pebble.Start(t, pebble.Config{TLS: f.tls})
	b.Down()
	f.use(config(b, dir, false, "a.example.com"))
	f.until("a failure", func() bool { return f.metric(`fairlead_acme_certificate_stale{name="a.example.com"}`) == "1" }, nil)
	if got := f.await(a, "a.example.com", ""); got != first {
		t.Error("the first authority's certificate was changed while the second is away")
	}
	if f.metric(`fairlead_acme_certificate_not_after_timestamp_seconds{name="a.example.com"}`) == "" {
		t.Error("no time when the certificate in use expires")
	}
	b.Up()
	f.await(b, "a.example.com", first)
	none, err := f.m.Prepare(&model.Config{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	f.m.Use(none)
	if cert := f.m.Certificate("a.example.com"); cert != nil {
		t.Error("a certificate without acme")
	}
}

// Prepare reads files that may be anything, and changes nothing.
func TestPrepareRefuses(t *testing.T) {
	dir := t.TempDir()
	at := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	file := at("file", "x")
	for _, c := range []struct {
		name string
		edit func(c *model.Config)
		want string
	}{
		{"no such CA", func(c *model.Config) { c.ACME.CA = dir + "/no.pem" }, "acme.ca"},
		{"a CA that is none", func(c *model.Config) { c.ACME.CA = file }, "holds no certificate"},
		{"a CA that is a directory", func(c *model.Config) { c.ACME.CA = dir }, "not a regular file"},
		{"a CA that is huge", func(c *model.Config) { c.ACME.CA = at("huge", strings.Repeat("x", maxFile+1)) }, "larger than"},
		{"no such key", func(c *model.Config) {
			c.ACME.ExternalAccount = &model.ACMEExternalAccount{KeyID: "a", Key: dir + "/no.key"}
		}, "acme.external_account.key"},
		{"a data_dir that is a file", func(c *model.Config) { c.DataDir = file }, "not a directory"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conf := &model.Config{DataDir: dir, ACME: &model.ACME{Directory: "https://127.0.0.1:1/"},
				Listeners: []model.Listener{{Protocol: model.ListenerHTTPS, ACME: []string{"www.example.com"}}}}
			c.edit(conf)
			m := New(slog.New(slog.DiscardHandler))
			defer m.Close()
			if _, err := m.Prepare(conf); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Prepare() = %v, want %q", err, c.want)
			}
		})
	}
}

// What has expired is removed in time, and nothing else.
func TestClean(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	a := pebble.Start(t, pebble.Config{TLS: f.tls, Lifetime: 4 * time.Second})
	dir := t.TempDir()
	f.start(config(a, dir, false, "www.example.com"))
	f.await(a, "www.example.com", "")
	f.m.mu.Lock()
	storage := f.m.setup.storage
	f.m.mu.Unlock()
	none, err := f.m.Prepare(&model.Config{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	f.m.Use(none)
	find := func(pattern string) []string {
		found, err := filepath.Glob(filepath.Join(dir, "acme", pattern))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	const certificates = "certificates/*/www.example.com/*"
	time.Sleep(5 * time.Second)
	f.m.cleanOnce(storage, time.Hour)
	if n := len(find(certificates)); n != 3 {
		t.Errorf("%d files of a certificate that has expired a moment ago, want 3", n)
	}
	f.m.cleanOnce(storage, 0)
	if left := find(certificates); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if len(find("accounts/*/*.json")) != 1 {
		t.Error("the account was removed")
	}
}

func TestLocks(t *testing.T) {
	s := &storage{locks: locksOf(t.TempDir())}
	ctx := t.Context()
	if err := s.Lock(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	if ok, err := s.TryLock(ctx, "a"); ok || err != nil {
		t.Errorf("TryLock of what is held = %v, %v", ok, err)
	}
	if ok, err := s.TryLock(ctx, "b"); !ok || err != nil {
		t.Errorf("TryLock of what is free = %v, %v", ok, err)
	}
	brief, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if err := s.Lock(brief, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock of what is held = %v, want it to wait", err)
	}
	taken := make(chan error, 1)
	go func() { taken <- s.Lock(ctx, "a") }()
	if err := s.Unlock(ctx, "a"); err != nil {
		t.Error(err)
	}
	if err := <-taken; err != nil {
		t.Error(err)
	}
	if s.Unlock(ctx, "a") != nil || s.Unlock(ctx, "a") == nil {
		t.Error("Unlock of what is not held succeeds")
	}
}

func TestBackOff(t *testing.T) {
	offline := errors.New("no answer")
	for n, want := range map[int]time.Duration{1: 15 * time.Second, 2: 30 * time.Second, 6: 10 * time.Minute, 100: 10 * time.Minute} {
		if got := usualTiming.after(offline, n); got != want {
			t.Errorf("after failure %d without an answer: %v, want %v", n, got, want)
		}
	}
	refused := fmt.Errorf("obtaining: %w", acme.Problem{Type: acme.ProblemTypeUnauthorized})
	limited := fmt.Errorf("obtaining: %w", acme.Problem{Type: acme.ProblemTypeRateLimited})
	for n, want := range map[int]time.Duration{1: time.Minute, 2: 5 * time.Minute, 8: 3 * time.Hour, 100: 3 * time.Hour} {
		if got := usualTiming.after(refused, n); got != want {
			t.Errorf("after refusal %d: %v, want %v", n, got, want)
		}
		if got := usualTiming.after(limited, n); got != max(want, time.Hour) {
			t.Errorf("after too many requests, %d: %v, want %v", n, got, max(want, time.Hour))
		}
	}
	for range 1000 {
		if d := jittered(time.Minute); d < 54*time.Second || d > 66*time.Second {
			t.Fatalf("jittered(1m) = %v", d)
		}
	}
}
