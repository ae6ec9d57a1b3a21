package dnswire

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

func TestParseName(t *testing.T) {
	const origin Name = "\x07example\x03com\x00"
	for _, c := range []struct {
		name, text string
		want       Name
		wrong      string
	}{
		{name: "absolute", text: "www.Example.org.", want: "\x03www\x07Example\x03org\x00"},
		{name: "relative", text: "www", want: "\x03www\x07example\x03com\x00"},
		{name: "origin", text: "@", want: origin},
		{name: "root", text: ".", want: Root},
		{name: "wildcard", text: "*.a", want: "\x01*\x01a\x07example\x03com\x00"},
		{name: "escaped dot", text: `john\.doe`, want: "\x08john.doe\x07example\x03com\x00"},
		{name: "escaped number", text: `\000\255.`, want: "\x02\x00\xff\x00"},
		{name: "escaped at", text: `\@.`, want: "\x01@\x00"},
		{name: "longest label", text: strings.Repeat("a", 63) + ".", want: Name("\x3f" + strings.Repeat("a", 63) + "\x00")},
		{name: "longest name", text: strings.Repeat("a.", 127), want: Name(strings.Repeat("\x01a", 127) + "\x00")},
		{name: "nothing", text: "", wrong: "want a name"},
		{name: "empty label", text: "a..b.", wrong: "no empty label"},
		{name: "leading dot", text: ".a.", wrong: "no empty label"},
		{name: "long label", text: strings.Repeat("a", 64) + ".", wrong: "labels of at most 63"},
		{name: "long label at the end of a long name", text: strings.Repeat("a", 300), wrong: "labels of at most 63"},
		{name: "long name", text: strings.Repeat("a.", 128), wrong: "name of at most 253"},
		{name: "long with its origin", text: strings.Repeat("a.", 122) + "a", wrong: "name of at most 253"},
		{name: "half an escape", text: `a\`, wrong: `want a character after \`},
		{name: "number too large", text: `a\256`, wrong: `\000 to \255`},
		{name: "number too short", text: `a\12`, wrong: `\000 to \255`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseName(c.text, origin)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("ParseName(%q) = %q, %v, want an error with %q", c.text, got, err, c.wrong)
				}
				return
			}
			if err != nil || got != c.want {
				t.Errorf("ParseName(%q) = %q, %v, want %q", c.text, got, err, c.want)
			}
		})
	}
	if _, err := ParseName("www", ""); err == nil {
		t.Error("a relative name without an origin is accepted")
	}
	if _, err := ParseName("@", ""); err == nil {
		t.Error("@ without an origin is accepted")
	}
}

func TestNames(t *testing.T) {
	n, err := ParseName(`*.W\.w.Example.COM.`, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := n.String(), `*.W\.w.Example.COM.`; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
	if got, want := n.Lower().String(), `*.w\.w.example.com.`; got != want {
		t.Errorf("Lower() = %q, want %q", got, want)
	}
	if got := n.Labels(); got != 4 {
		t.Errorf("Labels() = %d, want 4", got)
	}
	if !n.Wildcard() || n.Parent().Wildcard() {
		t.Error("Wildcard() does not tell names apart")
	}
	if got, want := n.Parent().String(), `W\.w.Example.COM.`; got != want {
		t.Errorf("Parent() = %q, want %q", got, want)
	}
	if got := Root.Parent(); got != "" {
		t.Errorf("parent of the root = %q", got)
	}
	zone := Name("\x07example\x03com\x00")
	for _, c := range []struct {
		name string
		n    Name
		in   bool
	}{
		{"itself", zone, true},
		{"below", "\x01a" + zone, true},
		{"above", "\x03com\x00", false},
		{"beside", "\x07exbmple\x03com\x00", false},
		{"same end, other label", "\x09an\x07example\x03com\x00", false}, // a label of 9 bytes that holds the zone's text
	} {
		if got := c.n.In(zone); got != c.in {
			t.Errorf("%s: In = %t, want %t", c.name, got, c.in)
		}
	}
}

// FuzzParseName compares names with what the library of the zone's other types
// reads: what we take has the same bytes, and its text is read again as the same.
func FuzzParseName(f *testing.F) {
	for _, s := range []string{"www.example.com.", `a\.b\000.c.`, ".", `\@.`, strings.Repeat("a.", 127), "a..b.", `\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseName(text, "")
		if err != nil {
			return
		}
		if wireName([]byte(n)) != len(n) {
			t.Fatalf("ParseName(%q) = %q, which is no name", text, n)
		}
		again, err := ParseName(n.String(), "")
		if err != nil || again != n {
			t.Errorf("%q, written as %q, is read as %q, %v", n, n, again, err)
		}
		buf := make([]byte, 300)
		if size, err := dns.PackDomainName(n.String(), buf, 0, nil, false); err != nil || string(buf[:size]) != string(n) {
			t.Errorf("the library packs %s as %q, %v, want %q", n, buf[:size], err, n)
		}
		var k Key
		k.SetName(n)
		if k.Labels() != n.Labels() || Name(k.Name()) != n.Lower() {
			t.Errorf("key of %q: %q with %d labels", n, k.Name(), k.Labels())
		}
	})
}
