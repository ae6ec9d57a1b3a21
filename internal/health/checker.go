package health

import (
	"context"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"fairlead/internal/model"
)

// CheckerConfig is what a Checker needs.
type CheckerConfig struct {
	// Table is written by the checker. It must not have two.
	Table *Table
	// MaxConcurrent bounds the probes in flight; further ones wait their turn
	// in order. Default 1024: so many endpoints can be lost at once, each
	// holding its probe for the whole time-out, before checks of the others
	// come late. A probe costs one socket and about 30 KiB while it runs.
	MaxConcurrent int
}

// Checker probes targets on schedules of their own and records what it finds.
//
// A target that waits for its next check costs a timer and the target itself,
// about 400 bytes; goroutines exist only while probes run. At most one probe
// of a target is in flight.
type Checker struct {
	table *Table
	limit int
	probe func(context.Context, *Target) Result
	seed  maphash.Seed // own to the process: nodes do not probe in step

	ctx    context.Context // of all probes; ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // of runs in flight

	mu       sync.Mutex
	closed   bool
	runs     map[targetID]*run
	waiting  []*run // due, in order of arrival, until a slot is free
	inFlight int
	checks   map[string]uint64 // by reason
	retries  uint64
}

// run is the schedule of one target. The checker's lock guards it.
type run struct {
	target  Target
	streak  streak
	due     time.Time // when the check that is awaited or running was due
	timer   *time.Timer
	ctx     context.Context // of the probe in flight
	cancel  context.CancelFunc
	stopped bool
	checked chan struct{} // closed when the first check has been recorded
	panel   *panel        // of the monitors of a group; nil where one decides alone
	ballot  *ballot       // what it says there
}

// NewChecker returns a checker without targets.
func NewChecker(cfg CheckerConfig) *Checker { return newChecker(cfg, probe) }

// newChecker lets tests bring the probe.
func newChecker(cfg CheckerConfig, probe func(context.Context, *Target) Result) *Checker {
	c := &Checker{
		table: cfg.Table, limit: cfg.MaxConcurrent, probe: probe, seed: maphash.MakeSeed(),
		runs: make(map[targetID]*run), checks: make(map[string]uint64),
	}
	if c.limit <= 0 {
		c.limit = 1024
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// Close ends all probes, waits for them, and records nothing more.
func (c *Checker) Close() {
	c.mu.Lock()
	c.closed = true
	for _, r := range c.runs {
		c.stop(r)
	}
	clear(c.runs)
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
}

const (
	// firstCheckWithin is how soon an endpoint that has no verdict is checked,
	// however long the interval: until then it takes no traffic.
	firstCheckWithin = 10 * time.Second
	// changedWithin is how soon one whose verdict is known is checked when its
	// monitor changed; a long interval need not pass first.
	changedWithin = time.Minute
	// jitter is how much earlier than its interval a check may come, as a share
	// of the interval. It never comes later, so that an endpoint that fails is
	// down within consecutive_down intervals and a time-out. Gaps are drawn
	// independently: checks that once fell together drift apart.
	jitter = 0.1
)

// Apply makes the targets the ones that are checked. A target that stays as
// it was keeps its schedule and its count of results in a row; one whose
// monitor changed starts both anew and keeps its verdict. The first checks of
// the others are spread evenly in time.
func (c *Checker) Apply(targets []Target) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	declared := make(map[targetID]bool, len(targets))
	var fresh []*run
	for i := range targets {
		t := targets[i]
		declared[t.id()] = true
		if r := c.runs[t.id()]; r != nil {
			if r.target.same(&t) {
				r.target = t // the plan's newest pointers
				continue
			}
			c.stop(r)
		}
		fresh = append(fresh, c.add(t))
	}
	maps.DeleteFunc(c.runs, func(k targetID, r *run) bool {
		if !declared[k] {
			c.stop(r)
		}
		return !declared[k]
	})
	c.convene(targets)

	// Even spacing in an order that a hash decides: no window of time has more
	// than its share, which drawing a moment for each would not give.
	c.shuffle(fresh)
	now := time.Now()
	for i, r := range fresh {
		within := changedWithin
		if !decided(r.target.Endpoint) {
			within = firstCheckWithin
		}
		// A tenth is left for the time that the start itself has taken, so that
		// every first check falls into the first interval.
		within = min(within, r.target.Monitor.Interval) * 9 / 10
		at := (float64(i) + rand.Float64()) / float64(len(fresh))
		c.schedule(r, now.Add(time.Duration(at*float64(within))))
	}
}

// decided reports whether a check has made the endpoint's verdict.
func decided(e *Endpoint) bool {
	v := e.Verdict()
	return v == Healthy || v == Unhealthy
}

// shuffle puts runs into the order of their keys' hashes.
func (c *Checker) shuffle(runs []*run) {
	slices.SortFunc(runs, func(a, b *run) int {
		x, y := maphash.Comparable(c.seed, a.target.id()), maphash.Comparable(c.seed, b.target.id())
		switch {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
}

// add makes a target one that is checked, without a schedule yet; the lock is
// held. A member of a group keeps what it said under the monitor before.
func (c *Checker) add(t Target) *run {
	r := &run{target: t, checked: make(chan struct{})}
	if t.Member != "" {
		r.ballot = &ballot{since: time.Now()}
		if before := c.runs[t.id()]; before != nil {
			*r.ballot = *before.ballot
		}
	}
	c.runs[t.id()] = r
	return r
}

// stop ends a run's schedule and its probe, whose result is not recorded; the
// lock is held.
func (c *Checker) stop(r *run) {
	r.stopped = true
	if r.timer != nil {
		r.timer.Stop()
	}
	if r.cancel != nil {
		r.cancel()
	}
}

// schedule sets when the run's next check is due; the lock is held.
func (c *Checker) schedule(r *run, due time.Time) {
	r.due = due
	wait := time.Until(due)
	if r.timer == nil {
		r.timer = time.AfterFunc(wait, func() { c.fire(r) })
	} else {
		r.timer.Reset(wait)
	}
}

// fire starts the check of a run that is due, or has it wait for a slot.
func (c *Checker) fire(r *run) {
	c.mu.Lock()
	if r.stopped || c.closed {
		c.mu.Unlock()
		return
	}
	if c.inFlight == c.limit {
		c.waiting = append(c.waiting, r)
		c.mu.Unlock()
		return
	}
	c.inFlight++
	c.wg.Add(1)
	defer c.wg.Done()
	for r != nil {
		t := c.begin(r)
		c.mu.Unlock()
		result := c.check(r.ctx, &t)
		c.mu.Lock()
		c.finish(r, &t, result)
		r = c.nextWaiting()
	}
	c.inFlight--
	c.mu.Unlock()
}

// begin prepares the probe of a run and returns what to probe; the lock is
// held.
func (c *Checker) begin(r *run) Target {
	r.ctx, r.cancel = context.WithCancel(c.ctx)
	return r.target
}

// nextWaiting takes the run that waits longest; the lock is held.
func (c *Checker) nextWaiting() *run {
	for len(c.waiting) > 0 {
		r := c.waiting[0]
		c.waiting[0] = nil
		c.waiting = c.waiting[1:]
		if !r.stopped {
			return r
		}
	}
	c.waiting = nil
	return nil
}

// check makes one check: an attempt, and another after each time-out as often
// as the monitor allows.
func (c *Checker) check(ctx context.Context, t *Target) Result {
	for left := t.Monitor.Retries; ; left-- {
		attempt, cancel := context.WithTimeout(ctx, t.Monitor.Timeout)
		result := c.probe(attempt, t)
		cancel()
		if !result.timedOut() || left <= 0 || ctx.Err() != nil {
			return result
		}
		c.mu.Lock()
		c.retries++
		c.mu.Unlock()
	}
}

// finish records a check and sets when the next one is due; the lock is held.
func (c *Checker) finish(r *run, t *Target, result Result) {
	r.cancel()
	r.ctx, r.cancel = nil, nil
	if r.stopped {
		return
	}
	now := time.Now()
	c.checks[result.Reason()]++
	if r.panel != nil {
		c.cast(r, t, result, now)
	} else {
		c.table.record(t.Endpoint, r.streak.next(t.Endpoint.Verdict(), result.Passed(), t.Monitor), result, now)
	}
	select {
	case <-r.checked:
	default:
		close(r.checked)
	}
	// The gap counts from when this check was due, not from its end: neither
	// slow answers nor a queue make checks rarer than the interval says. A
	// check that outlasted its gap is followed at once, and nothing is made up
	// for.
	next := r.due.Add(gap(r.target.Monitor))
	if next.Before(now) {
		next = now
	}
	c.schedule(r, next)
}

// gap draws the time to the next check.
func gap(m *model.Monitor) time.Duration {
	return time.Duration(float64(m.Interval) * (1 - jitter*rand.Float64()))
}

// Stats counts what a checker does.
type Stats struct {
	Targets  int
	InFlight int // probes running
	Waiting  int // checks that are due and wait for a slot
	Retries  uint64
	// Probes counts completed checks by Result.Reason. Every reason is there.
	Probes map[string]uint64
}

// Stats returns the counts of this moment.
func (c *Checker) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := Stats{Targets: len(c.runs), InFlight: c.inFlight, Retries: c.retries, Probes: map[string]uint64{NoFailures: 0}}
	for _, f := range Failures() {
		s.Probes[f] = 0
	}
	maps.Copy(s.Probes, c.checks)
	for _, r := range c.waiting {
		if !r.stopped {
			s.Waiting++
		}
	}
	return s
}
