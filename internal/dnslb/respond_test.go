package dnslb

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

func TestAnswers(t *testing.T) {
	const soa = "\nauthority: example.com. SOA ttl 60"
	r := newResponder(t, listenerText("")+zoneText)
	for _, c := range []struct{ name, kind, want string }{
		{"www.example.com", "A", "NOERROR aa\nanswer: www.example.com. A 192.0.2.1\nanswer: www.example.com. A 192.0.2.2"},
		{"www.example.com", "AAAA", "NOERROR aa\nanswer: www.example.com. AAAA 2001:db8::1"},
		{"WwW.ExamPLE.com", "AAAA", "NOERROR aa\nanswer: WwW.ExamPLE.com. AAAA 2001:db8::1"},
		{"www.example.com", "TXT", "NOERROR aa" + soa},
		{"nope.example.com", "A", "NXDOMAIN aa" + soa},
		{"a.nope.example.com", "MX", "NXDOMAIN aa" + soa},
		{"x.www.example.com", "A", "NXDOMAIN aa" + soa},
		{"example.com", "SOA", "NOERROR aa\nanswer: example.com. SOA ttl 3600"},
		{"example.com", "NS", "NOERROR aa\nanswer: example.com. NS ns.example.net.\nanswer: example.com. NS ns1.example.com.\nadditional: ns1.example.com. A 192.0.2.53"},
		{"example.com", "MX", "NOERROR aa\nanswer: example.com. MX 10 mail.example.com.\nanswer: example.com. MX 20 mail.example.net." +
			"\nadditional: mail.example.com. A 192.0.2.25\nadditional: mail.example.com. AAAA 2001:db8::25"},
		{"example.com", "TXT", `NOERROR aa` + "\n" + `answer: example.com. TXT "v=spf1 -all"`},
		{"_sip._tcp.example.com", "SRV", "NOERROR aa\nanswer: _sip._tcp.example.com. SRV 10 5 5060 mail.example.com.\nadditional: mail.example.com. A 192.0.2.25\nadditional: mail.example.com. AAAA 2001:db8::25"},
		{"svc.example.com", "HTTPS", "NOERROR aa\n" + `answer: svc.example.com. HTTPS 1 www.example.com. alpn="h2"` +
			"\nadditional: www.example.com. A 192.0.2.1\nadditional: www.example.com. A 192.0.2.2\nadditional: www.example.com. AAAA 2001:db8::1"},
		{"phone.example.com", "NAPTR", "NOERROR aa\n" + `answer: phone.example.com. NAPTR 100 10 "u" "E2U+sip" "!^.*$!sip:info@example.com!" .`},
		{"odd.example.com", "TYPE65280", "NOERROR aa\n" + `answer: odd.example.com. TYPE65280 \# 3 010203`},
		// Names that only have something below them.
		{"h.i.example.com", "A", "NOERROR aa" + soa},
		{"i.example.com", "CAA", "NOERROR aa" + soa},
		{"x.i.example.com", "CAA", "NXDOMAIN aa" + soa},
		// ANY (RFC 8482): one set.
		{"mail.example.com", "ANY", "NOERROR aa\nanswer: mail.example.com. A 192.0.2.25"},
		{"i.example.com", "ANY", "NOERROR aa" + soa},
		{"c.example.com", "ANY", "NOERROR aa\nanswer: c.example.com. CNAME www.example.com."},
		// Types that nothing has, and some that no longer mean anything.
		{"www.example.com", "CAA", "NOERROR aa" + soa},
		{"www.example.com", "HTTPS", "NOERROR aa" + soa},
		{"www.example.com", "DS", "NOERROR aa" + soa},
		{"www.example.com", "NSEC", "NOERROR aa" + soa},
		{"www.example.com", "RRSIG", "NOERROR aa" + soa},
		{"www.example.com", "NULL", "NOERROR aa" + soa},
		{"www.example.com", "TYPE12345", "NOERROR aa" + soa},

		// Wildcards (RFC 4592).
		{"x.w.example.com", "A", "NOERROR aa\nanswer: x.w.example.com. A 192.0.2.53"},
		{"x.y.w.example.com", "A", "NOERROR aa\nanswer: x.y.w.example.com. A 192.0.2.53"},
		{"X.Y.w.example.com", "MX", "NOERROR aa\nanswer: X.Y.w.example.com. MX 10 mail.example.com.\nadditional: mail.example.com. A 192.0.2.25\nadditional: mail.example.com. AAAA 2001:db8::25"},
		{"w.example.com", "A", "NOERROR aa" + soa},
		{"deeper.w.example.com", "A", "NOERROR aa" + soa},
		{"nope.deeper.w.example.com", "A", "NXDOMAIN aa" + soa},
		{"x.real.deeper.w.example.com", "A", "NXDOMAIN aa" + soa},
		{"*.w.example.com", "A", "NOERROR aa\nanswer: *.w.example.com. A 192.0.2.53"},
		{"x.*.w.example.com", "A", "NXDOMAIN aa" + soa},
		{"x.w.example.com", "TXT", "NOERROR aa" + soa},
		{"q.alias.w.example.com", "AAAA", "NOERROR aa\nanswer: q.alias.w.example.com. CNAME www.example.com.\nanswer: www.example.com. AAAA 2001:db8::1"},

		// Aliases: the result is that of the last name.
		{"a.example.com", "A", "NXDOMAIN aa\nanswer: a.example.com. CNAME b.example.com.\nanswer: b.example.com. CNAME gone.example.com." + soa},
		{"a.example.com", "CNAME", "NOERROR aa\nanswer: a.example.com. CNAME b.example.com."},
		{"c.example.com", "AAAA", "NOERROR aa\nanswer: c.example.com. CNAME www.example.com.\nanswer: www.example.com. AAAA 2001:db8::1"},
		{"c.example.com", "TXT", "NOERROR aa\nanswer: c.example.com. CNAME www.example.com." + soa},
		{"d.example.com", "SOA", "NOERROR aa\nanswer: d.example.com. CNAME example.com.\nanswer: example.com. SOA ttl 3600"},
		{"e.example.com", "A", "NOERROR aa\nanswer: e.example.com. CNAME out.example.org."},
		{"f.example.com", "A", "NOERROR aa\nanswer: f.example.com. CNAME x.sub.example.com.\nauthority: sub.example.com. NS ns.sub.example.com.\nauthority: sub.example.com. NS ns1.example.com." +
			"\nadditional: ns.sub.example.com. A 192.0.2.60\nadditional: ns.sub.example.com. AAAA 2001:db8::60\nadditional: ns1.example.com. A 192.0.2.53"},
		{"g.example.com", "A", "NOERROR aa\nanswer: g.example.com. CNAME WWW.Example.NET.\nanswer: WWW.Example.NET. A 192.0.2.80"},
		{"g.example.com", "TXT", "NOERROR aa\nanswer: g.example.com. CNAME WWW.Example.NET.\nauthority: Example.NET. SOA ttl 300"},
		{"h.example.com", "TXT", "NOERROR aa\nanswer: h.example.com. CNAME x.real.wild.example.com.\n" + `answer: x.real.wild.example.com. TXT "wild"`},

		// Delegations.
		{"sub.example.com", "A", "NOERROR\nauthority: sub.example.com. NS ns.sub.example.com.\nauthority: sub.example.com. NS ns1.example.com." +
			"\nadditional: ns.sub.example.com. A 192.0.2.60\nadditional: ns.sub.example.com. AAAA 2001:db8::60\nadditional: ns1.example.com. A 192.0.2.53"},
		{"x.y.Sub.example.com", "DS", "NOERROR\nauthority: Sub.example.com. NS ns.sub.example.com.\nauthority: Sub.example.com. NS ns1.example.com." +
			"\nadditional: ns.sub.example.com. A 192.0.2.60\nadditional: ns.sub.example.com. AAAA 2001:db8::60\nadditional: ns1.example.com. A 192.0.2.53"},
		{"sub.example.com", "DS", "NOERROR aa\nanswer: sub.example.com. DS 60485 13 2 D4B7D520E7BB5F0F67674A0CCEB1E3E0614B93C4F9E99B8383F6A1E4469DA50A"},

		// DNAME (RFC 6672).
		{"www.old.example.com", "A", "NOERROR aa\nanswer: old.example.com. DNAME new.example.net.\nanswer: www.old.example.com. CNAME www.new.example.net.\nanswer: www.new.example.net. A 192.0.2.81"},
		{"no.old.example.com", "A", "NXDOMAIN aa\nanswer: old.example.com. DNAME new.example.net.\nanswer: no.old.example.com. CNAME no.new.example.net.\nauthority: example.net. SOA ttl 300"},
		{"www.old.example.com", "CNAME", "NOERROR aa\nanswer: old.example.com. DNAME new.example.net.\nanswer: www.old.example.com. CNAME www.new.example.net."},
		{"x.in.example.com", "A", "NOERROR aa\nanswer: in.example.com. DNAME w.example.com.\nanswer: x.in.example.com. CNAME x.w.example.com.\nanswer: x.w.example.com. A 192.0.2.53"},
		{"old.example.com", "DNAME", "NOERROR aa\nanswer: old.example.com. DNAME new.example.net."},
		{"old.example.com", "A", "NOERROR aa" + soa},
		{"xxxxxxxxxxxxxxxxxxxxxxxxxx.far.example.com", "A", "YXDOMAIN aa\nanswer: far.example.com. DNAME " + longName},

		// Zones below zones.
		{"www.child.example.net", "A", "NOERROR aa\nanswer: www.child.example.net. A 192.0.2.82"},
		{"child.example.net", "DS", "NXDOMAIN aa\nauthority: example.net. SOA ttl 300"},
		{"x.child.example.net", "DS", "NXDOMAIN aa\nauthority: child.example.net. SOA ttl 300"},
		{"up.child.example.net", "DS", "NOERROR aa\nanswer: up.child.example.net. CNAME child.example.net."},
		{"up.child.example.net", "TXT", "NOERROR aa\nanswer: up.child.example.net. CNAME child.example.net.\nauthority: child.example.net. SOA ttl 300"},

		// Not ours.
		{"example.org", "A", "REFUSED"},
		{"com", "NS", "REFUSED"},
		{".", "NS", "REFUSED"},
		{"example.com", "AXFR", "REFUSED"},
		{"example.com", "MAILB", "NOTIMP"},
		{"example.com", "TYPE0", "FORMERR"},
		{"example.com", "OPT", "FORMERR"},
		{"example.com", "TYPE128", "FORMERR"},
	} {
		t.Run(c.name+" "+c.kind, func(t *testing.T) {
			for _, over := range []transport{overUDP, overTCP} {
				m := query(c.name, c.kind)
				m.SetEdns0(4096, false)
				got := ask(t, r, m, over)
				if shown(got) != c.want {
					t.Errorf("over %v:\n%s\nwant\n%s", over, shown(got), c.want)
				}
				if !got.Response || got.Id != m.Id || got.RecursionAvailable || len(got.Question) != 1 || got.Question[0] != m.Question[0] {
					t.Errorf("header and question: %v", got)
				}
			}
		})
	}
}

// TestMessages: what is not a plain question, by its bytes.
func TestMessages(t *testing.T) {
	const question = " 03 777777 07 6578616d706c65 03 636f6d 00"
	r := newResponder(t, listenerText("dns: {nsid: here}")+zoneText)
	for _, c := range []struct{ name, msg, want string }{
		{"an answer", "1234 8000 0001 0000 0000 0000" + question + "0001 0001", "nothing"},
		{"half a header", "1234 0000 0001", "nothing"},
		{"two questions", "1234 0000 0002 0000 0000 0000" + question + "0001 0001" + question + "001c 0001", "FORMERR"},
		{"no question", "1234 0000 0000 0000 0000 0000", "FORMERR"},
		{"bytes behind", "1234 0000 0001 0000 0000 0000" + question + "0001 0001 00", "FORMERR"},
		{"IQUERY", "1234 0800 0001 0000 0000 0000" + question + "0001 0001", "NOTIMP"},
		{"STATUS", "1234 1000 0000 0000 0000 0000", "NOTIMP"},
		{"UPDATE", "1234 2800 0001 0000 0000 0000" + question + "0006 0001", "NOTIMP"},
		{"NOTIFY", "1234 2000 0001 0000 0000 0000" + question + "0006 0001", "REFUSED"},
		{"class HESIOD", "1234 0000 0001 0000 0000 0000" + question + "0001 0004", "REFUSED"},
		{"class ANY", "1234 0000 0001 0000 0000 0000" + question + "0001 00ff", "REFUSED"},
		{"EDNS version 1", "1234 0000 0001 0000 0000 0001" + question + "0001 0001 00 0029 04d0 00 01 0000 0000", "BADVERS"},
		{"TSIG", "1234 0000 0001 0000 0000 0001" + question + "0001 0001 00 00fa 00ff 00000000 0011 00 000000000000 012c 0000 1234 0000 0000", "NOTAUTH"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := unhex(t, c.msg)
			got := askRaw(t, r, b, overUDP)
			if shown(got) != c.want {
				t.Errorf("%s, want %s", shown(got), c.want)
			}
			if got != nil && (got.Id != 0x1234 || !got.Response || got.Opcode != int(b[2]>>3&15)) {
				t.Errorf("header: %+v", got.MsgHdr)
			}
		})
	}
	if out := r.respond(asker{client, overUDP}, unhex(t, "1234 0110 0001 0000 0000 0000"+question+"0001 0001"), nil); out[2] != 0x85 || out[3] != 0x10 {
		t.Errorf("flags % x, want QR, AA, RD and CD", out[2:4])
	}
	spoofed := client
	if out := r.respond(asker{netipPort(spoofed, 0), overUDP}, unhex(t, "1234 0000 0001 0000 0000 0000"+question+"0001 0001"), nil); len(out) > 0 {
		t.Error("port 0 is answered")
	}
}

func TestEDNS(t *testing.T) {
	r := newResponder(t, listenerText(`dns: {nsid: ams1.example.com, udp_size: 1400}`)+zoneText)
	plain := ask(t, r, query("www.example.com", "A"), overUDP)
	if plain.IsEdns0() != nil {
		t.Error("OPT is sent to a client that has none")
	}
	m := query("www.example.com", "A")
	m.SetEdns0(1232, true)
	o := m.IsEdns0()
	o.Option = append(o.Option, &dns.EDNS0_NSID{Code: dns.EDNS0NSID},
		&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: client.Addr().AsSlice()},
		&dns.EDNS0_TCP_KEEPALIVE{Code: dns.EDNS0TCPKEEPALIVE}, &dns.EDNS0_PADDING{Padding: make([]byte, 5)})
	for over, want := range map[transport]string{
		overUDP: "NSID: 616d73312e6578616d706c652e636f6d SUBNET: 198.51.100.0/24/0",
		overTCP: "NSID: 616d73312e6578616d706c652e636f6d SUBNET: 198.51.100.0/24/0 KEEPALIVE 750",
		overTLS: "NSID: 616d73312e6578616d706c652e636f6d SUBNET: 198.51.100.0/24/0 KEEPALIVE 750 PADDING",
	} {
		b, _ := m.Pack()
		out := r.respond(asker{client, over}, b, nil)
		var got dns.Msg
		if err := got.Unpack(out); err != nil {
			t.Fatal(err)
		}
		opt := got.IsEdns0()
		if opt == nil || opt.UDPSize() != 1400 || !opt.Do() || opt.Version() != 0 {
			t.Fatalf("%v: OPT %v", over, opt)
		}
		var list []string
		for _, option := range opt.Option {
			switch e := option.(type) {
			case *dns.EDNS0_NSID:
				list = append(list, "NSID: "+e.Nsid)
			case *dns.EDNS0_SUBNET:
				list = append(list, "SUBNET: "+e.String())
			case *dns.EDNS0_TCP_KEEPALIVE:
				list = append(list, "KEEPALIVE "+itoa(int(e.Timeout)))
			case *dns.EDNS0_PADDING:
				list = append(list, "PADDING")
			default:
				list = append(list, option.String())
			}
		}
		if got := strings.Join(list, " "); got != want {
			t.Errorf("over %v: %s, want %s", over, got, want)
		}
		if over == overTLS && len(out)%padBlock != 0 {
			t.Errorf("%d bytes over TLS, want a multiple of %d", len(out), padBlock)
		}
	}
	// BADVERS tells which version is known.
	m = query("www.example.com", "A")
	m.SetEdns0(1232, false)
	m.IsEdns0().SetVersion(1)
	if got := ask(t, r, m, overUDP); got.Rcode != dns.RcodeBadVers || got.IsEdns0().Version() != 0 || len(got.Answer) > 0 {
		t.Errorf("EDNS version 1: %v", got)
	}
	// Extended errors say why.
	m = query("www.example.org", "A")
	m.SetEdns0(1232, false)
	got := ask(t, r, m, overUDP)
	if e, ok := got.IsEdns0().Option[0].(*dns.EDNS0_EDE); !ok || e.InfoCode != dns.ExtendedErrorCodeNotAuthoritative {
		t.Errorf("refused without a reason: %v", got)
	}
}

func TestTruncation(t *testing.T) {
	var b strings.Builder
	for i := range 60 {
		b.WriteString("      - {name: big, type: TXT, content: text-number-" + itoa(1000+i) + "}\n")
		b.WriteString("      - {name: ns" + itoa(i) + ".s, type: A, content: 192.0.2.1}\n")
		if i < 16 {
			b.WriteString("      - {name: s, type: NS, content: ns" + itoa(i) + ".s}\n")
			b.WriteString("      - {name: mx, type: MX, content: 10 ns" + itoa(i) + ".s}\n")
		}
	}
	r := newResponder(t, listenerText("")+zoneText[:strings.Index(zoneText, "  - name: example.net")]+b.String())
	for _, c := range []struct {
		name, kind string
		size       uint16 // of EDNS; 0 for none
		over       transport
		want       string // of flags
		answers    int
		least      int // records of the additional section
	}{
		{"big.example.com", "TXT", 0, overUDP, "NOERROR aa tc", 0, 0},
		{"big.example.com", "TXT", 4096, overUDP, "NOERROR aa tc", 0, 0}, // the listener's own limit is 1232
		{"big.example.com", "TXT", 0, overTCP, "NOERROR aa", 60, 0},
		{"big.example.com", "TXT", 4096, overTCP, "NOERROR aa", 60, 0},
		{"x.s.example.com", "A", 0, overUDP, "NOERROR tc", 0, 1}, // glue must be whole (RFC 9471)
		{"x.s.example.com", "A", 1232, overUDP, "NOERROR", 0, 16},
		{"x.s.example.com", "A", 300, overUDP, "NOERROR tc", 0, 1}, // less than 512 is 512
	} {
		m := query(c.name, c.kind)
		if c.size > 0 {
			m.SetEdns0(c.size, false)
		}
		raw, _ := m.Pack()
		out := r.respond(asker{client, c.over}, raw, nil)
		var got dns.Msg
		if err := got.Unpack(out); err != nil {
			t.Fatal(err)
		}
		head, _, _ := strings.Cut(shown(&got), "\n")
		if head != c.want || len(got.Answer) != c.answers || len(got.Extra) < c.least {
			t.Errorf("%s %s with size %d over %v: %s, %d answers, %d additional, want %s, %d, %d", c.name, c.kind, c.size, c.over, head, len(got.Answer), len(got.Extra), c.want, c.answers, c.least)
		}
		limit := 512
		if c.size > 512 {
			limit = 1232
		}
		if c.over == overUDP && len(out) > limit {
			t.Errorf("%s %s: %d bytes over UDP", c.name, c.kind, len(out))
		}
		if c.size > 0 && got.IsEdns0() == nil {
			t.Errorf("%s %s: no OPT", c.name, c.kind)
		}
	}
}

func TestChaos(t *testing.T) {
	set := newResponder(t, listenerText(`dns: {version: Fairlead, identity: ams1}`)+zoneText)
	unset := newResponder(t, listenerText("")+zoneText)
	for _, c := range []struct{ name, kind, want string }{
		{"version.bind", "TXT", `NOERROR aa` + "\n" + `answer: version.bind. TXT "Fairlead"`},
		{"VERSION.server", "TXT", `NOERROR aa` + "\n" + `answer: VERSION.server. TXT "Fairlead"`},
		{"id.server", "ANY", `NOERROR aa` + "\n" + `answer: id.server. TXT "ams1"`},
		{"hostname.bind", "TXT", `NOERROR aa` + "\n" + `answer: hostname.bind. TXT "ams1"`},
		{"version.bind", "A", "REFUSED"},
		{"authors.bind", "TXT", "REFUSED"},
		{"www.example.com", "A", "REFUSED"},
	} {
		m := query(c.name, c.kind)
		m.Question[0].Qclass = dns.ClassCHAOS
		if got := shown(ask(t, set, m, overUDP)); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.name, c.kind, got, c.want)
		}
		if got := shown(ask(t, unset, m, overUDP)); got != "REFUSED" {
			t.Errorf("%s %s where nothing is set: %s", c.name, c.kind, got)
		}
	}
}

// A chain that zones make between them ends.
func TestAliasLoopBetweenZones(t *testing.T) {
	r := newResponder(t, listenerText("")+`
zones:
  - {name: a.test, nameservers: [ns.invalid], records: [{name: x, type: CNAME, content: x.b.test.}, {name: d, type: DNAME, content: d.b.test.}]}
  - {name: b.test, nameservers: [ns.invalid], records: [{name: x, type: CNAME, content: x.a.test.}, {name: d, type: DNAME, content: d.a.test.}]}
`)
	if got, want := shown(ask(t, r, query("x.a.test", "A"), overUDP)), "NOERROR aa\nanswer: x.a.test. CNAME x.b.test.\nanswer: x.b.test. CNAME x.a.test."; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := ask(t, r, query("y.d.a.test", "A"), overUDP); got.Rcode != dns.RcodeSuccess || len(got.Answer) != 4 {
		t.Errorf("a loop of DNAMEs: %v", got)
	}
	var b strings.Builder
	b.WriteString("zones:\n  - name: long.test\n    nameservers: [ns.invalid]\n    records:\n")
	for i := range 40 {
		b.WriteString("      - {name: n" + itoa(i) + ", type: CNAME, content: n" + itoa(i+1) + "}\n")
	}
	b.WriteString("      - {name: n40, type: A, content: 192.0.2.1}\n")
	r = newResponder(t, listenerText("")+b.String())
	if got := ask(t, r, query("n0.long.test", "A"), overTCP); got.Rcode != dns.RcodeSuccess || len(got.Answer) != maxLinks+1 {
		t.Errorf("a long chain: %d records, want %d", len(got.Answer), maxLinks+1)
	}
}

// FuzzRespond gives messages to a responder: what it answers can be read, is an
// answer to the question, and not larger than the client takes.
func FuzzRespond(f *testing.F) {
	for _, m := range []*dns.Msg{query("www.example.com", "A"), query("x.sub.example.com", "MX"), query("a.example.com", "ANY"), query("x.in.example.com", "A"), query("q.alias.w.example.com", "DS")} {
		b, _ := m.Pack()
		f.Add(b)
		m.SetEdns0(700, true)
		m.IsEdns0().Option = append(m.IsEdns0().Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"},
			&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: client.Addr().AsSlice()})
		b, _ = m.Pack()
		f.Add(b)
	}
	r := newResponder(f, listenerText("dns: {nsid: x, version: y}")+zoneText)
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, over := range []transport{overUDP, overTCP, overTLS} {
			out := r.respond(asker{client, over}, b, nil)
			if len(out) == 0 {
				if len(b) >= 12 && b[2]&0x80 == 0 {
					t.Errorf("no answer over %v", over)
				}
				return
			}
			var m dns.Msg
			if err := m.Unpack(out); err != nil {
				t.Fatalf("over %v: %v: %x", over, err, out)
			}
			if !m.Response || out[0] != b[0] || out[1] != b[1] {
				t.Errorf("header %x", out[:12])
			}
			if over == overUDP && len(out) > 1232 || len(m.Question) > 0 && string(out[12:12+len(r.q.Name)]) != string(r.q.Name) {
				t.Errorf("%d bytes: %x", len(out), out)
			}
		}
	})
}
