package dns_test

import (
	"strings"
	"testing"

	"fairlead/test/lab"
)

// served is what dig and kdig are tried with.
func served(t *testing.T) (n *lab.Node, ca *lab.CA) {
	ca = lab.NewCA(t)
	cert := ca.Issue("dns.example.com")
	text := strings.Repeat("x", 200)
	n = lab.Start(t, `
listeners:
  - {name: dns, address: "127.0.0.1:0", protocol: dns, dns: {nsid: ams1, version: Fairlead}}
  - {name: dot, address: "127.0.0.1:0", protocol: dot, certificates: [{certificate: `+cert.CertFile+`, key: `+cert.KeyFile+`}]}
`+zone("www A 192.0.2.1", "www AAAA 2001:db8::1", "alias CNAME www", "@ MX 10 mail", "mail A 192.0.2.25", "*.w TXT wild", "old DNAME new.example.org.",
		"sub NS ns.sub", "ns.sub A 192.0.2.60", `svc HTTPS 1 . alpn="h2,h3" ipv4hint=192.0.2.1`, `@ CAA 0 issue "ca.example.net"`, `odd TYPE65280 \# 2 abcd`,
		"big TXT a"+text, "big TXT b"+text, "big TXT c"+text, "big TXT d"+text, "big TXT e"+text, "big TXT f"+text, "big TXT g"+text))
	return n, ca
}

// looked are questions, and what is to be among what a client prints, with single
// spaces.
var looked = []struct {
	args string
	want []string
}{
	{"www.example.com A", []string{"status: NOERROR", "www.example.com. 300 IN A 192.0.2.1"}},
	{"alias.example.com AAAA", []string{"alias.example.com. 300 IN CNAME www.example.com.", "www.example.com. 300 IN AAAA 2001:db8::1"}},
	{"example.com MX", []string{"example.com. 300 IN MX 10 mail.example.com.", "mail.example.com. 300 IN A 192.0.2.25"}},
	{"a.b.w.example.com TXT", []string{`a.b.w.example.com. 300 IN TXT "wild"`}},
	{"nope.example.com A", []string{"status: NXDOMAIN", "example.com. 60 IN SOA ns1.example.net. hostmaster.example.com."}},
	{"www.example.com TXT", []string{"status: NOERROR", "example.com. 60 IN SOA"}},
	{"x.old.example.com A", []string{"old.example.com. 300 IN DNAME new.example.org.", "x.old.example.com. 300 IN CNAME x.new.example.org."}},
	{"x.sub.example.com A", []string{"sub.example.com. 300 IN NS ns.sub.example.com.", "ns.sub.example.com. 300 IN A 192.0.2.60"}},
	{"svc.example.com HTTPS", []string{`svc.example.com. 300 IN HTTPS 1 . alpn="h2,h3" ipv4hint=192.0.2.1`}},
	{"example.com CAA", []string{`example.com. 300 IN CAA 0 issue "ca.example.net"`}},
	{"odd.example.com TYPE65280", []string{`odd.example.com. 300 IN TYPE65280 \# 2 ABCD`}},
	{"big.example.com TXT", []string{`big.example.com. 300 IN TXT "gxxx`, "(TCP)"}}, // asked once more, as it is truncated
	{"www.example.com A +tcp", []string{"www.example.com. 300 IN A 192.0.2.1", "(TCP)"}},
	{"www.example.com A +nsid", []string{"NSID: "}},
	{"www.example.org A", []string{"status: REFUSED"}},
}

// plain has one space where a client prints many, and none of the signs that
// clients put around things, each its own.
func plain(s string) string {
	return strings.NewReplacer(";", "", ",", "", `"`, "").Replace(strings.Join(strings.Fields(s), " "))
}

func TestDig(t *testing.T) {
	t.Parallel()
	n, _ := served(t)
	host, number := port(t, n.Addr("dns"))
	for _, c := range looked {
		out := tool(t, "dig", append([]string{"@" + host, "-p", number, "+norec", "+time=5", "+tries=1"}, strings.Fields(c.args)...)...)
		for _, want := range c.want {
			if !strings.Contains(plain(out), plain(want)) {
				t.Errorf("dig %s lacks %q:\n%s", c.args, want, out)
			}
		}
		if bad := "WARNING"; strings.Contains(out, bad) || strings.Contains(out, "malformed") {
			t.Errorf("dig %s warns:\n%s", c.args, out)
		}
	}
	// Its cookie is answered with one that it finds good.
	if out := tool(t, "dig", "@"+host, "-p", number, "+norec", "+cookie", "www.example.com"); !strings.Contains(out, "(good)") {
		t.Errorf("dig +cookie:\n%s", out)
	}
	if out := tool(t, "dig", "@"+host, "-p", number, "+short", "CH", "TXT", "version.bind"); strings.TrimSpace(out) != `"Fairlead"` {
		t.Errorf("dig CH TXT version.bind: %s", out)
	}
	if out := tool(t, "dig", "@"+host, "-p", number, "+norec", "+edns=1", "+noednsneg", "www.example.com"); !strings.Contains(out, "BADVERS") {
		t.Errorf("dig +edns=1:\n%s", out)
	}
}

func TestKdig(t *testing.T) {
	t.Parallel()
	n, ca := served(t)
	host, number := port(t, n.Addr("dns"))
	for _, c := range looked {
		out := tool(t, "kdig", append([]string{"@" + host, "-p", number, "+norec", "+retry=0"}, strings.Fields(c.args)...)...)
		for _, want := range c.want {
			if !strings.Contains(plain(out), plain(want)) {
				t.Errorf("kdig %s lacks %q:\n%s", c.args, want, out)
			}
		}
		if strings.Contains(strings.Replace(out, "WARNING: truncated reply", "", 1), "WARNING") {
			t.Errorf("kdig %s warns:\n%s", c.args, out)
		}
	}
	_, number = port(t, n.Addr("dot"))
	out := tool(t, "kdig", "@"+host, "-p", number, "+tls-ca="+ca.File, "+tls-hostname=dns.example.com", "+padding", "+norec", "www.example.com", "A", "+keepopen", "alias.example.com", "A")
	for _, want := range []string{"TLS session (TLS1.3)", "www.example.com. 300 IN A 192.0.2.1", "alias.example.com. 300 IN CNAME www.example.com.", "PADDING:"} {
		if !strings.Contains(plain(out), plain(want)) {
			t.Errorf("kdig over TLS lacks %q:\n%s", want, out)
		}
	}
}
