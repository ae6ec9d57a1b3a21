package dnssec

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestKeyFiles(t *testing.T) {
	for _, a := range []Algorithm{ECDSAP256SHA256, Ed25519} {
		for _, flags := range []uint16{FlagsKSK, FlagsZSK} {
			t.Run(fmt.Sprintf("%v/%d", a, flags), func(t *testing.T) {
				dir := t.TempDir()
				k := generate(t, "Sub.Example.com.", flags, a)
				created := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
				if err := WriteKey(dir, k, created); err != nil {
					t.Fatal(err)
				}
				files, err := os.ReadDir(dir)
				if err != nil || len(files) != 2 {
					t.Errorf("%v, %v: want two files", files, err)
				}
				for _, f := range files {
					if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
						t.Errorf("%s: mode %v, %v", f.Name(), info.Mode(), err)
					}
				}
				for _, suffix := range []string{"", ".private", ".key"} {
					got, times, err := ReadKey(filepath.Join(dir, k.FileBase()+suffix))
					if err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(got.Record(), k.Record()) || got.String() != k.String() || !times.Created.Equal(created) || got.KSK() != (flags == FlagsKSK) {
						t.Errorf("read %v, %v; want %v", got, times, k)
					}
					message := []byte("message")
					if s, err := got.sign(nil, message); err != nil || len(s) != 64 {
						t.Errorf("%x, %v", s, err)
					}
				}
			})
		}
	}
}

// Keys that BIND has made are read, and those that we have made are read by BIND.
func TestBINDKeyFiles(t *testing.T) {
	for _, tool := range []string{"dnssec-keygen", "dnssec-dsfromkey", "dnssec-settime"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%v: install the Debian package bind9-utils", err)
		}
	}
	bind := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(args[0], args[1:]...).Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	for _, a := range []Algorithm{ECDSAP256SHA256, Ed25519} {
		dir := t.TempDir()
		base := filepath.Join(dir, bind("dnssec-keygen", "-K", dir, "-a", a.String(), "-f", "KSK", "-P", "20260101000000", "-A", "20260201000000", "example.com"))
		k, times, err := ReadKey(base)
		if err != nil {
			t.Fatal(err)
		}
		if !k.KSK() || k.Algorithm() != a || times.Publish.Format(time.DateOnly) != "2026-01-01" || times.Activate.Format(time.DateOnly) != "2026-02-01" {
			t.Errorf("%v, %+v", k, times)
		}
		ours := generate(t, "example.com", FlagsKSK, a)
		if err := WriteKey(dir, ours, time.Now()); err != nil {
			t.Fatal(err)
		}
		bind("dnssec-settime", "-p", "all", "-A", "20270101000000", filepath.Join(dir, ours.FileBase()))
		if _, times, err = ReadKey(filepath.Join(dir, ours.FileBase())); err != nil || times.Activate.Year() != 2027 {
			t.Errorf("after dnssec-settime: %+v, %v", times, err)
		}
		for _, k := range []*Key{k, ours} {
			for digest, option := range map[uint8]string{DigestSHA256: "SHA-256", DigestSHA384: "SHA-384"} {
				ds, _ := k.DS(digest)
				if got, want := "example.com. IN DS "+ds.String(), bind("dnssec-dsfromkey", "-a", option, filepath.Join(dir, k.FileBase())); got != want {
					t.Errorf("%s, BIND has %s", got, want)
				}
			}
		}
	}
}

// What is wrong with a key file is told with its name and without the key.
func TestWrongKeyFiles(t *testing.T) {
	k, other := generate(t, "example.com", FlagsKSK, ECDSAP256SHA256), generate(t, "example.com", FlagsKSK, ECDSAP256SHA256)
	edwards := generate(t, "example.com", FlagsKSK, Ed25519)
	good := t.TempDir()
	for _, k := range []*Key{k, other, edwards} {
		if err := WriteKey(good, k, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	text := func(k *Key, suffix string) string {
		b, err := os.ReadFile(filepath.Join(good, k.FileBase()+suffix))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	public, secret := text(k, ".key"), text(k, ".private")
	swap := strings.NewReplacer
	for _, c := range []struct{ name, public, private, file, want string }{
		{"no public half", "", secret, ".key", "no such file"},
		{"no private half", public, "", ".private", "no such file"},
		{"empty", " ", secret, ".key", "want one record"},
		{"private and public exchanged", secret, public, ".key", "want a name that ends with a dot"},
		{"another key's public half", text(other, ".key"), secret, ".key", "not the public half"},
		{"another algorithm", text(edwards, ".key"), secret, ".private", "a key for ECDSAP256SHA256, and"},
		{"flags", swap("257", "258").Replace(public), secret, ".key", `flags "258": want 256 or 257`},
		{"protocol", swap("257 3", "257 4").Replace(public), secret, ".key", `protocol "4": want 3`},
		{"an algorithm that is not used", swap("3 13", "3 8").Replace(public), secret, ".key", `algorithm "8": want 13`},
		{"no base64", swap("3 13 ", "3 13 *").Replace(public), secret, ".key", "not base64"},
		{"another class", swap("IN", "CH").Replace(public), secret, ".key", `"CH": want one record`},
		{"cut off", strings.SplitN(public, "DNSKEY", 2)[0], secret, ".key", "want one record"},
		{"no format", public, secret[strings.Index(secret, "\n")+1:], ".private", "line 1: want Private-key-format: v1.3"},
		{"another format", public, swap("v1.3", "v2.0").Replace(secret), ".private", "line 1: want Private-key-format: v1.3"},
		{"no key", public, "Private-key-format: v1.3\nAlgorithm: 13\n", ".private", "no line PrivateKey"},
		{"no algorithm", public, "Private-key-format: v1.3\nPrivateKey: AAAA\n", ".private", "algorithm 0: want 13"},
		{"twice", public, secret + "Algorithm: 13\n", ".private", "each name once"},
		{"RSA", public, swap("Algorithm: 13", "Algorithm: 8").Replace(secret), ".private", "algorithm 8: want 13"},
		{"short", public, "Private-key-format: v1.3\nAlgorithm: 13\nPrivateKey: AAAA\n", ".private", "a private key of 3 bytes: want 32"},
		{"not on the curve", public, "Private-key-format: v1.3\nAlgorithm: 13\nPrivateKey: " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xff}, 32)) + "\n", ".private", "not one of the curve P-256"},
		{"key that is no base64", public, swap("PrivateKey: ", "PrivateKey: *").Replace(secret), ".private", "line 3: the private key is not base64"},
		{"time", public, secret + "Activate: tomorrow\n", ".private", "line 5: Activate: want a time such as"},
		{"no colon", public, secret + "x\n", ".private", "line 5: want NAME: VALUE"},
		{"huge", public, secret + strings.Repeat("\n", maxKeyFile), ".private", "not a key file"},
		{"another zone", swap("example.com", "example.net").Replace(public), secret, "", "want its files to have that name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			base := filepath.Join(dir, k.FileBase())
			for suffix, text := range map[string]string{".key": c.public, ".private": c.private} {
				if text != "" {
					if err := os.WriteFile(base+suffix, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			_, _, err := ReadKey(base)
			if err == nil {
				t.Fatal("no error")
			}
			if got := err.Error(); !strings.Contains(got, base+c.file) || !strings.Contains(got, c.want) {
				t.Errorf("%s: want %s%s and %q", got, base, c.file, c.want)
			}
			checkSecret(t, k, err.Error())
		})
	}
}

// checkSecret looks for a part of a private key in a text.
func checkSecret(t *testing.T, k *Key, text string) {
	t.Helper()
	private, err := k.private()
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{base64.StdEncoding.EncodeToString(private), fmt.Sprintf("%x", private), fmt.Sprint(private), string(private)} {
		if strings.Contains(text, form[:12]) {
			t.Errorf("shows a part of the private key: %s", text)
		}
	}
}

// However a key is printed, its private half does not show.
func TestPrintedKeys(t *testing.T) {
	for _, a := range []Algorithm{ECDSAP256SHA256, Ed25519} {
		k := generate(t, "example.com", FlagsKSK, a)
		for _, form := range []string{"%v", "%+v", "%#v", "%s", "%d", "%x", "%q"} {
			checkSecret(t, k, fmt.Sprintf(form, k))
			checkSecret(t, k, fmt.Sprintf(form, []*Key{k}))
			checkSecret(t, k, fmt.Sprintf(form, struct{ Key *Key }{k}))
		}
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "state")
	for _, text := range []string{"first", "second"} {
		if err := WriteFile(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("%v is left", files)
	}
	if err := WriteFile(filepath.Join(dir, "none", "state"), nil); err == nil {
		t.Error("no error without the directory")
	}
}

func FuzzKeyFile(f *testing.F) {
	for _, a := range []Algorithm{ECDSAP256SHA256, Ed25519} {
		dir := f.TempDir()
		k := generate(f, "example.com", FlagsKSK, a)
		if err := WriteKey(dir, k, time.Now()); err != nil {
			f.Fatal(err)
		}
		public, err1 := os.ReadFile(filepath.Join(dir, k.FileBase()+".key"))
		secret, err2 := os.ReadFile(filepath.Join(dir, k.FileBase()+".private"))
		if err1 != nil || err2 != nil {
			f.Fatal(err1, err2)
		}
		f.Add(public, secret)
	}
	f.Add([]byte("example.com. 3600 IN DNSKEY ( 256 3 15 ; comment\nAAAA )"), []byte("Private-key-format: v1.2\nAlgorithm: 15 (ED25519)\nPrivateKey: AAAA\nPublish: 20260101000000\n"))
	f.Fuzz(func(t *testing.T, public, secret []byte) {
		owner, record, err := parsePublic(public)
		if err == nil {
			again := fmt.Appendf(nil, "%s IN DNSKEY %d 3 %d %s", textName(owner), uint16(record[0])<<8|uint16(record[1]), record[3], base64.StdEncoding.EncodeToString(record[4:]))
			if owner2, record2, err := parsePublic(again); err != nil || !bytes.Equal(owner, owner2) || !bytes.Equal(record, record2) {
				if !strings.ContainsAny(textName(owner), `\`) {
					t.Errorf("%s is not read as what it was written from: %v", again, err)
				}
			}
		}
		algorithm, private, _, err := parsePrivate(secret)
		if err != nil {
			return
		}
		k, err := keyOf(wire(t, "example.com"), FlagsZSK, algorithm, private)
		if err != nil {
			return
		}
		if got, err := k.private(); err != nil || !bytes.Equal(got, private) {
			t.Errorf("private key %x of %x", got, private)
		}
	})
}
