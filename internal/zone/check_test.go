package zone

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairlead/internal/dnswire"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string // "LINE: text", with "warning: " before those
	}{
		{"nothing is wrong", apex + "www A 192.0.2.1\n@ MX 10 www\n_sip._tcp SRV 1 2 3 www\nm MX 0 .\n", nil},
		{"no SOA", "@ 1 NS ns.invalid.\n", []string{"0: no SOA record for example.com."}},
		{"no NS", "@ 1 SOA ns.invalid. h 1 2 3 4 5\n", []string{"0: no NS record for example.com.: want at least one"}},
		{"two SOA", apex + "@ 3600 SOA ns1 h 2 3 4 5 6\n", []string{"6: a second SOA record: want one"}},
		{"SOA elsewhere", apex + "www SOA ns1 h 1 2 3 4 5\n", []string{"6: www.example.com. has a SOA record: want it for the zone itself only"}},
		{"outside", apex + "www.example.org. A 192.0.2.1\n", []string{"6: www.example.org. is outside the zone example.com."}},
		{"same record twice", apex + "www A 192.0.2.1\nWWW A 192.0.2.1\n", []string{"7: warning: WWW.example.com. A: the same record once more (line 6)"}},
		{"TTLs of a set", apex + "www 10 A 192.0.2.1\nwww 20 A 192.0.2.2\n", []string{"7: warning: www.example.com. A: TTL 20 differs from 10 (line 6): all records of a set have one TTL, the least is used"}},
		{"CNAME beside A", apex + "www CNAME ns1\nwww A 192.0.2.1\n", []string{"6: www.example.com. has both CNAME and A (line 7); keep one"}},
		{"CNAME at the apex", apex + "@ CNAME ns1\n", []string{"6: example.com. has both CNAME and NS (line 4); keep one"}},
		{"two CNAMEs", apex + "www CNAME ns1\nwww CNAME a.example.org.\n", []string{"7: www.example.com. has a second CNAME record (line 6); keep one"}},
		{"CNAME to nothing", apex + "www CNAME nope\n", []string{"6: warning: www.example.com. CNAME: nope.example.com. does not exist"}},
		{"CNAME to somewhere else", apex + "www CNAME x.example.org.\n", nil},
		{"CNAME loop", apex + "a CNAME b\nb CNAME c\nc CNAME a\n", []string{"8: c.example.com. CNAME: leads back to a.example.com., a loop"}},
		{"CNAME to itself", apex + "a CNAME a\n", []string{"6: a.example.com. CNAME: leads back to a.example.com., a loop"}},
		{"CNAME loop through a wildcard", apex + "*.w CNAME x.w\n", []string{"6: *.w.example.com. CNAME: leads back to *.w.example.com., a loop"}},
		{"two ways into one loop", apex + "x CNAME a\ny CNAME a\na CNAME b\nb CNAME a\n", []string{"9: b.example.com. CNAME: leads back to a.example.com., a loop"}},
		{"NS without address", apex + "@ 3600 NS ns2\n", []string{"6: example.com. NS: ns2.example.com. does not exist"}},
		{"NS that has no address", apex + "@ 3600 NS ns2\nns2 TXT x\n", []string{"6: example.com. NS: ns2.example.com. has no A or AAAA record"}},
		{"NS is an alias", apex + "@ 3600 NS ns2\nns2 CNAME ns1\n", []string{"6: example.com. NS: ns2.example.com. is an alias: want a name with addresses"}},
		{"MX is an alias", apex + "@ MX 10 m\nm CNAME ns1\n", []string{"6: warning: example.com. MX: m.example.com. is an alias: want a name with addresses"}},
		{"MX is redirected", apex + "@ MX 10 m.d\nd DNAME x.org.\n", []string{"6: warning: example.com. MX: m.d.example.com. is an alias: want a name with addresses"}},
		{"MX to nothing", apex + "@ MX 10 nope\n", []string{"6: warning: example.com. MX: nope.example.com. does not exist"}},
		{"SRV without address", apex + "_s._tcp SRV 1 2 3 t\nt TXT x\n", []string{"6: warning: _s._tcp.example.com. SRV: t.example.com. has no A or AAAA record"}},
		{"missing glue", apex + "sub NS ns.sub\n", []string{"6: sub.example.com. NS: ns.sub.example.com. has no A or AAAA record here: its name is below the delegation, so that resolvers need this glue"}},
		{"glue of another delegation", apex + "a NS ns.a\nns.a A 192.0.2.1\nb NS ns2.a\n", []string{"8: warning: b.example.com. NS: ns2.a.example.com. has no A or AAAA record here; resolvers have to ask the servers of a.example.com. for it"}},
		{"delegation with glue", apex + "sub NS ns.sub\nns.sub AAAA 2001:db8::1\n", nil},
		{"data below a delegation", apex + "sub NS ns1\nx.sub TXT x\n", []string{"7: warning: x.sub.example.com. TXT is below the delegation of sub.example.com.: it is never answered"}},
		{"data at a delegation", apex + "sub NS ns1\nsub TXT x\n", []string{"7: warning: sub.example.com. TXT: the name is delegated, so that it is never answered"}},
		{"DS without delegation", apex + "sub DS 1 13 2 ababababababababababababababababababababababababababababababab01\n", []string{"6: sub.example.com.: DS records belong to a delegation: want NS records of the same name"}},
		{"DS of the zone", apex + "@ DS 1 13 2 ababababababababababababababababababababababababababababababab01\n", []string{"6: example.com.: DS records of the zone itself belong into the zone above it"}},
		{"wildcard is delegated", apex + "*.x NS ns1\n", []string{"6: *.x.example.com.: a wildcard cannot be delegated (RFC 4592 section 4.2)"}},
		{"wildcard is redirected", apex + "*.x DNAME a.org.\n", []string{"6: *.x.example.com.: a wildcard cannot have DNAME records (RFC 4592 section 4.4)"}},
		{"two DNAMEs", apex + "d DNAME a.org.\nd DNAME b.org.\n", []string{"7: d.example.com. has a second DNAME record (line 6); keep one"}},
		{"data below a DNAME", apex + "d DNAME a.org.\nx.d A 192.0.2.1\n", []string{"7: x.d.example.com. A is below the DNAME record of d.example.com.: it is never answered"}},
		{"DNAME and NS", apex + "d DNAME a.org.\nd NS ns1\n", []string{"6: d.example.com. has both DNAME and NS; keep one"}},
		{"signed", apex + "www RRSIG A 13 3 300 20300101000000 20200101000000 1 example.com. YWJj\n", []string{"6: www.example.com. RRSIG: signatures and denials are made when answering: want the zone unsigned"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := input(t, "example.com", c.text)
			z, problems := Build(in)
			var got []string
			fatal := false
			for _, p := range problems {
				line, warning := 0, ""
				if p.Record >= 0 {
					line = in.Records[p.Record].Line
				}
				if p.Warning {
					warning = "warning: "
				}
				fatal = fatal || !p.Warning
				got = append(got, fmt.Sprintf("%d: %s%s", line, warning, p.Text))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
			if (z == nil) != fatal {
				t.Errorf("zone is made: %t, with an error: %t", z != nil, fatal)
			}
		})
	}
}

func TestCheckSteered(t *testing.T) {
	for _, c := range []struct{ name, text, steered, want string }{
		{"an MX may lead to it", "@ MX 10 www\n", "www", ""},
		{"an NS may lead to it", "@ 3600 NS www\n", "www", ""},
		{"in place of a CNAME", "www CNAME ns1\n", "www", "not used, as the load balancer of this name answers"},
		{"below a delegation", "sub NS ns1\n", "www.sub", "load balancer www.sub.example.com. is below sub.example.com."},
		{"at a delegation", "sub NS ns1\n", "sub", "sub.example.com. is delegated, and a load balancer has the name; keep one"},
		{"below a DNAME", "d DNAME a.org.\n", "www.d", "load balancer www.d.example.com. is below d.example.com."},
	} {
		in := input(t, "example.com", apex+c.text)
		in.Steered = []dnswire.Name{name(t, c.steered+".example.com")}
		_, problems := Build(in)
		switch {
		case c.want == "" && len(problems) > 0, c.want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Text, c.want)):
			t.Errorf("%s: %+v, want %q", c.name, problems, c.want)
		}
	}
}

// A set that no message can carry is refused, and the largest one that a message
// can is not.
func TestSizeOfSets(t *testing.T) {
	text := strings.Repeat("a", 250)
	many := func(n int) string {
		var b strings.Builder
		b.WriteString(apex)
		for i := range n {
			fmt.Fprintf(&b, "big TXT %s%d\n", text, 1000+i)
		}
		return b.String()
	}
	const each = recordHead + 1 + 254
	if z, problems := Build(input(t, "example.com", many(maxSet/each))); z == nil {
		t.Errorf("a set of %d bytes is refused: %v", maxSet/each*each, problems)
	}
	z, problems := Build(input(t, "example.com", many(maxSet/each+1)))
	if z != nil || len(problems) != 1 || !strings.Contains(problems[0].Text, "in one set: no message can carry it") {
		t.Errorf("a set that is too large: %v, %+v", z != nil, problems)
	}
}

// Records that are made of keys cannot be there too, where the zone is signed.
func TestRecordsOfKeys(t *testing.T) {
	const text = apex + "@ CDS 0 0 0 00\n"
	in := input(t, "example.com", text)
	if z, problems := Build(in); z == nil || len(problems) > 0 {
		t.Errorf("not signed: %+v", problems)
	}
	in.Signed = true
	if z, problems := Build(in); z != nil || len(problems) != 1 || problems[0].Record != 3 || !strings.Contains(problems[0].Text, "made of the keys") {
		t.Errorf("signed: %+v", problems)
	}
}
