package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairlead/internal/dnswire"
)

// hosts is a zone that endpoints have names in.
const hosts = `
zones:
  - name: example.net
    nameservers: [ns.example.org]
    records:
      - {name: both, type: A, content: 192.0.2.2}
      - {name: both, type: A, content: 192.0.2.1}
      - {name: both, type: AAAA, content: "2001:db8::1"}
      - {name: text, type: TXT, content: text}
      - {name: alias, type: CNAME, content: both}
      - {name: out, type: CNAME, content: www.example.org.}
      - {name: away, type: CNAME, content: www.sub}
      - {name: long1, type: CNAME, content: loop.child.example.net.}
      - {name: old, type: DNAME, content: new}
      - {name: x.new, type: A, content: 192.0.2.3}
      - {name: "*.wild", type: A, content: 192.0.2.4}
      - {name: sub, type: NS, content: ns.example.org.}
      - {name: steered, type: CNAME, content: www}
  - name: child.example.net
    nameservers: [ns.example.org]
    records:
      - {name: www, type: A, content: 192.0.2.5}
      - {name: loop, type: CNAME, content: long1.example.net.}
`

// The host name of an endpoint in own zones is resolved from them, or is an error.
func TestOwnHostNames(t *testing.T) {
	const text = `
pools: [{name: main, endpoints: [{name: a, address: "%s"}]}]
load_balancers: [{name: www.example.net, default_pools: [main]}, {name: web.example.net, proxied: true, default_pools: [main]}]
` + hosts
	for _, c := range []struct{ host, addresses, outside, wrong string }{
		{host: "both.example.net", addresses: "192.0.2.1 192.0.2.2 2001:db8::1"},
		{host: "BOTH.example.net", addresses: "192.0.2.1 192.0.2.2 2001:db8::1"},
		{host: "alias.example.net", addresses: "192.0.2.1 192.0.2.2 2001:db8::1"},
		{host: "x.old.example.net", addresses: "192.0.2.3"},
		{host: "a.b.wild.example.net", addresses: "192.0.2.4"},
		{host: "www.child.example.net", addresses: "192.0.2.5"},
		{host: "out.example.net", outside: "www.example.org."},
		{host: "away.example.net", outside: "www.sub.example.net."},
		{host: "x.sub.example.net", outside: "x.sub.example.net."},
		{host: "www.example.com", outside: "www.example.com"},
		{host: "www.example.net", wrong: "www.example.net. is a load balancer of its own: want the address of an endpoint"},
		{host: "steered.example.net", wrong: "www.example.net. is a load balancer of its own: want the address of an endpoint"},
		{host: "nope.example.net", wrong: `zone "example.net" does not have nope.example.net.: want a name with A or AAAA records`},
		{host: "text.example.net", wrong: `text.example.net. has no A or AAAA record in zone "example.net"`},
		{host: "long1.example.net", wrong: "more than 16 aliases lead from it, or a loop: want A or AAAA records"},
		{host: "web.example.net", wrong: `zone "example.net" does not have web.example.net.: want a name with A or AAAA records`},
	} {
		t.Run(c.host, func(t *testing.T) {
			cfg := declared(t, fmt.Sprintf(text, c.host))
			var wrong []string
			for _, p := range Zones(cfg) {
				if !p.Warning {
					wrong = append(wrong, p.Path+" "+p.Text)
				}
			}
			if c.wrong != "" {
				want := `pools[0].endpoints[0].address pool "main": endpoint "a": address "` + c.host + `": ` + c.wrong
				if len(wrong) != 1 || wrong[0] != want {
					t.Errorf("got %q, want %q", wrong, want)
				}
				return
			}
			if len(wrong) > 0 {
				t.Fatal(wrong)
			}
			tab := tables(t)
			p, err := Compile(cfg, nil, tab)
			if err != nil {
				t.Fatal(err)
			}
			name := p.Endpoints[0].ResolvedName()
			if c.outside != "" {
				if name.Host != c.outside {
					t.Errorf("%s is asked for, want %s", name.Host, c.outside)
				}
				return
			}
			if got := strings.Trim(fmt.Sprint(name.Addresses()), "[]"); got != c.addresses {
				t.Errorf("got %s, want %s", got, c.addresses)
			}
			if n := tab.Resolver.Stats().Names; n != 0 {
				t.Errorf("%d names are looked up", n)
			}
			// Those who hold the name see no change where there is none.
			next, err := Compile(cfg, p, tab)
			if err != nil {
				t.Fatal(err)
			}
			if next.Endpoints[0].ResolvedName() != name {
				t.Error("the next plan has another name")
			}
		})
	}
}

// Each name leads to its own load balancer, whatever their order in the file, which
// alone changes no zone.
func TestSteeredNames(t *testing.T) {
	const text = `
node: {public_addresses: [192.0.2.90]}
pools: [{name: main, endpoints: [{name: a, address: 192.0.2.1}]}]
load_balancers: [%s]
zones:
  - {name: example.com, nameservers: [ns.example.org]}
  - {name: sub.example.com, nameservers: [ns.example.org]}
`
	balancers := []string{
		"{name: WWW.example.com, default_pools: [main]}", "{name: example.com, default_pools: [main]}",
		`{name: "*.example.com", default_pools: [main]}`, "{name: www.sub.example.com, default_pools: [main]}",
		"{name: web.example.com, proxied: true, default_pools: [main]}",
		"{name: off.example.com, enabled: false, default_pools: [main]}", "{name: www.example.org, default_pools: [main]}",
	}
	tab := tables(t)
	var before *Plan
	for range 3 {
		balancers = append(balancers[2:], balancers[:2]...)
		p, err := Compile(declared(t, fmt.Sprintf(text, strings.Join(balancers, ","))), before, tab)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range [][]string{{"*.example.com", "example.com", "web.example.com", "www.example.com"}, {"www.sub.example.com"}} {
			z := p.Zones[i]
			var got []string
			for n := range z.Nodes() {
				if n.Steered == 0 {
					continue
				}
				b := z.Steered[n.Steered-1]
				if name, _ := dnswire.ParseName(b.Name, dnswire.Root); name != n.Name {
					t.Errorf("%s leads to %s", n.Name, b.Name)
				}
				got = append(got, b.Name)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", z.Name, got, want)
			}
			if before != nil && before.Zones[i].Zone != z.Zone {
				t.Errorf("%s has changed", z.Name)
			}
		}
		before = p
	}
}

func TestAnswering(t *testing.T) {
	const text = `
%s
pools:
  - {name: main, latitude: 1, longitude: 1, endpoints: [{name: a, address: www.example.org, flatten_cname: %s}]}
  - {name: other, latitude: 1, longitude: 1, endpoints: [{name: a, address: www.example.org, flatten_cname: false}]}
load_balancers: [{name: www.example.com, default_pools: [main], %s}]
zones: [{name: example.com, nameservers: [ns.example.org]}]
`
	const databases = "geo: {databases: [city.mmdb]}"
	for _, c := range []struct {
		name, head, flatten, settings string
		want                          Answering
	}{
		{"as it is", "", "true", "ttl: 30s", Answering{TTL: 30}},
		{"with databases", databases, "true", "ttl: 60s", Answering{TTL: 60, Resolver: true}},
		{"with databases, by PoP", databases, "true", "location_strategy: {mode: pop}", Answering{TTL: 30}},
		{"ip_cookie", "", "true", "session_affinity: ip_cookie", Answering{TTL: 30, ByClient: true}},
		{"cookie", "", "true", "session_affinity: cookie", Answering{TTL: 30}},
		{"header", "", "true", "session_affinity: header, session_affinity_attributes: {headers: [x-user]}", Answering{TTL: 30}},
		{"aliases", "", "false", "ttl: 30s", Answering{TTL: 30, Aliases: true}},
		{"aliases by a rule", "", "true", "rules: [{name: r, condition: dns.qry.qu, overrides: {default_pools: [other]}}]", Answering{TTL: 30, Aliases: true}},
		{"proxied", "", "false", "proxied: true", Answering{TTL: 300}},
		{"proximity", "", "true", "steering_policy: proximity", Answering{TTL: 30, ECS: true}},
		{"proximity, never", "", "true", "steering_policy: proximity, location_strategy: {prefer_ecs: never}", Answering{TTL: 30}},
		{"geo", "", "true", "steering_policy: geo", Answering{TTL: 30}},
		{"geo by country", "", "true", "steering_policy: geo, location_strategy: {prefer_ecs: geo}", Answering{TTL: 30, ECS: true, CountryOnly: true}},
		{"geo, always", "", "true", "steering_policy: geo, location_strategy: {prefer_ecs: always}", Answering{TTL: 30, ECS: true}},
		{"failover, always", "", "true", "location_strategy: {prefer_ecs: always}", Answering{TTL: 30}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := compiled(t, fmt.Sprintf(text, c.head, c.flatten, c.settings), 1, tables(t))
			if got := p.LoadBalancers[0].Answering; got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			if a := p.LoadBalancers[0].Affinity; a != nil && !p.LoadBalancers[0].Proxied {
				t.Errorf("sessions of kind %s", a.Kind)
			}
		})
	}
	b := compiled(t, fmt.Sprintf(text, "", "true", "rules: [{name: r, condition: dns.qry.qu, overrides: {ttl: 9s, session_affinity: ip_cookie, location_strategy: {prefer_ecs: geo}, steering_policy: geo}}]"), 1, tables(t)).LoadBalancers[0]
	if got, want := b.With(AppendOverride(nil, &b.Rules[0])).Answering, (Answering{TTL: 9, ByClient: true, ECS: true, CountryOnly: true}); got != want {
		t.Errorf("by a rule %+v, want %+v", got, want)
	}
}

// What is declared for a steered name and has no effect, or leads past it, is told.
func TestSteeredWarnings(t *testing.T) {
	const text = `
pools: [{name: main, endpoints: [{name: a, address: www.example.org, flatten_cname: false}]}, {name: flat, endpoints: [{name: a, address: 192.0.2.1}]}]
load_balancers:
  - {name: www.example.com, default_pools: [main]}
  - {name: text.example.com, default_pools: [main, flat]}
  - {name: example.com, default_pools: [flat], fallback_pool: main}
  - {name: hint.example.com, default_pools: [flat]}
  - {name: off.example.com, default_pools: [main], enabled: false}
zones:
  - name: example.com
    nameservers: [ns.example.org]
    records:
      - {name: text, type: TXT, content: text}
      - {name: hint, type: HTTPS, content: '1 . alpn="h2" ipv4hint=192.0.2.1'}
      - {name: off, type: HTTPS, content: '1 . alpn="h2" ipv6hint=2001:db8::1'}
      - {name: www, type: A, content: 192.0.2.9}
`
	var got []string
	for _, p := range Zones(declared(t, text)) {
		if !p.Warning {
			t.Errorf("%v: want a warning", p)
		}
		got = append(got, p.Path+": "+p.Text)
	}
	want := []string{
		`load_balancers[1]: load balancer "text.example.com": pool "main" has endpoints with flatten_cname: false, but text.example.com. has other records, beside which there is no alias: their addresses are answered`,
		`load_balancers[2]: load balancer "example.com": pool "main" has endpoints with flatten_cname: false, but the name is that of the zone, which cannot be an alias: their addresses are answered`,
		`load_balancers[3]: load balancer "hint.example.com": the HTTPS record of hint.example.com. has address hints: clients that follow them go past the load balancer`,
		`zones[0].records[3]: zone "example.com": www.example.com. A: not used, as the load balancer of this name answers`,
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
