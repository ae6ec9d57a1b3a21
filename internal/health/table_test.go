package health

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

var now = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// TestPoolState compares states and bits for verdicts written as u (healthy),
// d (unhealthy), ? (unknown), m (unmonitored); capitals are disabled.
func TestPoolState(t *testing.T) {
	for _, c := range []struct {
		verdicts string
		minimum  int
		want     PoolState
		up       int
	}{
		{"uuu", 1, PoolHealthy, 3},
		{"uum", 1, PoolHealthy, 3},
		{"uud", 1, PoolDegraded, 2},
		{"uu?", 1, PoolDegraded, 2},
		{"uud", 2, PoolDegraded, 2},
		{"uud", 3, PoolCritical, 2},
		{"ddd", 1, PoolCritical, 0},
		{"???", 1, PoolCritical, 0},
		{"ddd", 0, PoolCritical, 0},
		{"udd", 0, PoolDegraded, 1},
		{"uUD", 1, PoolHealthy, 1},
		{"UUU", 1, PoolCritical, 0},
		{"dU", 1, PoolCritical, 0},
		{"", 0, PoolCritical, 0},
	} {
		t.Run(fmt.Sprintf("%s of %d", c.verdicts, c.minimum), func(t *testing.T) {
			log, _ := newLog(t)
			table := NewTable(log)
			var members []Member
			for i, v := range c.verdicts {
				e := table.Endpoint(Key{"p", fmt.Sprint(i), ""}, v != 'm' && v != 'M')
				members = append(members, Member{Endpoint: e, Enabled: v >= 'a' || v == '?'})
				switch v {
				case 'u', 'U':
					table.RecordForTest(e, Healthy, passed, now)
				case 'd', 'D':
					table.RecordForTest(e, Unhealthy, refused, now)
				}
			}
			p := table.Pool("p", members, c.minimum)
			if p.State() != c.want || p.UpCount() != c.up || p.Usable() != (c.want != PoolCritical) {
				t.Errorf("state %v with %d up, want %v with %d", p.State(), p.UpCount(), c.want, c.up)
			}
			for i, m := range members {
				if p.Up(i) != (m.Enabled && m.Endpoint.Up()) {
					t.Errorf("Up(%d) = %v", i, p.Up(i))
				}
			}
		})
	}
}

// TestLargePool: more endpoints than one word has bits.
func TestLargePool(t *testing.T) {
	log, _ := newLog(t)
	table := NewTable(log)
	p := new(testPlan)
	e := p.declare(table, "p", 200, monitor(nil))
	for i := range e {
		if i%3 == 0 {
			table.RecordForTest(e[i], Healthy, passed, now)
		}
	}
	for i := range e {
		if p.pools[0].Up(i) != (i%3 == 0) {
			t.Errorf("Up(%d) = %v", i, p.pools[0].Up(i))
		}
	}
	if p.pools[0].UpCount() != 67 {
		t.Errorf("UpCount = %d, want 67", p.pools[0].UpCount())
	}
}

// TestChangesAreLoggedOnce follows a pool through its states.
func TestChangesAreLoggedOnce(t *testing.T) {
	log, lines := newLog(t)
	table := NewTable(log)
	p := new(testPlan)
	e := p.declare(table, "web", 2, monitor(nil))
	table.RecordForTest(e[0], Healthy, passed, now)
	want := func(lines []string, want ...string) {
		t.Helper()
		if !slices.Equal(lines, want) {
			t.Errorf("logged %q, want %q", lines, want)
		}
	}
	want(lines.take(), `msg="endpoint health changed" pool=web endpoint=a0 address=192.0.2.1 verdict=healthy reason="No failures"`)
	table.Keep(p.pools, nil)
	want(lines.take(), `msg="pool health changed" pool=web state=degraded up=1 of=2`)
	table.RecordForTest(e[0], Healthy, passed, now)
	table.Keep(p.pools, nil)
	want(lines.take())
	table.RecordForTest(e[1], Healthy, passed, now)
	want(lines.take(),
		`msg="endpoint health changed" pool=web endpoint=a1 address=192.0.2.2 verdict=healthy reason="No failures"`,
		`msg="pool health changed" pool=web state=healthy up=2 of=2`)
	table.RecordForTest(e[1], Healthy, refused, now) // not enough failures yet
	want(lines.take())
	if d := e[1].Detail(); d.Failure != FailureRefused || d.RTT != passed.RTT {
		t.Errorf("detail = %+v", d)
	}
	table.RecordForTest(e[1], Unhealthy, refused, now)
	table.RecordForTest(e[0], Unhealthy, Result{Failure: FailureCode, Code: 503}, now)
	want(lines.take(),
		`msg="endpoint health changed" pool=web endpoint=a1 address=192.0.2.2 verdict=unhealthy reason="TCP connection failed" error="connection refused"`,
		`msg="pool health changed" pool=web state=degraded up=1 of=2`,
		`msg="endpoint health changed" pool=web endpoint=a0 address=192.0.2.1 verdict=unhealthy reason="Response code mismatch error"`,
		`msg="pool health changed" pool=web state=critical up=0 of=2`)
	s := table.Snapshot()
	if len(s.Pools) != 1 || s.Pools[0].Changes != 4 || len(s.Endpoints) != 2 || s.Endpoints[0].Changes != 2 {
		t.Errorf("snapshot = %+v", s)
	}
}

// TestKeep: both the plan in force and the one before follow the verdicts, only
// the former is logged, and what neither has is gone.
func TestKeep(t *testing.T) {
	log, lines := newLog(t)
	table := NewTable(log)
	m := monitor(nil)
	first, second, third := new(testPlan), new(testPlan), new(testPlan)
	e := first.declare(table, "web", 2, m)
	gone := first.declare(table, "gone", 1, m)
	table.Keep(first.pools, nil)
	second.declare(table, "web", 1, m)
	table.Keep(second.pools, first.pools)
	lines.take()

	table.RecordForTest(e[0], Healthy, passed, now)
	if !first.pools[0].Up(0) || !second.pools[0].Up(0) {
		t.Error("a view does not follow the verdict")
	}
	if l := lines.take(); len(l) != 2 {
		t.Errorf("logged %q, want the endpoint and the pool in force", l)
	}
	table.RecordForTest(gone[0], Healthy, passed, now)
	if !first.pools[1].Up(0) {
		t.Error("the view of the plan before does not follow the verdict")
	}

	third.declare(table, "web", 1, m)
	table.Keep(third.pools, second.pools)
	if s := table.Snapshot(); len(s.Endpoints) != 1 || len(s.Pools) != 1 {
		t.Errorf("snapshot = %+v", s)
	}
	lines.take()
	table.RecordForTest(gone[0], Unhealthy, refused, now)
	table.RecordForTest(e[1], Healthy, passed, now)
	if l := lines.take(); len(l) != 0 || gone[0].Verdict() != Healthy {
		t.Errorf("a forgotten endpoint is %v, logged %q", gone[0].Verdict(), l)
	}
	if again := table.Endpoint(gone[0].Key, true); again == gone[0] || again.Verdict() != Unknown {
		t.Error("a forgotten endpoint came back")
	}
	if a := third.pools[0].Profile(); a != second.pools[0].Profile() {
		t.Error("the profile of a pool that stays was lost")
	}
}

// TestReadsDoNotAllocate holds the ceiling of what steering reads.
func TestReadsDoNotAllocate(t *testing.T) {
	log, _ := newLog(t)
	table := NewTable(log)
	p := new(testPlan)
	e := p.declare(table, "web", 70, monitor(nil))
	table.RecordForTest(e[69], Healthy, passed, now)
	up := 0
	if n := testing.AllocsPerRun(100, func() {
		if p.pools[0].Up(69) && p.pools[0].Usable() && e[69].Up() {
			up++
		}
		if _, ok := p.pools[0].Profile().Value(); ok {
			up++
		}
		if _, ok := e[69].Latency().Value(); ok {
			up++
		}
	}); n != 0 || up == 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestAverage(t *testing.T) {
	var a Average
	if v, ok := a.Value(); ok || v != 0 || !a.Since().IsZero() {
		t.Errorf("Value() = %v, %v before the first sample", v, ok)
	}
	a.observe(100*time.Millisecond, now)
	if v, _ := a.Value(); v != 100*time.Millisecond || !a.Since().Equal(now) {
		t.Errorf("Value() = %v after the first sample", v)
	}
	// One mean lifetime later the old value counts 1/e.
	a.observe(200*time.Millisecond, now.Add(tau))
	want := 100*math.Exp(-1) + 200*(1-math.Exp(-1))
	if v, _ := a.Value(); math.Abs(v.Seconds()*1000-want) > 1e-3 {
		t.Errorf("Value() = %v, want %.3f ms", v, want)
	}
	if !a.Since().Equal(now) {
		t.Error("Since() moved")
	}
	// Irregular samples of one value lead to it.
	at := now.Add(tau)
	for i := range 100 {
		at = at.Add(time.Duration(i%7+1) * time.Second)
		a.observe(50*time.Millisecond, at)
	}
	if v, _ := a.Value(); (v - 50*time.Millisecond).Abs() > 250*time.Microsecond {
		t.Errorf("Value() = %v, want 50ms", v)
	}
	before, _ := a.Value()
	a.observe(time.Hour, at.Add(-time.Hour)) // the clock stepped back
	if v, _ := a.Value(); v != before {
		t.Errorf("Value() = %v after a step of the clock, want %v", v, before)
	}
	var zero Average
	zero.observe(0, now)
	if _, ok := zero.Value(); !ok {
		t.Error("a sample of 0 is taken for none")
	}
}
