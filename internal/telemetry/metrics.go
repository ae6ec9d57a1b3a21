package telemetry

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
)

// Kind is the type of a metric.
type Kind int

// The kinds of metrics.
const (
	CounterKind Kind = iota
	GaugeKind
	HistogramKind
)

// String returns the kind's name as Prometheus has it.
func (k Kind) String() string { return [...]string{"counter", "gauge", "histogram"}[k] }

// Desc describes a metric. It is made once, as a package variable, and not
// changed after its first use.
type Desc struct {
	// Name begins with fairlead_ and ends as Prometheus's naming rules ask:
	// in _total for a counter, in _seconds for a histogram.
	Name string
	// Help is one sentence that says what is counted.
	Help string
	Kind Kind
	// Labels are the names of the labels. Their values come from the
	// configuration and from small fixed sets, never from a request.
	Labels []string

	once sync.Once
	desc *prometheus.Desc
}

var metricName = regexp.MustCompile(`^fairlead_[a-z0-9]+(_[a-z0-9]+)*$`)

// prom returns the description in the library's form, an invalid one when the
// rules on Name are broken.
func (d *Desc) prom() *prometheus.Desc {
	d.once.Do(func() {
		if err := d.check(); err != nil {
			d.desc = prometheus.NewInvalidDesc(err)
			return
		}
		d.desc = prometheus.NewDesc(d.Name, d.Help, d.Labels, nil)
	})
	return d.desc
}

func (d *Desc) check() error {
	switch {
	case !metricName.MatchString(d.Name):
		return fmt.Errorf("metric %q: want lower-case words joined by _ that begin with fairlead_", d.Name)
	case (d.Kind == CounterKind) != strings.HasSuffix(d.Name, "_total"):
		return fmt.Errorf("metric %q: a counter, and nothing else, ends in _total; this is a %s", d.Name, d.Kind)
	case d.Kind == HistogramKind && !strings.HasSuffix(d.Name, "_seconds"):
		return fmt.Errorf("metric %q: a histogram counts durations and ends in _seconds", d.Name)
	case d.Help == "":
		return fmt.Errorf("metric %q: has no help text", d.Name)
	}
	return nil
}

// Source is what has metrics to show. Collect is called once for each scrape,
// and by several scrapes at the same time; it reads atomics and does not wait.
type Source interface {
	Collect(e *Emitter)
}

// Emitter takes the values of one source for one scrape.
type Emitter struct{ out chan<- prometheus.Metric }

// Counter emits the value of a counter. There is one label value for each of
// d.Labels.
func (e *Emitter) Counter(d *Desc, v uint64, labelValues ...string) {
	e.value(d, CounterKind, prometheus.CounterValue, float64(v), labelValues)
}

// Gauge emits the value of a gauge.
func (e *Emitter) Gauge(d *Desc, v float64, labelValues ...string) {
	e.value(d, GaugeKind, prometheus.GaugeValue, v, labelValues)
}

// Histogram emits the buckets of a histogram.
func (e *Emitter) Histogram(d *Desc, h *Histogram, labelValues ...string) {
	if !e.fits(d, HistogramKind) {
		return
	}
	cumulative, count, sum := h.snapshot()
	m, err := prometheus.NewConstHistogram(d.prom(), count, sum, cumulative, labelValues...)
	e.emit(d, m, err)
}

func (e *Emitter) value(d *Desc, k Kind, t prometheus.ValueType, v float64, labelValues []string) {
	if !e.fits(d, k) {
		return
	}
	m, err := prometheus.NewConstMetric(d.prom(), t, v, labelValues...)
	e.emit(d, m, err)
}

// fits makes an error of a value whose kind is not the described one.
func (e *Emitter) fits(d *Desc, k Kind) bool {
	if d.Kind == k {
		return true
	}
	e.out <- prometheus.NewInvalidMetric(d.prom(), fmt.Errorf("metric %q: described as a %s, emitted as a %s", d.Name, d.Kind, k))
	return false
}

// emit passes a metric on, or the error that stands for it: a mistake in one
// series must not cost the others.
func (e *Emitter) emit(d *Desc, m prometheus.Metric, err error) {
	if err != nil {
		m = prometheus.NewInvalidMetric(d.prom(), fmt.Errorf("metric %q: %w", d.Name, err))
	}
	e.out <- m
}

// Registry gathers the metrics of all sources. Log may be set before the first
// scrape; it is told of series that could not be shown.
type Registry struct {
	Log *slog.Logger

	reg    *prometheus.Registry
	failed Counter
	logged atomic.Int64 // unix nanoseconds of the last line about failed series
}

// NewRegistry returns a registry that holds the metrics of the process and of
// the Go runtime.
func NewRegistry() *Registry {
	r := &Registry{reg: prometheus.NewRegistry()}
	r.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.Add(r)
	return r
}

// Add makes every later scrape ask s.
func (r *Registry) Add(s Source) { r.reg.MustRegister(collector{s}) }

// collector is a Source as the library sees it. It describes nothing, since
// what a source emits changes with the configuration.
type collector struct{ Source }

func (collector) Describe(chan<- *prometheus.Desc) {}

func (c collector) Collect(out chan<- prometheus.Metric) { c.Source.Collect(&Emitter{out}) }

var seriesFailed = &Desc{
	Name: "fairlead_metrics_failed_series_total",
	Help: "Series left out of scrapes because a source emitted them twice or wrongly. Each is a bug.",
	Kind: CounterKind,
}

// Collect emits what the registry knows of itself.
func (r *Registry) Collect(e *Emitter) { e.Counter(seriesFailed, r.failed.Load()) }

// scrapesInFlight bounds the memory that scrapers can take; more get 503.
const scrapesInFlight = 4

// Handler answers scrapes, in the text format or in OpenMetrics.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(prometheus.GathererFunc(r.gather), promhttp.HandlerOpts{
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: scrapesInFlight,
	})
}

// gather returns all series that are right. Those that are not are counted,
// and logged once a minute: one mistake must not blind the operator to all
// the rest.
func (r *Registry) gather() ([]*dto.MetricFamily, error) {
	families, err := r.reg.Gather()
	if err == nil {
		return families, nil
	}
	n := 1
	var several prometheus.MultiError
	if errors.As(err, &several) {
		n, err = len(several), several[0]
	}
	r.failed.Add(uint64(n))
	now, last := time.Now().UnixNano(), r.logged.Load()
	if r.Log != nil && now-last >= int64(time.Minute) && r.logged.CompareAndSwap(last, now) {
		r.Log.Error("metrics left out of a scrape", "series", n, "first_error", err)
	}
	return families, nil
}
