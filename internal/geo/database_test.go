package geo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"fairlead/internal/geo/geotest"
)

var small = geotest.Networks{"192.0.2.0/24": {"country_code": "NL"}, "2001:db8::/32": {"country_code": "DE"}}

// replaced returns content with what begins at a text changed.
func replaced(t *testing.T, content []byte, at string, offset int, b ...byte) []byte {
	t.Helper()
	i := bytes.LastIndex(content, []byte(at))
	if i < 0 {
		t.Fatalf("the database has no %q", at)
	}
	content = bytes.Clone(content)
	copy(content[i+len(at)+offset:], b)
	return content
}

func TestRefused(t *testing.T) {
	good := geotest.Build(geotest.Options{Bits: 32}, small)
	node := func(i int, v uint32) []byte {
		content := bytes.Clone(good)
		binary.BigEndian.PutUint32(content[4*i:], v)
		return content
	}
	db, err := newDatabase("test.mmdb", good)
	if err != nil {
		t.Fatal(err)
	}
	count := uint32(db.reader.Metadata.NodeCount)
	leaf := 0 // the first value of the tree that is that of a record
	for binary.BigEndian.Uint32(good[4*leaf:]) <= count {
		leaf++
	}
	record := make(geotest.Record)
	for i := range maxFields + 1 {
		record["field "+string(rune('0'+i))] = "x"
	}
	for _, tt := range []struct {
		name    string
		content []byte
		want    string
	}{
		{"empty", nil, "is empty: want a database in MMDB format"},
		{"a text", []byte("ip,country\n192.0.2.0/24,NL\n"), "want a complete database in MMDB format"},
		{"the first half", good[:len(good)/2], "want a complete database in MMDB format"},
		{"without its end", good[:len(good)-10], "want a complete database in MMDB format"},
		{"without its begin", good[len(good)/2:], "want a complete database in MMDB format"},
		{"another version", replaced(t, good, "binary_format_major_version", 1, 3), "has version 3 of the MMDB format: want 2"},
		{"another IP version", replaced(t, good, "ip_version", 1, 5), "addresses of IP version 5: want 4 or 6"},
		{"another size of values", replaced(t, good, "record_size", 1, 36), ""},
		{"a value out of the file", node(leaf, 1<<31), "leads out of the file"},
		{"a value into the gap", node(leaf, count+3), "leads out of the file"},
		{"a value into the middle of a record", node(leaf, count+16+3), "is broken: the record at byte 3 of the data"},
		{"nothing in it", geotest.Build(geotest.Options{}, geotest.Networks{}), "has nothing of use: want records with a country, coordinates or an AS number; these have no fields"},
		{"nothing of use", geotest.Build(geotest.Options{}, geotest.Networks{"192.0.2.0/24": {"isp": "x", "is_\x1bproxy": true}}), `these have "is_?proxy", "isp"`},
		{"too many fields", geotest.Build(geotest.Options{}, geotest.Networks{"192.0.2.0/24": record}), "a map or an array of more than 256 values"},
	} {
		for _, dir := range []string{"", t.TempDir()} {
			name := tt.name + ", mapped"
			if dir == "" {
				name = tt.name + ", read"
			}
			t.Run(name, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "test.mmdb")
				geotest.Replace(t, file, tt.content)
				d, err := Open(Config{Files: []string{file}, Dir: dir})
				if err == nil {
					t.Fatalf("opened: %+v", d.Status())
				}
				if !strings.HasPrefix(err.Error(), file+": ") || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %q, want %q in it", err, tt.want)
				}
				if strings.ContainsAny(err.Error(), "\n\x1b") {
					t.Errorf("error %q, want one line of printable characters", err)
				}
			})
		}
	}
}

func TestNotFiles(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	good := write(t, geotest.Options{}, small)
	_, err := Open(Config{Files: []string{filepath.Join(dir, "none"), good, dir, pipe, good}, Dir: t.TempDir()})
	var errs Errors
	if !errors.As(err, &errs) || len(errs) != 4 {
		t.Fatalf("error %v, want four", err)
	}
	for i, want := range []struct {
		index int
		text  string
	}{{0, "no such file or directory"}, {2, "want a regular file"}, {3, "want a regular file"}, {4, "is given twice"}} {
		if errs[i].Index != want.index || errs[i].Err.Error() != want.text {
			t.Errorf("error %d: file %d: %v, want file %d: %s", i, errs[i].Index, errs[i].Err, want.index, want.text)
		}
	}
	problems := errs.Problems()
	if want := `geo.databases[2] "` + dir; problems[1].Path != "geo.databases[2]" || !strings.HasPrefix(problems[1].Text, want) {
		t.Errorf("problem %+v, want %s", problems[1], want)
	}
}

// A tree that leads back to where it came from ends with the bits of the address.
func TestCircle(t *testing.T) {
	content := geotest.Build(geotest.Options{Bits: 32}, small)
	file := filepath.Join(t.TempDir(), "test.mmdb")
	binary.BigEndian.PutUint32(content[4:], 0) // addresses that begin with 1: the root again
	geotest.Replace(t, file, content)
	d := openAll(t, file)
	if p := d.Locate(addr("2001:db8::1")); p.Country != "DE" {
		t.Errorf("country %q, want DE", p.Country)
	}
	if p := d.Locate(addr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")); p != (Place{}) {
		t.Errorf("place %+v, want none", p)
	}
	if n := d.Status()[0].Failures; n != 1 {
		t.Errorf("%d failures, want 1", n)
	}
}

// What is mapped is a copy: whoever truncates the file, or writes into it, ends no
// process and changes no answer. Nothing is left of copies.
func TestMapped(t *testing.T) {
	file, dir := write(t, geotest.Options{}, small), t.TempDir()
	d, err := Open(Config{Files: []string{file}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	if p := d.Locate(addr("192.0.2.1")); p.Country != "NL" {
		t.Errorf("country %q, want NL", p.Country)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}

func TestNoDirectory(t *testing.T) {
	file := write(t, geotest.Options{}, small)
	_, err := Open(Config{Files: []string{file}, Dir: filepath.Join(t.TempDir(), "none")})
	if err == nil || !strings.Contains(err.Error(), "cannot be copied into ") {
		t.Errorf("error %v, want that it cannot be copied", err)
	}
}
