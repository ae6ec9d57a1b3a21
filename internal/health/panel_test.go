package health

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fairlead/internal/model"
)

// TestCount judges votes written as u (healthy), d (unhealthy) and ? (nothing
// said yet); capitals, and ! in place of ?, must be healthy.
func TestCount(t *testing.T) {
	for _, c := range []struct {
		votes string
		want  string // u, d, or ? for undecided
	}{
		{"u", "u"}, {"d", "d"}, {"?", "?"}, {"", "?"},
		{"ud", "u"}, {"dd", "d"}, {"d?", "?"}, {"u?", "u"}, {"??", "?"},
		{"uud", "u"}, {"udd", "d"}, {"dd?", "d"}, {"d?u", "?"}, {"uu?", "u"}, {"u??", "?"},
		{"uudd", "u"}, {"uddd", "d"}, {"dd??", "?"}, {"uudd?", "?"},
		{"D", "d"}, {"Duuu", "d"}, {"U", "u"}, {"Ud", "u"}, {"Udd", "d"}, {"Ud?", "?"}, {"U??", "?"}, {"!uuu", "?"}, {"!ddd", "d"}, {"!D", "d"},
	} {
		var votes []vote
		for _, v := range c.votes {
			votes = append(votes, vote{map[rune]Verdict{'u': Healthy, 'd': Unhealthy, '?': Unknown, 'U': Healthy, 'D': Unhealthy, '!': Unknown}[v], v < 'a' && v != '?'})
		}
		v, decided := count(votes)
		if got := map[bool]string{true: map[Verdict]string{Healthy: "u", Unhealthy: "d"}[v], false: "?"}[decided]; got != c.want {
			t.Errorf("count(%q) = %s, want %s", c.votes, got, c.want)
		}
	}
}

// TestCountWaitsForTheRest: what is decided is what every way of saying the
// rest would lead to, and nothing else is.
func TestCountWaitsForTheRest(t *testing.T) {
	whole := func(votes []vote) Verdict {
		against := 0
		for _, b := range votes {
			if b.verdict == Unhealthy {
				against++
				if b.must {
					return Unhealthy
				}
			}
		}
		if 2*against > len(votes) {
			return Unhealthy
		}
		return Healthy
	}
	kinds := []vote{{Healthy, false}, {Unhealthy, false}, {Unknown, false}, {Healthy, true}, {Unhealthy, true}, {Unknown, true}}
	var each func(votes []vote, left int)
	var outcomes func(votes []vote, i int, seen map[Verdict]bool)
	outcomes = func(votes []vote, i int, seen map[Verdict]bool) {
		if i == len(votes) {
			seen[whole(votes)] = true
			return
		}
		if votes[i].verdict != Unknown {
			outcomes(votes, i+1, seen)
			return
		}
		for _, v := range []Verdict{Healthy, Unhealthy} {
			votes[i].verdict = v
			outcomes(votes, i+1, seen)
		}
		votes[i].verdict = Unknown
	}
	each = func(votes []vote, left int) {
		if len(votes) > 0 {
			seen := make(map[Verdict]bool)
			outcomes(votes, 0, seen)
			v, decided := count(votes)
			if decided != (len(seen) == 1) || decided && !seen[v] {
				t.Fatalf("count(%v) = %v, %v; the rest may lead to %v", votes, v, decided, seen)
			}
		}
		if left > 0 {
			for _, k := range kinds {
				each(append(slices.Clone(votes), k), left-1)
			}
		}
	}
	each(nil, 5)
}

// memberProber answers probes by the name of the monitor.
type memberProber struct {
	mu      sync.Mutex
	answers map[string]Result
	counts  map[string]int
}

func (f *memberProber) set(member string, r Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[member] = r
}

func (f *memberProber) count(member string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[member]
}

func (f *memberProber) probe(ctx context.Context, t *Target) Result {
	f.mu.Lock()
	f.counts[t.Member]++
	r, ok := f.answers[t.Member]
	f.mu.Unlock()
	if !ok {
		return silent(ctx)
	}
	return r
}

// groupPlan declares a pool of one endpoint whose monitors are members: "a"
// votes, "a!" must be healthy, "a-" has no say.
func groupPlan(table *Table, members ...string) *testPlan {
	k := Key{Pool: "web", Endpoint: "a0", Address: "192.0.2.1"}
	e := table.Endpoint(k, len(members) > 0)
	p := new(testPlan)
	for _, m := range members {
		name := strings.TrimRight(m, "!-")
		interval := 10 * time.Second
		if name == "slow" {
			interval = time.Minute
		}
		p.targets = append(p.targets, Target{
			Key: k, Endpoint: e, Host: k.Address, Port: 80, Member: name,
			MustBeHealthy: strings.HasSuffix(m, "!"), MonitoringOnly: strings.HasSuffix(m, "-"),
			Monitor: monitor(func(m *model.Monitor) { m.Name, m.Interval = name, interval }),
		})
	}
	p.pools = append(p.pools, table.Pool("web", []Member{{Endpoint: e, Enabled: true}}, 1))
	return p
}

// inGroup runs a test with a group in force whose members have all passed.
func inGroup(t *testing.T, run func(t *testing.T, table *Table, c *Checker, f *memberProber, e *Endpoint, lines *logLines), members ...string) {
	synctest.Test(t, func(t *testing.T) {
		log, lines := newLog(t)
		f := &memberProber{answers: make(map[string]Result), counts: make(map[string]int)}
		for i, m := range members {
			f.answers[strings.TrimRight(m, "!-")] = Result{RTT: time.Duration(i+1) * 10 * time.Millisecond}
		}
		table := NewTable(log)
		c := newChecker(CheckerConfig{Table: table}, f.probe)
		defer c.Close()
		p := groupPlan(table, members...)
		c.Prime(t.Context(), p.targets)
		use(table, c, p)
		if v := p.targets[0].Endpoint.Verdict(); v != Healthy {
			t.Fatalf("verdict = %v, want healthy", v)
		}
		lines.take()
		run(t, table, c, f, p.targets[0].Endpoint, lines)
	})
}

// pass lets each of the members with the usual interval be checked.
func pass() {
	time.Sleep(11 * time.Second)
	synctest.Wait()
}

func wantVerdict(t *testing.T, e *Endpoint, want Verdict) {
	t.Helper()
	if v := e.Verdict(); v != want {
		t.Errorf("verdict = %v, want %v; %+v", v, want, e.Detail())
	}
}

func TestGroupMajority(t *testing.T) {
	inGroup(t, func(t *testing.T, _ *Table, _ *Checker, f *memberProber, e *Endpoint, lines *logLines) {
		f.set("b", refused)
		pass()
		wantVerdict(t, e, Healthy)
		d := e.Detail()
		if d.Failure != FailureRefused || d.Cause != `monitor "b": connection refused` || d.RTT != 20*time.Millisecond {
			t.Errorf("detail = %+v, want the failure of b and the mean of a and c", d)
		}
		if l := strings.Join(lines.take(), "\n"); !strings.Contains(l, `msg="monitor verdict changed" pool=web endpoint=a0 address=192.0.2.1 monitor=b verdict=unhealthy reason="TCP connection failed" error="connection refused"`) || strings.Contains(l, "endpoint health") {
			t.Errorf("logged %s", l)
		}
		f.set("c", failed(FailureCode, "got 503, want 2xx"))
		pass()
		wantVerdict(t, e, Unhealthy)
		if l := strings.Join(lines.take(), "\n"); !strings.Contains(l, `msg="endpoint health changed" pool=web endpoint=a0 address=192.0.2.1 verdict=unhealthy reason="TCP connection failed" error="monitor \"b\": connection refused"`) {
			t.Errorf("logged %s", l)
		}
		f.set("b", passed)
		pass()
		wantVerdict(t, e, Healthy)
		if l := strings.Join(lines.take(), "\n"); !strings.Contains(l, `verdict=healthy reason="fewer monitors fail than decide" error="monitor \"c\": got 503, want 2xx"`) {
			t.Errorf("logged %s", l)
		}
		f.set("c", passed)
		pass()
		if d := e.Detail(); d.Failure != "" || d.Cause != "" || len(d.Monitors) != 3 {
			t.Errorf("detail = %+v, want no failure", d)
		}
	}, "a", "b", "c")
}

func TestGroupMustBeHealthy(t *testing.T) {
	inGroup(t, func(t *testing.T, _ *Table, _ *Checker, f *memberProber, e *Endpoint, _ *logLines) {
		f.set("a", failed(FailureCode, "got 503, want 2xx"))
		pass()
		wantVerdict(t, e, Healthy)
		f.set("a", passed)
		f.set("must", refused)
		pass()
		wantVerdict(t, e, Unhealthy)
		f.set("a", failed(FailureCode, "got 503, want 2xx"))
		pass()
		if d := e.Detail(); d.Failure != FailureRefused {
			t.Errorf("detail = %+v, want the failure of the one that must be healthy", d)
		}
		f.set("must", passed)
		pass()
		wantVerdict(t, e, Healthy)
	}, "a", "b", "must!")
}

func TestGroupMonitoringOnly(t *testing.T) {
	inGroup(t, func(t *testing.T, table *Table, _ *Checker, f *memberProber, e *Endpoint, lines *logLines) {
		f.set("watch", Result{RTT: time.Hour})
		pass()
		if rtt := e.Detail().RTT; rtt != 10*time.Millisecond {
			t.Errorf("round trip %v, want that of the member with a say", rtt)
		}
		f.set("watch", refused)
		pass()
		wantVerdict(t, e, Healthy)
		d := e.Detail()
		if d.Failure != "" || len(d.Monitors) != 2 || d.Monitors[1].Verdict != Unhealthy || d.Monitors[1].Failure != FailureRefused || !d.Monitors[1].MonitoringOnly {
			t.Errorf("detail = %+v, want the failure with the monitor only", d)
		}
		if l := strings.Join(lines.take(), "\n"); strings.Count(l, "monitor verdict changed") != 1 || strings.Contains(l, "endpoint health") {
			t.Errorf("logged %s, want the monitor's change alone", l)
		}
		if average, _ := e.Latency().Value(); average > 11*time.Millisecond {
			t.Errorf("latency %v, want that of the member with a say", average)
		}
	}, "a", "watch-")
}

// TestGroupIntervals: the last result of a member is valid until its next.
func TestGroupIntervals(t *testing.T) {
	inGroup(t, func(t *testing.T, _ *Table, _ *Checker, f *memberProber, e *Endpoint, _ *logLines) {
		f.set("slow", refused)
		time.Sleep(61 * time.Second)
		synctest.Wait()
		wantVerdict(t, e, Healthy) // one of two
		f.set("slow", passed)
		n := f.count("slow")
		f.set("a", refused)
		pass()
		if f.count("slow") != n {
			t.Fatal("the slow monitor was checked again")
		}
		wantVerdict(t, e, Unhealthy)
		time.Sleep(61 * time.Second)
		synctest.Wait()
		wantVerdict(t, e, Healthy)
		if d := e.Detail(); d.Monitors[0].Verdict != Unhealthy || d.Monitors[1].Verdict != Healthy {
			t.Errorf("detail = %+v", d)
		}
	}, "a", "slow")
}

// TestGroupLatency: samples are the mean over what has passed.
func TestGroupLatency(t *testing.T) {
	inGroup(t, func(t *testing.T, table *Table, _ *Checker, f *memberProber, e *Endpoint, _ *logLines) {
		f.set("a", Result{RTT: 10 * time.Millisecond})
		f.set("b", Result{RTT: 30 * time.Millisecond})
		for range 100 {
			pass()
		}
		if average, _ := e.Latency().Value(); average < 19*time.Millisecond || average > 21*time.Millisecond {
			t.Errorf("latency %v, want the mean, 20 ms", average)
		}
		f.set("b", refused)
		for range 100 {
			pass()
		}
		if average, _ := e.Latency().Value(); average < 9*time.Millisecond || average > 11*time.Millisecond {
			t.Errorf("latency %v, want that of what passes, 10 ms", average)
		}
	}, "a", "b", "c-")
}

// TestGroupStreaks: the monitors count in a row each for itself.
func TestGroupStreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _ := newLog(t)
		f := &memberProber{answers: map[string]Result{"a": passed}, counts: make(map[string]int)}
		table := NewTable(log)
		c := newChecker(CheckerConfig{Table: table}, f.probe)
		defer c.Close()
		p := groupPlan(table, "a")
		p.targets[0].Monitor.ConsecutiveDown = 3
		c.Prime(t.Context(), p.targets)
		use(table, c, p)
		f.set("a", refused)
		for want := range 3 {
			wantVerdict(t, p.targets[0].Endpoint, Healthy)
			for f.count("a") < want+2 {
				time.Sleep(10 * time.Millisecond)
				synctest.Wait()
			}
		}
		wantVerdict(t, p.targets[0].Endpoint, Unhealthy)
	})
}

// TestGroupReload: what the members have said counts at once for a group that
// has changed, and stays as long as a member does.
func TestGroupReload(t *testing.T) {
	inGroup(t, func(t *testing.T, table *Table, c *Checker, f *memberProber, e *Endpoint, lines *logLines) {
		f.set("b", refused)
		pass()
		apply := func(members ...string) {
			t.Helper()
			p := groupPlan(table, members...)
			c.Prime(t.Context(), p.targets)
			use(table, c, p)
		}
		seen := func() string {
			var s []string
			for _, m := range e.Detail().Monitors {
				s = append(s, fmt.Sprintf("%s=%v", m.Monitor, m.Verdict))
			}
			return strings.Join(s, " ")
		}
		steps := []struct {
			name    string
			members []string
			want    Verdict
			seen    string
		}{
			{"as it was", []string{"a", "b"}, Healthy, "a=healthy b=unhealthy"},
			{"b must be healthy", []string{"a", "b!"}, Unhealthy, "a=healthy b=unhealthy"},
			{"no more", []string{"a", "b"}, Healthy, "a=healthy b=unhealthy"},
			{"b alone", []string{"b"}, Unhealthy, "b=unhealthy"},
			{"b without a say", []string{"b-", "a"}, Unhealthy, "b=unhealthy a=unknown"}, // a says nothing yet
		}
		for _, s := range steps {
			apply(s.members...)
			wantVerdict(t, e, s.want)
			if got := seen(); got != s.seen {
				t.Errorf("%s: %s, want %s", s.name, got, s.seen)
			}
		}
		pass()
		wantVerdict(t, e, Healthy)

		// Another monitor under the same name keeps what was said.
		changed := groupPlan(table, "a", "b")
		changed.targets[1].Monitor.Path, changed.targets[1].Monitor.ConsecutiveUp = "/other", 2
		f.set("b", passed)
		use(table, c, changed)
		if got := seen(); got != "a=healthy b=unhealthy" {
			t.Errorf("%s after the monitor has changed", got)
		}
		wantVerdict(t, e, Healthy)

		// One monitor in place of the group, no group at all, and back.
		single := groupPlan(table, "a")
		single.targets[0].Member = ""
		f.set("", refused)
		use(table, c, single)
		wantVerdict(t, e, Healthy)
		if got := seen(); got != "" {
			t.Errorf("%s with one monitor", got)
		}
		pass()
		wantVerdict(t, e, Unhealthy)
		apply("a", "b")
		wantVerdict(t, e, Unhealthy) // until they have said something
		if d := e.Detail(); d.Failure != FailureRefused || seen() != "a=unknown b=unknown" {
			t.Errorf("detail = %+v, want what was found last", d)
		}
		pass()
		wantVerdict(t, e, Healthy)
		apply()
		wantVerdict(t, e, Unmonitored)
		apply("a", "b")
		wantVerdict(t, e, Unmonitored)
		apply()
		if got := seen(); got != "" {
			t.Errorf("%s without monitors", got)
		}
	}, "a", "b")
}

// TestGroupPrime: a start waits for what decides.
func TestGroupPrime(t *testing.T) {
	for _, c := range []struct {
		name    string
		members []string
		answers map[string]Result // a member without one stays silent
		want    Verdict
		took    time.Duration
	}{
		{"all pass", []string{"a", "b"}, map[string]Result{"a": passed, "b": passed}, Healthy, 0},
		{"one of two passes", []string{"a", "b"}, map[string]Result{"a": passed, "b": refused}, Healthy, 0},
		{"one fails that must not", []string{"a", "b!"}, map[string]Result{"a": passed, "b": refused}, Unhealthy, 0},
		{"half is enough, for the grace", []string{"a", "b"}, map[string]Result{"a": passed}, Healthy, primeGrace},
		{"one that has no say is silent", []string{"a", "b-"}, map[string]Result{"a": passed}, Healthy, primeGrace},
		{"one that decides is silent", []string{"a", "b!"}, map[string]Result{"a": passed}, Unhealthy, 2 * time.Second},
		{"two of three are silent", []string{"a", "b", "c"}, map[string]Result{"a": passed}, Unhealthy, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, _ := newLog(t)
				f := &memberProber{answers: c.answers, counts: make(map[string]int)}
				table := NewTable(log)
				checker := newChecker(CheckerConfig{Table: table}, f.probe)
				defer checker.Close()
				p := groupPlan(table, c.members...)
				for i := range p.targets {
					p.targets[i].Monitor.Timeout = 2 * time.Second
				}
				begin := time.Now()
				checker.Prime(t.Context(), p.targets)
				if d := time.Since(begin); d < c.took || d > c.took+200*time.Millisecond {
					t.Errorf("took %v, want %v", d, c.took)
				}
				wantVerdict(t, p.targets[0].Endpoint, c.want)
				if s := checker.Stats(); s.Targets != len(c.members) {
					t.Errorf("%d targets, want %d", s.Targets, len(c.members))
				}
			})
		})
	}
}
