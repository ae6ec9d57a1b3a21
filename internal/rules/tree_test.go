package rules

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// dump writes a tree without positions and spelling, each part in parentheses.
func dump(e expr) string {
	switch e := e.(type) {
	case *constant:
		return fmt.Sprint(e.is)
	case *negated:
		return "(not " + dump(e.arg) + ")"
	case *joined:
		parts := make([]string, len(e.items))
		for i, item := range e.items {
			parts[i] = dump(item)
		}
		return "(" + logicNames[e.op] + " " + strings.Join(parts, " ") + ")"
	case *comparison:
		if e.op == opNone {
			return dumpValue(e.left)
		}
		return "(" + compareNames[e.op] + " " + dumpValue(e.left) + " " + dumpLiteral(e.right) + ")"
	}
	panic("unknown expression")
}

func dumpValue(v *value) string {
	s := v.name
	if v.call != nil {
		s += "("
		for i, a := range v.call.args {
			if i > 0 {
				s += " "
			}
			if a.lit != nil {
				s += dumpLiteral(a.lit)
			} else {
				s += dump(a.expr)
			}
		}
		s += ")"
	}
	for _, x := range v.index {
		s += fmt.Sprintf("[%d %d %q]", x.kind, x.number, x.key)
	}
	return s
}

func dumpLiteral(l *literal) string {
	s := fmt.Sprintf("<%d %q", l.form, l.text)
	for _, item := range l.items {
		s += " " + dumpLiteral(item)
	}
	return s + ">"
}

// TestTree: what binds to what, and how the expression is printed.
func TestTree(t *testing.T) {
	for _, c := range []struct{ expr, tree, printed string }{
		{`ssl and ssl or ssl xor ssl`, `(or (and ssl ssl) (xor ssl ssl))`, `ssl and ssl or ssl xor ssl`},
		{`ssl or ssl xor ssl and ssl`, `(or ssl (xor ssl (and ssl ssl)))`, `ssl or ssl xor ssl and ssl`},
		{`ssl xor ssl or ssl and ssl xor ssl`, `(or (xor ssl ssl) (xor (and ssl ssl) ssl))`, `ssl xor ssl or ssl and ssl xor ssl`},
		{`ssl||ssl^^ssl&&!ssl`, `(or ssl (xor ssl (and ssl (not ssl))))`, `ssl or ssl xor ssl and not ssl`},
		{`ssl and ssl and ssl`, `(and ssl ssl ssl)`, `ssl and ssl and ssl`},
		{`(ssl and ssl) and ssl`, `(and (and ssl ssl) ssl)`, `(ssl and ssl) and ssl`},
		{`ssl and (ssl and ssl)`, `(and ssl (and ssl ssl))`, `ssl and (ssl and ssl)`},
		{`(ssl or ssl) and ssl`, `(and (or ssl ssl) ssl)`, `(ssl or ssl) and ssl`},
		{`(ssl and ssl) or ssl`, `(or (and ssl ssl) ssl)`, `ssl and ssl or ssl`},
		{`not ssl and ssl`, `(and (not ssl) ssl)`, `not ssl and ssl`},
		{`not (ssl and ssl)`, `(not (and ssl ssl))`, `not (ssl and ssl)`},
		{`!!((ssl))`, `(not (not ssl))`, `not not ssl`},
		{`not tcp.dstport == 1 and ssl`, `(and (not (eq tcp.dstport <2 "1">)) ssl)`, `not tcp.dstport eq 1 and ssl`},
		{`http.host~"a\"[\"]\\"`, `(matches http.host <1 "a\"[\\\"]\\\\">)`, `http.host matches "a\"[\"]\\"`},
		{`http.host matches r#"a"b\"c"#`, `(matches http.host <1 "a\"b\"c">)`, `http.host matches "a\"b\"c"`},
		{"http.host strict \n wildcard r\"\\*\"", `(strict wildcard http.host <0 "\\*">)`, `http.host strict wildcard "\\*"`},
		{`http.host in{"\x00é\377"  61:62}`, `(in http.host <3 "" <0 "\x00é\xff"> <2 "61:62">>)`, `http.host in {"\x00é\xff" 61:62}`},
		{`any( lower ( http.request.headers [ "a" ] [ * ] ) [*]=="b" )`, `any((eq lower(http.request.headers[1 0 "a"][2 0 ""])[2 0 ""] <0 "b">))`, `any(lower(http.request.headers["a"][*])[*] eq "b")`},
		{`remove_bytes(http.host,c2:b4)!="a"`, `(ne remove_bytes(http.host <2 "c2:b4">) <0 "a">)`, `remove_bytes(http.host, c2:b4) ne "a"`},
		{`remove_bytes(http.host,c2-b4)!="a"`, `(ne remove_bytes(http.host <2 "c2-b4">) <0 "a">)`, `remove_bytes(http.host, c2-b4) ne "a"`},
		{`any((http.request.uri.args.names[*]<"a")or(http.request.uri.args.names[*]>"b"))`, `any((or (lt http.request.uri.args.names[2 0 ""] <0 "a">) (gt http.request.uri.args.names[2 0 ""] <0 "b">)))`,
			`any(http.request.uri.args.names[*] lt "a" or http.request.uri.args.names[*] gt "b")`},
		{`ip.geoip.asnum&1`, `(bitwise_and ip.geoip.asnum <2 "1">)`, `ip.geoip.asnum bitwise_and 1`},
	} {
		p := compile(t, c.expr)
		if got := dump(p.root); got != c.tree {
			t.Errorf("tree of %s:\n got %s\nwant %s", c.expr, got, c.tree)
		}
		if got := p.String(); got != c.printed {
			t.Errorf("%s is printed\n     %s\nwant %s", c.expr, got, c.printed)
		}
		if p.Source() != c.expr {
			t.Errorf("Source() = %s, want %s", p.Source(), c.expr)
		}
		checkPrinted(t, p)
	}
}

// checkPrinted fails unless the printed expression has the same tree.
func checkPrinted(t *testing.T, p *Program) {
	t.Helper()
	text := p.String()
	if len(text) > MaxLength {
		return // words are longer than symbols
	}
	again, err := Compile(text, p.mode)
	if err != nil {
		t.Fatalf("%s\nis printed as %s\nwhich is refused: %v", p.Source(), text, err)
	}
	if got, want := dump(again.root), dump(p.root); got != want {
		t.Fatalf("%s\nis printed as %s\nwhich has the tree\n%s\nrather than\n%s", p.Source(), text, got, want)
	}
	if again.String() != text {
		t.Fatalf("printed again, %s\nbecomes %s", text, again)
	}
}

// seeds returns all expressions of the tables.
func seeds(t testing.TB) []string {
	t.Helper()
	var exprs []string
	for _, cases := range matches {
		for _, c := range cases {
			exprs = append(exprs, c.expr)
		}
	}
	data, err := os.ReadFile("testdata/errors.txt")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(data), "\n")[4:] {
		if i%2 == 0 {
			exprs = append(exprs, line)
		}
	}
	return exprs
}

// TestCuts: whatever is left of an expression when it is cut is read
// without harm.
func TestCuts(t *testing.T) {
	for _, expr := range seeds(t) {
		for i := 0; i < len(expr); i += 3 {
			_, _ = Compile(expr[:i], ModeHTTP)
			_, _ = Compile(expr[i:], ModeHTTP)
		}
	}
}
