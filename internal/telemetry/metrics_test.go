package telemetry

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// source makes a Source of a function.
type source func(*Emitter)

func (s source) Collect(e *Emitter) { s(e) }

// scrape returns the lines about fairlead's own metrics.
func scrape(t *testing.T, r *Registry, accept string) (fairlead, all string) {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	req.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, req)
	body, err := io.ReadAll(w.Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("scrape: status %d, error %v:\n%s", w.Code, err, body)
	}
	var b strings.Builder
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, "fairlead_") {
			b.WriteString(line)
		}
	}
	return b.String(), string(body)
}

func has(t *testing.T, got string, lines ...string) {
	t.Helper()
	for _, want := range lines {
		if !strings.Contains("\n"+got, "\n"+want+"\n") {
			t.Errorf("scrape lacks the line\n%s\nit has\n%s", want, got)
		}
	}
}

var (
	testRequests = &Desc{Name: "fairlead_test_requests_total", Help: "Requests.", Kind: CounterKind, Labels: []string{"pool"}}
	testOpen     = &Desc{Name: "fairlead_test_open", Help: "Open.", Kind: GaugeKind}
	testTime     = &Desc{Name: "fairlead_test_time_seconds", Help: "Time.", Kind: HistogramKind, Labels: []string{"pool"}}
)

func TestScrape(t *testing.T) {
	r := NewRegistry()
	var h Histogram
	h.Observe(2 * time.Millisecond)
	h.Observe(2 * time.Minute)
	r.Add(source(func(e *Emitter) {
		e.Counter(testRequests, 7, "eu")
		e.Counter(testRequests, 8, "us")
		e.Gauge(testOpen, -2.5)
		e.Histogram(testTime, &h, "eu")
	}))
	got, all := scrape(t, r, "text/plain")
	has(t, got,
		`fairlead_test_requests_total{pool="eu"} 7`,
		`fairlead_test_requests_total{pool="us"} 8`,
		`fairlead_test_open -2.5`,
		`fairlead_test_time_seconds_bucket{pool="eu",le="0.001"} 0`,
		`fairlead_test_time_seconds_bucket{pool="eu",le="0.0025"} 1`,
		`fairlead_test_time_seconds_bucket{pool="eu",le="60"} 1`,
		`fairlead_test_time_seconds_bucket{pool="eu",le="+Inf"} 2`,
		`fairlead_test_time_seconds_sum{pool="eu"} 120.002`,
		`fairlead_test_time_seconds_count{pool="eu"} 2`,
		`fairlead_metrics_failed_series_total 0`)
	for _, want := range []string{"# TYPE fairlead_test_requests_total counter", "# TYPE fairlead_test_open gauge",
		"# TYPE fairlead_test_time_seconds histogram", "# HELP fairlead_test_open Open.", "\ngo_goroutines ", "\nprocess_open_fds "} {
		if !strings.Contains(all, want) {
			t.Errorf("scrape lacks %q", want)
		}
	}
	open, all := scrape(t, r, "application/openmetrics-text; version=1.0.0")
	has(t, open, `fairlead_test_requests_total{pool="eu"} 7.0`)
	if !strings.HasSuffix(all, "# EOF\n") {
		t.Error("OpenMetrics answer does not end in # EOF")
	}
}

// Series follow what a source emits, so those of deleted objects vanish.
func TestDeletedObjectsLeaveNoSeries(t *testing.T) {
	r := NewRegistry()
	pools := []string{"eu", "us"}
	r.Add(source(func(e *Emitter) {
		for _, p := range pools {
			e.Counter(testRequests, 1, p)
		}
	}))
	before, _ := scrape(t, r, "text/plain")
	has(t, before, `fairlead_test_requests_total{pool="us"} 1`)
	pools = pools[:1]
	after, _ := scrape(t, r, "text/plain")
	has(t, after, `fairlead_test_requests_total{pool="eu"} 1`)
	if strings.Contains(after, `"us"`) {
		t.Errorf("series of a deleted pool are still there:\n%s", after)
	}
}

// A mistake in one series costs that series, is counted and logged, and leaves
// all others.
func TestMistakesCostOnlyTheirSeries(t *testing.T) {
	tests := []struct {
		name string
		emit source
		log  string
		keep []string // lines of the mistaken source that are there all the same
	}{
		{"the same labels twice", func(e *Emitter) {
			e.Counter(testRequests, 1, "eu")
			e.Counter(testRequests, 1, "eu")
			e.Counter(testRequests, 2, "us")
		}, "was collected before with the same name and label values",
			[]string{`fairlead_test_requests_total{pool="eu"} 1`, `fairlead_test_requests_total{pool="us"} 2`}},
		{"too few label values", func(e *Emitter) { e.Counter(testRequests, 1) }, "inconsistent label cardinality", nil},
		{"a label that is not UTF-8", func(e *Emitter) { e.Counter(testRequests, 1, "\xff") }, "not valid UTF-8", nil},
		{"another kind than described", func(e *Emitter) { e.Gauge(testRequests, 1, "eu") }, "described as a counter, emitted as a gauge", nil},
		{"a name of somebody else's", func(e *Emitter) {
			e.Gauge(&Desc{Name: "haproxy_open", Help: "Open.", Kind: GaugeKind}, 1)
		}, "begin with fairlead_", nil},
		{"a counter without _total", func(e *Emitter) {
			e.Counter(&Desc{Name: "fairlead_requests", Help: "Requests.", Kind: CounterKind}, 1)
		}, "ends in _total", nil},
		{"a histogram without _seconds", func(e *Emitter) {
			e.Histogram(&Desc{Name: "fairlead_time", Help: "Time.", Kind: HistogramKind}, new(Histogram))
		}, "ends in _seconds", nil},
		{"no help", func(e *Emitter) { e.Gauge(&Desc{Name: "fairlead_open", Kind: GaugeKind}, 1) }, "no help text", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var logged bytes.Buffer
			r := NewRegistry()
			r.Log = slog.New(slog.NewTextHandler(&logged, nil))
			r.Add(tt.emit)
			r.Add(source(func(e *Emitter) { e.Gauge(testOpen, 3) }))
			got, _ := scrape(t, r, "text/plain")
			has(t, got, append(tt.keep, "fairlead_test_open 3")...)
			if n := r.failed.Load(); n != 1 {
				t.Errorf("failed series = %d, want 1", n)
			}
			if !strings.Contains(logged.String(), tt.log) {
				t.Errorf("log = %q, want it to say %q", logged.String(), tt.log)
			}
			first := logged.Len()
			again, _ := scrape(t, r, "text/plain")
			has(t, again, "fairlead_metrics_failed_series_total 1")
			if logged.Len() != first {
				t.Errorf("logged again within a minute: %s", logged.String()[first:])
			}
		})
	}
}

// One scrape of 10,000 series.
func BenchmarkScrape(b *testing.B) {
	r := NewRegistry()
	names := make([]string, 10_000)
	for i := range names {
		names[i] = "endpoint-" + strconv.Itoa(i)
	}
	r.Add(source(func(e *Emitter) {
		for _, n := range names {
			e.Counter(testRequests, 1, n)
		}
	}))
	h := r.Handler()
	for b.Loop() {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
	}
}
