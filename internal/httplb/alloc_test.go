package httplb

import (
	"bufio"
	"encoding/binary"
	"io"
	"log/slog"
	"math"
	"net"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"fairlead/internal/affinity"
	"fairlead/internal/geo"
	"fairlead/internal/geo/geotest"
	"fairlead/internal/h2"
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

// engines are what a plane may run on here.
var engines = func() []string {
	if runtime.GOOS == "linux" {
		return []string{"loop", "goroutine"}
	}
	return []string{"goroutine"}
}()

// testPlane serves one load balancer "a.test" with the given endpoints on a kind
// of engine.
func testPlane(t testing.TB, kind string, change func(*model.Config), endpoints ...string) (p *Plane, address string) {
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
	databases, err := geo.Open(geo.Config{Files: c.Geo.Databases})
	if err != nil {
		t.Fatal(err)
	}
	pl, err := plan.Compile(c, nil, plan.Tables{Health: health.NewTable(quiet), Load: new(load.Table), Resolver: resolve.New(resolve.Config{}), Geo: databases})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := loop.NewEngine(kind, loop.Options{Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engine.Close)
	p = New(engine, nil, quiet, quiet)
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
// this test allocate nothing either, so the count is of the whole process. With
// HTTP/2 the task of each stream may cost two.
func TestProxiedRequestAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const answer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
	for _, test := range []struct {
		name, request string
		allowed       float64 // for each request
	}{
		{"GET", "GET /path?query=1 HTTP/1.1\r\nHost: a.test\r\nUser-Agent: test\r\nAccept: */*\r\nCookie: a=b\r\n\r\n", 0},
		{"POST", "POST /path HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\n\r\nbody", 0},
		{"chunked POST", "POST /path HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n", 0},
		{"HTTP/2 GET", "", 2},
	} {
		for _, kind := range engines {
			t.Run(test.name+" on "+kind, func(t *testing.T) {
				_, address := testPlane(t, kind, nil, fixedEndpoint(t, answer), fixedEndpoint(t, answer))
				var ask func()
				if test.request != "" {
					ask = asking(t, address, test.request, len(answer))
				} else {
					ask = askingHTTP2(t, address)
				}
				wantAllocations(t, test.allowed, ask)
			})
		}
	}
}

// Neither does telling of HTTP/3.
func TestAltSvcAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const answer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
	for _, test := range []struct {
		name    string
		allowed float64 // for each request
	}{{"HTTP/1.1", 0}, {"HTTP/2", 2}} {
		t.Run(test.name, func(t *testing.T) {
			p, address := testPlane(t, engines[0], nil, fixedEndpoint(t, answer))
			for _, l := range p.current() {
				set := *l.set.Load()
				set.altSvc = altSvcLine(443) // on a listener without TLS, which would cost some of its own
				l.set.Store(&set)
			}
			ask := askingHTTP2(t, address)
			if test.name == "HTTP/1.1" {
				ask = asking(t, address, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", len(answer)+len(altSvcLine(443)))
			}
			wantAllocations(t, test.allowed, ask)
		})
	}
}

// A request of a session costs no allocation more.
func TestSessionAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	dir := t.TempDir()
	file := filepath.Join(dir, "session_keys")
	if _, err := affinity.EnsureKeys(file); err != nil {
		t.Fatal(err)
	}
	keys, err := affinity.LoadKeys(file)
	if err != nil {
		t.Fatal(err)
	}
	endpoint := fixedEndpoint(t, answer)
	value := keys.Seal(nil, []byte("a.test"), affinity.Session{
		Endpoint: plan.SessionIdentity("pool", "", endpoint), Expires: time.Now().Add(time.Hour).Unix(),
	})
	for _, test := range []struct {
		kind model.SessionAffinity
		line string
	}{
		{model.AffinityIPCookie, "Cookie: a=b; " + cookieName + "=" + string(value)},
		{model.AffinityClientIP, "Cookie: a=b"},
		{model.AffinityHeader, "X-User: somebody\r\nCookie: a=b; c=d"},
	} {
		t.Run(string(test.kind), func(t *testing.T) {
			_, address := testPlane(t, "loop", func(c *model.Config) {
				b := &c.LoadBalancers[0]
				c.DataDir, b.SessionAffinity = dir, test.kind
				if test.kind == model.AffinityHeader {
					b.SessionAffinityAttributes.Headers = []string{"X-User", "cookie:c"}
				}
			}, endpoint)
			ask := asking(t, address, "GET / HTTP/1.1\r\nHost: a.test\r\n"+test.line+"\r\n\r\n", len(answer))
			wantAllocations(t, 0, ask)
		})
	}
}

// Rules cost no allocation, whatever they ask for and whether they apply.
func TestRulesAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	_, address := testPlane(t, "loop", func(c *model.Config) {
		for i, condition := range []string{
			`http.host eq "a.test" and http.request.full_uri contains "/p" and any(lower(http.request.headers["x-user"][*])[*] eq "somebody")`,
			`http.request.cookies["c"][0] eq "d" and http.request.uri.args["q"][0] eq "1" and ip.src in {127.0.0.0/8}`,
			`http.request.uri.path matches "^/never"`,
		} {
			c.LoadBalancers[0].Rules = append(c.LoadBalancers[0].Rules, model.Rule{
				Name: string(rune('a' + i)), Condition: condition, Overrides: &model.Overrides{SteeringPolicy: model.SteerRandom},
			})
		}
	}, fixedEndpoint(t, answer))
	ask := asking(t, address, "GET /path?q=1 HTTP/1.1\r\nHost: A.test\r\nX-User: Somebody\r\nCookie: a=b; c=d\r\n\r\n", len(answer))
	wantAllocations(t, 0, ask)
}

// Neither does where the client is, for steering and for each field of rules.
func TestGeographyAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	file := filepath.Join(t.TempDir(), "city.mmdb")
	geotest.Write(t, file, geotest.Options{}, geotest.Networks{"127.0.0.0/8": {
		"country_code": "US", "state_code": "TX", "state": "Texas", "asn": uint32(64496), "latitude": 30.3, "longitude": -97.7,
	}})
	const answer = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	for policy, lists := range map[model.SteeringPolicy]map[model.Region][]string{
		model.SteerGeo: {"WNAM": {"pool"}}, model.SteerProximity: nil,
	} {
		t.Run(string(policy), func(t *testing.T) {
			p, address := testPlane(t, "loop", func(c *model.Config) {
				c.Geo.Databases = []string{file}
				degrees := 1.0
				c.Pools[0].Latitude, c.Pools[0].Longitude = &degrees, &degrees
				b := &c.LoadBalancers[0]
				b.SteeringPolicy, b.RegionPools = policy, lists
				b.Rules = []model.Rule{{
					Name: "r", Overrides: &model.Overrides{FallbackPool: "pool"},
					Condition: `ip.src.country eq "US" and ip.src.continent eq "NA" and ip.src.region eq "Texas" and ip.src.subdivision_1_iso_code eq "US-TX" and ip.src.asnum eq 64496`,
				}}
			}, fixedEndpoint(t, answer))
			ask := asking(t, address, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", len(answer))
			wantAllocations(t, 0, ask)
			if n := p.snap.Load().rules[0][0].Load(); n < 2000 {
				t.Errorf("the rule has applied to %d requests", n)
			}
		})
	}
}

// wantAllocations checks that a request costs so many allocations at most. It
// counts them of the whole process, over many requests, as the average is rounded
// down. A few are the runtime's own: timers, a collection that empties pools. On a
// loaded machine there may be more of these at times, so the least of several counts
// is judged: what each request costs is in all of them.
func wantAllocations(t *testing.T, each float64, ask func()) {
	t.Helper()
	for range 300 { // all endpoints get their connections, buffers grow
		ask()
	}
	const requests = 2000
	limit, least := requests*each+requests/50, math.Inf(1)
	for range 5 {
		least = min(least, testing.AllocsPerRun(1, func() {
			for range requests {
				ask()
			}
		}))
		if least <= limit {
			return
		}
	}
	t.Errorf("%v allocations for %d requests at least, want %v for each", least, requests, each)
}

// asking returns a function that sends a request and reads the answer, of at
// least so many bytes.
func asking(t *testing.T, address, request string, answer int) func() {
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	c := loop.New(nc)
	b := []byte(request)
	return func() {
		c.SetReadDeadline(loop.Now().Add(30 * time.Second))
		if err := c.Write(b); err != nil {
			t.Fatal(err)
		}
		b, err := c.Read(nil)
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if len(b) < answer {
			t.Fatalf("answer %q, want %d bytes", b, answer)
		}
	}
}

// askingHTTP2 is asking with HTTP/2: each request is the same block on the next
// stream, and its answer's end is waited for.
func askingHTTP2(t *testing.T, address string) func() {
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := nc.Write([]byte(h2.Preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x00\x04\x01\x00\x00\x00\x00")); err != nil {
		t.Fatal(err)
	}
	// GET, http, / and the host: by HPACK's tables, to which the first request
	// adds the host. Then the connection's window is opened again.
	const (
		first  = "\x00\x00\x0b\x01\x05\x00\x00\x00\x00" + "\x82\x86\x84\x41\x06a.test"
		later  = "\x00\x00\x04\x01\x05\x00\x00\x00\x00" + "\x82\x86\x84\xbe"
		window = "\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x05"
	)
	request := []byte(first + window)
	in := bufio.NewReader(nc)
	stream := uint32(1)
	return func() {
		nc.SetDeadline(time.Now().Add(30 * time.Second))
		binary.BigEndian.PutUint32(request[5:], stream)
		if _, err := nc.Write(request); err != nil {
			t.Fatal(err)
		}
		for {
			head, err := in.Peek(9)
			if err != nil {
				t.Fatal(err)
			}
			n := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
			ended := head[4]&1 != 0 && (head[3] == 0 || head[3] == 1) && binary.BigEndian.Uint32(head[5:]) == stream
			if head[3] == 3 || head[3] == 7 {
				t.Fatalf("frame of type %d", head[3])
			}
			in.Discard(9 + n)
			if ended {
				break
			}
		}
		stream += 2
		request = append(request[:0], later+window...)
	}
}
