package dnslb

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"fairlead/internal/dnssec"
	"fairlead/internal/loop"
	"fairlead/internal/model"
	"fairlead/internal/plan"
	"fairlead/internal/telemetry"
)

// certInterval is how often certificate files are looked at.
const certInterval = 2 * time.Second

// Plane serves the DNS listeners of a plan.
type Plane struct {
	log    *slog.Logger
	aside  *slog.Logger // log for tasks of the engine, which never wait for it
	engine loop.Engine
	keys   Keys
	shards int // of counters: one for each processor
	snap   atomic.Pointer[snapshot]

	stop context.CancelFunc // ends what runs beside queries
	ctx  context.Context
	wg   sync.WaitGroup

	applying sync.Mutex // serialises Apply and Shutdown

	mu        sync.Mutex // guards what follows
	listeners map[string]*listener
	leaving   map[*listener]struct{}
	zones     map[string]*zoneStats
	balancers map[string]*balancerStats
}

// snapshot is a plan with what this plane keeps beside it. It is never written
// once it is published.
type snapshot struct {
	plan  *plan.Plan
	zones []*zoneStats        // by zone index; the last one is for none
	keys  []*dnssec.Zone      // by zone index; nil for those that are not signed
	log   *telemetry.QueryLog // nil when there is none

	balancers []*balancerView // by load balancer index; nil for those of which DNS chooses nothing
}

// New returns a plane without listeners. Its streams run on engine; keys are for
// signed zones, and aside is log for what must not wait.
func New(engine loop.Engine, keys Keys, log, aside *slog.Logger) *Plane {
	p := &Plane{
		log: log, aside: aside, engine: engine, keys: keys, shards: len(engine.Drivers()),
		listeners: make(map[string]*listener), leaving: make(map[*listener]struct{}),
		zones: make(map[string]*zoneStats),
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Apply puts a plan in force: all of it, or, with an error, nothing. New listeners
// are opened before the plan is published and removed ones are closed after it;
// those that stay are not touched. log is the query log; nil for none.
func (p *Plane) Apply(pl *plan.Plan, log *telemetry.QueryLog) error {
	p.applying.Lock()
	defer p.applying.Unlock()
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	for _, z := range pl.Zones {
		if z.Config.DNSSEC && (p.keys == nil || p.keys.Zone(z.Name) == nil) {
			return fmt.Errorf("zone %q: it has no DNSSEC keys", z.Name)
		}
	}
	opened := make(map[string]*listener)
	kept := make(map[*listener]*settings)
	fail := func(m *plan.Listener, err error) error {
		for _, l := range opened {
			l.discard()
		}
		return fmt.Errorf("listener %q: %w", m.Name, err)
	}
	for i := range pl.DNSListeners {
		m := &pl.DNSListeners[i]
		l := p.listeners[listenerKey(m)] // only Apply, which is serialised, writes the map
		var old *settings
		if l != nil {
			old = l.set.Load()
		}
		set, err := newSettings(p, m.Listener, old)
		if err != nil {
			return fail(m, err)
		}
		if l != nil {
			kept[l] = set
			continue
		}
		p.awaitClosed(listenerKey(m))
		if l, err = p.listen(m, set); err != nil {
			return fail(m, err)
		}
		opened[l.key] = l
	}
	p.snap.Store(p.snapshot(pl, log))
	for l, set := range kept {
		l.use(set)
	}
	for _, l := range opened {
		p.start(l)
	}
	p.retire(pl)
	return nil
}

// listenerKey is the identity of a listener: its address and what it opens there,
// or, where the kernel chooses the port, its name.
func listenerKey(l *plan.Listener) string {
	if l.Bind.Port() == 0 {
		return l.Name + " " + l.Bind.String() + " " + string(l.Protocol)
	}
	return l.Bind.String() + " " + string(l.Protocol)
}

// snapshot makes the next snapshot. Counters of zones that stay go on.
func (p *Plane) snapshot(pl *plan.Plan, log *telemetry.QueryLog) *snapshot {
	s := &snapshot{plan: pl, log: log, keys: make([]*dnssec.Zone, len(pl.Zones))}
	for i, z := range pl.Zones {
		if z.Config.DNSSEC {
			s.keys[i] = p.keys.Zone(z.Name)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	used := make(map[string]*zoneStats, len(pl.Zones)+1)
	for i := range len(pl.Zones) + 1 {
		name := "" // no zone
		if i < len(pl.Zones) {
			name = pl.Zones[i].Name
		}
		stats := p.zones[name]
		if stats == nil {
			stats = newZoneStats(name, p.shards)
		}
		used[name] = stats
		s.zones = append(s.zones, stats)
	}
	p.zones = used
	s.balancers = p.balancerViews(pl)
	return s
}

// awaitClosed waits until an address that a listener is leaving is free.
func (p *Plane) awaitClosed(key string) {
	var leaving []*listener
	p.mu.Lock()
	for l := range p.leaving {
		if l.key == key {
			leaving = append(leaving, l)
		}
	}
	p.mu.Unlock()
	for _, l := range leaving {
		l.awaitFree()
	}
}

// start begins to answer on a new listener.
func (p *Plane) start(l *listener) {
	p.mu.Lock()
	p.listeners[l.key] = l
	p.mu.Unlock()
	p.log.Info("listening", "listener", l.name(), "address", l.bound().String(), "protocol", string(l.set.Load().protocol))
	l.serve()
}

// retire ends the listeners that a plan has no use for.
func (p *Plane) retire(pl *plan.Plan) {
	wanted := make(map[string]bool)
	for i := range pl.DNSListeners {
		wanted[listenerKey(&pl.DNSListeners[i])] = true
	}
	var closing []*listener
	p.mu.Lock()
	for key, l := range p.listeners {
		if !wanted[key] {
			delete(p.listeners, key)
			p.leaving[l] = struct{}{}
			closing = append(closing, l)
		}
	}
	p.mu.Unlock()
	for _, l := range closing {
		p.log.Info("listener is closed", "listener", l.name(), "address", l.bound().String())
		l.close()
		p.wg.Go(func() {
			l.busy.Wait()
			p.mu.Lock()
			delete(p.leaving, l)
			p.mu.Unlock()
		})
	}
}

// current returns the listeners that answer.
func (p *Plane) current() []*listener {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]*listener, 0, len(p.listeners))
	for _, l := range p.listeners {
		list = append(list, l)
	}
	return list
}

// ListenerState is an open listener, for status.
type ListenerState struct {
	Name     string
	Protocol model.ListenerProtocol
	Address  netip.AddrPort // as bound
	Open     int64          // connections
}

// Listeners returns the listeners that answer.
func (p *Plane) Listeners() []ListenerState {
	var list []ListenerState
	for _, l := range p.current() {
		list = append(list, ListenerState{l.name(), l.set.Load().protocol, l.bound(), l.stats.open.Load()})
	}
	return list
}

// Shutdown answers what has come, lets streams finish what they are at until ctx is
// done, then cuts what is left and reports how many connections that were.
func (p *Plane) Shutdown(ctx context.Context) (cut int) {
	p.applying.Lock()
	defer p.applying.Unlock()
	p.mu.Lock()
	var all []*listener
	for _, l := range p.listeners {
		all = append(all, l)
	}
	for l := range p.leaving {
		all = append(all, l)
	}
	p.mu.Unlock()
	done := make(chan struct{})
	for _, l := range all {
		l.close()
	}
	go func() {
		for _, l := range all {
			l.busy.Wait()
		}
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		for _, l := range all {
			cut += l.abort()
		}
		<-done
	}
	p.stop()
	p.wg.Wait()
	return cut
}
