package browser_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fairlead/test/lab"
	"fairlead/test/process"
)

// TestMain lets all browsers run at once: they wait more than they compute.
func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "4")
	os.Exit(process.Main(m))
}

const host = "www.example.com"

const (
	// startWithin bounds how long a browser may take to ask for the page. On a machine
	// that is busy beyond measure its processes give each other up after 15 s.
	startWithin = 40 * time.Second
	// reportWithin bounds how long the page may take to report then.
	reportWithin = time.Minute
)

// A browser loads a page with its parts over each version of HTTP, goes over to HTTP/3
// when it is told of it, keeps its session, uploads, downloads, listens to events and
// holds a WebSocket. Nothing that it does is taken for an attack.
func TestBrowser(t *testing.T) {
	for _, c := range []struct {
		name   string
		query  string   // of the page
		flags  []string // ORIGIN stands for host and port of the page
		first  string   // what the load before this one came over
		want   string   // what this one does, as ALPN calls it
		socket string   // what the WebSocket goes over; "" leaves it to the browser
	}{
		{"HTTP/1.1", "", []string{"--disable-quic", "--disable-http2"}, "", "http/1.1", "HTTP/1.1"},
		{"HTTP/2", "", []string{"--disable-quic"}, "", "h2", "HTTP/2"},
		{"HTTP/3", "", []string{"--origin-to-force-quic-on=ORIGIN"}, "", "h3", ""},
		// Over QUIC, certificates of authorities that the system does not know are taken
		// from the hosts that are forced to it, at whatever port that is.
		{"HTTP/3 by Alt-Svc", "?until=h3", []string{"--origin-to-force-quic-on=" + host + ":1"}, "h2", "h3", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path := chromiumPath(t)
			s := newSite(t)
			for i := range c.flags {
				c.flags[i] = strings.ReplaceAll(c.flags[i], "ORIGIN", s.origin)
			}
			got := s.visit(t, path, c.query, c.flags)
			for _, text := range got.Errors {
				t.Error(text)
			}
			if got.Pings < 2 {
				t.Errorf("%d pings over the WebSocket were answered", got.Pings)
			}
			if got.Session != "A" && got.Session != "B" {
				t.Errorf("the session is answered by %q, want one endpoint", got.Session)
			}
			want := report{
				First: c.first, Interim: true, Events: 10,
				Page: c.want, Style: c.want, Picture: c.want, Script: c.want, Upload: c.want, Download: c.want,
			}
			got.Errors, got.Pings, got.Session = nil, 0, ""
			if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
				t.Errorf("the page reports\n%s, want\n%s", g, w)
			}
			line := s.socketLine(t)
			t.Logf("the WebSocket: %v", line)
			if p := line["protocol"]; c.socket != "" && p != c.socket {
				t.Errorf("the WebSocket goes over %v, want %s", p, c.socket)
			}
			if line["upgraded"] != true || line["error"] != nil {
				t.Errorf("the WebSocket's line in the access log: %v", line)
			}
			for name, v := range s.node.Series() {
				if v > 0 && (strings.HasPrefix(name, "fairlead_http2_events_total") || strings.HasPrefix(name, "fairlead_http3_events_total") || strings.HasPrefix(name, "fairlead_http_limited_total")) {
					t.Errorf("%s = %v: a browser is taken for an attacker", name, v)
				}
			}
		})
	}
}

// site is a node with two endpoints that serve the page.
type site struct {
	node   *process.Process
	origin string // host and port of the page
	cert   lab.Certificate
	news   news
	log    string // file with the access log
}

func newSite(t *testing.T) *site {
	s := &site{cert: lab.NewCA(t).Issue(host), news: news{make(chan struct{}, 1), make(chan report, 1)}, log: filepath.Join(t.TempDir(), "access.log")}
	// A WebSocket may be silent for less time than it is only pinged.
	s.node = process.Start(t, fmt.Sprintf(`
access_log: {output: %q}
data_dir: %q
listeners:
  - name: web
    address: "127.0.0.1:0"
    protocol: https
    http3: true
    certificates: [{certificate: %q, key: %q}]
    limits: {upgrade_idle_timeout: 3s}
pools: [{name: p, endpoints: [{name: A, address: %q}, {name: B, address: %q}]}]
load_balancers: [{name: %s, proxied: true, default_pools: [p], session_affinity: cookie}]
`, s.log, t.TempDir(), s.cert.CertFile, s.cert.KeyFile, newEndpoint(t, "A", s.news), newEndpoint(t, "B", s.news), host))
	_, port, err := net.SplitHostPort(s.node.Addr("web"))
	if err != nil {
		t.Fatal(err)
	}
	s.origin = net.JoinHostPort(host, port)
	return s
}

// visit has a browser load the page, and returns what the page reports. A browser that
// does not come so far as to ask for it is given up for another.
func (s *site) visit(t *testing.T, path, query string, flags []string) report {
	t.Helper()
	for range 3 {
		browser := open(t, path, "https://"+s.origin+"/"+query, s.cert, flags...)
		select {
		case <-s.news.asked:
		case <-browser.exited:
			t.Fatal("the browser has ended")
		case <-time.After(startWithin):
			t.Logf("the browser has not asked for the page within %v", startWithin)
			browser.stop()
			continue
		}
		select {
		case got := <-s.news.reports:
			return got
		case <-browser.exited:
			t.Fatal("the browser has ended")
		case <-time.After(reportWithin):
			t.Fatalf("no report within %v", reportWithin)
		}
	}
	t.Fatal("no browser asks for the page")
	return report{}
}

// socketLine waits for the WebSocket's line in the access log.
func (s *site) socketLine(t *testing.T) (record map[string]any) {
	t.Helper()
	lab.Await(t, "the WebSocket in the access log", func() bool {
		b, err := os.ReadFile(s.log)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(b) {
			record = nil
			if json.Unmarshal(line, &record) == nil && record["path"] == "/socket" {
				return true
			}
		}
		return false
	})
	return record
}
