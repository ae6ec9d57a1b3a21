package loop

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// poll takes events, and waits for some if it may. It looks without waiting
// first: under load that is all it takes, and the scheduler is left alone. To
// wait behind the scheduler's back as well would gain little, and hold up the
// garbage collector, which stops all that runs.
func (l *eventLoop) poll(mayWait bool) int {
	if n := l.pollNow(); n > 0 || !mayWait {
		return n
	}
	l.asleep.Store(true)
	defer l.asleep.Store(false)
	if l.filled.Load() {
		return 0
	}
	l.shrink()
	ms := -1
	if d, ok := l.wheel.wait(Now()); ok {
		ms = int(min((d+time.Millisecond-1)/time.Millisecond, 1<<30))
	}
	l.wakeups.Add(1)
	n, _ := syscall.EpollWait(l.poller, l.events, ms)
	return max(n, 0)
}

// pollNow polls without waiting, and without telling the scheduler.
func (l *eventLoop) pollNow() int {
	n, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.poller),
		uintptr(unsafe.Pointer(unsafe.SliceData(l.events))), uintptr(len(l.events)), 0, 0, 0)
	if e != 0 {
		return 0 // EINTR
	}
	return int(n)
}

// lookAfter is how old what epoll has told may be when somebody has to know
// whether a connection is still good.
const lookAfter = time.Millisecond

// look takes the events that have come in a round that is long already, so that
// a task can rely on what they tell, and reports whether they are all. Whom they
// wake runs in the next round. Polling once in a while costs less than to look
// at each connection: under load most rounds are longer than lookAfter.
func (l *eventLoop) look() bool {
	now := Now()
	if now.Sub(l.looked) < lookAfter {
		return true
	}
	n := l.pollNow()
	for i := range l.events[:n] {
		l.event(&l.events[i])
	}
	if n == len(l.events) {
		return false
	}
	l.looked = now
	return true
}

// What a burst has made long is given up, above these, when the loop waits.
const (
	keepQueue = 4096
	keepStash = 8
)

// shrink gives up what has become much longer than it is needed. Nothing is
// queued.
func (l *eventLoop) shrink() {
	if cap(l.queue) > keepQueue {
		l.queue = nil
	}
	if cap(l.running) > keepQueue {
		l.running, l.at = nil, 0
	}
	if cap(l.spare) > keepQueue {
		l.spare = nil
	}
	l.mu.Lock()
	if len(l.posts) == 0 && cap(l.posts) > keepQueue {
		l.posts = nil
	}
	l.mu.Unlock()
	if len(l.stash) > keepStash {
		clear(l.stash[keepStash:])
		l.stash = l.stash[:keepStash]
	}
}
