package http_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"fairlead/test/lab"
)

// revived is an endpoint that can be stopped and started again at its address.
type revived struct {
	t          *testing.T
	name, addr string
	server     *http.Server
}

// revive starts an endpoint, at an address of the loopback that nothing connects
// from, so that its port stays free while it is stopped.
func revive(t *testing.T, name string) *revived {
	r := &revived{t: t, name: name, addr: "127.0.0.5:0"}
	r.start()
	t.Cleanup(r.stop)
	return r
}

func (r *revived) start() {
	ln, err := net.Listen("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.addr = ln.Addr().String()
	r.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Endpoint", r.name)
	})}
	go r.server.Serve(ln)
}

func (r *revived) stop() { r.server.Close() }

// probed is what makes a pool notice an endpoint's end and return.
const probed = "monitors: [{name: up, type: tcp, interval: 100ms, timeout: 1s, retries: 0}]\n"

// Without its header a request is steered as if there were no sessions; a session
// whose endpoint is down is with the next, and back when that is back.
func TestC31HeaderAffinity(t *testing.T) {
	t.Parallel()
	ends := map[string]*revived{}
	var addrs []string
	for _, name := range []string{"A", "B", "C"} {
		ends[name] = revive(t, name)
		addrs = append(addrs, ends[name].addr)
	}
	s := site{endpoints: addrs, top: probed, pool: "monitor: up", balancer: "session_affinity: header, session_affinity_attributes: {headers: [X-User]}"}.start(t)
	c := s.client(t, v1)
	ask := func(n int, users ...string) map[string]int {
		got := map[string]int{}
		for range n {
			req, _ := http.NewRequest("GET", s.url("/"), nil)
			for _, user := range users {
				req.Header.Add("X-User", user)
			}
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != 200 {
				t.Errorf("%v: %s", users, res.Status)
			}
			got[res.Header.Get("X-Endpoint")]++
		}
		return got
	}
	only := func(got map[string]int) string {
		t.Helper()
		if len(got) != 1 {
			t.Errorf("a session meets %v", got)
		}
		for name := range got {
			return name
		}
		return ""
	}
	up := func(name string, want float64) {
		lab.Await(t, name+" to be noticed", func() bool { return s.Metric("fairlead_endpoint_up", "endpoint", name) == want })
	}
	if got := ask(100); len(got) != 3 {
		t.Errorf("without the header: %v", got)
	}
	first := only(ask(100, "u1"))
	ends[first].stop()
	up(first, 0)
	second := only(ask(100, "u1"))
	if second == first {
		t.Errorf("the session is still at %s", first)
	}
	if got := ask(100); len(got) != 2 {
		t.Errorf("without the header, while %s is down: %v", first, got)
	}
	ends[first].start()
	up(first, 1)
	if back := only(ask(100, "u1")); back != first {
		t.Errorf("after the return of %s the session is at %s", first, back)
	}
	for _, odd := range [][]string{{""}, {"u1", "u2"}, {strings.Repeat("x", 8000)}} {
		only(ask(20, odd...))
	}
}

// Sessions outlive reloads, a restart, and the way to another node; of a pool that
// changes only those of the endpoint that went move.
func TestC32SessionsOutliveChanges(t *testing.T) {
	t.Parallel()
	names := []string{"A", "B", "C", "D", "E", "F"}
	addrs := named(t, names...)
	data := t.TempDir()
	yaml := func(kind, more string, endpoints ...string) string {
		var list []string
		for _, name := range endpoints {
			list = append(list, fmt.Sprintf("{name: %s, address: %q}", name, addrs[name[0]-'A']))
		}
		return fmt.Sprintf(`
data_dir: %q
listeners: [{name: web, address: "127.0.0.1:0", protocol: http, trusted_proxies: [127.0.0.0/8]}]
pools: [{name: p, endpoints: [%s]%s}, {name: other, endpoints: [{name: z, address: "127.0.0.1:1"}]}]
load_balancers: [{name: %s, proxied: true, default_pools: [p], session_affinity: %s}]
`, data, strings.Join(list, ", "), more, host, kind)
	}
	for _, kind := range []string{"cookie", "client_ip"} {
		t.Run(kind, func(t *testing.T) {
			const clients = 300
			n := lab.Start(t, yaml(kind, "", names[:5]...))
			s := server{Node: n, addr: n.Addr("web")}
			jars, homes := make([]string, clients), make([]string, clients)
			ask := func(s server, i int) string {
				lines := fmt.Sprintf("X-Forwarded-For: 127.0.%d.%d\r\nConnection: close\r\n", 1+i/250, 1+i%250)
				if jars[i] != "" {
					lines += "Cookie: " + jars[i] + "\r\n"
				}
				r := s.raw(t, get("/", lines))
				for _, field := range lab.Fields(r.Text, "Set-Cookie") {
					if value, _, _ := strings.Cut(field, ";"); strings.HasPrefix(value, sessionCookie+"=") {
						jars[i] = value
					}
				}
				return lab.Field(r.Text, "X-Endpoint")
			}
			for i := range clients {
				homes[i] = ask(s, i)
			}
			// check asks for all, and reports how many have moved, by where to.
			check := func(what string, s server, may func(home, now string) bool) (moved int) {
				t.Helper()
				for i, home := range homes {
					now := ask(s, i)
					if now == home {
						continue
					}
					moved++
					if !may(home, now) {
						t.Errorf("%s: client %d moved from %s to %s", what, i, home, now)
					}
					homes[i] = now
				}
				return moved
			}
			never := func(string, string) bool { return false }
			n.Write(strings.Replace(yaml(kind, "", names[:5]...), "127.0.0.1:1\"", "127.0.0.1:2\"", 1))
			n.AwaitRevision(2)
			check("another pool changes", s, never)
			n.Write(yaml(kind, ", description: changed", names[:5]...))
			n.AwaitRevision(3)
			check("the description changes", s, never)
			n.Stop()
			n = lab.Start(t, yaml(kind, "", names[:5]...))
			s = server{Node: n, addr: n.Addr("web")}
			check("a restart", s, never)
			two := lab.Start(t, yaml(kind, "", names[:5]...))
			check("another node", server{Node: two, addr: two.Addr("web")}, never)
			n.Write(yaml(kind, "", "A", "B", "D", "E"))
			n.AwaitRevision(2)
			if moved := check("C is removed", s, func(home, _ string) bool { return home == "C" }); moved == 0 {
				t.Error("nobody was at C")
			}
			n.Write(yaml(kind, "", "A", "B", "D", "E", "F"))
			n.AwaitRevision(3)
			moved := check("F is added", s, func(_, now string) bool { return kind == "client_ip" && now == "F" })
			if moved > clients/4 {
				t.Errorf("%d clients moved to F", moved)
			}
		})
	}
}

// A cookie that names nothing usable is no session, and the answer begins a new one.
func TestC33StaleCookies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		pools string // afterwards; %[1]s and %[2]s are the endpoints
		lists string
		stop  bool
		mode  string
	}{
		{"disabled", "{name: p, monitor: up, endpoints: [{name: A, address: %[1]q, enabled: false}, {name: B, address: %[2]q}]}", "p", false, "none"},
		{"deleted", "{name: p, monitor: up, endpoints: [{name: B, address: %[2]q}]}", "p", false, "none"},
		{"stopped, temporary", "", "p", true, "temporary"},
		{"stopped, sticky", "", "p", true, "sticky"},
		{"its pool is gone", "{name: q, endpoints: [{name: B, address: %[2]q}]}", "q", false, "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := revive(t, "A"), revive(t, "B")
			const both = "{name: p, monitor: up, endpoints: [{name: A, address: %[1]q}, {name: B, address: %[2]q}]}"
			yaml := func(pools, lists string) string {
				return probed + fmt.Sprintf("listeners: [{name: web, address: \"127.0.0.1:0\", protocol: http}]\npools: ["+pools+"]\n", a.addr, b.addr) +
					fmt.Sprintf("load_balancers: [{name: %s, proxied: true, default_pools: [%s], session_affinity: cookie, session_affinity_attributes: {zero_downtime_failover: %s}}]\n", host, lists, c.mode)
			}
			n := lab.Start(t, yaml(both, "p"))
			s := server{Node: n, addr: n.Addr("web")}
			cl := s.client(t, v1)
			at, jar := "", ""
			visits := func(count int) (seen []string) {
				for range count {
					var set *http.Cookie
					if at, set = visit(t, s, cl, jar); set != nil {
						jar = pair(set)
					}
					if len(seen) == 0 || seen[len(seen)-1] != at {
						seen = append(seen, at)
					}
				}
				return seen
			}
			for at != "A" {
				jar = ""
				visits(1)
			}
			if c.stop {
				a.stop()
			} else {
				n.Write(yaml(c.pools, c.lists))
				n.AwaitRevision(2)
			}
			if seen := visits(20); len(seen) != 1 || seen[0] != "B" {
				t.Errorf("the jar meets %v, want B alone", seen)
			}
			if !c.stop {
				return
			}
			lab.Await(t, "A to be noticed", func() bool { return s.Metric("fairlead_endpoint_up", "endpoint", "A") == 0 })
			visits(5)
			a.start()
			lab.Await(t, "A to be back", func() bool { return s.Metric("fairlead_endpoint_up", "endpoint", "A") == 1 })
			want := map[string]string{"temporary": "A", "sticky": "B"}[c.mode]
			if seen := visits(20); len(seen) != 1 || seen[0] != want {
				t.Errorf("after the return of A the jar meets %v, want %s alone", seen, want)
			}
		})
	}
}

// Which rule wins depends on priority and place alone, never on its text.
func TestC36RuleOrder(t *testing.T) {
	t.Parallel()
	const (
		short = `{name: short, priority: %d, condition: 'http.request.uri.path eq "/a"', overrides: {default_pools: [q]}%s}`
		long  = `{name: long, priority: %d, condition: 'http.request.uri.path eq "/a" and http.request.method eq "GET" and http.host eq "www.example.com"', overrides: {default_pools: [r]}%s}`
	)
	for _, c := range []struct {
		name, first, second, want string
	}{
		{"the first terminates", fmt.Sprintf(short, 1, ", terminates: true"), fmt.Sprintf(long, 2, ""), "B"},
		{"priorities swapped", fmt.Sprintf(short, 2, ", terminates: true"), fmt.Sprintf(long, 1, ", terminates: true"), "C"},
		{"neither terminates", fmt.Sprintf(short, 1, ""), fmt.Sprintf(long, 2, ""), "C"},
		{"neither terminates, swapped", fmt.Sprintf(short, 2, ""), fmt.Sprintf(long, 1, ""), "B"},
		{"equal priorities", fmt.Sprintf(long, 5, ""), fmt.Sprintf(short, 5, ""), "B"},
		{"equal priorities, the first terminates", fmt.Sprintf(long, 5, ", terminates: true"), fmt.Sprintf(short, 5, ""), "C"},
		{"the first is disabled", fmt.Sprintf(short, 1, ", terminates: true, disabled: true"), fmt.Sprintf(long, 2, ""), "C"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			addrs := named(t, "A", "B", "C")
			s := site{endpoints: addrs[:1], balancer: "rules: [" + c.first + ", " + c.second + "]",
				pools: fmt.Sprintf("{name: q, endpoints: [{name: B, address: %q}]}, {name: r, endpoints: [{name: C, address: %q}]}", addrs[1], addrs[2])}.start(t)
			res, err := s.client(t, v1).Get(s.url("/a"))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			equal(t, "endpoint", res.Header.Get("X-Endpoint"), c.want)
		})
	}
}
