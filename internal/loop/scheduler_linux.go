package loop

import (
	"runtime"
	"sync"
	"time"
)

// What follows is for the sake of Go's scheduler, whose monitor (sysmon in
// runtime/proc.go) takes the processor away from a goroutine that waits in a
// system call, and looks for such every 20 microseconds as long as it finds some.
// A loop that loses its processor goes on, with a cold cache, on whichever thread
// gets one next. Where loops wait often and shortly, the monitor alone took 15 %
// of a core, and a request 20 % to 35 % more time; see docs/performance.md.

// processors returns how many the scheduler used before any loop began.
var processors = sync.OnceValue(func() int { return runtime.GOMAXPROCS(0) })

// leaveProcessor gives the scheduler a processor beside those of n loops. While
// one is idle, the monitor leaves a loop that waits its own for 10 ms; and what
// else there is to do, as probing and collecting garbage, has one.
func leaveProcessor(n int) {
	processors()
	if runtime.GOMAXPROCS(0) <= n {
		runtime.GOMAXPROCS(n + 1)
	}
}

// yieldAfter is how long a loop runs before it passes through the scheduler. To
// the monitor, one that does not for 10 ms is to be stopped wherever it is.
const yieldAfter = 5 * time.Millisecond

// yield passes through the scheduler. System calls, and switches between fibers,
// do not.
func (l *eventLoop) yield() {
	runtime.Gosched()
	l.yielded = l.now
}
