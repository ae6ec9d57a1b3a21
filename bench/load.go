//go:build linux

package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// report is a wrk script that only acts when wrk is done: it prints the figures
// that wrk prints rounded for people exactly, as one line of JSON.
//
//go:embed report.lua
var report []byte

// load is what a generator counted.
type load struct {
	Requests int64   `json:"requests"`
	Micros   int64   `json:"duration_us"`
	Bytes    int64   `json:"bytes"` // received: bodies, and heads as far as they are counted
	P50      float64 `json:"p50_us"`
	P99      float64 `json:"p99_us"`
	Connect  int64   `json:"connect_errors"`
	Read     int64   `json:"read_errors"`
	Write    int64   `json:"write_errors"`
	Timeout  int64   `json:"timeouts"`
	Status   int64   `json:"status_errors"` // answers of 400 and above
}

func (l load) errors() int64 { return l.Connect + l.Read + l.Write + l.Timeout + l.Status }

// sample is one measurement of one target.
type sample struct {
	load
	cpu    time.Duration // used by the proxy while the load ran
	memory int64         // proportional set size while the load ran, bytes
	idle                 // of a scenario of idle connections, which has nothing of the above
	floods []flooded     // of a scenario of attacks, in the order of floodNames; likewise
}

// failed tells whether the figures mean nothing. Beside an attack, requests that
// fail are what is measured.
func (s sample) failed() bool {
	if len(s.floods) > 0 {
		rest := s.floods[0].felt
		return rest.Failed > 0 || rest.Requests == 0
	}
	return s.errors() > 0 || s.Requests == 0 && s.held == 0
}

func (s sample) rate() float64   { return float64(s.Requests) / (float64(s.Micros) / 1e6) }
func (s sample) busy() float64   { return s.cpu.Seconds() / (float64(s.Micros) / 1e6) }
func (s sample) mib() float64    { return float64(s.memory) / (1 << 20) }
func (s sample) micros() float64 { return s.cpu.Seconds() * 1e6 / float64(max(s.Requests, 1)) }

func (s sample) String() string {
	switch {
	case s.held > 0:
		return s.idle.String()
	case len(s.floods) > 0:
		return fmt.Sprintf("%d attacks", len(s.floods)-1)
	}
	text := fmt.Sprintf("%7.0f req/s  %6.1f us CPU/req  busy %3.0f %%  p50 %5.0f us  p99 %6.0f us  %5.1f MiB",
		s.rate(), s.micros(), 100*s.busy(), s.P50, s.P99, s.mib())
	if s.failed() {
		text += fmt.Sprintf("  FAILED: %d of %d requests (status %d, connect %d, read %d, write %d, timeout %d)",
			s.errors(), s.Requests, s.Status, s.Connect, s.Read, s.Write, s.Timeout)
	}
	return text
}

// bench is what all measurements of one session have in common.
type bench struct {
	options
	self   string // path of this program
	dir    string
	back   *endpoints
	next   int      // numbers the directories of targets
	warned []string // what was said already
}

func (b *bench) writeShared() error {
	if err := writeCertificate(b.dir); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.dir, "report.lua"), report, 0o600)
}

// measure starts one target, measures it, and stops it. It profiles the target
// if that is asked for.
func (b *bench) measure(ctx context.Context, s scenario, name string, profiled bool) (sample, error) {
	b.next++
	dir := filepath.Join(b.dir, fmt.Sprintf("%03d-%s-%s", b.next, s.name, name))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return sample{}, err
	}
	ports, err := freePorts(3)
	if err != nil {
		return sample{}, err
	}
	t, err := newTarget[name](setting{
		dir: dir, shared: b.dir,
		plain: ports[0], tls: ports[1], admin: ports[2],
		cores: b.cores, holds: max(8192, s.connections+1000),
		endpoints: b.back.ports, fairlead: b.fairlead,
	})
	if err != nil {
		return sample{}, err
	}
	p, err := startPinned(b.proxyCPUs(), filepath.Join(dir, "log"), t.env, t.command[0], t.command[1:]...)
	if err != nil {
		return sample{}, err
	}
	defer p.stop()
	err = p.await(ctx, startWithin, func() error {
		return get(fmt.Sprintf("http://127.0.0.1:%d/small", ports[0]), smallBytes)
	})
	if err != nil {
		return sample{}, err
	}

	addr := fmt.Sprintf("127.0.0.1:%d", ports[0])
	if s.tls {
		addr = fmt.Sprintf("127.0.0.1:%d", ports[1])
	}
	switch {
	case s.idle:
		return b.measureIdle(ctx, s, p, t, addr)
	case s.floods:
		return b.measureFloods(ctx, s, p, addr)
	}
	got, err := b.measureLoad(ctx, s, p, addr)
	if err == nil && profiled {
		err = b.profileLoad(ctx, s, p, addr, name)
	}
	return got, err
}

// measureLoad warms a target up and measures it under load.
func (b *bench) measureLoad(ctx context.Context, s scenario, p *process, addr string) (sample, error) {
	if _, err := b.generate(ctx, s, addr, int(b.warmUp/time.Second), nil); err != nil {
		return sample{}, fmt.Errorf("warm-up: %w", err)
	}
	var got sample
	before, err := p.cpu()
	if err != nil {
		return got, err
	}
	// Memory is read while the connections are open and busy.
	var memoryErr error
	got.load, err = b.generate(ctx, s, addr, b.seconds, func() { got.memory, memoryErr = p.pss() })
	if err != nil {
		return got, err
	}
	if memoryErr != nil {
		return got, memoryErr
	}
	after, err := p.cpu()
	if err != nil {
		return got, err
	}
	got.cpu = after - before
	// What must be true of any measurement, lest a mistake of ours looks like a
	// fast proxy.
	if got.cpu <= 0 {
		return got, errors.New("it used no CPU time: its processes were not found")
	}
	if mean := got.Bytes / max(got.Requests, 1); mean < s.bytes {
		return got, fmt.Errorf("%d bytes a response, want at least %d", mean, s.bytes)
	}
	return got, nil
}

// generate puts the scenario's load on an address for some seconds. It calls
// midway, if that is given, when three quarters of them have passed.
func (b *bench) generate(ctx context.Context, s scenario, addr string, seconds int, midway func()) (load, error) {
	if s.generator() == "h2load" {
		return b.h2load(ctx, s, "https://"+addr+s.path, seconds, midway)
	}
	url := "http://" + addr + s.path
	if s.tls {
		url = "https://" + addr + s.path
	}
	return b.wrk(ctx, s, url, seconds, midway)
}

func (b *bench) wrk(ctx context.Context, s scenario, url string, seconds int, midway func()) (load, error) {
	out, err := b.generator(ctx, seconds, midway,
		"wrk", "-t"+strconv.Itoa(b.cores), "-c"+strconv.Itoa(s.connections), "-d"+strconv.Itoa(seconds)+"s", "--timeout", "10s",
		"-H", "Host: "+host, "-s", filepath.Join(b.dir, "report.lua"), url)
	if err != nil {
		return load{}, err
	}
	return parseReport(out)
}

// generator runs a program that makes load for some seconds, and returns what
// it prints.
func (b *bench) generator(ctx context.Context, seconds int, midway func(), name string, args ...string) (string, error) {
	duration := time.Duration(seconds) * time.Second
	ctx, cancel := context.WithTimeout(ctx, duration+30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "taskset", append([]string{"-c", b.loadCPUs(), name}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return "", err
	}
	if midway != nil {
		select {
		case <-time.After(duration * 3 / 4):
			midway()
		case <-ctx.Done():
		}
	}
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", name, err, out.String())
	}
	return out.String(), nil
}

// parseReport finds the line that report.lua printed.
func parseReport(out string) (load, error) {
	var got load
	_, line, ok := strings.Cut(out, "\nreport: ")
	if !ok {
		return got, fmt.Errorf("wrk: no report in its output:\n%s", out)
	}
	line, _, _ = strings.Cut(line, "\n")
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		return got, fmt.Errorf("wrk: report %q: %w", line, err)
	}
	if got.Micros <= 0 {
		return got, fmt.Errorf("wrk: report %q: want a duration above 0", line)
	}
	return got, nil
}
