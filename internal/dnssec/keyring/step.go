package keyring

import (
	"slices"
	"time"

	"fairlead/internal/dnssec"
	"fairlead/internal/model"
)

// policy is what the configuration says about the keys of a zone.
type policy struct {
	algorithm                    dnssec.Algorithm
	zskLifetime, kskLifetime     time.Duration // 0 is never
	dnskeyTTL, propagation       time.Duration
	parentTTL, parentPropagation time.Duration
	longestTTL                   time.Duration // that is declared
	withdraw                     bool
	shortened                    waits // by tests, which show what comes of it
}

func policyOf(c *model.Config, z *model.Zone) policy {
	o := z.Signing()
	p := policy{
		algorithm:   dnssec.ECDSAP256SHA256,
		zskLifetime: o.ZSKLifetime, kskLifetime: o.KSKLifetime,
		dnskeyTTL: o.DNSKEYTTL, propagation: o.PropagationDelay,
		parentTTL: o.ParentDSTTL, parentPropagation: o.ParentPropagationDelay,
		longestTTL: z.LongestTTL(c), withdraw: o.Withdraw,
	}
	if o.Algorithm == model.Ed25519 {
		p.algorithm = dnssec.Ed25519
	}
	return p
}

// waits are the times for which caches may have what was before.
type waits struct {
	// unsigned is for answers without signatures, which a zone gave before it had
	// keys: whoever has a DS record would take them for forged.
	unsigned time.Duration
	// dnskey is for DNSKEY records without a key that was just published.
	dnskey time.Duration
	// signatures is for records that a key has signed last.
	signatures time.Duration
	// ds is for DS records that the parent has no more.
	ds time.Duration
}

func (p *policy) waits(s *state, now time.Time) waits {
	longest := max(p.longestTTL, s.LongestTTL.duration())
	w := waits{
		dnskey:     max(p.dnskeyTTL, s.LongUntil.Sub(now)) + p.propagation,
		signatures: longest + p.propagation,
		ds:         max(p.parentTTL, s.ParentTTL.duration()) + p.parentPropagation,
	}
	w.unsigned = max(longest+p.propagation, w.dnskey)
	w.unsigned -= p.shortened.unsigned
	w.dnskey -= p.shortened.dnskey
	w.signatures -= p.shortened.signatures
	w.ds -= p.shortened.ds
	return w
}

// observation is what those who were asked say about the DS records of a zone.
type observation struct {
	sets [][]dnssec.DS // of each
	ttl  time.Duration // the greatest
}

// published reports whether all of them have a DS record of a key.
func (o *observation) published(k *dnssec.Key) bool {
	for _, set := range o.sets {
		if !slices.ContainsFunc(set, func(d dnssec.DS) bool {
			want, ok := k.DS(d.DigestType)
			return ok && d.Tag == want.Tag && d.Algorithm == want.Algorithm && slices.Equal(d.Digest, want.Digest)
		}) {
			return false
		}
	}
	return len(o.sets) > 0
}

// gone reports whether none of them has one. A digest that we do not know counts
// by the key's tag.
func (o *observation) gone(k *dnssec.Key) bool {
	for _, set := range o.sets {
		if slices.ContainsFunc(set, func(d dnssec.DS) bool { return d.Tag == k.Tag() && d.Algorithm == k.Algorithm() }) {
			return false
		}
	}
	return len(o.sets) > 0
}

// demand is what the operator wants or knows.
type demand struct {
	rollZSK, rollKSK bool
	dsPublished      bool // of the key that is ready
	dsGone           bool // of the keys that are on their way out
}

// event is a change, which is logged.
type event struct {
	text string
	key  *key
	warn bool
	also []any // attributes
}

// input is what a step depends on beside the state.
type input struct {
	now time.Time
	// jump is how far the clock was set since the last step, ahead or back, while
	// the process ran.
	jump   time.Duration
	policy *policy
	seen   *observation // nil unless the parent has just answered
	demand demand
	// generate makes a key whose files are on the disk.
	generate func(role) (*key, error)
}

// step brings the state to where it should be now. An error leaves it half done:
// it is made on a copy.
func (s *state) step(in *input) (events []event, err error) {
	note := func(e event) { events = append(events, e) }
	if in.jump != 0 {
		s.shift(in.jump)
	}
	if s.reanchor(in.now) {
		note(event{text: "clock was set back: waits for DNSSEC keys begin anew", warn: true})
	}
	if ttl := seconds(in.policy.dnskeyTTL / time.Second); ttl != s.DNSKEYTTL {
		if until := in.now.Add(s.DNSKEYTTL.duration() + in.policy.propagation); ttl < s.DNSKEYTTL && until.After(s.LongUntil) {
			s.LongUntil = until
		}
		s.DNSKEYTTL = ttl
	}
	if in.seen != nil {
		s.ParentTTL = max(s.ParentTTL, seconds(in.seen.ttl/time.Second))
	}
	if err := s.stepZSK(in, note); err != nil {
		return events, err
	}
	return events, s.stepKSK(in, note)
}

// times returns everything that is written down as a time that has been.
func (s *state) times() (list []*time.Time) {
	for _, k := range s.Keys {
		for _, t := range []*time.Time{&k.Since, &k.Signs, &k.Gone} {
			if !t.IsZero() {
				list = append(list, t)
			}
		}
	}
	return list
}

// shift moves all times with the clock, so that no more and no less time has passed
// than did.
func (s *state) shift(jump time.Duration) {
	for _, t := range s.times() {
		*t = t.Add(jump)
	}
	if !s.LongUntil.IsZero() {
		s.LongUntil = s.LongUntil.Add(jump)
	}
}

// reanchor makes what was written down for a time that has not come yet begin now.
func (s *state) reanchor(now time.Time) (changed bool) {
	const tolerance = time.Minute // clocks are adjusted all the time
	for _, t := range s.times() {
		if t.After(now.Add(tolerance)) {
			*t, changed = now, true
		}
	}
	const longest = 2 * 168 * time.Hour // TTL and propagation delay
	if s.LongUntil.After(now.Add(longest + tolerance)) {
		s.LongUntil, changed = now.Add(longest), true
	}
	return changed
}

func (s *state) stepZSK(in *input, note func(event)) error {
	w := in.policy.waits(s, in.now)
	for _, k := range s.in(zsk, retired) {
		if k.over(in.now) {
			s.remove(k, note)
		}
	}
	for _, k := range s.in(zsk, published) {
		if !k.over(in.now) {
			continue
		}
		for _, old := range s.in(zsk, active) {
			old.enter(retired, in.now, w.signatures)
			note(event{text: "DNSSEC key is retired: it stays published while caches may have what it has signed", key: old})
		}
		k.enter(active, in.now, 0)
		k.Signs = in.now
		note(event{text: "DNSSEC key is active: it signs the zone", key: k})
	}
	if len(s.in(zsk, published)) > 0 {
		if in.demand.rollZSK {
			note(event{text: "rollover of the ZSK is under way already", warn: true})
		}
		return nil
	}
	current := s.in(zsk, active)[0]
	if due, ever := in.policy.zskDue(s, current, in.now); in.demand.rollZSK || ever && !in.now.Before(due) {
		k, err := in.generate(zsk)
		if err != nil {
			return err
		}
		k.enter(published, in.now, w.dnskey)
		s.Keys = append(s.Keys, k)
		note(event{text: "DNSSEC key is published: it signs once all caches have it", key: k})
	}
	return nil
}

// zskDue returns when the next ZSK is to be published, so that it can sign when the
// lifetime of the current one is over; false is never.
func (p *policy) zskDue(s *state, current *key, now time.Time) (time.Time, bool) {
	return current.Signs.Add(p.zskLifetime - p.waits(s, now).dnskey), p.zskLifetime != 0
}

func (s *state) stepKSK(in *input, note func(event)) error {
	w := in.policy.waits(s, in.now)
	s.stepWithdraw(in, note)
	s.stepGone(in, w.ds, note)
	for _, k := range s.in(ksk, published) {
		if k.over(in.now) && !in.policy.withdraw {
			k.enter(ready, in.now, 0)
			note(event{text: "DNSSEC key is ready: the parent should have its DS record", key: k, also: []any{"ds", dsText(k)}})
		}
	}
	for _, k := range s.in(ksk, ready) {
		if !in.demand.dsPublished && (in.seen == nil || !in.seen.published(k.key)) {
			continue
		}
		for _, old := range s.in(ksk, active) {
			old.enter(retired, in.now, 0)
			note(event{text: "DNSSEC key is retired: it stays until the parent's DS record of it is gone from all caches", key: old})
		}
		k.enter(active, in.now, 0)
		k.Signs = in.now
		note(event{text: "DNSSEC key is active: the parent has its DS record", key: k})
	}
	s.stepGone(in, w.ds, note) // of those just retired
	return s.startKSK(in, w.dnskey, note)
}

func (s *state) startKSK(in *input, wait time.Duration, note func(event)) error {
	current := s.in(ksk, active)
	due := len(current) == 1 && in.policy.kskLifetime != 0 && !in.now.Before(current[0].Signs.Add(in.policy.kskLifetime))
	if !due && !in.demand.rollKSK {
		return nil
	}
	if len(current) != 1 || len(s.in(ksk, phases[ksk]...)) != 1 || in.policy.withdraw {
		if in.demand.rollKSK {
			note(event{text: "rollover of the KSK does not begin: one is under way, or the parent has no DS record of the key yet", warn: true})
		}
		return nil
	}
	k, err := in.generate(ksk)
	if err != nil {
		return err
	}
	k.enter(published, in.now, wait)
	s.Keys = append(s.Keys, k)
	note(event{text: "DNSSEC key is published: the parent is asked for its DS record once all caches have it", key: k})
	return nil
}

// stepWithdraw begins and ends the way of a zone out of DNSSEC.
func (s *state) stepWithdraw(in *input, note func(event)) {
	if in.policy.withdraw {
		for _, k := range s.in(ksk, ready, active) {
			k.enter(withdrawn, in.now, 0)
			note(event{text: "DNSSEC key is withdrawn: the parent should have no DS record of it", key: k})
		}
		if all := s.in(ksk, phases[ksk]...); len(all) > 1 {
			for _, k := range s.in(ksk, published) { // nobody was ever told of it
				s.remove(k, note)
			}
		}
		return
	}
	out := s.in(ksk, withdrawn, unanchored)
	for i, k := range out {
		if i < len(out)-1 {
			k.enter(retired, in.now, 0)
			note(event{text: "DNSSEC key is retired: it stays until the parent's DS record of it is gone from all caches", key: k})
			continue
		}
		k.enter(ready, in.now, 0)
		note(event{text: "DNSSEC key is ready: the parent should have its DS record", key: k, also: []any{"ds", dsText(k)}})
	}
}

// stepGone follows the DS records of keys on their way out, and ends that way.
func (s *state) stepGone(in *input, wait time.Duration, note func(event)) {
	const byParent, byOperator = "parent", "operator"
	for _, k := range s.in(ksk, retired, withdrawn) {
		there := in.seen != nil && !in.seen.gone(k.key)
		gone := in.seen != nil && !there
		switch {
		case there && !k.Gone.IsZero():
			k.Gone, k.GoneBy = time.Time{}, ""
			note(event{text: "parent has the DS record of a DNSSEC key again that had gone: it is waited for anew", key: k, warn: true})
		case k.Gone.IsZero() && gone:
			k.Gone, k.GoneBy = in.now, byParent
			note(event{text: "parent has no DS record of the DNSSEC key any more", key: k})
		case k.Gone.IsZero() && in.demand.dsGone && !there:
			k.Gone, k.GoneBy = in.now, byOperator
			note(event{text: "parent has no DS record of the DNSSEC key any more, the operator says", key: k})
		}
		// To be gone once is not enough: it must still be so.
		if k.Gone.IsZero() || in.now.Before(k.Gone.Add(wait)) || !gone && k.GoneBy != byOperator {
			continue
		}
		if k.Phase == retired {
			s.remove(k, note)
			continue
		}
		k.enter(unanchored, in.now, 0)
		note(event{text: "no cache has a DS record of the DNSSEC key any more", key: k})
	}
}

func (s *state) remove(k *key, note func(event)) {
	s.Keys = slices.DeleteFunc(s.Keys, func(o *key) bool { return o == k })
	s.Removed = append(s.Removed, k.File)
	note(event{text: "DNSSEC key is removed", key: k})
}

func dsText(k *key) string {
	ds, _ := k.key.DS(dnssec.DigestSHA256)
	return ds.String()
}

// asksParent reports whether anything waits for what the parent has.
func (s *state) asksParent() bool { return len(s.in(ksk, ready, retired, withdrawn)) > 0 }

// anchored reports whether a cache, or the parent, may have a DS record of a key.
func (s *state) anchored() bool {
	return len(s.in(ksk, ready, active, retired, withdrawn)) > 0
}

// next returns when something is to happen by itself, and what; zero where all
// waits for the parent, or for nothing.
func (s *state) next(p *policy, now time.Time) (at time.Time, what string) {
	consider := func(t time.Time, text string) {
		if at.IsZero() || t.Before(at) {
			at, what = t, text
		}
	}
	for _, k := range s.in(zsk, published) {
		consider(k.end(), "zsk becomes active")
	}
	for _, k := range s.in(zsk, retired) {
		consider(k.end(), "zsk is removed")
	}
	for _, k := range s.in(ksk, published) {
		consider(k.end(), "ksk becomes ready")
	}
	for _, k := range s.in(ksk, retired, withdrawn) {
		if !k.Gone.IsZero() {
			text := "ksk is removed"
			if k.Phase == withdrawn {
				text = "ksk is unanchored"
			}
			consider(k.Gone.Add(p.waits(s, now).ds), text)
		}
	}
	if len(s.in(zsk, published)) == 0 {
		if due, ever := p.zskDue(s, s.in(zsk, active)[0], now); ever {
			consider(due, "next zsk is published")
		}
	}
	if all := s.in(ksk, phases[ksk]...); len(all) == 1 && all[0].Phase == active && p.kskLifetime != 0 {
		consider(all[0].Signs.Add(p.kskLifetime), "next ksk is published")
	}
	return at, what
}

// begin makes the first state of a zone: of keys that lie in its directory already,
// and of new ones where there are none.
func begin(zone string, found []*key, in *input) (*state, []event, error) {
	s := &state{Version: stateVersion, Zone: zone, DNSKEYTTL: seconds(in.policy.dnskeyTTL / time.Second)}
	w := in.policy.waits(s, in.now)
	var events []event
	for _, r := range []role{ksk, zsk} {
		n := 0
		for _, k := range found {
			if k.Role == r {
				s.Keys = append(s.Keys, k)
				n++
			}
		}
		if n > 0 {
			continue
		}
		k, err := in.generate(r)
		if err != nil {
			return nil, nil, err
		}
		s.Keys = append(s.Keys, k)
	}
	for _, k := range s.Keys {
		switch {
		case k.Role == ksk:
			k.enter(published, in.now, w.unsigned)
		default:
			k.enter(active, in.now, 0)
			k.Signs = in.now
		}
		events = append(events, event{text: "DNSSEC key begins", key: k, also: []any{"state", string(k.Phase)}})
	}
	for i, k := range s.in(zsk, active) { // one is enough; others may have signed before
		if i > 0 {
			k.enter(retired, in.now, w.signatures)
		}
	}
	return s, events, nil
}
