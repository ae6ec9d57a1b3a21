package dnslb

import (
	"math"
	"net"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"fairlead/internal/geo"
	"fairlead/internal/geo/geotest"
	"fairlead/internal/telemetry"
)

// steeredText is what most tests of load balancers ask.
const steeredText = `
node: {pop: AMS, region: WEU, country: NL, latitude: 52, longitude: 5, public_addresses: [192.0.2.90, "2001:db8::90", 192.0.2.91]}
pools:
  - name: even
    endpoints:
      - {name: a, address: "192.0.2.1:80"}
      - {name: b, address: 192.0.2.2}
      - {name: again, address: "192.0.2.1:81"}
      - {name: c, address: "2001:db8::1"}
      - {name: off, address: 192.0.2.4, enabled: false}
  - {name: uneven, endpoints: [{name: a, address: 192.0.2.11}, {name: b, address: 192.0.2.12, weight: 0.5}]}
  - {name: hash, endpoint_steering: {policy: hash}, endpoints: [{name: a, address: 192.0.2.21}, {name: b, address: 192.0.2.22}, {name: c, address: 192.0.2.23}]}
  - {name: one, endpoints: [{name: a, address: 192.0.2.31}]}
  - {name: two, endpoints: [{name: a, address: 192.0.2.32}]}
  - {name: named, endpoints: [{name: a, address: both.host.example.net}, {name: b, address: 192.0.2.41}]}
  - {name: alias, endpoints: [{name: a, address: both.host.example.net, flatten_cname: false}]}
  - {name: aliases, endpoints: [{name: a, address: both.host.example.net, flatten_cname: false}, {name: b, address: 192.0.2.42}]}
  - {name: chain, endpoints: [{name: a, address: link.host.example.net}]}
  - {name: private, endpoints: [{name: a, address: 10.0.0.1, virtual_network: office}, {name: b, address: 192.0.2.51}]}
  - {name: shut, enabled: false, endpoints: [{name: a, address: 192.0.2.61}]}
load_balancers:
  - {name: even.example.com, default_pools: [even], ttl: 45s}
  - {name: uneven.example.com, default_pools: [uneven]}
  - {name: hash.example.com, default_pools: [hash]}
  - {name: kept.example.com, default_pools: [one, two], steering_policy: random, session_affinity: ip_cookie}
  - {name: drawn.example.com, default_pools: [one, two], steering_policy: random, random_steering: {pool_weights: {one: 0.25, two: 0.75}}}
  - {name: least.example.com, default_pools: [one, two], steering_policy: least_connections, random_steering: {pool_weights: {one: 0.25, two: 0.75}}}
  - {name: named.example.com, default_pools: [named]}
  - {name: alias.example.com, default_pools: [alias], ttl: 20s}
  - {name: noalias.example.com, default_pools: [alias]}
  - {name: aliases.example.com, default_pools: [aliases]}
  - {name: chain.example.com, default_pools: [chain]}
  - {name: private.example.com, default_pools: [private]}
  - {name: shut.example.com, default_pools: [shut]}
  - {name: last.example.com, default_pools: [shut], fallback_pool: one}
  - {name: off.example.com, default_pools: [one], enabled: false}
  - {name: web.example.com, proxied: true, default_pools: [one]}
  - {name: example.net, default_pools: [alias]}
  - {name: "*.wild.example.com", default_pools: [one]}
  - {name: app.eu.svc.example.com, default_pools: [one]}
  - name: ruled.example.com
    default_pools: [one]
    rules:
      - {name: six, condition: dns.qry.type == 28, overrides: {default_pools: [even]}}
      - {name: net, condition: 'ip.src in {203.0.113.0/24}', overrides: {default_pools: [two], ttl: 7s}}
      - {name: name, condition: 'dns.qry.name == "ruled.example.com." and dns.qry.name.len == 18 and dns.rr.opt.client', overrides: {ttl: 8s}}
zones:
  - name: example.com
    nameservers: [ns.example.org]
    soa: {minimum: 60s}
    records:
      - {name: even, type: MX, content: 10 mail}
      - {name: even, type: TXT, content: text}
      - {name: noalias, type: TXT, content: text}
      - {name: off, type: A, content: 192.0.2.99}
      - {name: uneven, type: A, content: 192.0.2.98}
      - {name: mail, type: A, content: 192.0.2.25}
      - {name: real.wild, type: A, content: 192.0.2.97}
      - {name: to, type: CNAME, content: one.wild}
  - name: example.net
    nameservers: [ns.example.org]
    records:
      - {name: "@", type: MX, content: 10 both.host}
      - {name: both.host, type: A, content: 192.0.2.71}
      - {name: both.host, type: AAAA, content: "2001:db8::71"}
      - {name: link.host, type: CNAME, content: other.host}
      - {name: other.host, type: DNAME, content: x}
      - {name: other.host, type: A, content: 192.0.2.72}
`

func TestSteeredAnswers(t *testing.T) {
	const soa = "\nauthority: example.com. SOA ttl 60"
	r := newResponder(t, listenerText("")+steeredText)
	for _, c := range []struct{ name, kind, want string }{
		{"even.example.com", "A", "NOERROR aa\nanswer: even.example.com. A 192.0.2.1\nanswer: even.example.com. A 192.0.2.2"},
		{"EVEN.example.com", "AAAA", "NOERROR aa\nanswer: EVEN.example.com. AAAA 2001:db8::1"},
		{"even.example.com", "MX", "NOERROR aa\nanswer: even.example.com. MX 10 mail.example.com.\nadditional: mail.example.com. A 192.0.2.25"},
		{"even.example.com", "TXT", "NOERROR aa\n" + `answer: even.example.com. TXT "text"`},
		{"even.example.com", "CAA", "NOERROR aa" + soa},
		{"uneven.example.com", "A", "NOERROR aa\nanswer: uneven.example.com. A 192.0.2.11|NOERROR aa\nanswer: uneven.example.com. A 192.0.2.12"},
		{"uneven.example.com", "AAAA", "NOERROR aa" + soa},
		{"uneven.example.com", "ANY", "NOERROR aa\nanswer: uneven.example.com. A 192.0.2.11|NOERROR aa\nanswer: uneven.example.com. A 192.0.2.12"},
		{"named.example.com", "A", "NOERROR aa\nanswer: named.example.com. A 192.0.2.41\nanswer: named.example.com. A 192.0.2.71"},
		{"named.example.com", "AAAA", "NOERROR aa\nanswer: named.example.com. AAAA 2001:db8::71"},
		{"chain.example.com", "A", "NOERROR aa\nanswer: chain.example.com. A 192.0.2.72"},
		{"private.example.com", "A", "NOERROR aa\nanswer: private.example.com. A 192.0.2.51"},
		{"shut.example.com", "A", "NOERROR aa" + soa},
		{"last.example.com", "A", "NOERROR aa\nanswer: last.example.com. A 192.0.2.31"},
		{"off.example.com", "A", "NOERROR aa\nanswer: off.example.com. A 192.0.2.99"},
		{"web.example.com", "A", "NOERROR aa\nanswer: web.example.com. A 192.0.2.90\nanswer: web.example.com. A 192.0.2.91"},
		{"web.example.com", "AAAA", "NOERROR aa\nanswer: web.example.com. AAAA 2001:db8::90"},
		{"web.example.com", "HTTPS", "NOERROR aa" + soa},

		// Aliases.
		{"alias.example.com", "A", "NOERROR aa\nanswer: alias.example.com. CNAME both.host.example.net.\nanswer: both.host.example.net. A 192.0.2.71"},
		{"alias.example.com", "AAAA", "NOERROR aa\nanswer: alias.example.com. CNAME both.host.example.net.\nanswer: both.host.example.net. AAAA 2001:db8::71"},
		{"alias.example.com", "TXT", "NOERROR aa\nanswer: alias.example.com. CNAME both.host.example.net.\nauthority: example.net. SOA ttl 300"},
		{"alias.example.com", "CNAME", "NOERROR aa\nanswer: alias.example.com. CNAME both.host.example.net."},
		{"noalias.example.com", "A", "NOERROR aa\nanswer: noalias.example.com. A 192.0.2.71"},
		{"noalias.example.com", "CNAME", "NOERROR aa" + soa},
		{"aliases.example.com", "A", "NOERROR aa\nanswer: aliases.example.com. A 192.0.2.42\nanswer: aliases.example.com. A 192.0.2.71"},
		{"aliases.example.com", "TXT", "NOERROR aa" + soa},
		{"example.net", "A", "NOERROR aa\nanswer: example.net. A 192.0.2.71"},
		{"example.net", "MX", "NOERROR aa\nanswer: example.net. MX 10 both.host.example.net.\nadditional: both.host.example.net. A 192.0.2.71\nadditional: both.host.example.net. AAAA 2001:db8::71"},

		// Where the name stands in the tree.
		{"one.wild.example.com", "A", "NOERROR aa\nanswer: one.wild.example.com. A 192.0.2.31"},
		{"a.b.wild.example.com", "A", "NOERROR aa\nanswer: a.b.wild.example.com. A 192.0.2.31"},
		{"*.wild.example.com", "A", "NOERROR aa\nanswer: *.wild.example.com. A 192.0.2.31"},
		{"real.wild.example.com", "A", "NOERROR aa\nanswer: real.wild.example.com. A 192.0.2.97"},
		{"x.real.wild.example.com", "A", "NXDOMAIN aa" + soa},
		{"wild.example.com", "A", "NOERROR aa" + soa},
		{"x.wild.example.com", "TXT", "NOERROR aa" + soa},
		{"to.example.com", "A", "NOERROR aa\nanswer: to.example.com. CNAME one.wild.example.com.\nanswer: one.wild.example.com. A 192.0.2.31"},
		{"svc.example.com", "A", "NOERROR aa" + soa},
		{"eu.svc.example.com", "NS", "NOERROR aa" + soa},
		{"App.eu.SVC.example.com", "A", "NOERROR aa\nanswer: App.eu.SVC.example.com. A 192.0.2.31"},
		{"app.eu.svc.example.com", "TXT", "NOERROR aa" + soa},
		{"nope.svc.example.com", "A", "NXDOMAIN aa" + soa},
		{"x.app.eu.svc.example.com", "A", "NXDOMAIN aa" + soa},

		// Rules.
		{"ruled.example.com", "A", "NOERROR aa\nanswer: ruled.example.com. A 192.0.2.31"},
		{"ruled.example.com", "AAAA", "NOERROR aa\nanswer: ruled.example.com. AAAA 2001:db8::1"},
	} {
		t.Run(c.name+" "+c.kind, func(t *testing.T) {
			for range 8 { // other draws
				got := shown(ask(t, r, query(c.name, c.kind), overUDP))
				if !oneOf(got, c.want) {
					t.Fatalf("got\n%s\nwant\n%s", got, c.want)
				}
			}
		})
	}
}

func oneOf(got, want string) bool {
	for w := range strings.SplitSeq(want, "|") {
		if got == w {
			return true
		}
	}
	return false
}

// withSubnet adds a client subnet.
func withSubnet(m *dns.Msg, subnet string) *dns.Msg {
	m.SetEdns0(1232, false)
	p := netip.MustParsePrefix(subnet)
	family := uint16(1)
	if p.Addr().Is6() {
		family = 2
	}
	m.IsEdns0().Option = append(m.IsEdns0().Option, &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: family, SourceNetmask: uint8(p.Bits()), Address: net.IP(p.Addr().AsSlice())})
	return m
}

// scopeOf returns the scope of an answer; -1 if it has no client subnet.
func scopeOf(m *dns.Msg) int {
	for _, o := range m.IsEdns0().Option {
		if s, ok := o.(*dns.EDNS0_SUBNET); ok {
			return int(s.SourceScope)
		}
	}
	return -1
}

func TestTTL(t *testing.T) {
	r := newResponder(t, listenerText("")+steeredText)
	for _, c := range []struct {
		name, subnet string
		want         uint32
	}{
		{"even.example.com", "", 45},
		{"uneven.example.com", "", 30},
		{"web.example.com", "", 300},
		{"alias.example.com", "", 20},
		{"ruled.example.com", "", 30},
		{"ruled.example.com", "203.0.113.0/24", 8},
		{"RULED.example.com", "198.51.100.0/24", 8},
	} {
		m := query(c.name, "A")
		if c.subnet != "" {
			withSubnet(m, c.subnet)
		}
		got := ask(t, r, m, overUDP)
		if len(got.Answer) == 0 || got.Answer[0].Header().Ttl != c.want {
			t.Errorf("%s %s: TTL %v, want %d", c.name, c.subnet, got.Answer, c.want)
		}
	}
	if got := ask(t, r, withSubnet(query("ruled.example.com", "A"), "203.0.113.0/24"), overUDP); !strings.Contains(shown(got), "192.0.2.32") {
		t.Errorf("the rule by address leads to\n%s", shown(got))
	}
}

// world is a made-up geography.
func world(t testing.TB) *geo.Databases {
	t.Helper()
	file := filepath.Join(t.TempDir(), "city.mmdb")
	singapore := geotest.Record{"country_code": "SG", "latitude": 0., "longitude": 90., "asn": uint32(64496)}
	geotest.Write(t, file, geotest.Options{}, geotest.Networks{
		"203.0.113.0/26":     singapore,
		"2001:db8:5000::/36": singapore,
		"198.51.100.0/24":    {"country_code": "US", "state_code": "CA", "state": "California", "latitude": 0., "longitude": -90.},
	})
	d, err := geo.Open(geo.Config{Files: []string{file}})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

const placesText = `
node: {pop: AMS, region: WEU, country: NL, latitude: 0, longitude: 0}
pools:
  - {name: here, latitude: 0, longitude: 0, endpoints: [{name: a, address: 192.0.2.1}]}
  - {name: east, latitude: 0, longitude: 90, endpoints: [{name: a, address: 192.0.2.2}]}
  - {name: west, latitude: 0, longitude: -90, endpoints: [{name: a, address: 192.0.2.3}]}
  - {name: shed, load_shedding: {default_percent: 50}, endpoints: [{name: a, address: 192.0.2.4}]}
  - {name: hash, endpoint_steering: {policy: hash}, endpoints: [{name: a, address: 192.0.2.5}]}
load_balancers:
  - {name: near.example.com, default_pools: [here, east, west], steering_policy: proximity, location_strategy: {mode: pop}}
  - {name: near-never.example.com, default_pools: [here, east, west], steering_policy: proximity, location_strategy: {prefer_ecs: never, mode: pop}}
  - {name: near-resolver.example.com, default_pools: [here, east, west], steering_policy: proximity, location_strategy: {prefer_ecs: never, mode: resolver_ip}}
  - {name: near-geo.example.com, default_pools: [here, east, west], steering_policy: proximity, location_strategy: {prefer_ecs: geo, mode: pop}}
  - {name: geo.example.com, default_pools: [here], country_pools: {SG: [east]}, region_pools: {WNAM: [west]}, location_strategy: {mode: pop}}
  - {name: geo-always.example.com, default_pools: [here], country_pools: {SG: [east]}, region_pools: {WNAM: [west]}, location_strategy: {prefer_ecs: always, mode: pop}}
  - {name: geo-both.example.com, default_pools: [here], country_pools: {SG: [east]}, region_pools: {WNAM: [west]}, location_strategy: {prefer_ecs: always, mode: resolver_ip}}
  - {name: geo-country.example.com, default_pools: [here], country_pools: {SG: [east]}, region_pools: {WNAM: [west]}, location_strategy: {prefer_ecs: geo, mode: resolver_ip}}
  - {name: geo-region.example.com, default_pools: [here], region_pools: {WEU: [west], SEAS: [east]}, location_strategy: {prefer_ecs: always, mode: pop}}
  - {name: geo-pop.example.com, default_pools: [here], pop_pools: {AMS: [west]}, country_pools: {SG: [east]}, location_strategy: {prefer_ecs: always, mode: resolver_ip}}
  - {name: plain.example.com, default_pools: [here], location_strategy: {prefer_ecs: always, mode: resolver_ip}}
  - {name: shed.example.com, default_pools: [shed, here], fallback_pool: here}
  - {name: hash.example.com, default_pools: [hash]}
  - {name: kept.example.com, default_pools: [here], session_affinity: ip_cookie}
  - {name: ruled.example.com, default_pools: [here], rules: [{name: r, condition: 'dns.qry.type == 28 and ip.src in {10.0.0.0/8}', overrides: {default_pools: [east]}}]}
  - {name: net.example.com, default_pools: [here], rules: [{name: r, condition: 'ip.src in {203.0.113.0/24}', overrides: {default_pools: [east]}}]}
  - name: fields.example.com
    default_pools: [here]
    rules:
      - {name: r, condition: 'ip.src.country eq "SG" and ip.src.asnum eq 64496 and ip.src.continent eq "AS"', overrides: {default_pools: [east]}}
      - {name: s, condition: 'ip.src.region eq "California" and ip.src.subdivision_1_iso_code eq "US-CA"', overrides: {default_pools: [west]}}
zones:
  - {name: example.com, nameservers: [ns.example.org], records: [{name: to, type: CNAME, content: near}, {name: static, type: A, content: 192.0.2.9}]SCOPE}
`

// Where a client is, by each strategy, and for whom its answer holds.
func TestPlaces(t *testing.T) {
	w := world(t)
	const here, east, west = "192.0.2.1", "192.0.2.2", "192.0.2.3"
	const resolver, nowhere = "198.51.100.7", "192.0.2.200"
	const sg, unknown = "203.0.113.0/24", "100.64.0.0/24"
	for _, c := range []struct {
		name, resolver, subnet string
		want                   string
		scope                  int
		bounds                 string
	}{
		{"near", resolver, "", here, -1, ""},
		{"near", resolver, sg, east, 26, ""},
		{"near", resolver, "2001:db8:5000::/56", east, 36, ""},
		{"near", resolver, unknown, here, 1, ""},
		{"near", resolver, "0.0.0.0/0", here, 0, ""},
		{"near-never", resolver, sg, here, 0, ""},
		{"near-resolver", resolver, sg, west, 0, ""},
		{"near-resolver", nowhere, sg, here, 0, ""},
		{"near-geo", resolver, sg, here, 0, ""},
		{"geo", resolver, sg, here, 0, ""},
		{"geo-always", resolver, sg, east, 26, ""},
		{"geo-always", nowhere, "198.51.100.0/24", here, 24, ""}, // no country list, and the region is the node's
		{"geo-both", nowhere, "198.51.100.0/24", west, 24, ""},
		{"geo-both", resolver, unknown, west, 1, ""},
		{"geo-both", nowhere, unknown, here, 1, ""},
		{"geo-country", nowhere, "198.51.100.0/24", here, 24, ""},
		{"geo-country", resolver, sg, east, 26, ""},
		{"geo-country", resolver, unknown, west, 1, ""},
		{"geo-region", resolver, sg, west, 0, ""},
		{"geo-pop", resolver, sg, west, 0, ""},
		{"plain", resolver, sg, here, 0, ""},
		{"hash", resolver, sg, "192.0.2.5", 24, ""},
		{"hash", resolver, "2001:db8::/56", "192.0.2.5", 56, ""},
		{"kept", resolver, sg, here, 24, ""},
		{"kept", resolver, "0.0.0.0/0", here, 0, ""},
		{"shed", resolver, sg, "192.0.2.4|" + here, 24, ""},
		{"ruled", resolver, sg, here, 0, ""}, // the address is not looked at for A
		{"net", resolver, sg, east, 24, ""},
		{"net", resolver, unknown, here, 24, ""},
		{"fields", resolver, sg, east, 26, ""},
		{"fields", nowhere, "198.51.100.0/24", west, 24, ""},
		{"fields", nowhere, unknown, here, 1, ""},
		{"fields", resolver, "", west, -1, ""},
		{"fields", resolver, "0.0.0.0/0", west, 0, ""},
		{"to", resolver, sg, east, 26, ""},
		{"static", resolver, sg, "192.0.2.9", 0, ""},
		{"nope", resolver, sg, "", 0, ""},

		{"kept", resolver, sg, here, 28, ", ecs_scope: {ipv4_min: 28}"},
		{"plain", resolver, sg, here, 0, ", ecs_scope: {ipv4_min: 28}"},
		{"kept", resolver, sg, here, 20, ", ecs_scope: {ipv4_max: 20}"},
		{"kept", resolver, "2001:db8::/56", here, 48, ", ecs_scope: {ipv4_max: 20, ipv6_max: 48}"},
		{"near", resolver, "2001:db8:5000::/56", east, 40, ", ecs_scope: {ipv4_max: 20, ipv6_min: 40}"},
	} {
		t.Run(c.name+" "+c.subnet+c.bounds, func(t *testing.T) {
			r := newResponder(t, listenerText("")+strings.Replace(placesText, "SCOPE", c.bounds, 1))
			r.snap.plan.Geo = w
			m := query(c.name+".example.com", "A")
			if c.subnet != "" {
				withSubnet(m, c.subnet)
			} else {
				m.SetEdns0(1232, false)
			}
			b, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			var got dns.Msg
			if err := got.Unpack(r.respond(asker{netip.AddrPortFrom(netip.MustParseAddr(c.resolver), 4321), overUDP}, b, nil)); err != nil {
				t.Fatal(err)
			}
			answer := ""
			if n := len(got.Answer); n > 0 {
				answer = got.Answer[n-1].(*dns.A).A.String()
			}
			if !oneOf(answer, c.want) || scopeOf(&got) != c.scope {
				t.Errorf("%s with scope %d, want %s with %d", answer, scopeOf(&got), c.want, c.scope)
			}
		})
	}
}

// The same client gets the same endpoint; others share them.
func TestSameClientSameEndpoint(t *testing.T) {
	r := newResponder(t, listenerText("")+steeredText)
	for _, name := range []string{"hash.example.com", "kept.example.com"} {
		seen := make(map[string]int)
		for i := range 64 {
			subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{203, byte(i), 113, 0}), 24).String()
			first := ""
			for range 5 {
				got := ask(t, r, withSubnet(query(name, "A"), subnet), overUDP)
				if len(got.Answer) != 1 {
					t.Fatalf("%s: %s", name, shown(got))
				}
				a := got.Answer[0].(*dns.A).A.String()
				if first == "" {
					first = a
					seen[a]++
				}
				if a != first {
					t.Fatalf("%s: %s after %s for %s", name, a, first, subnet)
				}
			}
		}
		if len(seen) < 2 {
			t.Errorf("%s: all clients get %v", name, seen)
		}
	}
}

// What the client of one query had a part in says nothing about the next answer.
func TestScopeIsOfOneQuery(t *testing.T) {
	r := newResponder(t, listenerText("")+steeredText)
	const subnet = "203.0.113.0/24"
	for _, c := range []struct {
		name  string
		scope int
	}{{"hash.example.com", 24}, {"web.example.com", 0}, {"kept.example.com", 24}, {"even.example.com", 0}} {
		got := ask(t, r, withSubnet(query(c.name, "A"), subnet), overUDP)
		if scope := scopeOf(got); scope != c.scope {
			t.Errorf("%s: scope %d, want %d", c.name, scope, c.scope)
		}
	}
}

// Shares follow the weights: of pools, of endpoints, and what counts connections
// draws by weight as DNS sees none.
func TestShares(t *testing.T) {
	r := newResponder(t, listenerText("")+steeredText)
	for _, c := range []struct {
		name  string
		share map[string]float64
	}{
		{"drawn.example.com", map[string]float64{"192.0.2.31": .25, "192.0.2.32": .75}},
		{"least.example.com", map[string]float64{"192.0.2.31": .25, "192.0.2.32": .75}},
		{"uneven.example.com", map[string]float64{"192.0.2.11": 2. / 3, "192.0.2.12": 1. / 3}},
	} {
		b, err := query(c.name, "A").Pack()
		if err != nil {
			t.Fatal(err)
		}
		const n = 20000
		seen := make(map[string]int)
		for range n {
			out := r.respond(asker{client, overUDP}, b, nil)
			seen[netip.AddrFrom4([4]byte(out[len(out)-4:])).String()]++
		}
		for a, share := range c.share {
			// Five standard deviations.
			if off := math.Abs(float64(seen[a]) - share*n); off > 5*math.Sqrt(n*share*(1-share)) {
				t.Errorf("%s: %s was answered %d times of %d, want %v", c.name, a, seen[a], n, share*n)
			}
		}
	}
}

// Large sets come as a whole or not at all, and are bounded.
func TestManyAddresses(t *testing.T) {
	text := strings.Builder{}
	text.WriteString("load_balancers: [{name: many.example.com, default_pools: [many]}, {name: more.example.com, default_pools: [more]}]\n" +
		"zones: [{name: example.com, nameservers: [ns.example.org]}]\npools:\n")
	for name, n := range map[string]int{"many": 100, "more": 300} {
		text.WriteString("  - name: " + name + "\n    endpoints:\n")
		for i := range n {
			text.WriteString("      - {name: e" + itoa(i) + ", address: 10.0." + itoa(i/250) + "." + itoa(1+i%250) + "}\n")
		}
	}
	r := newResponder(t, listenerText("")+text.String())
	if got := ask(t, r, query("many.example.com", "A"), overUDP); !got.Truncated || len(got.Answer) != 0 {
		t.Errorf("over UDP: %s", shown(got))
	}
	if got := ask(t, r, query("many.example.com", "A"), overTCP); got.Truncated || len(got.Answer) != 100 {
		t.Errorf("over TCP: %d addresses", len(got.Answer))
	}
	seen := make(map[string]bool)
	for range 200 {
		got := ask(t, r, query("more.example.com", "A"), overTCP)
		if len(got.Answer) != maxAddresses {
			t.Fatalf("%d addresses, want %d", len(got.Answer), maxAddresses)
		}
		for _, rr := range got.Answer {
			seen[rr.(*dns.A).A.String()] = true
		}
	}
	if len(seen) != 300 {
		t.Errorf("%d of 300 endpoints were answered", len(seen))
	}
	if n := r.snap.balancers[1].cut.Load(); n != 200 {
		t.Errorf("%d answers are counted as cut", n)
	}
}

// Names that are chosen allocate nothing either.
func TestSteeredAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	r := newResponder(t, listenerText("")+steeredText)
	log, err := telemetry.OpenQueryLog(t.TempDir()+"/queries.log", 1, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	r.snap.log = log
	r.snap.plan.Geo = world(t)
	for _, name := range []string{"even", "uneven", "hash", "kept", "drawn", "named", "alias", "web", "ruled", "shut", "last"} {
		for _, kind := range []string{"A", "AAAA", "ANY", "TXT"} {
			b, err := withSubnet(query(name+".example.com", kind), "203.0.113.0/24").Pack()
			if err != nil {
				t.Fatal(err)
			}
			out := make([]byte, 0, 4096)
			r.respond(asker{client, overUDP}, b, out)
			if n := testing.AllocsPerRun(100, func() { r.respond(asker{client, overUDP}, b, out) }); n != 0 {
				t.Errorf("%s %s: %v allocations", name, kind, n)
			}
		}
	}
}

// What was chosen is counted, and counts go on over plans.
func TestSteeredIsCounted(t *testing.T) {
	r := newResponder(t, listenerText("")+steeredText)
	p := r.ln.plane
	for range 3 {
		ask(t, r, query("last.example.com", "A"), overUDP)
		ask(t, r, query("shut.example.com", "A"), overUDP)
		ask(t, r, query("ruled.example.com", "AAAA"), overUDP)
		p.snap.Store(p.snapshot(compile(t, listenerText("")+steeredText, r.snap.plan), nil))
		r.use(time.Unix(1_700_000_000, 0))
	}
	reg := telemetry.NewRegistry()
	reg.Add(p)
	page := httptest.NewRecorder()
	reg.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
	text := page.Body.String()
	for _, want := range []string{
		`fairlead_dns_steered_total{load_balancer="last.example.com",pool="one"} 3`,
		`fairlead_dns_steered_total{load_balancer="last.example.com",pool="shut"} 0`,
		`fairlead_dns_steered_total{load_balancer="shut.example.com",pool=""} 3`,
		`fairlead_dns_steered_total{load_balancer="ruled.example.com",pool="even"} 3`,
		`fairlead_dns_rule_matches_total{load_balancer="ruled.example.com",rule="six"} 3`,
		`fairlead_dns_addresses_cut_total{load_balancer="last.example.com"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
}
