package dnswire

import (
	"fmt"
	"strings"
	"testing"
)

// lines writes records as a zone file has them, one in a line.
func lines(records []Record) string {
	var b strings.Builder
	for _, r := range records {
		fmt.Fprintf(&b, "%s %d %s %s\n", r.Owner, r.TTL, r.Type, RDataText(r.Type, r.Data))
	}
	return b.String()
}

func TestParseZone(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"TTL, class and type in all orders", `
a 60 IN A 192.0.2.1
b IN 60 A 192.0.2.1
c 60 A 192.0.2.1
$TTL 300
d A 192.0.2.1
e IN A 192.0.2.1
f in a 192.0.2.1
`, `
a.example.com. 60 A 192.0.2.1
b.example.com. 60 A 192.0.2.1
c.example.com. 60 A 192.0.2.1
d.example.com. 300 A 192.0.2.1
e.example.com. 300 A 192.0.2.1
f.example.com. 300 A 192.0.2.1
`},
		{"owner of the line before", `
$TTL 60
www A 192.0.2.1
    A 192.0.2.2
	AAAA 2001:db8::1

; a comment
    TXT "x" ; another
`, `
www.example.com. 60 A 192.0.2.1
www.example.com. 60 A 192.0.2.2
www.example.com. 60 AAAA 2001:db8::1
www.example.com. 60 TXT "x"
`},
		{"parentheses and comments in a SOA", `
@ 3600 IN SOA ns1 host ( ; a comment (with parentheses
   1    ; serial
   2h   ; refresh
   15m 2w
   1h30m )
  NS ns1
`, `
example.com. 3600 SOA ns1.example.com. host.example.com. 1 7200 900 1209600 5400
example.com. 3600 NS ns1.example.com.
`},
		{"SOA without a TTL has its minimum", `
@ SOA ns1 host 1 2 3 4 5
  NS ns1
`, `
example.com. 5 SOA ns1.example.com. host.example.com. 1 2 3 4 5
example.com. 5 NS ns1.example.com.
`},
		{"origins", `
$TTL 1
$ORIGIN sub
a CNAME b
$ORIGIN org.
a CNAME @
b.c. CNAME d
`, `
a.sub.example.com. 1 CNAME b.sub.example.com.
a.org. 1 CNAME org.
b.c. 1 CNAME d.org.
`},
		{"quotes and escapes", `
$TTL 1
a TXT "semi;colon" "quo\"te" plain\;word "( not a parenthesis"
a\.b TXT (
  "one"
  "two" )
c CAA 0 issue "ca.example; account=1"
d HTTPS 1 . alpn="h2,h3" port=8443
`, `
a.example.com. 1 TXT "semi;colon" "quo\"te" "plain;word" "( not a parenthesis"
a\.b.example.com. 1 TXT "one" "two"
c.example.com. 1 CAA 0 issue "ca.example; account=1"
d.example.com. 1 HTTPS 1 . alpn="h2,h3" port="8443"
`},
		{"unknown type and class IN by number of the type", `
a 1 IN TYPE65280 \# 2 abcd
b 1 TYPE1 \# 4 c0000201
`, `
a.example.com. 1 TYPE65280 \# 2 ABCD
b.example.com. 1 A 192.0.2.1
`},
		{"names like types and TTLs", `
$TTL 9
A A 192.0.2.1
1h A 192.0.2.2
IN IN A 192.0.2.3
`, `
A.example.com. 9 A 192.0.2.1
1h.example.com. 9 A 192.0.2.2
IN.example.com. 9 A 192.0.2.3
`},
		{"TTL units", `
a 1w A 192.0.2.1
b 1D12H A 192.0.2.1
c 0 A 192.0.2.1
d 2147483647 A 192.0.2.1
`, `
a.example.com. 604800 A 192.0.2.1
b.example.com. 129600 A 192.0.2.1
c.example.com. 0 A 192.0.2.1
d.example.com. 2147483647 A 192.0.2.1
`},
		{"line ends of Windows, and no line end at the end", "a 1 A 192.0.2.1\r\nb 1 A 192.0.2.2", `
a.example.com. 1 A 192.0.2.1
b.example.com. 1 A 192.0.2.2
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			records, errs := ParseZone([]byte(c.text), exampleCom)
			if len(errs) > 0 {
				t.Fatal(errs)
			}
			if got, want := lines(records), strings.TrimPrefix(c.want, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestParseZoneErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no TTL", "a A 192.0.2.1", "1:1: no TTL"},
		{"no owner", " 1 A 192.0.2.1", "1:2: record without a name"},
		{"no type", "a 1 IN", "1:1: want the type"},
		{"no data", "a 1 IN A", "1:1: want the data"},
		{"unknown type", "a 1 IN NOPE x", `1:8: "NOPE" is not the type of a record`},
		{"type of queries only", "a 1 IN ANY x", "1:8: ANY: no record has this type"},
		{"other class", "a 1 CH TXT x", "1:1: class CH: want IN"},
		{"other class by number", "a 1 CLASS3 TXT x", "1:1: class CLASS3: want IN"},
		{"bad name", "a..b 1 A 192.0.2.1", `1:1: name "a..b": want no empty label`},
		{"bad data", "\n\na 1 A 1.2.3", "3:7: A: want an IPv4 address"},
		{"TTL too large", "a 2147483648 A 192.0.2.1", `1:3: "2147483648" is not the type`},
		{"open parenthesis", "a 1 TXT ( x", "( without )"},
		{"closing parenthesis", "a 1 TXT x )", "1:12: ) without ("},
		{"nested parentheses", "a 1 TXT ( ( x ) )", "parentheses within parentheses"},
		{"open quote", `a 1 TXT "x`, "want a quote at the end"},
		{"control character", "a\x01b 1 A 192.0.2.1", "a control character, 0x01"},
		{"include", "$INCLUDE other", "$INCLUDE is not supported"},
		{"generate", "$GENERATE 1-2 a$ A 192.0.2.1", "$GENERATE is not supported"},
		{"directive", "$NOPE x", "$NOPE is not known"},
		{"bad $TTL", "$TTL x", "$TTL x: want 0 to 2147483647 seconds"},
		{"$TTL without value", "$TTL", "$TTL: want one value"},
		{"bad $ORIGIN", "$ORIGIN a..b", "$ORIGIN a..b: want no empty label"},
		{"quoted owner", `"a" 1 A 192.0.2.1`, "without quotes"},
		{"long record", "a 1 TXT (" + strings.Repeat("x ", maxEntry/2) + ")", "a record of more than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, errs := ParseZone([]byte(c.text), exampleCom)
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), c.want) {
				t.Errorf("got %v, want %q alone", errs, c.want)
			}
		})
	}
}

// An error does not hide those that follow, nor gives records to a wrong name.
func TestParseZoneGoesOn(t *testing.T) {
	records, errs := ParseZone([]byte("$TTL 1\na A 192.0.2.1\nb..c A 192.0.2.2\n A 192.0.2.3\nd A x\n  A 192.0.2.4\n"), exampleCom)
	if got, want := lines(records), "a.example.com. 1 A 192.0.2.1\nd.example.com. 1 A 192.0.2.4\n"; got != want {
		t.Errorf("records\n%swant\n%s", got, want)
	}
	var where []string
	for _, e := range errs {
		where = append(where, fmt.Sprintf("%d:%d", e.Line, e.Column))
	}
	if got, want := strings.Join(where, " "), "3:1 4:2 5:5"; got != want {
		t.Errorf("errors at %s, want %s: %v", got, want, errs)
	}
	_, errs = ParseZone([]byte(strings.Repeat("a 1 A x\n", 1000)), exampleCom)
	if len(errs) != maxFileFails {
		t.Errorf("%d errors, want %d", len(errs), maxFileFails)
	}
}

// FuzzZoneFile reads files that somebody wrote: what is taken can be written down
// and read again.
func FuzzZoneFile(f *testing.F) {
	for _, s := range []string{
		"$TTL 300\n@ SOA ns1 host 1 2 3 4 5\n NS ns1\nns1 A 192.0.2.1\n",
		"a 1 TXT (\n \"one\" ; x\n \"two\" )\n",
		"$ORIGIN b.\na 1h IN HTTPS 1 . alpn=\"h2\"\n", "a 1 TYPE65280 \\# 2 abcd\n", "a\\000b 1 A 192.0.2.1",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		records, _ := ParseZone(text, exampleCom)
		for i := range records {
			r := &records[i]
			again, errs := ParseZone([]byte(lines(records[i:i+1])), exampleCom)
			if len(errs) > 0 || len(again) != 1 || again[0].Owner != r.Owner || again[0].Type != r.Type || again[0].TTL != r.TTL {
				t.Errorf("%+v is read as %+v, %v", r, again, errs)
			}
		}
	})
}
