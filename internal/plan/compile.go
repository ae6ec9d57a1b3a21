package plan

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairlead/internal/affinity"
	"fairlead/internal/certs"
	"fairlead/internal/dnswire"
	"fairlead/internal/geo"
	"fairlead/internal/health"
	"fairlead/internal/load"
	"fairlead/internal/model"
	"fairlead/internal/pick"
	"fairlead/internal/resolve"
	"fairlead/internal/zone"
)

// Tables are where what is observed lives. They outlive plans.
type Tables struct {
	Health   *health.Table
	Load     *load.Table
	Resolver *resolve.Resolver
	Geo      *geo.Databases // nil for none
	// Keys of session cookies, in place of those in the file; nil for these.
	Keys *affinity.Keys
	// Serials of the zones; nil where they are not remembered.
	Serials *zone.Serials
}

// Sizes of hash rings: below the least, shares are too uneven; above the most,
// a ring costs more memory than it is worth.
const (
	minRing = 1024
	maxRing = 1 << 20
)

// Compile makes a plan of c, which must be valid (model.Config.Validate) and
// is not to be changed afterwards, to follow the plan before, or nil. Nothing that is in use changes by it, so a
// plan that is compiled and not used does no harm. An error names a file that
// cannot be read, or a listener whose host name has no address.
func Compile(c *model.Config, before *Plan, t Tables) (*Plan, error) {
	k := &compiler{
		tables:   t,
		plan:     &Plan{Revision: 1, Config: c, Node: nodePlace(&c.Node), Geo: t.Geo},
		now:      time.Now(),
		drains:   drains(c),
		before:   make(map[string]*Pool),
		pools:    make(map[string]*Pool, len(c.Pools)),
		monitors: make(map[string]*model.Monitor, len(c.Monitors)),
		groups:   make(map[string]*model.MonitorGroup, len(c.MonitorGroups)),
	}
	if before != nil {
		k.plan.Revision = before.Revision + 1
		k.fixedBefore = before.fixed
		for _, p := range before.Pools {
			k.before[p.Name] = p
		}
	}
	for i := range c.Monitors {
		k.monitors[c.Monitors[i].Name] = &c.Monitors[i]
	}
	for i := range c.MonitorGroups {
		k.groups[c.MonitorGroups[i].Name] = &c.MonitorGroups[i]
	}
	if err := k.loadKeys(); err != nil {
		return nil, err
	}
	if err := k.zones(c, before); err != nil {
		return nil, err
	}
	for i := range c.Pools {
		if err := k.pool(&c.Pools[i]); err != nil {
			return nil, fmt.Errorf("pool %q: %w", c.Pools[i].Name, err)
		}
	}
	for i := range c.LoadBalancers {
		if err := k.loadBalancer(&c.LoadBalancers[i]); err != nil {
			return nil, fmt.Errorf("load balancer %q: %w", c.LoadBalancers[i].Name, err)
		}
	}
	for i := range c.Listeners {
		bind, err := bindAddress(c.Listeners[i].Address)
		if err != nil {
			return nil, fmt.Errorf("listener %q: %w", c.Listeners[i].Name, err)
		}
		if cc := c.Listeners[i].ClientCertificates; cc != nil && cc.SubjectHeader != "" {
			k.plan.SubjectHeaders = append(k.plan.SubjectHeaders, strings.ToLower(cc.SubjectHeader))
		}
		l := Listener{Listener: &c.Listeners[i], Bind: bind}
		if l.SpeaksDNS() {
			k.plan.DNSListeners = append(k.plan.DNSListeners, l)
		} else {
			k.plan.Listeners = append(k.plan.Listeners, l)
		}
	}
	k.steer(c)
	k.before, k.was, k.fixedBefore = nil, nil, nil // the compiler stays, for variants of load balancers
	return k.plan, nil
}

// compiler holds what the parts of one compilation share.
type compiler struct {
	tables   Tables
	plan     *Plan
	pools    map[string]*Pool
	monitors map[string]*model.Monitor
	groups   map[string]*model.MonitorGroup
	keys     *affinity.Keys                 // of cookies, if they are needed
	steered  map[dnswire.Name][]steeredName // by zone

	fixedBefore map[string]*resolve.Name // of the plan before

	now    time.Time
	drains map[string]time.Duration // of sessions, the longest by pool
	before map[string]*Pool         // of the plan before
	was    map[uint64]*Endpoint     // in the pool before, by identity
}

func (k *compiler) pool(m *model.Pool) error {
	p := &Pool{
		Index: len(k.plan.Pools), Name: m.Name, Enabled: m.Enabled,
		Policy: m.EndpointSteering.Policy, Position: position(m.Latitude, m.Longitude), WarmUp: m.ProfileWarmUp,
		Shedding: Shedding{
			Share: m.LoadShedding.DefaultPercent / 100, ByClient: m.LoadShedding.DefaultPolicy == model.ShedHash,
			Sessions: m.LoadShedding.SessionPercent / 100,
		},
		Hash:     pick.HashKey(m.Name),
		Load:     k.tables.Load.Counter(load.Key{Pool: m.Name}),
		Protocol: m.Protocol, TLS: m.Protocol.OverTLS(), TLSFiles: m.TLS,
		ConnectTimeout: m.ConnectTimeout, AnswerTimeout: m.AnswerTimeout,
		IdleTimeout: m.IdleTimeout, MaxIdle: m.MaxIdleConnections,
		Limits: m.EndpointLimits, SlowStart: m.SlowStart, Outliers: m.OutlierDetection,
	}
	roots, certificate, err := certs.LoadClient(m.TLS)
	if err != nil {
		return err
	}
	watches := k.watches(m)
	k.was = identified(k.before[m.Name])
	for i := range m.Endpoints {
		e, err := k.endpoint(p, &m.Endpoints[i], m.DefaultPort(), len(watches) > 0)
		if err != nil {
			return fmt.Errorf("endpoint %q: %w", m.Endpoints[i].Name, err)
		}
		p.Endpoints = append(p.Endpoints, e)
	}
	if err := k.leave(p, m, len(watches) > 0); err != nil {
		return err
	}
	members := make([]health.Member, len(p.Endpoints))
	weights := make([]float64, len(p.Endpoints))
	keys := make([]string, len(p.Endpoints))
	for i, e := range p.Endpoints {
		members[i] = health.Member{Endpoint: e.Health, Enabled: e.Enabled}
		keys[i] = e.Key
		if e.Enabled {
			weights[i] = e.Weight
		}
		if !m.Enabled || !e.Enabled && !e.Draining(k.now) {
			continue
		}
		for j := range watches {
			t := k.target(p, e, &watches[j])
			t.RootCAs, t.Certificate, t.Pins = roots, certificate, m.TLS.Pins
			k.plan.Targets = append(k.plan.Targets, t)
		}
	}
	switch p.Policy {
	case model.EndpointRoundRobin:
		p.Rotation = pick.NewRotation(weights)
	case model.EndpointRingHash:
		p.Ring = pick.NewRing(keys, weights, minRing, maxRing)
	case model.EndpointMaglev:
		p.Maglev = pick.NewMaglev(keys, weights, 0)
	}
	p.Even = even(p.Endpoints)
	// The other policies draw by weight too where there is nothing to hash.
	p.Table = pick.NewAlias(weights)
	p.Health = k.tables.Health.Pool(m.Name, members, m.MinimumEndpoints)
	k.plan.Pools = append(k.plan.Pools, p)
	k.pools[m.Name] = p
	return nil
}

// even reports whether all endpoints that are enabled have the same weight.
func even(endpoints []*Endpoint) bool {
	var first *Endpoint
	for _, e := range endpoints {
		if first == nil && e.Enabled {
			first = e
		}
		if e.Enabled && e.Weight != first.Weight {
			return false
		}
	}
	return true
}

// identified returns the endpoints of a pool, which may be nil, by identity.
func identified(p *Pool) map[uint64]*Endpoint {
	if p == nil {
		return nil
	}
	all := make(map[uint64]*Endpoint, len(p.Endpoints))
	for _, e := range p.Endpoints {
		all[e.Session] = e
	}
	return all
}

func (k *compiler) endpoint(p *Pool, m *model.Endpoint, defaultPort int, monitored bool) (*Endpoint, error) {
	host, port, err := model.SplitAddress(m.Address)
	if err != nil {
		return nil, err
	}
	if port == 0 {
		port = defaultPort
	}
	key := net.JoinHostPort(strings.ToLower(host), strconv.Itoa(port))
	e := &Endpoint{
		Index: len(k.plan.Endpoints), Slot: len(p.Endpoints), Name: m.Name, Pool: p,
		Key: key, Hash: pick.HashKey(key), Session: SessionIdentity(p.Name, m.VirtualNetwork, key), Weight: m.Weight, Enabled: m.Enabled, Private: m.VirtualNetwork != "",
		Host: m.HostHeader(), ServerName: serverName(p, m, host), port: uint16(port), declared: m,
		Load: k.tables.Load.Counter(load.Key{Pool: p.Name, Endpoint: m.Name, Address: key}),
	}
	known := health.Key{Pool: p.Name, Endpoint: m.Name, Address: key}
	if was := k.was[e.Session]; was != nil && was.Name != m.Name {
		e.Health = k.tables.Health.Rename(known, was.Health, monitored)
	} else {
		e.Health = k.tables.Health.Endpoint(known, monitored)
	}
	if a, err := netip.ParseAddr(host); err == nil {
		e.addr = netip.AddrPortFrom(a.Unmap(), e.port)
	} else if e.name, err = k.resolved(host); err != nil {
		return nil, fmt.Errorf("address %q: %w", m.Address, err)
	} else if !m.FlattenCNAME {
		e.Alias, _ = dnswire.ParseName(strings.TrimSuffix(host, "."), dnswire.Root)
	}
	k.plan.Endpoints = append(k.plan.Endpoints, e)
	return e, nil
}

// serverName is the name that an endpoint's certificate must be valid for.
func serverName(p *Pool, m *model.Endpoint, host string) string {
	name := p.TLSFiles.ServerName
	if name == "" {
		name = m.HostHeader()
		if h, _, err := net.SplitHostPort(name); err == nil {
			name = h
		}
	}
	if name == "" {
		name = host
	}
	return name
}

func (k *compiler) loadBalancer(m *model.LoadBalancer) error {
	if !m.Enabled {
		return nil
	}
	b := k.balancer(m)
	b.Index = len(k.plan.LoadBalancers)
	if err := k.rules(b, m); err != nil {
		return err
	}
	k.plan.LoadBalancers = append(k.plan.LoadBalancers, b)
	if b.Proxied {
		k.plan.hosts.add(b)
	}
	return nil
}

// balancer compiles all of a load balancer but its rules.
func (k *compiler) balancer(m *model.LoadBalancer) *LoadBalancer {
	b := &LoadBalancer{
		Name: model.CanonicalHost(m.Name), Proxied: m.Proxied, Policy: m.Policy(),
		Default: k.poolList(m.DefaultPools), Fallback: k.pools[m.FallbackPool], RetryBudget: m.RetryBudget, RetryBody: m.RetryBodyBytes,
		Regions: mapPools(k, m.RegionPools), Countries: mapPools(k, m.CountryPools), PoPs: mapPools(k, m.PopPools),
		AcrossPools: m.AdaptiveRouting.FailoverAcrossPools,
	}
	b.ByPlace = b.Policy == model.SteerGeo || b.Policy == model.SteerProximity
	for p := range b.pools() {
		b.Sheds = b.Sheds || p.Shedding.Share > 0
	}
	k.affinity(b, m)
	b.Answering = k.answering(b, m)
	for _, p := range b.Default {
		b.Weights = append(b.Weights, m.RandomSteering.Weight(p.Name))
	}
	b.Table = pick.NewAlias(b.Weights)
	return b
}

// pools yields all pools that traffic may be steered to, some more than once.
func (b *LoadBalancer) pools() iter.Seq[*Pool] {
	return func(yield func(*Pool) bool) {
		lists := [][]*Pool{b.Default}
		if b.Fallback != nil {
			lists = append(lists, []*Pool{b.Fallback})
		}
		lists = slices.AppendSeq(lists, maps.Values(b.Regions))
		lists = slices.AppendSeq(lists, maps.Values(b.Countries))
		lists = slices.AppendSeq(lists, maps.Values(b.PoPs))
		for _, list := range lists {
			for _, p := range list {
				if !yield(p) {
					return
				}
			}
		}
	}
}

func (k *compiler) poolList(names []string) []*Pool {
	list := make([]*Pool, len(names))
	for i, n := range names {
		list[i] = k.pools[n]
	}
	return list
}

func mapPools[K comparable](k *compiler, names map[K][]string) map[K][]*Pool {
	m := make(map[K][]*Pool, len(names))
	for key, list := range names {
		m[key] = k.poolList(list)
	}
	return m
}

// nameTimeout bounds the look-up of a listener's host name.
const nameTimeout = 5 * time.Second

// bindAddress reads host:port, where the host may be empty or a name of this
// machine.
func bindAddress(s string) (netip.AddrPort, error) {
	host, portText, err := net.SplitHostPort(s)
	if err != nil {
		return netip.AddrPort{}, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("port %q: want 0 to 65535", portText)
	}
	if host == "" {
		return netip.AddrPortFrom(netip.Addr{}, uint16(port)), nil
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), nameTimeout)
		defer cancel()
		all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		if err != nil {
			return netip.AddrPort{}, fmt.Errorf("address %q: %w", s, err)
		}
		a = all[0].Unmap()
	}
	return netip.AddrPortFrom(a, uint16(port)), nil
}

func nodePlace(n *model.Node) Place {
	return Place{PoP: n.PoP, Country: n.Country, Region: n.Region, Position: position(n.Latitude, n.Longitude)}
}

func position(latitude, longitude *float64) Position {
	if latitude == nil || longitude == nil {
		return Position{}
	}
	return geo.At(*latitude, *longitude)
}
