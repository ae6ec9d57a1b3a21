// Package geotest makes MMDB databases for tests: of any networks and records, in
// any of the format's variants, so that no test depends on a vendor's file or on
// the network. It writes the format (https://maxmind.github.io/MaxMind-DB/) by
// itself and shares nothing with what reads it.
//
//	geotest.Write(t, file, geotest.Options{}, geotest.Networks{
//		"192.0.2.0/24": geotest.Record{"country_code": "NL"},
//	})
//
// [World] is a made-up world of sixty countries.
package geotest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"
)

// Record is what a database has for a network: texts, float64, float32, uint16,
// uint32, uint64, int32, bool, Record and []any.
type Record map[string]any

// Networks are the records of networks in the form 192.0.2.0/24. A longer prefix
// takes its addresses out of a shorter one; a nil Record says nothing of them.
type Networks map[string]Record

// Options are what databases differ in.
type Options struct {
	Type     string    // default Test
	Built    time.Time // default 1 June 2026
	Bits     int       // of a tree value: 24, 28 or 32; default 28
	OnlyIPv4 bool      // the tree has no IPv6 addresses
}

// Write writes a database to a file, by renaming as whoever replaces one that is
// in use should.
func Write(t testing.TB, file string, o Options, networks Networks) {
	t.Helper()
	Replace(t, file, Build(o, networks))
}

// Replace gives a file a new content by renaming.
func Replace(t testing.TB, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// node is a node of the tree, or a leaf where it has no children.
type node struct {
	children [2]*node
	number   uint
	data     int // offset in the data section, or nothing
}

const nothing = -1

// Build returns the content of a database. It panics when it is given what the
// format has no place for.
func Build(o Options, networks Networks) []byte {
	if o.Type == "" {
		o.Type = "Test"
	}
	if o.Built.IsZero() {
		o.Built = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	}
	if o.Bits == 0 {
		o.Bits = 28
	}
	d := encoder{texts: make(map[string]int), values: make(map[string]int)}
	root := new(node)
	root.data = nothing
	for _, p := range sorted(networks) {
		data := nothing
		if r := networks[p.text]; r != nil {
			data = d.record(r)
		}
		root.insert(p.prefix, o.OnlyIPv4, data)
	}
	if root.children == [2]*node{} { // the tree has at least one node
		root.split()
	}
	b := root.tree(o.Bits)
	b = append(b, make([]byte, 16)...)
	b = append(b, d.b...)
	b = append(b, "\xab\xcd\xefMaxMind.com"...)
	version := uint16(6)
	if o.OnlyIPv4 {
		version = 4
	}
	m := encoder{} // no pointers: they count from the data section
	m.value(Record{
		"binary_format_major_version": uint16(2), "binary_format_minor_version": uint16(0),
		"build_epoch": uint64(o.Built.Unix()), "database_type": o.Type,
		"description": Record{"en": "made up for tests"}, "languages": []any{"en"},
		"ip_version": version, "node_count": uint32(root.count()), "record_size": uint16(o.Bits),
	})
	return append(b, m.b...)
}

type network struct {
	text   string
	prefix netip.Prefix
}

// sorted returns the networks with the shorter prefixes first.
func sorted(networks Networks) (list []network) {
	for _, text := range slices.Sorted(maps.Keys(networks)) {
		list = append(list, network{text, netip.MustParsePrefix(text)})
	}
	slices.SortStableFunc(list, func(a, b network) int { return a.prefix.Bits() - b.prefix.Bits() })
	return list
}

// insert puts a record at a network. In a tree of both families IPv4 stands at
// ::/96.
func (n *node) insert(p netip.Prefix, onlyIPv4 bool, data int) {
	address, bits := p.Addr().AsSlice(), p.Bits()
	switch {
	case onlyIPv4 && !p.Addr().Is4():
		panic(fmt.Sprintf("network %s: want IPv4 networks only", p))
	case !onlyIPv4 && p.Addr().Is4():
		address, bits = append(make([]byte, 12), address...), bits+96
	}
	for i := range bits {
		if n.children[0] == nil {
			n.split()
		}
		n = n.children[address[i/8]>>(7-i%8)&1]
	}
	n.data, n.children = data, [2]*node{}
}

// split makes a node of a leaf.
func (n *node) split() { n.children = [2]*node{{data: n.data}, {data: n.data}} }

// count returns the number of nodes.
func (n *node) count() int {
	if n.children[0] == nil {
		return 0
	}
	return 1 + n.children[0].count() + n.children[1].count()
}

// tree encodes the nodes, the root first.
func (n *node) tree(bits int) (b []byte) {
	nodes := []*node{n}
	for i := 0; i < len(nodes); i++ {
		nodes[i].number = uint(i)
		for _, c := range nodes[i].children {
			if c.children[0] != nil {
				nodes = append(nodes, c)
			}
		}
	}
	for _, n := range nodes {
		var v [2]uint
		for i, c := range n.children {
			switch {
			case c.children[0] != nil:
				v[i] = c.number
			case c.data == nothing:
				v[i] = uint(len(nodes))
			default:
				v[i] = uint(len(nodes)) + 16 + uint(c.data)
			}
			if v[i]>>bits != 0 {
				panic(fmt.Sprintf("value %d: want %d bits", v[i], bits))
			}
		}
		switch bits {
		case 24:
			b = append(b, byte(v[0]>>16), byte(v[0]>>8), byte(v[0]), byte(v[1]>>16), byte(v[1]>>8), byte(v[1]))
		case 28:
			b = append(b, byte(v[0]>>16), byte(v[0]>>8), byte(v[0]), byte(v[0]>>24<<4|v[1]>>24),
				byte(v[1]>>16), byte(v[1]>>8), byte(v[1]))
		case 32:
			b = binary.BigEndian.AppendUint32(b, uint32(v[0]))
			b = binary.BigEndian.AppendUint32(b, uint32(v[1]))
		default:
			panic(fmt.Sprintf("tree values of %d bits: want 24, 28 or 32", bits))
		}
	}
	return b
}

// encoder writes the data section. Texts that come again are pointers, as vendors
// have them.
type encoder struct {
	b      []byte
	texts  map[string]int
	values map[string]int // offsets of records, by their content
}

// record returns the offset of a record.
func (e *encoder) record(r Record) int {
	content := fmt.Sprint(r)
	if at, ok := e.values[content]; ok {
		return at
	}
	at := len(e.b)
	e.values[content] = at
	e.value(r)
	return at
}

// Types of the format; those above 7 are extended.
const (
	typePointer = 1
	typeText    = 2
	typeDouble  = 3
	typeUint16  = 5
	typeUint32  = 6
	typeMap     = 7
	typeInt32   = 8
	typeUint64  = 9
	typeArray   = 11
	typeBool    = 14
	typeFloat   = 15
)

func (e *encoder) head(kind, size int) {
	first := kind << 5
	if kind > 7 {
		first = 0
	}
	var more []byte
	switch {
	case size < 29:
		first |= size
	case size < 29+256:
		first, more = first|29, []byte{byte(size - 29)}
	default:
		first, more = first|30, binary.BigEndian.AppendUint16(nil, uint16(size-29-256))
	}
	e.b = append(e.b, byte(first))
	if kind > 7 {
		e.b = append(e.b, byte(kind-7))
	}
	e.b = append(e.b, more...)
}

func (e *encoder) value(v any) {
	switch v := v.(type) {
	case string:
		e.text(v)
	case float64:
		e.head(typeDouble, 8)
		e.b = binary.BigEndian.AppendUint64(e.b, math.Float64bits(v))
	case float32:
		e.head(typeFloat, 4)
		e.b = binary.BigEndian.AppendUint32(e.b, math.Float32bits(v))
	case uint16:
		e.number(typeUint16, uint64(v))
	case uint32:
		e.number(typeUint32, uint64(v))
	case uint64:
		e.number(typeUint64, v)
	case int32:
		e.number(typeInt32, uint64(uint32(v)))
	case bool:
		size := 0
		if v {
			size = 1
		}
		e.head(typeBool, size)
	case []any:
		e.head(typeArray, len(v))
		for _, one := range v {
			e.value(one)
		}
	case Record:
		e.head(typeMap, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			e.text(key)
			e.value(v[key])
		}
	default:
		panic(fmt.Sprintf("value %v: the format has no %T", v, v))
	}
}

// number writes as many bytes as are needed.
func (e *encoder) number(kind int, v uint64) {
	bytes := binary.BigEndian.AppendUint64(nil, v)
	for len(bytes) > 0 && bytes[0] == 0 {
		bytes = bytes[1:]
	}
	e.head(kind, len(bytes))
	e.b = append(e.b, bytes...)
}

func (e *encoder) text(s string) {
	if at, ok := e.texts[s]; ok && at < 2048 {
		e.b = append(e.b, byte(typePointer<<5|at>>8), byte(at))
		return
	} else if ok && at < 2048+1<<19 {
		at -= 2048
		e.b = append(e.b, byte(typePointer<<5|1<<3|at>>16), byte(at>>8), byte(at))
		return
	}
	if e.texts != nil && len(s) > 2 {
		e.texts[s] = len(e.b)
	}
	e.head(typeText, len(s))
	e.b = append(e.b, s...)
}
