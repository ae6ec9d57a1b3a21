//go:build linux

package looptest

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead/internal/loop"
)

func TestWatch(t *testing.T) {
	for _, c := range []struct {
		name  string
		block func(d loop.Driver, until <-chan struct{})
		found string // in the stack; "" is nothing
	}{
		{"nothing", func(loop.Driver, <-chan struct{}) {}, ""},
		{"sleep of a driver", func(d loop.Driver, _ <-chan struct{}) { d.Sleep(100 * time.Millisecond) }, ""},
		{"Do", func(d loop.Driver, until <-chan struct{}) { d.Do(func() { <-until }) }, ""},
		{"work", func(_ loop.Driver, until <-chan struct{}) {
			for len(until) == 0 { // it is closed with something in it
			}
		}, ""},
		{"channel", func(_ loop.Driver, until <-chan struct{}) { <-until }, "chan receive"},
		{"sleep", func(_ loop.Driver, until <-chan struct{}) {
			for len(until) == 0 {
				time.Sleep(200 * time.Millisecond)
			}
		}, "sleep"},
		{"lock", func(_ loop.Driver, until <-chan struct{}) {
			var mu sync.Mutex
			mu.Lock()
			go func() {
				<-until
				mu.Unlock()
			}()
			mu.Lock()
		}, "sync.Mutex.Lock"},
		{"file", func(_ loop.Driver, until <-chan struct{}) {
			for len(until) == 0 {
				os.ReadFile("/etc/passwd")
			}
		}, "os.ReadFile"},
		{"pipe", func(_ loop.Driver, until <-chan struct{}) {
			r, w, err := os.Pipe()
			if err != nil {
				panic(err)
			}
			go func() {
				<-until
				w.Close()
			}()
			r.Read(make([]byte, 1))
			r.Close()
		}, "IO wait"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := loop.NewLoopEngine(loop.Options{Loops: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			w := Every(time.Millisecond)
			until, done := make(chan struct{}, 1), make(chan struct{})
			d := e.Drivers()[0]
			d.Go(func() {
				c.block(d, until)
				close(done)
			})
			time.Sleep(100 * time.Millisecond)
			if c.found != "" { // a busy machine may leave little time for looking
				w.awaitFound(t)
			}
			until <- struct{}{}
			close(until)
			<-done
			stacks := w.Stop()
			if c.found == "" && len(stacks) > 0 || c.found != "" && !strings.Contains(strings.Join(stacks, "\n"), c.found) {
				t.Errorf("found %q, want %q", stacks, c.found)
			}
		})
	}
}

// awaitFound waits until the watch has something to report.
func (w *Watch) awaitFound(t *testing.T) {
	t.Helper()
	found := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.stacks) > 0
	}
	for deadline := time.Now().Add(20 * time.Second); !found(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("nothing was found within 20 s")
			return
		}
	}
}

// What a goroutine that waits for a semaphore waits for is told by who is on its
// stack: a descriptor, or the runtime.
func TestBlocked(t *testing.T) {
	const task = "\nfairlead/internal/loop.(*fiber).once(0x1)\n\tfiber_linux.go:78 +0x65"
	for _, c := range []struct {
		stack string
		want  bool
	}{
		{"goroutine 5 [semacquire]:\ncrypto/internal/fips140/aes/gcm.NewGCMForTLS13(0x2)\n\tgcm_nonces.go:174 +0x92" + task, false},
		{"goroutine 5 [semacquire]:\ninternal/poll.(*fdMutex).rwlock(0x2)\n\tfd_mutex.go:154 +0x92" + task, true},
		{"goroutine 5 [semacquire, 2 minutes]:\nsync.runtime_Semacquire(0x2)\n\tsema.go:71 +0x92" + task, true},
		{"goroutine 5 [chan receive]:\nmain.f(0x2)" + task, true},
		{"goroutine 5 [coroutine]:\nmain.f(0x2)" + task, false},
		{"goroutine 5 [chan receive]:\nmain.f(0x2)", false},
	} {
		if got := blocked(c.stack); got != c.want {
			t.Errorf("blocked = %v, want %v:\n%s", got, c.want, c.stack)
		}
	}
}
