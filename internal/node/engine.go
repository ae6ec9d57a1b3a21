package node

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"fairlead/internal/loop"
	"fairlead/internal/telemetry"
)

// engineVariable names the engine that connections run on; see loop.NewEngine.
const engineVariable = "FAIRLEAD_IO"

// newEngine makes the engine that the environment asks for. Logging must not
// wait.
func newEngine(log *slog.Logger) (loop.Engine, error) {
	e, err := loop.NewEngine(os.Getenv(engineVariable), loop.Options{
		Panicked: func(v any, stack []byte) {
			log.Error("defect: task ended", "panic", v, "stack", string(stack))
		},
		Held: func(where string, d time.Duration) {
			log.Warn("event loop was held up: connections waited", "duration", d, "by", where)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", engineVariable, err)
	}
	return e, nil
}

func loopDesc(name, help string, kind telemetry.Kind, labels ...string) *telemetry.Desc {
	return &telemetry.Desc{Name: name, Help: help, Kind: kind, Labels: append([]string{"loop"}, labels...)}
}

var (
	descLoopConnections = loopDesc("fairlead_loop_connections", "Connections of an event loop, of clients and to endpoints.", telemetry.GaugeKind)
	descLoopFibers      = loopDesc("fairlead_loop_fibers", "Fibers of an event loop: used by tasks, or free for the next.", telemetry.GaugeKind, "state")
	descLoopHeld        = loopDesc("fairlead_loop_held_total", "Times that a task kept an event loop from all others for more than 10 ms.", telemetry.CounterKind)
	descLoopLongest     = loopDesc("fairlead_loop_held_longest_seconds", "About the longest time that a task kept an event loop.", telemetry.GaugeKind)
	descLoopWakeups     = loopDesc("fairlead_loop_wakeups_total", "Times that an event loop had nothing to do and waited.", telemetry.CounterKind)
	descLoopPanics      = loopDesc("fairlead_loop_panics_total", "Tasks that ended by a defect of Fairlead.", telemetry.CounterKind)
)

// collectEngine reports what the engine has counted.
func (n *Node) collectEngine(e *telemetry.Emitter) {
	stats := n.engine.Stats()
	if n.engine.Name() == "loop" {
		e.Counter(descLoopPanics, stats.Beside.Panics, "beside")
	}
	for i, s := range stats.Loops {
		name := strconv.Itoa(i)
		e.Counter(descLoopPanics, s.Panics, name)
		if n.engine.Name() != "loop" {
			continue // has no loops
		}
		e.Gauge(descLoopConnections, float64(s.Connections), name)
		e.Gauge(descLoopFibers, float64(s.Fibers), name, "used")
		e.Gauge(descLoopFibers, float64(s.FreeFibers), name, "free")
		e.Counter(descLoopHeld, s.Held, name)
		e.Gauge(descLoopLongest, s.LongestHeld.Seconds(), name)
		e.Counter(descLoopWakeups, s.Wakeups, name)
	}
}
