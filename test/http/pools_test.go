package http_test

import (
	"fmt"
	"net/http"
	"testing"

	"fairlead/test/lab"
)

// pools starts a site of two pools, each with its keys, which holds endpoint A of
// the first and B of the second.
func pools(t *testing.T, a, b, keysA, keysB, balancer string) server {
	t.Helper()
	n := lab.Start(t, fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools:
  - {name: one, endpoints: [{name: A, address: %q}]%s}
  - {name: two, endpoints: [{name: B, address: %q, header: {Host: [two.example.com]}}]%s}
load_balancers: [{name: %s, proxied: true, default_pools: [one, two], retry_budget: 1%s}]
`, a, more(keysA), b, more(keysB), host, more(balancer)))
	return server{Node: n, addr: n.Addr("web")}
}

const acrossPools = "adaptive_routing: {failover_across_pools: true}"

// The one retry leaves its pool only where it may.
func TestFailoverAcrossPools(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, balancer string
		status         int
	}{
		{"allowed", acrossPools, 200},
		{"not allowed", "", 521},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := pools(t, lab.Refusing(t), lab.NewEndpoint(t, "B").Addr, "", "", c.balancer)
			equal(t, "answers", statuses(t, s, 10, request("POST", "/", "Content-Length: 5\r\n", "hello"))[c.status], 10)
			retries := 0.0
			if c.status == 200 {
				retries = 10
			}
			equal(t, "retries", s.Metric("fairlead_http_retries_total"), retries)
			equal(t, "requests at B", s.Metric("fairlead_endpoint_requests_total", "endpoint", "B"), retries)
		})
	}
}

// The pool of the retry may speak another protocol. What depends on the endpoint
// is written anew: its Host, and TE for those that speak HTTP/2 alone.
func TestFailoverToAnotherProtocol(t *testing.T) {
	t.Parallel()
	type got struct{ proto, host, te, body string }
	serve := func(t *testing.T, overHTTP2 bool, to *got) string {
		h := func(_ http.ResponseWriter, r *http.Request) {
			b := make([]byte, 5)
			n, _ := r.Body.Read(b)
			*to = got{r.Proto, r.Host, r.Header.Get("Te"), string(b[:n])}
		}
		if overHTTP2 {
			return serveH2(t, nil, h).addr
		}
		return lab.Serve(t, http.HandlerFunc(h))
	}
	for _, c := range []struct {
		name         string
		keysA, keysB string
		overHTTP2    bool
		want         got
	}{
		{"HTTP/1.1 to h2c", "", "protocol: h2c", true, got{"HTTP/2.0", "two.example.com", "trailers", "hello"}},
		{"h2c to HTTP/1.1", "protocol: h2c", "", false, got{"HTTP/1.1", "two.example.com", "", "hello"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var seen got
			s := pools(t, lab.Refusing(t), serve(t, c.overHTTP2, &seen), c.keysA, c.keysB, acrossPools)
			equal(t, "200", statuses(t, s, 1, request("POST", "/", "TE: trailers\r\nConnection: TE\r\nContent-Length: 5\r\n", "hello"))[200], 1)
			equal(t, "what the endpoint got", seen, c.want)
		})
	}
}

// Traffic that a pool sheds goes to the next one, and a client of hash stays
// with its verdict.
func TestLoadShedding(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shed string
		a, b bool // take traffic
	}{
		{"default_percent: 100", false, true},
		{"default_percent: 50", true, true},
		{"default_percent: 100, default_policy: hash", false, true},
	} {
		t.Run(c.shed, func(t *testing.T) {
			t.Parallel()
			s := pools(t, lab.NewEndpoint(t, "A").Addr, lab.NewEndpoint(t, "B").Addr, "load_shedding: {"+c.shed+"}", "", "")
			equal(t, "200", statuses(t, s, 100, get("/", ""))[200], 100)
			equal(t, "A has traffic", s.Metric("fairlead_endpoint_requests_total", "endpoint", "A") > 0, c.a)
			equal(t, "B has traffic", s.Metric("fairlead_endpoint_requests_total", "endpoint", "B") > 0, c.b)
		})
	}
}
