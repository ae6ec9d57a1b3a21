package http_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairlead/test/lab"
)

// busy is an endpoint that holds requests until it is told to answer, and counts
// how many it has at most.
type busy struct {
	addr       string
	open, most atomic.Int64
	answers    chan struct{} // one for each
}

func newBusy(t *testing.T, name string) *busy {
	b := &busy{answers: make(chan struct{}, 10_000)}
	b.addr = lab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := b.open.Add(1)
		defer b.open.Add(-1)
		for was := b.most.Load(); n > was && !b.most.CompareAndSwap(was, n); was = b.most.Load() {
		}
		select {
		case <-b.answers:
		case <-r.Context().Done():
		}
		w.Header().Set("X-Endpoint", name)
		io.WriteString(w, "ok")
	}))
	return b
}

func (b *busy) answer(n int) {
	for range n {
		b.answers <- struct{}{}
	}
}

// asks sends so many requests at once and returns what they get, once all have it.
func asks(t *testing.T, s server, c *http.Client, n int) func() map[string]int {
	var mu sync.Mutex
	got := make(map[string]int)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			res, err := c.Get(s.url("/"))
			what := fmt.Sprint(err)
			if err == nil {
				body, _ := io.ReadAll(res.Body)
				res.Body.Close()
				what = res.Status
				if res.StatusCode == 200 {
					what = res.Header.Get("X-Endpoint") + string(body)
				}
			}
			mu.Lock()
			got[what]++
			mu.Unlock()
		})
	}
	return func() map[string]int {
		all.Wait()
		return got
	}
}

// Requests that find every endpoint at its bound wait, and are served as others end,
// over whichever protocol.
func TestEndpointRequestLimit(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, tls bool, v httpVersion) {
		a, b := newBusy(t, "A"), newBusy(t, "B")
		s := site{endpoints: []string{a.addr, b.addr}, tls: tls, pool: "endpoint_limits: {requests: 3, queue: 100, queue_timeout: 60s}"}.start(t)
		wait := asks(t, s, s.client(t, v), 50)
		// Both are filled before anybody waits.
		lab.Await(t, "three at each", func() bool { return a.open.Load() == 3 && b.open.Load() == 3 })
		lab.Await(t, "44 in queues", func() bool { return s.Metric("fairlead_endpoint_waiting_requests") == 44 })
		a.answer(100)
		b.answer(100)
		if got := wait(); got["Aok"]+got["Bok"] != 50 {
			t.Errorf("answers: %v", got)
		}
		if a.most.Load() != 3 || b.most.Load() != 3 {
			t.Errorf("%d and %d were open at once, want 3", a.most.Load(), b.most.Load())
		}
		equal(t, "waiting at the end", s.Metric("fairlead_endpoint_waiting_requests"), 0)
		equal(t, "queued", s.Metric("fairlead_endpoint_queued_total"), 44)
	})
}

// What finds the queue full, or waits too long, gets 503; a client that goes away
// leaves its place.
func TestEndpointQueue(t *testing.T) {
	t.Parallel()
	a := newBusy(t, "A")
	s := site{endpoints: []string{a.addr}, pool: "endpoint_limits: {requests: 1, queue: 2, queue_timeout: 2s}"}.start(t)
	c := s.client(t, v1)
	first := asks(t, s, c, 1)
	lab.Await(t, "the first request", func() bool { return a.open.Load() == 1 })
	gone := s.dial(t)
	gone.Send(get("/", ""))
	late := asks(t, s, c, 1)
	lab.Await(t, "two that wait", func() bool { return s.Metric("fairlead_endpoint_waiting_requests") == 2 })
	if got := asks(t, s, c, 3)(); got["503 Service Unavailable"] != 3 {
		t.Errorf("behind a full queue: %v", got)
	}
	equal(t, "endpoint_full", s.Metric("fairlead_endpoint_errors_total", "reason", "endpoint_full"), 3)
	gone.Close()
	lab.Await(t, "one that waits", func() bool { return s.Metric("fairlead_endpoint_waiting_requests") < 2 })
	if got := late(); got["503 Service Unavailable"] != 1 {
		t.Errorf("after too long: %v", got)
	}
	equal(t, "queue_timeout", s.Metric("fairlead_endpoint_errors_total", "reason", "queue_timeout"), 1)
	a.answer(2)
	if got := first(); got["Aok"] != 1 {
		t.Errorf("the first: %v", got)
	}
	if got := asks(t, s, c, 1)(); got["Aok"] != 1 {
		t.Errorf("when there is room again: %v", got)
	}
}

// Connections are bounded over all loops; those that nothing uses make room for a
// loop that has none.
func TestEndpointConnectionLimit(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"http", "h2c"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			o := lab.NewOrigin(t, lab.Answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
			addr := o.Addr
			if protocol == "h2c" {
				addr = h2cEndpoint(t)
			}
			s := site{endpoints: []string{addr}, pool: "protocol: " + protocol + ", endpoint_limits: {connections: 2, queue: 1000, queue_timeout: 60s}"}.start(t)
			for range 3 {
				c := s.client(t, v1)
				c.Transport.(*http.Transport).MaxConnsPerHost = 8 // on all loops
				if got := asks(t, s, c, 100)(); got["ok"]+got["Hok"] != 100 {
					t.Fatalf("answers: %v", got)
				}
				c.CloseIdleConnections()
				if open := s.Metric("fairlead_endpoint_open_connections"); open > 2 || open < 1 {
					t.Errorf("%v connections are open, want at most 2", open)
				}
			}
		})
	}
}

// h2cEndpoint is an endpoint that speaks HTTP/2 without TLS.
func h2cEndpoint(t *testing.T) string {
	return serveHTTP2(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Endpoint", "H")
		time.Sleep(time.Millisecond)
		io.WriteString(w, "ok")
	}))
}

// A reload that widens the bound lets in who waits; one that takes it away lets in
// everybody who comes.
func TestEndpointLimitsAreReloaded(t *testing.T) {
	t.Parallel()
	a := newBusy(t, "A")
	yaml := func(limits string) string {
		return fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools: [{name: p%s, endpoints: [{name: A, address: %q}]}]
load_balancers: [{name: %s, proxied: true, default_pools: [p]}]
`, more(limits), a.addr, host)
	}
	n := lab.Start(t, yaml("endpoint_limits: {requests: 1, queue_timeout: 60s}"))
	s := server{Node: n, addr: n.Addr("web")}
	wait := asks(t, s, s.client(t, v1), 4)
	lab.Await(t, "three that wait", func() bool { return s.Metric("fairlead_endpoint_waiting_requests") == 3 })
	n.Write(yaml("endpoint_limits: {requests: 2, queue_timeout: 60s}"))
	lab.Await(t, "two that are open", func() bool { return a.open.Load() == 2 })
	n.Write(yaml("")) // with two that wait
	lab.Await(t, "all that are open", func() bool { return a.open.Load() == 4 })
	a.answer(4)
	if got := wait(); got["Aok"] != 4 {
		t.Errorf("answers: %v", got)
	}
	wait = asks(t, s, s.client(t, v1), 10)
	lab.Await(t, "ten that are open", func() bool { return a.open.Load() == 10 })
	a.answer(10)
	if got := wait(); got["Aok"] != 10 {
		t.Errorf("answers: %v", got)
	}
}

// A session waits at its own endpoint, whatever room there is elsewhere.
func TestSessionsWaitForTheirEndpoint(t *testing.T) {
	t.Parallel()
	a, b := newBusy(t, "A"), newBusy(t, "B")
	s := site{endpoints: []string{a.addr, b.addr}, balancer: "session_affinity: cookie", pool: "endpoint_limits: {requests: 1, queue_timeout: 60s}"}.start(t)
	c := s.client(t, v1)
	a.answer(1)
	b.answer(1)
	at, cookie := visit(t, s, c)
	own, other := a, b
	if at == "B" {
		own, other = b, a
	}
	other.answer(100)
	ask := func() func() string {
		got := make(chan string)
		go func() {
			req, _ := http.NewRequest("GET", s.url("/"), nil)
			req.Header.Set("Cookie", pair(cookie))
			res, err := c.Do(req)
			if err != nil {
				got <- err.Error()
				return
			}
			res.Body.Close()
			got <- res.Header.Get("X-Endpoint")
		}()
		return func() string { return <-got }
	}
	first := ask()
	lab.Await(t, "the first", func() bool { return own.open.Load() == 1 })
	second := ask()
	lab.Await(t, "one that waits", func() bool { return s.Metric("fairlead_endpoint_waiting_requests") == 1 })
	own.answer(2)
	equal(t, "endpoints", strings.Join([]string{first(), second()}, " "), at+" "+at)
}
