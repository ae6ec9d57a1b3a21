// Package lab is what end-to-end tests are made of: whole nodes that run from
// a file, endpoints that misbehave as they are told, and clients that send the
// bytes they are given. Everything runs in the test's process, on ports that
// the kernel picks, and ends with the test.
//
// A test starts endpoints ([Serve], [NewOrigin], [Refusing], [Blackhole]),
// writes their addresses into a configuration, starts a node from it ([Start])
// and looks at it from outside: by requests ([Raw], [Dial]), by its metrics and
// by its status.
//
// All of it may be used by parallel tests. A [Node] belongs to one test and its
// subtests, a [Client] to one goroutine.
package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"fairlead/internal/admin"
	"fairlead/internal/node"
)

// stopWithin bounds how long a node may take to end.
const stopWithin = 10 * time.Second

// awaitWithin bounds [Await].
const awaitWithin = 10 * time.Second

// Node is a running node.
type Node struct {
	// File is the configuration file, in a directory of its own.
	File string

	t     testing.TB
	node  *node.Node
	admin string
	end   context.CancelFunc // asks for the end in order
	cut   context.CancelFunc // cuts what is left
	done  chan error
	ended bool

	asking sync.Mutex // held while /metrics or /status is asked for: few may ask at a time
}

// Start runs a node from a configuration and waits until it serves. What the
// text leaves out is added: an admin address, so that the node can be looked
// at, and a short shutdown_timeout. The node ends with the test, which fails if
// it does so with an error or too late.
func Start(t testing.TB, yaml string) *Node {
	t.Helper()
	n := &Node{File: filepath.Join(t.TempDir(), "fairlead.yaml"), t: t, done: make(chan error, 1)}
	n.Write(yaml)
	ctx, end := context.WithCancel(context.Background())
	now, cut := context.WithCancel(context.Background())
	n.end, n.cut = end, cut
	ready := make(chan *node.Node, 1)
	go func() {
		n.done <- node.Run(ctx, now, node.Config{
			File: n.File, Version: "lab",
			Log:   slog.New(slog.NewTextHandler(t.Output(), nil)),
			Ready: func(n *node.Node) { ready <- n },
		})
	}()
	t.Cleanup(n.Stop)
	select {
	case n.node = <-ready:
		n.admin = n.node.Admin().String()
	case err := <-n.done:
		n.ended = true
		t.Fatalf("node does not start: %v", err)
	case <-time.After(stopWithin):
		t.Fatalf("node is not ready after %v", stopWithin)
	}
	return n
}

// Stop ends the node and waits for its end. The test's end does the same.
func (n *Node) Stop() {
	n.t.Helper()
	if n.ended {
		return
	}
	n.ended = true
	n.end()
	defer n.cut()
	select {
	case err := <-n.done:
		if err != nil {
			n.t.Errorf("node ended with an error: %v", err)
		}
	case <-time.After(stopWithin):
		stacks := make([]byte, 1<<20)
		n.t.Errorf("node has not ended after %v\n%s", stopWithin, stacks[:runtime.Stack(stacks, true)])
	}
}

// adminLine and shutdownLine find settings that a text has already.
var (
	adminLine    = regexp.MustCompile(`(?m)^admin:`)
	shutdownLine = regexp.MustCompile(`(?m)^shutdown_timeout:`)
)

// Write replaces the configuration file, as an operator would: the node takes
// it up by itself, see [Node.AwaitRevision]. It adds the same as [Start].
func (n *Node) Write(yaml string) {
	n.t.Helper()
	if !adminLine.MatchString(yaml) {
		yaml += "\nadmin: {address: \"127.0.0.1:0\"}\n"
	}
	if !shutdownLine.MatchString(yaml) {
		yaml += "\nshutdown_timeout: 2s\n"
	}
	next := n.File + ".next"
	if err := os.WriteFile(next, []byte(yaml), 0o600); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Rename(next, n.File); err != nil {
		n.t.Fatal(err)
	}
}

// Addr returns the address of a listener.
func (n *Node) Addr(listener string) string {
	n.t.Helper()
	for _, l := range n.node.Listeners() {
		if l.Name == listener {
			return l.Address.String()
		}
	}
	n.t.Fatalf("no listener %q", listener)
	return ""
}

// Admin returns the address of the admin server.
func (n *Node) Admin() string { return n.admin }

// Status returns what /status answers.
func (n *Node) Status() admin.Status {
	n.t.Helper()
	var s admin.Status
	if err := json.Unmarshal(n.get("/status"), &s); err != nil {
		n.t.Fatalf("/status: %v", err)
	}
	return s
}

// AwaitRevision waits until a plan of at least this revision is in force. The
// first is 1; each file that is taken up makes the next.
func (n *Node) AwaitRevision(revision uint64) {
	n.t.Helper()
	Await(n.t, fmt.Sprintf("revision %d", revision), func() bool { return n.Status().Revision >= revision })
}

// AwaitRefusals waits until at least so many files were refused.
func (n *Node) AwaitRefusals(count uint64) {
	n.t.Helper()
	Await(n.t, fmt.Sprintf("%d refusals", count), func() bool { return n.Status().Config.Refusals >= count })
}

// Metric returns the sum of a metric's series that have the labels given, in
// pairs of name and value; 0 when there is none.
func (n *Node) Metric(name string, labels ...string) float64 {
	n.t.Helper()
	if len(labels)%2 != 0 {
		n.t.Fatalf("labels of %s: %q: want pairs of name and value", name, labels)
	}
	sum := 0.0
	for line := range strings.Lines(string(n.get("/metrics"))) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), name)
		if !ok || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		at := strings.LastIndexByte(rest, ' ')
		series := strings.NewReplacer("{", ",", "}", ",").Replace(rest[:at])
		all := true
		for i := 0; i < len(labels); i += 2 {
			all = all && strings.Contains(series, fmt.Sprintf(",%s=%q,", labels[i], labels[i+1]))
		}
		if !all {
			continue
		}
		v, err := strconv.ParseFloat(rest[at+1:], 64)
		if err != nil {
			n.t.Fatalf("/metrics: %q: %v", line, err)
		}
		sum += v
	}
	return sum
}

// AwaitMetric waits until [Node.Metric] is at least want.
func (n *Node) AwaitMetric(want float64, name string, labels ...string) {
	n.t.Helper()
	Await(n.t, fmt.Sprintf("%s%q of %v", name, labels, want), func() bool { return n.Metric(name, labels...) >= want })
}

func (n *Node) get(path string) []byte {
	n.t.Helper()
	n.asking.Lock()
	defer n.asking.Unlock()
	// A connection of its own, so that none is left when goroutines are
	// counted.
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Get("http://" + n.admin + path)
	if err != nil {
		n.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		n.t.Fatalf("%s: %v", path, err)
	}
	if res.StatusCode != http.StatusOK {
		n.t.Fatalf("%s: %s: %s", path, res.Status, bytes.TrimSpace(b))
	}
	return b
}

// Await waits until done returns true, and fails the test when that takes too
// long.
func Await(t testing.TB, what string, done func() bool) {
	t.Helper()
	AwaitWithin(t, awaitWithin, what, done)
}

// AwaitWithin is Await with a bound of its own.
func AwaitWithin(t testing.TB, within time.Duration, what string, done func() bool) {
	t.Helper()
	timeout := time.After(within)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-timeout:
			t.Fatalf("waited %v for %s", within, what)
		case <-tick.C:
		}
	}
}

// NoLeaks fails the test if goroutines that it started are left when all else
// has ended. It is called first, and not in tests that run in parallel.
func NoLeaks(t testing.TB) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// AccessLog waits until the access log that the configuration names has at
// least so many lines and returns them all, in order.
func (n *Node) AccessLog(lines int) []map[string]any {
	n.t.Helper()
	name := n.node.Plan().Config.AccessLog.Output
	var all []map[string]any
	Await(n.t, fmt.Sprintf("%d lines in %s", lines, name), func() bool {
		b, err := os.ReadFile(name)
		if err != nil {
			n.t.Fatal(err)
		}
		all = nil
		for line := range bytes.Lines(b) {
			var record map[string]any
			if json.Unmarshal(line, &record) != nil {
				break // its end is not written yet
			}
			all = append(all, record)
		}
		return len(all) >= lines
	})
	return all
}
