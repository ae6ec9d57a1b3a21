package dnslb

import (
	"cmp"
	"maps"
	"slices"

	"fairlead/internal/plan"
	"fairlead/internal/telemetry"
)

// sharded is a counter that workers do not share.
type sharded []telemetry.Counter

func (s sharded) inc(shard int) { s[shard].Inc() }

func (s sharded) sum() (n uint64) {
	for i := range s {
		n += s[i].Load()
	}
	return n
}

// balancerStats counts the answers of a load balancer. It outlives plans; the maps
// are guarded by Plane.mu.
type balancerStats struct {
	name  string
	none  sharded            // no pool could be used
	cut   telemetry.Counter  // answers with fewer addresses than there are
	pools map[string]sharded // by name
	rules map[string]sharded // by name
}

// balancerView is balancerStats as one plan uses it. It is not written.
type balancerView struct {
	*balancerStats
	pools map[*plan.Pool]sharded
	rules []sharded // by rule index
}

func (v *balancerView) count(p *plan.Pool, shard int) {
	if s := v.pools[p]; s != nil {
		s.inc(shard)
	}
}

// balancerViews returns the counters of the load balancers for which DNS chooses, by
// index; p.mu is held. Those of what is gone are forgotten.
func (p *Plane) balancerViews(pl *plan.Plan) []*balancerView {
	views := make([]*balancerView, len(pl.LoadBalancers))
	used := make(map[string]*balancerStats)
	kept := func(m map[string]sharded, next map[string]sharded, name string) sharded {
		s := m[name]
		if s == nil {
			s = make(sharded, p.shards)
		}
		next[name] = s
		return s
	}
	for _, z := range pl.Zones {
		for _, b := range z.Steered {
			if b.Proxied {
				continue
			}
			stats := p.balancers[b.Name]
			if stats == nil {
				stats = &balancerStats{name: b.Name, none: make(sharded, p.shards)}
			}
			used[b.Name] = stats
			v := &balancerView{balancerStats: stats, pools: make(map[*plan.Pool]sharded)}
			pools, rules := make(map[string]sharded), make(map[string]sharded)
			for _, pool := range b.Candidates() {
				v.pools[pool] = kept(stats.pools, pools, pool.Name)
			}
			for i := range b.Rules {
				v.rules = append(v.rules, kept(stats.rules, rules, b.Rules[i].Name))
			}
			stats.pools, stats.rules = pools, rules
			views[b.Index] = v
		}
	}
	p.balancers = used
	return views
}

var (
	descSteered = desc("fairlead_dns_steered_total", "Answers that load balancers chose, by pool (empty where none could be used).", telemetry.CounterKind, "load_balancer", "pool")
	descCut     = desc("fairlead_dns_addresses_cut_total", "Answers with as many addresses as one may have, of a pool that has more.", telemetry.CounterKind, "load_balancer")
	descRules   = desc("fairlead_dns_rule_matches_total", "Queries that a rule applied to.", telemetry.CounterKind, "load_balancer", "rule")
)

func (p *Plane) collectBalancers(e *telemetry.Emitter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	byName := func(a, b *balancerStats) int { return cmp.Compare(a.name, b.name) }
	for _, b := range slices.SortedFunc(maps.Values(p.balancers), byName) {
		e.Counter(descSteered, b.none.sum(), b.name, "")
		e.Counter(descCut, b.cut.Load(), b.name)
		for name, s := range b.pools {
			e.Counter(descSteered, s.sum(), b.name, name)
		}
		for name, s := range b.rules {
			e.Counter(descRules, s.sum(), b.name, name)
		}
	}
}
