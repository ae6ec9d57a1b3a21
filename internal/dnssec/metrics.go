package dnssec

import "fairlead/internal/telemetry"

var (
	descMade = &telemetry.Desc{
		Name: "fairlead_dnssec_signatures_total",
		Help: "Signatures made: for an answer that was never given before, ahead of the expiry of one that is in use, or with new keys.",
		Kind: telemetry.CounterKind, Labels: []string{"zone", "cause"},
	}
	descRefused = &telemetry.Desc{
		Name: "fairlead_dnssec_signatures_refused_total",
		Help: "Signatures not made because the signature_limit of the zone was reached.",
		Kind: telemetry.CounterKind, Labels: []string{"zone"},
	}
	descLookups = &telemetry.Desc{
		Name: "fairlead_dnssec_cache_lookups_total",
		Help: "Signatures looked for among those that are kept.",
		Kind: telemetry.CounterKind, Labels: []string{"result"},
	}
	descEntries  = &telemetry.Desc{Name: "fairlead_dnssec_cache_entries", Help: "Signed answers that are kept.", Kind: telemetry.GaugeKind}
	descCapacity = &telemetry.Desc{Name: "fairlead_dnssec_cache_capacity_entries", Help: "Signed answers that can be kept.", Kind: telemetry.GaugeKind}
	descEvicted  = &telemetry.Desc{
		Name: "fairlead_dnssec_cache_evictions_total",
		Help: "Signed answers that were given up for others because there was no room.",
		Kind: telemetry.CounterKind,
	}
)

// Collect implements telemetry.Source for what all zones share.
func (s *Signer) Collect(e *telemetry.Emitter) {
	var hits, misses uint64
	for i := range s.count {
		hits += s.count[i].hits.Load()
		misses += s.count[i].misses.Load()
	}
	e.Counter(descLookups, hits, "hit")
	e.Counter(descLookups, misses, "miss")
	entries := 0
	for i := range s.cache.sets {
		for j := range s.cache.sets[i] {
			if s.cache.sets[i][j].Load() != nil {
				entries++
			}
		}
	}
	e.Gauge(descEntries, float64(entries))
	e.Gauge(descCapacity, float64(len(s.cache.sets)*ways))
	e.Counter(descEvicted, s.cache.evicted.Load())
}

// Collect implements telemetry.Source for one zone.
func (z *Zone) Collect(e *telemetry.Emitter) {
	for i, cause := range causes {
		e.Counter(descMade, z.made[i].Load(), z.text, cause)
	}
	e.Counter(descRefused, z.refused.Load(), z.text)
}
