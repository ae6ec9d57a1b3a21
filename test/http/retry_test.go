package http_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"fairlead/test/lab"
)

// statuses makes requests one after the other and counts their statuses.
func statuses(t *testing.T, s server, count int, raw string) map[int]int {
	t.Helper()
	method, _, _ := strings.Cut(raw, " ")
	c := s.dial(t)
	got := make(map[int]int)
	for range count {
		c.Send(raw)
		got[c.Response(method).StatusCode]++
	}
	return got
}

func TestFailover(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		bad  func(t *testing.T) string
		pool string
	}{
		{"refused", func(t *testing.T) string { return lab.Refusing(t) }, ""},
		{"connect time-out", func(t *testing.T) string { return lab.Blackhole(t) }, "connect_timeout: 200ms"},
		{"unreachable", func(*testing.T) string { return "[fe80::1]:80" }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			good := lab.NewEndpoint(t, "B")
			s := site{endpoints: []string{c.bad(t), good.Addr}, pool: c.pool + map[bool]string{true: ", "}[c.pool != ""] + "endpoint_steering: {policy: round_robin}",
				balancer: "retry_budget: 1"}.start(t)
			equal(t, "POSTs answered", statuses(t, s, 10, request("POST", "/", "Content-Length: 5\r\n", "hello"))[200], 10)
			failed := s.Metric("fairlead_endpoint_errors_total", "endpoint", "A")
			if failed < 5 {
				t.Errorf("%v requests failed at A, want 5 at least", failed)
			}
			equal(t, "retries", s.Metric("fairlead_http_retries_total"), failed)
			equal(t, "errors to clients", s.Metric("fairlead_http_errors_total"), 0)
			retried := 0.0
			for _, r := range s.AccessLog(10) {
				retried += r["retries"].(float64)
				equal(t, "endpoint", r["endpoint"], any("B"))
			}
			equal(t, "retries in the access log", retried, failed)
		})
	}
}

// With nobody else to ask, the client learns what is wrong; both endpoints are
// asked, and no third.
func TestFailoverIsDoneOnce(t *testing.T) {
	t.Parallel()
	s := site{endpoints: []string{lab.Refusing(t), lab.Refusing(t), lab.Refusing(t)}, balancer: "retry_budget: 1"}.start(t)
	equal(t, "521", statuses(t, s, 10, get("/", ""))[521], 10)
	equal(t, "retries", s.Metric("fairlead_http_retries_total"), 10)
	equal(t, "requests", s.Metric("fairlead_endpoint_requests_total"), 20)
}

func TestRetryBudget(t *testing.T) {
	t.Parallel()
	hole := func(t *testing.T, budget string) (server, map[int]int) {
		good := lab.NewEndpoint(t, "B")
		s := site{endpoints: []string{lab.Blackhole(t), good.Addr},
			pool: "connect_timeout: 200ms, endpoint_steering: {policy: round_robin}", balancer: "retry_budget: " + budget}.start(t)
		got := make(chan map[int]int)
		const clients = 60
		for range clients {
			go func() { got <- statuses(t, s, 5, get("/", "")) }()
		}
		sum := make(map[int]int)
		for range clients {
			for status, n := range <-got {
				sum[status] += n
			}
		}
		return s, sum
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		s, got := hole(t, "0")
		equal(t, "522", float64(got[522]), s.Metric("fairlead_endpoint_errors_total"))
		equal(t, "retries", s.Metric("fairlead_http_retries_total"), 0)
	})
	t.Run("some", func(t *testing.T) {
		t.Parallel()
		// Of all the failures in a moment 100 may be retried, and a share of
		// the requests: in the long run ten a second.
		s, got := hole(t, "0.01")
		failed := s.Metric("fairlead_endpoint_errors_total")
		retries, refused := s.Metric("fairlead_http_retries_total"), s.Metric("fairlead_http_retries_refused_total")
		equal(t, "retries and 522", retries+float64(got[522]), failed)
		if retries < 100 || refused == 0 {
			t.Errorf("%v retries, %v refused of %v: want 100 retries at least, and the budget to hold", retries, refused, failed)
		}
	})
}

// What an endpoint may have begun to do is not done again.
func TestNotRetried(t *testing.T) {
	t.Parallel()
	t.Run("520", func(t *testing.T) {
		t.Parallel()
		bad, good := lab.NewOrigin(t, lab.Answer("babble\r\n\r\n")), lab.NewEndpoint(t, "B")
		s := site{endpoints: []string{bad.Addr, good.Addr}, pool: "endpoint_steering: {policy: round_robin}"}.start(t)
		equal(t, "520", statuses(t, s, 10, get("/", ""))[520], 5)
		equal(t, "retries", s.Metric("fairlead_http_retries_total"), 0)
	})
	t.Run("524", func(t *testing.T) {
		t.Parallel()
		bad, good := lab.NewOrigin(t, silent), lab.NewEndpoint(t, "B")
		s := site{endpoints: []string{bad.Addr, good.Addr}, pool: "answer_timeout: 100ms, endpoint_steering: {policy: round_robin}"}.start(t)
		equal(t, "524", statuses(t, s, 4, get("/", ""))[524], 2)
		equal(t, "retries", s.Metric("fairlead_http_retries_total"), 0)
		equal(t, "times that a request was seen", strings.Count(bad.Received(), "GET /"), 2)
	})
	t.Run("POST whose connection ends", func(t *testing.T) {
		t.Parallel()
		bad := lab.NewOrigin(t, func(c *lab.OriginConn) {
			if head, err := c.Head(); err == nil {
				c.Body(head)
			}
		})
		good := lab.NewEndpoint(t, "B")
		s := site{endpoints: []string{bad.Addr, good.Addr}, pool: "endpoint_steering: {policy: round_robin}"}.start(t)
		equal(t, "520", statuses(t, s, 10, request("POST", "/", "Content-Length: 5\r\n", "hello"))[520], 5)
		equal(t, "times that a request was seen", strings.Count(bad.Received(), "POST /"), 5)
		equal(t, "resent", s.Metric("fairlead_endpoint_resent_total"), 0)
		equal(t, "retries", s.Metric("fairlead_http_retries_total"), 0)
	})
	t.Run("POST over a kept connection that ends", func(t *testing.T) {
		t.Parallel()
		bad := lab.NewOrigin(t, func(c *lab.OriginConn) {
			if _, err := c.Head(); err == nil {
				c.Say(lab.OK)
				c.Head()
			}
		})
		s := site{endpoints: []string{bad.Addr}}.start(t)
		got := statuses(t, s, 10, request("POST", "/", "", ""))
		equal(t, "200", got[200], 5)
		equal(t, "520", got[520], 5)
		equal(t, "times that a request was seen", strings.Count(bad.Received(), "POST /"), 10)
	})
}

// Kept connections that the endpoint closes while they are unused cost no
// request, whatever its method.
func TestIdleConnectionsThatEnd(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{}, 100)
	o := lab.NewOrigin(t, func(c *lab.OriginConn) {
		if _, err := c.Head(); err == nil {
			c.Say(lab.OK)
		}
		c.Conn.Close()
		ended <- struct{}{}
	})
	s := site{endpoints: []string{o.Addr}}.start(t)
	c := s.dial(t)
	for range 20 {
		c.Send(request("POST", "/", "Content-Length: 5\r\n", "hello"))
		equal(t, "status", c.Response("POST").StatusCode, 200)
		<-ended
	}
}

func TestIdleConnectionsArePruned(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Answer(lab.OK))
	s := site{endpoints: []string{o.Addr}, pool: "idle_timeout: 200ms, max_idle_connections: 2"}.start(t)
	done := make(chan struct{})
	for range 4 {
		go func() {
			res, err := s.client(t, v1).Get(s.url("/"))
			if err == nil {
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
			done <- struct{}{}
		}()
	}
	for range 4 {
		<-done
	}
	if kept := s.Metric("fairlead_endpoint_idle_connections"); kept > 2 {
		t.Errorf("%v idle connections, want at most 2", kept)
	}
	lab.Await(t, "idle connections to be closed", func() bool { return o.Open() == 0 })
	equal(t, "idle connections", s.Metric("fairlead_endpoint_idle_connections"), 0)
	equal(t, "open connections in the status", s.Status().Pools[0].OpenConnections, 0)
}

// A client that goes away while its endpoint works ends that work.
func TestClientGone(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, tls bool, v httpVersion) {
		o := lab.NewOrigin(t, silent)
		s := site{endpoints: []string{o.Addr}, tls: tls}.start(t)
		c := s.client(t, v)
		c.Timeout = 300 * time.Millisecond
		req, _ := http.NewRequest("GET", s.url("/"), nil)
		if res, err := c.Do(req); err == nil {
			res.Body.Close()
			t.Fatal("a silent endpoint was answered for")
		}
		lab.Await(t, "the endpoint's connection to be closed", func() bool { return o.Connections() == 1 && o.Open() == 0 })
		s.AwaitMetric(1, "fairlead_http_client_gone_total")
		r := s.AccessLog(1)[0]
		equal(t, "status in the access log", r["status"], any(0.0))
		equal(t, "error in the access log", r["error"], any("client_gone"))
		equal(t, "errors at the endpoint", s.Metric("fairlead_endpoint_errors_total"), 0)
	})
}
