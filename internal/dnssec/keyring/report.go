package keyring

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"fairlead/internal/dnssec"
	"fairlead/internal/model"
	"fairlead/internal/telemetry"
)

// KeyStatus is what is known of one key.
type KeyStatus struct {
	Key *dnssec.Key
	// State is as the package comment has it, with "given" for keys from files.
	State string
	// Since is when the state began; zero for given keys.
	Since time.Time
	// Announced is whether CDS and CDNSKEY ask the parent to point to it.
	Announced bool
}

// Report is what is known of the keys of a zone.
type Report struct {
	Zone string
	Keys []KeyStatus
	// Next is when something happens by itself, and What; zero for nothing.
	Next time.Time
	What string
}

// Read reads the keys of a zone from the files that a node works with.
func Read(c *model.Config, m *model.Zone, now time.Time) (*Report, error) {
	o, name := m.Signing(), model.CanonicalHost(m.Name)
	r := &Report{Zone: name}
	if len(o.KeyFiles) > 0 {
		list, err := readGiven(o.KeyFiles, name)
		if err != nil {
			return nil, err
		}
		keys, err := keysOf(list, &o, now)
		if err != nil {
			return nil, err
		}
		for _, g := range list {
			r.Keys = append(r.Keys, KeyStatus{Key: g.key, State: "given", Announced: slices.Contains(keys.Announce, g.key)})
		}
		return r, nil
	}
	s, err := loadState(zoneDir(c.DataDir, name), name)
	if err != nil {
		return nil, err
	}
	p := policyOf(c, m)
	keys := s.keys(p.withdraw)
	for _, k := range s.Keys {
		announced := !p.withdraw && slices.Contains(keys.Announce, k.key)
		r.Keys = append(r.Keys, KeyStatus{k.key, string(k.Phase), k.Since, announced})
	}
	r.Next, r.What = s.next(&p, now)
	return r, nil
}

var (
	descKeys = &telemetry.Desc{
		Name: "fairlead_dnssec_keys", Help: "DNSSEC keys of a zone by role and state.",
		Kind: telemetry.GaugeKind, Labels: []string{"zone", "role", "state"},
	}
	descFailures = &telemetry.Desc{
		Name: "fairlead_dnssec_key_failures_total", Help: "Times that the keys of a zone stayed as they were because of an error.",
		Kind: telemetry.CounterKind, Labels: []string{"zone"},
	}
	descUnasked = &telemetry.Desc{
		Name: "fairlead_dnssec_parent_failures_total", Help: "Times that the parent did not say which DS records it has.",
		Kind: telemetry.CounterKind, Labels: []string{"zone"},
	}
)

// Collect implements telemetry.Source.
func (m *Manager) Collect(e *telemetry.Emitter) {
	m.mu.Lock()
	zones := slices.SortedFunc(maps.Values(m.zones), func(a, b *zone) int { return cmp.Compare(a.name, b.name) })
	m.mu.Unlock()
	if len(zones) == 0 {
		return
	}
	m.signer.Collect(e)
	for _, z := range zones {
		z.sign.Collect(e)
		e.Counter(descFailures, z.failures.Load(), z.name)
		e.Counter(descUnasked, z.unasked.Load(), z.name)
		for r, count := range z.counts() {
			for p, n := range count {
				e.Gauge(descKeys, float64(n), z.name, string(r), string(p))
			}
		}
	}
}

// counts returns how many keys there are by role and phase.
func (z *zone) counts() map[role]map[phase]int {
	z.mu.Lock()
	defer z.mu.Unlock()
	out := make(map[role]map[phase]int)
	add := func(r role, p phase) {
		if out[r] == nil {
			out[r] = make(map[phase]int)
		}
		out[r][p]++
	}
	if len(z.given) > 0 {
		for _, g := range z.given {
			r := zsk
			if g.key.KSK() {
				r = ksk
			}
			add(r, "given")
		}
		return out
	}
	for _, r := range []role{ksk, zsk} {
		out[r] = make(map[phase]int)
		for _, p := range phases[r] {
			out[r][p] = 0
		}
	}
	for _, k := range z.state.Keys {
		add(k.Role, k.Phase)
	}
	return out
}
