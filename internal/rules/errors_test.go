package rules

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/errors.txt again")

// TestErrors: every expression of testdata/errors.txt is refused, with the
// message there and at the column there.
func TestErrors(t *testing.T) {
	const name = "testdata/errors.txt"
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	intro, text, _ := strings.Cut(string(data), "\n\n")
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	got := intro + "\n\n"
	for i := 0; i+1 < len(lines); i += 2 {
		_, err := Compile(lines[i], ModeHTTP)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("Compile(%s) = %v, want an *Error", lines[i], err)
			continue
		}
		said := strings.Repeat(" ", e.Column-1) + "^ " + e.Message
		if said != lines[i+1] && !*update {
			t.Errorf("Compile: got\n%s\n%s\nwant\n%s", lines[i], said, lines[i+1])
		}
		got += lines[i] + "\n" + said + "\n"
	}
	if len(lines) < 300 {
		t.Errorf("%d expressions, want at least 150", len(lines)/2)
	}
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPositions: offsets count bytes, columns characters, and lines LF.
func TestPositions(t *testing.T) {
	for _, c := range []struct {
		name, expr string
		want       Position
		text       string
	}{
		{"first line", `http.hots eq "a"`, Position{0, 1, 1}, `column 1: unknown field "http.hots": did you mean "http.host"?`},
		{"third line", "ssl\nand ssl\n  and tcp.dstport eq 08", Position{33, 3, 22}, "line 3, column 22: 08: want an octal integer, as it begins with 0"},
		{"CR LF", "ssl\r\nand ip.src eq 1", Position{19, 2, 15}, "line 2, column 15: 1: want an IP address"},
		{"behind UTF-8", `http.host eq "é☁" eq`, Position{21, 1, 19}, `column 19: "eq" behind the expression: want and, or, xor or the end`},
		{"at the end", "ssl and\n", Position{8, 2, 1}, "line 2, column 1: the end: want a field, a function, not or ("},
		{"empty", "", Position{0, 1, 1}, "column 1: an empty expression: true is always true"},
		{"blank", " \n ", Position{3, 2, 2}, "line 2, column 2: an empty expression: true is always true"},
		{"not UTF-8", "http.host eq \"é\xff\"", Position{16, 1, 16}, `column 16: a byte 0xff that is not UTF-8: write \xff in a string`},
		{"within a raw string", "http.host matches r##\"\na(?=b\"##", Position{24, 2, 2}, `line 2, column 2: a pattern that is no regular expression: look-around, which this language does not have: "(?="`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Compile(c.expr, ModeHTTP)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("Compile(%q) = %v, want an *Error", c.expr, err)
			}
			if e.Position != c.want || e.Error() != c.text {
				t.Errorf("Compile(%q) at %+v: %v\nwant %+v: %s", c.expr, e.Position, e, c.want, c.text)
			}
		})
	}
}

// TestLimits: what is at a limit is accepted, what is over it refused.
func TestLimits(t *testing.T) {
	nested := func(n int) string { return repeat("(", n) + "ssl" + repeat(")", n) }
	calls := func(n int) string {
		return repeat("lower(", n) + "http.host" + repeat(")", n) + ` eq "a"`
	}
	long := func(n int) string {
		const around = `http.host eq ""`
		return `http.host eq "` + repeat("a", n-len(around)) + `"`
	}
	for _, c := range []struct{ name, expr, want string }{
		{"parentheses", nested(128), ""},
		{"too many parentheses", nested(129), "column 129: nested deeper than 128"},
		{"not", repeat("!", 128) + "ssl", ""},
		{"too many not", repeat("not ", 129) + "ssl", "column 513: nested deeper than 128"},
		{"calls", calls(128), ""},
		{"too many calls", calls(129), "column 774: nested deeper than 128"},
		{"all kinds", repeat("!(", 64) + "ssl" + repeat(")", 64), ""},
		{"too many of all kinds", repeat("!(", 64) + "not ssl" + repeat(")", 64), "column 129: nested deeper than 128"},
		{"one beside the other", "(ssl)" + repeat(" and (not ssl)", 1000), ""},
		{"a long chain", "ssl" + repeat(" or ssl", 9000), ""},
		{"length", long(MaxLength), ""},
		{"too long", long(MaxLength + 1), "column 1: an expression of 65537 bytes: want at most 65536"},
		{"hashes", `http.host eq r` + repeat("#", 255) + `"a"` + repeat("#", 255), ""},
		{"too many hashes", `http.host eq r` + repeat("#", 256) + `"a"` + repeat("#", 256), "column 14: a raw string with 256 #: want at most 255"},
		{"a long pattern", `http.host matches "` + repeat("a", MaxPattern) + `"`, ""},
		{"too long a pattern", `http.host matches "` + repeat("a", MaxPattern+1) + `"`, "column 19: a pattern of 1025 bytes: want at most 1024"},
		{"repetitions", `http.host matches "^([a-z0-9-]{1,63}\.){1,8}[a-z]{2,63}$"`, ""},
		{"too many repetitions", `http.host matches "` + repeat("(a{31}){32}", 9) + `"`, "column 19: a pattern that takes about 9504 steps: want at most 4096; large or nested repetitions cost most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			if _, err := Compile(c.expr, ModeHTTP); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("Compile: %q, want %q", got, c.want)
			}
		})
	}
}
