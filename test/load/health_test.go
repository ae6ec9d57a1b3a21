package loadtest

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"fairlead/internal/node"
	"fairlead/internal/resolve"
	"fairlead/test/lab"
	"fairlead/test/process"
)

// C25: a monitor's port is for probes only, and verdicts are by endpoint.
func TestMonitorPort(t *testing.T) {
	t.Parallel()
	var probes, probed, served [3]atomic.Int64 // A, B, the monitor's port
	status := [3]int{200, 503, 200}
	var addrs [3]string
	for i := range addrs {
		addrs[i] = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/healthz" {
				probes[i].Add(1)
				probed[i].Add(1)
				w.WriteHeader(status[i])
				return
			}
			served[i].Add(1)
		}))
	}
	_, port, err := net.SplitHostPort(addrs[2])
	if err != nil {
		t.Fatal(err)
	}
	config := func(port string) string {
		return fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
monitors: [{name: up, type: http, path: /healthz, expected_codes: "200", interval: 100ms, timeout: 1s, consecutive_down: 1, consecutive_up: 1, port: %s}]
pools: [{name: p, monitor: up, endpoints: [{name: a, address: %q}, {name: b, address: %q}]}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [p]}]
`, port, addrs[0], addrs[1])
	}
	p := process.Start(t, config(port))
	l := startLoad(t, "clients", 4, plain(p.Addr("web")), time.Millisecond, mixed)
	busy(t, l)
	lab.Await(t, "probes", func() bool { return probes[2].Load() >= 8 })
	if a, b := probes[0].Load(), probes[1].Load(); a+b > 0 {
		t.Errorf("%d and %d probes came to the endpoints' own ports", a, b)
	}
	p.Reload(config("0"))
	lab.Await(t, "b to be unhealthy", func() bool { return p.Metric("fairlead_endpoint_up", `endpoint="b"`) == 0 })
	if p.Metric("fairlead_endpoint_up", `endpoint="a"`) != 1 {
		t.Error("a is unhealthy")
	}
	l.wantNoFailure()
	if n := served[2].Load(); n > 0 {
		t.Errorf("%d requests came to the monitor's port", n)
	}
	if served[0].Load() == 0 || served[1].Load() == 0 {
		t.Error("an endpoint served nothing")
	}
	text, err := p.Get("/status")
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Pools []struct {
			Endpoints []struct{ Name, Verdict string }
		}
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(s.Pools[0].Endpoints); got != "[{a healthy} {b unhealthy}]" {
		t.Errorf("/status has %s", got)
	}
}

// C26: probes of many endpoints are spread over the interval, from the start.
func TestProbesAreSpread(t *testing.T) {
	const endpoints = 200
	interval := scaled(3*time.Second, 10*time.Second)
	var mu sync.Mutex
	arrivals := make([][]time.Time, endpoints)
	var list strings.Builder
	for i := range endpoints {
		addr := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/healthz" {
				mu.Lock()
				arrivals[i] = append(arrivals[i], time.Now())
				mu.Unlock()
			}
		}))
		fmt.Fprintf(&list, "{name: e%d, address: %q}, ", i, addr)
	}
	began := time.Now()
	p := process.Start(t, fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
monitors: [{name: up, type: http, path: /healthz, expected_codes: "200", interval: %v, timeout: 1s}]
pools: [{name: p, monitor: up, endpoints: [%s]}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [p]}]
`, interval, list.String()))
	c := &client{dial: plain(p.Addr("web"))}
	defer c.close()
	if err := expect("GET", "/", "")(c, 0); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > time.Second && !process.Race {
		t.Errorf("the first request was answered after %v", took)
	}
	time.Sleep(time.Until(began.Add(scaled(3*interval, 6*interval))))
	mu.Lock()
	defer mu.Unlock()
	var all []time.Time
	for i, times := range arrivals {
		if len(times) == 0 || times[0].Sub(began) > interval+interval/10 {
			t.Errorf("endpoint %d was not probed within the first interval", i)
			continue
		}
		all = append(all, times...)
		for k := range times[1:] {
			gap := times[k+1].Sub(times[k])
			first := k == 0 // follows the verdict that the start asked for
			// The gaps of the schedule are tested on a fake clock in package
			// health; what is seen here is late by what the machine is.
			if slack := interval * 30 / 100; !first && (gap < interval-slack || gap > interval+slack) {
				t.Errorf("endpoint %d: a gap of %v, want %v and up to 30%% more or less", i, gap, interval)
			}
		}
	}
	window := interval / 20 // 500ms of 10s
	worst := 0
	for _, from := range all {
		n := 0
		for _, at := range all {
			if d := at.Sub(from); d >= 0 && d < window {
				n++
			}
		}
		worst = max(worst, n)
	}
	t.Logf("%d probes, at most %d within %v", len(all), worst, window)
	// Spread evenly they are a tenth; a machine that stands still for a while
	// bunches some. What is not spread comes all at once.
	if worst > endpoints/2 {
		t.Errorf("%d probes came within %v, want at most half of %d", worst, window, endpoints)
	}
}

// C27: so many results in a row it takes to change a verdict, and each change is
// told once.
func TestThresholds(t *testing.T) {
	t.Parallel()
	for _, failure := range []string{"503", "time-out"} {
		t.Run(failure, func(t *testing.T) {
			t.Parallel()
			const script = "1100100100010111"
			// wanted[i] is the state behind probe i+1.
			const wanted = "1111111111000011"
			var p atomic.Pointer[process.Process]
			var probes atomic.Int64
			var mu sync.Mutex
			seen := make([]byte, 0, len(script))
			addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := int(probes.Add(1)) // this one
				if n > 1 && n <= len(script)+1 {
					// While this probe waits, the verdict is that of the last.
					if p := p.Load(); p != nil {
						up := byte('0') + byte(p.Metric("fairlead_endpoint_up"))
						mu.Lock()
						for len(seen) < n-2 {
							seen = append(seen, '?')
						}
						seen = append(seen, up)
						mu.Unlock()
					}
				}
				if n > len(script) || script[n-1] == '1' {
					return
				}
				if failure == "503" {
					w.WriteHeader(503)
					return
				}
				<-r.Context().Done()
			}))
			p.Store(process.Start(t, fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
monitors: [{name: up, type: http, path: /, expected_codes: "200", interval: 600ms, timeout: 500ms, retries: 0, consecutive_down: 3, consecutive_up: 2}]
pools: [{name: p, monitor: up, endpoints: [{name: a, address: %q}]}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [p]}]
`, addr)))
			deadline := time.Now().Add(20 * time.Second)
			for probes.Load() < int64(len(script))+2 && time.Now().Before(deadline) {
				time.Sleep(20 * time.Millisecond)
			}
			mu.Lock()
			got := string(seen)
			mu.Unlock()
			if len(got) < len(wanted) || got[1:] != wanted[1:] { // the first may come before the node is known here
				t.Errorf("states behind each probe = %s, want %s", got, wanted)
			}
			var changes []string
			for _, e := range p.Load().Find("endpoint health changed") {
				changes = append(changes, e["verdict"].(string))
			}
			if got := strings.Join(changes, " "); got != "healthy unhealthy healthy" {
				t.Errorf("changes in the log: %s", got)
			}
			if n := p.Load().Metric("fairlead_endpoint_verdict_changes_total"); n != 3 {
				t.Errorf("%v changes are counted, want 3", n)
			}
		})
	}
}

// C17: an endpoint given by name follows its addresses, and survives the loss
// of name servers.
func TestEndpointByName(t *testing.T) {
	t.Parallel()
	// Two endpoints at one port of two addresses.
	var port string
	for try := 0; port == ""; try++ {
		a, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_, p, _ := net.SplitHostPort(a.Addr().String())
		b, err := net.Listen("tcp", "127.0.0.2:"+p)
		if err != nil {
			a.Close()
			if try > 20 {
				t.Fatal(err)
			}
			continue
		}
		port = p
		for name, ln := range map[string]net.Listener{"127.0.0.1": a, "127.0.0.2": b} {
			s := &http.Server{Handler: endpoint(name)}
			go s.Serve(ln)
			t.Cleanup(func() { s.Close() })
		}
	}

	const silent = "silent"
	var answer atomic.Value // addresses, separated by spaces; "" for NXDOMAIN
	answer.Store("127.0.0.1")
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		addrs := answer.Load().(string)
		if addrs == silent {
			return
		}
		m := new(dns.Msg)
		m.SetReply(q)
		if addrs == "" {
			m.Rcode = dns.RcodeNameError
		}
		if q.Question[0].Qtype == dns.TypeA {
			for a := range strings.FieldsSeq(addrs) {
				m.Answer = append(m.Answer, &dns.A{
					Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1},
					A:   net.ParseIP(a),
				})
			}
		}
		w.WriteMsg(m)
	})}
	go server.ActivateAndServe()
	t.Cleanup(func() { server.Shutdown() })

	// This one runs in the test's process, where the name server can be given.
	file := filepath.Join(t.TempDir(), "fairlead.yaml")
	text := fmt.Sprintf(`
admin: {address: "off"}
shutdown_timeout: 2s
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools: [{name: p, endpoints: [{name: a, address: "o.example.net:%s"}]}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [p]}]
`, port)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan *node.Node, 1), make(chan error, 1)
	go func() {
		done <- node.Run(ctx, context.Background(), node.Config{
			File: file, Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Ready: func(n *node.Node) { ready <- n },
			Names: resolve.Config{Servers: []netip.AddrPort{netip.MustParseAddrPort(pc.LocalAddr().String())}, FailureRetry: 200 * time.Millisecond},
		})
	}()
	var n *node.Node
	select {
	case n = <-ready:
	case err := <-done:
		t.Fatal(err)
	case <-time.After(10 * time.Second):
		t.Fatal("node does not start")
	}
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()

	var counts [2]atomic.Int64
	l := startLoad(t, "clients", 4, plain(n.Listeners()[0].Address.String()), 10*time.Millisecond, func(c *client, _ int) error {
		res, _, err := c.do("GET", "/", "")
		switch {
		case err != nil:
			return err
		case res.StatusCode != 200:
			return fmt.Errorf("%w: %d", errStatus, res.StatusCode)
		case res.Header.Get("X-Endpoint") == "127.0.0.1":
			counts[0].Add(1)
		default:
			counts[1].Add(1)
		}
		return nil
	})
	defer l.wantNoFailure()
	// only waits until no request goes to the other address any more.
	only := func(i int) {
		t.Helper()
		lab.Await(t, fmt.Sprintf("all requests to be at 127.0.0.%d", i+1), func() bool {
			here, there := counts[i].Load(), counts[1-i].Load()
			time.Sleep(200 * time.Millisecond)
			return counts[i].Load() > here && counts[1-i].Load() == there
		})
	}
	only(0)
	answer.Store("127.0.0.2")
	switched := time.Now()
	only(1)
	t.Logf("the new address is used alone after %v", time.Since(switched))
	answer.Store(silent)
	time.Sleep(scaled(2*time.Second, 20*time.Second))
	only(1)
	answer.Store("")
	time.Sleep(scaled(2*time.Second, 10*time.Second))
	only(1)
	answer.Store("127.0.0.1 127.0.0.2")
	from := counts[0].Load()
	lab.Await(t, "both addresses to serve", func() bool { return counts[0].Load() > from+20 })
}
