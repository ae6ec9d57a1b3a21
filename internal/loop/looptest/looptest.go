// Package looptest finds code that blocks an event loop.
//
// A task of an event loop may wait only in the loop's own ways; a task that waits
// for a lock, a channel or a file holds up all connections of its loop. A
// [Watch] looks at the stacks of all goroutines again and again, and collects
// those of tasks and loops that wait in any other way. One look proves little,
// as a lock may be taken for a moment: who is met in the same place by two looks
// in a row is reported. Files are another matter: nobody waits long for one that is
// in memory, and so whoever is met at work on one is reported at once.
//
// It is for tests alone, and no program links it.
package looptest

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Watch looks for blocked loops until it is stopped.
type Watch struct {
	stop   chan struct{}
	done   chan struct{}
	mu     sync.Mutex
	stacks []string
}

// Every returns a watch that looks at least that seldom, and spends at most a
// tenth of its time on looking.
func Every(pause time.Duration) *Watch {
	w := &Watch{stop: make(chan struct{}), done: make(chan struct{})}
	go w.run(pause)
	return w
}

// Main runs the tests of a package, and looks meanwhile whether anything blocks an
// event loop. It is what a TestMain calls, and ends the process.
func Main(m *testing.M) {
	w := Every(10 * time.Millisecond)
	code := m.Run()
	for _, stack := range w.Stop() {
		fmt.Fprintf(os.Stderr, "an event loop is blocked by\n%s\n", stack)
		code = max(code, 1)
	}
	os.Exit(code)
}

// Stop ends the watch and returns the stacks of whoever blocked a loop, once for
// each place.
func (w *Watch) Stop() []string {
	close(w.stop)
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stacks
}

func (w *Watch) run(pause time.Duration) {
	defer close(w.done)
	last := map[string]bool{}
	places := map[string]bool{}
	buf := make([]byte, 1<<20)
	for next := pause; ; {
		select {
		case <-w.stop:
			return
		case <-time.After(next):
		}
		begun := time.Now()
		n := runtime.Stack(buf, true)
		if n == len(buf) && n < 64<<20 { // else the rest is not looked at
			buf = make([]byte, 2*n)
			continue
		}
		now := map[string]bool{}
		for stack := range strings.SplitSeq(string(buf[:n]), "\n\n") {
			file := usesFile(stack)
			if !file && !blocked(stack) {
				continue
			}
			now[stack] = true
			_, place, _ := strings.Cut(withoutArguments(stack), "\n")
			if (file || last[stack]) && !places[place] {
				places[place] = true
				w.mu.Lock()
				w.stacks = append(w.stacks, stack)
				w.mu.Unlock()
			}
		}
		last = now
		next = max(pause, 10*time.Since(begun))
	}
}

// withoutArguments removes what differs between goroutines in the same place.
func withoutArguments(stack string) string {
	lines := strings.Split(stack, "\n")
	for i, line := range lines {
		if at := strings.LastIndexByte(line, '('); at > 0 && !strings.HasPrefix(line, "\t") {
			lines[i] = line[:at]
		}
	}
	return strings.Join(lines, "\n")
}

// Functions that are on the stacks of tasks, and of loops.
const (
	ofTasks = "fairlead/internal/loop.(*fiber).once("
	ofLoops = "fairlead/internal/loop.(*eventLoop).run("
)

// fine are the states in which a goroutine of a loop may be: it runs, or has
// given control to another one, or the runtime needs it.
var fine = []string{"running", "runnable", "coroutine", "preempted", "copystack"}

// usesFile reports whether a goroutine that belongs to a loop is at work on a file, or
// whatever else package os does.
func usesFile(stack string) bool {
	at := max(strings.Index(stack, ofTasks), strings.Index(stack, ofLoops))
	return at > 0 && strings.Contains(stack[:at], "\nos.")
}

// blocked reports whether a goroutine, as its stack shows it, belongs to a loop
// and waits in a way that blocks that.
func blocked(stack string) bool {
	if !strings.Contains(stack, ofTasks) && !strings.Contains(stack, ofLoops) {
		return false
	}
	_, state, _ := strings.Cut(stack, "[")
	state, _, _ = strings.Cut(state, "]")
	state, _, _ = strings.Cut(state, ",")
	state, _, _ = strings.Cut(state, " (")
	switch {
	case slices.Contains(fine, state), strings.HasPrefix(state, "GC "):
		return false
	case state == "semacquire":
		// What allocates may have to wait while another starts a collection.
		// Locks and descriptors wait so as well, by their own functions.
		return strings.Contains(stack, "sync.") || strings.Contains(stack, "internal/poll.")
	case state == "syscall":
		// The loop's own wait, and the calls that a loop makes through
		// package unix, of which none waits.
		return strings.Contains(stack, "os.") || strings.Contains(stack, "net.")
	}
	return true
}
