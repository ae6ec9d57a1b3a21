package dnswire

import (
	"strings"
	"testing"
)

func TestKey(t *testing.T) {
	var k, parent Key
	k.Set([]byte("\x03WwW\x07Example\x03COM\x00"))
	if got, want := string(k.Name()), "\x03www\x07example\x03com\x00"; got != want {
		t.Fatalf("Name() = %q, want %q", got, want)
	}
	for skip, want := range []string{"\x03www\x07example\x03com\x00", "\x07example\x03com\x00", "\x03com\x00", "\x00"} {
		if got := string(k.Suffix(skip)); got != want {
			t.Errorf("Suffix(%d) = %q, want %q", skip, got, want)
		}
		parent.SetName(Name(want))
		if k.Hash(skip) != parent.Hash(0) {
			t.Errorf("the hash of %q depends on what stands before it", want)
		}
		if got := k.Start(skip); got != k.Len()-len(want) {
			t.Errorf("Start(%d) = %d, want %d", skip, got, k.Len()-len(want))
		}
	}
	if k.Labels() != 3 {
		t.Errorf("Labels() = %d, want 3", k.Labels())
	}
	// The place of a boundary between labels makes another name.
	var a, b Key
	a.SetName("\x02ab\x01c\x00")
	b.SetName("\x01a\x02bc\x00")
	if a.Hash(0) == b.Hash(0) {
		t.Error("ab.c and a.bc have the same hash")
	}
}

func TestKeyJoin(t *testing.T) {
	var k Key
	buf := make([]byte, 0, MaxName)
	joined, ok := k.Join(buf, []byte("\x03WWW"), "\x07Example\x03net\x00")
	if want := "\x03WWW\x07Example\x03net\x00"; !ok || string(joined) != want {
		t.Errorf("Join = %q, %t, want %q", joined, ok, want)
	}
	if got, want := string(k.Name()), "\x03www\x07example\x03net\x00"; got != want {
		t.Errorf("the key is %q, want %q", got, want)
	}
	long := Name(strings.Repeat("\x01a", 126) + "\x00")
	if _, ok := k.Join(buf, []byte("\x03www"), long); ok {
		t.Error("a name of 257 bytes is accepted")
	}
	if _, ok := k.Join(buf, []byte("\x01a"), long); !ok {
		t.Error("a name of 255 bytes is refused")
	}
}

func TestKeyDoesNotAllocate(t *testing.T) {
	name := []byte("\x03www\x07example\x03com\x00")
	var k Key
	if n := testing.AllocsPerRun(100, func() { k.Set(name) }); n != 0 {
		t.Errorf("%v allocations for a key", n)
	}
}
