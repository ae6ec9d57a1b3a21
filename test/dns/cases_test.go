package dns_test

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"fairlead/test/lab"
)

// checkTable asks each question, over UDP and TCP.
func checkTable(t *testing.T, address string, table [][2]string) {
	t.Helper()
	for _, c := range table {
		name, kind, _ := strings.Cut(c[0], " ")
		for _, network := range []string{"udp", "tcp"} {
			got := ask(t, network, address, question(name, kind))
			if summary(got) != c[1] || !got.Authoritative {
				t.Errorf("%s over %s: %s (aa %t), want %s", c[0], network, summary(got), got.Authoritative, c[1])
			}
		}
	}
}

func TestC18(t *testing.T) {
	t.Parallel()
	n := lab.Start(t, listener("")+zone("* A 192.0.2.53", "real.deeper A 192.0.2.54"))
	checkTable(t, n.Addr("dns"), [][2]string{
		{"x.example.com A", "NOERROR [x.example.com. A 192.0.2.53]"},
		{"x.y.example.com A", "NOERROR [x.y.example.com. A 192.0.2.53]"},
		{"deeper.example.com A", "NOERROR [] SOA"},
		{"nope.deeper.example.com A", "NXDOMAIN [] SOA"},
		{"x.real.deeper.example.com A", "NXDOMAIN [] SOA"},
		{"*.example.com A", "NOERROR [*.example.com. A 192.0.2.53]"},
		{"x.example.com TXT", "NOERROR [] SOA"},
	})
}

func TestC19(t *testing.T) {
	t.Parallel()
	n := lab.Start(t, listener("")+zone("app.eu.svc A 192.0.2.1"))
	var table [][2]string
	for _, kind := range []string{"A", "AAAA", "NS", "TXT"} {
		app := "NOERROR [] SOA"
		if kind == "A" {
			app = "NOERROR [app.eu.svc.example.com. A 192.0.2.1]"
		}
		table = append(table, [2]string{"app.eu.svc.example.com " + kind, app})
		for _, name := range []string{"svc", "eu.svc", "SVC"} {
			table = append(table, [2]string{name + ".example.com " + kind, "NOERROR [] SOA"})
		}
		for _, name := range []string{"nope.svc", "x.app.eu.svc"} {
			table = append(table, [2]string{name + ".example.com " + kind, "NXDOMAIN [] SOA"})
		}
	}
	checkTable(t, n.Addr("dns"), table)
}

func TestC20(t *testing.T) {
	t.Parallel()
	n := lab.Start(t, listener("")+zone("a CNAME b", "b CNAME gone", "c CNAME www", "www A 192.0.2.1", "d CNAME example.com.", "e CNAME out.example.net."))
	checkTable(t, n.Addr("dns"), [][2]string{
		{"a.example.com A", "NXDOMAIN [a.example.com. CNAME b.example.com., b.example.com. CNAME gone.example.com.] SOA"},
		{"c.example.com AAAA", "NOERROR [c.example.com. CNAME www.example.com.] SOA"},
		{"d.example.com SOA", "NOERROR [d.example.com. CNAME example.com., example.com. SOA ...]"},
		{"e.example.com A", "NOERROR [e.example.com. CNAME out.example.net.]"},
		{"a.example.com CNAME", "NOERROR [a.example.com. CNAME b.example.com.]"},
	})
	// The denial is kept for the lesser of the SOA's TTL and minimum.
	if soa := ask(t, "udp", n.Addr("dns"), question("a.example.com", "A")).Ns[0]; soa.Header().Ttl != 60 {
		t.Errorf("the SOA of a denial has TTL %d, want 60", soa.Header().Ttl)
	}
}

func TestC21(t *testing.T) {
	t.Parallel()
	n := lab.Start(t, listener("")+zone("app A 192.0.2.1", "*.w A 192.0.2.1"))
	var table [][2]string
	for _, name := range []string{"app", "aPp", "x.w", "X.W"} {
		for _, kind := range []string{"CAA", "HTTPS", "SVCB", "NAPTR", "DS", "TLSA", "TYPE65280", "TYPE12345", "NULL"} {
			table = append(table, [2]string{name + ".example.com " + kind, "NOERROR [] SOA"})
		}
	}
	checkTable(t, n.Addr("dns"), table)
	for name, c := range map[string]struct {
		change func(*dns.Msg)
		want   int
	}{
		"AXFR":          {func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAXFR }, dns.RcodeRefused},
		"class CH":      {func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }, dns.RcodeRefused},
		"class ANY":     {func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassANY }, dns.RcodeRefused},
		"STATUS":        {func(m *dns.Msg) { m.Opcode = dns.OpcodeStatus }, dns.RcodeNotImplemented},
		"two questions": {func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }, dns.RcodeFormatError},
	} {
		m := question("app.example.com", "A")
		c.change(m)
		if got := ask(t, "tcp", n.Addr("dns"), m); got.Rcode != c.want {
			t.Errorf("%s: %s, want %s", name, dns.RcodeToString[got.Rcode], dns.RcodeToString[c.want])
		}
	}
}

func TestC22(t *testing.T) {
	t.Parallel()
	n := lab.Start(t, listener("limits: {idle_timeout: 2s}")+zone("app A 192.0.2.1", "www A 192.0.2.2"))
	var three []byte
	for i, q := range []*dns.Msg{question("app.example.com", "A"), question("app.example.com", "AAAA"), question("www.example.com", "A")} {
		q.Id = uint16(i + 1)
		b, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		three = append(binary.BigEndian.AppendUint16(three, uint16(len(b))), b...)
	}
	c, err := net.Dial("tcp", n.Addr("dns"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	for _, pieces := range []int{1, len(three)} {
		size := len(three) / pieces
		for i := 0; i < len(three); i += size {
			c.Write(three[i : i+size])
		}
		ids := make(map[uint16]bool)
		for range 3 {
			var length uint16
			if err := binary.Read(c, binary.BigEndian, &length); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, length)
			if _, err := io.ReadFull(c, b); err != nil {
				t.Fatal(err)
			}
			ids[binary.BigEndian.Uint16(b)] = true
		}
		if !ids[1] || !ids[2] || !ids[3] {
			t.Errorf("in %d pieces: answers to %v", pieces, ids)
		}
	}
	// One more, then the end of what the client sends.
	start := time.Now()
	c.Write(three[:2+binary.BigEndian.Uint16(three)])
	c.(*net.TCPConn).CloseWrite()
	if b, err := io.ReadAll(c); err != nil || len(b) < 30 {
		t.Errorf("after the end of a client's queries: %d bytes, %v", len(b), err)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("the end took %v", took)
	}
}

func TestC24(t *testing.T) {
	t.Parallel()
	n := lab.Start(t, "listeners: [{name: four, address: \"0.0.0.0:0\", protocol: dns}, {name: six, address: \"[::]:0\", protocol: dns}]\n"+zone("app A 192.0.2.1"))
	for name, asked := range map[string][]string{"four": {"127.0.0.1", "127.0.0.2", "127.0.0.3"}, "six": {"::1"}} {
		_, number := port(t, n.Addr(name))
		for _, ip := range asked {
			// The client's socket is connected: it takes answers from there only.
			if got := summary(ask(t, "udp", net.JoinHostPort(ip, number), question("app.example.com", "A"))); got != "NOERROR [app.example.com. A 192.0.2.1]" {
				t.Errorf("%s: %s", ip, got)
			}
		}
	}
}
