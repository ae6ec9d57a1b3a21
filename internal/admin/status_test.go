package admin

import (
	"encoding/json"
	"flag"
	"log/slog"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairlead/internal/health"
	"fairlead/internal/load"
	"fairlead/internal/model"
	"fairlead/internal/plan"
	"fairlead/internal/resolve"
	"fairlead/internal/telemetry"
)

var update = flag.Bool("update", false, "write testdata/status.json again")

func quiet(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// node is a process with a plan, its tables, and a server that shows them.
type node struct {
	*Server
	plan     *plan.Plan
	health   *health.Table
	registry *telemetry.Registry
	ready    bool
	reason   string
	reloads  ReloadStatus
}

// endpoint declares an enabled endpoint.
func endpointAt(name, address string) model.Endpoint {
	e := model.Endpoint{Name: name, Address: address}
	e.SetDefaults()
	return e
}

func pool(name, monitor string, endpoints ...model.Endpoint) model.Pool {
	p := model.Pool{Name: name}
	p.SetDefaults()
	p.Monitor, p.Endpoints = monitor, endpoints
	return p
}

// newNode compiles a configuration in which every state occurs once checks
// have been recorded; see observe.
func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{health: health.NewTable(quiet(t)), registry: telemetry.NewRegistry(), ready: true}
	n.registry.Log = quiet(t)
	monitor := model.Monitor{Name: "up"}
	monitor.SetDefaults()
	off := endpointAt("off", "192.0.2.9")
	off.Enabled, off.Weight = false, 0
	disabled := pool("spare", "", endpointAt("a", "192.0.2.30:81"))
	disabled.Enabled = false
	lb := func(name, fallback string, pools ...string) model.LoadBalancer {
		b := model.LoadBalancer{Name: name, DefaultPools: pools, FallbackPool: fallback}
		b.SetDefaults()
		b.Proxied = true
		return b
	}
	geo := lb("geo.example.com", "", "local")
	geo.RegionPools = map[model.Region][]string{"WEU": {"eu", "local"}, "ENAM": {"down"}}
	c := &model.Config{
		Node:     model.Node{Name: "ams1", PoP: "AMS", Region: "WEU", Country: "NL"},
		Monitors: []model.Monitor{monitor},
		Pools: []model.Pool{
			pool("eu", "up", endpointAt("eu-1", "192.0.2.1:8080"), endpointAt("eu-2", "app.localhost:8080"), off),
			pool("down", "up", endpointAt("a", "[2001:db8::1]:80")),
			pool("local", "", endpointAt("a", "127.0.0.1")),
			disabled,
		},
		LoadBalancers: []model.LoadBalancer{
			lb("www.example.com", "local", "eu", "down", "spare"), lb("down.example.com", "local", "down"), lb("Local.example.com.", "", "local"), geo,
		},
	}
	loads := &load.Table{}
	resolver := resolve.New(resolve.Config{})
	t.Cleanup(resolver.Close)
	p, err := plan.Compile(c, &plan.Plan{Revision: 2}, plan.Tables{Health: n.health, Load: loads, Resolver: resolver})
	if err != nil {
		t.Fatal(err)
	}
	views := make([]*health.Pool, len(p.Pools))
	for i := range p.Pools {
		views[i] = p.Pools[i].Health
	}
	n.health.Keep(views, nil)
	n.plan = p
	n.reloads = ReloadStatus{File: "fairlead.yaml", Applied: time.Now(), Tried: time.Now(), Reloads: 2}
	started := time.Now()
	n.Server = New(Config{
		Address: "127.0.0.1:0", Log: quiet(t), Registry: n.registry, Version: "v1.2.3", Started: started,
		Plan:   func() *plan.Plan { return n.plan },
		Ready:  func() (bool, string) { return n.ready, n.reason },
		Health: n.health,
		Listeners: func() []ListenerStatus {
			return []ListenerStatus{{Name: "web", Address: "0.0.0.0:8080", Protocol: model.ListenerHTTP, OpenConnections: 12}}
		},
		Reloads: func() ReloadStatus { return n.reloads },
		Databases: func() []DatabaseStatus {
			return []DatabaseStatus{{File: "country.mmdb", Type: "Test", Built: started, Loaded: started, Facts: []string{"country"}, Error: "no such file or directory", LookupFailures: 1, Reloads: 2, Refusals: 3}}
		},
		Probes: func() health.Stats {
			return health.Stats{Targets: 3, InFlight: 1, Probes: map[string]uint64{"No failures": 5}}
		},
		Lookups: resolver.Stats,
	})
	return n
}

// observe records checks: eu-1 is healthy, eu-2 and down/a are not.
func (n *node) observe() {
	record := func(e *plan.Endpoint, v health.Verdict, r health.Result) {
		n.health.RecordForTest(e.Health, v, r, time.Now())
	}
	eu, down := n.plan.Pools[0], n.plan.Pools[1]
	record(eu.Endpoints[0], health.Healthy, health.Result{Code: 200, RTT: 1500 * time.Microsecond})
	time.Sleep(time.Second)
	record(eu.Endpoints[1], health.Unhealthy, health.Result{Failure: health.FailureCode, Cause: "503: want 2xx", Code: 503})
	refused := health.Result{Failure: health.FailureRefused, Cause: `monitor "up": connect: connection refused`}
	n.health.RecordGroupForTest(down.Endpoints[0].Health, health.Unhealthy, refused, []health.MonitorDetail{
		{Monitor: "up", MustBeHealthy: true, Verdict: health.Unhealthy, Since: time.Now(), Checked: time.Now(), Failure: refused.Failure, Cause: "connect: connection refused"},
		{Monitor: "ping", MonitoringOnly: true, Verdict: health.Healthy, Since: time.Now(), Checked: time.Now(), RTT: 250 * time.Microsecond},
		{Monitor: "slow"},
	}, time.Now())
	eu.Load.RequestStarted()
	eu.Endpoints[0].Load.RequestStarted()
	eu.Endpoints[0].Load.ConnectionOpened()
	eu.Load.ConnectionOpened()
}

func (n *node) get(path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", path, nil)
	r.Host = "127.0.0.1:9090"
	n.http.Handler.ServeHTTP(w, r)
	return w
}

func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.observe()
		time.Sleep(time.Second)
		n.reloads.Tried, n.reloads.Error, n.reloads.Refusals = time.Now(), "fairlead.yaml:3:5: unknown key", 1
		w := n.get("/status")
		if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("status %d, Content-Type %q, want 200 and JSON", w.Code, w.Header().Get("Content-Type"))
		}
		const golden = "testdata/status.json"
		if *update {
			if err := os.WriteFile(golden, w.Body.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.Body.String(); got != string(want) {
			t.Errorf("/status differs from %s; if that is meant, run go test ./internal/admin -update:\n%s", golden, got)
		}
	})
}

func TestStatusBeforeTheFirstPlan(t *testing.T) {
	n := newNode(t)
	n.plan, n.ready, n.reason = nil, false, "no plan yet"
	var got map[string]any
	if err := json.Unmarshal(n.get("/status").Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{"revision": 0.0, "ready": false, "not_ready_reason": "no plan yet", "pools": []any{}, "load_balancers": []any{}} {
		if !reflect.DeepEqual(got[key], want) {
			t.Errorf("%s = %v, want %v", key, got[key], want)
		}
	}
	if w := n.get("/metrics"); w.Code != 200 || !strings.Contains(w.Body.String(), "\nfairlead_ready 0\n") {
		t.Errorf("/metrics before the first plan: %d\n%s", w.Code, w.Body)
	}
}

func TestLoadBalancerStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		states := func() string {
			var b strings.Builder
			for _, lb := range n.snapshot(time.Now()).LoadBalancers {
				b.WriteString(lb.Name + "=" + lb.State + " ")
			}
			return strings.TrimSpace(b.String())
		}
		if got, want := states(), "www.example.com=critical down.example.com=critical local.example.com=healthy geo.example.com=degraded"; got != want {
			t.Errorf("before the first checks: %s, want %s", got, want)
		}
		n.observe()
		if got, want := states(), "www.example.com=degraded down.example.com=critical local.example.com=healthy geo.example.com=degraded"; got != want {
			t.Errorf("states: %s, want %s", got, want)
		}
		for _, e := range n.plan.Endpoints {
			n.health.RecordForTest(e.Health, health.Healthy, health.Result{RTT: time.Millisecond}, time.Now())
		}
		if got, want := states(), "www.example.com=healthy down.example.com=healthy local.example.com=healthy geo.example.com=healthy"; got != want {
			t.Errorf("all well: %s, want %s", got, want)
		}
	})
}

func TestLatencyProfileWarmsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		state := func() string { return n.snapshot(time.Now()).Pools[0].Latency.State }
		if got := state(); got != "none" {
			t.Errorf("without a sample: %s, want none", got)
		}
		n.observe() // a second passes
		time.Sleep(10*time.Minute - 2*time.Second)
		if got := state(); got != "warming" {
			t.Errorf("before profile_warm_up: %s, want warming", got)
		}
		time.Sleep(time.Second)
		if got := state(); got != "active" {
			t.Errorf("after profile_warm_up: %s, want active", got)
		}
	})
}

// C47: everything is emitted once, and series of deleted objects vanish.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.observe()
		got := n.get("/metrics").Body.String()
		for _, want := range []string{
			`fairlead_build_info{go_version="`, // the rest depends on the toolchain
			"\nfairlead_ready 1\n",
			"\nfairlead_config_revision 3\n",
			"\nfairlead_config_refused 0\n",
			"\n" + `fairlead_config_reloads_total{result="applied"} 2` + "\n",
			"\n" + `fairlead_load_balancer_state{load_balancer="www.example.com",state="degraded"} 1` + "\n",
			"\n" + `fairlead_load_balancer_state{load_balancer="www.example.com",state="critical"} 0` + "\n",
			"\n" + `fairlead_pool_state{pool="down",state="critical"} 1` + "\n",
			"\n" + `fairlead_pool_endpoints{pool="eu"} 2` + "\n",
			"\n" + `fairlead_pool_endpoints_up{pool="eu"} 1` + "\n",
			"\n" + `fairlead_pool_latency_seconds{pool="eu"} 0.0015` + "\n",
			"\n" + `fairlead_pool_open_requests{pool="eu"} 1` + "\n",
			"\n" + `fairlead_pool_enabled{pool="spare"} 0` + "\n",
			"\n" + `fairlead_endpoint_up{endpoint="eu-1",pool="eu"} 1` + "\n",
			"\n" + `fairlead_endpoint_up{endpoint="eu-2",pool="eu"} 0` + "\n",
			"\n" + `fairlead_endpoint_enabled{endpoint="off",pool="eu"} 0` + "\n",
			"\n" + `fairlead_endpoint_monitor_up{endpoint="a",monitor="up",pool="down"} 0` + "\n",
			"\n" + `fairlead_endpoint_monitor_up{endpoint="a",monitor="ping",pool="down"} 1` + "\n",
			"\n" + `fairlead_endpoint_verdict_changes_total{endpoint="eu-1",pool="eu"} 1` + "\n",
			"\n" + `fairlead_endpoint_open_connections{endpoint="eu-1",pool="eu"} 1` + "\n",
			"\nfairlead_probe_targets 3\n",
			"\n" + `fairlead_probes_total{result="No failures"} 5` + "\n",
			"\nfairlead_resolver_names 1\n",
			"\nfairlead_metrics_failed_series_total 0\n",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("/metrics lacks %q", strings.TrimSpace(want))
			}
		}
		if t.Failed() {
			t.Log(got)
		}
		smaller := *n.plan
		smaller.Pools, smaller.LoadBalancers = n.plan.Pools[:1], n.plan.LoadBalancers[:1]
		n.plan = &smaller
		got = n.get("/metrics").Body.String()
		for _, gone := range []string{`pool="down"`, `pool="spare"`, `load_balancer="down.example.com"`} {
			if strings.Contains(got, gone) {
				t.Errorf("series with %s are there after it was deleted", gone)
			}
		}
		if !strings.Contains(got, "\nfairlead_metrics_failed_series_total 0\n") {
			t.Error("series failed")
		}
	})
}

// docs/admin.md has a row for every field and every metric that is shown here.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../docs/admin.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		rows[m[1]] = true
	}
	fields(reflect.TypeFor[Status](), "", func(name string) {
		if !rows[name] {
			t.Errorf("docs/admin.md has no row for the field %s of /status", name)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t)
		n.observe()
		for _, m := range regexp.MustCompile(`(?m)^# TYPE (fairlead_\w+) (\w+)$`).FindAllStringSubmatch(n.get("/metrics").Body.String(), -1) {
			if row := regexp.MustCompile("(?m)^\\| `" + m[1] + "` \\| " + m[2] + " \\|"); !row.Match(page) {
				t.Errorf("docs/admin.md has no row for the metric %s, a %s", m[1], m[2])
			}
		}
	})
}

// fields calls f for the path of each JSON field below a type.
func fields(typ reflect.Type, prefix string, f func(string)) {
	for typ.Kind() == reflect.Slice {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || typ.PkgPath() != reflect.TypeFor[Status]().PkgPath() {
		return
	}
	for field := range typ.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		path := prefix + name
		f(path)
		if field.Type.Kind() == reflect.Slice {
			path += "[]"
		}
		fields(field.Type, path+".", f)
	}
}
