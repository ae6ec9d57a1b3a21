package dnslb

import (
	"math/rand/v2"
	"net/netip"

	"fairlead/internal/dnswire"
	"fairlead/internal/model"
	"fairlead/internal/plan"
	"fairlead/internal/rules"
	"fairlead/internal/steer"
	"fairlead/internal/zone"
)

// maxAddresses bounds the addresses of one answer. Of more than that, an answer has
// as many, other ones each time.
const maxAddresses = 256

// steering is what a responder needs for names whose answers are chosen.
type steering struct {
	rnd    rand.PCG
	facts  steer.Facts
	picked []*plan.Endpoint
	addrs  []netip.Addr
	scope  uint8 // bits of the client subnet that have played a part

	view    view
	scratch rules.Scratch
	key     []byte // of the load balancer's variant
}

// decided is what was chosen for a query, for counts and the log.
type decided struct {
	balancer *plan.LoadBalancer
	pool     *plan.Pool
	reason   steer.Reason
}

func newSteering() *steering {
	return &steering{rnd: *rand.NewPCG(rand.Uint64(), rand.Uint64()), addrs: make([]netip.Addr, 0, maxAddresses)}
}

// asked are the families of addresses that a query asks for.
type asked uint8

// The families. Other types than A, AAAA and ANY ask for none.
const (
	askedNone asked = iota
	askedA
	askedAAAA
	askedBoth
)

func askedBy(t dnswire.Type) asked {
	switch t {
	case dnswire.TypeA:
		return askedA
	case dnswire.TypeAAAA:
		return askedAAAA
	case dnswire.TypeANY:
		return askedBoth
	}
	return askedNone
}

// offered says whether an endpoint has what is asked for: addresses only, or also an
// alias, whose addresses others tell. They are here, and no closures, as these would
// be allocated.
var offered = [2][askedBoth + 1]func(*plan.Endpoint) bool{
	{
		askedNone: func(*plan.Endpoint) bool { return false },
		askedA:    func(e *plan.Endpoint) bool { return e.HasAddress(false) },
		askedAAAA: func(e *plan.Endpoint) bool { return e.HasAddress(true) },
		askedBoth: func(e *plan.Endpoint) bool { return e.HasAddress(false) || e.HasAddress(true) },
	},
	{
		askedNone: func(e *plan.Endpoint) bool { return aliased(e) || e.HasAddress(false) || e.HasAddress(true) },
		askedA:    func(e *plan.Endpoint) bool { return aliased(e) || e.HasAddress(false) },
		askedAAAA: func(e *plan.Endpoint) bool { return aliased(e) || e.HasAddress(true) },
		askedBoth: func(e *plan.Endpoint) bool { return aliased(e) || e.HasAddress(false) || e.HasAddress(true) },
	},
}

func aliased(e *plan.Endpoint) bool { return e.Alias != "" && !e.Private }

// aliases reports whether a name may be answered as an alias: beside one there is no
// other record, so that the zone's own name, which has SOA and NS, never is one.
func aliases(z *plan.Zone, n *zone.Node) bool {
	return z.Steered[n.Steered-1].Answering.Aliases && len(n.Sets()) == 0
}

// steers reports whether what a query asks of a name is chosen; the records of the
// zone answer for the rest.
func steers(z *plan.Zone, n *zone.Node, t dnswire.Type) bool {
	switch t {
	case dnswire.TypeA, dnswire.TypeAAAA:
		return true
	case dnswire.TypeANY:
		return len(n.Sets()) == 0
	}
	return aliases(z, n)
}

// steered adds what the load balancer of a name answers: addresses, nothing, or an
// alias and the name to go on with.
func (r *responder) steered(z *plan.Zone, n *zone.Node, key *dnswire.Key, at place, origin int) (next *dnswire.Key, there place) {
	if r.steering == nil {
		r.steering = newSteering()
	}
	s, b, want := r.steering, z.Steered[n.Steered-1], askedBy(r.q.Type)
	s.scope = 0
	r.decided = decided{balancer: b}
	if b.Proxied {
		s.addrs = s.addrs[:0]
		for _, a := range r.snap.plan.Config.Node.PublicAddresses {
			s.addrs = append(s.addrs, a.Unmap())
		}
		r.addresses(z, n, key, want, b.Answering.TTL, at, origin)
		return nil, at
	}
	e := r.choose(z, b, want, aliases(z, n))
	b = r.decided.balancer
	if e != nil {
		r.scoped(z)
		return r.aliasTo(e.Alias, b.Answering.TTL, key, at)
	}
	s.addrs = s.addrs[:0]
	for _, e := range s.picked {
		if s.addrs = e.AppendAddresses(s.addrs, want == askedAAAA); want == askedBoth {
			s.addrs = e.AppendAddresses(s.addrs, true)
		}
		if len(s.addrs) > maxAddresses {
			s.addrs = s.addrs[:maxAddresses]
			r.snap.balancers[b.Index].cut.Inc()
			break
		}
	}
	r.addresses(z, n, key, want, b.Answering.TTL, at, origin)
	return nil, at
}

// choose lets rules and steering decide: the endpoints are in s.picked, and one that
// is to be answered as an alias is returned.
func (r *responder) choose(z *plan.Zone, b *plan.LoadBalancer, want asked, alias bool) *plan.Endpoint {
	s := r.steering
	s.picked = s.picked[:0]
	stats := r.snap.balancers[b.Index]
	s.facts = steer.Facts{Client: r.client(), Query: true}
	b = r.judge(b, stats)
	r.decided.balancer = b
	if s.facts.Place = r.snap.plan.Node; b.ByPlace {
		r.situate(b)
	}
	if b.Answering.ByClient {
		s.facts.KeyByClient()
	}
	if b.Answering.ByClient || b.Sheds {
		r.byClient()
	}
	with := 0
	if alias {
		with = 1
	}
	d, picked, ok := steer.Answers(b, &s.facts, &s.rnd, r.now, offered[with][want], s.picked)
	s.picked = picked
	if !ok {
		stats.none.inc(r.shard)
		return nil
	}
	stats.count(d.Pool, r.shard)
	r.decided.pool, r.decided.reason = d.Pool, d.Reason
	switch d.Pool.Policy {
	case model.EndpointHash, model.EndpointRingHash, model.EndpointMaglev:
		r.byClient()
	}
	if alias && len(picked) == 1 && aliased(picked[0]) {
		return picked[0]
	}
	return nil
}

// aliasTo adds a CNAME record and returns the name to go on with.
func (r *responder) aliasTo(name dnswire.Name, ttl uint32, key *dnswire.Key, at place) (*dnswire.Key, place) {
	target := append(r.target[:0], name...)
	before := r.m.mark()
	pos, ok := r.m.record(answerSection, at.at, dnswire.TypeCNAME, dnswire.ClassIN, ttl, target)
	if ok && r.signing.signer != nil {
		r.signing.data = append(r.signing.data[:0], target)
		ok = cover(r, answerSection, key.Name(), at.at, dnswire.TypeCNAME, ttl, r.signing.data, before)
	}
	if !ok || r.q.Type == dnswire.TypeCNAME || r.q.Type == dnswire.TypeANY || r.links == maxLinks {
		return nil, at
	}
	next := &r.names[r.links]
	r.links++
	next.SetName(name)
	return next, place{at: pos + 12, length: len(target)}
}

// addresses adds those of s.addrs that are asked for, all or none of them, or denies
// that there are any.
func (r *responder) addresses(z *plan.Zone, n *zone.Node, key *dnswire.Key, want asked, ttl uint32, at place, origin int) {
	var count [2]int // by family
	list := r.steering.addrs
	for i, a := range list {
		if !repeats(list, i) {
			if a.Is6() {
				count[1]++
			} else {
				count[0]++
			}
		}
	}
	six := want == askedAAAA || want == askedBoth && count[0] == 0
	number, kind, size := count[0], dnswire.TypeA, 4
	if six {
		number, kind, size = count[1], dnswire.TypeAAAA, 16
	}
	switch {
	case number == 0 || want == askedNone:
		r.deny(z, n, key, at, origin) // for all clients, as resolvers take denials anyway (RFC 7871 section 7.4)
		return
	case len(r.m.b)+number*(12+size) > r.m.limit:
		r.m.flags |= dnswire.FlagTC
		return
	}
	r.scoped(z)
	before, data := r.m.mark(), r.signing.data[:0]
	for i, a := range list {
		if a.Is6() != six || repeats(list, i) {
			continue
		}
		bytes := a.As16()
		r.m.record(answerSection, at.at, kind, dnswire.ClassIN, ttl, bytes[16-size:])
		data = append(data, r.m.b[len(r.m.b)-size:])
	}
	r.signing.data = data
	if r.signing.signer != nil {
		cover(r, answerSection, key.Name(), at.at, kind, ttl, data, before)
	}
}

// repeats reports whether an address is in the list before: two endpoints may differ
// in the port only.
func repeats(list []netip.Addr, i int) bool {
	for _, a := range list[:i] {
		if a == list[i] {
			return true
		}
	}
	return false
}
