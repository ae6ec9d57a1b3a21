package plan

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead/internal/health"
	"fairlead/internal/load"
	"fairlead/internal/model"
)

const compileFile = `
node: {name: n, pop: AMS, region: WEU, country: NL, latitude: 0, longitude: 90, source_addresses: [127.0.0.1]}
listeners:
  - {name: web, address: "127.0.0.1:8080", protocol: http}
  - {name: all, address: ":8081", protocol: http}
  - {name: six, address: "[::1]:0", protocol: http}
monitors:
  - {name: up, type: http, port: 9100}
pools:
  - name: main
    monitor: up
    latitude: 0
    longitude: 0
    minimum_endpoints: 2
    profile_warm_up: 1m
    connect_timeout: 1s
    answer_timeout: 2s
    idle_timeout: 3s
    max_idle_connections: 4
    endpoints:
      - {name: a, address: 192.0.2.1}
      - {name: b, address: "192.0.2.1:8080", weight: 0.5}
      - {name: c, address: "2001:DB8::1", enabled: false}
      - {name: d, address: "Backend.Example.COM:9000", weight: 0, header: {Host: ["shop.example.com:8443"]}}
  - name: secure
    monitor: up
    protocol: https
    tls: {server_name: named.example.com}
    endpoint_steering: {policy: round_robin}
    endpoints:
      - {name: a, address: backend.example.com}
      - {name: b, address: "[2001:db8::2]:8443"}
  - name: sni
    protocol: https
    endpoint_steering: {policy: maglev}
    endpoints:
      - {name: host, address: backend.example.com}
      - {name: header, address: 192.0.2.1, header: {Host: ["shop.example.com:8443"]}}
      - {name: address, address: 192.0.2.2}
  - name: "off"
    monitor: up
    enabled: false
    endpoint_steering: {policy: ring_hash}
    endpoints: [{name: a, address: 192.0.2.1}]
load_balancers:
  - name: WWW.Example.com.
    proxied: true
    default_pools: [secure, main]
    fallback_pool: "off"
    steering_policy: random
    random_steering: {default_weight: 0.25, pool_weights: {main: 0.75}}
    retry_budget: 0.5
  - name: off.example.com
    enabled: false
    proxied: true
    default_pools: [main]
  - name: geo.example.com
    proxied: true
    default_pools: [main]
    region_pools: {WEU: [secure, main]}
    country_pools: {NL: [main]}
    pop_pools: {AMS: ["off", secure]}
  - name: zero.example.com
    proxied: true
    default_pools: [main, secure]
    steering_policy: random
    random_steering: {default_weight: 0}
`

func poolNames(pools []*Pool) string {
	var names []string
	for _, p := range pools {
		names = append(names, p.Name)
	}
	return strings.Join(names, " ")
}

// Everything is found where its index says, and nothing is in two places.
func TestCompileIndexes(t *testing.T) {
	p := compiled(t, compileFile, 7, tables(t))
	if p.Revision != 7 || p.Config == nil {
		t.Errorf("Revision %d, Config %v, want 7 and the model", p.Revision, p.Config)
	}
	if got, want := poolNames(p.Pools), "main secure sni off"; got != want {
		t.Fatalf("Pools = %s, want %s", got, want)
	}
	next := 0
	for i, pool := range p.Pools {
		if pool.Index != i {
			t.Errorf("Pools[%d].Index = %d", i, pool.Index)
		}
		for slot, e := range pool.Endpoints {
			if e.Index != next || p.Endpoints[next] != e || e.Slot != slot || e.Pool != pool {
				t.Errorf("%s/%s: Index %d, Slot %d, want %d, %d", pool.Name, e.Name, e.Index, e.Slot, next, slot)
			}
			next++
		}
	}
	if len(p.Endpoints) != next {
		t.Errorf("%d endpoints, want %d", len(p.Endpoints), next)
	}
	var names []string
	for i, b := range p.LoadBalancers {
		names = append(names, b.Name)
		if b.Index != i {
			t.Errorf("LoadBalancers[%d].Index = %d", i, b.Index)
		}
	}
	if want := []string{"www.example.com", "geo.example.com", "zero.example.com"}; !slices.Equal(names, want) {
		t.Errorf("LoadBalancers = %v, want %v: those that are enabled, in canonical form", names, want)
	}
	if want := (Place{PoP: "AMS", Country: "NL", Region: "WEU", Position: p.Node.Position}); p.Node != want {
		t.Errorf("Node = %+v, want %+v", p.Node, want)
	}
}

func TestCompileEndpoints(t *testing.T) {
	p := compiled(t, compileFile, 1, tables(t))
	type row struct{ key, address, name, host, server string }
	want := map[string]row{
		"main/a": {"192.0.2.1:80", "192.0.2.1:80", "", "", "192.0.2.1"},
		"main/b": {"192.0.2.1:8080", "192.0.2.1:8080", "", "", "192.0.2.1"},
		"main/c": {"[2001:db8::1]:80", "[2001:db8::1]:80", "", "", "2001:DB8::1"},
		"main/d": {"backend.example.com:9000", "", "backend.example.com", "shop.example.com:8443", "shop.example.com"},
		// The pool's server name, the port of the protocol.
		"secure/a": {"backend.example.com:443", "", "backend.example.com", "", "named.example.com"},
		"secure/b": {"[2001:db8::2]:8443", "[2001:db8::2]:8443", "", "", "named.example.com"},
		// Without one: that of the endpoint's Host, else the address.
		"sni/host":    {"backend.example.com:443", "", "backend.example.com", "", "backend.example.com"},
		"sni/header":  {"192.0.2.1:443", "192.0.2.1:443", "", "shop.example.com:8443", "shop.example.com"},
		"sni/address": {"192.0.2.2:443", "192.0.2.2:443", "", "", "192.0.2.2"},
		"off/a":       {"192.0.2.1:80", "192.0.2.1:80", "", "", "192.0.2.1"},
	}
	hashes := make(map[string]uint64)
	for _, e := range p.Endpoints {
		at := e.Pool.Name + "/" + e.Name
		got := row{key: e.Key, host: e.Host, server: e.ServerName}
		if n := e.ResolvedName(); n != nil {
			got.name = strings.ToLower(n.Host)
			if a, ok := e.Address(); ok {
				t.Errorf("%s: Address() = %v before the name was looked up", at, a)
			}
		} else if a, ok := e.Address(); ok {
			got.address = a.String()
		}
		if got != want[at] {
			t.Errorf("%s = %+v, want %+v", at, got, want[at])
		}
		if h, seen := hashes[e.Key]; seen && h != e.Hash || e.Hash == 0 {
			t.Errorf("%s: Hash = %d: want one hash for one key", at, e.Hash)
		}
		hashes[e.Key] = e.Hash
	}
	if len(p.Endpoints) != len(want) {
		t.Errorf("%d endpoints, want %d", len(p.Endpoints), len(want))
	}
}

func TestCompilePools(t *testing.T) {
	p := compiled(t, compileFile, 1, tables(t))
	main, secure, sni, off := p.Pools[0], p.Pools[1], p.Pools[2], p.Pools[3]

	if main.ConnectTimeout != time.Second || main.AnswerTimeout != 2*time.Second || main.IdleTimeout != 3*time.Second ||
		main.MaxIdle != 4 || main.WarmUp != time.Minute {
		t.Errorf("pool main: settings are not those declared: %+v", main)
	}
	if main.TLS || !secure.TLS || secure.TLSFiles.ServerName != "named.example.com" {
		t.Errorf("TLS = %v, %v, %+v, want http, https and the declared files", main.TLS, secure.TLS, secure.TLSFiles)
	}
	if !main.Enabled || off.Enabled {
		t.Errorf("Enabled = %v, %v, want true, false", main.Enabled, off.Enabled)
	}
	if main.Health.Minimum() != 2 || main.Health.EnabledCount() != 3 {
		t.Errorf("Health: minimum %d of %d, want 2 of 3", main.Health.Minimum(), main.Health.EnabledCount())
	}

	// Each policy has its own table, with the enabled endpoints of weight
	// above 0; random drawing, which is also the last resort of hashing, has
	// one everywhere.
	if main.Table.Len() != 2 || main.Rotation != nil || main.Ring != nil || main.Maglev != nil {
		t.Errorf("pool main (random): Table of %d, Rotation %v, Ring %v, Maglev %v: want a table of 2", main.Table.Len(), main.Rotation, main.Ring, main.Maglev)
	}
	for r := range uint64(1000) {
		if slot := main.Table.Pick(r * (math.MaxUint64 / 1000)); slot > 1 {
			t.Fatalf("pool main: drew slot %d, which is disabled or has weight 0", slot)
		}
	}
	if secure.Rotation.Len() != 2 || secure.Maglev != nil {
		t.Errorf("pool secure (round_robin): rotation of %d, want 2", secure.Rotation.Len())
	}
	if sni.Maglev.Len() != 65_537 || sni.Rotation != nil {
		t.Errorf("pool sni (maglev): table of %d, want 65537", sni.Maglev.Len())
	}
	if off.Ring.Len() < minRing {
		t.Errorf("pool off (ring_hash): ring of %d points, want %d at least", off.Ring.Len(), minRing)
	}
}

// A pool all of whose endpoints weigh nothing has no table; what has none is
// nil and not a table of nothing.
func TestCompilePoolWithoutWeights(t *testing.T) {
	for _, policy := range model.EndpointPolicy("").Values() {
		p := compiled(t, `
pools: [{name: main, endpoint_steering: {policy: `+policy+`}, endpoints: [{name: a, address: 192.0.2.1, weight: 0}, {name: b, address: 192.0.2.2, enabled: false}]}]
`, 1, tables(t)).Pools[0]
		if p.Table != nil || p.Rotation != nil || p.Ring != nil || p.Maglev != nil {
			t.Errorf("%s: Table %v, Rotation %v, Ring %v, Maglev %v: want none", policy, p.Table, p.Rotation, p.Ring, p.Maglev)
		}
	}
}

func TestCompileLoadBalancers(t *testing.T) {
	p := compiled(t, compileFile, 1, tables(t))
	www, geo, zero := p.LoadBalancers[0], p.LoadBalancers[1], p.LoadBalancers[2]

	if got := poolNames(www.Default); got != "secure main" || www.Fallback != p.Pools[3] || www.Policy != model.SteerRandom || www.RetryBudget != .5 {
		t.Errorf("www: pools %s, fallback %v, policy %s, retry budget %v", got, www.Fallback, www.Policy, www.RetryBudget)
	}
	if want := []float64{.25, .75}; !slices.Equal(www.Weights, want) || www.Table.Len() != 2 {
		t.Errorf("www: weights %v, table of %d: want %v by position and 2", www.Weights, www.Table.Len(), want)
	}
	if geo.Policy != model.SteerGeo || geo.Fallback != nil {
		t.Errorf("geo: policy %s, fallback %v, want geo, since it has lists, and none", geo.Policy, geo.Fallback)
	}
	for what, pools := range map[string][]*Pool{
		"secure main": geo.Regions["WEU"], "main": geo.Countries["NL"], "off secure": geo.PoPs["AMS"],
	} {
		if got := poolNames(pools); got != what {
			t.Errorf("geo: list %s, want %s", got, what)
		}
	}
	if zero.Table != nil || !slices.Equal(zero.Weights, []float64{0, 0}) {
		t.Errorf("zero: weights %v, table %v, want no table", zero.Weights, zero.Table)
	}
}

func TestCompileTargets(t *testing.T) {
	p := compiled(t, compileFile, 1, tables(t))
	got := make(map[string]health.Target)
	for _, target := range p.Targets {
		got[target.Key.Pool+"/"+target.Key.Endpoint] = target
	}
	// Neither what is disabled nor what has no monitor is probed; weight 0 is.
	for _, name := range []string{"main/a", "main/b", "main/d", "secure/a", "secure/b"} {
		if _, ok := got[name]; !ok {
			t.Errorf("%s is not probed", name)
		}
	}
	if len(got) != 5 || len(p.Targets) != 5 {
		t.Errorf("%d targets: %v, want 5", len(p.Targets), p.Targets)
	}
	b := got["main/b"]
	if b.Host != "192.0.2.1" || b.Port != 8080 || b.Name != nil || b.Monitor.Port != 9100 || b.TLS ||
		b.Endpoint != p.Endpoints[1].Health || !slices.Equal(b.SourceAddresses, []netip.Addr{netip.MustParseAddr("127.0.0.1")}) {
		t.Errorf("target main/b = %+v: want the endpoint's own host and port beside the monitor, from the node's address", b)
	}
	if d := got["main/d"]; d.Name != p.Endpoints[3].ResolvedName() || d.HostHeader != "shop.example.com:8443" {
		t.Errorf("target main/d = %+v: want the endpoint's name and Host", d)
	}
	if a := got["secure/a"]; !a.TLS || a.ServerName != "named.example.com" || a.Port != 443 {
		t.Errorf("target secure/a = %+v: want TLS with the pool's server name", a)
	}
}

// TestCompileTargetZone: a monitor that simulates requests asks by the pool's
// protocol, for the name that clients of the pool ask for.
func TestCompileTargetZone(t *testing.T) {
	const balancers = `
load_balancers:
  - {name: off.example.com, enabled: false, proxied: true, default_pools: [main]}
  - {name: dns.example.com, default_pools: [main]}
  - {name: "*.example.com", proxied: true, default_pools: [main]}
  - {name: other.example.com, proxied: true, default_pools: [other]}
  - {name: WWW.example.com., proxied: true, default_pools: [other], rules: [{name: r, condition: ssl, overrides: {default_pools: [main]}}]}
`
	for _, c := range []struct {
		name, monitor, pool string
		protocol            model.PoolProtocol
		zone                string
	}{
		{"h2c", "simulate_zone: true", "protocol: h2c", model.PoolH2C, "www.example.com"},
		{"http", "simulate_zone: true", "protocol: http", model.PoolHTTP, "www.example.com"},
		{"auto", "simulate_zone: true, type: https", "protocol: auto", model.PoolAuto, "www.example.com"},
		{"not simulated", "simulate_zone: false", "protocol: h2c", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := compiled(t, "monitors: [{name: up, "+c.monitor+"}]\npools:\n  - {name: main, monitor: up, "+c.pool+
				", endpoints: [{name: a, address: 192.0.2.1}]}\n  - {name: other, endpoints: [{name: a, address: 192.0.2.2}]}\n"+balancers, 1, tables(t))
			if got := p.Targets[0]; got.Protocol != c.protocol || got.Zone != c.zone {
				t.Errorf("the probe asks by %q for %q, want %q, %q", got.Protocol, got.Zone, c.protocol, c.zone)
			}
		})
	}
}

// TestCompileTargetGroup: each enabled member of a group probes each endpoint,
// those of one endpoint beside each other.
func TestCompileTargetGroup(t *testing.T) {
	p := compiled(t, `
monitors: [{name: a}, {name: b, type: tcp}, {name: c, type: icmp_ping}, {name: d}]
monitor_groups:
  - name: g
    members:
      - {monitor: a, must_be_healthy: true}
      - {monitor: b}
      - {monitor: d, enabled: false}
      - {monitor: c, monitoring_only: true}
pools:
  - {name: main, monitor_group: g, endpoints: [{name: x, address: 192.0.2.1}, {name: y, address: 192.0.2.2}, {name: z, address: 192.0.2.3, enabled: false}]}
`, 1, tables(t))
	var got []string
	for _, target := range p.Targets {
		got = append(got, fmt.Sprintf("%s by %s %s %v %v", target.Key.Endpoint, target.Member, target.Monitor.Type, target.MustBeHealthy, target.MonitoringOnly))
	}
	want := []string{
		"x by a http true false", "x by b tcp false false", "x by c icmp_ping false true",
		"y by a http true false", "y by b tcp false false", "y by c icmp_ping false true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("targets = %q, want %q", got, want)
	}
	if v := p.Endpoints[0].Health.Verdict(); v != health.Unknown {
		t.Errorf("verdict = %v, want unknown: a monitor is attached", v)
	}
}

// TestCompileTargetServerName: a probe asks for the name that traffic asks
// for, and its monitor's Host says nothing of it where traffic speaks TLS.
func TestCompileTargetServerName(t *testing.T) {
	const monitor = `{name: up, type: https, header: {Host: [monitor.example.com]}}`
	for _, c := range []struct {
		name, pool, endpoint string
		want                 string
	}{
		{"address", "protocol: https", "address: backend.example.com", "backend.example.com"},
		{"IP address", "protocol: https", `address: "[2001:db8::2]:8443"`, "2001:db8::2"},
		{"endpoint's Host", "protocol: https", `address: 192.0.2.1, header: {Host: ["shop.example.com:8443"]}`, "shop.example.com"},
		{"pool's name", "protocol: https, tls: {server_name: named.example.com}", `address: 192.0.2.1, header: {Host: [shop.example.com]}`, "named.example.com"},
		{"pool without TLS", "protocol: http", "address: backend.example.com", ""},
		{"pool with certificates for probes alone", "protocol: http, tls: {server_name: named.example.com}", "address: backend.example.com", "named.example.com"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := compiled(t, "monitors: ["+monitor+"]\npools: [{name: main, monitor: up, "+c.pool+", endpoints: [{name: a, "+c.endpoint+"}]}]\n", 1, tables(t))
			got, e := p.Targets[0], p.Endpoints[0]
			if got.ServerName != c.want {
				t.Errorf("the probe asks for %q, want %q", got.ServerName, c.want)
			}
			if got.TLS && got.ServerName != e.ServerName {
				t.Errorf("the probe asks for %q, traffic for %q", got.ServerName, e.ServerName)
			}
			if got.HostHeader != e.Host {
				t.Errorf("the probe's Host is %q, want the endpoint's own, %q", got.HostHeader, e.Host)
			}
		})
	}
}

func TestCompileListeners(t *testing.T) {
	p := compiled(t, compileFile, 1, tables(t))
	for i, want := range []string{"127.0.0.1:8080", "invalid AddrPort", "[::1]:0"} {
		if got := p.Listeners[i].Bind.String(); got != want {
			t.Errorf("listener %s binds %s, want %s", p.Listeners[i].Name, got, want)
		}
	}
	if got := p.Listeners[1].Bind.Port(); got != 8081 {
		t.Errorf("listener all binds port %d, want 8081 on every address", got)
	}
	if a, err := bindAddress("localhost:80"); err != nil || !a.Addr().IsLoopback() || a.Port() != 80 {
		t.Errorf("bindAddress(localhost:80) = %v, %v, want a loopback address", a, err)
	}
	for _, wrong := range []string{"", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:65536", "127.0.0.1:-1"} {
		if a, err := bindAddress(wrong); err == nil {
			t.Errorf("bindAddress(%q) = %v, want an error", wrong, a)
		}
	}
}

// Positions are points on the unit sphere, so that the dot product orders by
// distance; one that is not known is none of them.
func TestPosition(t *testing.T) {
	at := func(latitude, longitude float64) Position { return position(&latitude, &longitude) }
	near := func(a, b Position) bool {
		return math.Abs(a.X-b.X) < 1e-12 && math.Abs(a.Y-b.Y) < 1e-12 && math.Abs(a.Z-b.Z) < 1e-12
	}
	for _, test := range []struct {
		latitude, longitude float64
		want                Position
	}{
		{0, 0, Position{X: 1, Y: 0, Z: 0}},
		{0, 90, Position{X: 0, Y: 1, Z: 0}},
		{0, -90, Position{X: 0, Y: -1, Z: 0}},
		{0, 180, Position{X: -1, Y: 0, Z: 0}},
		{90, 0, Position{X: 0, Y: 0, Z: 1}},
		{-90, 45, Position{X: 0, Y: 0, Z: -1}},
	} {
		if got := at(test.latitude, test.longitude); !near(got, test.want) {
			t.Errorf("position(%v, %v) = %v, want %v", test.latitude, test.longitude, got, test.want)
		}
	}
	if got := position(nil, nil); got != (Position{}) {
		t.Errorf("position of nothing = %v, want the zero value", got)
	}
	// Paris lies 344 km from London and 5,837 km from New York.
	dot := func(a, b Position) float64 { return a.X*b.X + a.Y*b.Y + a.Z*b.Z }
	paris, london, newYork := at(48.8566, 2.3522), at(51.5074, -0.1278), at(40.7128, -74.0060)
	for _, test := range []struct {
		to   Position
		want float64
	}{{london, 344}, {newYork, 5837}} {
		if got := math.Acos(dot(paris, test.to)) * 6371; math.Abs(got-test.want) > 2 {
			t.Errorf("distance %v km, want %v", got, test.want)
		}
	}
}

// What is observed of an endpoint that stays is found again by the next plan:
// its verdict, its latency and its counts. The same name at another address is
// another endpoint; a changed weight or monitor is not.
func TestReloadKeepsWhatIsObserved(t *testing.T) {
	tab := tables(t)
	const file = `
monitors: [{name: up, interval: 5s}, {name: other, interval: 9s}]
pools:
  - name: main
    monitor: MONITOR
    endpoints: [{name: a, address: 192.0.2.1, weight: WEIGHT}, {name: b, address: ADDRESS}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [main]}]
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
`
	text := func(monitor, weight, address string) string {
		return strings.NewReplacer("MONITOR", monitor, "WEIGHT", weight, "ADDRESS", address).Replace(file)
	}
	old := compiled(t, text("up", "1", "192.0.2.2"), 1, tab)
	now := time.Unix(1_700_000_000, 0)
	for _, e := range old.Endpoints {
		tab.Health.RecordForTest(e.Health, health.Healthy, health.Result{RTT: 5 * time.Millisecond}, now)
		e.Load.RequestStarted()
	}
	old.Pools[0].Load.RequestStarted()

	next := compiled(t, text("other", "0.5", "192.0.2.3"), 2, tab)
	a, b := next.Endpoints[0], next.Endpoints[1]
	if a.Health != old.Endpoints[0].Health || a.Load != old.Endpoints[0].Load || next.Pools[0].Load != old.Pools[0].Load {
		t.Error("endpoint a: its health, its counts or those of its pool were not kept")
	}
	if a.Health.Verdict() != health.Healthy || a.Load.Requests() != 1 || next.Pools[0].Load.Requests() != 1 {
		t.Errorf("endpoint a: %v with %d open, want healthy with 1", a.Health.Verdict(), a.Load.Requests())
	}
	if next.Pools[0].Health.Profile() != old.Pools[0].Health.Profile() {
		t.Error("pool main: its latency profile was not kept")
	}
	if b.Health == old.Endpoints[1].Health || b.Load == old.Endpoints[1].Load || b.Health.Verdict() != health.Unknown || b.Load.Requests() != 0 {
		t.Error("endpoint b: has another address, so nothing is known of it")
	}
	if got := next.Pools[0].Health; !got.Up(0) || got.Up(1) || got == old.Pools[0].Health {
		t.Errorf("pool main: up %v, %v, want its own view, in which a is up", got.Up(0), got.Up(1))
	}
	// The plan before is still read by requests in flight, and stays current.
	tab.Health.RecordForTest(a.Health, health.Unhealthy, health.Result{Failure: health.FailureRefused}, now)
	if old.Pools[0].Health.Up(0) || next.Pools[0].Health.Up(0) {
		t.Error("a verdict did not reach the views of both plans")
	}
}

// Compiling changes nothing that is in use, so that a plan may be thrown away.
func TestCompileHasNoEffect(t *testing.T) {
	tab := tables(t)
	old := compiled(t, compileFile, 1, tab)
	tab.Health.Keep(views(old), nil)
	before := tab.Health.Snapshot()
	compiled(t, strings.ReplaceAll(compileFile, "monitor: up", "monitor: \"\""), 2, tab)
	tab.Health.Keep(views(old), nil)
	after := tab.Health.Snapshot()
	if len(before.Endpoints) != len(after.Endpoints) {
		t.Fatalf("%d endpoints, then %d", len(before.Endpoints), len(after.Endpoints))
	}
	for i := range before.Endpoints {
		if b, a := before.Endpoints[i], after.Endpoints[i]; b.Key != a.Key || b.Verdict != a.Verdict {
			t.Errorf("%v was %v and is %v", b.Key, b.Verdict, a.Verdict)
		}
	}
	if got := tab.Load.Counter(load.Key{Pool: "main"}); got != old.Pools[0].Load {
		t.Error("the counter of pool main was replaced")
	}
}

func views(p *Plan) []*health.Pool {
	var list []*health.Pool
	for _, pool := range p.Pools {
		list = append(list, pool.Health)
	}
	return list
}

func TestCompileNamesWhatCannotBeRead(t *testing.T) {
	c := declared(t, `
pools: [{name: secure, protocol: https, tls: {ca: no-such.pem}, endpoints: [{name: a, address: 192.0.2.1}]}]
`)
	_, err := Compile(c, nil, tables(t))
	if err == nil || !strings.HasPrefix(err.Error(), `pool "secure": `) || !strings.Contains(err.Error(), "no-such.pem") {
		t.Errorf("Compile = %v, want an error that names the pool and the file", err)
	}
}
