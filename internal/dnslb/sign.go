package dnslb

import (
	"errors"

	"fairlead/internal/dnssec"
	"fairlead/internal/dnswire"
	"fairlead/internal/plan"
	"fairlead/internal/zone"
)

// Keys are what signed zones are signed with. The zones of a plan have theirs
// before the plan is applied.
type Keys interface {
	// Zone returns what signs for a zone; nil for one that is not signed.
	Zone(name string) *dnssec.Zone
	// NewWork returns memory to sign in for a goroutine.
	NewWork() *dnssec.Work
}

// signing is what a responder needs for signed zones.
type signing struct {
	// keys are those of the zone that is answered from; nil where it is not
	// signed. signer is keys where the client wants signatures.
	keys, signer *dnssec.Zone
	missing      bool  // the answer says that a name does not exist, whatever its rcode
	fault        error // what could not be signed; the answer is of no use

	work  *dnssec.Work // nil until it is needed
	set   dnssec.RRset
	owner [dnswire.MaxName]byte
	nsec  [2*dnswire.MaxName + 512]byte
	types []dnswire.Type
	data  [][]byte
}

// enter makes a zone the one that is answered from.
func (r *responder) enter(zone int) {
	s := &r.signing
	s.keys, s.signer = r.snap.keys[zone], nil
	if r.q.DO {
		s.signer = s.keys
	}
	if s.keys != nil && s.work == nil {
		s.work = r.ln.plane.keys.NewWork()
	}
}

// put adds a set of the zone, which an answer is not whole without, with its
// signatures. owner is its name.
func put[T ~string | ~[]byte](r *responder, to section, s *zone.Set, owner T, at, origin int) (pos int, ok bool) {
	before := r.m.mark()
	if pos, ok = r.m.require(to, s, at, origin); ok && r.signing.signer != nil {
		ok = cover(r, to, owner, at, s.Type, s.TTL, s.Data, before)
	}
	return pos, ok
}

// cover adds the signatures of a set that was just written. Where they have no
// room, or cannot be made, the message is as it was before the set, and the client
// is told to ask over TCP.
func cover[T ~string | ~[]byte](r *responder, to section, owner T, at int, t dnswire.Type, ttl uint32, data [][]byte, before mark) bool {
	signatures, err := sign(r, r.signing.signer, owner, t, ttl, data)
	if err != nil {
		r.signing.fault = err
		r.m.rewind(before)
		return false
	}
	for _, s := range signatures {
		if _, ok := r.m.record(to, at, dnswire.TypeRRSIG, dnswire.ClassIN, ttl, s); !ok {
			r.m.rewind(before)
			return false
		}
	}
	return true
}

// sign returns the signatures of a set.
func sign[T ~string | ~[]byte](r *responder, by *dnssec.Zone, owner T, t dnswire.Type, ttl uint32, data [][]byte) ([][]byte, error) {
	s := &r.signing
	s.set = dnssec.RRset{Owner: append(s.owner[:0], owner...), Type: t, TTL: ttl, Data: data}
	return by.Sign(s.work, &s.set, r.now)
}

// coverExtra adds the signatures of a set in the additional section, if they have
// room: without them nothing is amiss (RFC 4035 section 3.1.1).
func (r *responder) coverExtra(e *extra, s *zone.Set) {
	if e.signer == nil || e.node.Occluded() {
		return
	}
	signatures, err := sign(r, e.signer, e.node.Name, s.Type, s.TTL, s.Data)
	if err != nil {
		return
	}
	flags, before := r.m.flags, r.m.mark()
	for _, sig := range signatures {
		if _, ok := r.m.record(additionalSection, e.at, dnswire.TypeRRSIG, dnswire.ClassIN, s.TTL, sig); !ok {
			r.m.rewind(before)
			r.m.flags = flags
			return
		}
	}
}

// unsigned makes of an answer that could not be signed one that says so. New
// signatures are limited: whoever did not make up its address asks again over TCP.
func (r *responder) unsigned() {
	r.m.empty(&r.q)
	if errors.Is(r.signing.fault, dnssec.ErrBusy) && r.who.transport == overUDP {
		r.m.flags = dnswire.FlagTC
		r.m.rcode = dnswire.NoError
		return
	}
	r.m.flags = 0
	r.ln.stats.unsigned.Inc()
	r.fail(dnswire.ServFail, dnswire.EDENotReady)
}

// deny adds what says that a name, or a type of it, does not exist: the SOA record
// that says how long, and in signed zones the NSEC record of the name. n is nil for
// a name that does not exist.
func (r *responder) deny(z *plan.Zone, n *zone.Node, key *dnswire.Key, at place, origin int) {
	s := &r.signing
	if n == nil {
		s.missing = true
		r.m.rcode = dnssec.NXDomainRCode(s.signer != nil, r.q.CO)
	}
	negative := z.Negative()
	if _, ok := put(r, authoritySection, negative, z.Origin, origin, origin); ok && s.signer != nil {
		r.addNSEC(authoritySection, key.Name(), at.at, negative.TTL, r.nsec(z, n, key.Name()))
	}
}

// nsec returns the data of the NSEC record of a name.
func (r *responder) nsec(z *plan.Zone, n *zone.Node, name []byte) []byte {
	s := &r.signing
	switch {
	case n == nil:
		return dnssec.AppendNoName(s.nsec[:0], name)
	case n.Cut():
		return dnssec.AppendUnsigned(s.nsec[:0], name)
	}
	s.types = s.types[:0]
	add := func(t dnswire.Type) {
		if t != r.q.Type {
			s.types = append(s.types, t)
		}
	}
	for _, set := range n.Sets() {
		add(set.Type)
	}
	if n.Steered != 0 { // whose pools may have them at other times
		add(dnswire.TypeA)
		add(dnswire.TypeAAAA)
	}
	if n == z.Apex() {
		for _, t := range [...]dnswire.Type{dnswire.TypeDNSKEY, dnswire.TypeCDS, dnswire.TypeCDNSKEY} {
			if _, ok := s.keys.Apex(t); ok {
				add(t)
			}
		}
	}
	return dnssec.AppendNoData(s.nsec[:0], name, s.types)
}

// addNSEC adds an NSEC record with its signatures.
func (r *responder) addNSEC(to section, owner []byte, at int, ttl uint32, data []byte) {
	before := r.m.mark()
	if _, ok := r.m.record(to, at, dnswire.TypeNSEC, dnswire.ClassIN, ttl, data); ok {
		r.signing.data = append(r.signing.data[:0], data)
		cover(r, to, owner, at, dnswire.TypeNSEC, ttl, r.signing.data, before)
	}
}

// made answers for types that are made of keys, or for each answer: the keys of the
// zone, and, for whoever looks for them, denials and signatures. It reports whether
// that is what was asked.
func (r *responder) made(z *plan.Zone, n *zone.Node, key *dnswire.Key, at place) bool {
	s, t := &r.signing, r.q.Type
	if s.keys == nil {
		return false
	}
	switch t {
	case dnswire.TypeDNSKEY, dnswire.TypeCDS, dnswire.TypeCDNSKEY:
		a, ok := s.keys.Apex(t)
		if n != z.Apex() || !ok {
			return false
		}
		before := r.m.mark()
		for _, data := range a.Data {
			if _, ok := r.m.record(answerSection, at.at, t, dnswire.ClassIN, a.TTL, data); !ok {
				r.m.rewind(before)
				return true
			}
		}
		if s.signer != nil {
			cover(r, answerSection, key.Name(), at.at, t, a.TTL, a.Data, before)
		}
		return true
	case dnswire.TypeNSEC, dnswire.TypeRRSIG:
		// All signatures of a name are made when they are asked for: those of its
		// NSEC record are as good as any (RFC 8482 section 7).
		data, ttl := r.nsec(z, n, key.Name()), z.Negative().TTL
		if t == dnswire.TypeNSEC && s.signer != nil {
			r.addNSEC(answerSection, key.Name(), at.at, ttl, data)
			return true
		}
		if t == dnswire.TypeNSEC {
			r.m.record(answerSection, at.at, t, dnswire.ClassIN, ttl, data)
			return true
		}
		s.data = append(s.data[:0], data)
		signatures, err := sign(r, s.keys, key.Name(), dnswire.TypeNSEC, ttl, s.data)
		if s.fault = err; err != nil {
			return true
		}
		for _, sig := range signatures {
			r.m.record(answerSection, at.at, t, dnswire.ClassIN, ttl, sig)
		}
		return true
	}
	return false
}

// referSigned says whether a delegation is to a signed zone: its DS records, or
// that there are none.
func (r *responder) referSigned(z *plan.Zone, cut *zone.Node, at, origin int) {
	if ds := cut.Set(dnswire.TypeDS); ds != nil {
		put(r, authoritySection, ds, cut.Name, at, origin)
		return
	}
	name := append(r.signing.owner[:0], cut.Name...)
	r.addNSEC(authoritySection, name, at, z.Negative().TTL, r.nsec(z, cut, name))
}
