package zone

import (
	"crypto/sha256"
	"encoding/binary"
	"iter"

	"fairlead/internal/dnswire"
)

// Zone is a part of the DNS, ready to be answered from.
type Zone struct {
	// Origin is the zone's name, in lower case; Name is its text, without the
	// final dot.
	Origin dnswire.Name
	Name   string
	// SOA is what the zone says about itself, its serial included.
	SOA dnswire.SOA
	// Records counts the records.
	Records int
	// LongestTTL is the greatest of all records.
	LongestTTL uint32
	// Content identifies what the zone holds, without the serial.
	Content [sha256.Size]byte

	apex     *Node
	nodes    []*Node
	table    table
	labels   int  // of the origin
	depth    int  // labels of the deepest name
	negative *Set // the SOA record with the TTL of denials
}

// Node is a name of a zone; one without data exists because of a name below it.
type Node struct {
	Name dnswire.Name // in lower case
	// Steered is the position, from 1, of the name among [Input.Steered]; 0 for
	// names that are not.
	Steered int

	labels   int
	sets     []*Set // by type
	wildcard *Node  // the child that is an asterisk
	stop     *Node  // the highest delegation at or above, or DNAME above
	dname    *Set
	cname    *Set
	cut      bool // a delegation
}

// Set is an RRset, laid out as part of a message.
type Set struct {
	Type  dnswire.Type
	TTL   uint32
	Count int
	// Alias is where a CNAME or a DNAME leads, in the case that it was written in.
	Alias dnswire.Name
	// Data are the records, names without compression; only in signed zones.
	Data [][]byte
	// Targets are the names in the data about which the zone knows more.
	Targets []Target

	wire    []byte   // owners point to position 12
	origins []uint16 // places of pointers to the zone's origin
}

// Target is a name in the data of a set.
type Target struct {
	Offset int // of the name, in the set
	Node   *Node
}

// Apex returns the node of the zone's own name.
func (z *Zone) Apex() *Node { return z.apex }

// Negative returns the SOA record as denials have it (RFC 2308 section 3).
func (z *Zone) Negative() *Set { return z.negative }

// Labels returns the number of labels of the zone's name.
func (z *Zone) Labels() int { return z.labels }

// Nodes yields all names, those without data included, from the apex downwards.
func (z *Zone) Nodes() iter.Seq[*Node] {
	return func(yield func(*Node) bool) {
		for _, n := range z.nodes {
			if !yield(n) {
				return
			}
		}
	}
}

// Set returns the records of a type; nil if there are none.
func (n *Node) Set(t dnswire.Type) *Set {
	for _, s := range n.sets {
		if s.Type == t {
			return s
		}
	}
	return nil
}

// Sets returns all records, by type. The list is not to be changed.
func (n *Node) Sets() []*Set { return n.sets }

// CNAME returns the record that makes the name an alias; nil if none does.
func (n *Node) CNAME() *Set { return n.cname }

// DNAME returns the record that makes all names below aliases; nil if none does.
func (n *Node) DNAME() *Set { return n.dname }

// Cut reports whether the name is delegated to others.
func (n *Node) Cut() bool { return n.cut }

// Occluded reports whether the name is at or below a delegation, or below a DNAME
// record, so that what is there is not the zone's own data.
func (n *Node) Occluded() bool { return n.stop != nil }

// Labels returns the number of labels of the name.
func (n *Node) Labels() int { return n.labels }

// Kind says how a name was found.
type Kind uint8

// The kinds of matches.
const (
	// Missing: the name does not exist. Node is its closest ancestor.
	Missing Kind = iota
	// Exact: Node is the name.
	Exact
	// Wildcard: Node is a wildcard that stands for the name.
	Wildcard
	// Delegated: the name is at or below a delegation, which Node is.
	Delegated
	// Redirected: the name is below one with a DNAME record, which Node is.
	Redirected
)

// Match is what a look-up found.
type Match struct {
	Kind Kind
	Node *Node
}

// Lookup finds a name that is in the zone. A query for DS records is answered by
// the zone above a delegation, so that the name of one is then an exact match.
func (z *Zone) Lookup(k *dnswire.Key, t dnswire.Type) Match {
	n := z.find(k, 0)
	if n != nil {
		if n.stop == nil || n.stop == n && t == dnswire.TypeDS {
			return Match{Exact, n}
		}
		return stopped(n.stop)
	}
	// Where a name exists all above it do, so that the closest ancestor is found
	// by bisection: whoever asks for names with many labels makes no work by it.
	lo, hi := max(1, k.Labels()-z.depth), k.Labels()-z.labels // labels to skip; hi exists
	n = z.apex
	for lo < hi {
		mid := (lo + hi) / 2
		if m := z.find(k, mid); m != nil {
			n, hi = m, mid
		} else {
			lo = mid + 1
		}
	}
	switch {
	case n.stop != nil:
		return stopped(n.stop)
	case n.dname != nil:
		return Match{Redirected, n}
	case n.wildcard != nil:
		return Match{Wildcard, n.wildcard}
	}
	return Match{Missing, n}
}

func stopped(n *Node) Match {
	if n.cut {
		return Match{Delegated, n}
	}
	return Match{Redirected, n}
}

func (z *Zone) find(k *dnswire.Key, skip int) *Node {
	hash := k.Hash(skip)
	for i := z.table.first(hash); ; i = z.table.next(i) {
		slot := z.table.slots[i]
		if slot.index == 0 {
			return nil
		}
		if slot.hash == hash {
			if n := z.nodes[slot.index-1]; string(n.Name) == string(k.Suffix(skip)) {
				return n
			}
		}
	}
}

// Find returns the node of a name in lower case; nil if the zone has none.
func (z *Zone) Find(name dnswire.Name) *Node {
	var k dnswire.Key
	k.SetName(name)
	return z.find(&k, 0)
}

// table is a hash table of indices with open addressing, at most half full.
type table struct {
	slots []slot
	mask  uint32
}

type slot struct{ hash, index uint32 } // index from 1; 0 is free

func newTable(n int) table {
	size := 2
	for size < 2*n {
		size *= 2
	}
	return table{make([]slot, size), uint32(size - 1)}
}

func (t *table) first(hash uint32) uint32 { return hash & t.mask }
func (t *table) next(i uint32) uint32     { return (i + 1) & t.mask }
func (t *table) insert(hash uint32, n int) {
	i := t.first(hash)
	for t.slots[i].index != 0 {
		i = t.next(i)
	}
	t.slots[i] = slot{hash, uint32(n + 1)}
}

// Zones finds the zone of a name.
type Zones struct {
	zones []*Zone
	table table
	depth int // labels of the longest origin
}

// NewZones returns the set of zones, no two of which have the same name.
func NewZones(zones []*Zone) *Zones {
	s := &Zones{zones: zones, table: newTable(len(zones))}
	for i, z := range zones {
		var k dnswire.Key
		k.SetName(z.Origin)
		s.table.insert(k.Hash(0), i)
		s.depth = max(s.depth, z.labels)
	}
	return s
}

// All returns the zones in the order that they were given in. The list is not to
// be changed.
func (s *Zones) All() []*Zone { return s.zones }

// Find returns the position of the zone that answers for a name and a type: the
// closest one above it; -1 if there is none. What a parent says about a child
// (DS) is answered by the parent.
func (s *Zones) Find(k *dnswire.Key, t dnswire.Type) int {
	child := -1
	for skip := max(0, k.Labels()-s.depth); skip <= k.Labels(); skip++ {
		hash := k.Hash(skip)
		for i := s.table.first(hash); s.table.slots[i].index != 0; i = s.table.next(i) {
			if s.table.slots[i].hash != hash {
				continue
			}
			n := int(s.table.slots[i].index) - 1
			if string(s.zones[n].Origin) != string(k.Suffix(skip)) {
				continue
			}
			if skip > 0 || t != dnswire.TypeDS {
				return n
			}
			child = n
		}
	}
	return child
}

// pointer marks two bytes as the rest of a name that stands elsewhere in the
// message (RFC 1035 section 4.1.4).
const pointer = 0xc000

// MaxPointer is the last position that can be pointed to.
const MaxPointer = 0x3fff

// Size returns how many bytes AppendTo appends.
func (s *Set) Size() int { return len(s.wire) }

// AppendTo appends the records to a message. owner is where their name stands in
// it, and origin where the name of the zone does; both are at most MaxPointer.
func (s *Set) AppendTo(b []byte, owner, origin int) []byte {
	base := len(b)
	b = append(b, s.wire...)
	for _, at := range s.origins {
		binary.BigEndian.PutUint16(b[base+int(at):], pointer|uint16(origin))
	}
	if owner == dnswire.HeaderSize {
		return b
	}
	for i, at := 0, base; i < s.Count; i++ {
		binary.BigEndian.PutUint16(b[at:], pointer|uint16(owner))
		at += recordHead + int(binary.BigEndian.Uint16(b[at+10:]))
	}
	return b
}

// recordHead is what comes before the data of a record: the pointer to its
// owner, type, class, TTL and length.
const recordHead = 12

// Data yields the data of the records of one of the zone's sets, uncompressed.
func (z *Zone) Data(s *Set) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		origins := s.origins
		for i, at := 0, 0; i < s.Count; i++ {
			end := at + recordHead + int(binary.BigEndian.Uint16(s.wire[at+10:]))
			var data []byte
			from := at + recordHead
			for len(origins) > 0 && int(origins[0]) < end {
				data = append(append(data, s.wire[from:origins[0]]...), z.Origin...)
				from = int(origins[0]) + 2
				origins = origins[1:]
			}
			if !yield(append(data, s.wire[from:end]...)) {
				return
			}
			at = end
		}
	}
}

// AliasLength returns how many bytes of the name that a CNAME record leads to
// stand in the record; the rest, if any, is the zone's name, which is pointed to.
func (s *Set) AliasLength() int {
	if len(s.origins) > 0 {
		return int(s.origins[0]) - recordHead
	}
	return len(s.Alias)
}

// Below reports whether the name is that of another node of the zone, or below.
func (n *Node) Below(other *Node) bool { return n.Name.In(other.Name) }
