package health

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"fairlead/internal/model"
)

// start makes a table, a checker with a fake prober, and the plan that declare
// describes, in force.
func start(t *testing.T, f *fakeProber, declare func(*Table, *testPlan)) (*Table, *Checker, *testPlan, *logLines) {
	log, lines := newLog(t)
	f.t = t
	table := NewTable(log)
	c := newChecker(CheckerConfig{Table: table}, f.probe)
	p := new(testPlan)
	declare(table, p)
	return table, c, p, lines
}

// use puts a plan in force without priming it.
func use(table *Table, c *Checker, p *testPlan) {
	c.Apply(p.targets)
	table.Keep(p.pools, nil)
}

// TestScript is the script of answers of the public case on flapping: one
// "down" and one "up", at the right checks.
func TestScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const script = "1100100100010111"
		f := &fakeProber{answer: func(ctx context.Context, _ Key, n int) Result {
			if n < len(script) && script[n] == '0' {
				return failed(FailureCode, "got 503, want 2xx")
			}
			return passed
		}}
		var e *Endpoint
		table, c, p, lines := start(t, f, func(table *Table, p *testPlan) {
			e = p.declare(table, "web", 1, monitor(func(m *model.Monitor) {
				m.Interval, m.ConsecutiveUp, m.ConsecutiveDown = time.Second, 2, 3
			}))[0]
		})
		defer c.Close()
		use(table, c, p)
		lines.take()
		got := ""
		for n := range len(script) {
			f.await(n + 1)
			got += map[bool]string{true: "u", false: "d"}[e.Up()]
		}
		if want := "uuuuuuuuuudddduu"; got != want {
			t.Errorf("verdicts = %s, want %s", got, want)
		}
		downs, ups := 0, 0
		for _, l := range lines.take() {
			if strings.HasPrefix(l, `msg="endpoint health changed"`) {
				downs += strings.Count(l, "verdict=unhealthy")
				ups += strings.Count(l, "verdict=healthy")
			}
		}
		if downs != 1 || ups != 2 { // the first verdict is a change as well
			t.Errorf("logged %d changes to unhealthy and %d to healthy, want 1 and 2", downs, ups)
		}
		if s := table.Snapshot(); s.Endpoints[0].Changes != 3 {
			t.Errorf("counted %d changes, want 3", s.Endpoints[0].Changes)
		}
	})
}

// count returns how many probes have come.
func (f *fakeProber) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.events)
}

// await lets fake time pass until n probes have come and what they have caused
// is done.
func (f *fakeProber) await(n int) {
	for f.count() < n {
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
	}
}

// TestSpread is the public case on bursts: 200 endpoints with an interval of
// 10 s, in one pool and in many, watched for a minute.
func TestSpread(t *testing.T) {
	for _, c := range []struct {
		name  string
		pools int
		prime bool
	}{
		{"one pool, primed", 1, true},
		{"one pool", 1, false},
		{"fifty pools", 50, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const n = 200
				f := &fakeProber{answer: func(context.Context, Key, int) Result {
					time.Sleep(3 * time.Millisecond)
					return passed
				}}
				table, checker, p, _ := start(t, f, func(table *Table, p *testPlan) {
					for i := range c.pools {
						p.declare(table, fmt.Sprintf("p%d", i), n/c.pools, monitor(nil))
					}
				})
				begin := time.Now()
				if c.prime {
					checker.Prime(t.Context(), p.targets)
					if d := time.Since(begin); d > time.Second/2 {
						t.Errorf("Prime took %v", d)
					}
					if !p.pools[0].Usable() {
						t.Error("the pool cannot be used after Prime")
					}
				}
				use(table, checker, p)
				time.Sleep(time.Minute)
				checker.Close()

				if b := burst(f.events, 500*time.Millisecond); b > n/5 {
					t.Errorf("%d probes within 500 ms, want at most %d", b, n/5)
				}
				last := make(map[Key]time.Time)
				for _, e := range f.events {
					if l, ok := last[e.key]; !ok {
						if d := e.at.Sub(begin); d > 10*time.Second {
							t.Errorf("%v was first probed after %v", e.key, d)
						}
					} else if gap := e.at.Sub(l); gap < 9*time.Second || gap > 10*time.Second {
						t.Errorf("gap of %v between probes of %v", gap, e.key)
					}
					last[e.key] = e.at
				}
				if len(last) != n {
					t.Errorf("%d endpoints were probed, want %d", len(last), n)
				}
			})
		})
	}
}

// TestGaps: checks come within their interval, however slow the answers, and
// a little earlier at most.
func TestGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeProber{answer: func(context.Context, Key, int) Result {
			time.Sleep(500 * time.Millisecond)
			return passed
		}}
		table, c, p, _ := start(t, f, func(table *Table, p *testPlan) { p.declare(table, "web", 10, monitor(nil)) })
		use(table, c, p)
		time.Sleep(10000 * time.Second)
		c.Close()
		last := make(map[Key]time.Time)
		for _, e := range f.events {
			if l, ok := last[e.key]; ok {
				if gap := e.at.Sub(l); gap < 9*time.Second || gap > 10*time.Second {
					t.Errorf("gap of %v between probes of %v", gap, e.key)
				}
			}
			last[e.key] = e.at
		}
		if n := len(f.events); n < 10450 || n > 10600 {
			t.Errorf("%d probes, want about 10526", n)
		}
	})
}

// TestTimeToDown: an endpoint that falls silent at any moment is down within
// consecutive_down intervals and a time-out.
func TestTimeToDown(t *testing.T) {
	for moment := range 20 {
		synctest.Test(t, func(t *testing.T) {
			var dead atomic.Bool
			f := &fakeProber{answer: func(ctx context.Context, _ Key, _ int) Result {
				if dead.Load() {
					return silent(ctx)
				}
				return passed
			}}
			table, c, p, _ := start(t, f, func(table *Table, p *testPlan) {
				p.declare(table, "web", 1, monitor(func(m *model.Monitor) { m.ConsecutiveDown = 3 }))
			})
			defer c.Close()
			c.Prime(t.Context(), p.targets)
			use(table, c, p)
			time.Sleep(10*time.Minute + time.Duration(moment)*500*time.Millisecond)
			dead.Store(true)
			begin := time.Now()
			for p.targets[0].Endpoint.Up() {
				time.Sleep(time.Millisecond)
				synctest.Wait()
			}
			if d := time.Since(begin); d > 3*10*time.Second+time.Second+time.Millisecond {
				t.Errorf("down after %v, want within 31 s", d)
			}
		})
	}
}

func TestFirstCheckDecidesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeProber{answer: func(_ context.Context, k Key, _ int) Result {
			if k.Endpoint == "a1" {
				return refused
			}
			return passed
		}}
		var e []*Endpoint
		_, c, p, _ := start(t, f, func(table *Table, p *testPlan) {
			e = p.declare(table, "web", 2, monitor(func(m *model.Monitor) { m.ConsecutiveUp, m.ConsecutiveDown = 5, 5 }))
		})
		defer c.Close()
		c.Prime(t.Context(), p.targets)
		if e[0].Verdict() != Healthy || e[1].Verdict() != Unhealthy {
			t.Errorf("verdicts = %v, %v; want healthy, unhealthy", e[0].Verdict(), e[1].Verdict())
		}
		if d := e[1].Detail(); d.Failure != FailureRefused || d.Cause == "" {
			t.Errorf("detail = %+v", d)
		}
	})
}

// TestRetries checks that only a time-out is tried again, at once.
func TestRetries(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers []Result // the last one stays
		want    Verdict
		probes  int
		took    time.Duration
	}{
		{"a refusal counts at once", []Result{refused, passed}, Unhealthy, 1, 0},
		{"a time-out is tried again", []Result{{Failure: FailureTimeout}, passed}, Healthy, 2, time.Second},
		{"a TCP time-out as well", []Result{{Failure: FailureTCPTimeout}, {Failure: FailureTimeout}, passed}, Healthy, 3, 2 * time.Second},
		{"a refusal ends the retries", []Result{{Failure: FailureTimeout}, refused, passed}, Unhealthy, 2, time.Second},
		{"as often as the monitor says", []Result{{Failure: FailureTimeout}}, Unhealthy, 3, 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeProber{answer: func(ctx context.Context, _ Key, n int) Result {
					r := c.answers[min(n, len(c.answers)-1)]
					if r.timedOut() {
						<-ctx.Done()
					}
					return r
				}}
				_, checker, p, _ := start(t, f, func(table *Table, p *testPlan) {
					p.declare(table, "web", 1, monitor(func(m *model.Monitor) { m.Retries = 2 }))
				})
				defer checker.Close()
				begin := time.Now()
				checker.Prime(t.Context(), p.targets)
				if d := time.Since(begin); d != c.took {
					t.Errorf("took %v, want %v", d, c.took)
				}
				if v := p.targets[0].Endpoint.Verdict(); v != c.want || f.count() != c.probes {
					t.Errorf("%v after %d probes, want %v after %d", v, f.count(), c.want, c.probes)
				}
				if s := checker.Stats(); s.Retries != uint64(c.probes-1) {
					t.Errorf("counted %d retries, want %d", s.Retries, c.probes-1)
				}
			})
		})
	}
}

func TestPrime(t *testing.T) {
	// answers by endpoint: + passes, - fails, . stays silent
	for _, c := range []struct {
		name    string
		answers string
		want    time.Duration
		probes  int
	}{
		{"all pass", "+++", 0, 3},
		{"all fail", "---", 0, 3},
		{"a silent one holds up a usable pool for the grace only", "+.", primeGrace, 2},
		{"silent ones hold up an empty pool for the time-out", "..", 4 * time.Second, 2},
		{"a large pool opens with its first wave", strings.Repeat("+", 100), 0, primeWave},
		{"a large pool goes on until one passes", strings.Repeat("-", 2*primeWave) + strings.Repeat("+", 100), 0, 3 * primeWave},
		{"a large pool does not wait for a silent wave", strings.Repeat(".", primeWave) + strings.Repeat("+", 100), primeGrace, 2 * primeWave},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeProber{answer: func(ctx context.Context, k Key, _ int) Result {
					var i int
					fmt.Sscanf(k.Endpoint, "a%d", &i)
					switch c.answers[i] {
					case '+':
						return passed
					case '-':
						return refused
					}
					return silent(ctx)
				}}
				_, checker, p, _ := start(t, f, func(table *Table, p *testPlan) {
					p.declare(table, "web", len(c.answers), monitor(func(m *model.Monitor) { m.Timeout, m.Retries = 2*time.Second, 1 }))
				})
				defer checker.Close()
				begin := time.Now()
				checker.Prime(t.Context(), p.targets)
				if d := time.Since(begin); d < c.want || d > c.want+200*time.Millisecond {
					t.Errorf("took %v, want %v", d, c.want)
				}
				probed := make(map[Key]bool)
				f.mu.Lock()
				for _, e := range f.events {
					probed[e.key] = true
				}
				f.mu.Unlock()
				if len(probed) != c.probes {
					t.Errorf("%d endpoints were probed, want %d", len(probed), c.probes)
				}
			})
		})
	}
}

// TestPrimeLeavesUsablePoolsAlone: an endpoint that is added to a pool under
// traffic waits for its turn.
func TestPrimeLeavesUsablePoolsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fakeProber)
		m := monitor(nil)
		table, c, p, _ := start(t, f, func(table *Table, p *testPlan) { p.declare(table, "web", 1, m) })
		defer c.Close()
		c.Prime(t.Context(), p.targets)
		use(table, c, p)
		if f.count() != 1 {
			t.Fatalf("%d probes, want 1", f.count())
		}
		next := new(testPlan)
		e := next.declare(table, "web", 2, m)
		c.Prime(t.Context(), next.targets)
		if f.count() != 1 || e[1].Verdict() != Unknown {
			t.Errorf("%d probes, verdict %v; want 1, unknown", f.count(), e[1].Verdict())
		}
		c.Apply(next.targets)
		table.Keep(next.pools, p.pools)
		time.Sleep(firstCheckWithin)
		synctest.Wait()
		if e[1].Verdict() != Healthy {
			t.Errorf("verdict = %v within %v, want healthy", e[1].Verdict(), firstCheckWithin)
		}
	})
}

// TestPrimedCheckIsTheFirst: what Prime has checked is checked again an
// interval later, not earlier.
func TestPrimedCheckIsTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fakeProber)
		table, c, p, _ := start(t, f, func(table *Table, p *testPlan) { p.declare(table, "web", 4, monitor(nil)) })
		defer c.Close()
		c.Prime(t.Context(), p.targets)
		use(table, c, p)
		time.Sleep(9*time.Second - time.Millisecond)
		synctest.Wait()
		if f.count() != 4 {
			t.Errorf("%d probes in 9 s, want 4", f.count())
		}
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		if f.count() != 8 {
			t.Errorf("%d probes in 10 s, want 8", f.count())
		}
	})
}

// TestApplyKeepsWhatStays: a reload that does not touch an endpoint changes
// neither its schedule nor its count of failures.
func TestApplyKeepsWhatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeProber{answer: func(_ context.Context, _ Key, n int) Result {
			if n == 0 {
				return passed
			}
			return refused
		}}
		m := monitor(func(m *model.Monitor) { m.ConsecutiveDown = 3 })
		table, c, p, _ := start(t, f, func(table *Table, p *testPlan) { p.declare(table, "web", 1, m) })
		defer c.Close()
		c.Prime(t.Context(), p.targets)
		use(table, c, p)
		e := p.targets[0].Endpoint
		for f.count() < 4 { // reload five times a second
			if e.Verdict() != Healthy {
				t.Fatalf("%v after %d probes", e.Verdict(), f.count())
			}
			time.Sleep(200 * time.Millisecond)
			synctest.Wait()
			copied := *m
			copied.Description = "written anew"
			next := new(testPlan)
			next.declare(table, "web", 1, &copied)
			c.Prime(t.Context(), next.targets)
			c.Apply(next.targets)
			table.Keep(next.pools, p.pools)
			p = next
		}
		if e.Verdict() != Unhealthy {
			t.Errorf("verdict = %v after three failures, want unhealthy", e.Verdict())
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		for i := 1; i < len(f.events); i++ {
			if gap := f.events[i].at.Sub(f.events[i-1].at); gap < 9*time.Second || gap > 10*time.Second {
				t.Errorf("gap of %v", gap)
			}
		}
	})
}

// TestApplyChangedMonitor: the verdict stays, the count starts anew.
func TestApplyChangedMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fail atomic.Bool
		f := &fakeProber{answer: func(context.Context, Key, int) Result {
			if fail.Load() {
				return refused
			}
			return passed
		}}
		m := monitor(func(m *model.Monitor) { m.ConsecutiveDown = 2 })
		table, c, p, _ := start(t, f, func(table *Table, p *testPlan) { p.declare(table, "web", 1, m) })
		defer c.Close()
		c.Prime(t.Context(), p.targets)
		use(table, c, p)
		e := p.targets[0].Endpoint
		fail.Store(true)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		changed := *m
		changed.Path = "/other"
		next := new(testPlan)
		next.declare(table, "web", 1, &changed)
		c.Apply(next.targets)
		table.Keep(next.pools, nil)
		f.await(3)
		if e.Verdict() != Healthy {
			t.Errorf("verdict = %v after one failure of the new monitor, want healthy", e.Verdict())
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if e.Verdict() != Unhealthy {
			t.Errorf("verdict = %v after two failures of the new monitor, want unhealthy", e.Verdict())
		}
	})
}

// TestApplyRemoved: a target that goes is not probed again, and the result of
// its probe in flight is not recorded.
func TestApplyRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeProber{answer: func(ctx context.Context, _ Key, _ int) Result { return silent(ctx) }}
		table, c, p, _ := start(t, f, func(table *Table, p *testPlan) { p.declare(table, "web", 3, monitor(nil)) })
		use(table, c, p)
		f.await(1)
		n := f.count()
		c.Apply(nil)
		synctest.Wait()
		if s := c.Stats(); s.InFlight != 0 || s.Targets != 0 {
			t.Errorf("stats = %+v", s)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if f.count() != n {
			t.Errorf("%d more probes", f.count()-n)
		}
		for _, target := range p.targets {
			if v := target.Endpoint.Verdict(); v != Unknown {
				t.Errorf("%v = %v, want unknown", target.Key, v)
			}
		}
		c.Close()
	})
}

// TestLimit: more targets than probes may run; the others wait, none twice.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _ := newLog(t)
		f := &fakeProber{t: t, answer: func(ctx context.Context, _ Key, _ int) Result { return silent(ctx) }}
		table := NewTable(log)
		c := newChecker(CheckerConfig{Table: table, MaxConcurrent: 4}, f.probe)
		p := new(testPlan)
		p.declare(table, "web", 20, monitor(func(m *model.Monitor) { m.Interval, m.Timeout = 50*time.Millisecond, time.Second }))
		use(table, c, p)
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if s := c.Stats(); s.InFlight != 4 || s.Waiting != 16 {
			t.Errorf("in flight %d, waiting %d; want 4, 16", s.InFlight, s.Waiting)
		}
		time.Sleep(10 * time.Second)
		c.Close()
		if f.most != 4 {
			t.Errorf("%d probes at once, want 4", f.most)
		}
		counts := make([]int, 0, 20)
		for _, n := range f.counts {
			counts = append(counts, n)
		}
		if len(counts) != 20 || slices.Max(counts)-slices.Min(counts) > 1 {
			t.Errorf("probes by endpoint = %v, want them even", counts)
		}
	})
}

// TestAttachAndDetach: a monitor that is attached does not empty the pool, and
// one that is taken away gives its endpoints back.
func TestAttachAndDetach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeProber{answer: func(context.Context, Key, int) Result { return refused }}
		table, c, p, lines := start(t, f, func(table *Table, p *testPlan) { p.declare(table, "web", 1, nil) })
		defer c.Close()
		use(table, c, p)
		e := table.Endpoint(Key{"web", "a0", "192.0.2.1"}, false)
		if l := lines.take(); e.Verdict() != Unmonitored || len(l) != 0 {
			t.Errorf("verdict = %v, logged %q", e.Verdict(), l)
		}

		attached := new(testPlan)
		attached.declare(table, "web", 1, monitor(nil))
		c.Prime(t.Context(), attached.targets)
		use(table, c, attached)
		if e.Verdict() != Unmonitored {
			t.Errorf("verdict = %v before the first check, want unmonitored", e.Verdict())
		}
		time.Sleep(firstCheckWithin)
		synctest.Wait()
		if e.Verdict() != Unhealthy || attached.pools[0].Usable() {
			t.Errorf("verdict = %v, want unhealthy", e.Verdict())
		}

		refusedPlan := new(testPlan)
		refusedPlan.declare(table, "web", 1, nil)
		if e.Verdict() != Unhealthy {
			t.Errorf("verdict = %v while a plan is compiled, want unhealthy", e.Verdict())
		}
		use(table, c, attached)
		if e.Verdict() != Unhealthy {
			t.Errorf("verdict = %v after a plan was refused, want unhealthy", e.Verdict())
		}
		lines.take()
		detached := new(testPlan)
		detached.declare(table, "web", 1, nil)
		c.Apply(detached.targets)
		table.Keep(detached.pools, attached.pools)
		if e.Verdict() != Unmonitored || !detached.pools[0].Usable() || !attached.pools[0].Up(0) {
			t.Errorf("verdict = %v, want unmonitored", e.Verdict())
		}
		if l := lines.take(); len(l) != 2 {
			t.Errorf("logged %q, want the endpoint and the pool", l)
		}
	})
}

// TestClose: nothing runs and nothing is recorded afterwards.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeProber{answer: func(ctx context.Context, _ Key, _ int) Result { return silent(ctx) }}
		table, c, p, _ := start(t, f, func(table *Table, p *testPlan) { p.declare(table, "web", 3, monitor(nil)) })
		done := make(chan struct{})
		go func() {
			c.Prime(context.Background(), p.targets)
			close(done)
		}()
		synctest.Wait()
		c.Close()
		<-done
		c.Apply(p.targets)
		c.Prime(t.Context(), p.targets)
		if s := table.Snapshot(); s.Endpoints[0].Verdict != Unknown {
			t.Errorf("verdict = %v, want unknown", s.Endpoints[0].Verdict)
		}
	})
}

// TestMemory holds the ceiling of what a waiting target costs; measured: see
// the comment of Checker.
func TestMemory(t *testing.T) {
	log, _ := newLog(t)
	table := NewTable(log)
	c := newChecker(CheckerConfig{Table: table}, (&fakeProber{t: t}).probe)
	defer c.Close()
	p := new(testPlan)
	const n = 10_000
	p.declare(table, "web", n, monitor(func(m *model.Monitor) { m.Interval = time.Hour }))
	for _, target := range p.targets { // known verdicts: the first check is up to a minute away
		target.Endpoint.verdict.Store(uint32(Healthy))
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	goroutines := runtime.NumGoroutine()
	c.Apply(p.targets)
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n
	t.Logf("%d bytes for each target", each)
	if each > 1000 {
		t.Errorf("%d bytes for each target, want at most 1000", each)
	}
	if g := runtime.NumGoroutine() - goroutines; g > 50 {
		t.Errorf("%d goroutines for %d waiting targets", g, n)
	}
}
