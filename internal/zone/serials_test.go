package zone

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestContent(t *testing.T) {
	base := input(t, "example.com", apex+"www A 192.0.2.1\nwww A 192.0.2.2\nm MX 1 www\n")
	for _, c := range []struct {
		name, text string
		same       bool
	}{
		{"records in another order", apex + "m MX 1 www\nwww A 192.0.2.2\nwww A 192.0.2.1\n", true},
		{"names in another case", apex + "WWW A 192.0.2.1\nwww A 192.0.2.2\nm MX 1 WwW\n", true},
		{"another serial", strings.Replace(apex, " 1 3600", " 2 3600", 1) + "www A 192.0.2.1\nwww A 192.0.2.2\nm MX 1 www\n", true},
		{"another minimum", strings.Replace(apex, " 60\n", " 61\n", 1) + "www A 192.0.2.1\nwww A 192.0.2.2\nm MX 1 www\n", false},
		{"another address", apex + "www A 192.0.2.1\nwww A 192.0.2.3\nm MX 1 www\n", false},
		{"another TTL", apex + "www 1 A 192.0.2.1\nwww 1 A 192.0.2.2\nm MX 1 www\n", false},
		{"one record less", apex + "www A 192.0.2.1\nm MX 1 www\n", false},
	} {
		if got := Content(base) == Content(input(t, "example.com", c.text)); got != c.same {
			t.Errorf("%s: the same content: %t, want %t", c.name, got, c.same)
		}
	}
	steered := base
	steered.Steered = append(steered.Steered, name(t, "www.example.com"))
	if Content(base) == Content(steered) {
		t.Error("a steered name changes nothing")
	}
}

func TestSerials(t *testing.T) {
	file := filepath.Join(t.TempDir(), "zones", "serials.json")
	var s Serials
	if err := s.Load(file); err != nil {
		t.Fatal(err)
	}
	keep := func(in Input) *Zone {
		t.Helper()
		z, problems := Build(in)
		if z == nil {
			t.Fatal(problems)
		}
		if err := s.Keep([]*Zone{z}); err != nil {
			t.Fatal(err)
		}
		return z
	}
	in := input(t, "example.com", apex)
	other := input(t, "example.com", apex+"x A 192.0.2.1\n")
	next := func(in Input, wanted uint32, declared bool) uint32 {
		return s.Next("example.com", Content(in), wanted, declared)
	}
	if got := next(in, 1000, false); got != 1000 {
		t.Errorf("first serial %d, want the one that is wanted", got)
	}
	in.Serial = 1000
	if z := keep(in); z.SOA.Serial != 1000 {
		t.Fatalf("the zone has serial %d", z.SOA.Serial)
	}
	for _, c := range []struct {
		name     string
		in       Input
		wanted   uint32
		declared bool
		want     uint32
	}{
		{"nothing has changed", in, 2000, false, 1000},
		{"nothing has changed but the file's serial", in, 2000, true, 2000},
		{"the file's serial went back", in, 5, true, 1000},
		{"another content", other, 2000, false, 2000},
		{"another content in the same second", other, 1000, false, 1001},
		{"another content with the file's serial as it was", other, 1000, true, 1001},
		{"another content, the clock went back", other, 10, false, 1001},
	} {
		if got := next(c.in, c.wanted, c.declared); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	// Another process goes on where this one was.
	s = Serials{}
	if err := s.Load(file); err != nil {
		t.Fatal(err)
	}
	if got := next(in, 3000, false); got != 1000 {
		t.Errorf("after a restart the serial of what has not changed is %d", got)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := new(Serials).Load(file); err == nil || !strings.Contains(err.Error(), "without the file, zones begin with new serials") {
		t.Errorf("a broken file: %v", err)
	}
}

// Where nothing can be written the serials of this process go on all the same.
func TestSerialsThatCannotBeKept(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "zones"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var s Serials
	if err := s.Load(filepath.Join(dir, "zones", "serials.json")); err == nil {
		t.Error("a file in place of the directory is no error")
	}
	in := input(t, "example.com", apex)
	in.Serial = 7
	z, _ := Build(in)
	if err := s.Keep([]*Zone{z}); err == nil {
		t.Error("what cannot be written is no error")
	}
	if got := s.Next("example.com", Content(in), 9, false); got != 7 {
		t.Errorf("serial %d, want 7", got)
	}
}
