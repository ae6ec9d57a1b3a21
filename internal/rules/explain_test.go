package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// lines writes a step and its parts, one a line.
func (s Step) lines(indent string) string {
	op := s.Op
	if op == "" {
		op = s.Value
	}
	text := fmt.Sprintf("%s%v %d: %s: %s\n", indent, s.Result, s.Column, s.Text, op)
	for _, part := range s.Parts {
		text += part.lines(indent + "  ")
	}
	return text
}

func TestExplain(t *testing.T) {
	for _, c := range []struct{ name, expr, want string }{
		{"a comparison", ` http.host eq "a" `, `
false 2: http.host eq "a": "www.example.com"
`},
		{"parts that decide nothing are explained too", `http.host eq "a" and (ssl or not ip.src in {192.0.2.0/24})`, `
false 1: http.host eq "a" and (ssl or not ip.src in {192.0.2.0/24}): and
  false 1: http.host eq "a": "www.example.com"
  true 22: (ssl or not ip.src in {192.0.2.0/24}): or
    true 23: ssl: true
    false 30: not ip.src in {192.0.2.0/24}: not
      true 34: ip.src in {192.0.2.0/24}: 192.0.2.7
`},
		{"functions", `lower(http.request.uri.path) contains "x" xor len(http.host) > 1`, `
true 1: lower(http.request.uri.path) contains "x" xor len(http.host) > 1: xor
  false 1: lower(http.request.uri.path) contains "x": "/blog/post.html"
  true 47: len(http.host) > 1: 15
`},
		{"arrays", `any(http.request.headers["accept"][*] == "a" or http.request.headers["accept"][*] == "b") or all(len(http.request.headers.names[*])[*] > 100)`, `
false 1: any(http.request.headers["accept"][*] == "a" or http.request.headers["accept"][*] == "b") or all(len(http.request.headers.names[*])[*] > 100): or
  false 1: any(http.request.headers["accept"][*] == "a" or http.request.headers["accept"][*] == "b"): ["text/html" "application/json"]
  false 94: all(len(http.request.headers.names[*])[*] > 100): [4 6 6 12 9 9 7 6 ...]
`},
		{"missing", `http.request.headers["none"][0] ne "a" and not any(http.request.headers["none"][*] eq "a") and true`, `
true 1: http.request.headers["none"][0] ne "a" and not any(http.request.headers["none"][*] eq "a") and true: and
  true 1: http.request.headers["none"][0] ne "a": missing
  true 44: not any(http.request.headers["none"][*] eq "a"): not
    false 48: any(http.request.headers["none"][*] eq "a"): []
  true 96: true: 
`},
		{"keys are secret", `ssl and !is_timed_hmac_valid_v0("mysecrettoken",http.request.headers["x-token"][0], 10800, http.request.timestamp.sec, 8)`, `
false 1: ssl and not is_timed_hmac_valid_v0("...", http.request.headers["x-token"][0], 10800, http.request.timestamp.sec, 8): and
  true 1: ssl: true
  false 9: not is_timed_hmac_valid_v0("...", http.request.headers["x-token"][0], 10800, http.request.timestamp.sec, 8): not
    true 10: is_timed_hmac_valid_v0("...", http.request.headers["x-token"][0], 10800, http.request.timestamp.sec, 8): true
`},
		{"long values are cut", `concat(http.request.full_uri, http.request.full_uri, http.request.full_uri) eq ""`, `
false 1: concat(http.request.full_uri, http.request.full_uri, http.request.full_uri) eq "": ` +
			`"` + (repeat("https://www.example.com/Blog/post.html?filter=waf&filter=botm&filter=cdn&q=John%20Doe&empty=", 3))[:200] + `"...
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := compile(t, c.expr)
			step := p.Explain(httpEnv())
			checkStep(t, step)
			if got := "\n" + step.lines(""); got != c.want {
				t.Errorf("got%s\nwant%s", got, c.want)
			}
		})
	}
}

// TestFields: a plane learns what an expression asks for.
func TestFields(t *testing.T) {
	p := compile(t, `ssl and any(lower(http.request.headers.names[*])[*] eq "a") and http.host eq "a" and dns.qry.qu and ip.geoip.country eq "DE"`)
	want := []Field{FieldClientCountry, FieldSSL, FieldHost, FieldHeaders, FieldHeaderNames}
	if !slices.Equal(p.Fields(), want) {
		t.Errorf("Fields() = %v, want %v", p.Fields(), want)
	}
}

// TestSchema: the table of fields is whole.
func TestSchema(t *testing.T) {
	names := make(map[string]bool)
	for i, f := range Schema() {
		if f.Field != Field(i) {
			t.Errorf("%s has the place of %s", f.Name, Field(i))
		}
		for _, name := range []string{f.Name, f.Alias} {
			if name != "" && (names[name] || name != strings.ToLower(name)) {
				t.Errorf("%s stands twice, or is not in lower case", name)
			}
			names[name] = true
		}
		if f.Modes == 0 || !strings.HasSuffix(f.Doc, ".") {
			t.Errorf("%s has no mode, or no sentence about it", f.Name)
		}
		if f.part != partNone && (schema[f.of].Type != StringMap || f.Type != StringArray) {
			t.Errorf("%s is part of %s, which is no map", f.Name, f.of)
		}
		expr := map[Type]string{
			Bool: f.Name, Int: f.Name + " eq 1", IP: f.Name + " eq ::1", String: f.Name + ` eq "a"`,
			StringArray: "any(" + f.Name + `[*] eq "a")`, StringMap: "any(" + f.Name + `["a"][*] eq "a")`,
		}[f.Type]
		for _, m := range []Mode{ModeHTTP, ModeDNS, ModeL4} {
			p, err := Compile(expr, m)
			if err != nil {
				t.Errorf("%v: %v", m, err)
				continue
			}
			if exists := f.Modes&m != 0; (len(p.Notes()) == 0) != exists || slices.Contains(p.Fields(), f.Field) != exists {
				t.Errorf("%v: %s has notes %v and fields %v", m, expr, p.Notes(), p.Fields())
			}
		}
	}
}
