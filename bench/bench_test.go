//go:build linux

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

func TestParseReport(t *testing.T) {
	const good = `Running 2s test @ http://127.0.0.1:8080/small
  12 requests in 2.00s, 4.5MB read
Requests/sec:  34721.12

report: {"requests":12,"duration_us":2000000,"bytes":3000,"p50_us":930,"p99_us":1767,"connect_errors":1,"read_errors":2,"write_errors":3,"timeouts":4,"status_errors":5}
`
	got, err := parseReport(good)
	want := load{Requests: 12, Micros: 2000000, Bytes: 3000, P50: 930, P99: 1767, Connect: 1, Read: 2, Write: 3, Timeout: 4, Status: 5}
	if err != nil || got != want {
		t.Errorf("parseReport(good) = %+v, %v, want %+v", got, err, want)
	}
	if got.errors() != 15 {
		t.Errorf("errors() = %d, want all kinds added up: 15", got.errors())
	}
	for name, out := range map[string]string{
		"no report":   "Running 2s test\n",
		"cut off":     "\nreport: {\"requests\":12,\n",
		"no duration": "\nreport: {\"requests\":12}\n",
	} {
		if got, err := parseReport(out); err == nil {
			t.Errorf("%s: parseReport = %+v, want an error", name, got)
		}
	}
}

func TestParseH2load(t *testing.T) {
	const good = `TLS Protocol: TLSv1.3
Application protocol: h2

finished in 2.00s, 94295.00 req/s, 15.11MB/s
requests: 188590 total, 189102 started, 188590 done, 188583 succeeded, 7 failed, 4 errored, 0 timeout
status codes: 188583 2xx, 0 3xx, 3 4xx, 0 5xx
traffic: 15.11MB (15842344) total, 8.81MB (9240910) headers (space savings 50.51%), 3.06MB (3206030) data
`
	got, err := parseH2load(good, 2)
	want := load{Requests: 188583, Micros: 2000000, Bytes: 3206030, Status: 7}
	if err != nil || got != want {
		t.Errorf("parseH2load(good) = %+v, %v, want %+v", got, err, want)
	}
	for name, out := range map[string]string{
		"HTTP/1.1":   strings.Replace(good, "protocol: h2", "protocol: http/1.1", 1),
		"no figures": "\nApplication protocol: h2\n",
		"no traffic": strings.Replace(good, "traffic", "t", 1),
	} {
		if got, err := parseH2load(out, 2); err == nil {
			t.Errorf("%s: parseH2load = %+v, want an error", name, got)
		}
	}
}

func TestParseH2loadLog(t *testing.T) {
	got, err := parseH2loadLog(strings.NewReader("1796023164128848\t200\t442\n1796023164128849\t-1\t75\n"))
	if err != nil || len(got) != 2 || got[0] != 442 || got[1] != 75 {
		t.Errorf("parseH2loadLog = %v, %v, want 442 and 75", got, err)
	}
	for name, log := range map[string]string{
		"empty":        "",
		"no duration":  "1796023164128848\t200\n",
		"not a number": "1796023164128848\t200\tx\n",
	} {
		if got, err := parseH2loadLog(strings.NewReader(log)); err == nil {
			t.Errorf("%s: parseH2loadLog = %v, want an error", name, got)
		}
	}
}

func TestPercentile(t *testing.T) {
	var hundred []int32
	for i := range int32(100) {
		hundred = append(hundred, 100-i)
	}
	for _, test := range []struct {
		times []int32
		p     int
		want  float64
	}{
		{[]int32{7}, 99, 7},
		{[]int32{3, 1, 2}, 50, 2},
		{hundred, 50, 51},
		{hundred, 99, 100},
		{hundred, 100, 100},
	} {
		if got := percentile(test.times, test.p); got != test.want {
			t.Errorf("percentile(%d times, %d) = %v, want %v", len(test.times), test.p, got, test.want)
		}
	}
}

func TestGoInUse(t *testing.T) {
	metrics := "# TYPE go_memstats_heap_inuse_bytes gauge\ngo_memstats_heap_inuse_bytes 2e+06\ngo_memstats_heap_idle_bytes 7\n"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, metrics) }))
	defer server.Close()
	if got, err := goInUse(server.URL); err == nil {
		t.Errorf("goInUse without stacks = %v, want an error", got)
	}
	metrics += "go_memstats_stack_inuse_bytes 3\n"
	if got, err := goInUse(server.URL); err != nil || got != 2000003 {
		t.Errorf("goInUse = %v, %v, want 2000003", got, err)
	}
}

func TestTopSymbols(t *testing.T) {
	const report = "# Overhead  Symbol\n# ....\n\n     9.99%  [k] read_tsc    \n     3.65%  [.] main.main\n     0.10%  [.] rest\n"
	const want = "9.99%  [k] read_tsc\n3.65%  [.] main.main\n"
	if got := topSymbols(report, 2); got != want {
		t.Errorf("topSymbols = %q, want %q", got, want)
	}
}

func TestParseStat(t *testing.T) {
	const fields = " S 1 42 42 0 -1 4194560 500 0 0 0 150 50 7 8 20 0 3 0 12345\n"
	for name, stat := range map[string]string{
		"plain":                 "42 (haproxy)" + fields,
		"blanks in the name":    "42 (nginx: worker 1)" + fields,
		"brackets in the name":  "42 (a) S 1 (b)" + fields,
		"digits like the times": "42 (7 8 9)" + fields,
	} {
		if got, err := parseStat([]byte(stat)); err != nil || got != 2*time.Second {
			t.Errorf("%s: parseStat = %v, %v, want 2s", name, got, err)
		}
	}
	for name, stat := range map[string]string{
		"empty":      "",
		"cut off":    "42 (haproxy) S 1 42",
		"not a time": "42 (haproxy)" + strings.Replace(fields, "150", "x", 1),
	} {
		if got, err := parseStat([]byte(stat)); err == nil {
			t.Errorf("%s: parseStat = %v, want an error", name, got)
		}
	}
}

func TestParsePSS(t *testing.T) {
	got, err := parsePSS([]byte("5581-7ffe ---p 00000000 00:00 0  [rollup]\nRss:   9000 kB\nPss:   1024 kB\nPss_Anon: 1 kB\n"))
	if err != nil || got != 1<<20 {
		t.Errorf("parsePSS = %d, %v, want %d", got, err, 1<<20)
	}
	if got, err := parsePSS([]byte("Rss: 9000 kB\n")); err == nil {
		t.Errorf("parsePSS without Pss = %d, want an error", got)
	}
}

func TestParseStatm(t *testing.T) {
	if got, err := parseStatm([]byte("5120 1280 900 300 0 700 0\n")); err != nil || got != 1280 {
		t.Errorf("parseStatm = %d, %v, want 1280", got, err)
	}
	for _, statm := range []string{"", "5120", "5120 x"} {
		if got, err := parseStatm([]byte(statm)); err == nil {
			t.Errorf("parseStatm(%q) = %d, want an error", statm, got)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		in   []float64
		want float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 2, 100}, 3},
	} {
		if got := median(test.in); got != test.want {
			t.Errorf("median(%v) = %v, want %v", test.in, got, test.want)
		}
	}
}

func TestMedianRatioIsTakenWithinARound(t *testing.T) {
	// The machine is half as fast in the second round; the ratio is 2 throughout.
	baseline := []sample{{memory: 10}, {memory: 20}, {memory: 11}}
	samples := []sample{{memory: 20}, {memory: 40}, {memory: 22}}
	if got := medianRatio(samples, baseline, sample.mib); math.Abs(got-2) > 1e-9 {
		t.Errorf("medianRatio = %v, want 2", got)
	}
}

func TestTableMarksFailures(t *testing.T) {
	good := sample{load: load{Requests: 1000, Micros: 1e6, P50: 100, P99: 200}, cpu: 20 * time.Millisecond, memory: 1 << 20}
	bad := good
	bad.Status = 7
	var out strings.Builder
	printTable(&out, scenarios[0], options{targets: []string{"haproxy", "fairlead"}, baseline: "haproxy"},
		map[string][]sample{"haproxy": {good}, "fairlead": {bad}})
	for _, want := range []string{
		"| haproxy | 20.0 | 1.00 | 1000 | 1.00 | 100 | 1.00 | 200 | 1.00 | 1.0 | 1.00 | 2 |\n",
		"**fairlead FAILED 7 of 1000 requests",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "haproxy FAILED") {
		t.Errorf("the table blames haproxy:\n%s", out.String())
	}
}

func TestTableOfIdleConnections(t *testing.T) {
	results := map[string][]sample{
		"haproxy":  {{memory: 3 << 20, idle: idle{held: 1024, before: 1 << 20, after: 3 << 20}}},
		"fairlead": {{memory: 2 << 20, idle: idle{held: 1024, before: 1 << 20, after: 2 << 20, inUse: 1 << 19}}},
	}
	var out strings.Builder
	printTable(&out, scenario{title: "idle", idle: true}, options{targets: []string{"haproxy", "fairlead"}, baseline: "haproxy"}, results)
	for _, want := range []string{
		"| haproxy | 2048 | 1.00 | 3.0 | 1.00 | - |\n",
		"| fairlead | 1024 | 0.50 | 2.0 | 0.67 | 512 |\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "FAILED") {
		t.Errorf("the table tells of failures:\n%s", out.String())
	}
}

func TestTableOfFloods(t *testing.T) {
	// In each round all of it is as slow as the machine.
	rounds := func(p99 float64, last flooded) []sample {
		var samples []sample
		for _, slow := range []float64{1, 3, 1} {
			floods := make([]flooded, len(floodNames()))
			for i := range floods {
				floods[i] = flooded{felt: felt{Requests: 100, P50: 100 * slow, P99: p99 * slow, Max: 500}, dealt: dealt{Connections: 600, Frames: 9000, Micros: 3e6}, cpu: time.Second, elapsed: 2 * time.Second, memory: 3 << 20}
			}
			floods[0] = flooded{felt: felt{Requests: 100, P50: 50 * slow, P99: 200 * slow, Max: 400}, cpu: time.Second, elapsed: 10 * time.Second, memory: 1 << 20}
			floods[len(floods)-1] = last
			samples = append(samples, sample{floods: floods})
		}
		return samples
	}
	results := map[string][]sample{
		"haproxy":  rounds(800, flooded{felt: felt{Failed: 7}, dealt: dealt{Connections: 1, Micros: 1e6}, elapsed: time.Second}),
		"fairlead": rounds(300, flooded{felt: felt{Requests: 1, P50: 1, P99: 100, Max: 3}, elapsed: time.Second}),
	}
	var out strings.Builder
	printTable(&out, scenario{title: "floods", floods: true}, options{targets: []string{"haproxy", "fairlead"}, baseline: "haproxy"}, results)
	for _, want := range []string{
		"| at rest | haproxy | 50 | 200 | 1.00 | 400 | 0 | - | - | 10 | 1.0 |\n",
		"| ping | haproxy | 100 | 800 | 4.00 | 500 | 0 | 200 | 3000 | 50 | 3.0 |\n| ping | fairlead | 100 | 300 | 1.50 | 500 |",
		"| header_bomb | haproxy | +Inf | +Inf | +Inf | +Inf | 7 | 1 | 0 | 0 | 0.0 |\n| header_bomb | fairlead | 1 | 100 | 0.50 |",
		"**fairlead let no attacker of header_bomb connect",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
	for _, never := range []string{"FAILED", "haproxy let no"} {
		if strings.Contains(out.String(), never) {
			t.Errorf("the table has %q:\n%s", never, out.String())
		}
	}
	for name, samples := range results {
		if samples[0].failed() {
			t.Errorf("%s failed, want that what fails beside an attack is a figure", name)
		}
		samples[0].floods[0].felt.Failed = 1
		if !samples[0].failed() {
			t.Errorf("%s has not failed, with a request that did at rest", name)
		}
	}
}

func TestSummary(t *testing.T) {
	if got := summary(nil); got != (felt{}) {
		t.Errorf("summary of nothing = %+v, want nothing", got)
	}
	if got, want := summary([]int32{30, 10, 20}), (felt{Requests: 3, P50: 20, P99: 30, Max: 30}); got != want {
		t.Errorf("summary = %+v, want %+v", got, want)
	}
}

func TestLastLine(t *testing.T) {
	var got felt
	if err := lastLine("a warning\n{\"requests\": 3}\n", &got); err != nil || got.Requests != 3 {
		t.Errorf("lastLine = %+v, %v, want 3 requests", got, err)
	}
	for _, out := range []string{"", "panic\n", "{\"requests\": 3}\nkilled\n"} {
		if err := lastLine(out, &got); err == nil {
			t.Errorf("lastLine(%q): no error", out)
		}
	}
}

// TestAttacks reads what attackers write with another's HTTP/2.
func TestAttacks(t *testing.T) {
	want := map[string]string{
		"rapid_reset":    "HEADERS/1 RST_STREAM/1 HEADERS/3 RST_STREAM/3",
		"made_you_reset": "HEADERS/1 WINDOW_UPDATE/1 HEADERS/3 WINDOW_UPDATE/3",
		"ping":           "PING/0 PING/0",
		"settings":       "SETTINGS/0 SETTINGS/0",
		"window_update":  "WINDOW_UPDATE/0 WINDOW_UPDATE/0",
		"priority":       "PRIORITY/1 PRIORITY/3",
		"continuation":   "HEADERS/1 CONTINUATION/1 CONTINUATION/1",
		"header_bomb":    "HEADERS/1 HEADERS/3",
	}
	for _, a := range attacks {
		if a.step == nil {
			continue
		}
		var sent bytes.Buffer
		f := frames{w: bufio.NewWriter(&sent)}
		f.begin()
		a.step(&f, 0)
		a.step(&f, 1)
		f.flush()
		rest, ok := strings.CutPrefix(sent.String(), http2.ClientPreface)
		if !ok || f.err != nil {
			t.Errorf("%s: it begins %.24q, error %v, want the preface", a.name, sent.String(), f.err)
		}
		seen, fields := readFrames(t, rest)
		if got, want := strings.Join(seen, " "), "SETTINGS/0 SETTINGS/0 "+want[a.name]; got != want || int(f.n) != len(seen) {
			t.Errorf("%s: frames %s, %d counted, want %s", a.name, got, f.n, want)
		}
		if want := 4 + 1 + 12000 + 4 + 12000; a.name == "header_bomb" && fields != want {
			t.Errorf("%s: %d fields, want %d", a.name, fields, want)
		}
	}
}

// readFrames returns the type and the stream of each frame, and how many header
// fields they have.
func readFrames(t *testing.T, sent string) (seen []string, fields int) {
	t.Helper()
	decoder := hpack.NewDecoder(4096, func(hpack.HeaderField) { fields++ })
	framer := http2.NewFramer(nil, strings.NewReader(sent))
	framer.AllowIllegalReads = true
	for {
		frame, err := framer.ReadFrame()
		if zero := (http2.StreamError{}); errors.As(err, &zero) { // in place of a window that grows by 0
			seen = append(seen, fmt.Sprintf("WINDOW_UPDATE/%d", zero.StreamID))
			continue
		}
		if err == io.EOF {
			return seen, fields
		}
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, fmt.Sprintf("%v/%d", frame.Header().Type, frame.Header().StreamID))
		if block, ok := frame.(interface{ HeaderBlockFragment() []byte }); ok {
			if _, err := decoder.Write(block.HeaderBlockFragment()); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestUntilCut(t *testing.T) {
	var sent bytes.Buffer
	framer := http2.NewFramer(&sent, nil)
	for _, err := range []error{
		framer.WriteSettings(),
		framer.WriteData(1, false, make([]byte, 1000)),
		framer.WriteGoAway(1, http2.ErrCodeEnhanceYourCalm, nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	untilCut(bytes.NewReader(sent.Bytes()[:sent.Len()/2])) // the connection ends
	untilCut(io.MultiReader(&sent, readFunc(func([]byte) (int, error) {
		t.Error("it reads on after GOAWAY")
		return 0, io.EOF
	})))
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func TestNormalRequest(t *testing.T) {
	for _, test := range []struct {
		name   string
		http2  bool
		status int
		want   string // part of the error; empty: none
	}{
		{"good", true, http.StatusOK, ""},
		{"HTTP/1.1", false, http.StatusOK, "tls"},
		{"overloaded", true, http.StatusServiceUnavailable, "status 503 with 3 bytes, want 200 with 3"},
	} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Host != host {
				t.Errorf("%s: host %q, want %q", test.name, r.Host, host)
			}
			w.WriteHeader(test.status)
			fmt.Fprint(w, "abc")
		}))
		server.EnableHTTP2 = test.http2
		server.Config.ErrorLog = log.New(io.Discard, "", 0) // of refused handshakes
		server.StartTLS()
		client := newNormalClient()
		err := normalRequest(client, server.URL, 3)
		client.CloseIdleConnections()
		server.Close()
		switch {
		case err != nil && test.want == "":
			t.Errorf("%s: %v, want no error", test.name, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s: error %v, want %q", test.name, err, test.want)
		}
	}
}

func TestCores(t *testing.T) {
	for _, test := range []struct{ args, proxy, load string }{
		{"", "0", "1"},
		{"-proxy-cpu 2 -load-cpu 3", "2", "3"},
		{"-cores 2", "0,1", "0,1"},
	} {
		opts, err := parseFlags(strings.Fields(test.args))
		if err != nil || opts.proxyCPUs() != test.proxy || opts.loadCPUs() != test.load {
			t.Errorf("%q: proxy on %s, load on %s, %v, want %s and %s", test.args, opts.proxyCPUs(), opts.loadCPUs(), err, test.proxy, test.load)
		}
	}
}

func TestParseFlags(t *testing.T) {
	for _, test := range []struct {
		args string
		want string // part of the error; empty: none
	}{
		{"-scenario small64,tls64 -targets haproxy,nginx -rounds 1", ""},
		{"-scenario small", `scenario "small": want one of small64`},
		{"-targets envoy", `target "envoy": want one of fairlead`},
		{"-targets fairlead-goroutine,fairlead -scenario h2,idle,idletls,floods -cores 2", ""},
		{"-cores 3", "want 1 or 2"},
		{"-rounds 0", "want at least 1"},
		{"-warm-up 10ms", "want whole seconds"},
		{"-proxy-cpu 1", "are both 1"},
		{"small64", `unexpected argument "small64"`},
	} {
		_, err := parseFlags(strings.Fields(test.args))
		switch {
		case err == nil && test.want != "":
			t.Errorf("parseFlags(%s): no error, want %q", test.args, test.want)
		case err != nil && (test.want == "" || !strings.Contains(err.Error(), test.want)):
			t.Errorf("parseFlags(%s): error %q, want %q", test.args, err, test.want)
		}
	}
}
