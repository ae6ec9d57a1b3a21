package httplb

import (
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"fairlead/internal/health"
	"fairlead/internal/load"
	"fairlead/internal/loop"
	"fairlead/internal/model"
	"fairlead/internal/plan"
	"fairlead/internal/resolve"
)

// quiet is a log that nobody reads.
var quiet = slog.New(slog.DiscardHandler)

// fixedEndpoint answers each request, which must come in one piece, with the
// same bytes. It allocates nothing for a request.
func fixedEndpoint(t testing.TB, answer string) (address string) {
	b := []byte(answer)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				c := loop.New(nc)
				for {
					if _, err := c.Read(nil); err != nil {
						return
					}
					if c.Write(b) != nil {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

// testPlane serves one load balancer "a.test" with the given endpoints.
func testPlane(t testing.TB, change func(*model.Config), endpoints ...string) (p *Plane, address string) {
	c := new(model.Config)
	c.SetDefaults()
	var l model.Listener
	l.SetDefaults()
	l.Name, l.Address, l.Protocol = "web", "127.0.0.1:0", model.ListenerHTTP
	var pool model.Pool
	pool.SetDefaults()
	pool.Name = "pool"
	for i, a := range endpoints {
		var e model.Endpoint
		e.SetDefaults()
		e.Name, e.Address = string(rune('a'+i)), a
		pool.Endpoints = append(pool.Endpoints, e)
	}
	var b model.LoadBalancer
	b.SetDefaults()
	b.Name, b.Proxied, b.DefaultPools = "a.test", true, []string{"pool"}
	c.Listeners, c.Pools, c.LoadBalancers = []model.Listener{l}, []model.Pool{pool}, []model.LoadBalancer{b}
	if change != nil {
		change(c)
	}
	pl, err := plan.Compile(c, 1, plan.Tables{Health: health.NewTable(quiet), Load: new(load.Table), Resolver: resolve.New(resolve.Config{})})
	if err != nil {
		t.Fatal(err)
	}
	p = New(loop.NewGoroutineEngine(), quiet)
	if err := p.Apply(pl, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := timeoutContext(5 * time.Second)
		defer cancel()
		p.Shutdown(ctx)
	})
	return p, p.Listeners()[0].Address.String()
}

// A request that is proxied over connections that exist allocates nothing: not
// in the plane, nor in the packages beneath it. The client and the endpoint of
// this test allocate nothing either, so the count is of the whole process.
func TestProxiedRequestAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const answer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
	for _, test := range []struct{ name, request string }{
		{"GET", "GET /path?query=1 HTTP/1.1\r\nHost: a.test\r\nUser-Agent: test\r\nAccept: */*\r\nCookie: a=b\r\n\r\n"},
		{"POST", "POST /path HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nbody"},
		{"chunked POST", "POST /path HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, address := testPlane(t, nil, fixedEndpoint(t, answer), fixedEndpoint(t, answer))
			nc, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			c := loop.New(nc)
			c.SetReadDeadline(loop.Now().Add(30 * time.Second))
			request := []byte(test.request)
			ask := func() {
				if err := c.Write(request); err != nil {
					t.Fatal(err)
				}
				b, err := c.Read(nil)
				if err != nil && err != io.EOF {
					t.Fatal(err)
				}
				if len(b) < len(answer) {
					t.Fatalf("answer %q, want %d bytes", b, len(answer))
				}
			}
			for range 200 { // both endpoints get their connections, buffers grow
				ask()
			}
			// The sum over many, as the average is rounded down. A few are the
			// runtime's own: timers, a collection that empties pools.
			const requests = 2000
			if n := testing.AllocsPerRun(1, func() {
				for range requests {
					ask()
				}
			}); n > requests/50 {
				t.Errorf("%v allocations for %d requests, want none", n, requests)
			}
		})
	}
}
