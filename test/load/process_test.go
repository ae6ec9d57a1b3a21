package loadtest

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

// event is one line of a node's log.
type event map[string]any

// process is the real binary, serving.
type process struct {
	file  string
	admin string

	t      testing.TB
	cmd    *exec.Cmd
	exited chan struct{}
	state  *os.ProcessState

	mu     sync.Mutex // guards what follows
	events []event
	noise  []string // lines that are not of the log: panics, races
}

// start runs "fairlead serve" with a configuration, to which an admin address
// is added, and waits until it is ready.
func start(t testing.TB, yaml string) *process {
	t.Helper()
	// Asked in a test so that the go command does not take what was found on one
	// engine for the other: it knows what this process asks for, not its children.
	t.Logf("engine: %q", os.Getenv("FAIRLEAD_IO"))
	p := &process{t: t, file: filepath.Join(t.TempDir(), "fairlead.yaml"), exited: make(chan struct{})}
	p.write(yaml)
	p.cmd = exec.Command(binary, "serve", "--config", p.file, "--log-format", "json")
	// A race ends the process, so that it cannot be missed.
	p.cmd.Env = append(os.Environ(), "GORACE=halt_on_error=1", "GOTRACEBACK=all")
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
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
		return p.count("configuration is in force") > 0
	})
	p.admin = p.find("admin is open")[0]["address"].(string)
	return p
}

func (p *process) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
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
func (p *process) stop() {
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

// signal sends a signal.
func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// awaitExit waits for the end and returns the exit status.
func (p *process) awaitExit(within time.Duration) int {
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

// write replaces the configuration file.
func (p *process) write(yaml string) {
	p.t.Helper()
	if !adminLine.MatchString(yaml) {
		yaml += "\nadmin: {address: \"127.0.0.1:0\"}\n"
	}
	if err := os.WriteFile(p.file+".next", []byte(yaml), 0o600); err != nil {
		p.t.Fatal(err)
	}
	if err := os.Rename(p.file+".next", p.file); err != nil {
		p.t.Fatal(err)
	}
}

// reload puts a configuration in force, by SIGHUP.
func (p *process) reload(yaml string) {
	p.t.Helper()
	before := p.count("configuration is in force")
	p.write(yaml)
	p.signal(syscall.SIGHUP)
	p.awaitPlan(before + 1)
}

// planWithin bounds awaitPlan.
const planWithin = time.Minute

// awaitPlan waits until so many plans have come into force.
func (p *process) awaitPlan(n int) {
	p.t.Helper()
	// On a busy machine first verdicts take their time, more than once.
	lab.AwaitWithin(p.t, planWithin, fmt.Sprintf("plan %d", n), func() bool { return p.count("configuration is in force") >= n })
}

// find returns the log's lines with a message.
func (p *process) find(msg string) []event {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []event
	for _, e := range p.events {
		if e["msg"] == msg {
			list = append(list, e)
		}
	}
	return list
}

func (p *process) count(msg string) int { return len(p.find(msg)) }

// addr returns the address of a listener, as it was opened last.
func (p *process) addr(listener string) string {
	p.t.Helper()
	addr := ""
	for _, e := range p.find("listening") {
		if e["listener"] == listener {
			addr = e["address"].(string)
		}
	}
	if addr == "" {
		p.t.Fatalf("no listener %q", listener)
	}
	return addr
}

// get returns what the admin server answers.
func (p *process) get(path string) (string, error) {
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

// series returns every series of the metrics with its value.
func (p *process) series() map[string]float64 {
	p.t.Helper()
	text, err := p.get("/metrics")
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

// metric returns the sum of a metric's series whose labels contain all parts,
// such as `endpoint="a"`.
func (p *process) metric(name string, parts ...string) float64 {
	p.t.Helper()
	sum := 0.0
	for s, v := range p.series() {
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

// descriptors returns how many files the process has open.
func (p *process) descriptors() int {
	p.t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	return len(list)
}

// memory returns a figure of /proc/PID/status, VmRSS or VmHWM (the highest
// VmRSS so far), in bytes.
func (p *process) memory(name string) int64 {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
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

// wantMemoryBelow judges the highest memory so far.
func (p *process) wantMemoryBelow(limit int64) {
	p.t.Helper()
	peak := p.memory("VmHWM")
	p.t.Logf("peak memory %d MiB", peak>>20)
	if !raceEnabled && peak > limit {
		p.t.Errorf("peak memory %d MiB, want at most %d", peak>>20, limit>>20)
	}
}

// usage is what must not grow. Fibers that event loops keep for later are
// goroutines to the runtime, and not counted: their number is bounded.
type usage struct {
	goroutines, descriptors int
	heap                    float64 // that the last garbage collection left, in effect
}

func (p *process) usage() usage {
	p.t.Helper()
	s := p.series()
	kept := 0.0
	for name, n := range s {
		if strings.HasPrefix(name, "fairlead_loop_fibers{") && strings.Contains(name, `state="free"`) {
			kept += n
		}
	}
	live := s["go_memstats_next_gc_bytes"] / (1 + s["go_gc_gogc_percent"]/100)
	return usage{int(s["go_goroutines"] - kept), p.descriptors(), live}
}

// collectOften has nodes that the test starts collect garbage by Go's own rule, so
// that what is known of the heap is never old: their own leaves much room.
func collectOften(t *testing.T) { t.Setenv("GOGC", "100") }

// leastUsage takes n steps, and returns the least of each figure that was seen after
// one of them: what is kept. A single look may come upon a plan that its successor
// has not replaced everywhere, or a heap as a collection amid a change found it.
func (p *process) leastUsage(n int, step func()) usage {
	p.t.Helper()
	var least usage
	for i := range n {
		step()
		u := p.usage()
		if i == 0 {
			least = u
		}
		least = usage{min(least.goroutines, u.goroutines), min(least.descriptors, u.descriptors), min(least.heap, u.heap)}
	}
	return least
}
