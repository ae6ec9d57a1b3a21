package dnslb

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"fairlead/internal/config"
	"fairlead/internal/health"
	"fairlead/internal/load"
	"fairlead/internal/loop"
	"fairlead/internal/plan"
	"fairlead/internal/resolve"
)

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// engines are the kinds of engines that streams run on.
var engines = func() []string {
	if runtime.GOOS == "linux" {
		return []string{"loop", "goroutine"}
	}
	return []string{"goroutine"}
}()

// listenerText is a listener with settings of its own.
func listenerText(settings string) string {
	return "listeners: [{name: dns, address: \"127.0.0.1:0\", protocol: dns, " + settings + "}]\n"
}

// zoneText is the zone of most tests.
const zoneText = `
zones:
  - name: example.com
    nameservers: [ns1.example.com, ns.example.net]
    soa: {minimum: 60s, contact: hostmaster@example.com}
    records:
      - {name: ns1, type: A, content: 192.0.2.53}
      - {name: "@", type: MX, content: 10 mail}
      - {name: "@", type: MX, content: 20 mail.example.net.}
      - {name: "@", type: TXT, content: '"v=spf1 -all"'}
      - {name: mail, type: A, content: 192.0.2.25}
      - {name: mail, type: AAAA, content: "2001:db8::25"}
      - {name: www, type: A, content: 192.0.2.1}
      - {name: www, type: A, content: 192.0.2.2}
      - {name: www, type: AAAA, content: "2001:db8::1"}
      - {name: a, type: CNAME, content: b}
      - {name: b, type: CNAME, content: gone}
      - {name: c, type: CNAME, content: www}
      - {name: d, type: CNAME, content: example.com.}
      - {name: e, type: CNAME, content: out.example.org.}
      - {name: f, type: CNAME, content: x.sub}
      - {name: g, type: CNAME, content: WWW.Example.NET.}
      - {name: h, type: CNAME, content: x.real.wild}
      - {name: "*.w", type: A, content: 192.0.2.53}
      - {name: "*.w", type: MX, content: 10 mail}
      - {name: real.deeper.w, type: A, content: 192.0.2.54}
      - {name: "*.alias.w", type: CNAME, content: www}
      - {name: "*.wild", type: TXT, content: wild}
      - {name: sub, type: NS, content: ns.sub}
      - {name: sub, type: NS, content: ns1}
      - {name: sub, type: DS, content: 60485 13 2 d4b7d520e7bb5f0f67674a0cceb1e3e0614b93c4f9e99b8383f6a1e4469da50a}
      - {name: ns.sub, type: A, content: 192.0.2.60}
      - {name: ns.sub, type: AAAA, content: "2001:db8::60"}
      - {name: old, type: DNAME, content: new.example.net.}
      - {name: in, type: DNAME, content: w}
      - {name: far, type: DNAME, content: ` + longName + `}
      - {name: _sip._tcp, type: SRV, content: 10 5 5060 mail}
      - {name: svc, type: HTTPS, content: '1 www alpn="h2"'}
      - {name: phone, type: NAPTR, content: '100 10 "u" "E2U+sip" "!^.*$!sip:info@example.com!" .'}
      - {name: odd, type: TYPE65280, content: '\# 3 010203'}
      - {name: g.h.i, type: CAA, content: '0 issue "ca.example.net"'}
  - name: example.net
    nameservers: [ns1.example.com]
    records: [{name: www, type: A, content: 192.0.2.80}, {name: www.new, type: A, content: 192.0.2.81}]
  - name: child.example.net
    nameservers: [ns1.example.com]
    records: [{name: www, type: A, content: 192.0.2.82}, {name: up, type: CNAME, content: child.example.net.}]
`

// longName has room for few bytes before it.
const longName = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb." +
	"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc.dddddddddddddddddddddddddddddddddddddddddddddddddd.example.org."

// compile makes a plan of a configuration.
func compile(t testing.TB, text string, before *plan.Plan) *plan.Plan {
	t.Helper()
	doc, err := config.Parse("test.yaml", []byte(text), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if errs := doc.Judge(plan.Zones(doc.Config)); len(errs) > 0 {
		t.Fatal(errs)
	}
	p, err := plan.Compile(doc.Config, before, plan.Tables{Health: health.NewTable(quiet), Load: new(load.Table), Resolver: resolve.New(resolve.Config{})})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// start serves a configuration on a kind of engine.
func start(t testing.TB, kind, text string) (*Plane, *plan.Plan) {
	t.Helper()
	engine, err := loop.NewEngine(kind, loop.Options{Loops: 2})
	if err != nil {
		t.Fatal(err)
	}
	p := New(engine, nil, quiet, quiet)
	pl := compile(t, text, nil)
	if err := p.Apply(pl, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		p.Shutdown(ctx)
		engine.Close()
	})
	return p, pl
}

// newResponder returns a responder that no socket belongs to.
func newResponder(t testing.TB, text string) *responder { return newSignedResponder(t, text, nil) }

// newSignedResponder is newResponder with keys for signed zones.
func newSignedResponder(t testing.TB, text string, keys Keys) *responder {
	t.Helper()
	pl := compile(t, text, nil)
	engine, err := loop.NewEngine("goroutine", loop.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Close)
	p := New(engine, keys, quiet, quiet)
	set, err := newSettings(p, pl.DNSListeners[0].Listener, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{plane: p}
	l.set.Store(set)
	p.snap.Store(p.snapshot(pl, nil))
	r := &responder{ln: l}
	r.use(time.Unix(1_700_000_000, 0))
	return r
}

var client = netip.MustParseAddrPort("198.51.100.7:4321")

// query makes a message that asks for something.
func query(name, kind string) *dns.Msg {
	m := new(dns.Msg)
	t, ok := dns.StringToType[kind]
	if !ok {
		fmt.Sscanf(kind, "TYPE%d", &t)
	}
	m.SetQuestion(dns.Fqdn(name), t)
	m.RecursionDesired = false
	return m
}

// ask gives a message to a responder.
func ask(t testing.TB, r *responder, m *dns.Msg, over transport) *dns.Msg {
	t.Helper()
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return askRaw(t, r, b, over)
}

func askRaw(t testing.TB, r *responder, b []byte, over transport) *dns.Msg {
	t.Helper()
	out := r.respond(asker{client, over}, b, nil)
	if len(out) == 0 {
		return nil
	}
	var m dns.Msg
	if err := m.Unpack(out); err != nil {
		t.Fatalf("the answer cannot be read: %v\n%x", err, out)
	}
	return &m
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// shown writes an answer in few words: the rcode, AA and TC, then the records of
// each section, in the order of their text where they are a set.
func shown(m *dns.Msg) string {
	if m == nil {
		return "nothing"
	}
	var b strings.Builder
	if m.Rcode == dns.RcodeBadVers { // which the library names after TSIG
		b.WriteString("BADVERS")
	} else {
		b.WriteString(dns.RcodeToString[m.Rcode])
	}
	if m.Authoritative {
		b.WriteString(" aa")
	}
	if m.Truncated {
		b.WriteString(" tc")
	}
	section := func(name string, list []dns.RR) {
		var lines []string
		for _, rr := range list {
			if rr.Header().Rrtype == dns.TypeOPT {
				continue
			}
			text := strings.Join(strings.Fields(strings.TrimPrefix(rr.String(), rr.Header().String())), " ")
			kind := dns.Type(rr.Header().Rrtype).String()
			if unknown, ok := rr.(*dns.RFC3597); ok {
				text = `\# ` + itoa(len(unknown.Rdata)/2) + " " + unknown.Rdata
			}
			if soa, ok := rr.(*dns.SOA); ok { // its numbers are for other tests
				text = fmt.Sprint("ttl ", soa.Hdr.Ttl)
			}
			lines = append(lines, fmt.Sprintf("%s: %s %s %s", name, rr.Header().Name, kind, text))
		}
		slices.SortStableFunc(lines, func(a, c string) int {
			if strings.Contains(a, " CNAME ") || strings.Contains(c, " CNAME ") || strings.Contains(a, " DNAME ") {
				return 0 // a chain has an order
			}
			return strings.Compare(a, c)
		})
		for _, l := range lines {
			b.WriteString("\n" + l)
		}
	}
	section("answer", m.Answer)
	section("authority", m.Ns)
	section("additional", m.Extra)
	return b.String()
}

func itoa(n int) string { return strconv.Itoa(n) }

func netipPort(a netip.AddrPort, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr(), port)
}
