package http_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"fairlead/test/lab"
)

// ruled is a site with two pools, p (endpoint A) and q (endpoint B), of which the
// rules choose. The rules are in YAML's block style.
func ruled(t *testing.T, tls bool, rules ...string) server {
	t.Helper()
	addrs := named(t, "A", "B")
	return site{
		endpoints: addrs[:1], tls: tls, balancer: "rules: [" + strings.Join(rules, ", ") + "]", top: "node: {region: WEU}",
		pools: fmt.Sprintf("{name: q, endpoints: [{name: B, address: %q}]}", addrs[1]),
	}.start(t)
}

func toB(condition string) string {
	return fmt.Sprintf("{name: r, condition: '%s', overrides: {default_pools: [q]}}", condition)
}

// Every field of a request that a condition may ask for has the value that the
// documentation says.
func TestRuleFields(t *testing.T) {
	t.Parallel()
	const lines = "User-Agent: curl/8\r\nReferer: https://a/\r\nX-Forwarded-For: 192.0.2.9\r\nX-Forwarded-For: 192.0.2.8\r\n" +
		"Cookie: a=1; b=2\r\nCookie: a=3; odd\r\nX-One: v\r\nx-one: w\r\nContent-Length: 4\r\n"
	request := "pOST /Dir/%41?x=1&y=%20&x=2&&flag HTTP/1.1\r\nHost: WWW.Example.com:8080\r\n" + lines + "Connection: close\r\n\r\nbody"
	for condition, want := range map[string]bool{
		`cf.load_balancer.name eq "www.example.com"`: true,
		`cf.load_balancer.region eq "WEU"`:           true,
		`ip.src eq 127.0.0.1`:                        true,
		`ip.src in {10.0.0.0/8}`:                     false,
		`ssl`:                                        false,
		`tls.sni eq ""`:                              false, // missing

		`tcp.srcport gt 0 and tcp.dstport gt 0 and tcp.srcport ne 80`:                                                         true,
		`http.cookie eq "a=1; b=2; a=3; odd"`:                                                                                 true,
		`http.host eq "www.example.com"`:                                                                                      true,
		`http.referer eq "https://a/"`:                                                                                        true,
		`http.user_agent eq "curl/8"`:                                                                                         true,
		`http.x_forwarded_for eq "192.0.2.9, 192.0.2.8"`:                                                                      true,
		`http.request.full_uri eq "http://www.example.com:8080/Dir/%41?x=1&y=%20&x=2&&flag"`:                                  true,
		`http.request.method eq "POST"`:                                                                                       true,
		`http.request.version eq "HTTP/1.1"`:                                                                                  true,
		`http.request.timestamp.sec ge 1796000000 and http.request.timestamp.sec lt 4000000000`:                               true,
		`http.request.body.size eq 4`:                                                                                         true,
		`http.request.uri eq "/Dir/%41?x=1&y=%20&x=2&&flag"`:                                                                  true,
		`http.request.uri.path eq "/Dir/%41"`:                                                                                 true,
		`http.request.uri.query eq "x=1&y=%20&x=2&&flag"`:                                                                     true,
		`http.request.headers["x-one"][0] eq "v" and http.request.headers["x-one"][1] eq "w"`:                                 true,
		`any(http.request.headers.names[*] eq "x-one") and any(http.request.headers.names[*] eq "X-One")`:                     true,
		`any(http.request.headers.values[*] eq "curl/8")`:                                                                     true,
		`http.request.cookies["a"][0] eq "1" and http.request.cookies["a"][1] eq "3" and http.request.cookies["b"][0] eq "2"`: true,
		`len(http.request.cookies["odd"]) ge 0`:                                                                               false,

		`http.request.uri.args["x"][1] eq "2" and http.request.uri.args["flag"][0] eq "" and http.request.uri.args["y"][0] eq "%20"`: true,
		`len(http.request.uri.args.names) eq 4 and any(http.request.uri.args.values[*] eq "2")`:                                      true,
	} {
		t.Run(condition, func(t *testing.T) {
			t.Parallel()
			s := ruled(t, false, toB(condition))
			r := s.raw(t, request)
			got := strings.Contains(r.Text, "X-Endpoint: B\r\n")
			if got != want || !strings.HasPrefix(r.Text, "HTTP/1.1 200") {
				t.Errorf("the rule applies: %v, want %v\n%s", got, want, r.Text)
			}
		})
	}
}

// Where a request has nothing of the kind.
func TestRuleFieldsOfABareRequest(t *testing.T) {
	t.Parallel()
	s := ruled(t, false, toB(`http.cookie eq "" and http.referer eq "" and http.user_agent eq "" and http.x_forwarded_for eq "" `+
		`and http.request.uri eq "/" and http.request.uri.query eq "" and http.request.body.size eq 0 and len(http.request.uri.args.names) eq 0 `+
		`and not any(http.request.cookies[*][*] ne "") and http.request.version eq "HTTP/1.0"`))
	if r := s.raw(t, "GET / HTTP/1.0\r\nHost: "+host+"\r\n\r\n"); !strings.Contains(r.Text, "X-Endpoint: B\r\n") {
		t.Errorf("answer:\n%s", r.Text)
	}
}

func TestRuleFieldsOfProtocols(t *testing.T) {
	t.Parallel()
	for v, version := range map[httpVersion]string{v1: "HTTP/1.1", v2: "HTTP/2", v3: "HTTP/3"} {
		ports := `tcp.srcport gt 0 and tcp.dstport gt 0 and not udp.srcport gt 0 and not udp.dstport gt 0`
		if v == v3 {
			ports = `udp.srcport gt 0 and udp.dstport gt 0 and not tcp.srcport gt 0 and not tcp.dstport gt 0`
		}
		s := ruled(t, true, toB(ports+` and ssl and tls.sni eq "www.example.com" and http.request.version eq "`+version+
			`" and http.request.full_uri eq "https://www.example.com/a?b" and http.request.headers["x-y"][0] eq "z"`))
		req, _ := http.NewRequest("GET", s.url("/a?b"), nil)
		req.Header.Set("X-Y", "z")
		res, err := s.client(t, v).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		equal(t, version+": endpoint", res.Header.Get("X-Endpoint"), "B")
	}
}

// Rules run by priority, then in the order of the list; a later one sets again
// what an earlier one set, and nothing else; one that terminates is the last.
func TestRuleOrder(t *testing.T) {
	t.Parallel()
	const (
		toP = `{name: p, condition: 'true', priority: %d, overrides: {default_pools: [p]}}`
		toQ = `{name: q, condition: 'true', priority: %d, %s overrides: {default_pools: [q]}}`
	)
	for _, c := range []struct {
		name, want, rules string
		applied           []any
	}{
		{"the list", "B", fmt.Sprintf(toP+", "+toQ, 0, 0, ""), []any{"p", "q"}},
		{"priority", "A", fmt.Sprintf(toP+", "+toQ, 2, 1, ""), []any{"q", "p"}},
		{"terminates", "B", fmt.Sprintf(toP+", "+toQ, 2, 1, "terminates: true,"), []any{"q"}},
		{"disabled", "A", fmt.Sprintf(toP+", "+toQ, 1, 2, "disabled: true,"), []any{"p"}},
		{"another setting", "B", fmt.Sprintf(toQ, 0, "") + ", {name: s, condition: 'true', overrides: {steering_policy: random}}", []any{"q", "s"}},
		{"none applies", "A", toB("false"), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := ruled(t, false, c.rules)
			endpoint, _ := visit(t, s, s.client(t, v1))
			equal(t, "endpoint", endpoint, c.want)
			line := s.AccessLog(1)[0]
			applied, _ := line["rules"].([]any)
			equal(t, "rules in the access log", fmt.Sprint(applied), fmt.Sprint(c.applied))
			for _, name := range c.applied {
				equal(t, "count of rule "+name.(string), s.Metric("fairlead_rule_applied_total", "rule", name.(string)), 1)
			}
		})
	}
}

// A fixed response is the answer; no endpoint is asked and no later rule runs.
func TestFixedResponse(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, tls bool, v httpVersion) {
		s := ruled(t, tls,
			`{name: gone, condition: 'http.request.uri.path eq "/gone"', fixed_response: {status_code: 410, content_type: text/html, message_body: "<p>gone"}}`,
			`{name: moved, condition: 'http.request.uri.path eq "/moved"', fixed_response: {status_code: 308, location: "https://example.net/a?b"}}`,
			`{name: empty, condition: 'http.request.uri.path eq "/empty"', fixed_response: {status_code: 204}}`,
			`{name: odd, condition: 'http.request.uri.path eq "/odd"', fixed_response: {status_code: 299, message_body: "ok"}}`,
			`{name: never, condition: 'http.request.uri.path ne "/"', fixed_response: {status_code: 500}}`)
		c := s.client(t, v)
		for _, test := range []struct {
			method, path string
			status       int
			kind, body   string
			location     string
			length       int64
		}{
			{"GET", "/gone", 410, "text/html", "<p>gone", "", 7},
			{"HEAD", "/gone", 410, "text/html", "", "", 7},
			{"POST", "/gone", 410, "text/html", "<p>gone", "", 7},
			{"GET", "/moved", 308, "", "", "https://example.net/a?b", 0},
			{"GET", "/empty", 204, "", "", "", 0},
			{"GET", "/odd", 299, "text/plain", "ok", "", 2},
			{"GET", "/", 200, "", "", "", 0},
		} {
			req, _ := http.NewRequest(test.method, s.url(test.path), nil)
			if test.method == "POST" {
				req, _ = http.NewRequest("POST", s.url(test.path), strings.NewReader("a body"))
			}
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(test.path, err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil {
				t.Fatal(test.path, err)
			}
			equal(t, test.path+" status", res.StatusCode, test.status)
			equal(t, test.path+" type", res.Header.Get("Content-Type"), test.kind)
			equal(t, test.path+" body", string(body), test.body)
			equal(t, test.path+" location", res.Header.Get("Location"), test.location)
			equal(t, test.path+" length", res.ContentLength, test.length)
			if own := res.Header.Get("X-Endpoint"); (own != "") != (test.status == 200) {
				t.Errorf("%s: endpoint %q", test.path, own)
			}
			if _, told := res.Header["Content-Length"]; test.status == 204 && told {
				t.Errorf("204 has a Content-Length")
			}
		}
	})
}

// A rule may give a request a session, or another one; where it sets how long it
// lasts, the cookie is issued again for the same endpoint.
func TestRulesAndSessions(t *testing.T) {
	t.Parallel()
	s := site{endpoints: named(t, "A", "B", "C", "D"), balancer: `rules: [` +
		`{name: pinned, condition: 'starts_with(http.request.uri.path, "/shop")', overrides: {session_affinity: cookie}}, ` +
		`{name: paying, condition: 'http.request.uri.path eq "/shop/pay"', overrides: {session_affinity_ttl: 30m}}]`}.start(t)
	c := s.client(t, v1)
	at := func(path string, cookies ...string) (string, *http.Cookie) {
		req, _ := http.NewRequest("GET", s.url(path), nil)
		for _, cookie := range cookies {
			req.Header.Add("Cookie", cookie)
		}
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		for _, cookie := range res.Cookies() {
			if cookie.Name == sessionCookie {
				return res.Header.Get("X-Endpoint"), cookie
			}
		}
		return res.Header.Get("X-Endpoint"), nil
	}
	if _, cookie := at("/"); cookie != nil {
		t.Error("a request that no rule applies to got a session")
	}
	first, cookie := at("/shop")
	if cookie == nil {
		t.Fatal("no cookie")
	}
	for range 8 {
		if again, set := at("/shop/a", pair(cookie)); again != first || set != nil {
			t.Errorf("endpoint %s and cookie %v, want %s and none", again, set, first)
		}
		again, renewed := at("/shop/pay", pair(cookie))
		if again != first || renewed == nil {
			t.Fatalf("endpoint %s and cookie %v, want %s and a new one", again, renewed, first)
		}
		if left := time.Until(renewed.Expires); left > 30*time.Minute || left < 29*time.Minute {
			t.Errorf("the new cookie lasts for %v, want 30m", left)
		}
		if again, set := at("/shop", pair(renewed)); again != first || set != nil {
			t.Errorf("with the new cookie: endpoint %s and cookie %v, want %s and none", again, set, first)
		}
	}
}

// A reload changes rules, and keeps the counts of those that stay.
func TestRulesAreReloaded(t *testing.T) {
	t.Parallel()
	addrs := named(t, "A", "B")
	config := func(condition string) string {
		return fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools: [{name: p, endpoints: [{name: A, address: %q}]}, {name: q, endpoints: [{name: B, address: %q}]}]
load_balancers: [{name: %s, proxied: true, default_pools: [p], rules: [%s]}]
`, addrs[0], addrs[1], host, toB(condition))
	}
	n := lab.Start(t, config(`true`))
	s := server{Node: n, addr: n.Addr("web")}
	c := s.client(t, v1)
	endpoint, _ := visit(t, s, c)
	equal(t, "endpoint", endpoint, "B")
	n.Write(config(`http.request.method eq "POST"`))
	n.AwaitRevision(2)
	endpoint, _ = visit(t, s, c)
	equal(t, "endpoint after the reload", endpoint, "A")
	equal(t, "count", n.Metric("fairlead_rule_applied_total", "rule", "r"), 1)
}

// However often a field is repeated, its value costs no more than its bytes. It is not
// parallel, as it looks at what the whole process allocates.
func TestRepeatedFieldsAreJoinedOnce(t *testing.T) {
	o := lab.NewOrigin(t, lab.Answer("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	s := site{endpoints: []string{o.Addr}, balancer: "rules: [" + strings.Replace(toB(`http.cookie contains "last=1" and http.x_forwarded_for contains "x"`), "[q]", "[p]", 1) + "]",
		listener: limits("header_bytes: 1048576, header_count: 10000")}.start(t)
	lines := strings.Repeat("Cookie: a="+strings.Repeat("x", 90)+"\r\n", 9000) + "Cookie: last=1\r\n"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := s.raw(t, get("/", lines+"X-Forwarded-For: x\r\nConnection: close\r\n"))
	runtime.ReadMemStats(&after)
	equal(t, "status", r.Status(), "200")
	if n := after.TotalAlloc - before.TotalAlloc; n > 256<<20 { // copied over and over they are 4 GB
		t.Errorf("%d bytes were allocated for %d bytes of fields", n, len(lines))
	}
	equal(t, "the rule applied", s.Metric("fairlead_rule_applied_total", "rule", "r"), 1)
}
