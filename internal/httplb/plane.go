package httplb

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"fairlead/internal/certs"
	"fairlead/internal/loop"
	"fairlead/internal/model"
	"fairlead/internal/plan"
	"fairlead/internal/telemetry"
)

// sweepInterval is how often unused connections to endpoints, and the budgets
// for retries, are looked over.
const sweepInterval = time.Second

// certInterval is how often certificate files are looked at.
const certInterval = 2 * time.Second

// Plane serves the http and https listeners of a plan.
type Plane struct {
	log    *slog.Logger
	aside  *slog.Logger // log for tasks, which never wait for it
	engine loop.Engine
	proofs Proofs      // nil for none
	aloof  loop.Driver // of goroutines, for HTTP/3
	// drivers are all that have connections to endpoints, by their index.
	drivers []loop.Driver
	snap    atomic.Pointer[snapshot]

	stop context.CancelFunc // ends what runs beside connections
	ctx  context.Context
	wg   sync.WaitGroup // of what runs beside connections

	applying sync.Mutex // serialises Apply and Shutdown

	mu        sync.Mutex // guards what follows
	listeners map[string]*listener
	leaving   map[*listener]struct{} // removed, with requests in flight
	upstreams map[upstreamKey]*upstream
	clients   map[clientKey]*watchedClient
	balancers map[string]*balancerStats

	sockets sockets
}

// clientKey identifies the TLS material of a pool.
type clientKey struct {
	pool     string
	protocol model.PoolProtocol
	tls      string // model.PoolTLS.ID
}

type watchedClient struct {
	*certs.Client
	stop context.CancelFunc
}

// snapshot is a plan with what this plane keeps beside it. It is never written
// once it is published.
type snapshot struct {
	plan      *plan.Plan
	upstreams []*upstream            // by endpoint index
	balancers []*balancerStats       // by load balancer index
	rules     [][]*telemetry.Counter // by load balancer and rule index
	sources   loop.Sources
	sharers   int                  // drivers that keep connections to endpoints
	log       *telemetry.AccessLog // nil when there is none
}

// Proofs answer the authorities that give certificates, and have those that were
// given. Nothing of it waits.
type Proofs interface {
	certs.Obtained
	// HTTPChallenge returns the answer to a request for a token; false unless
	// it is awaited.
	HTTPChallenge(host, token []byte) (answer string, ok bool)
}

// New returns a plane without listeners, whose connections run on engine. aside
// is log for tasks of the engine, which must not wait for it. proofs may be nil
// where no certificate is obtained.
func New(engine loop.Engine, proofs Proofs, log, aside *slog.Logger) *Plane {
	p := &Plane{
		log:       log,
		aside:     aside,
		engine:    engine,
		proofs:    proofs,
		aloof:     engine.Goroutines(),
		drivers:   engine.Drivers(),
		listeners: make(map[string]*listener),
		leaving:   make(map[*listener]struct{}),
		upstreams: make(map[upstreamKey]*upstream),
		clients:   make(map[clientKey]*watchedClient),
		balancers: make(map[string]*balancerStats),
	}
	if p.aloof.Index() == len(p.drivers) { // it stands beside them
		p.drivers = append(p.drivers, p.aloof)
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.wg.Go(p.sweep)
	return p
}

// Apply puts a plan in force: all of it, or, with an error, nothing. New
// listeners are opened before the plan is published and removed ones are closed
// after it; those that stay are not touched. Requests in flight end under the
// plan they began with. log is the access log; nil for none.
func (p *Plane) Apply(pl *plan.Plan, log *telemetry.AccessLog) error {
	p.applying.Lock()
	defer p.applying.Unlock()
	if p.ctx.Err() != nil {
		return context.Cause(p.ctx)
	}
	opened, kept, err := p.open(pl)
	if err != nil {
		return err
	}
	snap, err := p.snapshot(pl, log)
	if err != nil {
		discard(opened, kept)
		return err
	}
	p.snap.Store(snap)
	for l, next := range kept {
		l.use(next.set)
		l.switchHTTP3(next.http3)
	}
	for _, l := range opened {
		p.start(l)
	}
	p.retire(pl, snap)
	return nil
}

// listenerKey is the identity of a listener: its address, or, where the kernel
// chooses the port, its name.
func listenerKey(l *plan.Listener) string {
	if l.Bind.Port() == 0 {
		return l.Name + " " + l.Bind.String()
	}
	return l.Bind.String()
}

// next is what a listener that stays open becomes.
type next struct {
	set   *settings
	http3 *http3 // that it has, or is opened for it; nil for none
}

// discard closes what was opened for a plan that does not come into force.
func discard(opened map[string]*listener, kept map[*listener]next) {
	for _, l := range opened {
		l.discard()
	}
	for l, next := range kept {
		if next.http3 != nil && next.http3 != l.http3.Load() {
			next.http3.discard()
		}
	}
}

// open opens the listeners of pl that are not open, and prepares what becomes of
// those that are.
func (p *Plane) open(pl *plan.Plan) (opened map[string]*listener, kept map[*listener]next, err error) {
	opened, kept = make(map[string]*listener), make(map[*listener]next)
	defer func() {
		if err != nil {
			discard(opened, kept)
		}
	}()
	for i := range pl.Listeners {
		m := &pl.Listeners[i]
		key := listenerKey(m)
		var old *settings
		l := p.listeners[key] // only Apply, which is serialised, writes the map
		if l != nil {
			old = l.set.Load()
		}
		set, err := newSettings(p, m.Listener, old)
		if err != nil {
			return opened, kept, fmt.Errorf("listener %q: %w", m.Name, err)
		}
		if l != nil {
			n := next{set: set}
			if m.HTTP3 {
				if n.http3 = l.http3.Load(); n.http3 == nil {
					n.http3, err = openHTTP3(l, m)
				}
				if err != nil {
					return opened, kept, fmt.Errorf("listener %q: %w", m.Name, err)
				}
			}
			kept[l] = n
			continue
		}
		p.awaitClosed(key)
		if l, err = listen(p, m, set); err != nil {
			return opened, kept, fmt.Errorf("listener %q: %w", m.Name, err)
		}
		opened[key] = l
	}
	return opened, kept, nil
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
		<-l.ln.Closed()
	}
}

// inUse says who has the address of a listener that cannot be opened.
func (p *Plane) inUse(m *plan.Listener) error {
	for _, l := range p.current() {
		a, b := l.bound(), m.Bind
		everywhere := !b.Addr().IsValid() || b.Addr().IsUnspecified() || a.Addr().IsUnspecified()
		if a.Port() == b.Port() && (everywhere || a.Addr().Unmap() == b.Addr()) {
			return fmt.Errorf("address %s is in use by listener %q of this process: remove that in one reload, add this in the next", m.Address, l.name())
		}
	}
	return fmt.Errorf("address %s is in use by another process", m.Address)
}

// start begins to accept on a new listener.
func (p *Plane) start(l *listener) {
	p.mu.Lock()
	p.listeners[l.key] = l
	p.mu.Unlock()
	p.log.Info("listening", "listener", l.name(), "address", l.bound().String(), "protocol", string(l.set.Load().protocol))
	l.ln.Serve(l.admit, l.troubled)
	if h := l.http3.Load(); h != nil {
		h.start()
	}
}

// snapshot makes the next snapshot. What it needs and is not there yet is made.
func (p *Plane) snapshot(pl *plan.Plan, log *telemetry.AccessLog) (*snapshot, error) {
	s := &snapshot{plan: pl, log: log, sharers: len(p.engine.Drivers())}
	if slices.ContainsFunc(pl.Listeners, func(l plan.Listener) bool { return l.HTTP3 }) {
		s.sharers = len(p.drivers)
	}
	for _, a := range pl.Config.Node.SourceAddresses {
		if a.Unmap().Is4() {
			s.sources.V4 = a
		} else {
			s.sources.V6 = a
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := maps.Clone(p.upstreams)
	for _, e := range pl.Endpoints {
		u, err := p.upstream(e)
		if err != nil {
			p.forget(before)
			return nil, fmt.Errorf("pool %q: %w", e.Pool.Name, err)
		}
		s.upstreams = append(s.upstreams, u)
	}
	for _, b := range pl.LoadBalancers {
		stats := p.balancers[b.Name]
		if stats == nil {
			stats = &balancerStats{name: b.Name}
			p.balancers[b.Name] = stats
		}
		s.balancers = append(s.balancers, stats)
		counters := make([]*telemetry.Counter, len(b.Rules))
		for i := range b.Rules {
			counters[i] = stats.rule(b.Rules[i].Name)
		}
		s.rules = append(s.rules, counters)
	}
	return s, nil
}

// forget takes out what was made for a plan that does not come into force; the
// lock is held.
func (p *Plane) forget(before map[upstreamKey]*upstream) {
	used := make(map[*certs.Client]bool)
	for _, u := range before {
		used[u.tls] = true
	}
	p.upstreams = before
	for key, c := range p.clients {
		if !used[c.Client] {
			delete(p.clients, key)
			c.stop()
		}
	}
}

// upstream finds the connections to an endpoint, or makes a place for them; the
// lock is held.
func (p *Plane) upstream(e *plan.Endpoint) (*upstream, error) {
	key := upstreamKeyOf(e)
	if u := p.upstreams[key]; u != nil {
		u.http2.Store(newClientConfig(e.Pool, &u.stats))
		u.limitTo(e.Pool.Limits)
		return u, nil
	}
	u := &upstream{key: key, load: e.Load, pool: e.Pool.Load, own: make([]ownConns, len(p.drivers)), drivers: p.drivers}
	u.limitTo(e.Pool.Limits)
	u.stats.init()
	u.http2.Store(newClientConfig(e.Pool, &u.stats))
	if e.Pool.TLS {
		ck := clientKey{e.Pool.Name, e.Pool.Protocol, e.Pool.TLSFiles.ID()}
		c := p.clients[ck]
		if c == nil {
			client, err := certs.NewClient(e.Pool.TLSFiles, protocols(e.Pool), p.log)
			if err != nil {
				return nil, err
			}
			ctx, stop := context.WithCancel(p.ctx)
			c = &watchedClient{client, stop}
			p.clients[ck] = c
			p.wg.Go(func() { client.Watch(ctx, certInterval) })
		}
		u.tls = c.Client
	}
	p.upstreams[key] = u
	return u, nil
}

func upstreamKeyOf(e *plan.Endpoint) upstreamKey {
	k := upstreamKey{pool: e.Pool.Name, endpoint: e.Name, address: e.Key, protocol: e.Pool.Protocol}
	if e.Pool.TLS {
		k.serverName, k.tls = e.ServerName, e.Pool.TLSFiles.ID()
	}
	return k
}

// retire ends what the new plan has no use for.
func (p *Plane) retire(pl *plan.Plan, s *snapshot) {
	wanted := make(map[string]bool)
	for i := range pl.Listeners {
		wanted[listenerKey(&pl.Listeners[i])] = true
	}
	endpoints := make(map[*upstream]bool)
	clients := make(map[*certs.Client]bool)
	for _, u := range s.upstreams {
		endpoints[u] = true
		clients[u.tls] = true
	}
	balancers := make(map[string]bool)
	for _, b := range pl.LoadBalancers {
		balancers[b.Name] = true
	}

	var closing []*listener
	var unused []*upstream
	p.mu.Lock()
	for key, l := range p.listeners {
		if !wanted[key] {
			delete(p.listeners, key)
			p.leaving[l] = struct{}{}
			closing = append(closing, l)
		}
	}
	for key, u := range p.upstreams {
		if !endpoints[u] {
			delete(p.upstreams, key)
			unused = append(unused, u)
		}
	}
	for key, c := range p.clients {
		if !clients[c.Client] {
			delete(p.clients, key)
			c.stop()
		}
	}
	for name := range p.balancers {
		if !balancers[name] {
			delete(p.balancers, name)
		}
	}
	for i, b := range pl.LoadBalancers {
		s.balancers[i].keepRules(b.Rules)
	}
	p.mu.Unlock()
	p.onDrivers(func(d loop.Driver) {
		for _, u := range unused {
			u.close(d.Index(), false)
		}
	})
	for _, l := range closing {
		p.log.Info("listener is closed; its requests finish", "listener", l.name(), "address", l.bound().String())
		l.close()
		p.wg.Go(func() {
			l.sessions.Wait()
			p.mu.Lock()
			delete(p.leaving, l)
			p.mu.Unlock()
		})
	}
}

// current returns the listeners that accept.
func (p *Plane) current() []*listener {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]*listener, 0, len(p.listeners))
	for _, l := range p.listeners {
		list = append(list, l)
	}
	return list
}

// poolClient is the TLS material of a pool.
type poolClient struct {
	pool   string
	client *certs.Client
}

func (p *Plane) tlsClients() []poolClient {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []poolClient
	for k, c := range p.clients {
		list = append(list, poolClient{k.pool, c.Client})
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

// Listeners returns the listeners that accept.
func (p *Plane) Listeners() []ListenerState {
	var list []ListenerState
	for _, l := range p.current() {
		list = append(list, ListenerState{l.name(), l.set.Load().protocol, l.bound(), l.stats.open.Load()})
	}
	return list
}

// sweep looks over unused connections and budgets until the plane stops.
func (p *Plane) sweep() {
	t := time.NewTicker(sweepInterval)
	defer t.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-t.C:
		}
		snap := p.snap.Load()
		if snap == nil {
			continue
		}
		p.onDrivers(func(d loop.Driver) {
			now := loop.Now()
			for i, u := range snap.upstreams {
				e := snap.plan.Endpoints[i]
				u.sweep(d.Index(), e, now)
				if e.Leaving() {
					u.endDrained(d.Index(), e, now.Wall())
				}
			}
		})
		now := loop.Now()
		for i, u := range snap.upstreams {
			if e := snap.plan.Endpoints[i]; e.Pool.Outliers.On() {
				u.judgeErrors(e, &e.Pool.Outliers, now)
			}
		}
		for _, b := range snap.balancers {
			b.budget.roll(b.requests.Load(), now)
		}
	}
}

// onDrivers runs f as a task of each driver, where connections may be touched,
// and waits for the end of that.
func (p *Plane) onDrivers(f func(d loop.Driver)) {
	var wg sync.WaitGroup
	for _, d := range p.drivers {
		wg.Add(1)
		d.Go(func() {
			defer wg.Done()
			f(d)
		})
	}
	wg.Wait()
}

// Shutdown stops accepting, lets requests in flight finish until ctx is done,
// then cuts what is left and reports how many connections that were.
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
			l.sessions.Wait()
		}
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		p.engine.StopDialling()
		for _, l := range all {
			cut += l.abort()
		}
		<-done
	}
	p.stop()
	p.mu.Lock()
	upstreams := slices.Collect(maps.Values(p.upstreams))
	p.mu.Unlock()
	p.onDrivers(func(d loop.Driver) {
		for _, u := range upstreams {
			u.close(d.Index(), true)
		}
	})
	p.wg.Wait()
	return cut
}
