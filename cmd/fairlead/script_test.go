package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"fairlead/internal/geo/geotest"
)

// TestMain lets scripts run the commands of this package as processes.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"fairlead": main})
}

// TestScripts runs the scripts of testdata/script against the real program.
// Beside what every testscript has, a script can say:
//
//	endpoint NAME...        start HTTP endpoints; $NAME is the address of each
//	fail NAME, heal NAME    make an endpoint fail its probes, or pass them
//	held NAME               wait until a request for /hold has reached it
//	release NAME            answer that request
//	database FILE NETWORK [KEY=VALUE]...   write a database of geography, of one network
//	expand FILE             replace $variables in a file
//	run PROGRAM ARG...      start a program in the background
//	await WHERE REGEXP      wait until the text matches; WHERE is output, for
//	                        that of the program, or a URL. A named group
//	                        becomes a variable
//	gone URL                wait until connections to it are refused
//	get [-host H] [-header 'NAME: VALUE'] URL   print status and body of an answer
//	post URL                likewise, of a POST without a body
//	request URL             get in the background
//	answer                  wait for that answer and print it
//	signal NAME             send the program HUP, TERM or INT
//	ends CODE               wait for the end of the program; compare its status
//	exits CODE PROGRAM...   run a program to its end; compare its status
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			// Scripts begin with a clean environment, and `make goroutine` chooses
			// the engine in ours.
			if kind := os.Getenv("FAIRLEAD_IO"); kind != "" {
				env.Setenv("FAIRLEAD_IO", kind)
			}
			w := &world{env: env.Vars, endpoints: make(map[string]*fakeEndpoint)}
			env.Values[worldKey{}] = w
			env.Defer(w.close)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"endpoint": startEndpoints,
			"fail":     onEndpoint(func(e *fakeEndpoint) error { e.failing.Store(true); return nil }),
			"heal":     onEndpoint(func(e *fakeEndpoint) error { e.failing.Store(false); return nil }),
			"held":     onEndpoint((*fakeEndpoint).waitHeld),
			"release":  onEndpoint((*fakeEndpoint).release),
			"database": writeDatabase,
			"expand":   expandFile,
			"run":      runProgram,
			"await":    await,
			"gone":     gone,
			"get":      get,
			"post":     post,
			"request":  request,
			"answer":   answer,
			"signal":   sendSignal,
			"ends":     ends,
			"exits":    exits,
		},
	})
}

// patience is how long anything may take that a script waits for.
const patience = 30 * time.Second

// world is what one script has started.
type world struct {
	env       []string
	endpoints map[string]*fakeEndpoint
	program   *background
	answers   chan result
}

type worldKey struct{}

func worldOf(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

func (w *world) close() {
	if w.program != nil {
		_ = w.program.cmd.Process.Kill() // it may have ended
		<-w.program.ended
	}
	for _, e := range w.endpoints {
		close(e.closing)
		e.Close()
	}
}

// background is a program in the background.
type background struct {
	cmd   *exec.Cmd
	out   output
	ended chan struct{}
}

// output collects what a program writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// fakeEndpoint is an HTTP server that can fail its probes and hold requests.
type fakeEndpoint struct {
	*httptest.Server
	failing atomic.Bool
	held    chan struct{}
	free    chan struct{}
	closing chan struct{}
}

func startEndpoints(ts *testscript.TestScript, _ bool, names []string) {
	w := worldOf(ts)
	for _, name := range names {
		e := &fakeEndpoint{held: make(chan struct{}, 16), free: make(chan struct{}), closing: make(chan struct{})}
		mux := http.NewServeMux()
		mux.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) { fmt.Fprintln(rw, "endpoint", name, r.URL.Path) })
		mux.HandleFunc("/healthz", func(rw http.ResponseWriter, _ *http.Request) {
			if e.failing.Load() {
				rw.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		mux.HandleFunc("/hold", func(rw http.ResponseWriter, _ *http.Request) {
			e.held <- struct{}{}
			select {
			case <-e.free:
			case <-e.closing:
			}
			fmt.Fprintln(rw, "endpoint", name, "let go")
		})
		e.Server = httptest.NewServer(mux)
		w.endpoints[name] = e
		ts.Setenv(name, e.Listener.Addr().String())
	}
}

func (e *fakeEndpoint) waitHeld() error { return within("a request to be held", e.held) }

func (e *fakeEndpoint) release() error {
	select {
	case e.free <- struct{}{}:
		return nil
	case <-time.After(patience):
		return errors.New("no request is held")
	}
}

func within(what string, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-time.After(patience):
		return errors.New("waited in vain for " + what)
	}
}

func onEndpoint(f func(*fakeEndpoint) error) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, args []string) {
		for _, name := range args {
			ts.Check(f(worldOf(ts).endpoints[name]))
		}
	}
}

// writeDatabase writes a database of geography.
func writeDatabase(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: database FILE NETWORK [KEY=VALUE]...")
	}
	record := geotest.Record{}
	for _, pair := range args[2:] {
		key, value, _ := strings.Cut(pair, "=")
		record[key] = value
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), geotest.Build(geotest.Options{}, geotest.Networks{args[1]: record}), 0o600))
}

func expandFile(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		text := os.Expand(ts.ReadFile(name), ts.Getenv)
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
	}
}

// command prepares a program of the script's PATH.
func command(ts *testscript.TestScript, args []string) *exec.Cmd {
	w := worldOf(ts)
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		path := filepath.Join(dir, args[0])
		if _, err := os.Stat(path); err == nil {
			return &exec.Cmd{Path: path, Args: args, Dir: ts.MkAbs("."), Env: w.env}
		}
	}
	ts.Fatalf("%s: not on the script's PATH", args[0])
	return nil
}

func runProgram(ts *testscript.TestScript, _ bool, args []string) {
	w := worldOf(ts)
	if w.program != nil {
		ts.Check(within("the program before", w.program.ended))
	}
	p := &background{cmd: command(ts, args), ended: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	ts.Check(p.cmd.Start())
	w.program = p
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // the status is looked at by ends
	}()
	ts.Defer(func() {
		if t := p.out.String(); t != "" {
			ts.Logf("%s", t)
		}
	})
}

// poll asks until ok or out of patience.
func poll(ok func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	over := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-over:
			return false
		}
	}
	return true
}

func await(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: await output|URL REGEXP")
	}
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	text := func() string {
		if args[0] == "output" {
			return worldOf(ts).program.out.String()
		}
		return fetch("", args[0]).String()
	}
	var last string
	var found []string
	if !poll(func() bool { last = text(); found = re.FindStringSubmatch(last); return found != nil }) {
		ts.Fatalf("%s does not come to match %s; it is:\n%s", args[0], args[1], last)
	}
	for i, name := range re.SubexpNames() {
		if name != "" {
			ts.Setenv(name, found[i])
		}
	}
}

func gone(ts *testscript.TestScript, _ bool, args []string) {
	if !poll(func() bool { return errors.Is(fetch("", args[0]).err, syscall.ECONNREFUSED) }) {
		ts.Fatalf("%s still answers", args[0])
	}
}

// result is what came of a request.
type result struct {
	status int
	body   string
	err    error
}

func (r result) String() string {
	if r.err != nil {
		return r.err.Error()
	}
	return fmt.Sprintf("%d\n%s", r.status, r.body)
}

// client makes a connection for each request, so that none waits behind.
var client = &http.Client{
	Transport: &http.Transport{DisableKeepAlives: true},
	Timeout:   patience,
}

func fetch(host, url string) result { return do(http.MethodGet, host, url) }

func do(method, host, url string, lines ...string) result {
	r, err := http.NewRequest(method, url, nil)
	if err != nil {
		return result{err: err}
	}
	r.Host = host
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Set(name, value)
	}
	a, err := client.Do(r)
	if err != nil {
		return result{err: err}
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	return result{a.StatusCode, string(body), err}
}

func get(ts *testscript.TestScript, neg bool, args []string) {
	host, lines := "", []string(nil)
	for len(args) >= 3 && (args[0] == "-host" || args[0] == "-header") {
		if args[0] == "-host" {
			host = args[1]
		} else {
			lines = append(lines, args[1])
		}
		args = args[2:]
	}
	if len(args) != 1 {
		ts.Fatalf("usage: get [-host H] [-header 'NAME: VALUE'] URL")
	}
	show(ts, neg, do(http.MethodGet, host, args[0], lines...))
}

func post(ts *testscript.TestScript, neg bool, args []string) {
	show(ts, neg, do(http.MethodPost, "", args[0]))
}

// show prints a result, and fails the script where it is not the wanted kind.
func show(ts *testscript.TestScript, neg bool, r result) {
	fmt.Fprintln(ts.Stdout(), r)
	if neg != (r.err != nil) {
		ts.Fatalf("got: %v", r)
	}
}

func request(ts *testscript.TestScript, _ bool, args []string) {
	w := worldOf(ts)
	w.answers = make(chan result, 1)
	go func(answers chan<- result) { answers <- fetch("", args[0]) }(w.answers)
}

func answer(ts *testscript.TestScript, neg bool, _ []string) { show(ts, neg, <-worldOf(ts).answers) }

func sendSignal(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]os.Signal{"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM, "INT": os.Interrupt}
	s, ok := signals[strings.Join(args, " ")]
	if !ok {
		ts.Fatalf("usage: signal HUP|TERM|INT")
	}
	ts.Check(worldOf(ts).program.cmd.Process.Signal(s))
}

func ends(ts *testscript.TestScript, _ bool, args []string) {
	p := worldOf(ts).program
	ts.Check(within("the program to end", p.ended))
	fmt.Fprint(ts.Stdout(), p.out.String())
	if got := fmt.Sprint(p.cmd.ProcessState.ExitCode()); got != args[0] {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
}

func exits(ts *testscript.TestScript, _ bool, args []string) {
	cmd := command(ts, args[1:])
	cmd.Stdout, cmd.Stderr = ts.Stdout(), ts.Stderr()
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		ts.Check(err)
	}
	if got := fmt.Sprint(cmd.ProcessState.ExitCode()); got != args[0] {
		ts.Fatalf("exit status %s, want %s", got, args[0])
	}
}

// Whoever reads the log may go away, as when journald or a shell's pipe ends:
// the node goes on, and ends in order.
func TestLogReaderGoesAway(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "lb.yaml")
	if err := os.WriteFile(file, []byte("admin: {address: \"127.0.0.1:0\"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	cmd := &exec.Cmd{Path: self, Args: []string{"fairlead", "serve", "--config", file}, Stderr: theirs}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	theirs.Close()
	lines := bufio.NewScanner(ours)
	address := regexp.MustCompile(`"admin is open","address":"([^"]+)"`)
	var status string
	for lines.Scan() {
		if m := address.FindStringSubmatch(lines.Text()); m != nil {
			status = "http://" + m[1] + "/status"
		}
		if strings.Contains(lines.Text(), `"msg":"configuration is in force"`) {
			break
		}
	}
	ours.Close()
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil { // which logs
		t.Fatal(err)
	}
	if !poll(func() bool { return strings.Contains(fetch("", status).body, `"revision": 2`) }) {
		t.Errorf("%s: %v, want revision 2", status, fetch("", status))
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the node ended with %v, want status 0", err)
	}
}
