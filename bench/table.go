//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// column is one figure of the table.
type column struct {
	title  string
	format string
	value  func(sample) float64
}

var columns = []column{
	{"CPU us/req", "%.1f", sample.micros},
	{"req/s", "%.0f", sample.rate},
	{"p50 us", "%.0f", func(s sample) float64 { return s.P50 }},
	{"p99 us", "%.0f", func(s sample) float64 { return s.P99 }},
	{"PSS MiB", "%.1f", sample.mib},
}

// idleColumns are those of scenarios that measure memory alone.
var idleColumns = []column{
	{"bytes/connection", "%.0f", func(s sample) float64 { return s.each() }},
	{"PSS MiB", "%.1f", sample.mib},
}

// printTable writes the medians of one scenario, each figure followed by its
// ratio to the baseline.
func printTable(w io.Writer, s scenario, opts options, results map[string][]sample) {
	if s.floods {
		printFloods(w, s, opts, results)
		return
	}
	columns := columns
	if s.idle {
		columns = idleColumns
	}
	fmt.Fprintf(w, "\n### %s\n\n| target |", s.title)
	for _, c := range columns {
		fmt.Fprintf(w, " %s | ratio |", c.title)
	}
	last := " busy % |"
	if s.idle {
		last = " Go: heap and stacks in use, bytes/connection |"
	}
	fmt.Fprintf(w, "%s\n|---|%s\n", last, strings.Repeat("--:|", 2*len(columns)+1))
	for _, name := range opts.targets {
		got := results[name]
		fmt.Fprintf(w, "| %s |", name)
		for _, c := range columns {
			fmt.Fprintf(w, " "+c.format+" | %.2f |",
				median(values(got, c.value)), medianRatio(got, results[opts.baseline], c.value))
		}
		switch inUse := median(values(got, func(s sample) float64 { return s.eachInUse() })); {
		case !s.idle:
			fmt.Fprintf(w, " %.0f |\n", 100*median(values(got, sample.busy)))
		case isFairlead(name):
			fmt.Fprintf(w, " %.0f |\n", inUse)
		default:
			fmt.Fprint(w, " - |\n")
		}
	}
	for _, name := range opts.targets {
		var errors, requests int64
		for _, got := range results[name] {
			errors += got.errors()
			requests += got.Requests
		}
		if errors > 0 || requests == 0 && !s.idle {
			fmt.Fprintf(w, "\n**%s FAILED %d of %d requests: its figures mean nothing.**\n", name, errors, requests)
		}
	}
}

func values[S any](samples []S, value func(S) float64) []float64 {
	out := make([]float64, len(samples))
	for i, s := range samples {
		out[i] = value(s)
	}
	return out
}

// medianRatio divides round by round before it takes the median: what slows the
// whole machine in one round then cancels out.
func medianRatio(samples, baseline []sample, value func(sample) float64) float64 {
	ratios := make([]float64, len(samples))
	for i := range samples {
		ratios[i] = value(samples[i]) / value(baseline[i])
	}
	return median(ratios)
}

// median returns the middle value, or the mean of the middle two.
func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}

// printMachine writes what a reader needs to judge the figures.
func printMachine(w io.Writer, opts options) {
	fmt.Fprintf(w, "%d rounds of %d s after %v of warm-up, medians; each ratio is the median of the rounds' ratios to %s.\n",
		opts.rounds, opts.seconds, opts.warmUp, opts.baseline)
	fmt.Fprintf(w, "Proxy on core %s, load and endpoints on core %s. busy: the CPU time that the proxy used, 100 %% is one core.\n\n",
		opts.proxyCPUs(), opts.loadCPUs())
	fmt.Fprintf(w, "- machine: %s, %d cores, %s\n", procLine("/proc/cpuinfo", "model name"), runtime.NumCPU(), procLine("/proc/meminfo", "MemTotal"))
	fmt.Fprintf(w, "- kernel: %s\n", firstLine("uname", "-sr"))
	if slices.Contains(opts.targets, "haproxy") {
		fmt.Fprintf(w, "- haproxy: %s\n", firstLine("haproxy", "-v"))
	}
	fmt.Fprintf(w, "- nginx (and the endpoints): %s\n", firstLine("nginx", "-v"))
	if slices.ContainsFunc(opts.targets, isFairlead) {
		fmt.Fprintf(w, "- fairlead: %s\n", firstLine(opts.fairlead, "version"))
	}
	fmt.Fprintf(w, "- load: %s, %s\n", firstLine("wrk", "-v"), firstLine("h2load", "--version"))
}

// firstLine runs a command for its first line; tools disagree on whether a
// version goes to the standard output and on the exit code.
func firstLine(name string, args ...string) string {
	out, err := exec.Command(name, args...).CombinedOutput()
	line, _, _ := bytes.Cut(bytes.TrimSpace(out), []byte("\n"))
	if len(line) == 0 {
		return fmt.Sprintf("unknown (%v)", err)
	}
	return string(line)
}

// procLine returns the value of the first "key : value" line of a file in /proc.
func procLine(path, key string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}
