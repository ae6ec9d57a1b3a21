package http_test

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead/test/lab"
)

// Weights hold over the whole way, from the file to the endpoints.
func TestSharesOfWeights(t *testing.T) {
	const requests, clients = 100_000, 16
	answer := func(name string) func(c *lab.OriginConn) {
		text := "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n" + name
		return func(c *lab.OriginConn) { // quicker than Head: each request is one piece
			b := make([]byte, 4096)
			for {
				if _, err := c.Conn.Read(b); err != nil {
					return
				}
				if c.Say(text) != nil {
					return
				}
			}
		}
	}
	a, b := lab.NewOrigin(t, answer("a")), lab.NewOrigin(t, answer("b"))
	n := lab.Start(t, fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools:
  - {name: a, endpoints: [{name: A, address: %q}]}
  - {name: b, endpoints: [{name: B, address: %q}]}
load_balancers:
  - {name: www.example.com, proxied: true, default_pools: [a, b], steering_policy: random, random_steering: {pool_weights: {a: 0.7, b: 0.3}}}
`, a.Addr, b.Addr))
	begun := time.Now()
	var mu sync.Mutex
	counts := make(map[byte]int)
	var wg sync.WaitGroup
	for range clients {
		c := lab.Dial(t, n.Addr("web"))
		wg.Go(func() {
			const piece = 50 // pipelined, to save switches between tasks
			raw := strings.Repeat(get("/", ""), piece)
			size := len("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
			mine := make(map[byte]int)
			buf := make([]byte, piece*size)
			for range requests / clients / piece {
				c.Send(raw)
				c.SetReadDeadline(time.Now().Add(20 * time.Second))
				for got := 0; got < len(buf); {
					k, err := c.Read(buf[got:])
					if err != nil {
						t.Errorf("answers: %v", err)
						return
					}
					got += k
				}
				for i := size - 1; i < len(buf); i += size {
					mine[buf[i]]++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for name, k := range mine {
				counts[name] += k
			}
		})
	}
	wg.Wait()
	if counts['a']+counts['b'] != requests {
		t.Fatalf("answers: %v, want %d from a and b", counts, requests)
	}
	if share := float64(counts['a']) / requests; math.Abs(share-0.7) > 0.01 {
		t.Errorf("share of a = %v, want 0.7 within 0.01", share)
	}
	equal(t, "requests counted for a", n.Metric("fairlead_endpoint_requests_total", "pool", "a"), float64(counts['a']))
	n.AwaitMetric(requests, "fairlead_http_requests_total", "class", "2xx") // the last is counted once it is answered
	equal(t, "requests counted", n.Metric("fairlead_http_requests_total", "class", "2xx"), requests)
	t.Logf("%d requests in %v", requests, time.Since(begun))
}

// A reload changes where requests go, and connections to clients live on.
func TestReloadBetweenRequests(t *testing.T) {
	t.Parallel()
	a, b := lab.NewEndpoint(t, "A"), lab.NewEndpoint(t, "B")
	config := func(pool string) string {
		return fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools:
  - {name: a, endpoints: [{name: A, address: %q}]}
  - {name: b, endpoints: [{name: B, address: %q}]}
load_balancers: [{name: www.example.com, proxied: true, default_pools: [%s]}]
`, a.Addr, b.Addr, pool)
	}
	n := lab.Start(t, config("a"))
	c := lab.Dial(t, n.Addr("web"))
	ask := func() string {
		c.Send(get("/", ""))
		return c.Response("GET").Text
	}
	equal(t, "before", ask(), "A")
	n.Write(config("b"))
	n.AwaitRevision(2)
	equal(t, "after", ask(), "B")
	n.Write(config("nonsense"))
	n.AwaitRefusals(1)
	equal(t, "after a refused file", ask(), "B")
	equal(t, "connections", n.Metric("fairlead_http_connections_total"), 1)
}

// Open requests finish when a node stops, and the end leaves nothing running.
func TestShutdown(t *testing.T) {
	for _, c := range []struct {
		tls bool
		v   httpVersion
	}{{false, v1}, {true, v1}, {true, v2}, {true, v3}} {
		t.Run(fmt.Sprintf("tls=%v,HTTP/%d", c.tls, c.v), func(t *testing.T) {
			lab.NoLeaks(t)
			arrived, release := make(chan struct{}), make(chan struct{})
			addr := lab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				close(arrived)
				<-release
			}))
			s := site{endpoints: []string{addr}, tls: c.tls, top: "shutdown_timeout: 10s"}.start(t)
			client := s.client(t, c.v)
			done := make(chan error, 1)
			go func() {
				res, err := client.Get(s.url("/"))
				if err == nil {
					res.Body.Close()
					if res.StatusCode != 200 {
						err = fmt.Errorf("status %d", res.StatusCode)
					}
				}
				done <- err
			}()
			<-arrived
			time.AfterFunc(200*time.Millisecond, func() { close(release) })
			begun := time.Now()
			s.Stop()
			if d := time.Since(begun); d < 150*time.Millisecond || d > 8*time.Second {
				t.Errorf("stopped after %v", d)
			}
			if err := <-done; err != nil {
				t.Errorf("request under way: %v", err)
			}
		})
	}
}
