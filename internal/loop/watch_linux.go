package loop

import (
	"bytes"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// counts are the figures of a loop. Others read them at any time.
type counts struct {
	connections, fibers, freeFibers atomic.Int64 // as of the end of a round
	held, panics                    atomic.Uint64
	longestHeld                     atomic.Int64
	wakeups                         atomic.Uint64
}

// publish lets others see how much there is.
func (l *eventLoop) publish() {
	set := func(to *atomic.Int64, n int) {
		if to.Load() != int64(n) {
			to.Store(int64(n))
		}
	}
	set(&l.connections, l.open)
	set(&l.fibers, l.made-len(l.free))
	set(&l.freeFibers, len(l.free))
}

func (e *loopEngine) Stats() EngineStats {
	s := EngineStats{Loops: make([]DriverStats, len(e.loops)), Beside: DriverStats{Panics: e.beside.panics.Load()}}
	for i, l := range e.loops {
		s.Loops[i] = DriverStats{
			Connections: int(l.connections.Load()),
			Fibers:      int(l.fibers.Load()),
			FreeFibers:  int(l.freeFibers.Load()),
			Held:        l.held.Load(),
			LongestHeld: time.Duration(l.longestHeld.Load()),
			Wakeups:     l.wakeups.Load(),
			Panics:      l.panics.Load(),
		}
	}
	return s
}

const (
	// holdLimit is how long a fiber may run before it is said to hold its
	// loop, and how often that is looked at.
	holdLimit = 10 * time.Millisecond
	// tellHeld is how seldom a loop tells who held it.
	tellHeld = 10 * time.Second
)

// watch looks for fibers that hold their loop.
func (e *loopEngine) watch() {
	tick := time.NewTicker(holdLimit)
	defer tick.Stop()
	looks := make([]look, len(e.loops))
	for {
		select {
		case <-e.over:
			return
		case <-tick.C:
			for i, l := range e.loops {
				looks[i].take(l, Now())
			}
		}
	}
}

// look is what the watchdog saw of a loop last.
type look struct {
	turn  uint64 // 0: no fiber ran
	since Time
	held  bool // this turn was counted
	told  Time
}

func (k *look) take(l *eventLoop, now Time) {
	turn := l.turn.Load()
	if turn&turnBusy == 0 {
		turn = 0
	}
	if turn == 0 || turn != k.turn {
		k.turn, k.since, k.held = turn, now, false
		return
	}
	d := now.Sub(k.since)
	if d < holdLimit {
		return
	}
	if !k.held {
		k.held = true
		l.held.Add(1)
	}
	l.longestHeld.Store(max(l.longestHeld.Load(), int64(d)))
	if tell := l.options.Held; tell != nil && (k.told == 0 || now.Sub(k.told) >= tellHeld) {
		k.told = now
		where := runningFiber(l.index)
		if l.turn.Load() == turn { // else that was another one
			tell(where, d)
		}
	}
}

// runningFiber returns the innermost functions, outside this package and the
// runtime, of the fiber that a loop runs.
func runningFiber(loop int) string {
	var profile bytes.Buffer
	if pprof.Lookup("goroutine").WriteTo(&profile, 1) != nil {
		return "unknown"
	}
	label := `"loop":"` + strconv.Itoa(loop) + `"`
	for entry := range strings.SplitSeq(profile.String(), "\n\n") {
		if strings.Contains(entry, label) && strings.Contains(entry, thisPackage+".(*fiber).once+") &&
			!strings.Contains(entry, thisPackage+".(*fiber).park+") {
			if where := innermost(entry); where != "" {
				return where
			}
		}
	}
	return "unknown"
}

const thisPackage = "fairlead/internal/loop"

// innermost returns up to three functions of a stack as a goroutine profile
// shows it, with a line "#	0x123	package.function+0x45	file:line" for each.
func innermost(stack string) string {
	var names []string
	for line := range strings.Lines(stack) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[0] != "#" {
			continue
		}
		name, _, _ := strings.Cut(fields[2], "+0x")
		if strings.HasPrefix(name, "runtime.") || strings.HasPrefix(name, thisPackage+".") || strings.HasPrefix(name, "iter.") {
			continue
		}
		_, at, _ := cutLast(fields[3], "/")
		if names = append(names, name+" ("+at+")"); len(names) == 3 {
			break
		}
	}
	return strings.Join(names, " < ")
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}
