package dns_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"fairlead/internal/geo/geotest"
	"fairlead/test/lab"
)

// withSubnet adds a client subnet to a query.
func withSubnet(m *dns.Msg, address string, bits uint8) *dns.Msg {
	m.SetEdns0(1232, false)
	m.IsEdns0().Option = append(m.IsEdns0().Option, &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: bits, Address: net.ParseIP(address).To4()})
	return m
}

// scope returns the scope of an answer.
func scope(t *testing.T, m *dns.Msg) uint8 {
	t.Helper()
	for _, o := range m.IsEdns0().Option {
		if s, ok := o.(*dns.EDNS0_SUBNET); ok {
			return s.SourceScope
		}
	}
	t.Fatal("the answer has no client subnet")
	return 0
}

// Answers go by where clients are, and by another database as soon as it takes the
// place of the first; one that is broken changes nothing.
func TestGeography(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "geo.mmdb")
	database := func(code string) []byte {
		return geotest.Build(geotest.Options{}, geotest.Networks{"192.0.2.0/26": {"country_code": code}, "127.0.0.0/8": {"country_code": "JP"}})
	}
	geotest.Replace(t, file, database("FR"))
	n := lab.Start(t, listener("")+`
geo: {databases: [`+file+`]}
node: {region: WEU, country: NL}
pools:
  - {name: p1, endpoints: [{name: a, address: 192.0.2.1}]}
  - {name: p2, endpoints: [{name: a, address: 192.0.2.2}]}
  - {name: p3, endpoints: [{name: a, address: 192.0.2.3}]}
  - {name: p4, endpoints: [{name: a, address: 192.0.2.4}]}
load_balancers:
  - {name: www.example.com, default_pools: [p3], country_pools: {FR: [p1], US: [p2]}, region_pools: {NEAS: [p4]}, location_strategy: {prefer_ecs: always}}
  - {name: ruled.example.com, default_pools: [p3], rules: [{name: fr, condition: 'ip.src.country eq "FR"', overrides: {default_pools: [p1]}}]}
`+zone("host A 192.0.2.9"))
	address := n.Addr("dns")
	check := func(name, client, want string, bits uint8) {
		t.Helper()
		got := ask(t, "udp", address, withSubnet(question(name+".example.com", "A"), client, 24))
		if s := summary(got); !strings.Contains(s, "A "+want+"]") || scope(t, got) != bits {
			t.Errorf("%s for %s: %s with scope %d, want %s with %d", name, client, s, scope(t, got), want, bits)
		}
	}
	check("www", "192.0.2.0", "192.0.2.1", 26)
	check("ruled", "192.0.2.0", "192.0.2.1", 26)
	check("www", "203.0.113.0", "192.0.2.4", 5) // of which nothing is known: the resolver's region
	check("ruled", "203.0.113.0", "192.0.2.3", 5)
	check("host", "192.0.2.0", "192.0.2.9", 0)
	if got := summary(ask(t, "udp", address, question("www.example.com", "A"))); got != "NOERROR [www.example.com. A 192.0.2.4]" {
		t.Errorf("by the resolver: %s", got)
	}

	next := database("US")
	geotest.Replace(t, file, next)
	for end := time.Now().Add(30 * time.Second); ; {
		got := summary(ask(t, "udp", address, withSubnet(question("www.example.com", "A"), "192.0.2.0", 24)))
		if strings.Contains(got, "192.0.2.2]") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("still %s", got)
		}
	}
	geotest.Replace(t, file, next[:len(next)/2])
	n.AwaitMetric(1, "fairlead_geo_database_reloads_total", "database", file, "result", "refused")
	check("www", "192.0.2.0", "192.0.2.2", 26)
}
