package loadtest

import (
	"strings"
	"testing"

	"fairlead/test/process"
)

// wantMemoryBelow judges the highest memory so far.
func wantMemoryBelow(t testing.TB, p *process.Process, limit int64) {
	t.Helper()
	peak := p.Memory("VmHWM")
	t.Logf("peak memory %d MiB", peak>>20)
	if !process.Race && peak > limit {
		t.Errorf("peak memory %d MiB, want at most %d", peak>>20, limit>>20)
	}
}

// usage is what must not grow. Fibers that event loops keep for later are
// goroutines to the runtime, and not counted: their number is bounded.
type usage struct {
	goroutines, descriptors int
	heap                    float64 // that the last garbage collection left, in effect
}

func usageOf(p *process.Process) usage {
	s := p.Series()
	kept := 0.0
	for name, n := range s {
		if strings.HasPrefix(name, "fairlead_loop_fibers{") && strings.Contains(name, `state="free"`) {
			kept += n
		}
	}
	live := s["go_memstats_next_gc_bytes"] / (1 + s["go_gc_gogc_percent"]/100)
	return usage{int(s["go_goroutines"] - kept), p.Descriptors(), live}
}

// collectOften has nodes that the test starts collect garbage by Go's own rule, so
// that what is known of the heap is never old: their own leaves much room.
func collectOften(t *testing.T) { t.Setenv("GOGC", "100") }

// leastUsage takes n steps, and returns the least of each figure that was seen after
// one of them: what is kept. A single look may come upon a plan that its successor
// has not replaced everywhere, or a heap as a collection amid a change found it.
func leastUsage(p *process.Process, n int, step func()) usage {
	var least usage
	for i := range n {
		step()
		u := usageOf(p)
		if i == 0 {
			least = u
		}
		least = usage{min(least.goroutines, u.goroutines), min(least.descriptors, u.descriptors), min(least.heap, u.heap)}
	}
	return least
}
