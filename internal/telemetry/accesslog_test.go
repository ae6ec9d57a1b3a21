package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// output is a fake that keeps what is written, and refuses or waits on demand.
type output struct {
	mu     sync.Mutex
	b      bytes.Buffer
	writes int
	room   int           // bytes that are left when full is set
	full   bool          // no more than room is taken
	wait   chan struct{} // nil, or writes wait until it is closed
	closed bool
}

func (o *output) Write(p []byte) (int, error) {
	if o.wait != nil {
		<-o.wait
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return 0, os.ErrClosed
	}
	o.writes++
	if o.full && len(p) > o.room {
		o.b.Write(p[:o.room])
		n := o.room
		o.room = 0
		return n, syscall.ENOSPC
	}
	if o.full {
		o.room -= len(p)
	}
	return o.b.Write(p)
}

func (o *output) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	return nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func quiet(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}

func record(path string) *AccessRecord { return &AccessRecord{Path: []byte(path), Status: 200} }

// paths returns the paths of whole lines, and how many lines are broken.
func paths(log string) (all []string, broken int) {
	for line := range strings.Lines(log) {
		var r struct{ Path string }
		switch err := json.Unmarshal([]byte(line), &r); {
		case strings.TrimSpace(line) == "":
		case err != nil:
			broken++
		default:
			all = append(all, r.Path)
		}
	}
	return all, broken
}

func TestLinesAreWrittenEachTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out output
		l := startAccessLog("", &out, 1, quiet(t))
		l.Log(record("/1"))
		synctest.Wait()
		if got := out.String(); got != "" {
			t.Errorf("written before the tick: %s", got)
		}
		time.Sleep(flushEvery)
		synctest.Wait()
		if got, _ := paths(out.String()); fmt.Sprint(got) != "[/1]" {
			t.Errorf("after a tick: %v, want [/1]", got)
		}
		l.Log(record("/2"))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if got, _ := paths(out.String()); fmt.Sprint(got) != "[/1 /2]" {
			t.Errorf("after Close: %v, want [/1 /2]", got)
		}
		l.Log(record("/3"))
		if got, want := l.Stats(), (AccessLogStats{Written: 2, Dropped: 1}); got != want {
			t.Errorf("Stats() = %+v, want %+v", got, want)
		}
		if err := l.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
	})
}

func TestManyLinesAreWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out output
		l := startAccessLog("", &out, 1, quiet(t))
		defer l.Close()
		start := time.Now()
		for range flushAt/100 + 1 {
			l.Log(record("/"))
		}
		synctest.Wait()
		if out.String() == "" || !time.Now().Equal(start) {
			t.Error("64 KiB of lines wait for the tick, want them written at once")
		}
	})
}

func TestSlowOutputCostsLinesNotTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := output{wait: make(chan struct{})}
		l := startAccessLog("", &out, 1, quiet(t))
		start := time.Now()
		long := record(strings.Repeat("x", MaxField))
		const lines = 3 * bufferBytes / MaxField
		for range lines {
			l.Log(long)
		}
		if !time.Now().Equal(start) {
			t.Error("Log waited for the output")
		}
		l.lineLog.mu.Lock()
		held := len(l.lineLog.buf)
		l.lineLog.mu.Unlock()
		if limit := bufferBytes + 4*MaxField; held > limit {
			t.Errorf("buffer holds %d bytes, want at most %d", held, limit)
		}
		close(out.wait)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		s := l.Stats()
		if s.Dropped == 0 || s.Written+s.Dropped != lines {
			t.Errorf("written %d + dropped %d, want some dropped and %d in all", s.Written, s.Dropped, lines)
		}
		if got, broken := paths(out.String()); uint64(len(got)) != s.Written || broken != 0 {
			t.Errorf("output has %d lines and %d broken, want %d and 0", len(got), broken, s.Written)
		}
	})
}

func TestStuckOutputDoesNotHoldUpClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := output{wait: make(chan struct{})}
		l := startAccessLog("", &out, 1, quiet(t))
		l.Log(record("/"))
		start := time.Now()
		err := l.Close()
		if err == nil || time.Since(start) != closeWithin {
			t.Errorf("Close() = %v after %v, want an error after %v", err, time.Since(start), closeWithin)
		}
		close(out.wait)
	})
}

func TestFailedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		line := len(appendRecord(nil, record("/0")))
		out := output{full: true, room: line + 10}
		l := startAccessLog("", &out, 1, slog.New(slog.NewTextHandler(&logged, nil)))
		tick := func() {
			time.Sleep(flushEvery)
			synctest.Wait()
		}
		l.Log(record("/0"))
		l.Log(record("/1")) // its first 10 bytes fit
		tick()
		l.Log(record("/2")) // nothing fits
		tick()
		if got, want := l.Stats(), (AccessLogStats{Written: 1, Lost: 2, Failures: 2}); got != want {
			t.Errorf("Stats() = %+v, want %+v", got, want)
		}
		if n := strings.Count(logged.String(), "access log cannot be written"); n != 1 {
			t.Errorf("logged %d times within a minute, want once:\n%s", n, &logged)
		}
		out.mu.Lock()
		out.full = false
		out.mu.Unlock()
		l.Log(record("/3"))
		tick()
		if got, broken := paths(out.String()); fmt.Sprint(got) != "[/0 /3]" || broken != 1 {
			t.Errorf("output has %v and %d broken lines, want [/0 /3] and 1:\n%s", got, broken, out.String())
		}
		time.Sleep(time.Minute)
		out.mu.Lock()
		out.full = true
		out.mu.Unlock()
		l.Log(record("/4"))
		tick()
		l.Close()
		if n := strings.Count(logged.String(), "access log cannot be written"); n != 2 {
			t.Errorf("logged %d times, want again after a minute:\n%s", n, &logged)
		}
	})
}

func TestSampling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out output
		l := startAccessLog("", &out, 0.1, quiet(t))
		failed := record("/failed")
		failed.Error = "no pool"
		for range 10_000 {
			l.Log(record("/fine"))
		}
		for range 100 {
			l.Log(failed)
		}
		l.Close()
		count := map[string]int{}
		all, _ := paths(out.String())
		for _, p := range all {
			count[p]++
		}
		if count["/failed"] != 100 {
			t.Errorf("%d of 100 failed requests are logged, want all", count["/failed"])
		}
		if n := count["/fine"]; n < 800 || n > 1200 { // 6.7 standard deviations
			t.Errorf("%d of 10000 requests are logged at 0.1, want about 1000", n)
		}
	})
}

func TestFileIsAppendedToAndReopened(t *testing.T) {
	name := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(name, []byte("{\"path\":\"/old\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := OpenAccessLog(name, 1, quiet(t))
	if err != nil {
		t.Fatal(err)
	}
	l.Log(record("/1"))
	for l.Stats().Written != 1 { // the writer's next tick
		time.Sleep(time.Millisecond)
	}
	if err := os.Rename(name, name+".1"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Reopen(); err != nil {
			t.Fatal(err)
		}
	}
	l.Log(record("/2"))
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err != nil {
		t.Errorf("Reopen after Close: %v", err)
	}
	for file, want := range map[string]string{name + ".1": "[/old /1]", name: "[/2]"} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := paths(string(b)); fmt.Sprint(got) != want {
			t.Errorf("%s has %v, want %s", filepath.Base(file), got, want)
		}
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode&0o137 != 0 {
		t.Errorf("mode = %v, want no more than 0640", mode)
	}
}

func TestReopenThatFailsKeepsTheOldFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := OpenAccessLog(filepath.Join(dir, "access.log"), 1, quiet(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Reopen() = %v, want that the directory does not exist", err)
	}
	l.Log(record("/1"))
	l.Close()
	b, err := os.ReadFile(filepath.Join(dir+".moved", "access.log"))
	if got, _ := paths(string(b)); err != nil || fmt.Sprint(got) != "[/1]" {
		t.Errorf("old file has %v (%v), want [/1]", got, err)
	}
}

func TestWrongSettings(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, output string
		sample       float64
		want         string
	}{
		{"no share", "stdout", 0, "want above 0 to 1"},
		{"share above 1", "stdout", 1.01, "want above 0 to 1"},
		{"no output", "", 1, `want "stdout" or the name of a file`},
		{"a directory", t.TempDir(), 1, "is a directory"},
		{"a pipe that nobody reads", pipe, 1, "no such device"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, err := OpenAccessLog(tt.output, tt.sample, quiet(t))
			if err == nil {
				l.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("OpenAccessLog() = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

// A log collector that dies must not take the proxy along.
func TestBrokenPipeAtStdout(t *testing.T) {
	if os.Getenv("FAIRLEAD_TEST_CHILD") != "" {
		l, err := OpenAccessLog("stdout", 1, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		l.Log(record("/"))
		l.Close()
		fmt.Fprintf(os.Stderr, "%+v\n", l.Stats())
		os.Exit(0) // before the test framework writes to standard output
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	cmd := exec.Command(os.Args[0], "-test.run=^TestBrokenPipeAtStdout$")
	cmd.Env = append(os.Environ(), "FAIRLEAD_TEST_CHILD=1")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = w, &said
	err = cmd.Run()
	w.Close()
	if want := fmt.Sprintf("%+v\n", AccessLogStats{Lost: 1, Failures: 1}); err != nil || said.String() != want {
		t.Errorf("process with a broken standard output: %v, %q, want it to end well with %q", err, said.String(), want)
	}
}

func TestStdoutStaysOpen(t *testing.T) {
	l, err := OpenAccessLog("stdout", 1, quiet(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Reopen(), l.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stdout.Stat(); err != nil {
		t.Errorf("standard output after Close: %v", err)
	}
}

func TestNoAccessLog(t *testing.T) {
	var l *AccessLog
	l.Log(record("/"))
	if err := errors.Join(l.Reopen(), l.Close()); err != nil {
		t.Error(err)
	}
	if s := l.Stats(); s != (AccessLogStats{}) {
		t.Errorf("Stats() = %+v, want nothing", s)
	}
	r := NewRegistry()
	r.Add(l)
	if got, _ := scrape(t, r, "text/plain"); strings.Contains(got, "access_log") {
		t.Errorf("a log that is off has metrics:\n%s", got)
	}
}

func TestAccessLogMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := startAccessLog("", &output{}, 1, quiet(t))
		l.Log(record("/"))
		l.Close()
		l.Log(record("/"))
		r := NewRegistry()
		r.Add(l)
		got, _ := scrape(t, r, "text/plain")
		has(t, got,
			`fairlead_access_log_lines_total{result="written"} 1`,
			`fairlead_access_log_lines_total{result="dropped"} 1`,
			`fairlead_access_log_lines_total{result="failed"} 0`,
			`fairlead_access_log_write_failures_total 0`)
	})
}

// Lines of many goroutines stay whole.
func TestConcurrentLines(t *testing.T) {
	var out output
	l := startAccessLog("", &out, 1, quiet(t))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				l.Log(fullRecord())
			}
		})
	}
	wg.Wait()
	l.Close()
	if all, broken := paths(out.String()); len(all) != 4000 || broken != 0 {
		t.Errorf("%d whole lines and %d broken, want 4000 and 0", len(all), broken)
	}
}

type nowhere struct{ io.Writer }

func (nowhere) Close() error { return nil }

func TestLogAllocatesNothing(t *testing.T) {
	l := startAccessLog("", nowhere{io.Discard}, 1, quiet(t))
	defer l.Close()
	r := fullRecord()
	for range 10_000 { // let the buffers grow
		l.Log(r)
	}
	if n := testing.AllocsPerRun(10_000, func() { l.Log(r) }); n != 0 {
		t.Errorf("allocations of a line = %v, want 0", n)
	}
}

func BenchmarkLog(b *testing.B) {
	l := startAccessLog("", nowhere{io.Discard}, 1, slog.New(slog.DiscardHandler))
	defer l.Close()
	r := fullRecord()
	b.ReportAllocs()
	for b.Loop() {
		l.Log(r)
	}
}
