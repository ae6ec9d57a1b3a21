package loop

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// waitMode says how a loop waits when nothing is left to do.
type waitMode int

const (
	// waitInScheduler lets Go's scheduler know, so that others may use the
	// processor meanwhile.
	waitInScheduler waitMode = iota
	// waitOutside waits behind the scheduler's back, which saves its part but
	// takes a processor of it and holds up whatever stops the world, until
	// the wait is over. It is for measuring only, with GOMAXPROCS one more
	// than there are loops.
	waitOutside
)

// outsideWait bounds a wait outside the scheduler.
const outsideWait = 2 // ms

func waitModeFromEnvironment() waitMode {
	if os.Getenv("FAIRLEAD_LOOP_WAIT") == "outside" {
		return waitOutside
	}
	return waitInScheduler
}

// poll takes events, and waits for some if it may. It looks without waiting
// first: under load that is all it takes, and the scheduler is left alone.
func (l *eventLoop) poll(mayWait bool) int {
	if n := l.epollRaw(0); n > 0 || !mayWait {
		return n
	}
	l.asleep.Store(true)
	defer l.asleep.Store(false)
	if l.filled.Load() {
		return 0
	}
	ms := -1
	if d, ok := l.wheel.wait(Now()); ok {
		ms = int(min((d+time.Millisecond-1)/time.Millisecond, 1<<30))
	}
	l.wakeups.Add(1)
	if l.wait == waitOutside {
		if ms < 0 || ms > outsideWait {
			ms = outsideWait
		}
		return l.epollRaw(ms)
	}
	n, _ := syscall.EpollWait(l.poller, l.events, ms)
	return max(n, 0)
}

// epollRaw polls without telling the scheduler.
func (l *eventLoop) epollRaw(ms int) int {
	n, _, e := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(l.poller),
		uintptr(unsafe.Pointer(unsafe.SliceData(l.events))), uintptr(len(l.events)), uintptr(ms), 0, 0)
	if e != 0 {
		return 0 // EINTR
	}
	return int(n)
}
