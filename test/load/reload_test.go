package loadtest

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"fairlead/test/lab"
	"fairlead/test/process"
)

// reloadConfigs returns two configurations that share the listeners web and
// secure, and differ in weights, pools, load balancers, limits and a listener.
// Many pools make it show when a plan is not let go.
func reloadConfigs(cert lab.Certificate, endpoints [2]string) [2]string {
	var configs [2]string
	for i := range configs {
		var b strings.Builder
		fmt.Fprintf(&b, `
shutdown_timeout: 5s
listeners:
  - {name: web, address: "127.0.0.1:0", protocol: http, limits: {body_timeout: %ds}}
  - {name: secure, address: "127.0.0.1:0", protocol: https, certificates: [{certificate: %q, key: %q}], limits: {header_timeout: %ds}}
`, 20+i, cert.CertFile, cert.KeyFile, 10+i)
		if i == 1 {
			b.WriteString("  - {name: extra, address: \"127.0.0.1:0\", protocol: http}\n")
		}
		fmt.Fprintf(&b, `
monitors: [{name: up, type: http, path: /, expected_codes: "200", interval: 5s, timeout: 2s}]
pools:
  - {name: p, monitor: up, endpoints: [{name: a, address: %q, weight: %v}, {name: b, address: %q}]}
`, endpoints[0], []float64{1, 0.3}[i], endpoints[1])
		if i == 1 {
			fmt.Fprintf(&b, "  - {name: added, monitor: up, endpoints: [{name: a, address: %q}]}\n", endpoints[0])
		}
		for k := range 200 {
			fmt.Fprintf(&b, "  - {name: ballast-%d, endpoints: [{name: a, address: 127.0.1.1}, {name: b, address: 127.0.1.2, weight: 0.%d}]}\n", k, i+1)
		}
		b.WriteString("load_balancers:\n  - {name: www.example.com, proxied: true, default_pools: [p]}\n")
		if i == 1 {
			b.WriteString("  - {name: added.example.com, proxied: true, default_pools: [added]}\n")
		}
		configs[i] = b.String()
	}
	return configs
}

// Reloads under load lose no request, over any protocol, and leave nothing
// behind.
func TestReload(t *testing.T) {
	collectOften(t)
	ca := lab.NewCA(t)
	configs := reloadConfigs(ca.Issue(host), [2]string{serve(t, nil), serve(t, nil)})
	p := process.Start(t, configs[0])

	loads := []*load{
		startLoad(t, "HTTP/1.1", 16, plain(p.Addr("web")), time.Millisecond, mixed),
		startLoad(t, "new connections", 2, plain(p.Addr("web")), 5*time.Millisecond, func(c *client, i int) error {
			defer c.close()
			return mixed(c, i)
		}),
		startLoad(t, "HTTP/1.1 over TLS", 4, secure(p.Addr("secure"), ca.Client(host, "http/1.1")), time.Millisecond, mixed),
		startHTTP2Load(t, 4, p.Addr("secure"), ca.Client(host, "h2")),
	}
	next := 0
	reload := func() {
		next++
		p.Reload(configs[next%2])
	}
	for range scaled(10, 40) {
		reload()
	}
	before := leastUsage(p, 10, reload)
	began := time.Now()
	count := scaled(30, 190)
	for range count {
		reload()
	}
	t.Logf("%d reloads, %v each", count, time.Since(began)/time.Duration(count))
	for range 2 { // by the file alone
		n := p.Count("configuration is in force")
		next++
		p.Write(configs[next%2])
		p.AwaitPlan(n + 1)
	}
	after := leastUsage(p, 10, reload)
	for _, l := range loads {
		l.wantNoFailure()
	}
	t.Logf("before %+v, after %+v", before, after)
	if d := after.goroutines - before.goroutines; d > 20 {
		t.Errorf("%d goroutines more", d)
	}
	if d := after.descriptors - before.descriptors; d > 20 {
		t.Errorf("%d descriptors more", d)
	}
	// A plan with its tables is some hundred KiB.
	if d := after.heap - before.heap; d > 6<<20 && !process.Race {
		t.Errorf("heap grew by %.1f MiB", d/(1<<20))
	}
}

// startHTTP2Load has n clients make requests over HTTP/2, each over its own
// connection.
func startHTTP2Load(t testing.TB, n int, addr string, cfg *tls.Config) *load {
	var next atomic.Int64
	clients := make([]*http.Client, n)
	for i := range clients {
		tr := &http2.Transport{DialTLSContext: func(ctx context.Context, _, _ string, _ *tls.Config) (net.Conn, error) {
			return (&tls.Dialer{Config: cfg}).DialContext(ctx, "tcp", addr)
		}}
		clients[i] = &http.Client{Transport: tr, Timeout: 20 * time.Second}
		t.Cleanup(tr.CloseIdleConnections)
	}
	return startLoad(t, "HTTP/2", n, nil, time.Millisecond, func(*client, int) error {
		k := next.Add(1)
		method, body := "GET", io.Reader(nil)
		if k%2 == 0 {
			method, body = "PUT", strings.NewReader("body")
		}
		req, err := http.NewRequest(method, "https://"+host+"/", body)
		if err != nil {
			return err
		}
		res, err := clients[k%int64(n)].Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			return err
		}
		if res.StatusCode != 200 {
			return fmt.Errorf("%w: %d", errStatus, res.StatusCode)
		}
		return nil
	})
}

// Upgraded connections outlive changes, which they do not keep alive, and end
// with the node.
func TestUpgradedOutliveReloads(t *testing.T) {
	collectOften(t)
	configs := reloadConfigs(lab.NewCA(t).Issue(host), [2]string{serve(t, nil), serve(t, nil)})
	for i := range configs {
		configs[i] = strings.Replace(configs[i], "shutdown_timeout: 5s", "shutdown_timeout: 1s", 1)
	}
	p := process.Start(t, configs[0])
	var conns []*lab.Client
	for range scaled(50, 200) {
		c := lab.Dial(t, p.Addr("web"))
		c.Send("GET /echo HTTP/1.1\r\nHost: " + host + "\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
		if res := c.Response("GET"); res.StatusCode != 101 {
			t.Fatalf("upgrade: %s", res.Status)
		}
		conns = append(conns, c)
	}
	echo := func() {
		t.Helper()
		for i, c := range conns {
			c.Send("still there\n")
			if got := c.Line(); got != "still there" {
				t.Fatalf("connection %d echoes %q", i, got)
			}
		}
	}
	echo()
	next := 0
	reload := func() {
		next++
		p.Reload(configs[next%2])
	}
	for range 12 {
		reload()
	}
	early := leastUsage(p, 12, reload)
	for range scaled(24, 264) {
		reload()
	}
	late := leastUsage(p, 12, reload)
	echo()
	t.Logf("early %+v, late %+v", early, late)
	if late.goroutines > early.goroutines+early.goroutines/10 {
		t.Errorf("goroutines grew from %d to %d", early.goroutines, late.goroutines)
	}
	if late.heap > early.heap+4<<20 && !process.Race {
		t.Errorf("heap grew from %.1f to %.1f MiB", early.heap/(1<<20), late.heap/(1<<20))
	}
	began := time.Now()
	p.Signal(syscallTERM)
	if code := p.AwaitExit(8 * time.Second); code != 0 {
		t.Errorf("exit status %d", code)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("node with shutdown_timeout 1s ended after %v", took)
	}
	for i, c := range conns {
		if end := c.Ended(time.Second); end == lab.Open {
			t.Fatalf("connection %d is still open", i)
		}
	}
}
