package health

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Table holds what is observed of every endpoint and pool. It outlives plans:
// a reload never resets a verdict of an endpoint that is still declared.
type Table struct {
	log *slog.Logger

	mu        sync.Mutex
	endpoints map[Key]*Endpoint
	profiles  map[string]*Average
	// views by pool name, oldest first: of the plan in force, the one before,
	// and one being compiled.
	views map[string][]*Pool
	// announced is the state of each pool of the plan in force that was logged
	// last.
	announced map[string]announced
}

// announced is what was told about a pool, and how often.
type announced struct {
	view    *Pool
	told    bool
	state   PoolState
	changes uint64
}

// NewTable returns an empty table that logs changes to log.
func NewTable(log *slog.Logger) *Table {
	return &Table{
		log:       log,
		endpoints: make(map[Key]*Endpoint),
		profiles:  make(map[string]*Average),
		views:     make(map[string][]*Pool),
		announced: make(map[string]announced),
	}
}

// Endpoint finds the state of an endpoint, or makes it. monitored says whether
// a monitor is attached, which holds for the views that [Table.Pool] makes
// afterwards. One that was unmonitored and now has a monitor keeps its place
// in steering until its first verdict, so that attaching a monitor to a pool
// under traffic does not empty it. One whose monitor was taken away becomes
// unmonitored when its view is put in force by [Table.Keep], not before: the
// plan being compiled may yet be refused.
func (t *Table) Endpoint(k Key, monitored bool) *Endpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.endpoints[k]
	if e == nil {
		e = &Endpoint{Key: k, table: t}
		e.detail.Store(&Detail{Since: time.Now()})
		t.endpoints[k] = e
		if !monitored {
			e.verdict.Store(uint32(Unmonitored))
		}
	}
	e.monitored = monitored
	return e
}

// Pool makes a plan's view of a pool from members that [Table.Endpoint]
// returned. The view is kept current until [Table.Keep] is called without it.
func (t *Table) Pool(name string, members []Member, minimum int) *Pool {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.profiles[name]
	if a == nil {
		a = new(Average)
		t.profiles[name] = a
	}
	p := &Pool{
		name: name, members: members, minimum: minimum, profile: a,
		monitored: make([]bool, len(members)),
		bits:      make([]atomic.Uint64, (len(members)+63)/64),
	}
	for i, m := range members {
		p.monitored[i] = m.Endpoint.monitored
		if m.Enabled {
			p.enabled++
		}
	}
	p.refresh()
	t.views[name] = append(t.views[name], p)
	return p
}

// Keep puts the views of the current plan in force: changes of their states
// are logged from now on, and their endpoints without a monitor become
// unmonitored. previous are views that are still read, of the plan before;
// they stay current as well, unlogged. All other views are forgotten, and so
// is every endpoint and profile that is in neither.
func (t *Table) Keep(current, previous []*Pool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	views := make(map[string][]*Pool, len(current))
	used := make(map[*Endpoint]bool)
	for _, p := range slices.Concat(previous, current) {
		if slices.Contains(views[p.name], p) {
			continue
		}
		views[p.name] = append(views[p.name], p)
		for _, m := range p.members {
			used[m.Endpoint] = true
		}
	}
	for _, p := range current {
		for _, m := range p.members {
			m.Endpoint.settle()
		}
	}
	t.views = views
	maps.DeleteFunc(t.endpoints, func(_ Key, e *Endpoint) bool { return !used[e] })
	maps.DeleteFunc(t.profiles, func(name string, _ *Average) bool { return views[name] == nil })

	inForce := make(map[string]announced, len(current))
	for _, p := range current {
		a := t.announced[p.name]
		a.view = p
		inForce[p.name] = a
	}
	t.announced = inForce
	now := time.Now()
	for _, p := range current {
		for i, m := range p.members {
			m.Endpoint.monitored = p.monitored[i]
			switch {
			case p.monitored[i]:
			case m.Endpoint.Verdict() != Unmonitored:
				t.setVerdict(m.Endpoint, Unmonitored, "no monitor", &Detail{Since: now})
			case m.Endpoint.Detail().Monitors != nil: // of a group that never came to a verdict
				m.Endpoint.detail.Store(&Detail{Since: m.Endpoint.Detail().Since})
			}
		}
		t.refresh(p.name)
	}
}

// finding is what there is to write of an endpoint.
type finding struct {
	verdict        Verdict
	reason         string // of a change of the verdict
	checked        time.Time
	failure, cause string
	code           int
	rtt            time.Duration // 0 when nothing passed
	sample         bool          // the round trip is new
	monitors       []MonitorDetail
}

// record writes what a check of an endpoint's only monitor found.
func (t *Table) record(e *Endpoint, v Verdict, r Result, now time.Time) {
	t.write(e, finding{
		verdict: v, reason: r.Reason(), checked: now, failure: r.Failure, cause: r.Cause, code: r.Code,
		rtt: r.RTT, sample: r.Passed(),
	}, now)
}

// write writes what was found. It is the only writer of verdicts that come from
// probes. An endpoint that was forgotten meanwhile is left alone.
func (t *Table) write(e *Endpoint, f finding, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.endpoints[e.Key] != e {
		return
	}
	d := e.Detail()
	d.Monitors = f.monitors
	if !f.checked.IsZero() { // else the group has found nothing yet
		d.Checked, d.Failure, d.Cause, d.Code = f.checked, f.failure, f.cause, f.code
	}
	if f.rtt > 0 || f.sample {
		d.RTT = f.rtt
	}
	if f.sample {
		e.latency.observe(f.rtt, now)
		if a := t.profiles[e.Key.Pool]; a != nil {
			a.observe(f.rtt, now)
		}
	}
	if f.verdict == e.Verdict() {
		e.detail.Store(&d)
		return
	}
	d.Since = now
	t.setVerdict(e, f.verdict, f.reason, &d)
	t.refresh(e.Key.Pool)
}

// alone forgets what the monitors of a group said of an endpoint that has one
// monitor now.
func (t *Table) alone(e *Endpoint) {
	if e.Detail().Monitors == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	d := e.Detail()
	d.Monitors = nil
	e.detail.Store(&d)
}

// logMember tells that a monitor of a group has changed its mind, which need
// not change the verdict.
func (t *Table) logMember(target *Target, v Verdict, r Result) {
	k := target.Key
	attrs := []any{"pool", k.Pool, "endpoint", k.Endpoint, "address", k.Address, "monitor", target.Member, "verdict", v.String(), "reason", r.Reason()}
	if r.Cause != "" {
		attrs = append(attrs, "error", r.Cause)
	}
	t.log.Info("monitor verdict changed", attrs...)
}

// setVerdict changes and logs a verdict; the lock is held, and refresh must
// follow.
func (t *Table) setVerdict(e *Endpoint, v Verdict, reason string, d *Detail) {
	e.detail.Store(d)
	e.verdict.Store(uint32(v))
	e.changes++
	attrs := []any{"pool", e.Key.Pool, "endpoint", e.Key.Endpoint, "address", e.Key.Address, "verdict", v.String(), "reason", reason}
	if d.Cause != "" {
		attrs = append(attrs, "error", d.Cause)
	}
	t.log.Info("endpoint health changed", attrs...)
}

// refresh brings a pool's views up to date and logs what that changes; the
// lock is held.
func (t *Table) refresh(pool string) {
	for _, p := range t.views[pool] {
		p.refresh()
	}
	t.announce(pool)
}

// announce logs the state of a pool of the plan in force if it is not what was
// logged last; the lock is held. A pool that starts out healthy because
// nothing watches it is no news.
func (t *Table) announce(name string) {
	a, ok := t.announced[name]
	if !ok {
		return
	}
	s := a.view.State()
	if a.told && a.state == s {
		return
	}
	news := a.told || s != PoolHealthy || slices.Contains(a.view.monitored, true)
	a.told, a.state = true, s
	if news {
		a.changes++
		t.log.Info("pool health changed", "pool", name, "state", s.String(), "up", a.view.UpCount(), "of", a.view.enabled)
	}
	t.announced[name] = a
}

// usable reports whether the newest view of a pool is; a pool that has no view
// is not.
func (t *Table) usable(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := t.views[name]
	return len(v) > 0 && v[len(v)-1].Usable()
}

// Snapshot is the whole table at one moment, for metrics.
type Snapshot struct {
	Endpoints []EndpointSnapshot // by pool, endpoint, address
	Pools     []PoolSnapshot     // of the plan in force, by name
}

// EndpointSnapshot is one endpoint at one moment.
type EndpointSnapshot struct {
	Key       Key
	Verdict   Verdict
	Detail    Detail
	Latency   time.Duration // 0 when there is none yet
	Changes   uint64        // of the verdict, the first one included
	Ejections uint64
}

// PoolSnapshot is one pool at one moment.
type PoolSnapshot struct {
	Name        string
	State       PoolState
	Up, Enabled int
	Latency     time.Duration // 0 when there is none yet
	Changes     uint64        // of the state, as often as it was logged
}

// Snapshot copies the table.
func (t *Table) Snapshot() Snapshot {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Snapshot{
		Endpoints: make([]EndpointSnapshot, 0, len(t.endpoints)),
		Pools:     make([]PoolSnapshot, 0, len(t.announced)),
	}
	for _, e := range t.endpoints {
		latency, _ := e.latency.Value()
		s.Endpoints = append(s.Endpoints, EndpointSnapshot{e.Key, e.Verdict(), e.Detail(), latency, e.changes, e.ejection.total})
	}
	for name, a := range t.announced {
		latency, _ := a.view.profile.Value()
		s.Pools = append(s.Pools, PoolSnapshot{name, a.view.State(), a.view.UpCount(), a.view.enabled, latency, a.changes})
	}
	slices.SortFunc(s.Endpoints, func(a, b EndpointSnapshot) int { return a.Key.compare(b.Key) })
	slices.SortFunc(s.Pools, func(a, b PoolSnapshot) int { return strings.Compare(a.Name, b.Name) })
	return s
}
