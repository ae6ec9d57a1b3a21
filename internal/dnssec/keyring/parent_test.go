package keyring

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"fairlead/internal/dnssec"
)

// agent answers queries for DS records over TCP.
func agent(t *testing.T, answer func(m *dns.Msg)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &dns.Server{Listener: l, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		if q.Question[0] != (dns.Question{Name: "example.com.", Qtype: dns.TypeDS, Qclass: dns.ClassINET}) {
			m.Rcode = dns.RcodeRefused
		}
		answer(m)
		w.WriteMsg(m)
	})}
	done := make(chan struct{})
	go func() { defer close(done); s.ActivateAndServe() }()
	t.Cleanup(func() { s.Shutdown(); <-done })
	return l.Addr().String()
}

// What the parent has counts when all agents say it; what is no answer tells
// nothing.
func TestAskParent(t *testing.T) {
	k, err := dnssec.GenerateKey("example.com", dnssec.FlagsKSK, dnssec.ECDSAP256SHA256)
	if err != nil {
		t.Fatal(err)
	}
	ds, _ := k.DS(dnssec.DigestSHA256)
	rr, err := dns.NewRR("example.com. 7200 IN DS " + ds.String())
	if err != nil {
		t.Fatal(err)
	}
	has := agent(t, func(m *dns.Msg) { m.RecursionAvailable, m.Answer = true, []dns.RR{rr} })
	hasNot := agent(t, func(m *dns.Msg) { m.Authoritative = true })
	fails := agent(t, func(m *dns.Msg) { m.RecursionAvailable, m.Rcode = true, dns.RcodeServerFailure })
	refers := agent(t, func(*dns.Msg) {})
	for _, c := range []struct {
		name            string
		agents          []string
		published, gone bool
		ttl             time.Duration
		err             string
	}{
		{"there", []string{has}, true, false, 2 * time.Hour, ""},
		{"gone", []string{hasNot}, false, true, 0, ""},
		{"not everywhere", []string{has, hasNot}, false, false, 2 * time.Hour, ""},
		{"a failure", []string{hasNot, fails}, false, false, 0, "answers with SERVFAIL"},
		{"not the parent's", []string{refers}, false, false, 0, "does not answer for the parent"},
		{"no address", []string{"parent.example"}, false, false, 0, "not an ip:port"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := askParent(t.Context(), "example.com", c.agents)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if o.published(k) != c.published || o.gone(k) != c.gone || o.ttl != c.ttl {
				t.Errorf("published %t, gone %t, TTL %v", o.published(k), o.gone(k), o.ttl)
			}
		})
	}
}
