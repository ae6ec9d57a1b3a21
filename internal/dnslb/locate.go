package dnslb

import (
	"net/netip"

	"fairlead/internal/geo"
	"fairlead/internal/model"
	"fairlead/internal/plan"
)

// subnet returns the first address of the client subnet of the query; the zero
// address where the query names none, or says that it is not to be used.
func (r *responder) subnet() (a netip.Addr) {
	if e := &r.q.ECS; r.q.HasECS && e.Source > 0 {
		return e.Prefix.Addr()
	}
	return a
}

// client returns the address that a client is known by: that of its subnet, else of
// its resolver.
func (r *responder) client() netip.Addr {
	if a := r.subnet(); a.IsValid() {
		return a
	}
	return r.who.addr.Addr().Unmap()
}

// byClient notes that the client's address has played a part.
func (r *responder) byClient() {
	if r.subnet().IsValid() {
		r.consulted(r.q.ECS.Source)
	}
}

// consulted notes that so many bits of the client subnet have played a part.
func (r *responder) consulted(bits uint8) { r.steering.scope = max(r.steering.scope, bits) }

// scoped tells for which clients the answer holds.
func (r *responder) scoped(z *plan.Zone) {
	scope, bounds := int(r.steering.scope), &z.Config.ECSScope
	switch {
	case scope == 0:
	case r.q.ECS.Prefix.Addr().Is4():
		scope = min(max(scope, bounds.IPv4Min), bounds.IPv4Max)
	default:
		scope = min(max(scope, bounds.IPv6Min), bounds.IPv6Max)
	}
	r.o.scope = max(r.o.scope, uint8(scope))
}

// situate tells steering where the client is: each fact as its subnet has it, where
// that is asked for, else as the resolver's address has it, else as this node has it.
func (r *responder) situate(b *plan.LoadBalancer) {
	p, a, databases := &r.steering.facts.Place, &b.Answering, r.snap.plan.Geo
	var country, region, position bool // are known
	if subnet := r.subnet(); a.ECS && subnet.IsValid() {
		l := databases.Locate(subnet)
		if country = l.Country != ""; country {
			p.Country = l.Country
		}
		if region = country && a.Resolver && !a.CountryOnly; region {
			p.Region = l.Region
		}
		if position = l.HasCoordinates && !a.CountryOnly; position {
			p.Position = l.Position()
		}
		r.consulted(bitsOf(b, a, p, &l))
	}
	if !a.Resolver || country && region && position {
		return
	}
	l := databases.Locate(r.who.addr.Addr().Unmap())
	if l.Country != "" && !country {
		p.Country = l.Country
	}
	if l.Country != "" && !region {
		p.Region = l.Region
	}
	if l.HasCoordinates && !position {
		p.Position = l.Position()
	}
}

// bitsOf returns how many bits of the subnet the policy goes by, at a place that is
// in part the subnet's.
func bitsOf(b *plan.LoadBalancer, a *plan.Answering, p *plan.Place, l *geo.Place) (bits uint8) {
	if b.Policy == model.SteerProximity {
		return l.Bits.Coordinates
	}
	if len(b.PoPs[p.PoP]) > 0 {
		return 0
	}
	if len(b.Countries) > 0 {
		bits = l.Bits.Country
		if len(b.Countries[p.Country]) > 0 {
			return bits
		}
	}
	if len(b.Regions) > 0 && a.Resolver && !a.CountryOnly {
		bits = max(bits, l.Bits.Region)
	}
	return bits
}
