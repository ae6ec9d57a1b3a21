package dnslb

import (
	"net/netip"
	"time"

	"fairlead/internal/dnssec"
	"fairlead/internal/dnswire"
	"fairlead/internal/plan"
	"fairlead/internal/zone"
)

// transport is what a query came over.
type transport uint8

// The transports.
const (
	overUDP transport = iota
	overTCP
	overTLS
	transports
)

var transportNames = [transports]string{"udp", "tcp", "dot"}

func (t transport) String() string { return transportNames[t] }

// asker is who asks, and how.
type asker struct {
	addr      netip.AddrPort
	transport transport
}

// responder answers queries, one after the other. It belongs to one worker.
type responder struct {
	ln    *listener
	shard int // of the counters

	// Of the batch, or the query.
	snap *snapshot
	set  *settings
	now  time.Time

	q      dnswire.Query
	m      message
	o      options
	who    asker
	zone   int // position of the zone that answers for the query; -1 for none
	links  int // of the alias chain
	names  [maxLinks]dnswire.Key
	extra  [maxExtra]extra
	extras int

	cookie [clientCookie + serverCookie]byte
	target [dnswire.MaxName]byte // of a DNAME

	signing  signing
	steering *steering // nil until it is needed
	decided  decided
}

// Bounds of one answer.
const (
	maxLinks = 16 // names of an alias chain after the one that is asked
	maxExtra = 32 // names whose addresses are added
)

// extra is a name of which the additional section tells the addresses.
type extra struct {
	node   *zone.Node
	at     int          // of the name in the message
	needed bool         // the answer is of no use without it
	signer *dnssec.Zone // of its zone; nil for none
}

// use takes up the newest plan and settings, at a moment.
func (r *responder) use(now time.Time) {
	r.snap, r.set, r.now = r.ln.plane.snap.Load(), r.ln.set.Load(), now
}

// respond appends the answer to a message to out; nothing if there is none. For
// streams out grows as needed.
func (r *responder) respond(who asker, in, out []byte) []byte {
	before := len(out)
	r.who, r.zone, r.links, r.extras = who, -1, 0, 0
	r.decided = decided{}
	r.signing.missing, r.signing.fault = false, nil
	q := &r.q
	verdict := q.Parse(in)
	if verdict == dnswire.Drop {
		r.ln.stats.drop(dropNoQuery)
		return out
	}
	if who.transport == overUDP && who.addr.Port() == 0 { // no client has it: an answer leads nowhere
		r.ln.stats.drop(dropPortZero)
		return out
	}
	r.prepare()
	limit := dnswire.MaxMessage
	if who.transport == overUDP {
		limit = dnswire.MinUDP
		if q.EDNS {
			limit = min(q.UDPSize, r.set.udpSize)
		}
	}
	reserve := 0
	if q.EDNS {
		reserve = r.o.size()
	}
	r.m.begin(out, q, limit, reserve)
	if r.screen(verdict) {
		r.answer()
		if r.signing.fault != nil {
			r.unsigned()
		}
	}
	if r.m.flags&dnswire.FlagTC != 0 {
		r.ln.stats.truncated.Inc()
	}
	if who.transport == overUDP && r.set.rate != nil && !r.within() {
		return out[:before]
	}
	out = r.m.finish(q, &r.o)
	r.count()
	if log := r.snap.log; log != nil && log.Sampled() {
		r.log(log, len(in), len(out)-before)
	}
	return out
}

// prepare sets the options of the answer to those that the query asks for.
func (r *responder) prepare() {
	q, o := &r.q, &r.o
	*o = options{udpSize: r.set.udpSize, do: q.DO, co: q.CO, ede: -1, keepalive: -1}
	if !q.EDNS {
		return
	}
	if q.NSID {
		o.nsid = r.set.nsid
	}
	if q.HasECS {
		o.ecs = &q.ECS // with scope 0: the answer holds for all clients
	}
	if r.who.transport != overUDP && q.Keepalive {
		o.keepalive = r.set.keepalive
	}
	if r.who.transport == overTLS && q.Padding {
		o.pad = padBlock
	}
	if q.Cookie != nil && r.set.cookies != nil {
		o.cookie = r.set.cookies.answer(r.cookie[:0], q.Cookie, r.who.addr.Addr(), r.now)
	}
}

// fail ends the answer with an error.
func (r *responder) fail(rcode dnswire.RCode, ede int) {
	r.m.rcode, r.o.ede = rcode, ede
}

// screen reports whether the query is one for the data of zones. Others it
// answers, mostly with an error.
func (r *responder) screen(verdict dnswire.Verdict) bool {
	q := &r.q
	switch {
	case verdict == dnswire.Malformed:
		r.fail(dnswire.FormErr, -1)
	case verdict == dnswire.Unknown || q.Opcode == dnswire.OpUpdate:
		r.fail(dnswire.NotImp, -1)
	case verdict == dnswire.NewVersion:
		r.fail(dnswire.BadVers, -1)
	case q.Opcode == dnswire.OpNotify: // there is nobody whose secondary this is
		r.fail(dnswire.Refused, -1)
	case q.TSIG != 0: // no key is known (RFC 8945 section 5.2)
		r.fail(dnswire.NotAuth, -1)
	case !q.Question: // a cookie is all that was asked for
	case q.Class == dnswire.ClassCH:
		r.chaos()
	case q.Class != dnswire.ClassIN:
		r.fail(dnswire.Refused, dnswire.EDENotSupported)
	case q.Type == dnswire.TypeAXFR || q.Type == dnswire.TypeIXFR:
		r.fail(dnswire.Refused, dnswire.EDEProhibited)
	case q.Type == 0 || q.Type == dnswire.TypeOPT || q.Type == dnswire.TypeNXNAME:
		r.fail(dnswire.FormErr, dnswire.EDEInvalidQueryType)
	case q.Type == dnswire.TypeTKEY || q.Type == dnswire.TypeTSIG || q.Type == dnswire.TypeMAILA || q.Type == dnswire.TypeMAILB:
		r.fail(dnswire.NotImp, dnswire.EDENotSupported)
	default:
		return true
	}
	return false
}

// place is where a name stands in the message, and so do its suffixes: length
// bytes of it from at on, and the rest, which is the name of a zone, elsewhere.
type place struct {
	at, length int
	origin     int
}

// of returns the position of the suffix that begins after offset bytes.
func (p place) of(offset int) int {
	if offset < p.length {
		return p.at + offset
	}
	return p.origin
}

// answer fills the sections from the zones.
func (r *responder) answer() {
	q := &r.q
	r.zone = r.snap.plan.Authority.Find(&q.Key, q.Type)
	if r.zone < 0 {
		r.fail(dnswire.Refused, dnswire.EDENotAuthoritative)
		return
	}
	r.m.flags |= dnswire.FlagAA
	key, zi := &q.Key, r.zone
	at := place{at: dnswire.HeaderSize, length: len(q.Name)}
	for zi >= 0 {
		r.enter(zi)
		next, there := r.resolve(r.snap.plan.Zones[zi], key, at)
		if next == nil || r.looped(next) {
			break
		}
		key, at = next, there
		from := zi
		// DS records of a zone are its parent's, whose name the message has no
		// place of once an alias has led to its child: the client asks again.
		if zi = r.snap.plan.Authority.Find(key, q.Type); zi >= 0 && r.labels(zi) < r.labels(from) {
			break
		}
	}
	r.addExtras()
}

// labels returns the number of labels of the name of a zone.
func (r *responder) labels(zone int) int { return r.snap.plan.Zones[zone].Labels() }

// looped reports whether an alias chain has come to a name that it had.
func (r *responder) looped(next *dnswire.Key) bool {
	if string(next.Name()) == string(r.q.Key.Name()) {
		return true
	}
	for i := range r.links - 1 {
		if string(next.Name()) == string(r.names[i].Name()) {
			return true
		}
	}
	return false
}

// resolve adds what a zone says about a name: the end of the answer, or an alias
// and the name to go on with.
func (r *responder) resolve(pz *plan.Zone, key *dnswire.Key, at place) (next *dnswire.Key, there place) {
	q, z := &r.q, pz.Zone
	origin := at.of(key.Start(key.Labels() - z.Labels()))
	match := z.Lookup(key, q.Type)
	n := match.Node
	switch match.Kind {
	case zone.Missing:
		if !r.made(pz, nil, key, at) {
			r.deny(pz, nil, key, at, origin)
		}
		return nil, at
	case zone.Delegated:
		r.refer(pz, n, at.of(key.Start(key.Labels()-n.Labels())), origin)
		return nil, at
	case zone.Redirected:
		return r.redirect(n, key, at, origin)
	}
	if r.made(pz, n, key, at) {
		return nil, at
	}
	if n.Steered != 0 && steers(pz, n, q.Type) {
		return r.steered(pz, n, key, at, origin)
	}
	if s := n.CNAME(); s != nil && q.Type != dnswire.TypeCNAME {
		return r.alias(s, key, at, origin, q.Type != dnswire.TypeANY)
	}
	s := n.Set(q.Type)
	if q.Type == dnswire.TypeANY {
		s = smallest(n)
	}
	if s == nil {
		r.deny(pz, n, key, at, origin)
		return nil, at
	}
	if pos, ok := put(r, answerSection, s, key.Name(), at.at, origin); ok {
		r.note(s, pos, nil)
	}
	return nil, at
}

// smallest returns the set that answers ANY (RFC 8482 section 4.1); nil where
// there is none.
func smallest(n *zone.Node) (least *zone.Set) {
	for _, s := range n.Sets() {
		if least == nil || s.Size() < least.Size() {
			least = s
		}
	}
	return least
}

// refer adds the servers of a delegation, and their addresses as far as the zone
// has them.
func (r *responder) refer(z *plan.Zone, cut *zone.Node, owner, origin int) {
	if r.links == 0 { // else the aliases before are ours
		r.m.flags &^= dnswire.FlagAA
	}
	s := cut.Set(dnswire.TypeNS)
	if pos, ok := r.m.require(authoritySection, s, owner, origin); ok {
		r.note(s, pos, cut)
		if r.signing.signer != nil {
			r.referSigned(z, cut, owner, origin)
		}
	}
}

// alias adds a CNAME record and returns the name to go on with, if that is wanted.
func (r *responder) alias(s *zone.Set, key *dnswire.Key, at place, origin int, follow bool) (*dnswire.Key, place) {
	pos, ok := put(r, answerSection, s, key.Name(), at.at, origin)
	if !ok || !follow || r.links == maxLinks {
		return nil, at
	}
	next := &r.names[r.links]
	r.links++
	next.SetName(s.Alias)
	const head = 12 // of the record, before its data
	return next, place{at: pos + head, length: s.AliasLength(), origin: origin}
}

// redirect adds a DNAME record, the CNAME that it means for a name below it, and
// returns the name to go on with (RFC 6672 section 3).
func (r *responder) redirect(n *zone.Node, key *dnswire.Key, at place, origin int) (*dnswire.Key, place) {
	s := n.DNAME()
	start := key.Start(key.Labels() - n.Labels())
	if _, ok := put(r, answerSection, s, n.Name, at.of(start), origin); !ok || r.links == maxLinks {
		return nil, at
	}
	next := &r.names[r.links]
	target, ok := next.Join(r.target[:0], key.Name()[:start], s.Alias)
	if !ok {
		r.m.rcode = dnswire.YXDomain
		return nil, at
	}
	r.links++
	pos, ok := r.m.record(answerSection, at.at, dnswire.TypeCNAME, dnswire.ClassIN, s.TTL, target)
	if !ok || r.q.Type == dnswire.TypeCNAME || r.q.Type == dnswire.TypeANY {
		return nil, at
	}
	return next, place{at: pos + 12, length: len(target)}
}

// note remembers the names in a set at a position of which the zone has addresses.
// Those below cut, if that is given, cannot be found otherwise.
func (r *responder) note(s *zone.Set, pos int, cut *zone.Node) {
	for i := range s.Targets {
		t := &s.Targets[i]
		if r.extras == maxExtra || pos+t.Offset > zone.MaxPointer {
			return
		}
		r.extra[r.extras] = extra{t.Node, pos + t.Offset, cut != nil && t.Node.Below(cut), r.signing.signer}
		r.extras++
	}
}

// addExtras fills the additional section with addresses, as far as there is room.
func (r *responder) addExtras() {
	for _, needed := range [...]bool{true, false} {
		for i := range r.extras {
			e := &r.extra[i]
			if e.needed != needed {
				continue
			}
			for _, t := range [...]dnswire.Type{dnswire.TypeA, dnswire.TypeAAAA} {
				switch s := e.node.Set(t); {
				case s == nil:
				case r.m.add(additionalSection, s, e.at, 0) != 0:
					r.coverExtra(e, s)
				case needed:
					r.m.flags |= dnswire.FlagTC // RFC 9471
				}
			}
		}
	}
}

// chaos answers what is asked about the server itself.
func (r *responder) chaos() {
	text := ""
	switch string(r.q.Key.Name()) {
	case "\x07version\x04bind\x00", "\x07version\x06server\x00":
		text = r.set.version
	case "\x02id\x06server\x00", "\x08hostname\x04bind\x00":
		text = r.set.identity
	}
	if text == "" || r.q.Type != dnswire.TypeTXT && r.q.Type != dnswire.TypeANY {
		r.fail(dnswire.Refused, -1)
		return
	}
	r.m.flags |= dnswire.FlagAA
	data := append(append(r.target[:0], byte(len(text))), text...) // of 254 bytes at most
	r.m.record(answerSection, dnswire.HeaderSize, dnswire.TypeTXT, dnswire.ClassCH, 0, data)
}
