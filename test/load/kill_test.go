package loadtest

import (
	"fmt"
	"testing"
	"time"

	"fairlead/test/lab"
	"fairlead/test/process"
)

// One of three endpoints is killed and started again, with clients at work. No
// request that may be sent twice fails; of the others, only those that were sent
// to it.
func TestEndpointKilled(t *testing.T) {
	var endpoints []*endpointProcess
	for range 3 {
		endpoints = append(endpoints, startEndpoint(t))
	}
	const interval, timeout, down, up = 200 * time.Millisecond, 100 * time.Millisecond, 2, 1
	p := process.Start(t, fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
monitors: [{name: up, type: http, path: /, expected_codes: "200", interval: %v, timeout: %v, retries: 0, consecutive_down: %d, consecutive_up: %d}]
pools:
  - name: p
    monitor: up
    endpoints: [{name: a, address: %q}, {name: b, address: %q}, {name: c, address: %q}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [p]}]
`, interval, timeout, down, up, endpoints[0].addr, endpoints[1].addr, endpoints[2].addr))
	names := []string{"a", "b", "c"}

	const posting = 4
	safe := startLoad(t, "GET and PUT", 32, plain(p.Addr("web")), 0, mixed)
	posts := startLoad(t, "POST", posting, plain(p.Addr("web")), 0, expect("POST", "/", "body"))
	// changes returns how often the log told this verdict of an endpoint.
	changes := func(name, verdict string) int {
		n := 0
		for _, e := range p.Find("endpoint health changed") {
			if e["endpoint"] == name && e["verdict"] == verdict {
				n++
			}
		}
		return n
	}
	kills := scaled(3, 10)
	var slowest time.Duration
	for i := range kills {
		k := i % len(endpoints)
		e, name := endpoints[k], names[k]
		busy(t, safe)
		wentDown, cameUp := changes(name, "unhealthy"), changes(name, "healthy")
		killed := time.Now()
		e.kill()
		lab.Await(t, name+" to be unhealthy", func() bool { return changes(name, "unhealthy") > wentDown })
		slowest = max(slowest, time.Since(killed))
		busy(t, safe)
		e.start()
		lab.Await(t, name+" to be healthy", func() bool { return changes(name, "healthy") > cameUp })
		before := p.Metric("fairlead_endpoint_requests_total", `endpoint="`+name+`"`)
		lab.Await(t, name+" to take requests", func() bool {
			return p.Metric("fairlead_endpoint_requests_total", `endpoint="`+name+`"`) > before
		})
	}
	// The clients leave the machine little time: half a second is for that.
	if limit := down*interval + timeout + 500*time.Millisecond; slowest > limit {
		t.Errorf("an endpoint was unhealthy after %v, want at most %v", slowest, limit)
	}
	safe.wantNoFailure()
	done, failed := posts.stop()
	t.Logf("POST: %d requests, %d failed: %v; slowest verdict %v; %v retries, %v refused by the budget, %v sent again", done, failed, posts.errs, slowest,
		p.Metric("fairlead_http_retries_total"), p.Metric("fairlead_http_retries_refused_total"), p.Metric("fairlead_endpoint_resent_total"))
	// Each client may lose the request that is at the endpoint when it is
	// killed, and one more over a connection that the dying process's system
	// still accepts.
	if failed > int64(2*posting*kills) {
		t.Errorf("%d POST requests failed in %d kills with %d clients: %v", failed, kills, posting, posts.errs)
	}
	for text := range posts.errs {
		if want := `POST: unexpected status: 520 "520 Unknown Error\n\nThe server closed the connection without an answer.\n"`; text != want {
			t.Errorf("POST failed with %s, want only %s", text, want)
		}
	}
}

// busy waits until the load has made some more requests.
func busy(t testing.TB, l *load) {
	t.Helper()
	from := l.done.Load()
	lab.Await(t, "requests", func() bool { return l.done.Load() > from+200 })
}
