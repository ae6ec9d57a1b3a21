package keyring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"fairlead/internal/dnssec"
)

// version is one content of a record set, and when a cache may have it.
type version struct {
	from    time.Time
	until   time.Time // when the last cache forgets it; zero while it is served
	keys    []uint16  // DNSKEY: the tags in it; DS: the tags that it names
	signers []uint16  // DNSKEY, data: whose signatures it has
}

// history is what a record set was.
type history struct {
	versions []version
	ttl      time.Duration
	lag      time.Duration // within which all servers have the newest
}

// set makes v what is served from now on.
func (h *history) set(now time.Time, v version) {
	if n := len(h.versions); n > 0 {
		last := &h.versions[n-1]
		if slices.Equal(last.keys, v.keys) && slices.Equal(last.signers, v.signers) {
			return
		}
		last.until = now.Add(h.lag + h.ttl)
	}
	v.from = now
	h.versions = append(h.versions, v)
}

// cached returns what some cache has.
func (h *history) cached(now time.Time) (list []version) {
	for _, v := range h.versions {
		if v.until.IsZero() || now.Before(v.until) {
			list = append(list, v)
		}
	}
	return list
}

// world is a zone, its parent, and all caches that there can be: resolvers that
// have any of what was served within the last TTL, in every combination.
type world struct {
	now    time.Time
	ds     history
	dnskey history
	data   history
}

// bogus returns a combination that no validating resolver would accept.
func (w *world) bogus() string {
	contain := slices.Contains[[]uint16]
	for _, ds := range w.ds.cached(w.now) {
		if len(ds.keys) == 0 {
			continue // it takes the zone for unsigned
		}
		for _, keys := range w.dnskey.cached(w.now) {
			anchored := slices.ContainsFunc(ds.keys, func(tag uint16) bool { return contain(keys.keys, tag) && contain(keys.signers, tag) })
			if !anchored {
				return fmt.Sprintf("DS %v and DNSKEY %v, signed by %v", ds.keys, keys.keys, keys.signers)
			}
			for _, data := range w.data.cached(w.now) {
				if !slices.ContainsFunc(data.signers, func(tag uint16) bool { return contain(keys.keys, tag) }) {
					return fmt.Sprintf("DNSKEY %v and data signed by %v", keys.keys, data.signers)
				}
			}
		}
	}
	return ""
}

func tags(keys []*dnssec.Key) (list []uint16) {
	for _, k := range keys {
		list = append(list, k.Tag())
	}
	return list
}

// simulation is a zone under a policy, and a parent that follows CDS when it pleases.
type simulation struct {
	policy     policy
	years      int
	seed       uint64
	parentEach time.Duration // the parent looks for CDS about that often
	operator   bool          // who says what the parent has, as nobody is asked
	clocks     bool          // the clock is set now and then
	restarts   bool          // the process ends now and then
	demands    bool          // rollovers are asked for now and then
	withdraws  bool          // the zone is withdrawn and comes back
	ttls       bool          // TTLs change now and then
}

type result struct {
	bogus    string
	events   map[string]int
	anchored int // steps with a DS record
	most     int // keys at a time
}

func (c simulation) run(t *testing.T) (r result) {
	t.Helper()
	random := rand.New(rand.NewPCG(c.seed, 1))
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const each = 30 * time.Minute
	p := c.policy
	w := world{now: start,
		ds:     history{ttl: p.parentTTL, lag: p.parentPropagation},
		dnskey: history{ttl: p.dnskeyTTL, lag: p.propagation},
		data:   history{ttl: p.longestTTL, lag: p.propagation},
	}
	used := map[uint16]bool{}
	generate := func(role role) (*key, error) {
		for {
			k, err := dnssec.GenerateKey("example.com", role.flags(), dnssec.Ed25519)
			if err != nil || !used[k.Tag()] {
				used[k.Tag()] = true
				return &key{File: k.FileBase(), Role: role, key: k}, err
			}
		}
	}
	r.events = map[string]int{}
	count := func(events []event) {
		for _, e := range events {
			r.events[strings.SplitN(e.text, ":", 2)[0]]++
		}
	}
	var offset time.Duration // of the clock
	// Before, the zone was not signed, and its parent had nothing to say.
	w.ds.set(start, version{})
	w.dnskey.set(start, version{})
	w.data.set(start, version{signers: []uint16{0}})
	w.now = start.Add(each)
	s, events, err := begin("example.com", nil, &input{now: w.now, policy: &p, generate: generate})
	if err != nil {
		t.Fatal(err)
	}
	count(events)
	var cds []uint16
	publish := func() {
		k := s.keys(p.withdraw)
		w.dnskey.set(w.now, version{keys: tags(k.Published), signers: tags(k.Key)})
		w.data.set(w.now, version{signers: tags(k.Zone)})
		cds = tags(k.Announce)
		if k.Withdraw {
			cds = []uint16{}
		}
		r.most = max(r.most, len(k.Published))
	}
	publish()
	nextLook := w.now
	told := w.now // when the operator has looked last
	for w.now.Before(start.AddDate(c.years, 0, 0)) {
		w.now = w.now.Add(each)
		if cds != nil && !w.now.Before(nextLook) {
			w.ds.set(w.now, version{keys: slices.Clone(cds)})
			nextLook = w.now.Add(time.Duration(random.Int64N(int64(2*c.parentEach) + 1)))
		}
		in := input{policy: &p, generate: generate}
		if c.clocks && random.IntN(500) == 0 {
			in.jump = time.Duration(random.Int64N(int64(80*24*time.Hour))) - 40*24*time.Hour
			offset += in.jump
		}
		in.now = w.now.Add(offset)
		if c.restarts && random.IntN(50) == 0 {
			if c.clocks && in.jump < 0 {
				in.jump = 0 // it was set while no process ran
			}
			s = reload(t, s)
		}
		if c.demands {
			in.demand.rollZSK = random.IntN(700) == 0
			in.demand.rollKSK = random.IntN(2000) == 0
		}
		if c.ttls && random.IntN(300) == 0 {
			p.dnskeyTTL = []time.Duration{time.Hour, 6 * time.Hour, 48 * time.Hour}[random.IntN(3)]
			w.dnskey.ttl = p.dnskeyTTL
			if last := &w.dnskey.versions[len(w.dnskey.versions)-1]; true {
				again := *last
				last.until = w.now.Add(w.dnskey.lag + c.policy.dnskeyTTL)
				again.from, again.until = w.now, time.Time{}
				w.dnskey.versions = append(w.dnskey.versions, again)
			}
			c.policy.dnskeyTTL = p.dnskeyTTL
		}
		if c.withdraws && random.IntN(4000) == 0 {
			p.withdraw = !p.withdraw
		}
		current := w.ds.versions[len(w.ds.versions)-1]
		seen := &observation{ttl: p.parentTTL, sets: [][]dnssec.DS{nil}}
		for _, k := range s.Keys {
			if slices.Contains(current.keys, k.key.Tag()) {
				ds, _ := k.key.DS(dnssec.DigestSHA256)
				seen.sets[0] = append(seen.sets[0], ds)
			}
		}
		switch {
		case !s.asksParent():
		case !c.operator:
			in.seen = seen
		case w.now.Sub(told) > 36*time.Hour:
			told = w.now
			for _, k := range s.in(ksk, ready) {
				in.demand.dsPublished = in.demand.dsPublished || seen.published(k.key)
			}
			in.demand.dsGone = true
			for _, k := range s.in(ksk, retired, withdrawn) {
				in.demand.dsGone = in.demand.dsGone && seen.gone(k.key)
			}
		}
		next := s.clone()
		events, err := next.step(&in)
		if err != nil {
			t.Fatal(err)
		}
		s = next
		count(events)
		publish()
		if len(current.keys) > 0 {
			r.anchored++
		}
		if r.bogus = w.bogus(); r.bogus != "" {
			r.bogus = fmt.Sprintf("after %v: %s", w.now.Sub(start), r.bogus)
			return r
		}
		for _, h := range []*history{&w.ds, &w.dnskey, &w.data} {
			h.versions = h.cached(w.now)
		}
	}
	return r
}

// reload is what a process finds that starts after this one has ended.
func reload(t *testing.T, s *state) *state {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	out := new(state)
	if err := d.Decode(out); err != nil {
		t.Fatal(err)
	}
	if err := out.check("example.com"); err != nil {
		t.Fatal(err)
	}
	for i, k := range out.Keys {
		k.key = s.Keys[i].key
	}
	return out
}

var simulated = policy{
	algorithm: dnssec.Ed25519, zskLifetime: 30 * 24 * time.Hour, kskLifetime: 90 * 24 * time.Hour,
	dnskeyTTL: time.Hour, propagation: time.Hour, longestTTL: 24 * time.Hour,
	parentTTL: 24 * time.Hour, parentPropagation: time.Hour,
}

// Over years of rollovers, no validating resolver ever has anything in its cache
// that it must take for forged, whatever it has cached when.
func TestNeverBogus(t *testing.T) {
	long := simulated
	long.longestTTL, long.parentTTL, long.dnskeyTTL = 168*time.Hour, 48*time.Hour, 24*time.Hour
	for _, c := range []struct {
		name string
		simulation
	}{
		{"a parent that follows at once", simulation{parentEach: 0}},
		{"a parent that follows daily", simulation{parentEach: 24 * time.Hour}},
		{"a slow parent", simulation{parentEach: 60 * 24 * time.Hour}},
		{"long TTLs", simulation{policy: long, parentEach: 24 * time.Hour}},
		{"an operator", simulation{operator: true, parentEach: 24 * time.Hour}},
		{"restarts", simulation{restarts: true, parentEach: 24 * time.Hour}},
		{"clocks that are set", simulation{clocks: true, parentEach: 24 * time.Hour}},
		{"clocks and restarts", simulation{clocks: true, restarts: true, parentEach: 24 * time.Hour}},
		{"demands", simulation{demands: true, restarts: true, parentEach: 12 * time.Hour}},
		{"withdrawals", simulation{withdraws: true, demands: true, parentEach: 24 * time.Hour}},
		{"TTLs that change", simulation{ttls: true, demands: true, parentEach: 24 * time.Hour}},
		{"everything", simulation{ttls: true, demands: true, withdraws: true, clocks: true, restarts: true, parentEach: 24 * time.Hour}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.policy.dnskeyTTL == 0 {
				c.policy = simulated
			}
			c.years = 2
			for c.seed = range 2 {
				r := c.run(t)
				if r.bogus != "" {
					t.Fatalf("seed %d: %s", c.seed, r.bogus)
				}
				if n := r.events["DNSSEC key is removed"]; n < 10 && !c.clocks {
					t.Errorf("seed %d: %d keys were removed in %d years: %v", c.seed, n, c.years, r.events)
				}
				if r.anchored < 5000 || r.most > 6 {
					t.Errorf("seed %d: %d steps with a DS record, %d keys at a time", c.seed, r.anchored, r.most)
				}
			}
		})
	}
}

// None of the waits is longer than it has to be: with one that is a step shorter
// than what it is made for, somebody is deceived.
func TestShorterWaitsAreBogus(t *testing.T) {
	const step = time.Hour
	for name, shortened := range map[string]waits{
		"unsigned answers":   {unsigned: step},
		"DNSKEY records":     {dnskey: step},
		"signatures":         {signatures: step},
		"DS records":         {ds: step},
		"nothing is waited":  {unsigned: 1000 * time.Hour, dnskey: 1000 * time.Hour, signatures: 1000 * time.Hour, ds: 1000 * time.Hour},
		"for nothing at all": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := simulated
			p.shortened = shortened
			r := simulation{policy: p, years: 2, parentEach: 0}.run(t)
			if (r.bogus == "") != (shortened == waits{}) {
				t.Errorf("bogus: %q, %v", r.bogus, r.events)
			}
		})
	}
}

// A key whose DS record comes back at the parent, or of which the parent is not
// asked any more, stays.
func TestKeyStaysWhileDSMayBeCached(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	p := simulated
	generate := func(r role) (*key, error) {
		k, err := dnssec.GenerateKey("example.com", r.flags(), dnssec.Ed25519)
		return &key{File: k.FileBase(), Role: r, key: k}, err
	}
	s, _, err := begin("example.com", nil, &input{now: now, policy: &p, generate: generate})
	if err != nil {
		t.Fatal(err)
	}
	see := func(keys ...*key) *observation {
		o := &observation{ttl: 10 * 24 * time.Hour, sets: [][]dnssec.DS{nil}}
		for _, k := range keys {
			ds, _ := k.key.DS(dnssec.DigestSHA384)
			o.sets[0] = append(o.sets[0], ds)
		}
		return o
	}
	step := func(after time.Duration, in input) {
		t.Helper()
		now = now.Add(after)
		in.now, in.policy, in.generate = now, &p, generate
		if _, err := s.step(&in); err != nil {
			t.Fatal(err)
		}
	}
	want := func(k *key, phase phase) {
		t.Helper()
		if k.Phase != phase {
			t.Errorf("%v is %s, want %s", k.key, k.Phase, phase)
		}
	}
	old := s.in(ksk, published)[0]
	step(25*time.Hour, input{})
	want(old, ready)
	step(0, input{seen: see()})
	want(old, ready)
	other, _ := generate(ksk)
	step(0, input{seen: see(other)})
	want(old, ready)
	step(0, input{seen: &observation{}}) // nobody has answered
	want(old, ready)
	step(0, input{seen: &observation{sets: append(see(old).sets, nil)}}) // one has it, one does not
	want(old, ready)
	step(0, input{demand: demand{rollKSK: true}})
	if len(s.Keys) != 2 {
		t.Error("a rollover begins while the parent has no DS record")
	}
	step(0, input{seen: see(old)})
	want(old, active)
	step(0, input{demand: demand{rollKSK: true}})
	fresh := s.in(ksk, published)[0]
	step(2*time.Hour, input{})
	want(fresh, ready)
	if got := tags(s.keys(false).Announce); len(got) != 1 || got[0] != fresh.key.Tag() {
		t.Errorf("CDS names %v", got)
	}
	step(0, input{seen: see(old, fresh)})
	want(fresh, active)
	want(old, retired)
	step(1000*time.Hour, input{})
	want(old, retired)
	step(0, input{seen: see(old, fresh)})
	step(0, input{seen: see(fresh)})
	step(200*time.Hour, input{seen: see(fresh)}) // the TTL seen was 240 h
	want(old, retired)
	step(0, input{seen: see(old, fresh)}) // back again
	step(0, input{seen: see(fresh)})
	step(100*time.Hour, input{seen: see(fresh)})
	want(old, retired)
	step(1000*time.Hour, input{}) // long enough, but nobody knows
	want(old, retired)
	if len(s.keys(false).Key) != 2 {
		t.Error("the retired key does not sign the keys any more")
	}
	step(0, input{seen: see(fresh)})
	if len(s.in(ksk, retired)) != 0 || !slices.Contains(s.Removed, old.File) || !slices.Contains(s.Keys, fresh) {
		t.Errorf("%v and removed %v", s.Keys, s.Removed)
	}
	// An unknown digest of the tag counts as there.
	if (&observation{sets: [][]dnssec.DS{{{Tag: fresh.key.Tag(), Algorithm: dnssec.Ed25519, DigestType: 99}}}}).gone(fresh.key) {
		t.Error("a DS record with another digest is not seen")
	}
}
