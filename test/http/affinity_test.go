package http_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"fairlead/test/lab"
)

const sessionCookie = "__fairlead"

// visit makes a request with cookies and returns the endpoint that answered and
// the session's cookie of the answer, if there is one.
func visit(t *testing.T, s server, c *http.Client, cookies ...string) (endpoint string, set *http.Cookie) {
	t.Helper()
	req, _ := http.NewRequest("GET", s.url("/"), nil)
	for _, cookie := range cookies {
		req.Header.Add("Cookie", cookie)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for _, cookie := range res.Cookies() {
		if cookie.Name == sessionCookie {
			if set != nil {
				t.Errorf("two cookies: %v", res.Header["Set-Cookie"])
			}
			set = cookie
		}
	}
	if res.StatusCode != 200 {
		return res.Status, set
	}
	return res.Header.Get("X-Endpoint"), set
}

// named makes endpoints that tell their names.
func named(t *testing.T, names ...string) (addrs []string) {
	for _, name := range names {
		addrs = append(addrs, lab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Endpoint", name)
			w.Header().Set("Set-Cookie", "app=1")
		})))
	}
	return addrs
}

func pair(c *http.Cookie) string { return c.Name + "=" + c.Value }

// A cookie binds its client, and nobody else, to the endpoint that answered first.
// It is set once: its clock does not start anew.
func TestCookieAffinity(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, tls bool, v httpVersion) {
		s := site{endpoints: named(t, "A", "B", "C", "D"), tls: tls, balancer: "session_affinity: cookie"}.start(t)
		c := s.client(t, v)
		seen := map[string]bool{}
		for range 12 {
			first, cookie := visit(t, s, c)
			if cookie == nil {
				t.Fatal("no cookie")
			}
			seen[first] = true
			for _, header := range [][]string{
				{pair(cookie)}, {"a=1; " + pair(cookie) + "; b=2"}, {"a=1", pair(cookie)}, {"a=1;" + pair(cookie)},
				{sessionCookie + "=of-a-parent-domain; " + pair(cookie)},
			} {
				again, set := visit(t, s, c, header...)
				if again != first || set != nil {
					t.Errorf("Cookie %q: endpoint %s and cookie %v, want %s and none", header, again, set, first)
				}
			}
		}
		if len(seen) < 2 {
			t.Errorf("all clients met %v", seen)
		}
	})
}

func TestCookieAttributes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		keys string
		tls  bool
		want string // behind the value
	}{
		{"", false, "; Path=/; Expires=GMT; HttpOnly; SameSite=Lax"},
		{"", true, "; Path=/; Expires=GMT; HttpOnly; SameSite=None; Secure"},
		{"samesite: strict, secure: never", true, "; Path=/; Expires=GMT; HttpOnly; SameSite=Strict"},
		{"samesite: lax, secure: always", false, "; Path=/; Expires=GMT; HttpOnly; SameSite=Lax; Secure"},
		{"secure: never", true, "; Path=/; Expires=GMT; HttpOnly; SameSite=Lax"},
		{"samesite: none", false, "; Path=/; Expires=GMT; HttpOnly"}, // None without Secure is dropped
		{"samesite: none, secure: always", false, "; Path=/; Expires=GMT; HttpOnly; SameSite=None; Secure"},
	} {
		t.Run(fmt.Sprint(c.keys, c.tls), func(t *testing.T) {
			t.Parallel()
			s := site{endpoints: named(t, "A"), tls: c.tls, balancer: "session_affinity: cookie, session_affinity_ttl: 1h, session_affinity_attributes: {" + c.keys + "}"}.start(t)
			_, cookie := visit(t, s, s.client(t, v1))
			got := regexp.MustCompile(`Expires=.*GMT`).ReplaceAllString(strings.TrimPrefix(cookie.Raw, pair(cookie)), "Expires=GMT")
			equal(t, "attributes", got, c.want)
			if left := time.Until(cookie.Expires); left < 59*time.Minute || left > time.Hour {
				t.Errorf("the cookie expires in %v, want an hour", left)
			}
		})
	}
	t.Run("a trusted proxy speaks for its client", func(t *testing.T) {
		t.Parallel()
		s := site{endpoints: named(t, "A"), listener: "trusted_proxies: [127.0.0.0/8]", balancer: "session_affinity: cookie"}.start(t)
		r := s.raw(t, get("/", "X-Forwarded-Proto: https\r\nConnection: close\r\n"))
		if !strings.Contains(r.Text, "; SameSite=None; Secure\r\n") {
			t.Errorf("answer:\n%s", r.Text)
		}
	})
}

// What is not a session of this load balancer is no session, and no error.
func TestForeignCookies(t *testing.T) {
	t.Parallel()
	s := site{endpoints: named(t, "A", "B"), balancer: "session_affinity: cookie"}.start(t)
	other := site{endpoints: named(t, "A", "B"), balancer: "session_affinity: cookie"}.start(t) // with keys of its own
	c := s.client(t, v1)
	_, foreign := visit(t, other, other.client(t, v1))
	_, own := visit(t, s, c)
	for _, value := range []string{
		foreign.Value, "", "x", strings.Repeat("A", len(own.Value)), own.Value[1:], own.Value + "A",
		strings.Repeat("A", 4000), own.Value[:20] + "!" + own.Value[21:],
	} {
		if endpoint, set := visit(t, s, c, sessionCookie+"="+value); len(endpoint) != 1 || set == nil {
			t.Errorf("cookie %.80q: endpoint %s and cookie %v, want a new session", value, endpoint, set)
		}
	}
}

// A session whose endpoint is gone or disabled begins anew elsewhere; one of
// another endpoint stays where it is, whatever becomes of the rest.
func TestSessionEndsWithItsEndpoint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, rest string }{
		{"disabled", `, {name: A, address: %q, enabled: false}`},
		{"removed", ``},
		{"of another address", `, {name: A, address: "127.0.0.1:1"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			addrs := named(t, "A", "B")
			text := func(endpoints string) string {
				return fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools: [{name: p, endpoints: [%s]}]
load_balancers: [{name: %s, proxied: true, default_pools: [p], session_affinity: cookie, retry_budget: 1}]
`, endpoints, host)
			}
			b := fmt.Sprintf(`{name: B, address: %q}`, addrs[1])
			n := lab.Start(t, text(fmt.Sprintf(`{name: A, address: %q}, %s`, addrs[0], b)))
			s := server{Node: n, addr: n.Addr("web")}
			cl := s.client(t, v1)
			cookies := map[string]*http.Cookie{}
			for len(cookies) < 2 {
				e, cookie := visit(t, s, cl)
				cookies[e] = cookie
			}
			if strings.Contains(c.rest, "%q") {
				c.rest = fmt.Sprintf(c.rest, addrs[0])
			}
			n.Write(text(b + c.rest))
			n.AwaitRevision(2)
			for e, cookie := range cookies {
				got, set := visit(t, s, cl, pair(cookie))
				if got != "B" || (set != nil) != (e == "A") {
					t.Errorf("session of %s: endpoint %s and cookie %v", e, got, set)
				}
			}
		})
	}
}

// zero_downtime_failover: what a session meets whose endpoint refuses.
func TestSessionFailover(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		setting, status string // of the session
		sets, stays     bool
	}{
		{"none", "521 ", false, true},
		{"temporary", "B", false, true},
		{"sticky", "B", true, false},
	} {
		t.Run(c.setting, func(t *testing.T) {
			t.Parallel()
			a := lab.NewEndpoint(t, "A")
			text := func(addr string) string {
				return fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools: [{name: p, endpoint_steering: {policy: round_robin}, endpoints: [{name: A, address: %q, weight: 1}%s]}]
load_balancers: [{name: %s, proxied: true, default_pools: [p], session_affinity: cookie, retry_budget: 1, session_affinity_attributes: {zero_downtime_failover: %s}}]
`, a.Addr, addr, host, c.setting)
			}
			n := lab.Start(t, text(""))
			s := server{Node: n, addr: n.Addr("web")}
			cl := s.client(t, v1)
			_, cookie := visit(t, s, cl)
			n.Write(text(fmt.Sprintf(`, {name: B, address: %q}`, named(t, "B")[0])))
			n.AwaitRevision(2)
			a.Stop()
			got, set := visit(t, s, cl, pair(cookie))
			if !strings.HasPrefix(got, c.status) || (set != nil) != c.sets {
				t.Errorf("endpoint %s and cookie %v, want %s", got, set, c.status)
			}
			if set != nil {
				equal(t, "the end of the session", set.Expires, cookie.Expires)
				if again, more := visit(t, s, cl, pair(set)); again != "B" || more != nil {
					t.Errorf("afterwards endpoint %s and cookie %v", again, more)
				}
			}
			// Who has no session is served whatever the setting, and bound to
			// the endpoint that answered.
			for range 4 {
				got, set := visit(t, s, cl)
				if got != "B" || set == nil {
					t.Errorf("without a session: endpoint %s and cookie %v", got, set)
				}
			}
		})
	}
}

// Nodes with the same file and keys bind a client to the same endpoint by its
// address, and honour each other's cookies.
func TestAffinityAcrossNodes(t *testing.T) {
	t.Parallel()
	addrs := named(t, "A", "B", "C", "D")
	keys := filepath.Join(t.TempDir(), "shared")
	if err := os.Mkdir(keys, 0o700); err != nil {
		t.Fatal(err)
	}
	start := func(kind string) server {
		return site{endpoints: addrs, listener: "trusted_proxies: [127.0.0.0/8]", balancer: "session_affinity: " + kind, top: "data_dir: " + keys}.start(t)
	}
	ask := func(s server, client, cookie string) (endpoint, set string) {
		lines := "X-Forwarded-For: " + client + "\r\nConnection: close\r\n"
		if cookie != "" {
			lines += "Cookie: " + cookie + "\r\n"
		}
		r := s.raw(t, get("/", lines))
		for _, field := range lab.Fields(r.Text, "Set-Cookie") {
			if value, _, _ := strings.Cut(field, ";"); strings.HasPrefix(value, sessionCookie+"=") {
				set = value
			}
		}
		return lab.Field(r.Text, "X-Endpoint"), set
	}
	for _, kind := range []string{"ip_cookie", "client_ip", "cookie"} {
		t.Run(kind, func(t *testing.T) {
			one, two := start(kind), start(kind)
			seen := map[string]bool{}
			for i := range 40 {
				client := fmt.Sprintf("192.0.2.%d", i)
				e, set := ask(one, client, "")
				seen[e] = true
				equal(t, "there is a cookie", set != "", kind != "client_ip")
				if kind != "cookie" {
					again, _ := ask(two, client, "")
					equal(t, "endpoint by the other node", again, e)
				}
				if set != "" {
					// From another address the cookie counts.
					again, more := ask(two, "198.51.100.1", set)
					equal(t, "endpoint by the other node, with the cookie", again, e)
					equal(t, "another cookie", more, "")
				}
			}
			if len(seen) < 3 {
				t.Errorf("40 clients met %v", seen)
			}
		})
	}
}

// A new key in front of the file seals from the next reload on; what older ones
// sealed holds until they are removed.
func TestSessionKeysRotate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "session_keys")
	addr := named(t, "A")[0]
	text := func(n int) string {
		return fmt.Sprintf(`
data_dir: %s
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools: [{name: p, endpoints: [{name: A, address: %q}]}]
load_balancers: [{name: %s, description: "%d", proxied: true, default_pools: [p], session_affinity: cookie}]
`, dir, addr, host, n)
	}
	n := lab.Start(t, text(1))
	s := server{Node: n, addr: n.Addr("web")}
	cl := s.client(t, v1)
	_, first := visit(t, s, cl)
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const fresh = "MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI=\n"
	reload := func(revision uint64, keys string) {
		if err := os.WriteFile(file, []byte(keys), 0o600); err != nil {
			t.Fatal(err)
		}
		n.Write(text(int(revision)))
		n.AwaitRevision(revision)
	}
	reload(2, fresh+string(old))
	if _, set := visit(t, s, cl, pair(first)); set != nil {
		t.Error("the session of the older key was lost")
	}
	_, second := visit(t, s, cl)
	reload(3, fresh)
	if _, set := visit(t, s, cl, pair(first)); set == nil {
		t.Error("the session of a key that was removed goes on")
	}
	if _, set := visit(t, s, cl, pair(second)); set != nil {
		t.Error("the session of the new key was lost")
	}
	if err := os.WriteFile(file, []byte("broken\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	n.Write(text(4))
	n.AwaitRefusals(1)
	if e := n.Status().Config.Error; !strings.Contains(e, file+": line 1: ") || strings.Contains(e, "broken") {
		t.Errorf("refused for %q, want the file and the line, and nothing of the key", e)
	}
}

// A pool that sheds sessions breaks them, and they go on elsewhere.
func TestSessionShedding(t *testing.T) {
	t.Parallel()
	addrs := named(t, "A", "B")
	text := func(percent int) string {
		return fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools:
  - {name: one, load_shedding: {session_percent: %d}, endpoints: [{name: A, address: %q}]}
  - {name: two, endpoints: [{name: B, address: %q}]}
load_balancers: [{name: %s, proxied: true, default_pools: [one, two], session_affinity: cookie}]
`, percent, addrs[0], addrs[1], host)
	}
	n := lab.Start(t, text(0))
	s := server{Node: n, addr: n.Addr("web")}
	cl := s.client(t, v1)
	e, cookie := visit(t, s, cl)
	equal(t, "endpoint", e, "A")
	n.Write(text(100))
	n.AwaitRevision(2)
	e, cookie = visit(t, s, cl, pair(cookie))
	if e != "B" || cookie == nil {
		t.Fatalf("endpoint %s and cookie %v, want B and one", e, cookie)
	}
	n.Write(text(0))
	n.AwaitRevision(3)
	if e, set := visit(t, s, cl, pair(cookie)); e != "B" || set != nil {
		t.Errorf("endpoint %s and cookie %v, want the session at B", e, set)
	}
}

// A WebSocket is bound by the answer that opens it.
func TestUpgradeSetsCookie(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, func(c *lab.OriginConn) {
		if _, err := c.Head(); err == nil {
			c.Say("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
		}
	})
	s := site{endpoints: []string{o.Addr}, balancer: "session_affinity: cookie"}.start(t)
	c := s.dial(t)
	c.Send(get("/", "Connection: upgrade\r\nUpgrade: websocket\r\n"))
	r := c.Response("GET")
	equal(t, "status", r.StatusCode, 101)
	if !strings.HasPrefix(r.Header.Get("Set-Cookie"), sessionCookie+"=") {
		t.Errorf("answer %v", r.Header)
	}
}

// byHeaders asks with lines and returns the endpoint.
func byHeaders(t *testing.T, s server, lines string) string {
	t.Helper()
	r := s.raw(t, get("/", lines+"Connection: close\r\n"))
	if sets := lab.Fields(r.Text, "Set-Cookie"); len(sets) != 1 {
		t.Errorf("cookies are set: %q", sets)
	}
	return lab.Field(r.Text, "X-Endpoint")
}

// Headers, or some cookies, name a session. Whoever lacks them has none, and
// what is not among them changes nothing.
func TestHeaderAffinity(t *testing.T) {
	t.Parallel()
	addrs := named(t, "A", "B", "C", "D")
	for _, c := range []struct {
		name, keys string
		session    []string // lines of one session
		none       []string // lines of none
	}{
		{"one of two", "headers: [X-User, X-Device]",
			[]string{"X-User: %d\r\n", "x-user: %d\r\nCookie: a=1\r\n", "Accept: x\r\nX-USER:   %d\r\n"},
			[]string{"", "X-Users: %d\r\n"}},
		{"all of two", "headers: [X-User, X-Device], require_all_headers: true",
			[]string{"X-User: %d\r\nX-Device: x\r\n", "X-Device: x\r\nX-User: %d\r\n"},
			[]string{"X-User: %d\r\n", "X-Device: x\r\n"}},
		{"some cookies", `headers: ["cookie:sid,uid"]`,
			[]string{"Cookie: sid=%d\r\n", "Cookie: other=x; sid=%d\r\n", "Cookie: sid=%d;more=1\r\n"},
			[]string{"Cookie: other=%d\r\n", "Cookie: sidx=%d\r\n"}},
		{"all cookies", "headers: [cookie]", []string{"Cookie: a=1; sid=%d\r\n"}, []string{""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			start := func() server {
				return site{endpoints: addrs, balancer: "session_affinity: header, session_affinity_attributes: {" + c.keys + "}"}.start(t)
			}
			one, two := start(), start()
			line := func(form string, user int) string {
				if strings.Contains(form, "%d") {
					return fmt.Sprintf(form, user)
				}
				return form
			}
			seen := map[string]bool{}
			for user := range 40 {
				first := byHeaders(t, one, line(c.session[0], user))
				seen[first] = true
				for _, form := range c.session {
					for _, s := range []server{one, two} {
						if e := byHeaders(t, s, line(form, user)); e != first {
							t.Errorf("%q: endpoint %s, want %s as for %q", form, e, first, c.session[0])
						}
					}
				}
			}
			if len(seen) < 3 {
				t.Errorf("40 sessions met %v", seen)
			}
			for _, form := range c.none {
				seen := map[string]bool{}
				for range 40 {
					seen[byHeaders(t, one, line(form, 1))] = true
				}
				if len(seen) < 3 {
					t.Errorf("40 requests without a session, with %q, met %v", form, seen)
				}
			}
		})
	}
}

// A session by headers stays where it is when endpoints come that its key would
// lead to.
func TestHeaderSessionsStay(t *testing.T) {
	t.Parallel()
	addrs := named(t, "A", "B", "C", "D")
	text := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("{name: %c, address: %q}", 'A'+i, addrs[i]))
		}
		return fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools: [{name: p, endpoints: [%s]}]
load_balancers: [{name: %s, proxied: true, default_pools: [p], session_affinity: header, session_affinity_attributes: {headers: [X-User]}}]
`, strings.Join(list, ", "), host)
	}
	n := lab.Start(t, text(2))
	s := server{Node: n, addr: n.Addr("web")}
	line := func(user int) string { return fmt.Sprintf("X-User: %d\r\n", user) }
	const users = 120
	var had [users]string
	for user := range had {
		had[user] = byHeaders(t, s, line(user))
	}
	n.Write(text(4))
	n.AwaitRevision(2)
	fresh := lab.Start(t, text(4))
	moved := 0
	for user := range had {
		equal(t, fmt.Sprintf("endpoint of user %d", user), byHeaders(t, s, line(user)), had[user])
		if byHeaders(t, server{Node: fresh, addr: fresh.Addr("web")}, line(user)) != had[user] {
			moved++
		}
	}
	if moved < users/4 {
		t.Errorf("of %d keys %d lead elsewhere now: the case did not come up", users, moved)
	}
	equal(t, "sessions that gave way", s.Metric("fairlead_sessions_evicted_total"), 0)
	// Without their endpoint they go elsewhere, and stay there.
	n.Write(strings.Replace(text(4), fmt.Sprintf("{name: A, address: %q}", addrs[0]), fmt.Sprintf("{name: A, address: %q, enabled: false}", addrs[0]), 1))
	n.AwaitRevision(3)
	for user := range had {
		if had[user] == "A" {
			had[user] = byHeaders(t, s, line(user))
		}
	}
	n.Write(text(4) + "\n")
	n.AwaitRevision(4)
	for user := range had {
		equal(t, fmt.Sprintf("endpoint of user %d", user), byHeaders(t, s, line(user)), had[user])
	}
}

// What a session by headers meets whose endpoint refuses.
func TestHeaderSessionFailover(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{"none": "521", "temporary": "200"} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			a := lab.NewEndpoint(t, "A")
			text := func(more string) string {
				return fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools: [{name: p, endpoints: [{name: A, address: %q}%s]}]
load_balancers: [{name: %s, proxied: true, default_pools: [p], session_affinity: header, retry_budget: 1, session_affinity_attributes: {headers: [X-User], zero_downtime_failover: %s}}]
`, a.Addr, more, host, setting)
			}
			n := lab.Start(t, text(""))
			s := server{Node: n, addr: n.Addr("web")}
			ask := func() string { return s.raw(t, get("/", "X-User: 1\r\nConnection: close\r\n")).Status() }
			equal(t, "status", ask(), "200")
			n.Write(text(fmt.Sprintf(`, {name: B, address: %q}`, named(t, "B")[0])))
			n.AwaitRevision(2)
			a.Stop()
			for range 3 { // each time: the session does not move
				equal(t, "status", ask(), want)
			}
			equal(t, "failures at A", s.Metric("fairlead_endpoint_errors_total", "endpoint", "A"), 3)
		})
	}
}

// By the address alone there is no session: a failure leads to the next endpoint,
// always the same, and the client comes back with its own.
func TestClientIPFailover(t *testing.T) {
	t.Parallel()
	addrs := named(t, "B", "C", "D")
	s := site{endpoints: append([]string{lab.Refusing(t)}, addrs...), listener: "trusted_proxies: [127.0.0.0/8]", balancer: "session_affinity: client_ip, retry_budget: 1"}.start(t)
	for i := range 60 {
		ask := func() string {
			r := s.raw(t, get("/", fmt.Sprintf("X-Forwarded-For: 192.0.2.%d\r\nConnection: close\r\n", i)))
			return r.Status() + lab.Field(r.Text, "X-Endpoint")
		}
		first := ask()
		if !strings.HasPrefix(first, "200") {
			t.Errorf("client %d gets %s", i, first)
		}
		equal(t, "the second time", ask(), first)
	}
	if s.Metric("fairlead_http_retries_total") == 0 {
		t.Error("nobody met the endpoint that refuses: the case did not come up")
	}
}
