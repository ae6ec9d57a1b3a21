package health

import (
	"math/bits"
	"sync/atomic"
)

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
	name      string
	members   []Member
	monitored []bool // by position: whether a monitor is attached
	minimum   int
	enabled   int
	state     atomic.Uint32
	up        atomic.Int32
	bits      []atomic.Uint64
	profile   *Average
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

// EnabledCount returns how many endpoints are enabled.
func (p *Pool) EnabledCount() int { return p.enabled }

// Minimum returns how many endpoints have to be up for the pool not to be
// critical; with 0, one is enough.
func (p *Pool) Minimum() int { return p.minimum }

// Up reports whether the endpoint at position i is enabled and up.
func (p *Pool) Up(i int) bool { return p.bits[i>>6].Load()&(1<<(i&63)) != 0 }

// Profile returns the moving average of the round trips of all passed probes
// of the pool. It outlives reloads.
func (p *Pool) Profile() *Average { return p.profile }

// refresh recomputes the view; the table's lock is held.
func (p *Pool) refresh() {
	up := 0
	for w := range p.bits {
		var word uint64
		for i := w * 64; i < min(len(p.members), w*64+64); i++ {
			if p.members[i].Enabled && p.members[i].Endpoint.Up() {
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
	case up == p.enabled:
		s = PoolHealthy
	}
	p.up.Store(int32(up))
	p.state.Store(uint32(s))
}
