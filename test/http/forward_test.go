package http_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"fairlead/test/lab"
)

func TestForwardedFields(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Echo)
	protocols(t, func(t *testing.T, tls bool, v httpVersion) {
		s := site{endpoints: []string{o.Addr}, tls: tls}.start(t)
		req, _ := http.NewRequest("GET", s.url("/a?b=c"), nil)
		req.Header.Set("Accept-Encoding", "gzip")
		req.Header["X-Two"] = []string{"1", "2"}
		req.Header.Set("Keep-Alive", "5")
		req.Header.Set("Proxy-Authorization", "x")
		req.Header.Set("Te", "trailers")
		req.Header.Set("Cookie", "a=1; b=2")
		res, err := s.client(t, v).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		seen := string(b)
		line, _, _ := strings.Cut(seen, "\r\n")
		equal(t, "request line", line, "GET /a?b=c HTTP/1.1")
		proto := "http"
		if tls {
			proto = "https"
		}
		for name, want := range map[string]string{
			"Host":                host,
			"X-Forwarded-For":     "127.0.0.1",
			"X-Forwarded-Proto":   proto,
			"X-Forwarded-Host":    host,
			"Forwarded":           fmt.Sprintf(`for=127.0.0.1;host="%s";proto=%s`, host, proto),
			"Accept-Encoding":     "gzip",
			"X-Two":               "1|2",
			"Cookie":              "a=1; b=2",
			"Keep-Alive":          "",
			"Proxy-Authorization": "",
			"Te":                  "",
			"Connection":          "",
			"Upgrade":             "",
		} {
			equal(t, name, strings.Join(lab.Fields(seen, name), "|"), want)
		}
	})
}

func TestHostOverride(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Echo)
	// The first endpoint refuses, so the request is written for it and then
	// changed for the second, whose Host is shorter, longer or the client's.
	for _, c := range []struct{ first, second, want string }{
		{"", "", host},
		{"", "header: {Host: [b.test]}", "b.test"},
		{"header: {Host: [a.test]}", "", host},
		{"header: {Host: [a.test]}", `header: {Host: ["a.much.longer.name.test:8080"]}`, "a.much.longer.name.test:8080"},
	} {
		t.Run(c.want+" after "+c.first, func(t *testing.T) {
			t.Parallel()
			n := lab.Start(t, fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools:
  - name: p
    endpoint_steering: {policy: round_robin}
    endpoints: [{name: A, address: %q%s}, {name: B, address: %q%s}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [p], retry_budget: 1}]
`, lab.Refusing(t), more(c.first), o.Addr, more(c.second)))
			cl := lab.Dial(t, n.Addr("web"))
			for range 6 {
				cl.Send(request("POST", "/", "X-A: 1\r\nContent-Length: 5\r\n", "hello"))
				r := cl.Response("POST")
				equal(t, "status", r.StatusCode, 200)
				equal(t, "Host", strings.Join(lab.Fields(r.Text, "Host"), "|"), c.want)
				equal(t, "X-Forwarded-Host", lab.Field(r.Text, "X-Forwarded-Host"), host)
				equal(t, "X-A", lab.Field(r.Text, "X-A"), "1")
				if !strings.HasSuffix(r.Text, "\r\n\r\nhello") {
					t.Errorf("request = %q", r.Text)
				}
			}
			// A body that does not come with the head is sent from where the
			// head that was changed ends.
			late := strings.Repeat("0123456789", 10_000)
			for range 4 {
				cl.Send(request("POST", "/", "Content-Length: 100000\r\n", late))
				r := cl.Response("POST")
				equal(t, "status", r.StatusCode, 200)
				if !strings.HasSuffix(r.Text, "\r\n\r\n"+late) {
					t.Errorf("late body: request of %d bytes differs", len(r.Text))
				}
			}
			if n.Metric("fairlead_http_retries_total") == 0 {
				t.Error("nothing was retried: the case did not come up")
			}
		})
	}
}

// A change to another version of HTTP would carry requests past everything that
// is looked at here.
func TestUpgradesThatAreNotForwarded(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Echo)
	s := site{endpoints: []string{o.Addr}}.start(t)
	for _, c := range []struct{ name, lines, body string }{
		{"h2c", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n", ""},
		{"H2C", "Connection: Upgrade\r\nUpgrade: H2C\r\n", ""},
		{"TLS", "Connection: Upgrade\r\nUpgrade: TLS/1.2\r\n", ""},
		{"HTTP/2.0", "Connection: Upgrade\r\nUpgrade: HTTP/2.0\r\n", ""},
		{"a list", "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n", ""},
		{"a list that begins empty", "Connection: Upgrade\r\nUpgrade: , h2c\r\n", ""},
		{"with a body", "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n", "hello"},
		{"not listed", "Upgrade: websocket\r\n", ""},
	} {
		cl := s.dial(t)
		cl.Send(request("GET", "/", c.lines, c.body))
		r := cl.Response("GET")
		equal(t, c.name+": status", r.StatusCode, 200)
		for _, name := range []string{"Upgrade", "Connection", "HTTP2-Settings"} {
			equal(t, c.name+": "+name, strings.Join(lab.Fields(r.Text, name), "|"), "")
		}
	}
}

// An endpoint may only change to the protocol that was asked for.
func TestUpgradeToAnotherProtocol(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Answer("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n"))
	s := site{endpoints: []string{o.Addr}}.start(t)
	cl := s.dial(t)
	cl.Send(request("GET", "/", "Connection: Upgrade\r\nUpgrade: websocket\r\n", ""))
	equal(t, "status", cl.Response("GET").StatusCode, 520)
}
