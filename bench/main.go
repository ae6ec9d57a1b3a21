//go:build linux

// Command bench compares Fairlead with HAProxy and nginx on the same work, on
// one machine, in one session.
//
// A proxy is pinned to one core; the load generator (wrk, for HTTP/2 h2load) and
// the endpoints (an nginx that answers from memory) share another. With -cores 2
// all of them have both. The targets run alternately:
// one round measures each of them once, in an order that turns with the round,
// each in a fresh process. A drift of the machine's speed so reaches all of
// them alike, and the ratio to the baseline is taken within each round before
// the median over the rounds. CPU time per request is the figure to look at
// first: it is the least noisy, and it counts whether or not the proxy is
// saturated.
//
// All proxies have the same settings: four endpoints in round robin, kept-alive
// connections on both sides, X-Forwarded-For added, no access log, a thread for
// each core. What each is told in full is in targets.go.
//
// Scenarios of idle connections measure memory alone: by how much the process
// grows. What the kernel keeps for a socket is not counted, as it is the same
// for all.
//
// The scenario floods measures what normal clients feel: the times of their
// requests at rest, then beside each of several attacks on HTTP/2, in one
// process of the target. Attackers make a new connection as soon as one is cut;
// they share the core of the load and are the last there to get CPU time, so
// that the clients wait for the proxy and not for them.
//
// The result is a table in Markdown on standard output; progress and warnings
// go to standard error. A run whose requests failed is marked and makes the
// exit status 1.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options are what the command line decides.
type options struct {
	scenarios []scenario
	targets   []string
	baseline  string
	rounds    int
	seconds   int
	warmUp    time.Duration
	cores     int // of the proxy; with two it shares them with the load
	proxyCPU  int
	loadCPU   int
	fairlead  string // path of a built binary; empty: build the one of this tree
	profile   string // directory for profiles; empty: none
	keep      bool
}

func (o options) proxyCPUs() string { return o.cpus(o.proxyCPU) }
func (o options) loadCPUs() string  { return o.cpus(o.loadCPU) }

// cpus is one's own core, or both, as taskset wants it.
func (o options) cpus(own int) string {
	if o.cores == 1 {
		return strconv.Itoa(own)
	}
	return fmt.Sprintf("%d,%d", o.proxyCPU, o.loadCPU)
}

func main() {
	// Children ask the kernel to be told when the thread that started them
	// dies; so all of them are started from this one, which lives to the end.
	runtime.LockOSThread()
	os.Exit(status(os.Args[1:]))
}

// commands are what the benchmark runs of itself in further processes.
var commands = map[string]func(args []string) error{
	holdCommand:   hold,
	attackCommand: runAttack,
	normalCommand: runNormal,
}

// status does the work and returns the exit status.
func status(args []string) int {
	if len(args) > 0 && commands[args[0]] != nil {
		if err := commands[args[0]](args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			return 1
		}
		return 0
	}
	opts, err := parseFlags(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failures, err := run(ctx, opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	if failures > 0 {
		fmt.Fprintf(os.Stderr, "bench: %d of the measurements had failed requests: their figures mean nothing\n", failures)
		return 1
	}
	return 0
}

func parseFlags(args []string) (options, error) {
	var opts options
	var scenarioList, targetList string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&scenarioList, "scenario", "all", "comma-separated `names` out of "+strings.Join(scenarioNames(), ", ")+", or all")
	f.StringVar(&targetList, "targets", "haproxy,nginx,fairlead", "comma-separated `names` out of "+targetNames()+"; Fairlead moves bytes on its loops, or on a goroutine for each connection")
	f.StringVar(&opts.baseline, "baseline", "haproxy", "the `target` that ratios refer to")
	f.IntVar(&opts.rounds, "rounds", 5, "how often each target is measured")
	f.IntVar(&opts.seconds, "seconds", 6, "how long one measurement takes")
	f.DurationVar(&opts.warmUp, "warm-up", time.Second, "load before each measurement that is not counted; whole seconds")
	f.IntVar(&opts.cores, "cores", 1, "how many cores the proxy has: 1, its own, or 2, shared with the load")
	f.IntVar(&opts.proxyCPU, "proxy-cpu", 0, "the `core` of the proxy")
	f.IntVar(&opts.loadCPU, "load-cpu", 1, "the `core` of the load generator and the endpoints")
	f.StringVar(&opts.fairlead, "fairlead", "", "measure this `binary` in place of one built from the tree")
	f.StringVar(&opts.profile, "profile", "", "write where each proxy spends its time in each scenario into this `directory`, as perf sees it in a further load")
	f.BoolVar(&opts.keep, "keep", false, "keep the directory of configurations and logs")
	if err := f.Parse(args); err != nil {
		return opts, err
	}
	if f.NArg() > 0 {
		return opts, fmt.Errorf("unexpected argument %q: options begin with -", f.Arg(0))
	}

	var err error
	if opts.scenarios, err = findScenarios(scenarioList); err != nil {
		return opts, err
	}
	opts.targets = strings.Split(targetList, ",")
	for _, name := range opts.targets {
		if newTarget[name] == nil {
			return opts, fmt.Errorf("target %q: want one of %s", name, targetNames())
		}
	}
	if !slices.Contains(opts.targets, opts.baseline) {
		opts.baseline = opts.targets[0]
		fmt.Fprintf(os.Stderr, "bench: ratios refer to %s, as the baseline is not among the targets\n", opts.baseline)
	}
	switch {
	case opts.rounds < 1 || opts.seconds < 1:
		return opts, fmt.Errorf("-rounds %d, -seconds %d: want at least 1", opts.rounds, opts.seconds)
	case opts.warmUp < time.Second || opts.warmUp%time.Second != 0:
		return opts, fmt.Errorf("-warm-up %v: want whole seconds, at least one", opts.warmUp)
	case opts.cores != 1 && opts.cores != 2:
		return opts, fmt.Errorf("-cores %d: want 1 or 2", opts.cores)
	case opts.proxyCPU == opts.loadCPU:
		return opts, fmt.Errorf("-proxy-cpu and -load-cpu are both %d: the load would run at the proxy's cost", opts.proxyCPU)
	}
	return opts, nil
}

// run measures everything and returns how many measurements had failed
// requests.
func run(ctx context.Context, opts options) (failures int, err error) {
	if last := runtime.NumCPU() - 1; max(opts.proxyCPU, opts.loadCPU) > last {
		return 0, fmt.Errorf("core %d: want 0 to %d; the proxy and the load need a core each", max(opts.proxyCPU, opts.loadCPU), last)
	}
	// Debian keeps the proxies where only root's PATH looks.
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/local/sbin:/usr/sbin"); err != nil {
		return 0, err
	}
	for _, tool := range neededTools(opts) {
		if _, err := exec.LookPath(tool); err != nil {
			return 0, fmt.Errorf("%s is not installed; `make bench` installs what is missing", tool)
		}
	}
	if opts.profile != "" {
		if _, err := exec.LookPath("perf"); err != nil {
			return 0, errors.New("-profile: perf is not installed (Debian: linux-perf)")
		}
		if err := os.MkdirAll(opts.profile, 0o755); err != nil {
			return 0, err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}

	dir, err := os.MkdirTemp("", "fairlead-bench-")
	if err != nil {
		return 0, err
	}
	if opts.keep {
		fmt.Fprintln(os.Stderr, "bench: configurations and logs stay in", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	if slices.ContainsFunc(opts.targets, isFairlead) && opts.fairlead == "" {
		opts.fairlead = filepath.Join(dir, "fairlead")
		if err := buildFairlead(ctx, opts.fairlead); err != nil {
			return 0, err
		}
	}

	back, err := startEndpoints(ctx, dir, opts.loadCPUs(), opts.cores)
	if err != nil {
		return 0, err
	}
	defer back.stop()
	b := bench{options: opts, self: self, dir: dir, back: back}
	if err := b.writeShared(); err != nil {
		return 0, err
	}

	printMachine(os.Stdout, opts)
	for _, s := range opts.scenarios {
		results := make(map[string][]sample)
		for round := range opts.rounds {
			for i := range opts.targets {
				name := opts.targets[(i+round)%len(opts.targets)]
				got, err := b.measure(ctx, s, name, opts.profile != "" && round == 0 && s.generator() != "")
				if err != nil {
					return failures, fmt.Errorf("scenario %s, round %d, %s: %w", s.name, round+1, name, err)
				}
				results[name] = append(results[name], got)
				if got.failed() {
					failures++
				}
				fmt.Fprintf(os.Stderr, "%-8s round %d  %-18s  %s\n", s.name, round+1, name, got)
			}
		}
		printTable(os.Stdout, s, opts, results)
	}
	return failures, nil
}

// neededTools are the programs that the measurements run.
func neededTools(opts options) []string {
	tools := []string{"nginx", "taskset"}
	if slices.Contains(opts.targets, "haproxy") {
		tools = append(tools, "haproxy")
	}
	for _, s := range opts.scenarios {
		if name := s.generator(); name != "" && !slices.Contains(tools, name) {
			tools = append(tools, name)
		}
	}
	return tools
}

func isFairlead(target string) bool { return strings.HasPrefix(target, "fairlead") }

func buildFairlead(ctx context.Context, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, "./cmd/fairlead")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./cmd/fairlead (bench runs from the root of the tree): %w\n%s", err, out)
	}
	return nil
}
