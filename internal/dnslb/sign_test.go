package dnslb

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"fairlead/internal/dnssec"
)

// testKeys are keys of zones.
type testKeys struct {
	signer *dnssec.Signer
	zones  map[string]*dnssec.Zone
	keys   map[string][]*dns.DNSKEY // what validators know of them
}

func newTestKeys(t testing.TB, o dnssec.Options, names ...string) *testKeys {
	t.Helper()
	k := &testKeys{dnssec.NewSigner(0), make(map[string]*dnssec.Zone), make(map[string][]*dns.DNSKEY)}
	for _, name := range names {
		z, err := k.signer.NewZone(name, o)
		if err != nil {
			t.Fatal(err)
		}
		var pair []*dnssec.Key
		for _, flags := range []uint16{dnssec.FlagsKSK, dnssec.FlagsZSK} {
			key, err := dnssec.GenerateKey(name, flags, dnssec.ECDSAP256SHA256)
			if err != nil {
				t.Fatal(err)
			}
			pair = append(pair, key)
			rr, err := dns.NewRR(name + ". 3600 IN DNSKEY " + key.RecordText())
			if err != nil {
				t.Fatal(err)
			}
			k.keys[name] = append(k.keys[name], rr.(*dns.DNSKEY))
		}
		if err := z.SetKeys(dnssec.Keys{Published: pair, Key: pair[:1], Zone: pair[1:], Announce: pair[:1], TTL: 3600}); err != nil {
			t.Fatal(err)
		}
		k.zones[name] = z
	}
	return k
}

func (k *testKeys) Zone(name string) *dnssec.Zone { return k.zones[name] }
func (k *testKeys) NewWork() *dnssec.Work         { return k.signer.NewWork() }

// unverified returns the sets of a section that no good signature covers.
func (k *testKeys) unverified(section []dns.RR) (list []string) {
	sets := make(map[string][]dns.RR)
	var signatures []*dns.RRSIG
	for _, rr := range section {
		h := rr.Header()
		if s, ok := rr.(*dns.RRSIG); ok {
			signatures = append(signatures, s)
		} else if h.Rrtype != dns.TypeOPT {
			id := strings.ToLower(h.Name) + " " + dns.TypeToString[h.Rrtype]
			sets[id] = append(sets[id], rr)
		}
	}
	for id, set := range sets {
		if !slices.ContainsFunc(signatures, func(s *dns.RRSIG) bool {
			return strings.EqualFold(s.Hdr.Name, set[0].Header().Name) && s.TypeCovered == set[0].Header().Rrtype && s.OrigTtl == set[0].Header().Ttl &&
				slices.ContainsFunc(k.keys[strings.TrimSuffix(s.SignerName, ".")], func(key *dns.DNSKEY) bool { return key.KeyTag() == s.KeyTag && s.Verify(key, set) == nil })
		}) {
			list = append(list, id)
		}
	}
	slices.Sort(list)
	return list
}

// signedText is the zone of most tests, signed, and what load balancers answer.
var signedText = listenerText("") + strings.NewReplacer(
	"nameservers: [ns1.example.com, ns.example.net]\n", "nameservers: [ns1.example.com, ns.example.net]\n    dnssec: true\n",
	"name: child.example.net\n", "name: child.example.net\n    dnssec: true\n").Replace(zoneText) + `
pools: [{name: main, endpoints: [{name: a, address: 192.0.2.7}, {name: b, address: 192.0.2.8}]}, {name: host, endpoints: [{name: h, address: origin.example.org, flatten_cname: false}]}]
load_balancers: [{name: lb.example.com, default_pools: [main]}, {name: "*.lbs.example.com", default_pools: [main]}, {name: cn.example.com, default_pools: [host]}]
`

func signed(name, kind string) *dns.Msg {
	m := query(name, kind)
	m.SetEdns0(4096, true)
	return m
}

// Each set of an answer from a signed zone has a signature that holds, but for what
// is not its own: the servers of delegations, their addresses, and the aliases that
// a DNAME record means. What does not exist is denied by one NSEC record.
func TestSignedAnswers(t *testing.T) {
	keys := newTestKeys(t, dnssec.Options{}, "example.com", "child.example.net")
	r := newSignedResponder(t, signedText, keys)
	for _, c := range []struct {
		name, kind string
		want       string   // of the answer section, by type; then the NSEC record
		unsigned   []string // sets
	}{
		{"www.example.com", "A", "A A RRSIG", nil},
		{"WWW.Example.COM", "AAAA", "AAAA RRSIG", nil},
		{"example.com", "MX", "MX MX RRSIG", nil},
		{"example.com", "SOA", "SOA RRSIG", nil},
		{"example.com", "NS", "NS NS RRSIG", nil},
		{"example.com", "DNSKEY", "DNSKEY DNSKEY RRSIG", nil},
		{"example.com", "CDS", "CDS RRSIG", nil},
		{"example.com", "CDNSKEY", "CDNSKEY RRSIG", nil},
		{"svc.example.com", "HTTPS", "HTTPS RRSIG", nil},
		{"x.y.w.example.com", "A", "A RRSIG", nil},
		{"c.example.com", "A", "CNAME RRSIG A A RRSIG", nil},
		{"x.alias.w.example.com", "AAAA", "CNAME RRSIG AAAA RRSIG", nil},
		{"b.example.com", "A", "CNAME RRSIG; gone.example.com. NSEC \\000.gone.example.com. RRSIG NSEC NXNAME", nil},
		{"x.in.example.com", "A", "DNAME RRSIG CNAME A RRSIG", []string{"x.in.example.com. CNAME"}},
		{"g.example.com", "A", "CNAME RRSIG A", []string{"www.example.net. A"}}, // leads to a zone that is not signed
		{"www.child.example.net", "A", "A RRSIG", nil},
		{"lb.example.com", "A", "A A RRSIG", nil},
		{"x.lbs.example.com", "A", "A A RRSIG", nil},
		{"cn.example.com", "A", "CNAME RRSIG", nil},
		{"www.example.com", "NSEC", "NSEC RRSIG", nil},
		{"www.example.com", "RRSIG", "RRSIG", nil},
		{"www.example.com", "ANY", "AAAA RRSIG", nil},

		{"nope.example.com", "A", "; nope.example.com. NSEC \\000.nope.example.com. RRSIG NSEC NXNAME", nil},
		{"www.example.com", "TXT", "; www.example.com. NSEC \\000.www.example.com. A AAAA RRSIG NSEC", nil},
		{"x.w.example.com", "TXT", "; x.w.example.com. NSEC \\000.x.w.example.com. A MX RRSIG NSEC", nil},
		{"h.i.example.com", "A", "; h.i.example.com. NSEC \\000.h.i.example.com. RRSIG NSEC", nil},
		{"lb.example.com", "AAAA", "; lb.example.com. NSEC \\000.lb.example.com. A RRSIG NSEC", nil},
		{"lb.example.com", "TXT", "; lb.example.com. NSEC \\000.lb.example.com. A AAAA RRSIG NSEC", nil},
		{"example.com", "CAA", "; example.com. NSEC \\000.example.com. NS SOA MX TXT RRSIG NSEC DNSKEY CDS CDNSKEY", nil},
		{"www.example.com", "DNSKEY", "; www.example.com. NSEC \\000.www.example.com. A AAAA RRSIG NSEC", nil},
		{"sub.example.com", "DS", "DS RRSIG", nil},
		{"x.sub.example.com", "A", "", []string{"sub.example.com. NS"}},
		{"www.example.net", "A", "A", []string{"www.example.net. A"}},
	} {
		t.Run(c.name+" "+c.kind, func(t *testing.T) {
			m := ask(t, r, signed(c.name, c.kind), overUDP)
			var types []string
			nsec := ""
			for _, rr := range m.Answer {
				types = append(types, dns.TypeToString[rr.Header().Rrtype])
			}
			for _, rr := range m.Ns {
				if n, ok := rr.(*dns.NSEC); ok {
					nsec = "; " + n.Hdr.Name + " NSEC" + strings.ReplaceAll(strings.TrimPrefix(n.String(), n.Hdr.String()), "TYPE128", "NXNAME")
					nsec = strings.Replace(nsec, "NSEC\\", "NSEC \\", 1)
				}
			}
			if got := strings.Join(types, " ") + nsec; got != c.want {
				t.Errorf("%s, want %s\n%v", got, c.want, m)
			}
			unsigned := append(keys.unverified(m.Answer), keys.unverified(m.Ns)...)
			if c.kind == "RRSIG" {
				unsigned = nil
			}
			if !slices.Equal(unsigned, c.unsigned) {
				t.Errorf("without a good signature: %v, want %v\n%v", unsigned, c.unsigned, m)
			}
			var glue []string
			if c.name == "x.sub.example.com" {
				glue = []string{"ns.sub.example.com. A", "ns.sub.example.com. AAAA"}
			}
			if list := keys.unverified(m.Extra); !slices.Equal(list, glue) || strings.Contains(fmt.Sprint(m.Extra), "ns.sub.example.com.\t300\tIN\tRRSIG") {
				t.Errorf("additional section, without a good signature: %v, want %v\n%v", list, glue, m)
			}
			if m.AuthenticatedData || m.Rcode != dns.RcodeSuccess || m.Truncated || !m.IsEdns0().Do() {
				t.Errorf("AD %t, rcode %d, TC %t, DO %t", m.AuthenticatedData, m.Rcode, m.Truncated, m.IsEdns0().Do())
			}
		})
	}
}

// Who does not ask for signatures gets what unsigned zones give.
func TestUnsignedAnswersOfSignedZone(t *testing.T) {
	keys := newTestKeys(t, dnssec.Options{}, "example.com", "child.example.net")
	with := newSignedResponder(t, signedText, keys)
	without := newResponder(t, strings.ReplaceAll(signedText, "dnssec: true", "dnssec: false"))
	for _, c := range [][2]string{{"www.example.com", "A"}, {"nope.example.com", "A"}, {"www.example.com", "TXT"}, {"x.sub.example.com", "A"}, {"x.in.example.com", "A"}, {"lb.example.com", "TXT"}, {"sub.example.com", "DS"}} {
		if got, want := shown(ask(t, with, query(c[0], c[1]), overUDP)), shown(ask(t, without, query(c[0], c[1]), overUDP)); got != want {
			t.Errorf("%v: %s\nwant %s", c, got, want)
		}
	}
	// But the keys are there for all.
	if m := ask(t, with, query("example.com", "DNSKEY"), overUDP); len(m.Answer) != 2 {
		t.Error(m)
	}
}

// A name that does not exist is NXDOMAIN for whoever says that it understands
// compact answers, which the answer says too.
func TestCompactAnswersOK(t *testing.T) {
	r := newSignedResponder(t, signedText, newTestKeys(t, dnssec.Options{}, "example.com", "child.example.net"))
	q := signed("nope.example.com", "A")
	q.IsEdns0().Hdr.Ttl |= dnssec.FlagCO
	q.CheckingDisabled = true
	m := ask(t, r, q, overUDP)
	if m.Rcode != dns.RcodeNameError || m.IsEdns0().Hdr.Ttl&dnssec.FlagCO == 0 || !m.CheckingDisabled || len(m.Ns) != 4 {
		t.Error(m)
	}
}

// A referral to a signed zone has its DS records, one to another that there are
// none.
func TestSignedReferral(t *testing.T) {
	keys := newTestKeys(t, dnssec.Options{}, "example.com", "child.example.net")
	r := newSignedResponder(t, strings.Replace(signedText, "      - {name: old,", "      - {name: bare, type: NS, content: ns.example.net.}\n      - {name: old,", 1), keys)
	for name, want := range map[string]string{"x.sub.example.com": "NS NS DS RRSIG", "x.bare.example.com": "NS NSEC RRSIG"} {
		m := ask(t, r, signed(name, "A"), overUDP)
		var types []string
		for _, rr := range m.Ns {
			types = append(types, dns.TypeToString[rr.Header().Rrtype])
			if n, ok := rr.(*dns.NSEC); ok && (n.NextDomain != `bare\000.example.com.` || fmt.Sprint(n.TypeBitMap) != "[2 46 47]") {
				t.Errorf("%s: %v", name, n)
			}
		}
		if got := strings.Join(types, " "); got != want || m.Authoritative {
			t.Errorf("%s: %s, want %s\n%v", name, got, want, m)
		}
	}
}

// A set that has no room with its signatures is left out whole, and truncates.
func TestSignedTruncation(t *testing.T) {
	keys := newTestKeys(t, dnssec.Options{}, "example.com", "child.example.net")
	r := newSignedResponder(t, signedText, keys)
	for size := uint16(512); size < 800; size += 3 {
		for _, c := range [][2]string{{"example.com", "DNSKEY"}, {"c.example.com", "A"}, {"nope.example.com", "A"}, {"example.com", "MX"}, {strings.Repeat("x.", 90) + "example.com", "A"}} {
			q := query(c[0], c[1])
			q.SetEdns0(size, true)
			b, err := q.Pack()
			if err != nil {
				t.Fatal(err)
			}
			if n := len(r.respond(asker{client, overUDP}, b, nil)); n > int(size) {
				t.Errorf("%v: %d bytes, of %d", c, n, size)
			}
			m := ask(t, r, q, overUDP)
			if list := append(keys.unverified(m.Answer), keys.unverified(m.Ns)...); len(list) > 0 {
				t.Errorf("%v in %d bytes: without signature: %v", c, size, list)
			}
			if whole := ask(t, r, q, overTCP); !m.Truncated && len(m.Answer)+len(m.Ns) != len(whole.Answer)+len(whole.Ns) {
				t.Errorf("%v in %d bytes: not truncated, and\n%v", c, size, m)
			}
		}
	}
}

// Beyond the limit of new signatures answers over UDP ask to come over TCP, where
// they fail; what is signed already goes on.
func TestSignatureLimit(t *testing.T) {
	keys := newTestKeys(t, dnssec.Options{Limit: 10}, "example.com", "child.example.net")
	r := newSignedResponder(t, signedText, keys)
	ask(t, r, signed("www.example.com", "A"), overUDP)
	truncated := 0
	for i := range 40 {
		m := ask(t, r, signed(fmt.Sprintf("x%d.example.com", i), "A"), overUDP)
		if m.Truncated {
			truncated++
			if len(m.Answer)+len(m.Ns) > 0 || m.Rcode != dns.RcodeSuccess {
				t.Fatal(m)
			}
		}
	}
	if truncated < 25 || truncated > 35 {
		t.Errorf("%d of 40 truncated, want about 30", truncated)
	}
	if m := ask(t, r, signed("again.example.com", "A"), overTCP); m.Rcode != dns.RcodeServerFailure || len(m.Ns) > 0 {
		t.Error(m)
	}
	if m := ask(t, r, signed("www.example.com", "A"), overUDP); m.Truncated || len(m.Answer) != 3 {
		t.Error(m)
	}
}

// A plan with a signed zone that has no keys is refused: its answers would be taken
// for forged.
func TestSignedZoneWithoutKeys(t *testing.T) {
	r := newResponder(t, listenerText("")+zoneText)
	if err := r.ln.plane.Apply(compile(t, signedText, nil), nil); err == nil || !strings.Contains(err.Error(), "no DNSSEC keys") {
		t.Error(err)
	}
}

// Signed answers from the cache allocate nothing.
func TestSignedQueryAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	r := newSignedResponder(t, signedText, newTestKeys(t, dnssec.Options{}, "example.com", "child.example.net"))
	out := make([]byte, 0, 4096)
	for _, c := range [][2]string{{"www.example.com", "A"}, {"lb.example.com", "A"}, {"nope.example.com", "A"}, {"www.example.com", "TXT"}, {"x.sub.example.com", "A"}, {"c.example.com", "A"}, {"example.com", "MX"}, {"example.com", "DNSKEY"}} {
		b, err := signed(c[0], c[1]).Pack()
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { r.respond(asker{client, overUDP}, b, out) }); n != 0 {
			t.Errorf("%v: %v allocations", c, n)
		}
	}
}

// BenchmarkSigned answers as signed zones do when the signatures are known, beside
// the same without DO.
func BenchmarkSigned(b *testing.B) {
	r := newSignedResponder(b, signedText, newTestKeys(b, dnssec.Options{}, "example.com", "child.example.net"))
	out := make([]byte, 0, 4096)
	for _, c := range [][2]string{{"www.example.com", "A"}, {"lb.example.com", "A"}, {"nope.example.com", "A"}} {
		for _, do := range []bool{false, true} {
			q := query(c[0], c[1])
			q.SetEdns0(1232, do)
			m, err := q.Pack()
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/do=%t", c[0], do), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					r.respond(asker{client, overUDP}, m, out)
				}
			})
		}
	}
}

// Names that are made up count together where the denial is NOERROR as well.
func TestCompactDenialIsLimited(t *testing.T) {
	text := strings.Replace(signedText, listenerText(""), listenerText("dns: {rate_limit: {responses_per_second: 1, slip: 2}}"), 1)
	r := newSignedResponder(t, text, newTestKeys(t, dnssec.Options{}, "example.com", "child.example.net"))
	ask(t, r, signed("x.example.com", "A"), overUDP)
	for i := range 10 {
		if m := ask(t, r, signed(fmt.Sprintf("x%d.example.com", i), "A"), overUDP); m != nil && !m.Truncated {
			t.Fatalf("not limited: %v", m)
		}
	}
	if m := ask(t, r, signed("www.example.com", "A"), overUDP); m == nil || len(m.Answer) != 3 {
		t.Errorf("what exists is limited with it: %v", m)
	}
}
