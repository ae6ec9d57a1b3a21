package plan

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"fairlead/internal/dnswire"
	"fairlead/internal/model"
	"fairlead/internal/resolve"
	"fairlead/internal/zone"
)

// Answering is how the DNS plane answers for a load balancer.
type Answering struct {
	// TTL of the answers, in seconds.
	TTL uint32
	// ByClient gives the same client the same endpoint.
	ByClient bool
	// ECS lets the client subnet of a query say where the client is; with CountryOnly
	// it says the country and nothing else. Resolver lets the resolver's address say
	// what is not known then; without it, the region is always the node's.
	ECS, CountryOnly, Resolver bool
	// Aliases: there are endpoints that may be answered as an alias.
	Aliases bool
}

// proxiedTTL is how long the addresses of this node may be kept.
const proxiedTTL = 300

// answering compiles what DNS needs to know of m.
func (k *compiler) answering(b *LoadBalancer, m *model.LoadBalancer) Answering {
	if m.Proxied {
		return Answering{TTL: proxiedTTL}
	}
	l := &m.LocationStrategy
	a := Answering{
		TTL: uint32(m.TTL / time.Second), ByClient: m.SessionAffinity == model.AffinityIPCookie,
		ECS: l.UsesECS(b.Policy), CountryOnly: l.PreferECS == model.ECSGeo,
		Resolver: l.Mode == model.LocateResolverIP || l.Mode == "" && len(k.plan.Config.Geo.Databases) > 0,
	}
	for name := range m.Candidates() { // of rules as well: an alias is one whatever they do
		a.Aliases = a.Aliases || slices.ContainsFunc(k.pools[name].Endpoints, func(e *Endpoint) bool { return e.Alias != "" })
	}
	return a
}

// answered reports whether DNS answers for a load balancer, if a zone holds its name.
func answered(c *model.Config, m *model.LoadBalancer) bool {
	return m.Enabled && (!m.Proxied || len(c.Node.PublicAddresses) > 0)
}

// zoned reports whether a zone holds the name of a load balancer.
func zoned(c *model.Config, m *model.LoadBalancer) bool {
	name := model.CanonicalHost(m.Name)
	return slices.ContainsFunc(c.Zones, func(z model.Zone) bool {
		origin := model.CanonicalHost(z.Name)
		return name == origin || strings.HasSuffix(name, "."+origin)
	})
}

// steeredName is a name that a load balancer, by its position in the configuration,
// answers for.
type steeredName struct {
	name     dnswire.Name
	balancer int
}

// steeredNames returns the names that load balancers answer for, in order, by the
// name of the zone that holds them.
func steeredNames(c *model.Config) map[dnswire.Name][]steeredName {
	origins := make(map[dnswire.Name]bool, len(c.Zones))
	for i := range c.Zones {
		if origin, err := dnswire.ParseName(model.CanonicalHost(c.Zones[i].Name), dnswire.Root); err == nil {
			origins[origin] = true
		}
	}
	steered := make(map[dnswire.Name][]steeredName)
	for i := range c.LoadBalancers {
		m := &c.LoadBalancers[i]
		if !answered(c, m) {
			continue
		}
		name, err := dnswire.ParseName(model.CanonicalHost(m.Name), dnswire.Root)
		if err != nil {
			continue // a name of layer 4
		}
		origin := name
		for origin != "" && !origins[origin] {
			origin = origin.Parent()
		}
		if origin != "" {
			steered[origin] = append(steered[origin], steeredName{name, i})
		}
	}
	for _, list := range steered {
		slices.SortFunc(list, func(a, b steeredName) int { return cmp.Compare(a.name, b.name) })
	}
	return steered
}

// namesOf are what a zone is told of.
func namesOf(list []steeredName) (names []dnswire.Name) {
	for _, s := range list {
		names = append(names, s.name)
	}
	return names
}

// steer has the load balancers of the plan answer for their names.
func (k *compiler) steer(c *model.Config) {
	byName := make(map[string]*LoadBalancer, len(k.plan.LoadBalancers))
	for _, b := range k.plan.LoadBalancers {
		byName[b.Name] = b
	}
	for _, z := range k.plan.Zones {
		for _, s := range k.steered[z.Origin] {
			z.Steered = append(z.Steered, byName[model.CanonicalHost(c.LoadBalancers[s.balancer].Name)])
		}
	}
}

// found is what own zones know of a host name.
type found struct {
	addrs   []netip.Addr
	outside string // the name that others answer for to which aliases lead; "" for none
}

// maxAliases bounds the aliases that lead from an endpoint's host name to its
// addresses.
const maxAliases = 16

// lookup finds a host name in own zones. ok is false where none holds it.
func lookup(authority *zone.Zones, host string) (f found, ok bool, err error) {
	name, err := dnswire.ParseName(model.CanonicalHost(host), dnswire.Root)
	if err != nil {
		return f, false, nil // told by validation
	}
	var k dnswire.Key
	for links := 0; ; links++ {
		k.SetName(name.Lower())
		at := authority.Find(&k, dnswire.TypeA)
		if at < 0 {
			f.outside = strings.TrimSuffix(name.String(), ".")
			return f, links > 0, nil
		}
		if links > maxAliases {
			return f, true, fmt.Errorf("more than %d aliases lead from it, or a loop: want A or AAAA records", maxAliases)
		}
		z := authority.All()[at]
		m := z.Lookup(&k, dnswire.TypeA)
		switch {
		case m.Kind == zone.Delegated:
			f.outside = strings.TrimSuffix(name.String(), ".")
			return f, true, nil
		case m.Kind == zone.Missing:
			return f, true, fmt.Errorf("zone %q does not have %s: want a name with A or AAAA records", z.Name, name)
		case m.Kind == zone.Redirected:
			start := k.Start(k.Labels() - m.Node.Labels())
			next, fits := new(dnswire.Key).Join(nil, k.Name()[:start], m.Node.DNAME().Alias)
			if !fits {
				return f, true, fmt.Errorf("the DNAME record of %s makes it too long", m.Node.Name)
			}
			name = dnswire.Name(next)
		case m.Node.Steered != 0:
			return f, true, fmt.Errorf("%s is a load balancer of its own: want the address of an endpoint", name)
		case m.Node.CNAME() != nil:
			name = m.Node.CNAME().Alias
		default:
			for _, t := range [...]dnswire.Type{dnswire.TypeA, dnswire.TypeAAAA} {
				if s := m.Node.Set(t); s != nil {
					for data := range z.Data(s) {
						if a, ok := netip.AddrFromSlice(data); ok {
							f.addrs = append(f.addrs, a)
						}
					}
				}
			}
			if len(f.addrs) == 0 {
				return f, true, fmt.Errorf("%s has no A or AAAA record in zone %q", name, z.Name)
			}
			return f, true, nil
		}
	}
}

// resolved returns the name of an endpoint that is a host name: as own zones have it,
// so that no query of ours comes back to us, else as resolvers do.
func (k *compiler) resolved(host string) (*resolve.Name, error) {
	f, own, err := lookup(k.plan.Authority, host)
	switch {
	case err != nil:
		return nil, err
	case !own:
		return k.tables.Resolver.Name(host), nil
	case f.outside != "":
		return k.tables.Resolver.Name(f.outside + "."), nil
	}
	return k.own(host, f.addrs), nil
}

// own returns a name with fixed addresses, the one that the plan before has if it has
// the same, so that whoever holds it sees no change.
func (k *compiler) own(host string, addrs []netip.Addr) *resolve.Name {
	n := resolve.Fixed(host, addrs)
	if was := k.fixedBefore[n.Host]; was != nil && slices.Equal(was.Addresses(), n.Addresses()) {
		n = was
	}
	if k.plan.fixed == nil {
		k.plan.fixed = make(map[string]*resolve.Name)
	}
	k.plan.fixed[n.Host] = n
	return n
}

// checkEndpoints finds endpoints whose host names own zones cannot resolve.
func checkEndpoints(c *model.Config, authority *zone.Zones) (problems []model.Problem) {
	for i := range c.Pools {
		for j := range c.Pools[i].Endpoints {
			e := &c.Pools[i].Endpoints[j]
			host, _, err := model.SplitAddress(e.Address)
			if err != nil {
				continue
			}
			if _, err := netip.ParseAddr(host); err == nil {
				continue
			}
			if _, _, err := lookup(authority, host); err != nil {
				at := model.Place{}.Key("pools").Item(i, c.Pools[i].Name).Key("endpoints").Item(j, e.Name).Key("address")
				problems = append(problems, model.Problem{Path: at.Path, Text: fmt.Sprintf("%s %s: %v", at.Text, model.Show(e.Address), err)})
			}
		}
	}
	return problems
}

// checkSteered warns of what is declared for names that load balancers answer for
// and has no effect there, or goes past them.
func checkSteered(c *model.Config, z *zone.Zone, steered []steeredName) (problems []model.Problem) {
	pools := make(map[string]*model.Pool)
	for i := range c.Pools {
		pools[c.Pools[i].Name] = &c.Pools[i]
	}
	for _, s := range steered {
		m, name := &c.LoadBalancers[s.balancer], s.name
		n := z.Find(name)
		at := model.Place{}.Key("load_balancers").Item(s.balancer, m.Name)
		warn := func(format string, values ...any) {
			problems = append(problems, model.Problem{Path: at.Path, Text: at.Text + ": " + fmt.Sprintf(format, values...), Warning: true})
		}
		for _, t := range [...]dnswire.Type{dnswire.TypeHTTPS, dnswire.TypeSVCB} {
			if s := n.Set(t); s != nil && hinted(z, s) {
				warn("the %s record of %s has address hints: clients that follow them go past the load balancer", t, name)
			}
		}
		if m.Proxied {
			continue
		}
		for _, pool := range slices.Sorted(maps.Keys(m.Candidates())) {
			p := pools[pool]
			if p == nil || !slices.ContainsFunc(p.Endpoints, func(e model.Endpoint) bool { return !e.FlattenCNAME }) {
				continue
			}
			switch {
			case n == z.Apex():
				warn("pool %q has endpoints with flatten_cname: false, but the name is that of the zone, which cannot be an alias: their addresses are answered", pool)
			case len(n.Sets()) > 0:
				warn("pool %q has endpoints with flatten_cname: false, but %s has other records, beside which there is no alias: their addresses are answered", pool, name)
			}
		}
	}
	return problems
}

// hinted reports whether a set of HTTPS or SVCB records has address hints.
func hinted(z *zone.Zone, s *zone.Set) bool {
	for data := range z.Data(s) {
		if dnswire.HasAddressHint(data) {
			return true
		}
	}
	return false
}

// Candidates returns the pools that may be chosen, by whichever policy and rule.
func (b *LoadBalancer) Candidates() []*Pool {
	set := make(map[*Pool]bool)
	for p := range b.pools() {
		set[p] = true
	}
	if b.variants != nil {
		for name := range b.variants.base.Candidates() {
			if p := b.variants.compiler.pools[name]; p != nil {
				set[p] = true
			}
		}
	}
	return slices.Collect(maps.Keys(set))
}
