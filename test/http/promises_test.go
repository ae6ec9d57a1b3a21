package http_test

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead/internal/affinity"
	"fairlead/internal/plan"
	"fairlead/test/lab"
)

// The tests of this file are named for what is promised of sessions, failover and
// the rest, a line each.

// sealed returns the cookie of a session, made as a node with these keys would.
func sealed(t *testing.T, dataDir string, session affinity.Session) string {
	t.Helper()
	keys, err := affinity.LoadKeys(filepath.Join(dataDir, "session_keys"))
	if err != nil {
		t.Fatal(err)
	}
	return sessionCookie + "=" + string(keys.Seal(nil, []byte(host), session))
}

// A session in a cookie lasts for 82,800 s from its beginning, unless told otherwise;
// then another endpoint is computed: by steering, or, for ip_cookie, by the address.
func TestCookieSessionEnds(t *testing.T) {
	t.Parallel()
	for kind, one := range map[string]bool{"cookie": false, "ip_cookie": true} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			addrs := named(t, "A", "B", "C", "D")
			s := site{endpoints: addrs, top: "data_dir: " + dir, balancer: "session_affinity: " + kind}.start(t)
			c := s.client(t, v1)
			_, cookie := visit(t, s, c)
			const ttl = 82_800 * time.Second
			if left := time.Until(cookie.Expires); left > ttl || left < ttl-time.Minute {
				t.Errorf("the cookie lasts for %v, want %v", left, ttl)
			}
			// Of all endpoints one with a session that is over by a second, and
			// another that has a minute.
			seen := map[string]bool{}
			for i, addr := range addrs {
				session := affinity.Session{Endpoint: plan.SessionIdentity("p", "", addr), Expires: time.Now().Add(time.Minute).Unix()}
				if e, set := visit(t, s, c, sealed(t, dir, session)); e != string(rune('A'+i)) || set != nil {
					t.Errorf("in the session's last minute: endpoint %s and cookie %v, want %c and none", e, set, 'A'+i)
				}
				session.Expires = time.Now().Unix() - 1
				over := sealed(t, dir, session)
				for range 8 {
					e, set := visit(t, s, c, over)
					if set == nil {
						t.Fatal("a session that is over goes on")
					}
					seen[e] = true
				}
			}
			equal(t, "cookies that were made", s.Metric("fairlead_session_cookies_total"), float64(1+8*len(addrs)))
			if (len(seen) == 1) != one {
				t.Errorf("after their sessions' ends clients met %v", seen)
			}
		})
	}
}

// zero_downtime_failover temporary: traffic goes to another endpoint, one and the
// same for a client, until the session's is available again.
func TestTemporaryFailoverLastsUntilTheEndpointIsBack(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"cookie", "ip_cookie"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ends := map[string]*revived{}
			var addrs []string
			for _, name := range []string{"A", "B", "C", "D"} {
				ends[name] = revive(t, name)
				addrs = append(addrs, ends[name].addr)
			}
			s := site{endpoints: addrs, top: probed, pool: "monitor: up", listener: "trusted_proxies: [127.0.0.0/8]",
				balancer: "session_affinity: " + kind + ", session_affinity_attributes: {zero_downtime_failover: temporary}"}.start(t)
			ask := func(client int, cookie string) (endpoint, set string) {
				r := s.raw(t, get("/", fmt.Sprintf("X-Forwarded-For: 192.0.2.%d\r\nCookie: %s\r\nConnection: close\r\n", client, cookie)))
				equal(t, "status", r.Status(), "200")
				set, _, _ = strings.Cut(lab.Field(r.Text, "Set-Cookie"), ";")
				return lab.Field(r.Text, "X-Endpoint"), set
			}
			jars := map[int]string{}
			for client := 1; len(jars) < 8; client++ {
				if e, set := ask(client, ""); e == "A" {
					jars[client] = set
				}
			}
			check := func(when string, want func(endpoint string) bool) (met map[string]bool) {
				t.Helper()
				met = map[string]bool{}
				for client, jar := range jars {
					first := ""
					for range 5 {
						e, set := ask(client, jar)
						if first == "" {
							first = e
						}
						if e != first || !want(e) || set != "" {
							t.Errorf("%s client %d meets %s after %s, and cookie %q", when, client, e, first, set)
						}
					}
					met[first] = true
				}
				return met
			}
			up := func(want float64) {
				lab.Await(t, "A to be noticed", func() bool { return s.Metric("fairlead_endpoint_up", "endpoint", "A") == want })
			}
			notA := func(e string) bool { return e != "A" }
			ends["A"].stop()
			if s.Metric("fairlead_endpoint_up", "endpoint", "A") == 1 {
				check("before A is found down", notA)
			}
			up(0)
			if met := check("while A is down", notA); len(met) < 2 {
				t.Errorf("all sessions of A went to %v", met)
			}
			ends["A"].start()
			up(1)
			check("when A is back", func(e string) bool { return e == "A" })
		})
	}
}

// The name of an endpoint is for people: another one changes nothing of its sessions,
// health and traffic.
func TestEndpointNamesChangeNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"cookie", "header", "client_ip"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			addrs := named(t, "A", "B", "C")
			// It is probed at the start and not again in the time of this test.
			text := func(first string) string {
				return fmt.Sprintf(`
monitors: [{name: up, type: tcp, interval: 60s, timeout: 1s}]
listeners: [{name: web, address: "127.0.0.1:0", protocol: http, trusted_proxies: [127.0.0.0/8]}]
pools: [{name: p, monitor: up, endpoints: [{name: %s, address: %q}, {name: b, address: %q}, {name: c, address: %q}]}]
load_balancers: [{name: %s, proxied: true, default_pools: [p], session_affinity: %s, session_affinity_attributes: {%s}}]
`, first, addrs[0], addrs[1], addrs[2], host, kind, map[string]string{"header": "drain_duration: 60s, headers: [X-User]", "cookie": "drain_duration: 60s"}[kind])
			}
			n := lab.Start(t, text("a"))
			s := server{Node: n, addr: n.Addr("web")}
			lab.Await(t, "the endpoints to be up", func() bool { return n.Metric("fairlead_endpoint_up") == 3 })
			ask := func(client int, cookie string) (endpoint, set string) {
				r := s.raw(t, get("/", fmt.Sprintf("X-Forwarded-For: 192.0.2.%d\r\nX-User: %[1]d\r\nCookie: %[2]s\r\nConnection: close\r\n", client, cookie)))
				for _, field := range lab.Fields(r.Text, "Set-Cookie") {
					if strings.HasPrefix(field, sessionCookie) {
						set, _, _ = strings.Cut(field, ";")
					}
				}
				return lab.Field(r.Text, "X-Endpoint"), set
			}
			const clients = 30
			var homes, jars [clients]string
			seen := map[string]bool{}
			for i := range clients {
				homes[i], jars[i] = ask(i, "")
				seen[homes[i]] = true
			}
			if len(seen) < 3 {
				t.Fatalf("30 clients met %v", seen)
			}
			n.Write(text("other"))
			n.AwaitRevision(2)
			for i := range clients {
				if e, set := ask(i, jars[i]); e != homes[i] || set != "" {
					t.Errorf("client %d of %s meets %s and cookie %q", i, homes[i], e, set)
				}
			}
			equal(t, "endpoints that are up", n.Metric("fairlead_endpoint_up"), 3)
			for _, e := range n.Status().Pools[0].Endpoints {
				if e.Draining != nil {
					t.Errorf("%s drains", e.Name)
				}
			}
			equal(t, "endpoints in the status", len(n.Status().Pools[0].Endpoints), 3)
		})
	}
}

// Failover tries once more for 521, 522, 523, 525 and 526, and for nothing else; a
// request that is bound to a session as its zero_downtime_failover says. The codes are
// those of an endpoint that cannot be had: one that answers with them is relayed.
func TestFailoverCodes(t *testing.T) {
	t.Parallel()
	retried := map[int]bool{521: true, 522: true, 523: true, 525: true, 526: true}
	type trial struct {
		name, keys, addr string
		status           int
		again            bool
	}
	ca := lab.NewCA(t)
	var trials []trial
	for _, e := range edgeErrors {
		if e.here {
			continue
		}
		trials = append(trials, trial{e.name, strings.ReplaceAll(e.pool, "CA", ca.File), e.addr(t, ca), e.status, retried[e.status]})
	}
	for _, status := range []int{500, 502, 503, 504, 520, 521, 522, 523, 525, 526, 530} {
		addr := lab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		trials = append(trials, trial{fmt.Sprint("answers", status), "", addr, status, false})
	}
	for _, c := range trials {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, failover := range []string{"no session", "none", "temporary", "sticky"} {
				b, dir := lab.NewEndpoint(t, "B"), t.TempDir()
				balancer, cookie := acrossPools, ""
				if failover != "no session" {
					balancer += ", session_affinity: cookie, session_affinity_attributes: {zero_downtime_failover: " + failover + "}"
				}
				n := lab.Start(t, fmt.Sprintf(`
data_dir: %q
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools: [{name: p, endpoints: [{name: A, address: %q}]%s}, {name: q, endpoints: [{name: B, address: %q}]}]
load_balancers: [{name: %s, proxied: true, default_pools: [p, q], retry_budget: 1, %s}]
`, dir, c.addr, more(c.keys), b.Addr, host, balancer))
				if failover != "no session" {
					cookie = "Cookie: " + sealed(t, dir, affinity.Session{Endpoint: plan.SessionIdentity("p", "", c.addr), Expires: time.Now().Add(time.Hour).Unix()}) + "\r\n"
				}
				s := server{Node: n, addr: n.Addr("web")}
				again, want := c.again && failover != "none", c.status
				if c.name == "noname" && failover == "no session" { // nothing was asked yet
					again = true
				}
				if again {
					want = 200
				}
				const count = 3
				equal(t, failover+": "+fmt.Sprint(want), statuses(t, s, count, request("POST", "/", cookie+"Content-Length: 5\r\n", "hello"))[want], count)
				tries := map[bool]float64{true: count}[again]
				equal(t, failover+": retries", s.Metric("fairlead_http_retries_total"), tries)
				equal(t, failover+": requests at B", float64(b.Requests()), tries)
				n.Stop()
			}
		})
	}
}

// Failover needs another endpoint that is healthy.
func TestFailoverNeedsAHealthyEndpoint(t *testing.T) {
	t.Parallel()
	// The monitor's port is open at one address only.
	probe := lab.NewEndpoint(t, "probe")
	_, port, _ := strings.Cut(probe.Addr, ":")
	b := revive(t, "B")
	s := site{endpoints: []string{lab.Refusing(t), b.addr}, pool: "monitor: up", balancer: "retry_budget: 1, session_affinity: client_ip",
		top: "monitors: [{name: up, type: tcp, interval: 60s, timeout: 1s, retries: 0, port: " + port + "}]\n"}.start(t)
	lab.Await(t, "the verdicts", func() bool {
		return s.Metric("fairlead_endpoint_up", "endpoint", "A") == 1 && s.Status().Pools[0].Endpoints[1].Verdict == "unhealthy"
	})
	equal(t, "521", statuses(t, s, 10, get("/", ""))[521], 10)
	equal(t, "requests at B", s.Metric("fairlead_endpoint_requests_total", "endpoint", "B"), 0)
	equal(t, "retries", s.Metric("fairlead_http_retries_total"), 0)
}

// Failover across pools leaves a pool only where that has no other endpoint.
func TestFailoverPrefersItsOwnPool(t *testing.T) {
	t.Parallel()
	for _, affinity := range []string{"none", "cookie"} {
		c, b := lab.NewEndpoint(t, "C"), lab.NewEndpoint(t, "B")
		n := lab.Start(t, fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools: [{name: p, endpoint_steering: {policy: round_robin}, endpoints: [{name: A, address: %q}, {name: C, address: %q}]}, {name: q, endpoints: [{name: B, address: %q}]}]
load_balancers: [{name: %s, proxied: true, default_pools: [p, q], retry_budget: 1, session_affinity: %s, %s}]
`, lab.Refusing(t), c.Addr, b.Addr, host, affinity, acrossPools))
		s := server{Node: n, addr: n.Addr("web")}
		equal(t, "200", statuses(t, s, 10, get("/", ""))[200], 10)
		equal(t, "requests at C", c.Requests(), 10)
		equal(t, "requests at B", b.Requests(), 0)
		if s.Metric("fairlead_http_retries_total") == 0 {
			t.Error("nothing was retried: the case did not come up")
		}
	}
}

// Without sessions an endpoint that is disabled, or removed, harms no user: what is
// under way ends as it would have, and what comes goes elsewhere.
func TestDisablingWithoutSessionsHarmsNobody(t *testing.T) {
	t.Parallel()
	for _, change := range []string{"enabled: false", "removed"} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			asked, release := make(chan struct{}), make(chan struct{})
			slow := lab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, "first,")
				http.NewResponseController(w).Flush()
				asked <- struct{}{}
				<-release
				io.WriteString(w, "last")
			}))
			text := func(keys string) string {
				a := fmt.Sprintf("{name: A, address: %q, weight: 1%s}, ", slow, keys)
				if keys == ", removed" {
					a = ""
				}
				return fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools: [{name: p, endpoints: [%s{name: B, address: %q, weight: 0}]}]
load_balancers: [{name: %s, proxied: true, default_pools: [p]}]
`, a, named(t, "B")[0], host)
			}
			n := lab.Start(t, text(""))
			s := server{Node: n, addr: n.Addr("web")}
			got := make(chan string)
			go func() {
				// It ends when it is released, which is only after the reload.
				r := s.raw(t, get("/", "Connection: close\r\n"), lab.Within(time.Minute))
				got <- r.Status() + " " + r.Text
			}()
			<-asked
			n.Write(text(", " + change))
			n.AwaitRevision(2)
			for range 5 {
				e, _ := visit(t, s, s.client(t, v1))
				equal(t, "endpoint of a new request", e, "B")
			}
			close(release)
			if r := <-got; !strings.HasPrefix(r, "200 ") || !strings.Contains(r, "first,") || !strings.Contains(r, "last") {
				t.Errorf("the request that was under way got %q", r)
			}
		})
	}
}

// What a pool sheds of the traffic without sessions leaves those that there are alone.
func TestSheddingOfNewTrafficLeavesSessions(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"random", "hash"} {
		addrs := named(t, "A", "B")
		text := func(percent int) string {
			return fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools:
  - {name: one, load_shedding: {default_percent: %d, default_policy: %s}, endpoints: [{name: A, address: %q}]}
  - {name: two, endpoints: [{name: B, address: %q}]}
load_balancers: [{name: %s, proxied: true, default_pools: [one, two], session_affinity: cookie}]
`, percent, policy, addrs[0], addrs[1], host)
		}
		n := lab.Start(t, text(0))
		s := server{Node: n, addr: n.Addr("web")}
		c := s.client(t, v1)
		e, cookie := visit(t, s, c)
		equal(t, "endpoint", e, "A")
		n.Write(text(100))
		n.AwaitRevision(2)
		for range 5 {
			e, set := visit(t, s, c, pair(cookie))
			if e != "A" || set != nil {
				t.Errorf("the session is at %s, and gets cookie %v", e, set)
			}
			fresh, _ := visit(t, s, c)
			equal(t, "endpoint of a new client", fresh, "B")
		}
	}
}

// Clients do not learn which endpoint serves them, nor from errors.
func TestAnswersNameNoEndpoint(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	protocols(t, func(t *testing.T, tls bool, v httpVersion) {
		for _, addr := range []string{o.Addr, lab.Refusing(t), lab.NewOrigin(t, lab.Answer("babble\r\n\r\n")).Addr} {
			s := site{endpoints: []string{addr}, tls: tls, pools: fmt.Sprintf("{name: secretpool, endpoints: [{name: secretend, address: %q}]}", addr),
				balancer: "fallback_pool: secretpool, rules: [{name: secretrule, condition: 'true', overrides: {default_pools: [secretpool]}}], session_affinity: cookie"}.start(t)
			res, err := s.client(t, v).Get(s.url("/"))
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(res.Body)
			res.Body.Close()
			var all strings.Builder
			res.Header.Write(&all)
			all.Write(body)
			_, port, _ := strings.Cut(addr, ":")
			for _, secret := range []string{"secret", "127.0.0.1:" + port, ":" + port} {
				if strings.Contains(all.String(), secret) {
					t.Errorf("the answer tells %q:\n%s", secret, &all)
				}
			}
			for name := range res.Header {
				switch name {
				case "Content-Length", "Content-Type", "Cache-Control", "Set-Cookie", "Alt-Svc", "Date":
				default:
					t.Errorf("the answer has a field of ours: %s: %q", name, res.Header[name])
				}
			}
		}
	})
}

// By a rule, messages of POST go to a pool that is meant for them.
func TestRuleSendsPostsToTheirPool(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, tls bool, v httpVersion) {
		s := ruled(t, tls, toB(`http.request.method eq "POST"`))
		for method, want := range map[string]string{"GET": "A", "HEAD": "A", "PUT": "A", "POST": "B"} {
			req, _ := http.NewRequest(method, s.url("/"), nil)
			res, err := s.client(t, v).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			equal(t, method+": endpoint", res.Header.Get("X-Endpoint"), want)
		}
	})
}

// What is kept of a body, so that a request can be sent again, is bounded as
// retry_body_bytes says.
func TestRetryBodyBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		keys string
		body int
		want int
	}{
		{"", 64 << 10, 200},
		{"", 64<<10 + 1, 520},
		{"retry_body_bytes: 10", 10, 200},
		{"retry_body_bytes: 10", 11, 520},
		{"retry_body_bytes: 0", 0, 200},
		{"retry_body_bytes: 0", 1, 520},
	} {
		t.Run(fmt.Sprint(c.keys, c.body), func(t *testing.T) {
			t.Parallel()
			read := lab.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				panic(http.ErrAbortHandler) // without an answer
			}))
			b := lab.NewEndpoint(t, "B")
			n := lab.Start(t, fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools: [{name: p, endpoints: [{name: A, address: %q}]}, {name: q, endpoints: [{name: B, address: %q}]}]
load_balancers: [{name: %s, proxied: true, default_pools: [p, q], retry_budget: 1, %s%s}]
`, read, b.Addr, host, acrossPools, more(c.keys)))
			s := server{Node: n, addr: n.Addr("web")}
			// Its end comes later, so that the beginning is sent before.
			k := s.dial(t)
			k.Send(fmt.Sprintf("PUT / HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", host, c.body))
			k.Send(strings.Repeat("x", c.body))
			equal(t, "status", k.Response("PUT").StatusCode, c.want)
		})
	}
}
