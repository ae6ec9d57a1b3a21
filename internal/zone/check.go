package zone

import (
	"fairlead/internal/dnswire"
)

// check finds what a zone checker would.
func (b *builder) check() {
	apex := b.z.apex
	switch soa := apex.Set(dnswire.TypeSOA); {
	case soa == nil:
		b.bad(-1, "no SOA record for %s", b.in.Origin)
	case soa.Count > 1:
		b.bad(b.places[soa][1], "a second SOA record: want one")
	}
	if apex.Set(dnswire.TypeNS) == nil {
		b.bad(-1, "no NS record for %s: want at least one", b.in.Origin)
	}
	for _, n := range b.z.nodes {
		b.checkNode(n)
	}
	b.checkLoops()
}

func (b *builder) checkNode(n *Node) {
	if n.stop != nil && n.stop != n {
		b.checkOccluded(n)
		return
	}
	if s := n.cname; s != nil {
		switch {
		case s.Count > 1:
			b.bad(b.places[s][1], "%s has a second CNAME record%s; keep one", n.Name, b.where(b.places[s][0]))
		case n.Steered != 0: // collect has left it out
		case len(n.sets) > 1:
			other := n.sets[0]
			if other == s {
				other = n.sets[1]
			}
			b.bad(b.places[s][0], "%s has both CNAME and %s%s; keep one", n.Name, other.Type, b.where(b.places[other][0]))
		}
		b.checkTargets(n, s)
	}
	if s := n.dname; s != nil {
		if s.Count > 1 {
			b.bad(b.places[s][1], "%s has a second DNAME record%s; keep one", n.Name, b.where(b.places[s][0]))
		}
		if n.cut {
			b.bad(b.places[s][0], "%s has both DNAME and NS; keep one", n.Name)
		}
		if n.Name.Wildcard() {
			b.bad(b.places[s][0], "%s: a wildcard cannot have DNAME records (RFC 4592 section 4.4)", n.Name)
		}
	}
	if s := n.Set(dnswire.TypeDS); s != nil && !n.cut {
		text := "DS records belong to a delegation: want NS records of the same name"
		if n == b.z.apex {
			text = "DS records of the zone itself belong into the zone above it"
		}
		b.bad(b.places[s][0], "%s: %s", n.Name, text)
	}
	if n.cut {
		b.checkCut(n)
	}
	for _, t := range []dnswire.Type{dnswire.TypeNS, dnswire.TypeMX, dnswire.TypeSRV} {
		if s := n.Set(t); s != nil {
			b.checkTargets(n, s)
		}
	}
}

// checkOccluded looks at a name that is below a delegation or a DNAME record:
// of those only the addresses of name servers are ever seen.
func (b *builder) checkOccluded(n *Node) {
	if n.Steered != 0 {
		b.bad(-1, "load balancer %s is below %s, which is delegated or redirected: it is never answered", n.Name, n.stop.Name)
	}
	for _, s := range n.sets {
		switch {
		case !n.stop.cut:
			b.bad(b.places[s][0], "%s %s is below the DNAME record of %s: it is never answered", n.Name, s.Type, n.stop.Name)
		case s.Type != dnswire.TypeA && s.Type != dnswire.TypeAAAA:
			b.warn(b.places[s][0], "%s %s is below the delegation of %s: it is never answered", n.Name, s.Type, n.stop.Name)
		}
	}
}

func (b *builder) checkCut(n *Node) {
	if n.Name.Wildcard() {
		b.bad(b.places[n.Set(dnswire.TypeNS)][0], "%s: a wildcard cannot be delegated (RFC 4592 section 4.2)", n.Name)
	}
	if n.Steered != 0 {
		b.bad(b.places[n.Set(dnswire.TypeNS)][0], "%s is delegated, and a load balancer has the name; keep one", n.Name)
	}
	for _, s := range n.sets {
		switch s.Type {
		case dnswire.TypeNS, dnswire.TypeDS, dnswire.TypeA, dnswire.TypeAAAA, dnswire.TypeCNAME, dnswire.TypeDNAME:
		default:
			b.warn(b.places[s][0], "%s %s: the name is delegated, so that it is never answered", n.Name, s.Type)
		}
	}
}

// checkTargets looks at the names that a set points to, as far as the zone knows
// them.
func (b *builder) checkTargets(n *Node, s *Set) {
	for _, i := range b.places[s] {
		data := b.in.Records[i].Data
		in, ok := dnswire.TargetIn(s.Type, data)
		if !ok {
			continue
		}
		target := dnswire.Name(data[in.Start:in.End])
		lower := target.Lower()
		if lower == dnswire.Root || !lower.In(b.in.Origin) {
			continue
		}
		m := b.lookup(lower)
		addresses := m.Node.Set(dnswire.TypeA) != nil || m.Node.Set(dnswire.TypeAAAA) != nil || m.Node.Steered != 0
		switch {
		case m.Kind == Redirected && s.Type != dnswire.TypeCNAME, m.Kind != Missing && m.Kind != Delegated && m.Node.cname != nil && s.Type != dnswire.TypeCNAME:
			b.problem(s.Type == dnswire.TypeNS, i, "%s %s: %s is an alias: want a name with addresses", n.Name, s.Type, target)
		case m.Kind == Delegated:
			b.checkGlue(n, s, i, target, m.Node)
		case m.Kind == Redirected:
		case m.Kind == Missing:
			b.problem(s.Type == dnswire.TypeNS, i, "%s %s: %s does not exist", n.Name, s.Type, target)
		case !addresses && s.Type != dnswire.TypeCNAME:
			b.problem(s.Type == dnswire.TypeNS, i, "%s %s: %s has no A or AAAA record", n.Name, s.Type, target)
		}
	}
}

// checkGlue looks for the address of a target below a delegation. The servers of
// that very delegation cannot be found without it.
func (b *builder) checkGlue(n *Node, s *Set, record int, target dnswire.Name, cut *Node) {
	if s.Type != dnswire.TypeNS {
		return // others answer for it
	}
	if g := b.byName[target.Lower()]; g != nil && (g.Set(dnswire.TypeA) != nil || g.Set(dnswire.TypeAAAA) != nil) {
		return
	}
	if cut == n {
		b.bad(record, "%s NS: %s has no A or AAAA record here: its name is below the delegation, so that resolvers need this glue", n.Name, target)
	} else {
		b.warn(record, "%s NS: %s has no A or AAAA record here; resolvers have to ask the servers of %s for it", n.Name, target, cut.Name)
	}
}

func (b *builder) problem(isError bool, record int, format string, args ...any) {
	if isError {
		b.bad(record, format, args...)
	} else {
		b.warn(record, format, args...)
	}
}

func (b *builder) lookup(name dnswire.Name) Match {
	var k dnswire.Key
	k.SetName(name)
	return b.z.Lookup(&k, dnswire.TypeA)
}

// checkLoops finds aliases that lead back to themselves, each loop once.
func (b *builder) checkLoops() {
	done := make(map[*Node]bool)
	for _, n := range b.z.nodes {
		path := make(map[*Node]bool)
		for n != nil && n.cname != nil && n.stop == nil && !done[n] {
			done[n], path[n] = true, true
			i := b.places[n.cname][0]
			in, _ := dnswire.TargetIn(dnswire.TypeCNAME, b.in.Records[i].Data)
			target := dnswire.Name(b.in.Records[i].Data[in.Start:in.End]).Lower()
			if !target.In(b.in.Origin) {
				break
			}
			m := b.lookup(target)
			if m.Kind != Exact && m.Kind != Wildcard {
				break
			}
			if n = m.Node; path[n] {
				b.bad(i, "%s CNAME: leads back to %s, a loop", b.in.Records[i].Owner, n.Name)
			}
		}
	}
}
