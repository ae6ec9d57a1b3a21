//go:build linux

package loadtest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"fairlead/test/lab"
	"fairlead/test/process"
)

// soakMinutesEnv says how long the long form of TestSoak takes for each engine.
const soakMinutesEnv = "FAIRLEAD_SOAK_MINUTES"

func soakTime(t *testing.T) time.Duration {
	t.Helper()
	minutes := 30
	if text := os.Getenv(soakMinutesEnv); text != "" {
		var err error
		if minutes, err = strconv.Atoi(text); err != nil || minutes < 1 {
			t.Fatalf("%s=%q: want a whole number of minutes from 1", soakMinutesEnv, text)
		}
	}
	return scaled(6*time.Second, time.Duration(minutes)*time.Minute)
}

// Everything at once, for long: all protocols and kinds of bodies, clients that
// read slowly or vanish, a reload every second, endpoints that are killed. Every
// byte is verified, a request fails only for an endpoint that was killed just
// then, and when all is quiet the node has no more than it had after a first
// while of the same.
func TestSoak(t *testing.T) {
	engines := []string{"loop", "goroutine"}
	if chosen := os.Getenv("FAIRLEAD_IO"); chosen != "" {
		engines = []string{chosen}
	}
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Setenv("FAIRLEAD_IO", engine)
			soakNode(t, soakTime(t))
		})
	}
}

func soakNode(t *testing.T, long time.Duration) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))

	ca := lab.NewCA(t)
	var endpoints []*endpointProcess
	for i := range 4 {
		// Not on 127.0.0.1: that is what connections come from, one of which
		// could have the port when the endpoint is started again.
		endpoints = append(endpoints, startEndpointOn(t, fmt.Sprintf("127.0.0.%d:0", 2+i)))
	}
	c := soakConfig{ca.Issue(host), endpoints}
	p := process.Start(t, c.yaml(nil))
	m := &mix{web: p.Addr("web"), secure: p.Addr("secure"), ca: ca, seed: seed}

	// run puts the whole load on the node for a time, and leaves it quiet.
	run := func(long time.Duration) holdings {
		stop := m.start(t)
		kills := disturb(t, p, c, m, rnd, long)
		began := time.Now()
		stop()
		t.Logf("the last client left after %v", time.Since(began).Round(time.Millisecond))
		p.Reload(c.yaml(nil))
		t.Logf("%d kills, requests that failed for them: %v", kills, m.explained.counts())
		if n, most := m.explained.total(), 2*kills*m.clients; n > most {
			t.Errorf("%d requests failed in %d kills with %d clients, want at most %d", n, kills, m.clients, most)
		}
		return rest(t, p)
	}
	before := run(min(long/2, time.Minute))
	after := run(long)
	t.Logf("before %+v, after %+v", before, after)
	if after.descriptors > before.descriptors+8 {
		t.Errorf("%d descriptors, want %d", after.descriptors, before.descriptors)
	}
	// The engine keeps 32 pipes for later.
	if most := 2*32 + 2; after.pipes > most {
		t.Errorf("%d ends of pipes, want at most %d", after.pipes, most)
	}
	if after.goroutines > before.goroutines+8 {
		t.Errorf("%d goroutines, want %d", after.goroutines, before.goroutines)
	}
	if after.threads > before.threads+8 {
		t.Errorf("%d threads, want %d", after.threads, before.threads)
	}
	if after.connections != 0 || after.fibers > before.fibers {
		t.Errorf("%v connections and %v fibers on the loops, want 0 and %v", after.connections, after.fibers, before.fibers)
	}
	if most := before.resident*3/2 + 16<<20; after.resident > most && !process.Race {
		t.Errorf("%d MiB resident, want at most %d", after.resident>>20, most>>20)
	}
}

// soakConfig makes configurations that all have the listeners web and secure
// and reach the same endpoints.
type soakConfig struct {
	cert      lab.Certificate
	endpoints []*endpointProcess
}

// yaml returns one at random, or always the same when rnd is nil.
func (c soakConfig) yaml(rnd *rand.Rand) string {
	pick := func(n int) int {
		if rnd == nil {
			return 0
		}
		return rnd.IntN(n)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "shutdown_timeout: 5s\nlisteners:\n")
	fmt.Fprintf(&b, "  - {name: web, address: \"127.0.0.1:0\", protocol: http, limits: {header_timeout: %ds, body_timeout: %ds}}\n", 10+pick(5), 20+pick(5))
	fmt.Fprintf(&b, "  - {name: secure, address: \"127.0.0.1:0\", protocol: https, limits: {header_timeout: %ds, concurrent_streams: %d}, certificates: [{certificate: %q, key: %q}]}\n",
		10+pick(5), 100+pick(100), c.cert.CertFile, c.cert.KeyFile)
	if pick(3) == 1 {
		b.WriteString("  - {name: extra, address: \"127.0.0.1:0\", protocol: http}\n")
	}
	b.WriteString("monitors: [{name: up, type: http, path: /, expected_codes: \"200\", interval: 300ms, timeout: 250ms, retries: 0, consecutive_down: 2, consecutive_up: 1}]\npools:\n")
	// Connections to endpoints that nobody uses end soon, so that a node at
	// rest has none.
	pool := func(name string) {
		fmt.Fprintf(&b, "  - {name: %s, monitor: up, idle_timeout: 1s, endpoint_steering: {policy: %s}, endpoints: [", name, []string{"round_robin", "random", "least_outstanding_requests"}[pick(3)])
		for i, e := range c.endpoints {
			fmt.Fprintf(&b, "{name: %c, address: %q, weight: %.1f}, ", 'a'+i, e.addr, 1-0.1*float64(pick(8)))
		}
		b.WriteString("]}\n")
	}
	used := []string{"first", "second"}[pick(2)]
	pool(used)
	for i := range pick(20) {
		pool(fmt.Sprintf("spare-%d", i))
	}
	fmt.Fprintf(&b, "load_balancers: [{name: %s, proxied: true, default_pools: [%s]}]\n", host, used)
	return b.String()
}

// disturb reloads every second and kills an endpoint every few, until the time
// is over, and returns how many it killed. At the end all endpoints run.
func disturb(t *testing.T, p *process.Process, c soakConfig, m *mix, rnd *rand.Rand, long time.Duration) (kills int) {
	t.Helper()
	var down *endpointProcess
	up := func() {
		if down != nil {
			down.start()
			m.explained.restored()
			down = nil
		}
	}
	defer up()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for end := time.Now().Add(long); time.Now().Before(end) && !t.Failed(); {
		<-second.C
		p.Reload(c.yaml(rnd))
		time.Sleep(time.Duration(rnd.IntN(500)) * time.Millisecond) // not always at a reload
		switch {
		case down != nil && rnd.IntN(2) == 0:
			up()
		case down == nil && (kills == 0 || rnd.IntN(3) == 0):
			down = c.endpoints[rnd.IntN(len(c.endpoints))]
			m.explained.killed()
			down.kill()
			kills++
		}
	}
	return kills
}

// holdings are what a node at rest has.
type holdings struct {
	open        float64 // connections of clients and to endpoints, by the planes' own count
	descriptors int     // but pipes
	pipes       int     // their ends
	goroutines  int     // but fibers
	threads     int
	connections float64 // on the loops
	fibers      float64 // in use
	resident    int64
}

// rest waits until a node without clients comes to rest, and returns what it
// has then.
func rest(t *testing.T, p *process.Process) holdings {
	t.Helper()
	const (
		still = 3  // seconds without a change
		most  = 60 // seconds; more than any deadline of the configuration
	)
	var last holdings
	for same, second := 0, 0; second < most; second++ {
		now := holdingsOf(t, p)
		resident := now.resident
		now.resident = 0
		if now == last && now.open == 0 {
			same++
		} else {
			same = 0
		}
		if last = now; same == still {
			t.Logf("at rest after %d s", second-still)
			now.resident = resident
			return now
		}
		time.Sleep(time.Second)
	}
	p.Signal(syscall.SIGQUIT) // which prints all goroutines
	t.Fatalf("the node is not at rest after %d s: %+v", most, last)
	return last
}

func holdingsOf(t *testing.T, p *process.Process) holdings {
	t.Helper()
	var h holdings
	dir := fmt.Sprintf("/proc/%d", p.PID)
	fds, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, _ := os.Readlink(filepath.Join(dir, "fd", fd.Name())); strings.HasPrefix(to, "pipe:") {
			h.pipes++
		} else {
			h.descriptors++
		}
	}
	tasks, err := os.ReadDir(filepath.Join(dir, "task"))
	if err != nil {
		t.Fatal(err)
	}
	h.threads = len(tasks)
	h.resident = p.Memory("VmRSS")
	fibers := 0
	for series, v := range p.Series() {
		name, labels, _ := strings.Cut(series, "{")
		switch {
		case name == "go_goroutines":
			h.goroutines = int(v)
		case name == "fairlead_http_connections_open", name == "fairlead_endpoint_open_connections", name == "fairlead_endpoint_idle_connections":
			h.open += v
		case name == "fairlead_loop_connections":
			h.connections += v
		case name == "fairlead_loop_fibers":
			fibers += int(v) // those that are free, too: they are kept for later
			if strings.Contains(labels, `state="used"`) {
				h.fibers += v
			}
		}
	}
	h.goroutines -= fibers // among which the runtime counts them
	return h
}
