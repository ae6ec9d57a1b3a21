package affinity

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// secret returns the line of a key whose bytes are all b.
func secret(b byte) string {
	return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, keySize)) + "\n"
}

func ring(t testing.TB, lines ...string) *Keys {
	t.Helper()
	k, err := ParseKeys([]byte(strings.Join(lines, "")))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var (
	www = []byte("www.example.com")
	now = int64(1_800_000_000)
)

func TestOpen(t *testing.T) {
	session := Session{1 << 63, now + 60}
	one, other := ring(t, secret(1)), ring(t, secret(2))
	value := one.Seal(nil, www, session)
	changed := func(i int, c byte) []byte {
		v := bytes.Clone(value)
		if v[i] == c {
			c++
		}
		v[i] = c
		return v
	}
	for _, tt := range []struct {
		name     string
		keys     *Keys
		balancer string
		value    []byte
		now      int64
		ok       bool
	}{
		{"good", one, "www.example.com", value, now, true},
		{"good to the last second", one, "www.example.com", value, now + 59, true},
		{"over", one, "www.example.com", value, now + 60, false},
		{"of another load balancer", one, "api.example.com", value, now, false},
		{"of another key", other, "www.example.com", value, now, false},
		{"of an older key", ring(t, secret(2), secret(1)), "www.example.com", value, now, true},
		{"of a newer key, on a node that has it second", ring(t, secret(3), secret(2), secret(1)), "www.example.com", value, now, true},
		{"empty", one, "www.example.com", nil, now, false},
		{"short", one, "www.example.com", value[:len(value)-1], now, false},
		{"long", one, "www.example.com", append(bytes.Clone(value), 'A'), now, false},
		{"other key id", one, "www.example.com", changed(0, 'A'), now, false},
		{"other nonce", one, "www.example.com", changed(5, 'A'), now, false},
		{"other endpoint", one, "www.example.com", changed(20, 'A'), now, false},
		{"other tag", one, "www.example.com", changed(len(value)-3, 'A'), now, false},
		{"not base64", one, "www.example.com", changed(9, '*'), now, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var o Opener
			got, ok := o.Open(tt.keys, []byte(tt.balancer), tt.value, tt.now)
			if ok != tt.ok || ok && got != session {
				t.Errorf("Open() = %+v, %v, want %v", got, ok, tt.ok)
			}
		})
	}
}

// Two keys may share an id, and then both are tried.
func TestKeysOfOneID(t *testing.T) {
	first := ring(t, secret(1))
	var same string
	for i := range 100_000 {
		b := bytes.Repeat([]byte{9}, keySize)
		copy(b, fmt.Sprint(i))
		line := base64.StdEncoding.EncodeToString(b) + "\n"
		if ring(t, line).ring[0].id == first.ring[0].id {
			same = line
			break
		}
	}
	value := first.Seal(nil, www, Session{7, now + 1})
	var o Opener
	if s, ok := o.Open(ring(t, same, secret(1)), www, value, now); !ok || s.Endpoint != 7 {
		t.Errorf("Open() = %+v, %v", s, ok)
	}
}

func TestParseKeys(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"one", secret(1), ""},
		{"comments", "# old\n\n  " + secret(1) + "#\n" + secret(2), ""},
		{"no line end", strings.TrimSpace(secret(1)), ""},
		{"empty", "", "no key: want 32 random bytes in base64 on a line"},
		{"only comments", "# " + secret(1), "no key: want 32 random bytes in base64 on a line"},
		{"not base64", secret(1) + "secret*\n", "line 2: not base64 (RFC 4648 section 4)"},
		{"short", "c2hvcnQ=\n", "line 1: a key of 5 bytes: want 32"},
		{"too many", strings.Repeat(secret(1), 9), "line 9: more than 8 keys: remove those that are older than the longest session"},
		{"a line without end", strings.Repeat("A", 1<<17), "a line is too long for a key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ParseKeys([]byte(tt.text))
			if got := fmt.Sprint(err); err == nil && tt.want != "" || err != nil && got != tt.want {
				t.Errorf("ParseKeys() = %v, want %q", err, tt.want)
			}
		})
	}
}

// What is no file of keys is not read: a pipe would be waited for.
func TestLoadKeysTakesShortFilesOnly(t *testing.T) {
	long := filepath.Join(t.TempDir(), "long")
	if err := os.WriteFile(long, []byte(secret(1)+strings.Repeat("# \n", maxFile/3)), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"/dev/zero": "want a regular file", t.TempDir(): "want a regular file", long: "bytes long: want at most 65536"} {
		if _, err := LoadKeys(file); err == nil || !strings.Contains(err.Error(), file+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("LoadKeys(%q) = %v, want %q", file, err, want)
		}
	}
}

// A file is made once, for its owner alone, whoever comes first.
func TestEnsureKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data", "session_keys")
	var wg sync.WaitGroup
	var made atomic.Int64
	for range 8 {
		wg.Go(func() {
			ok, err := EnsureKeys(file)
			if err != nil {
				t.Error(err)
			}
			if ok {
				made.Add(1)
			}
		})
	}
	wg.Wait()
	if made.Load() != 1 {
		t.Errorf("%d have made the file, want one", made.Load())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := EnsureKeys(file); ok || err != nil {
		t.Error(ok, err)
	}
	if again, _ := os.ReadFile(file); !bytes.Equal(text, again) {
		t.Error("the file was made again")
	}
	if _, err := LoadKeys(file); err != nil {
		t.Error(err)
	}
	if info, _ := os.Stat(file); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want that of a secret", info.Mode())
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := os.WriteFile(file, []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKeys(file); err == nil || !strings.HasPrefix(err.Error(), file+": line 1: ") {
		t.Errorf("LoadKeys() = %v, want an error with the file and the line", err)
	}
}

func TestOpenAllocatesNothing(t *testing.T) {
	k := ring(t, secret(1), secret(2))
	value := k.Seal(nil, www, Session{1, now + 1})
	o := new(Opener)
	if n := testing.AllocsPerRun(100, func() {
		if _, ok := o.Open(k, www, value, now); !ok {
			t.Fatal("cannot be opened")
		}
	}); n != 0 {
		t.Errorf("Open allocates %v times", n)
	}
}

func FuzzOpen(f *testing.F) {
	k := ring(f, secret(1), secret(2))
	good := k.Seal(nil, www, Session{1, now + 1})
	f.Add(good)
	f.Add(good[1:])
	f.Add([]byte("AAAA"))
	f.Fuzz(func(t *testing.T, value []byte) {
		var o Opener
		if s, ok := o.Open(k, www, value, now); ok && !bytes.Equal(value, good) {
			t.Errorf("Open(%q) = %+v, although nobody has sealed it", value, s)
		}
	})
}

func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(secret(1) + "# x\n"))
	f.Add([]byte("c2hvcnQ=\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if k, err := ParseKeys(text); err == nil {
			var o Opener
			if _, ok := o.Open(k, www, k.Seal(nil, www, Session{1, now + 1}), now); !ok {
				t.Error("the ring does not open what it seals")
			}
		}
	})
}
