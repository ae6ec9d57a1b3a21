// Package process runs the real binary for tests as a process of its own, so
// that its descriptors, memory, threads and exit status are those of a node in
// service, and looks at it from outside: by its log, its metrics and what the
// system knows of it. With the race detector in the test the binary has it too.
//
// A package whose tests use it has a TestMain that calls [Main], which builds
// the binary. Whole nodes in the test's own process, which start faster and
// show more, are in test/lab.
package process

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"fairlead/test/lab"
)

// binary is the program under test.
var binary string

// Main builds the binary and runs a package's tests with it; its result is for
// os.Exit.
func Main(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fairlead-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "fairlead")
	args := []string{"build", "-o", binary}
	if Race {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "fairlead/cmd/fairlead")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// Event is one line of a node's log.
type Event map[string]any

// Process is the real binary, serving. It belongs to one test.
type Process struct {
	// File is the configuration file, in a directory of its own.
	File string
	// PID is what the system knows the process by.
	PID int

	admin string

	t      testing.TB
	cmd    *exec.Cmd
	exited chan struct{}
	state  *os.ProcessState

	mu     sync.Mutex // guards what follows
	events []Event
	noise  []string // lines that are not of the log: panics, races
}

// Start runs "fairlead serve" with a configuration, to which an admin address
// is added, and waits until it is ready. The process ends with the test, which
// fails when that takes too long, or when there was a panic, a race or a defect.
func Start(t testing.TB, yaml string) *Process {
	t.Helper()
	// Asked in a test so that the go command does not take what was found on one
	// engine for the other: it knows what this process asks for, not its children.
	t.Logf("engine: %q", os.Getenv("FAIRLEAD_IO"))
	p := &Process{t: t, File: filepath.Join(t.TempDir(), "fairlead.yaml"), exited: make(chan struct{})}
	p.Write(yaml)
	p.cmd = exec.Command(binary, "serve", "--config", p.File, "--log-format", "json")
	// A race ends the process, so that it cannot be missed.
	p.cmd.Env = append(os.Environ(), "GORACE=halt_on_error=1", "GOTRACEBACK=all")
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.PID = p.cmd.Process.Pid
	go func() {
		defer close(p.exited)
		p.read(stderr)
		p.cmd.Wait()
		p.state = p.cmd.ProcessState
	}()
	t.Cleanup(p.stop)
	lab.Await(t, "the node to be in force", func() bool {
		select {
		case <-p.exited:
			t.Fatalf("node has ended: %v\n%s", p.state, strings.Join(p.noise, "\n"))
		default:
		}
		return p.Count("configuration is in force") > 0
	})
	p.admin = p.Find("admin is open")[0]["address"].(string)
	return p
}

func (p *Process) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e Event
		err := json.Unmarshal(lines.Bytes(), &e)
		p.mu.Lock()
		if err != nil {
			p.noise = append(p.noise, lines.Text())
		} else {
			p.events = append(p.events, e)
		}
		p.mu.Unlock()
	}
}

// stop ends the node with the test and judges how it lived: no panic, no race,
// no defect.
func (p *Process) stop() {
	select {
	case <-p.exited:
	default:
		p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.exited:
		case <-time.After(10 * time.Second):
			p.cmd.Process.Signal(syscall.SIGQUIT) // which prints all goroutines
			<-p.exited
			p.t.Error("node does not end")
		}
	}
	if p.state.ExitCode() != 0 {
		p.t.Errorf("node ended with %v, want exit status 0", p.state)
	}
	if len(p.noise) > 0 {
		p.t.Errorf("node wrote what is not a log:\n%s", strings.Join(p.noise[:min(len(p.noise), 400)], "\n"))
	}
	for _, e := range p.events {
		if e["panic"] != nil {
			p.t.Errorf("defect: %v", e)
		}
	}
	if p.t.Failed() {
		for _, e := range p.events[max(0, len(p.events)-40):] {
			p.t.Log(e)
		}
	}
}

// Signal sends a signal.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// AwaitExit waits for the end and returns the exit status.
func (p *Process) AwaitExit(within time.Duration) int {
	p.t.Helper()
	select {
	case <-p.exited:
		return p.state.ExitCode()
	case <-time.After(within):
		p.t.Fatalf("node has not ended after %v", within)
		return -1
	}
}

var adminLine = regexp.MustCompile(`(?m)^admin:`)

// Write replaces the configuration file.
func (p *Process) Write(yaml string) {
	p.t.Helper()
	if !adminLine.MatchString(yaml) {
		yaml += "\nadmin: {address: \"127.0.0.1:0\"}\n"
	}
	if err := os.WriteFile(p.File+".next", []byte(yaml), 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(p.File+".next", p.File); err != nil {
		p.t.Fatal(err)
	}
}

// Reload puts a configuration in force, by SIGHUP.
func (p *Process) Reload(yaml string) {
	p.t.Helper()
	before := p.Count("configuration is in force")
	p.Write(yaml)
	p.Signal(syscall.SIGHUP)
	p.AwaitPlan(before + 1)
}

// planWithin bounds awaitPlan.
const planWithin = time.Minute

// AwaitPlan waits until so many plans have come into force.
func (p *Process) AwaitPlan(n int) {
	p.t.Helper()
	// On a busy machine first verdicts take their time, more than once.
	lab.AwaitWithin(p.t, planWithin, fmt.Sprintf("plan %d", n), func() bool { return p.Count("configuration is in force") >= n })
}

// Find returns the log's lines with a message.
func (p *Process) Find(msg string) []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []Event
	for _, e := range p.events {
		if e["msg"] == msg {
			list = append(list, e)
		}
	}
	return list
}

// Count returns how many lines of the log have a message.
func (p *Process) Count(msg string) int { return len(p.Find(msg)) }

// Addr returns the address of a listener, as it was opened last.
func (p *Process) Addr(listener string) string {
	p.t.Helper()
	addr := ""
	for _, e := range p.Find("listening") {
		if e["listener"] == listener {
			addr = e["address"].(string)
		}
	}
	if addr == "" {
		p.t.Fatalf("no listener %q", listener)
	}
	return addr
}

// Get returns what the admin server answers.
func (p *Process) Get(path string) (string, error) {
	c := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Get("http://" + p.admin + path)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = errors.New(res.Status)
	}
	return string(b), err
}

// Series returns every series of the metrics with its value.
func (p *Process) Series() map[string]float64 {
	p.t.Helper()
	text, err := p.Get("/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	all := make(map[string]float64)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			p.t.Fatalf("/metrics: %q: %v", line, err)
		}
		all[line[:at]] = v
	}
	return all
}

// Metric returns the sum of a metric's series whose labels contain all parts,
// such as `endpoint="a"`.
func (p *Process) Metric(name string, parts ...string) float64 {
	p.t.Helper()
	sum := 0.0
	for s, v := range p.Series() {
		if n, labels, _ := strings.Cut(s, "{"); n == name && containsAll(labels, parts) {
			sum += v
		}
	}
	return sum
}

func containsAll(s string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(s, part) {
			return false
		}
	}
	return true
}

// Descriptors returns how many files the process has open.
func (p *Process) Descriptors() int {
	p.t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.PID))
	if err != nil {
		p.t.Fatal(err)
	}
	return len(list)
}

// Memory returns a figure of /proc/PID/status, VmRSS or VmHWM (the highest
// VmRSS so far), in bytes.
func (p *Process) Memory(name string) int64 {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID))
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, ok := bytes.Cut(text, []byte(name+":"))
	var kib int64
	if _, err := fmt.Fscan(bytes.NewReader(rest), &kib); !ok || err != nil {
		p.t.Fatalf("no %s in %s", name, text)
	}
	return kib << 10
}
