package geo

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"math/bits"

	"github.com/oschwald/maxminddb-golang/v2"
)

// tree is the search tree of a database, as it lies in memory: nodes of two
// values each. A value below the number of nodes is that of a node, the number
// itself is the end without a record, and what is above is the place of a record
// in the data section, 16 bytes before which the tree ends.
type tree struct {
	nodes []byte
	count uint
	size  uint // bits of a value: 24, 28 or 32
	data  []byte
}

const separator = 16

var metadataMarker = []byte("\xab\xcd\xefMaxMind.com")

func newTree(memory []byte, m *maxminddb.Metadata) (*tree, error) {
	if m.RecordSize != 24 && m.RecordSize != 28 && m.RecordSize != 32 {
		return nil, fmt.Errorf("has tree values of %d bits: want 24, 28 or 32", m.RecordSize)
	}
	end := bytes.LastIndex(memory, metadataMarker)
	if end < 0 || m.NodeCount > uint(len(memory)) {
		return nil, errors.New("is broken: its tree is longer than the file")
	}
	nodes := m.NodeCount * m.RecordSize / 4
	if nodes+separator > uint(end) {
		return nil, errors.New("is broken: its tree is longer than the file")
	}
	return &tree{memory[:nodes], m.NodeCount, m.RecordSize, memory[nodes+separator : end]}, nil
}

// values returns the two values of a node.
func (t *tree) values(node uint) (left, right uint) {
	switch t.size {
	case 24:
		b := t.nodes[node*6:][:6]
		return uint(b[0])<<16 | uint(b[1])<<8 | uint(b[2]), uint(b[3])<<16 | uint(b[4])<<8 | uint(b[5])
	case 28:
		b := t.nodes[node*7:][:7]
		return uint(b[3]>>4)<<24 | uint(b[0])<<16 | uint(b[1])<<8 | uint(b[2]),
			uint(b[3]&15)<<24 | uint(b[4])<<16 | uint(b[5])<<8 | uint(b[6])
	default:
		b := t.nodes[node*8:][:8]
		return uint(b[0])<<24 | uint(b[1])<<16 | uint(b[2])<<8 | uint(b[3]),
			uint(b[4])<<24 | uint(b[5])<<16 | uint(b[6])<<8 | uint(b[7])
	}
}

// offsets is a set of places in the data section.
type offsets []uint64

// records returns where the records are, and refuses a tree with a value that
// leads out of the file. It takes the nodes as they lie, not along the branches,
// of which a tree that was made to harm has more than can be walked.
func (t *tree) records() (offsets, error) {
	at := make(offsets, (len(t.data)+63)/64)
	for node := range t.count {
		left, right := t.values(node)
		for _, v := range [2]uint{left, right} {
			if v <= t.count {
				continue
			}
			place := v - t.count - separator // of a value that leads between tree and data, one far beyond
			if place >= uint(len(t.data)) {
				return nil, fmt.Errorf("is broken: node %d of its tree leads out of the file", node)
			}
			at[place/64] |= 1 << (place % 64)
		}
	}
	return at, nil
}

// all yields the places in ascending order.
func (o offsets) all() iter.Seq[uint] {
	return func(yield func(uint) bool) {
		for i, word := range o {
			for word != 0 {
				if !yield(uint(i)*64 + uint(bits.TrailingZeros64(word))) {
					return
				}
				word &= word - 1
			}
		}
	}
}
