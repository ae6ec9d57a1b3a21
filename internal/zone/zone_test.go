package zone

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"fairlead/internal/dnswire"
)

// name makes a name of its text.
func name(t testing.TB, text string) dnswire.Name {
	t.Helper()
	n, err := dnswire.ParseName(text, dnswire.Root)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

// input reads a zone file.
func input(t testing.TB, origin, text string) Input {
	t.Helper()
	in := Input{Origin: name(t, origin)}
	records, errs := dnswire.ParseZone([]byte(text), in.Origin)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	in.Records = records
	return in
}

// build makes a zone in which nothing is wrong.
func build(t testing.TB, origin, text string) *Zone {
	t.Helper()
	z, problems := Build(input(t, origin, text))
	for _, p := range problems {
		t.Errorf("%+v", p)
	}
	if z == nil {
		t.Fatal("no zone")
	}
	return z
}

const apex = `
$TTL 300
@ 3600 SOA ns1 hostmaster 1 3600 900 1209600 60
@ 3600 NS ns1
ns1 A 192.0.2.53
`

const names = apex + `
www A 192.0.2.1
www AAAA 2001:db8::1
alias CNAME www
* A 192.0.2.99
*.wild TXT "x"
real.deeper A 192.0.2.54
sub NS ns.sub
sub DS 1 13 2 ` + "abababababababababababababababababababababababababababababababab" + `
ns.sub A 192.0.2.60
old DNAME new.example.org.
a.b.c.d.e.f.g TXT "deep"
`

func TestLookup(t *testing.T) {
	z := build(t, "example.com", names)
	for _, c := range []struct {
		query string
		kind  dnswire.Type
		want  Kind
		node  string
	}{
		{"example.com", dnswire.TypeSOA, Exact, "example.com."},
		{"WWW.Example.COM", dnswire.TypeA, Exact, "www.example.com."},
		{"alias.example.com", dnswire.TypeA, Exact, "alias.example.com."},
		{"x.example.com", dnswire.TypeA, Wildcard, "*.example.com."},
		{"x.y.example.com", dnswire.TypeA, Wildcard, "*.example.com."},
		{"*.example.com", dnswire.TypeA, Exact, "*.example.com."},
		// RFC 4592: only the wildcard of the closest name that exists.
		{"deeper.example.com", dnswire.TypeA, Exact, "deeper.example.com."},
		{"nope.deeper.example.com", dnswire.TypeA, Missing, "deeper.example.com."},
		{"x.real.deeper.example.com", dnswire.TypeA, Missing, "real.deeper.example.com."},
		{"x.www.example.com", dnswire.TypeA, Missing, "www.example.com."},
		{"x.*.example.com", dnswire.TypeA, Missing, "*.example.com."},
		{"wild.example.com", dnswire.TypeTXT, Exact, "wild.example.com."},
		{"a.wild.example.com", dnswire.TypeA, Wildcard, "*.wild.example.com."},
		{"a.b.wild.example.com", dnswire.TypeA, Wildcard, "*.wild.example.com."},
		{"d.e.f.g.example.com", dnswire.TypeA, Exact, "d.e.f.g.example.com."},
		{"x.d.e.f.g.example.com", dnswire.TypeA, Missing, "d.e.f.g.example.com."},
		{"1.2.3.4.5.6.7.8.9.d.e.f.g.example.com", dnswire.TypeA, Missing, "d.e.f.g.example.com."},
		{"sub.example.com", dnswire.TypeA, Delegated, "sub.example.com."},
		{"sub.example.com", dnswire.TypeNS, Delegated, "sub.example.com."},
		{"sub.example.com", dnswire.TypeDS, Exact, "sub.example.com."},
		{"ns.sub.example.com", dnswire.TypeA, Delegated, "sub.example.com."},
		{"x.sub.example.com", dnswire.TypeDS, Delegated, "sub.example.com."},
		{"old.example.com", dnswire.TypeDNAME, Exact, "old.example.com."},
		{"x.y.old.example.com", dnswire.TypeA, Redirected, "old.example.com."},
	} {
		var k dnswire.Key
		k.SetName(name(t, c.query))
		got := z.Lookup(&k, c.kind)
		if got.Kind != c.want || got.Node.Name.String() != c.node {
			t.Errorf("Lookup(%s, %s) = %v %s, want %v %s", c.query, c.kind, got.Kind, got.Node.Name, c.want, c.node)
		}
	}
	var k dnswire.Key
	k.SetName(name(t, "1.2.3.4.x.d.e.f.g.example.com"))
	if n := testing.AllocsPerRun(100, func() { z.Lookup(&k, dnswire.TypeA) }); n != 0 {
		t.Errorf("%v allocations for a look-up", n)
	}
}

// Closest ancestors are found by bisection: it is compared with the plain way, in
// zones and for names that are made up.
func TestLookupAgainstPlainWalk(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	made := func() string {
		var labels []string
		for range 1 + r.IntN(6) {
			labels = append(labels, []string{"a", "b", "*", "c"}[r.IntN(4)])
		}
		return strings.Join(labels, ".")
	}
	for range 200 {
		text := apex
		for range r.IntN(8) {
			text += made() + " A 192.0.2.1\n"
		}
		z, _ := Build(input(t, "example.com", text))
		exists := make(map[string]bool)
		for n := range z.Nodes() {
			exists[n.Name.String()] = true
		}
		for range 50 {
			query := name(t, made()+".example.com.")
			var k dnswire.Key
			k.SetName(query)
			got := z.Lookup(&k, dnswire.TypeA)
			encloser := query
			for !exists[encloser.String()] {
				encloser = encloser.Parent()
			}
			want := Match{Exact, z.Find(encloser)}
			if encloser != query {
				want.Kind = Missing
				if w := z.Find("\x01*" + encloser); w != nil {
					want = Match{Wildcard, w}
				}
			}
			if got != want {
				t.Fatalf("zone\n%s\nLookup(%s) = %v %s, want %v %s", text, query, got.Kind, got.Node.Name, want.Kind, want.Node.Name)
			}
		}
	}
}

func TestZones(t *testing.T) {
	soa := "$TTL 1\n@ SOA ns.invalid. host 1 2 3 4 5\n@ NS ns.invalid.\n"
	all := []*Zone{build(t, "example.com", soa), build(t, "sub.example.com", soa), build(t, "example.org", soa)}
	s := NewZones(all)
	for _, c := range []struct {
		query string
		kind  dnswire.Type
		want  int
	}{
		{"example.com", dnswire.TypeA, 0},
		{"a.b.Example.com", dnswire.TypeA, 0},
		{"sub.example.com", dnswire.TypeA, 1},
		{"x.sub.example.com", dnswire.TypeA, 1},
		{"sub.example.com", dnswire.TypeDS, 0}, // what a parent says
		{"x.sub.example.com", dnswire.TypeDS, 1},
		{"example.com", dnswire.TypeDS, 0}, // the parent is somebody else's
		{"example.org", dnswire.TypeA, 2},
		{"com", dnswire.TypeA, -1},
		{"anexample.com", dnswire.TypeA, -1},
		{".", dnswire.TypeNS, -1},
	} {
		var k dnswire.Key
		k.SetName(name(t, c.query))
		if got := s.Find(&k, c.kind); got != c.want {
			t.Errorf("Find(%s, %s) = %d, want %d", c.query, c.kind, got, c.want)
		}
	}
	root := NewZones([]*Zone{build(t, ".", soa+"ns.invalid. A 192.0.2.53\n")})
	var k dnswire.Key
	k.SetName(name(t, "a.example.com"))
	if got := root.Find(&k, dnswire.TypeA); got != 0 {
		t.Errorf("the root zone does not answer: %d", got)
	}
	if got := NewZones(nil).Find(&k, dnswire.TypeA); got != -1 {
		t.Errorf("no zone answers: %d", got)
	}
}

// unpack reads a message that consists of a question and one set.
func unpack(t *testing.T, question string, s *Set, owner, origin int) []dns.RR {
	t.Helper()
	q := name(t, question)
	msg := append([]byte{0, 1, 0x84, 0, 0, 1, 0, byte(s.Count), 0, 0, 0, 0}, q...)
	msg = append(msg, byte(s.Type>>8), byte(s.Type), 0, 1)
	before := len(msg)
	msg = s.AppendTo(msg, owner, origin)
	if len(msg)-before != s.Size() {
		t.Errorf("%d bytes were appended, Size() says %d", len(msg)-before, s.Size())
	}
	var m dns.Msg
	if err := m.Unpack(msg); err != nil {
		t.Fatalf("%s %s: %v", question, s.Type, err)
	}
	return m.Answer
}

func TestAppendTo(t *testing.T) {
	z := build(t, "example.com", apex+`
mail MX 10 a.mx
mail MX 20 b.example.net.
mail MX 30 @
@ AAAA 2001:db8::1
a.mx A 192.0.2.7
srv SRV 1 2 443 ns1
soa.x NS n.soa.x
n.soa.x A 192.0.2.8
q NAPTR 1 2 "u" "sip" "!x!" ns1
`)
	for _, c := range []struct {
		question, node string
		kind           dnswire.Type
		owner, origin  int
		want           []string
	}{
		{"mail.Example.com.", "mail.example.com.", dnswire.TypeMX, 12, 17, []string{
			"mail.Example.com. 300 IN MX 10 a.mx.Example.com.",
			"mail.Example.com. 300 IN MX 20 b.example.net.",
			"mail.Example.com. 300 IN MX 30 Example.com.",
		}},
		{"srv.example.com.", "srv.example.com.", dnswire.TypeSRV, 12, 16, []string{"srv.example.com. 300 IN SRV 1 2 443 ns1.example.com."}},
		{"q.example.com.", "q.example.com.", dnswire.TypeNAPTR, 12, 14, []string{`q.example.com. 300 IN NAPTR 1 2 "u" "sip" "!x!" ns1.example.com.`}},
		// The apex of a name that is below it: owner and origin are the same.
		{"nope.example.com.", "example.com.", dnswire.TypeSOA, 17, 17, []string{"example.com. 3600 IN SOA ns1.example.com. hostmaster.example.com. 1 3600 900 1209600 60"}},
	} {
		s := z.Find(name(t, c.node)).Set(c.kind)
		var got []string
		for _, rr := range unpack(t, c.question, s, c.owner, c.origin) {
			got = append(got, strings.Join(strings.Fields(rr.String()), " "))
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s %s:\n%s\nwant\n%s", c.question, c.kind, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
	mx := z.Find(name(t, "mail.example.com")).Set(dnswire.TypeMX)
	if len(mx.Targets) != 2 || mx.Targets[0].Node.Name.String() != "a.mx.example.com." || mx.Targets[1].Node != z.Apex() {
		t.Errorf("targets of MX: %+v, want those in the zone", mx.Targets)
	}
	if negative := z.Negative(); negative.TTL != 60 {
		t.Errorf("denials have TTL %d, want the SOA's minimum", negative.TTL)
	} else if rr := unpack(t, "x.example.com.", negative, 14, 14)[0]; rr.Header().Ttl != 60 {
		t.Errorf("denials carry TTL %d", rr.Header().Ttl)
	}
	b := make([]byte, 12, 1024)
	if n := testing.AllocsPerRun(100, func() { mx.AppendTo(b, 12, 17) }); n != 0 {
		t.Errorf("%v allocations for a set", n)
	}
}

// What is laid out can be read back: transfers and signatures are made of it.
func TestData(t *testing.T) {
	in := input(t, "example.com", names+"mail MX 10 www\nmail MX 20 x.example.org.\n")
	z, problems := Build(in)
	if z == nil {
		t.Fatal(problems)
	}
	want := make(map[string]int)
	for _, r := range in.Records {
		want[r.Owner.Lower().String()+" "+r.Type.String()+" "+dnswire.RDataText(r.Type, r.Data)]++
	}
	got := 0
	for n := range z.Nodes() {
		for _, s := range n.Sets() {
			for data := range z.Data(s) {
				line := n.Name.String() + " " + s.Type.String() + " " + dnswire.RDataText(s.Type, data)
				if want[line] != 1 {
					t.Errorf("%s is not in the zone file", line)
				}
				got++
			}
		}
	}
	if got != len(in.Records) || z.Records != got {
		t.Errorf("%d records, of %d; Records = %d", got, len(in.Records), z.Records)
	}
	for data := range z.Data(z.Find(name(t, "mail.example.com")).Set(dnswire.TypeMX)) {
		_ = data
		break // a reader may end early
	}
}

func TestSteeredNames(t *testing.T) {
	in := input(t, "example.com", apex+"@ MX 10 mail\nmail A 192.0.2.9\nwww A 192.0.2.1\nwww TXT \"x\"\n")
	in.Steered = []dnswire.Name{name(t, "www.example.com"), name(t, "example.com"), name(t, "*.app.example.com")}
	z, problems := Build(in)
	if z == nil {
		t.Fatal(problems)
	}
	if len(problems) != 1 || !problems[0].Warning || !strings.Contains(problems[0].Text, "www.example.com. A: not used") {
		t.Errorf("problems: %+v", problems)
	}
	for text, want := range map[string]int{"www.example.com": 1, "example.com": 2, "*.app.example.com": 3, "mail.example.com": 0, "app.example.com": 0} {
		if n := z.Find(name(t, text)); n == nil || n.Steered != want {
			t.Errorf("%s: %+v, want number %d", text, n, want)
		}
	}
	if n := z.Find(name(t, "www.example.com")); n.Set(dnswire.TypeA) != nil || n.Set(dnswire.TypeTXT) == nil {
		t.Error("a steered name keeps its own addresses, or loses what stands beside")
	}
	var k dnswire.Key
	k.SetName(name(t, "x.app.example.com"))
	if m := z.Lookup(&k, dnswire.TypeA); m.Kind != Wildcard || m.Node.Steered != 3 {
		t.Errorf("Lookup below a steered wildcard = %+v", m)
	}
}
