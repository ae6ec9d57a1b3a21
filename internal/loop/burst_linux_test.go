package loop

import "testing"

// What a burst makes long is given up when the loop waits.
func TestBurstIsGivenUp(t *testing.T) {
	e, err := NewLoopEngine(Options{Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	l := e.(*loopEngine).loops[0]
	const many = 4 * keepQueue
	burst := func() {
		tasks := make(chan struct{})
		left := many // the loop's
		l.do(func() {
			for range 3 { // posts to itself: none is run before this returns
				for range many {
					l.post(postFunc(func() {}))
				}
			}
			for range many {
				l.start(func() {
					kept := l.keep([]byte("prefix"))
					l.Sleep(0) // in the queue of one round, then of the next
					l.drop(kept)
					if left--; left == 0 {
						close(tasks)
					}
				}, nil)
			}
		})
		<-tasks
	}
	for range 2 { // both of what takes turns
		burst()
	}
	wakeups := l.wakeups.Load()
	until(t, "the loop has waited", func() bool {
		l.do(func() {})
		return l.wakeups.Load() > wakeups+2
	})
	l.do(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for name, n := range map[string]int{
			"queue": cap(l.queue), "running": cap(l.running), "posts": cap(l.posts), "spare": cap(l.spare),
		} {
			if n > keepQueue {
				t.Errorf("%s has room for %d, want at most %d", name, n, keepQueue)
			}
		}
		if n := len(l.stash); n > keepStash {
			t.Errorf("%d prefixes are kept, want at most %d", n, keepStash)
		}
		for _, b := range l.stash[len(l.stash):cap(l.stash)] {
			if b != nil {
				t.Error("the room of a prefix that was given up is still held")
				break
			}
		}
	})
}
