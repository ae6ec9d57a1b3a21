package zone

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"fairlead/internal/dnswire"
)

// Input is what a zone is made of.
type Input struct {
	Origin  dnswire.Name // in lower case
	Records []dnswire.Record
	// Steered are the names, in lower case and in the zone, whose addresses are
	// chosen for each client. They take the place of A, AAAA and CNAME records of
	// the same name.
	Steered []dnswire.Name
	// Signed is whether answers are signed, for which the sets keep their data.
	Signed bool
	// Serial, if not 0, takes the place of the SOA record's.
	Serial uint32
}

// Problem is what is wrong, or doubtful, with a zone.
type Problem struct {
	// Record is the position of the record that it is about, among those of the
	// input; -1 for the zone as a whole.
	Record int
	Text   string
	// Warning is true when the zone can be served all the same.
	Warning bool
}

// Build makes a zone. It is nil if one of the problems is no warning.
func Build(in Input) (*Zone, []Problem) {
	b := &builder{
		in: in, byName: make(map[dnswire.Name]*Node, len(in.Records)),
		places: make(map[*Set][]int),
		z: &Zone{
			Origin: in.Origin, Name: strings.TrimSuffix(in.Origin.String(), "."),
			labels: in.Origin.Labels(), Content: Content(in),
		},
	}
	b.z.apex = b.node(in.Origin)
	b.steered()
	b.collect()
	b.link()
	b.check()
	if b.failed {
		return nil, b.problems
	}
	b.pack()
	if b.failed {
		return nil, b.problems
	}
	return b.z, b.problems
}

// Content identifies what a zone holds: it stays the same when records change
// places, or the serial alone changes.
func Content(in Input) (sum [sha256.Size]byte) {
	lines := make([]string, 0, len(in.Records)+len(in.Steered))
	for i := range in.Records {
		r := &in.Records[i]
		data := dnswire.CanonicalRData(r.Type, r.Data)
		if r.Type == dnswire.TypeSOA {
			data = bytes.Clone(data)
			dnswire.SetSerial(data, 0)
		}
		line := binary.BigEndian.AppendUint16([]byte(r.Owner.Lower()), uint16(r.Type))
		line = append(binary.BigEndian.AppendUint32(line, r.TTL), data...)
		lines = append(lines, string(line))
	}
	for _, n := range in.Steered {
		lines = append(lines, string(n)+"steered")
	}
	slices.Sort(lines)
	h := sha256.New()
	for _, l := range lines {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(l))))
		h.Write([]byte(l))
	}
	h.Sum(sum[:0])
	return sum
}

type builder struct {
	in       Input
	z        *Zone
	byName   map[dnswire.Name]*Node
	places   map[*Set][]int // positions of the records of a set
	problems []Problem
	failed   bool
}

func (b *builder) bad(record int, format string, args ...any) {
	b.failed = true
	b.problems = append(b.problems, Problem{Record: record, Text: fmt.Sprintf(format, args...)})
}

func (b *builder) warn(record int, format string, args ...any) {
	b.problems = append(b.problems, Problem{record, fmt.Sprintf(format, args...), true})
}

// node returns the node of a name in the zone, which is made with all above it.
func (b *builder) node(name dnswire.Name) *Node {
	if n := b.byName[name]; n != nil {
		return n
	}
	n := &Node{Name: name, labels: name.Labels()}
	b.byName[name] = n
	b.z.depth = max(b.z.depth, n.labels)
	if name != b.in.Origin {
		parent := b.node(name.Parent())
		if name.Wildcard() {
			parent.wildcard = n
		}
	}
	return n
}

func (b *builder) steered() {
	for i, name := range b.in.Steered {
		b.node(name).Steered = i + 1
	}
}

// collect sorts the records into sets. Those that no zone can have are left out.
func (b *builder) collect() {
	seen := make(map[string]int, len(b.in.Records))
	for i := range b.in.Records {
		r := &b.in.Records[i]
		owner := r.Owner.Lower()
		switch {
		case !owner.In(b.in.Origin):
			b.bad(i, "%s is outside the zone %s", r.Owner, b.in.Origin)
			continue
		case r.Type == dnswire.TypeRRSIG || r.Type == dnswire.TypeNSEC || r.Type == dnswire.TypeNSEC3 || r.Type == 51:
			b.bad(i, "%s %s: signatures and denials are made when answering: want the zone unsigned", r.Owner, r.Type)
			continue
		case b.in.Signed && owner == b.in.Origin && (r.Type == dnswire.TypeDNSKEY || r.Type == dnswire.TypeCDS || r.Type == dnswire.TypeCDNSKEY):
			b.bad(i, "%s %s: made of the keys, as dnssec is true; remove the record", r.Owner, r.Type)
			continue
		case r.Type == dnswire.TypeSOA && owner != b.in.Origin:
			b.bad(i, "%s has a SOA record: want it for the zone itself only", r.Owner)
			continue
		}
		key := binary.BigEndian.AppendUint16([]byte(owner), uint16(r.Type))
		key = append(key, dnswire.CanonicalRData(r.Type, r.Data)...)
		if first, ok := seen[string(key)]; ok {
			b.warn(i, "%s %s: the same record once more%s", r.Owner, r.Type, b.where(first))
			continue
		}
		seen[string(key)] = i
		n := b.node(owner)
		if n.Steered != 0 && (r.Type == dnswire.TypeA || r.Type == dnswire.TypeAAAA || r.Type == dnswire.TypeCNAME) {
			b.warn(i, "%s %s: not used, as the load balancer of this name answers", r.Owner, r.Type)
			continue
		}
		s := n.Set(r.Type)
		if s == nil {
			s = &Set{Type: r.Type, TTL: r.TTL}
			n.sets = append(n.sets, s)
		}
		if r.TTL != s.TTL {
			b.warn(i, "%s %s: TTL %d differs from %d%s: all records of a set have one TTL, the least is used", r.Owner, r.Type, r.TTL, s.TTL, b.where(b.places[s][0]))
			s.TTL = min(s.TTL, r.TTL)
		}
		s.Count++
		b.places[s] = append(b.places[s], i)
		b.z.Records++
	}
}

// where says in which line another record is.
func (b *builder) where(record int) string {
	if line := b.in.Records[record].Line; line > 0 {
		return fmt.Sprintf(" (line %d)", line)
	}
	return ""
}

// link brings the nodes into an order in which each follows the one above it,
// and finds out what lies below delegations and DNAME records.
func (b *builder) link() {
	for _, n := range b.byName {
		b.z.nodes = append(b.z.nodes, n)
	}
	slices.SortFunc(b.z.nodes, func(x, y *Node) int {
		return cmp.Or(cmp.Compare(x.labels, y.labels), cmp.Compare(x.Name, y.Name))
	})
	b.z.table = newTable(len(b.z.nodes))
	var k dnswire.Key
	for i, n := range b.z.nodes {
		k.SetName(n.Name)
		b.z.table.insert(k.Hash(0), i)
		slices.SortFunc(n.sets, func(x, y *Set) int { return cmp.Compare(x.Type, y.Type) })
		n.cname, n.dname = n.Set(dnswire.TypeCNAME), n.Set(dnswire.TypeDNAME)
		n.cut = n != b.z.apex && n.Set(dnswire.TypeNS) != nil
		if n != b.z.apex {
			switch parent := b.byName[n.Name.Parent()]; {
			case parent.stop != nil:
				n.stop = parent.stop
			case parent.dname != nil:
				n.stop = parent
			case n.cut:
				n.stop = n
			}
		}
	}
}

// pack lays out all sets.
func (b *builder) pack() {
	for _, n := range b.z.nodes {
		for _, s := range n.sets {
			b.packSet(n, s)
		}
	}
	soa := b.z.apex.Set(dnswire.TypeSOA)
	for data := range b.z.Data(soa) {
		b.z.SOA = dnswire.SOAOf(data)
	}
	negative := *soa
	negative.TTL = min(soa.TTL, b.z.SOA.Minimum)
	negative.wire = bytes.Clone(soa.wire)
	binary.BigEndian.PutUint32(negative.wire[6:], negative.TTL)
	b.z.negative = &negative
}

// maxSet is the size of the largest set that a message can carry, beside the
// question and an OPT record.
const maxSet = dnswire.MaxMessage - 1024

func (b *builder) packSet(n *Node, s *Set) {
	b.z.LongestTTL = max(b.z.LongestTTL, s.TTL)
	for _, i := range b.places[s] {
		data := b.in.Records[i].Data
		if s.Type == dnswire.TypeSOA && b.in.Serial != 0 {
			data = bytes.Clone(data)
			dnswire.SetSerial(data, b.in.Serial)
		}
		if len(s.wire)+recordHead+len(data) > maxSet {
			b.bad(i, "%s %s: more than %d bytes in one set: no message can carry it", n.Name, s.Type, maxSet)
			return
		}
		if b.in.Signed {
			s.Data = append(s.Data, data)
		}
		b.packRecord(s, data)
	}
	s.wire, s.origins = slices.Clip(s.wire), slices.Clip(s.origins)
}

func (b *builder) packRecord(s *Set, data []byte) {
	head := len(s.wire)
	s.wire = binary.BigEndian.AppendUint16(s.wire, pointer|dnswire.HeaderSize)
	s.wire = binary.BigEndian.AppendUint16(s.wire, uint16(s.Type))
	s.wire = binary.BigEndian.AppendUint16(s.wire, uint16(dnswire.ClassIN))
	s.wire = binary.BigEndian.AppendUint32(s.wire, s.TTL)
	s.wire = append(s.wire, 0, 0) // the length
	target, pointing := dnswire.TargetIn(s.Type, data)
	var buf [4]dnswire.NameIn
	from := 0
	for _, in := range dnswire.NamesIn(buf[:0], s.Type, data) {
		s.wire = append(s.wire, data[from:in.Start]...)
		name := dnswire.Name(data[in.Start:in.End])
		if pointing && in.Start == target.Start {
			b.target(s, name)
		}
		prefix, inZone := b.prefix(name)
		if in.Compress && inZone {
			s.wire = append(s.wire, name[:prefix]...)
			s.origins = append(s.origins, uint16(len(s.wire)))
			s.wire = binary.BigEndian.AppendUint16(s.wire, pointer|dnswire.HeaderSize)
		} else {
			s.wire = append(s.wire, name...)
		}
		from = in.End
	}
	s.wire = append(s.wire, data[from:]...)
	binary.BigEndian.PutUint16(s.wire[head+10:], uint16(len(s.wire)-head-recordHead))
}

// prefix returns how many bytes of a name come before the zone's origin.
func (b *builder) prefix(name dnswire.Name) (int, bool) {
	lower := name.Lower()
	if !lower.In(b.in.Origin) {
		return 0, false
	}
	return len(name) - len(b.in.Origin), true
}

// target notes what a record points to.
func (b *builder) target(s *Set, name dnswire.Name) {
	switch s.Type {
	case dnswire.TypeCNAME, dnswire.TypeDNAME:
		s.Alias = name
		return
	}
	if n := b.byName[name.Lower()]; n != nil && (n.Set(dnswire.TypeA) != nil || n.Set(dnswire.TypeAAAA) != nil || n.Steered != 0) {
		s.Targets = append(s.Targets, Target{len(s.wire), n})
	}
}
