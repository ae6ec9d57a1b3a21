package http_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairlead/test/lab"
)

var update = flag.Bool("update", false, "write the golden files again")

// TestAccessLog compares the access log of one request of each kind with a golden
// file. What differs from run to run is left out: times and ports.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	ca := lab.NewCA(t)
	cert := ca.Issue("*.example.com")
	var once atomic.Bool
	o := lab.NewOrigin(t, func(c *lab.OriginConn) {
		for {
			head, err := c.Head()
			if err != nil {
				return
			}
			switch path := strings.Fields(head)[1]; {
			case path == "/once" && !once.Swap(true):
				return
			case path == "/chat":
				c.Say(switching + "hello")
				return
			case path == "/silent":
				return
			case path == "/cut":
				c.Say("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
				return
			case path == "/none":
				c.Say("HTTP/1.1 204 No Content\r\n\r\n")
			default:
				c.Body(head)
				c.Say(lab.OK)
			}
		}
	})
	n := lab.Start(t, fmt.Sprintf(`
access_log: {output: %q}
listeners:
  - {name: web, address: "127.0.0.1:0", protocol: http}
  - {name: hurried, address: "127.0.0.1:0", protocol: http, limits: {header_timeout: 500ms, body_timeout: 500ms}}
  - {name: websecure, address: "127.0.0.1:0", protocol: https, certificates: [{certificate: %q, key: %q}]}
  - {name: behind, address: "127.0.0.1:0", protocol: http, trusted_proxies: [127.0.0.1/32]}
pools:
  - {name: good, endpoints: [{name: A, address: %q}]}
  - {name: retry, endpoint_steering: {policy: round_robin}, endpoints: [{name: A, address: %q}, {name: B, address: %q}]}
  - {name: off, enabled: false, endpoints: [{name: A, address: 127.0.0.1}]}
load_balancers:
  - {name: www.example.com, proxied: true, default_pools: [good]}
  - {name: retry.example.com, proxied: true, default_pools: [retry]}
  - {name: off.example.com, proxied: true, default_pools: [off]}
  - {name: fallback.example.com, proxied: true, default_pools: [off], fallback_pool: good}
`, filepath.Join(t.TempDir(), "access.log"), cert.CertFile, cert.KeyFile, o.Addr, lab.Refusing(t), o.Addr))

	var got bytes.Buffer
	lines := 0
	step := func(name string, request func()) {
		request()
		lines++
		fmt.Fprintf(&got, "# %s\n%s\n", name, stable(t, n.AccessLog(lines)[lines-1]))
	}
	ask := func(listener, raw string) func() {
		return func() {
			method, _, _ := strings.Cut(raw, " ")
			c := lab.Dial(t, n.Addr(listener))
			c.Send(raw)
			c.Response(method)
			c.Close()
		}
	}
	step("the first request connects", ask("web", get("/a?b=c", "")))
	step("the next reuses the connection", ask("web", get("/a", "User-Agent: \"x\"\r\n")))
	step("a body", ask("web", request("POST", "/p", "Content-Length: 5\r\n", "hello")))
	step("HEAD", ask("web", request("HEAD", "/none", "", "")))
	step("HTTP/1.0", ask("web", "GET / HTTP/1.0\r\nHost: "+host+"\r\n\r\n"))
	step("HTTP/2", func() {
		s := server{n, n.Addr("websecure"), ca}
		res, err := s.client(t, v2).Post(s.url("/h2"), "text/plain", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	})
	step("behind a trusted proxy", ask("behind", get("/", "X-Forwarded-For: 203.0.113.7\r\n")))
	step("sent once more", ask("web", get("/once", "")))
	step("another endpoint is asked", ask("web", "GET / HTTP/1.1\r\nHost: retry.example.com\r\n\r\n"))
	step("no load balancer", ask("web", "GET / HTTP/1.1\r\nHost: none.example\r\n\r\n"))
	step("no pool", ask("web", "GET / HTTP/1.1\r\nHost: off.example.com\r\n\r\n"))
	step("the fallback pool", ask("web", "GET / HTTP/1.1\r\nHost: FALLBACK.example.com:80\r\n\r\n"))
	step("no answer", ask("web", request("POST", "/silent", "", "")))
	step("an answer that is cut", func() {
		c := lab.Dial(t, n.Addr("web"))
		c.Send(get("/cut", ""))
		c.Ended(5 * time.Second)
	})
	step("malformed", ask("web", "GET / HTTP/1.1\r\nHost : x\r\n\r\n"))
	step("a head that takes too long", ask("hurried", "GET /slow HTTP/1.1\r\n"))
	step("a body that takes too long", ask("hurried", request("POST", "/slow", "Content-Length: 5\r\n", "h")))
	step("an upgrade", func() {
		c := lab.Dial(t, n.Addr("web"))
		c.Send(get("/chat", upgrade) + "hi")
		c.Conn.(interface{ CloseWrite() error }).CloseWrite()
		c.Ended(5 * time.Second)
	})
	step("control characters", ask("web", "GET / HTTP/1.1\r\nHost: "+host+"\r\nX: \xff\r\n\r\n"))

	golden := filepath.Join("testdata", "access.log")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("access log differs from %s: if the change is meant, run the test with -update\ngot:\n%s", golden, got.String())
	}
}

// stable returns a line with its keys in order, and without what differs from
// run to run.
func stable(t *testing.T, record map[string]any) string {
	t.Helper()
	// Whether a connection to the endpoint is there depends on the loop that
	// the client's connection came to.
	if record["endpoint"] != "" {
		if reused := record["reused"].(bool); reused != (record["connect_ms"].(float64) == 0) {
			t.Errorf("reused = %v, connect_ms = %v", reused, record["connect_ms"])
		}
		record["reused"], record["connect_ms"] = "", 0.0
	}
	for key, value := range record {
		text, isText := value.(string)
		switch {
		case key == "time":
			if at, err := time.Parse(time.RFC3339Nano, text); err != nil || time.Since(at) > time.Minute {
				t.Errorf("time = %q", text)
			}
			record[key] = "TIME"
		case strings.HasSuffix(key, "_ms"):
			if value.(float64) < 0 || value.(float64) > 60_000 {
				t.Errorf("%s = %v", key, value)
			}
			// The time to the end of a head that comes at once may round to 0.
			none := value.(float64) == 0 && key != "head_ms"
			record[key] = map[bool]string{true: "0", false: "MS"}[none]
		case key == "tls_cipher": // the one that the machine is quickest with
			record[key] = map[bool]string{true: "", false: "CIPHER"}[text == ""]
		case isText:
			record[key] = port.ReplaceAllString(text, "127.0.0.1:PORT")
		}
	}
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(record)) {
		v, err := json.Marshal(record[key])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, " %s=%s", key, v)
	}
	return b.String()[1:]
}

var port = regexp.MustCompile(`127\.0\.0\.1:\d+`)
