package node

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// headroom is how much is allocated at least between two runs of the garbage
// collector.
//
// A node's heap is small, and by its usual rule the collector would run each time
// as much again has been allocated: beside a storm of TLS handshakes, of which
// each leaves 57 KiB behind, eight times a second. On a machine whose cores all
// run loops each run takes time from requests. With this much room, which is
// what a node's memory then grows by, the p99 beside such a storm is that at rest
// and not three times as long; see docs/performance.md.
const headroom = 48 << 20

// usualPercent is the collector's rule where there is no other: it runs when the
// heap has grown by so much of what is in use.
const usualPercent = 100

// paceCollector has the garbage collector leave headroom, until the process ends.
// Who has set GOGC has decided otherwise.
var paceCollector = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		new(pacer).adjust()
	}
})

// pacer sets the collector's percentage after each run, by what is in use then.
type pacer struct{ percent int }

func (p *pacer) adjust() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	// Setting it stops the world for a moment: only for what matters.
	if want := percentFor(live[0].Value.Uint64()); want < p.percent*3/4 || want > p.percent*4/3 {
		p.percent = want
		debug.SetGCPercent(want)
	}
	// The next run finds that nobody has what this cleanup is for.
	type cycle struct{ _ *cycle }
	runtime.AddCleanup(new(cycle), func(p *pacer) { p.adjust() }, p)
}

// percentFor returns the percentage by which a heap with so many bytes in use
// has its headroom.
func percentFor(live uint64) int {
	// Go collects no heap below 4 MiB by the usual percentage, and by n times that
	// none below n times as much.
	const least = 4 << 20
	return max(usualPercent, int(headroom*100/max(live, least)))
}
