package health

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead/internal/model"
)

// logLines collects what is logged, one line for each record, and passes it
// on to t.Log.
type logLines struct {
	t  *testing.T
	mu sync.Mutex
	l  []string
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := strings.TrimSpace(string(b))
	l.l = append(l.l, s)
	l.t.Log(s)
	return len(b), nil
}

// take returns the lines since the last call.
func (l *logLines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.l
	l.l = nil
	return s
}

// newLog returns a logger without times, and what it has written.
func newLog(t *testing.T) (*slog.Logger, *logLines) {
	l := &logLines{t: t}
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
			return slog.Attr{}
		}
		return a
	}})), l
}

// monitor returns a monitor with the defaults, changed by edit.
func monitor(edit func(*model.Monitor)) *model.Monitor {
	m := new(model.Monitor)
	m.SetDefaults()
	m.Interval, m.Timeout, m.Retries = 10*time.Second, time.Second, 0
	if edit != nil {
		edit(m)
	}
	return m
}

// plan declares pools of n endpoints in a table, as compiling a plan does.
type testPlan struct {
	pools   []*Pool
	targets []Target
}

// declare adds a pool with n endpoints a0, a1, ... and a monitor, nil for
// none.
func (p *testPlan) declare(t *Table, pool string, n int, m *model.Monitor) []*Endpoint {
	var members []Member
	var endpoints []*Endpoint
	for i := range n {
		k := Key{Pool: pool, Endpoint: fmt.Sprintf("a%d", i), Address: fmt.Sprintf("192.0.2.%d", i+1)}
		e := t.Endpoint(k, m != nil)
		members = append(members, Member{Endpoint: e, Enabled: true})
		endpoints = append(endpoints, e)
		if m != nil {
			p.targets = append(p.targets, Target{Key: k, Endpoint: e, Monitor: m, Host: k.Address, Port: 80})
		}
	}
	p.pools = append(p.pools, t.Pool(pool, members, 1))
	return endpoints
}

// event is one probe that a fake has seen.
type event struct {
	key Key
	at  time.Time
}

// fakeProber answers probes as the test says and records when they came. It
// fails the test when probes of one target overlap.
type fakeProber struct {
	t      *testing.T
	answer func(ctx context.Context, key Key, n int) Result // n counts the target's probes from 0

	mu      sync.Mutex
	counts  map[Key]int
	running map[Key]bool
	open    int
	most    int
	events  []event
}

func (f *fakeProber) probe(ctx context.Context, t *Target) Result {
	f.mu.Lock()
	if f.counts == nil {
		f.counts, f.running = make(map[Key]int), make(map[Key]bool)
	}
	if f.running[t.Key] {
		f.t.Errorf("two probes of %v at once", t.Key)
	}
	f.running[t.Key] = true
	n := f.counts[t.Key]
	f.counts[t.Key]++
	f.open++
	f.most = max(f.most, f.open)
	f.events = append(f.events, event{t.Key, time.Now()})
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.running[t.Key] = false
		f.open--
		f.mu.Unlock()
	}()
	if f.answer == nil {
		return Result{RTT: time.Millisecond, Code: 200}
	}
	return f.answer(ctx, t.Key, n)
}

// passed and refused are results of checks.
var (
	passed  = Result{RTT: 10 * time.Millisecond, Code: 200}
	refused = Result{Failure: FailureRefused, Cause: "connection refused"}
)

// silent waits until the attempt's time is over.
func silent(ctx context.Context) Result {
	<-ctx.Done()
	return failed(FailureTimeout, "no answer in time")
}

// burst returns the most events that any window of width w holds.
func burst(events []event, w time.Duration) int {
	most := 0
	for i := range events {
		n := 0
		for j := i; j < len(events) && events[j].at.Sub(events[i].at) < w; j++ {
			n++
		}
		most = max(most, n)
	}
	return most
}
