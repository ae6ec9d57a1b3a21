package dnssec

import (
	"bytes"
	"encoding/binary"
	"slices"

	"fairlead/internal/dnswire"
)

// RRset is a set of records that is signed as one. Nothing of it is kept or
// written to.
type RRset struct {
	// Owner is the name that the records are given for, in any case: for what a
	// wildcard makes it is the name that was asked for, not the wildcard.
	Owner []byte
	Type  dnswire.Type
	// TTL is that of the answer.
	TTL uint32
	// Data of the records, names in them without compression, in any order.
	Data [][]byte
}

// Work is the memory that one goroutine signs in, which it uses for one set after
// the other.
type Work struct {
	canon []byte   // the set in canonical form
	lower []byte   // data whose names were made lower case
	data  [][]byte // the data in canonical order
	count *counts  // of the signer, shared with others
}

// canonical writes set in its canonical form (RFC 4034 section 6.3), which is both
// what is signed, after the beginning of the RRSIG, and what names the set.
func (w *Work) canonical(set *RRset) []byte {
	w.data = append(w.data[:0], set.Data...)
	if set.Type != dnswire.TypeA && set.Type != dnswire.TypeAAAA {
		w.lowerData(set.Type)
	}
	sortData(w.data)
	b := w.canon[:0]
	for i, data := range w.data {
		if i > 0 && bytes.Equal(data, w.data[i-1]) {
			continue
		}
		at := len(b)
		b = append(b, set.Owner...)
		dnswire.LowerName(b[at:])
		b = binary.BigEndian.AppendUint16(b, uint16(set.Type))
		b = binary.BigEndian.AppendUint16(b, uint16(dnswire.ClassIN))
		b = binary.BigEndian.AppendUint32(b, set.TTL)
		b = binary.BigEndian.AppendUint16(b, uint16(len(data)))
		b = append(b, data...)
	}
	w.canon = b
	return b
}

// lowerData puts copies of the data with lower-case names in its place, for the
// types that have names.
func (w *Work) lowerData(t dnswire.Type) {
	size := 0
	for _, data := range w.data {
		size += len(data)
	}
	w.lower = slices.Grow(w.lower[:0], size) // in one piece: parts of it are pointed to
	var buf [4]dnswire.NameIn
	for i, data := range w.data {
		at := -1
		for _, n := range dnswire.NamesIn(buf[:0], t, data) {
			if !n.Fold {
				continue
			}
			if at < 0 {
				at = len(w.lower)
				w.lower = append(w.lower, data...)
				w.data[i] = w.lower[at:len(w.lower):len(w.lower)]
			}
			dnswire.LowerName(w.data[i][n.Start:n.End])
		}
	}
}

// sortData puts data in canonical order: as strings of bytes, the shorter first
// where one begins the other. Sets are small, and often in order.
func sortData(data [][]byte) {
	const small = 16
	if len(data) > small {
		slices.SortFunc(data, bytes.Compare)
		return
	}
	for i := 1; i < len(data); i++ {
		for j := i; j > 0 && bytes.Compare(data[j], data[j-1]) < 0; j-- {
			data[j], data[j-1] = data[j-1], data[j]
		}
	}
}
