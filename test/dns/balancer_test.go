package dns_test

import (
	"bytes"
	"encoding/json"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"fairlead/test/lab"
)

// An endpoint that dies disappears from answers within the time that its probes take,
// consecutive_down times the interval and a time-out, and comes back. Its clients
// are never told nothing.
func TestEndpointDiesAndReturns(t *testing.T) {
	t.Parallel()
	const interval, timeout, checks = 300 * time.Millisecond, 500 * time.Millisecond, 2
	stays := lab.NewOriginOn(t, listen(t, "127.0.0.1:0"), lab.Echo)
	dies := lab.NewOriginOn(t, listen(t, "127.0.0.2:0"), lab.Echo)
	n := lab.Start(t, listener("")+`
monitors: [{name: up, type: tcp, interval: 300ms, timeout: 500ms, retries: 0, consecutive_down: 2, consecutive_up: 2}]
pools: [{name: main, monitor: up, endpoints: [{name: a, address: "`+stays.Addr+`"}, {name: b, address: "`+dies.Addr+`"}]}]
load_balancers: [{name: www.example.com, default_pools: [main]}]
`+zone("www MX 10 mail", "mail A 192.0.2.25"))
	address := n.Addr("dns")
	const both, one = "NOERROR [www.example.com. A 127.0.0.1, www.example.com. A 127.0.0.2]", "NOERROR [www.example.com. A 127.0.0.1]"
	// until asks every 50 ms until all is as wanted, and returns how long that took.
	until := func(want string) time.Duration {
		t.Helper()
		begin := time.Now()
		for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
			switch got := summary(ask(t, "udp", address, question("www.example.com", "A"))); {
			case got == want:
				tick.Stop()
				return time.Since(begin)
			case got != both && got != one:
				t.Fatal(got)
			case time.Since(begin) > 20*time.Second:
				t.Fatalf("still %s, want %s", got, want)
			}
		}
	}
	until(both)
	at := dies.Addr
	dies.Close()
	const bound = checks*interval + timeout
	if took := until(one); took > bound+250*time.Millisecond { // for a busy machine
		t.Errorf("gone after %v, want %v at most", took, bound)
	}
	lab.NewOriginOn(t, listen(t, at), lab.Echo)
	until(both)
	if got := summary(ask(t, "udp", address, question("www.example.com", "MX"))); got != "NOERROR [www.example.com. MX 10 mail.example.com.]" {
		t.Error(got)
	}
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// Where all endpoints are down nothing is answered, with the SOA record, and each
// name stays what it is.
func TestAllDown(t *testing.T) {
	t.Parallel()
	ln := listen(t, "127.0.0.1:0")
	ln.Close()
	n := lab.Start(t, listener("")+`
monitors: [{name: up, type: tcp, interval: 100ms, timeout: 100ms, retries: 0}]
pools: [{name: main, monitor: up, endpoints: [{name: a, address: "`+ln.Addr().String()+`"}]}]
load_balancers: [{name: app.eu.svc.example.com, default_pools: [main]}]
`+zone("www A 192.0.2.1"))
	address := n.Addr("dns")
	for _, c := range []struct{ name, kind, want string }{
		{"app.eu.svc", "A", "NOERROR [] SOA"}, {"app.eu.svc", "TXT", "NOERROR [] SOA"},
		{"svc", "A", "NOERROR [] SOA"}, {"eu.svc", "AAAA", "NOERROR [] SOA"},
		{"nope.svc", "A", "NXDOMAIN [] SOA"}, {"x.app.eu.svc", "NS", "NXDOMAIN [] SOA"},
	} {
		for end := time.Now().Add(10 * time.Second); ; {
			got := summary(ask(t, "udp", address, question(c.name+".example.com", c.kind)))
			if got == c.want {
				break
			}
			if time.Now().After(end) || c.name != "app.eu.svc" {
				t.Errorf("%s %s: %s, want %s", c.name, c.kind, got, c.want)
				break
			}
		}
	}
}

// Shares of pools follow their weights, whatever their order; what is down has none.
func TestPoolShares(t *testing.T) {
	t.Parallel()
	up := lab.NewOrigin(t, lab.Echo)
	_, number := port(t, up.Addr)
	down := listen(t, "127.0.0.9:0")
	down.Close()
	head := listener("") + `
monitors: [{name: up, type: tcp, interval: 100ms, timeout: 100ms, retries: 0}]
pools:
  - {name: p1, endpoints: [{name: a, address: 192.0.2.1}]}
  - {name: p2, endpoints: [{name: a, address: 192.0.2.2}]}
  - {name: p3, endpoints: [{name: a, address: 192.0.2.3}]}
  - {name: out, monitor: up, endpoints: [{name: a, address: "` + down.Addr().String() + `"}]}
  - {name: in, monitor: up, endpoints: [{name: a, address: "127.0.0.1:` + number + `"}]}
load_balancers:
`
	const weights = ", steering_policy: random, random_steering: {default_weight: 0.2, pool_weights: {p1: 0.5, p2: 0.3}}}\n"
	n := lab.Start(t, head+
		"  - {name: a.example.com, default_pools: [p1, p2, p3]"+weights+
		"  - {name: b.example.com, default_pools: [p3, p2, p1]"+weights+
		"  - {name: c.example.com, default_pools: [out, p1, p2, in], steering_policy: random, random_steering: {pool_weights: {out: 0.5, p1: 0.3, p2: 0.2, in: 0}}}\n"+
		zone("www A 192.0.2.1"))
	for _, c := range []struct {
		name  string
		share map[string]float64
	}{
		{"a.example.com.", map[string]float64{"192.0.2.1": .5, "192.0.2.2": .3, "192.0.2.3": .2}},
		{"b.example.com.", map[string]float64{"192.0.2.1": .5, "192.0.2.2": .3, "192.0.2.3": .2}},
		{"c.example.com.", map[string]float64{"192.0.2.1": .6, "192.0.2.2": .4}},
	} {
		const queries = 10_000
		seen := make(map[string]int)
		conn, err := dns.DialTimeout("udp", n.Addr("dns"), 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for range queries {
			m := question(c.name, "A")
			if err := conn.WriteMsg(m); err != nil {
				t.Fatal(err)
			}
			conn.SetReadDeadline(time.Now().Add(5 * time.Second))
			got, err := conn.ReadMsg()
			if err != nil || len(got.Answer) != 1 || got.Id != m.Id {
				t.Fatalf("%v %v", got, err)
			}
			seen[got.Answer[0].(*dns.A).A.String()]++
		}
		for a, share := range c.share {
			// Five standard deviations.
			if off := math.Abs(float64(seen[a]) - share*queries); off > 5*math.Sqrt(queries*share*(1-share)) {
				t.Errorf("%s: %s in %d of %d answers, want %v", c.name, a, seen[a], queries, share*queries)
			}
		}
		if len(seen) != len(c.share) {
			t.Errorf("%s: %v, want %v", c.name, seen, c.share)
		}
	}
}

// What dig sees of load balancers, and what the node tells of it.
func TestDigBalancers(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "queries.log")
	n := lab.Start(t, listener("")+`
node: {public_addresses: [192.0.2.80, "2001:db8::80"]}
query_log: {output: `+log+`}
pools:
  - {name: main, endpoints: [{name: a, address: 192.0.2.1}, {name: b, address: "2001:db8::1"}, {name: c, address: host.example.com}]}
  - {name: alias, endpoints: [{name: a, address: www.example.org, flatten_cname: false}]}
load_balancers:
  - {name: example.com, default_pools: [main]}
  - {name: "*.example.com", default_pools: [main], ttl: 60s, session_affinity: ip_cookie}
  - {name: alias.example.com, default_pools: [alias]}
  - {name: web.example.com, proxied: true, default_pools: [main]}
`+zone("@ MX 10 host", "host A 192.0.2.7", "@ TXT text"))
	host, number := port(t, n.Addr("dns"))
	for _, c := range []struct {
		args string
		want []string
	}{
		{"example.com A", []string{"example.com. 30 IN A 192.0.2.1", "example.com. 30 IN A 192.0.2.7", "ANSWER: 2"}},
		{"example.com AAAA +tcp", []string{"example.com. 30 IN AAAA 2001:db8::1", "ANSWER: 1"}},
		{"example.com MX", []string{"example.com. 300 IN MX 10 host.example.com."}},
		{"example.com SOA", []string{"example.com. 3600 IN SOA"}},
		{"a.b.example.com A +subnet=203.0.113.0/24", []string{"a.b.example.com. 60 IN A 192.0.2.", "ANSWER: 1", "CLIENT-SUBNET: 203.0.113.0/24/24"}},
		{"example.com A +subnet=203.0.113.0/24", []string{"ANSWER: 2", "CLIENT-SUBNET: 203.0.113.0/24/0"}},
		{"alias.example.com AAAA", []string{"alias.example.com. 30 IN CNAME www.example.org."}},
		{"web.example.com A", []string{"web.example.com. 300 IN A 192.0.2.80", "ANSWER: 1"}},
		{"web.example.com AAAA", []string{"web.example.com. 300 IN AAAA 2001:db8::80"}},
		{"x.example.com TXT", []string{"status: NOERROR", "ANSWER: 0", "example.com. 60 IN SOA"}},
	} {
		out := tool(t, "dig", append([]string{"@" + host, "-p", number, "+norec", "+time=5", "+tries=1"}, strings.Fields(c.args)...)...)
		for _, want := range c.want {
			if !strings.Contains(plain(out), plain(want)) {
				t.Errorf("dig %s lacks %q:\n%s", c.args, want, out)
			}
		}
	}
	n.AwaitMetric(3, "fairlead_dns_steered_total", "load_balancer", "example.com", "pool", "main")
	n.AwaitMetric(1, "fairlead_dns_steered_total", "load_balancer", "alias.example.com", "pool", "alias")
	n.Stop()
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range bytes.Lines(b) {
		var q struct {
			Name, Pool, Reason string
			LoadBalancer       string `json:"load_balancer"`
		}
		if err := json.Unmarshal(line, &q); err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.TrimRight(q.Name+" "+q.LoadBalancer+" "+q.Pool+" "+q.Reason, " "))
	}
	want := []string{
		"example.com. example.com main failover", "example.com. example.com main failover", "example.com.", "example.com.",
		"a.b.example.com. *.example.com main failover", "example.com. example.com main failover",
		"alias.example.com. alias.example.com alias failover", "web.example.com. web.example.com", "web.example.com. web.example.com", "x.example.com.",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("query log\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
