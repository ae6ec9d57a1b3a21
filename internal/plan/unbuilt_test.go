package plan

import (
	"slices"
	"strings"
	"testing"
)

// unbuiltBase is served as it is.
const unbuiltBase = `
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
monitors: [{name: up, type: http}]
pools: [{name: main, monitor: up, endpoints: [{name: a, address: 192.0.2.1}]}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [main]}]
`

// Whatever a valid file asks for and no plane does is told with its path, and
// nothing else is.
func TestUnbuilt(t *testing.T) {
	const (
		listeners = "listeners: [{name: web, address: \"127.0.0.1:0\", protocol: http}]\n"
		monitors  = "monitors: [{name: up, type: http}]\n"
		pools     = "pools: [{name: main, monitor: up, endpoints: [{name: a, address: 192.0.2.1}]}]\n"
		balancers = "load_balancers: [{name: www.example.com, proxied: true, default_pools: [main]}]\n"
	)
	// with returns the base with one section in place of its own, or a further
	// one.
	with := func(section string) string {
		text := ""
		for _, s := range []string{listeners, monitors, pools, balancers} {
			if key, _, _ := strings.Cut(s, ":"); !strings.Contains("\n"+section, "\n"+key+":") {
				text += s
			}
		}
		return text + section
	}
	pool := func(settings string) string {
		return with("pools: [{name: main, monitor: up, " + settings + ", endpoints: [{name: a, address: 192.0.2.1}]}]\n")
	}
	balancer := func(settings string) string {
		return with("load_balancers: [{name: www.example.com, proxied: true, default_pools: [main], " + settings + "}]\n")
	}
	monitor := func(kind string) string { return with("monitors: [{name: up, type: " + kind + "}]\n") }
	layer4 := func(protocol string) string {
		return with("listeners: [{name: l4, address: \"127.0.0.1:0\", protocol: " + protocol + ", load_balancer: other}]\n" +
			"load_balancers: [{name: other, proxied: true, default_pools: [main]}]\n")
	}

	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"what is there", unbuiltBase, nil},
		{"settings that are there", `
node: {name: n, pop: AMS, region: WEU, country: NL, latitude: 52.3, longitude: 4.8, source_addresses: [127.0.0.1]}
admin: {address: "off"}
access_log: {output: stdout, sample: 0.5}
shutdown_timeout: 5s
listeners: [{name: web, address: "127.0.0.1:0", protocol: http, trusted_proxies: [192.0.2.0/24], limits: {header_count: 64}}]
monitors: [{name: up, type: grpc}, {name: other, type: tcp}, {name: secure, type: https}]
pools:
  - {name: main, monitor: up, protocol: https, tls: {server_name: x.example.com}, minimum_endpoints: 0, latitude: 1, longitude: 2, endpoint_steering: {policy: maglev},
     endpoints: [{name: a, address: backend.example.com, weight: 0.5, header: {Host: [x.example.com]}}]}
load_balancers:
  - {name: www.example.com, proxied: true, default_pools: [main], fallback_pool: main, steering_policy: geo, region_pools: {WEU: [main]}, retry_budget: 0.1}
  - {name: off.example.com, enabled: false, default_pools: [main]}
`, nil},
		{"state", "state: {embedded: true}\nadmin: {address: \"off\"}\n", []string{"state"}},
		{"geography", with("geo: {databases: [city.mmdb]}\n"), nil},
		{"public addresses", with("node: {public_addresses: [192.0.2.9]}\n"), nil},
		{"DNS listener", with("listeners: [{name: d, address: \"127.0.0.1:0\", protocol: dns}]\n"), nil},
		{"DoT listener", with("listeners: [{name: d, address: \"127.0.0.1:0\", protocol: dot, certificates: [{certificate: a, key: b}]}]\n"), nil},
		{"DoH listener", with("listeners: [{name: d, address: \"127.0.0.1:0\", protocol: doh, certificates: [{certificate: a, key: b}]}]\n"), []string{"listeners[0].protocol"}},
		{"DoQ listener", with("listeners: [{name: d, address: \"127.0.0.1:0\", protocol: doq, certificates: [{certificate: a, key: b}]}]\n"), []string{"listeners[0].protocol"}},
		{"tcp listener", layer4("tcp"), []string{"listeners[0].protocol"}},
		{"udp listener", layer4("udp"), []string{"listeners[0].protocol"}},
		{"passthrough listener", layer4("tls_passthrough"), []string{"listeners[0].protocol"}},
		{"udp_icmp probe", monitor("udp_icmp"), nil},
		{"icmp_ping probe", monitor("icmp_ping"), nil},
		{"smtp probe", monitor("smtp"), nil},
		{"ldap probe", monitor("ldap"), nil},
		{"h2 pool", pool("protocol: h2"), nil},
		{"h2c pool", pool("protocol: h2c"), nil},
		{"auto pool", pool("protocol: auto"), nil},
		{"check regions", pool("check_regions: [WEU]"), []string{"pools[0].check_regions"}},
		{"load shedding", pool("load_shedding: {default_percent: 10, default_policy: hash, session_percent: 5}"), nil},
		{"balancing mode", pool("balancing_mode: rate, max_rate: 10"), []string{"pools[0].balancing_mode"}},
		{"tunnel", with("pools: [{name: main, monitor: up, endpoints: [{name: a, address: 192.0.2.1}, {name: b, address: 192.0.2.2, virtual_network: office}]}]\n"),
			[]string{"pools[0].endpoints[1].virtual_network"}},
		{"DNS only", with("load_balancers: [{name: www.example.com, default_pools: [main]}]\n"), []string{"load_balancers[0].proxied"}},
		{"DNS only in a zone", with("load_balancers: [{name: www.example.com, ttl: 60s, default_pools: [main], rules: [{name: r, condition: dns.qry.qu, overrides: {ttl: 90s}}]}]\nzones: [{name: example.com, nameservers: [ns1.example.net]}]\n"), nil},
		{"sessions by cookie", balancer("session_affinity: cookie, session_affinity_ttl: 1h, session_affinity_attributes: {samesite: strict, secure: always, zero_downtime_failover: sticky}"), nil},
		{"sessions by address", balancer("session_affinity: client_ip"), nil},
		{"sessions by headers", balancer("session_affinity: header, session_affinity_attributes: {headers: [x-user]}"), nil},
		{"draining", balancer("session_affinity: cookie, session_affinity_attributes: {drain_duration: 60s}"), nil},
		{"across pools", balancer("adaptive_routing: {failover_across_pools: true}"), nil},
		{"rules", balancer("rules: [{name: r, condition: 'http.host eq \"x\"', fixed_response: {status_code: 410}}, " +
			"{name: s, condition: 'ip.src in {192.0.2.0/24}', overrides: {steering_policy: random, session_affinity: client_ip}}]"), nil},
		{"rules by geography", balancer("rules: [{name: r, condition: 'ssl or ip.src.country eq \"NL\" or ip.src.asnum eq 1', fixed_response: {status_code: 410}}]"), nil},
		{"zones", with("zones: [{name: example.com, nameservers: [ns1.example.net]}]\n"), nil},
		{"a zone file", with("zones: [{name: example.com, file: example.zone}]\n"), nil},
		{"a signed zone", with("zones: [{name: example.com, nameservers: [ns1.example.net], dnssec: true}]\n"), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, p := range Unbuilt(declared(t, test.text)) {
				got = append(got, p.Path)
				if !strings.Contains(p.Text, ": not available in this version: ") || p.Warning {
					t.Errorf("%+v: want an error that says that it is not available, and why", p)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("Unbuilt finds %v, want %v", got, test.want)
			}
		})
	}
}
