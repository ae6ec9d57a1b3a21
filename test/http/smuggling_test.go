package http_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairlead/internal/h1/h1test"
	"fairlead/test/lab"
)

// silent notes what it receives and answers nothing.
func silent(c *lab.OriginConn) { c.AwaitEnd() }

// answers counts the status lines in what came back.
func answers(text string) int { return len(statusLine.FindAllString(text, -1)) }

var statusLine = regexp.MustCompile(`HTTP/1\.1 \d\d\d `)

func TestMalformedHeads(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, silent)
	s := site{endpoints: []string{o.Addr}}.start(t)
	t.Run("rows", func(t *testing.T) {
		for _, c := range h1test.Malformed {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				half := len(c.Raw) / 2
				for way, pieces := range map[string][]any{
					"whole":  {c.Raw},
					"halves": {c.Raw[:half], 5 * time.Millisecond, c.Raw[half:]},
				} {
					r := s.raw(t, pieces...)
					equal(t, way+": status", r.Status(), strconv.Itoa(c.Status))
					equal(t, way+": answers", answers(r.Text), 1)
					equal(t, way+": end", r.End, lab.Closed)
					equal(t, way+": Connection", lab.Field(r.Text, "Connection"), "close")
				}
			})
		}
	})
	equal(t, "received by the endpoint", o.Received(), "")
	equal(t, "connections to the endpoint", o.Connections(), 0)
	if got, want := s.Metric("fairlead_http_malformed_total", "listener", "web"), float64(2*len(h1test.Malformed)); got != want {
		t.Errorf("malformed requests = %v, want %v", got, want)
	}
}

func TestMalformedBodies(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, silent)
	s := site{endpoints: []string{o.Addr}}.start(t)
	t.Run("rows", func(t *testing.T) {
		for _, c := range h1test.MalformedBody {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				head, body, _ := strings.Cut(c.Raw, "\r\n\r\n")
				for way, pieces := range map[string][]any{
					"whole":         {c.Raw},
					"head and body": {head + "\r\n\r\n", 20 * time.Millisecond, body},
				} {
					r := s.raw(t, pieces...)
					equal(t, way+": status", r.Status(), strconv.Itoa(c.Status))
					equal(t, way+": answers", answers(r.Text), 1)
					equal(t, way+": end", r.End, lab.Closed)
				}
			})
		}
	})
	for _, log := range o.Log() {
		if strings.Contains(log, "/evil") {
			t.Errorf("endpoint received %q", log)
		}
		if strings.HasSuffix(log, "\r\n0\r\n\r\n") {
			t.Errorf("endpoint received a body that looks whole: %q", log)
		}
	}
}

func TestGoodRequests(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Echo)
	var balancers []string
	for _, name := range []string{"a", "192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1", "*.example.com"} {
		balancers = append(balancers, fmt.Sprintf("{name: %q, proxied: true, default_pools: [p]}", name))
	}
	n := lab.Start(t, fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools: [{name: p, endpoints: [{name: A, address: %q}]}]
load_balancers: [%s]
`, o.Addr, strings.Join(balancers, ", ")))
	for _, c := range h1test.Good {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			if c.Host == "" {
				r := lab.Raw(t, n.Addr("web"), c.Raw)
				equal(t, "status", r.Status(), "404")
				return
			}
			cl := lab.Dial(t, n.Addr("web"))
			cl.Send(c.Raw)
			r := cl.Response(c.Method)
			if r.StatusCode != 200 {
				t.Fatalf("status %d: %s", r.StatusCode, r.Text)
			}
			seen := r.Text
			target := c.Path
			if c.Query != "" || strings.HasSuffix(strings.Fields(c.Raw)[1], "?") {
				target += "?" + c.Query
			}
			line, _, _ := strings.Cut(seen, "\r\n")
			equal(t, "request line", line, c.Method+" "+target+" HTTP/1.1")
			equal(t, "Host", strings.Join(lab.Fields(seen, "Host"), "|"), c.HostPort)
			for _, name := range strings.Fields(c.Hop) {
				switch strings.ToLower(name) {
				case "transfer-encoding":
					equal(t, name, strings.Join(lab.Fields(seen, name), "|"), "chunked")
				case "upgrade":
					equal(t, name, lab.Field(seen, name), map[bool]string{true: "websocket"}[c.Name == "WebSocket"])
				case "connection":
					equal(t, name, lab.Field(seen, name), map[bool]string{true: "upgrade"}[c.Name == "WebSocket"])
				default:
					equal(t, name, strings.Join(lab.Fields(seen, name), "|"), "")
				}
			}
			body, trailer := decoded(t, seen)
			equal(t, "body", body, c.Body)
			equal(t, "trailer", trailer, c.Trailer)
			if c.Close {
				equal(t, "end", cl.Ended(2*time.Second), lab.Closed)
				return
			}
			cl.Send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n") // nothing of the first is left
			equal(t, "status of the next", cl.Response("GET").StatusCode, 200)
		})
	}
}

// decoded returns the body of a message as our side writes it.
func decoded(t *testing.T, message string) (body, trailer string) {
	t.Helper()
	_, rest, _ := strings.Cut(message, "\r\n\r\n")
	if lab.Field(message, "Transfer-Encoding") == "" {
		return rest, ""
	}
	for {
		size, after, ok := strings.Cut(rest, "\r\n")
		n, err := strconv.ParseInt(size, 16, 32)
		if !ok || err != nil {
			t.Fatalf("chunk begins %q", rest)
		}
		if n == 0 {
			return body, strings.TrimSuffix(after, "\r\n")
		}
		body, rest = body+after[:n], after[n+2:]
	}
}

func TestMalformedResponses(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, func(c *lab.OriginConn) {
		head, err := c.Head()
		if err != nil {
			return
		}
		i, _ := strconv.Atoi(strings.TrimPrefix(strings.Fields(head)[1], "/"))
		c.Say(h1test.MalformedResponses[i].Raw)
		c.AwaitEnd()
	})
	s := site{endpoints: []string{o.Addr}}.start(t)
	t.Run("rows", func(t *testing.T) {
		for i, c := range h1test.MalformedResponses {
			t.Run(c.Name, func(t *testing.T) {
				t.Parallel()
				cl := s.dial(t)
				cl.Send(get("/"+strconv.Itoa(i), ""))
				r := cl.Response("GET")
				equal(t, "status", r.StatusCode, 520)
				if !strings.Contains(r.Text, "Unknown Error") || strings.Contains(r.Text, "ok\n") {
					t.Errorf("page = %q", r.Text)
				}
				cl.Send("GET / HTTP/1.1\r\nHost: none.example\r\n\r\n") // the client's connection lives on
				equal(t, "status of the next", cl.Response("GET").StatusCode, 404)
			})
		}
	})
	n := float64(len(h1test.MalformedResponses))
	equal(t, "errors", s.Metric("fairlead_http_errors_total", "status", "520", "reason", "bad_answer"), n)
	equal(t, "errors at the endpoint", s.Metric("fairlead_endpoint_errors_total", "status", "520", "reason", "bad_answer"), n)
	for _, r := range s.AccessLog(2 * int(n)) {
		if r["status"] == 520.0 && (r["error"] != "bad_answer" || r["error_detail"] == "") {
			t.Errorf("access log: %v", r)
		}
	}
}

func TestGoodResponses(t *testing.T) {
	t.Parallel()
	var rows []h1test.GoodResponse
	for _, c := range h1test.GoodResponses {
		// The others are not final, or answer to what is not forwarded.
		if c.Status >= 200 && c.Method != "CONNECT" {
			rows = append(rows, c)
		}
	}
	o := lab.NewOrigin(t, func(c *lab.OriginConn) {
		for {
			head, err := c.Head()
			if err != nil {
				return
			}
			i, _ := strconv.Atoi(strings.TrimPrefix(strings.Fields(head)[1], "/"))
			if c.Say(rows[i].Raw); rows[i].Kind == "until close" {
				return
			}
		}
	})
	for _, version := range []string{"1.1", "1.0"} {
		s := site{endpoints: []string{o.Addr}}.start(t)
		for i, c := range rows {
			t.Run("HTTP "+version+" "+c.Name, func(t *testing.T) {
				t.Parallel()
				method := "GET"
				if c.Method != "" {
					method = c.Method
				}
				r := s.raw(t, fmt.Sprintf("%s /%d HTTP/%s\r\nHost: %s\r\nConnection: close\r\n\r\n", method, i, version, host))
				equal(t, "end", r.End, lab.Closed)
				line, _, _ := strings.Cut(r.Text, "\r\n")
				equal(t, "status line", line, strings.TrimRight(fmt.Sprintf("HTTP/1.1 %d %s", c.Status, c.Reason), " ")+map[bool]string{true: " "}[c.Reason == ""])
				for _, name := range strings.Fields(c.Hop) {
					if name != "Transfer-Encoding" && name != "Connection" {
						equal(t, name, strings.Join(lab.Fields(r.Text, name), "|"), "")
					}
				}
				equal(t, "Connection", strings.Join(lab.Fields(r.Text, "Connection"), "|"), "close")
				coding := lab.Fields(r.Text, "Transfer-Encoding")
				if want := version == "1.1" && (c.Kind == "chunked" || c.Kind == "until close"); slices.Contains(coding, "chunked") != want {
					t.Errorf("Transfer-Encoding = %q, want chunked: %v", coding, want)
				}
				body, trailer := decoded(t, r.Text)
				equal(t, "body", body, c.Body)
				if version == "1.1" {
					equal(t, "trailer", trailer, c.Trailer)
				}
			})
		}
	}
}
