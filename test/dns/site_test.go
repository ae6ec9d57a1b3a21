package dns_test

import (
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// listener is a DNS listener, with further settings of its own.
func listener(settings string) string {
	return "listeners: [{name: dns, address: \"127.0.0.1:0\", protocol: dns, " + settings + "}]\n"
}

// zone is example.com with these records, one in a line.
func zone(records ...string) string {
	b := strings.Builder{}
	b.WriteString("zones:\n  - name: example.com\n    nameservers: [ns1.example.net]\n    soa: {minimum: 60s}\n    records:\n")
	for _, r := range records {
		name, rest, _ := strings.Cut(r, " ")
		kind, content, _ := strings.Cut(rest, " ")
		b.WriteString("      - {name: \"" + name + "\", type: " + kind + ", content: '" + content + "'}\n")
	}
	return b.String()
}

// ask sends a query over a network, and returns the answer.
func ask(t *testing.T, network, address string, m *dns.Msg) *dns.Msg {
	t.Helper()
	c := dns.Client{Net: network, Timeout: 5 * time.Second}
	got, _, err := c.Exchange(m, address)
	if err != nil {
		t.Fatalf("%v over %s: %v", m.Question, network, err)
	}
	return got
}

func question(name, kind string) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(name), dns.StringToType[kind])
	if digits, ok := strings.CutPrefix(kind, "TYPE"); ok {
		m.Question[0].Qtype = 0
		for _, d := range digits {
			m.Question[0].Qtype = m.Question[0].Qtype*10 + uint16(d-'0')
		}
	}
	m.RecursionDesired = false
	return m
}

// summary is the rcode of an answer, what it answers, and whose SOA it has.
func summary(m *dns.Msg) string {
	var answers []string
	for _, rr := range m.Answer {
		text := strings.TrimPrefix(rr.String(), rr.Header().String())
		if rr.Header().Rrtype == dns.TypeSOA {
			text = "..."
		}
		answers = append(answers, rr.Header().Name+" "+dns.TypeToString[rr.Header().Rrtype]+" "+text)
	}
	slices.Sort(answers)
	s := dns.RcodeToString[m.Rcode] + " [" + strings.Join(answers, ", ") + "]"
	for _, rr := range m.Ns {
		s += " " + dns.TypeToString[rr.Header().Rrtype]
	}
	return s
}

// tool runs a program of others and returns what it prints.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed: Debian has it in bind9-dnsutils (dig) or knot-dnsutils (kdig)", name)
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// port splits an address for command lines.
func port(t *testing.T, address string) (host, number string) {
	t.Helper()
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return host, number
}
