package health

import (
	"log/slog"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// Verdict is what is known about one endpoint.
type Verdict uint32

// The verdicts. Unknown counts as unhealthy in steering; Unmonitored counts
// as healthy.
const (
	Unknown Verdict = iota
	Healthy
	Unhealthy
	Unmonitored
)

// String returns the verdict's name in logs and status.
func (v Verdict) String() string {
	return [...]string{"unknown", "healthy", "unhealthy", "unmonitored"}[v]
}

// Key identifies an endpoint across reloads: the same name at another
// address is another endpoint.
type Key struct{ Pool, Endpoint, Address string }

// Endpoint is the observed state of one endpoint. Readers are many and never
// lock; only the Table writes.
type Endpoint struct {
	Key     Key
	verdict atomic.Uint32
	latency Average
	detail  atomic.Pointer[Detail]
}

// Detail is what status shows beside a verdict. A stored Detail is never
// written again.
type Detail struct {
	Since   time.Time     // when the verdict began
	Checked time.Time     // when the last check ended
	Failure string        // why the last check failed; "" when it passed
	Code    int           // the answer's status code, 0 when there was none
	RTT     time.Duration // of the last passed check, 0 when there was none
}

// Verdict returns what is known now.
func (e *Endpoint) Verdict() Verdict { return Verdict(e.verdict.Load()) }

// Up reports whether traffic may be sent to the endpoint.
func (e *Endpoint) Up() bool {
	v := e.Verdict()
	return v == Healthy || v == Unmonitored
}

// Latency returns the moving average of the endpoint's probe round trips.
func (e *Endpoint) Latency() *Average { return &e.latency }

// Detail returns what is known beside the verdict.
func (e *Endpoint) Detail() Detail {
	if d := e.detail.Load(); d != nil {
		return *d
	}
	return Detail{}
}

// Average is an exponentially weighted moving average for samples at
// irregular intervals (Eckner, "Algorithms for Unevenly Spaced Time Series"):
// w = exp(-dt/tau); average = sample*(1-w) + average*w. It has one writer.
type Average struct {
	bits  atomic.Uint64 // of a float64, nanoseconds; 0 is no sample
	first atomic.Int64  // unix nanoseconds of the first sample
	last  atomic.Int64  // unix nanoseconds of the newest sample
}

// tau is the mean lifetime of a sample: half of what is older than 41 s is
// forgotten at each such step, which smooths single slow probes and follows a
// lasting change within a few minutes.
const tau = 60 * time.Second

// Value returns the average and whether there is one.
func (a *Average) Value() (time.Duration, bool) {
	b := a.bits.Load()
	return time.Duration(math.Float64frombits(b)), b != 0
}

// Since returns when the first sample was taken; the zero time when none was.
func (a *Average) Since() time.Time {
	if f := a.first.Load(); f != 0 {
		return time.Unix(0, f)
	}
	return time.Time{}
}

// observe adds a sample taken at now. Only the table calls it.
func (a *Average) observe(sample time.Duration, now time.Time) {
	sample = max(sample, 1)
	old := a.bits.Load()
	if old == 0 {
		a.first.Store(now.UnixNano())
		a.bits.Store(math.Float64bits(float64(sample)))
	} else {
		dt := max(now.UnixNano()-a.last.Load(), 0)
		w := math.Exp(-float64(dt) / float64(tau))
		a.bits.Store(math.Float64bits(float64(sample)*(1-w) + math.Float64frombits(old)*w))
	}
	a.last.Store(now.UnixNano())
}

// PoolState sums up the endpoints of a pool.
type PoolState uint32

// The pool states. A critical pool is out of all steering.
const (
	PoolCritical PoolState = iota
	PoolDegraded
	PoolHealthy
)

// String returns the state's name in logs and status.
func (s PoolState) String() string { return [...]string{"critical", "degraded", "healthy"}[s] }

// Pool is one plan's view of a pool: which of its endpoints may take traffic,
// as a set of bits by position, kept current by the Table. Reading it costs
// one or two atomic loads.
type Pool struct {
	name    string
	members []Member
	minimum int
	state   atomic.Uint32
	up      atomic.Int32
	bits    []atomic.Uint64
	profile *Average
}

// Member is an endpoint at its position in a pool.
type Member struct {
	Endpoint *Endpoint
	// Enabled is false for an endpoint that takes no traffic whatever its
	// health.
	Enabled bool
}

// Name returns the pool's name.
func (p *Pool) Name() string { return p.name }

// State returns the pool's state.
func (p *Pool) State() PoolState { return PoolState(p.state.Load()) }

// Usable reports whether steering may choose the pool.
func (p *Pool) Usable() bool { return p.State() != PoolCritical }

// UpCount returns how many enabled endpoints are up.
func (p *Pool) UpCount() int { return int(p.up.Load()) }

// Up reports whether the endpoint at position i is enabled and up.
func (p *Pool) Up(i int) bool { return p.bits[i>>6].Load()&(1<<(i&63)) != 0 }

// Profile returns the moving average of the round trips of all passed probes
// of the pool. It outlives reloads.
func (p *Pool) Profile() *Average { return p.profile }

// refresh recomputes the view; the table's lock is held.
func (p *Pool) refresh() {
	up, enabled := 0, 0
	for w := range p.bits {
		var word uint64
		for i := w * 64; i < min(len(p.members), w*64+64); i++ {
			if !p.members[i].Enabled {
				continue
			}
			enabled++
			if p.members[i].Endpoint.Up() {
				word |= 1 << (i & 63)
			}
		}
		p.bits[w].Store(word)
		up += bits.OnesCount64(word)
	}
	s := PoolDegraded
	switch {
	case up < p.minimum || up == 0:
		s = PoolCritical
	case up == enabled:
		s = PoolHealthy
	}
	p.up.Store(int32(up))
	p.state.Store(uint32(s))
}

// Table holds what is observed of every endpoint and pool. It outlives plans:
// a reload never resets a verdict of an endpoint that is still declared.
type Table struct {
	log *slog.Logger

	mu        sync.Mutex
	endpoints map[Key]*Endpoint
	profiles  map[string]*Average
	pools     map[*Pool]struct{} // live views: of the current plan, the one before, and one being compiled
	logged    map[string]PoolState
	changes   map[Key]uint64 // verdict changes of each endpoint, for metrics
}

// NewTable returns an empty table that logs changes to log.
func NewTable(log *slog.Logger) *Table {
	return &Table{
		log:       log,
		endpoints: make(map[Key]*Endpoint),
		profiles:  make(map[string]*Average),
		pools:     make(map[*Pool]struct{}),
		logged:    make(map[string]PoolState),
		changes:   make(map[Key]uint64),
	}
}

// Endpoint finds the state of an endpoint, or makes it. monitored says whether
// a monitor is attached: one that was unmonitored and now has a monitor keeps
// its place in steering until its first verdict, so that attaching a monitor
// to a pool under traffic does not empty it.
func (t *Table) Endpoint(k Key, monitored bool) *Endpoint {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.endpoints[k]
	if e == nil {
		e = &Endpoint{Key: k}
		t.endpoints[k] = e
		if !monitored {
			e.verdict.Store(uint32(Unmonitored))
		}
	}
	return e
}

// Pool makes a plan's view of a pool. The view is kept current until Keep is
// called without it.
func (t *Table) Pool(name string, members []Member, minimum int) *Pool {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.profiles[name]
	if a == nil {
		a = new(Average)
		t.profiles[name] = a
	}
	p := &Pool{name: name, members: members, minimum: minimum, profile: a, bits: make([]atomic.Uint64, (len(members)+63)/64)}
	p.refresh()
	t.pools[p] = struct{}{}
	return p
}
