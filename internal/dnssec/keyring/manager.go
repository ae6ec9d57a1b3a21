package keyring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"fairlead/internal/dnssec"
	"fairlead/internal/model"
	"fairlead/internal/telemetry"
)

// interval is how often keys are looked at. All waits are of minutes and more.
const interval = time.Minute

// Manager has the keys of all signed zones of a node.
type Manager struct {
	log    *slog.Logger
	signer *dnssec.Signer
	parent func(ctx context.Context, zone string, agents []string) (*observation, error)
	ctx    context.Context
	stop   context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex // guards zones
	zones map[string]*zone
}

// New returns a manager without zones.
func New(log *slog.Logger) *Manager { return newForTest(log, dnssec.NewSigner(0), askParent) }

func newForTest(log *slog.Logger, signer *dnssec.Signer, parent func(context.Context, string, []string) (*observation, error)) *Manager {
	m := &Manager{log: log, signer: signer, parent: parent, zones: make(map[string]*zone)}
	m.ctx, m.stop = context.WithCancel(context.Background())
	m.wg.Go(func() { m.signer.Run(m.ctx) })
	return m
}

// Close ends the work on keys.
func (m *Manager) Close() {
	m.stop()
	m.wg.Wait()
}

// NewWork returns memory to sign in for a goroutine.
func (m *Manager) NewWork() *dnssec.Work { return m.signer.NewWork() }

// Zone returns what signs for a zone; nil for one without keys.
func (m *Manager) Zone(name string) *dnssec.Zone {
	m.mu.Lock()
	defer m.mu.Unlock()
	if z := m.zones[name]; z != nil {
		return z.sign
	}
	return nil
}

// Ensure gives every signed zone of c its keys, which are made where there are
// none, and its policy. ttls are the greatest TTLs of zones, which caches may have
// answers for. Zones that c does not have stay until Keep.
func (m *Manager) Ensure(c *model.Config, ttls map[string]time.Duration) error {
	for i := range c.Zones {
		if !c.Zones[i].DNSSEC {
			continue
		}
		if err := m.ensure(c, &c.Zones[i], ttls); err != nil {
			return fmt.Errorf("zone %q: DNSSEC keys: %w", c.Zones[i].Name, err)
		}
	}
	return nil
}

func (m *Manager) ensure(c *model.Config, mz *model.Zone, ttls map[string]time.Duration) error {
	name, o := model.CanonicalHost(mz.Name), mz.Signing()
	options := dnssec.Options{Validity: o.SignatureValidity, Limit: o.SignatureLimit}
	m.mu.Lock()
	z := m.zones[name]
	m.mu.Unlock()
	fresh := z == nil
	if fresh {
		sign, err := m.signer.NewZone(name, options)
		if err != nil {
			return err
		}
		z = &zone{
			name: name, dir: zoneDir(c.DataDir, name), sign: sign,
			log: m.log.With("zone", name), parent: m.parent, ended: make(chan struct{}),
		}
	}
	if err := z.use(c, mz, ttls[name], time.Now()); err != nil {
		return err
	}
	z.sign.SetOptions(options)
	if !fresh {
		return nil
	}
	ctx, stop := context.WithCancel(m.ctx)
	z.stop = stop
	m.mu.Lock()
	m.zones[name] = z
	m.mu.Unlock()
	m.wg.Go(func() { z.run(ctx) })
	return nil
}

// Keep is Ensure, and forgets all zones that c does not sign. Their keys stay in
// the data directory.
func (m *Manager) Keep(c *model.Config, ttls map[string]time.Duration) {
	if err := m.Ensure(c, ttls); err != nil {
		m.log.Error("DNSSEC keys are not what the configuration says", "error", err)
	}
	wanted := make(map[string]bool)
	for i := range c.Zones {
		wanted[model.CanonicalHost(c.Zones[i].Name)] = c.Zones[i].DNSSEC
	}
	var gone []*zone
	defer func() {
		for _, z := range gone {
			if _, there := wanted[z.name]; there && z.state != nil && z.state.anchored() {
				m.log.Warn("zone is not signed any more, though its parent may have DS records: validating resolvers refuse its answers. "+
					"Sign it again, set withdraw, and wait until its KSK is unanchored", "zone", z.name)
			}
		}
	}()
	m.mu.Lock()
	for name, z := range m.zones {
		if !wanted[name] {
			delete(m.zones, name)
			gone = append(gone, z)
		}
	}
	m.mu.Unlock()
	for _, z := range gone {
		z.stop()
		<-z.ended
		m.signer.Forget(z.sign)
	}
}

// zone is a zone whose keys are taken care of.
type zone struct {
	name, dir string
	sign      *dnssec.Zone
	log       *slog.Logger
	parent    func(ctx context.Context, zone string, agents []string) (*observation, error)
	stop      context.CancelFunc
	ended     chan struct{}

	failures telemetry.Counter // of steps
	unasked  telemetry.Counter // the parent did not answer

	mu     sync.Mutex // guards what follows
	policy policy
	agents []string
	given  []givenKey // from files; then there is no state
	state  *state
	last   time.Time // of the last step, with the monotonic clock
	asked  time.Time // when the parent was asked last
	inUse  string    // the keys that sign, as text
}

// use takes up a policy, and with the first the keys.
func (z *zone) use(c *model.Config, m *model.Zone, ttl time.Duration, now time.Time) error {
	o := m.Signing()
	given, err := readGiven(o.KeyFiles, z.name)
	if err != nil {
		return err
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if len(given) > 0 { // before anything changes: else the zone stays as it is
		if _, err := keysOf(given, &o, now); err != nil {
			return err
		}
	}
	policy, agents, before := z.policy, z.agents, z.given
	z.policy, z.agents, z.given = policyOf(c, m), o.ParentalAgents, given
	z.policy.longestTTL = max(z.policy.longestTTL, ttl)
	if len(given) == 0 && z.state == nil {
		if err := z.open(now); err != nil {
			z.policy, z.agents, z.given = policy, agents, before // there is no state to go on with
			return err
		}
	}
	return z.step(now, nil)
}

// open loads the state, or begins one.
func (z *zone) open(now time.Time) error {
	s, err := loadState(z.dir, z.name)
	if !errors.Is(err, errNoState) {
		if err == nil {
			z.state = s
		}
		return err
	}
	if err := makeDir(z.dir); err != nil {
		return err
	}
	s, events, err := begin(z.name, nil, &input{now: now.Round(0), policy: &z.policy, generate: z.generate(now)})
	if err != nil {
		return err
	}
	if err := s.save(z.dir); err != nil {
		return err
	}
	z.state = s
	z.tell(events)
	return nil
}

// generate makes keys whose files are on the disk. No two have the same tag, so
// that validators need not try both.
func (z *zone) generate(now time.Time) func(role) (*key, error) {
	made := make(map[uint16]bool)
	return func(r role) (*key, error) {
		if z.state != nil {
			for _, k := range z.state.Keys {
				made[k.key.Tag()] = true
			}
		}
		for {
			k, err := dnssec.GenerateKey(z.name, r.flags(), z.policy.algorithm)
			if err != nil {
				return nil, err
			}
			if made[k.Tag()] {
				continue
			}
			made[k.Tag()] = true
			if err := dnssec.WriteKey(z.dir, k, now); err != nil {
				return nil, err
			}
			return &key{File: k.FileBase(), Role: r, key: k}, nil
		}
	}
}

// run looks at the keys until ctx is done.
func (z *zone) run(ctx context.Context) {
	defer close(z.ended)
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		seen := z.look(ctx)
		z.mu.Lock()
		if err := z.step(time.Now(), seen); err != nil {
			z.failures.Inc()
			z.log.Error("DNSSEC keys stay as they are", "error", err)
		}
		z.mu.Unlock()
	}
}

// parentInterval is how often the parent is asked while its answer is waited for.
const parentInterval = 10 * time.Minute

// look asks the parent, if anything waits for what it has.
func (z *zone) look(ctx context.Context) *observation {
	z.mu.Lock()
	now := time.Now()
	want := z.state != nil && len(z.given) == 0 && z.state.asksParent() && now.Sub(z.asked) >= parentInterval
	agents := z.agents
	if want {
		z.asked = now
	}
	z.mu.Unlock()
	if !want {
		return nil
	}
	seen, err := z.parent(ctx, z.name, agents)
	if err != nil {
		z.unasked.Inc()
		z.log.Warn("parent does not say which DS records it has: asked again later", "error", err)
		return nil
	}
	return seen
}

// step brings the keys to where they should be now; z.mu is held. With an error
// they stay as they are.
func (z *zone) step(now time.Time, seen *observation) error {
	if len(z.given) > 0 {
		keys, err := keysOf(z.given, &model.DNSSEC{DNSKEYTTL: z.policy.dnskeyTTL, Withdraw: z.policy.withdraw}, now)
		if err != nil {
			return err
		}
		return z.sets(keys)
	}
	asked, err := demanded(z.dir)
	if err != nil {
		return err
	}
	in := &input{now: now.Round(0), jump: z.jump(now), policy: &z.policy, seen: seen, demand: asked, generate: z.generate(now)}
	next := z.state.clone()
	next.LongestTTL = max(next.LongestTTL, seconds(z.sign.LongestTTL()/time.Second))
	events, err := next.step(in)
	if err != nil {
		return err
	}
	if len(events) > 0 || in.jump != 0 || next.LongestTTL != z.state.LongestTTL || next.DNSKEYTTL != z.state.DNSKEYTTL || next.ParentTTL != z.state.ParentTTL {
		if err := next.save(z.dir); err != nil {
			return err
		}
	}
	z.state, z.last = next, now
	z.tell(events)
	if err := z.sets(next.keys(z.policy.withdraw)); err != nil {
		return err
	}
	// What is served is as the state says; files may be had back later.
	if err := settled(z.dir, asked); err != nil {
		return err
	}
	return z.clean()
}

// clean deletes the files of keys that are not used any more. The state, which no
// longer has them, is on the disk.
func (z *zone) clean() error {
	if len(z.state.Removed) == 0 {
		return nil
	}
	for _, file := range z.state.Removed {
		if err := deleteKey(z.dir, file); err != nil {
			return err
		}
	}
	z.state.Removed = nil
	return z.state.save(z.dir)
}

// jump returns how far the clock was set since the last step, as against the time
// that has passed.
func (z *zone) jump(now time.Time) time.Duration {
	if z.last.IsZero() {
		return 0
	}
	jump := now.Round(0).Sub(z.last.Round(0)) - now.Sub(z.last)
	if jump.Abs() < time.Minute { // it is adjusted all the time
		return 0
	}
	return jump
}

// sets puts keys in use, if they are others than before.
func (z *zone) sets(k dnssec.Keys) error {
	text := fmt.Sprint(k.Published, k.Key, k.Zone, k.TTL, k.Announce, k.Withdraw)
	if text == z.inUse {
		return nil
	}
	if err := z.sign.SetKeys(k); err != nil {
		return err
	}
	z.inUse = text
	return nil
}

// tell logs changes.
func (z *zone) tell(events []event) {
	for _, e := range events {
		var attributes []any
		if e.key != nil {
			attributes = append(attributes, "key", e.key.File, "role", string(e.key.Role))
		}
		level := slog.LevelInfo
		if e.warn {
			level = slog.LevelWarn
		}
		z.log.Log(context.Background(), level, e.text, append(attributes, e.also...)...)
	}
}
