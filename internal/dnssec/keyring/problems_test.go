package keyring

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairlead/internal/dnssec"
	"fairlead/internal/model"
)

// What would make answers bogus is found before it is served.
func TestProblems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		c := signedConfig(dir)
		check := func(name, path, text string, warning bool) {
			t.Helper()
			found := Problems(c, time.Now())
			if path == "" {
				if len(found) > 0 {
					t.Errorf("%s: %+v", name, found)
				}
				return
			}
			if len(found) != 1 || found[0].Path != path || !strings.Contains(found[0].Text, text) || found[0].Warning != warning {
				t.Errorf("%s: %+v, want %q at %s", name, found, text, path)
			}
		}
		check("no keys yet", "", "", false)
		m := newForTest(quiet, dnssec.NewSigner(64), nil)
		if err := m.Ensure(c, nil); err != nil {
			t.Fatal(err)
		}
		check("fresh keys", "", "", false)
		o := c.Zones[0].DNSSECOptions
		o.Algorithm = model.Ed25519
		check("another algorithm", "zones[0].dnssec_options.algorithm", "not available in this version", false)
		o.Algorithm = model.ECDSAP256SHA256

		c.Zones[0].DNSSEC = false
		check("not signed, and never announced", "", "", false)
		c.Zones[0].DNSSEC = true
		m.Close()
		m = newForTest(quiet, dnssec.NewSigner(64), askParent)
		if err := m.Ensure(c, nil); err != nil {
			t.Fatal(err)
		}
		// The clock goes on while nobody is asked: the key becomes ready.
		m.zones["example.com"].mu.Lock()
		err := m.zones["example.com"].step(time.Now().Add(3*time.Hour), nil)
		m.zones["example.com"].mu.Unlock()
		m.Close()
		if err != nil {
			t.Fatal(err)
		}
		c.Zones[0].DNSSEC = false
		check("not signed any more", "zones[0].dnssec", "set dnssec_options.withdraw", true)
		c.Zones[0].DNSSEC = true

		var files []string
		for _, a := range []dnssec.Algorithm{dnssec.ECDSAP256SHA256, dnssec.Ed25519} {
			for _, flags := range []uint16{dnssec.FlagsKSK, dnssec.FlagsZSK} {
				k, err := dnssec.GenerateKey("example.com", flags, a)
				if err != nil {
					t.Fatal(err)
				}
				if err := dnssec.WriteKey(dir, k, time.Now()); err != nil {
					t.Fatal(err)
				}
				files = append(files, filepath.Join(dir, k.FileBase()+".private"))
			}
		}
		const at = "zones[0].dnssec_options.key_files"
		o.KeyFiles = files[:2]
		check("a pair, and the parent has another", at, "name it too", true)
		made, err := filepath.Glob(filepath.Join(zoneDir(dir, "example.com"), "K*.private"))
		if err != nil || len(made) != 2 {
			t.Fatalf("%v %v", made, err)
		}
		o.KeyFiles = append(made, files[:2]...)
		check("a pair beside it", "", "", false)
		o.KeyFiles = files
		check("two algorithms", at, "a zone is signed with one algorithm", false)
		o.KeyFiles = files[1:2]
		check("a ZSK alone", at, "no KSK", false)
		o.KeyFiles = nil

		if err := os.WriteFile(filepath.Join(zoneDir(dir, "example.com"), stateFile), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
		check("a state that is none", "zones[0].dnssec", "version 0: want 1", false)
	})
}
