package loop

import (
	"crypto/sha256"
	"strings"
	"sync"
	"testing"
	"time"
)

// A task that holds its loop is counted once and told, with the place. The tasks
// hold it until that was noticed, which on a loaded machine may take a while.
func TestHeld(t *testing.T) {
	var mu sync.Mutex
	var told []string
	e, err := NewLoopEngine(Options{Loops: 2, Held: func(where string, d time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if d < holdLimit {
			t.Errorf("told after %v", d)
		}
		told = append(told, where)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ds := e.Drivers()
	var begun [2]Time
	var longest time.Duration
	for i, noticed := range []func() bool{
		func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(told) > 0
		},
		func() bool { // the second time it is too early to tell again
			s := e.Stats().Loops[1]
			return s.Held == 2 && s.LongestHeld >= 100*time.Millisecond
		},
	} {
		onTask(ds[1], func() {
			b := make([]byte, 1<<20)
			begun[i] = Now()
			for !noticed() && Now().Sub(begun[i]) < time.Minute {
				sha256.Sum256(b)
			}
			longest = max(longest, Now().Sub(begun[i]))
		})
	}
	mu.Lock()
	defer mu.Unlock()
	if begun[1].Sub(begun[0])+longest < tellHeld && len(told) != 1 || len(told) == 0 || !strings.Contains(told[0], "crypto/") {
		t.Errorf("told of %q, want one place in crypto/sha256", told)
	}
	s := e.Stats().Loops
	if s[0].Held != 0 || s[1].Held != 2 || s[1].LongestHeld < 100*time.Millisecond || s[1].LongestHeld > longest+late {
		t.Errorf("%+v, want two turns that held loop 1, the longest for %v", s, longest)
	}
}

// Many short turns, and waiting, do not count.
func TestNotHeld(t *testing.T) {
	e, err := NewLoopEngine(Options{Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	d := e.Drivers()[0]
	onTask(d, func() {
		for end := Now().Add(100 * time.Millisecond); Now() < end; {
			d.Sleep(0)
		}
		d.Sleep(100 * time.Millisecond)
	})
	if s := e.Stats().Loops[0]; s.Held > 2 { // the machine itself may pause
		t.Errorf("%+v", s)
	}
}

func TestInnermost(t *testing.T) {
	const profile = `1 @ 0x1 0x2
# labels: {"loop":"3"}
#	0x4a	runtime.memmove+0x4a		/go/src/runtime/memmove_amd64.s:1
#	0x5b	bytes.Clone+0x5b		/go/src/bytes/bytes.go:7
#	0x6c	fairlead/internal/httplb.(*session).serve+0x6c	/src/internal/httplb/session.go:99
#	0x7d	fairlead/internal/loop.(*fiber).once+0x7d	/src/internal/loop/fiber_linux.go:60
#	0x8e	iter.Pull[...].func1+0x8e	/go/src/iter/iter.go:1`
	want := "bytes.Clone (bytes.go:7) < fairlead/internal/httplb.(*session).serve (session.go:99)"
	if got := innermost(profile); got != want {
		t.Errorf("innermost() = %q, want %q", got, want)
	}
}
