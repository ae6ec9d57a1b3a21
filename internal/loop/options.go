package loop

import (
	"fmt"
	"time"
)

// Options says how an engine is made. Its functions may be called by any task at
// any time, and must not block.
type Options struct {
	// Loops is the number of event loops; 0 is as many as Go may use
	// processors. Other engines ignore it.
	Loops int
	// Panicked is told what a task has panicked with, and where. The task has
	// ended then and everything else goes on. Without it a panic ends the
	// process.
	Panicked func(v any, stack []byte)
	// Held is told which code has kept a loop from everything else, and how
	// long at least, once in ten seconds for each loop.
	Held func(where string, d time.Duration)
}

// NewEngine returns an engine of the given kind: "loop", "goroutine", or "" for
// what is best on the system.
func NewEngine(kind string, options Options) (Engine, error) {
	if kind == "" {
		kind = bestEngine
	}
	switch kind {
	case "loop":
		return NewLoopEngine(options)
	case "goroutine":
		e := NewGoroutineEngine().(*goroutineEngine)
		e.driver.panicked = options.Panicked
		return e, nil
	}
	return nil, fmt.Errorf("engine %q: want %q or %q", kind, "loop", "goroutine")
}

// EngineStats is what an engine has counted since it was made.
type EngineStats struct {
	// Loops has an entry for each driver, by its index. That of goroutines
	// counts nothing but panics.
	Loops []DriverStats
	// Beside is that of goroutines beside loops. Nothing is counted but panics.
	Beside DriverStats
}

// DriverStats is what a driver has counted.
type DriverStats struct {
	Connections int           // open
	Fibers      int           // that run or wait
	FreeFibers  int           // kept for later
	Held        uint64        // how often a task kept its loop for too long
	LongestHeld time.Duration // about how long the longest time was
	Wakeups     uint64        // how often the loop had nothing to do and waited
	Panics      uint64        // tasks that ended with one
}
