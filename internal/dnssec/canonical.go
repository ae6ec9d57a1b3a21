package dnssec

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// RRset is a set of records that is signed as one. Nothing of it is kept or
// written to.
type RRset struct {
	// Owner is the name that the records are given for, in any case: for what a
	// wildcard makes it is the name that was asked for, not the wildcard.
	Owner []byte
	Type  uint16
	// TTL is that of the answer.
	TTL uint32
	// Data of the records, names in them without compression, in any order.
	Data [][]byte
}

const classIN = 1

// parts says where names are in the data of a type, for the types whose names are
// lower-cased (RFC 4034 section 6.2, less NSEC by RFC 6840 section 5.1): a digit
// is that many bytes, n a name, s a text with its length before it. What follows
// stays as it is.
var parts = map[uint16]string{
	2: "n", 3: "n", 4: "n", 5: "n", 6: "nn", 7: "n", 8: "n", 9: "n", 12: "n", 14: "nn", // NS MD MF CNAME SOA MB MG MR PTR MINFO
	15: "2n", 17: "nn", 18: "2n", 21: "2n", 26: "2nn", 30: "n", 33: "6n", // MX RP AFSDB RT PX NXT SRV
	35: "4sssn", 36: "2n", 39: "n", // NAPTR KX DNAME
	24: "99n", 46: "99n", // SIG RRSIG
}

// canonicalData makes the names in the data of a type lower case, in place. Data
// that ends before its type says so stays as it is from there on: it is as good as
// unknown, and unknown types are signed as they are.
func canonicalData(form string, data []byte) {
	for i := 0; i < len(form); i++ {
		n := 0
		switch c := form[i]; c {
		case 'n':
			var err error
			if n, err = nameLength(data); err != nil {
				return
			}
			lowerName(data[:n])
		case 's':
			if len(data) == 0 {
				return
			}
			n = 1 + int(data[0])
		default:
			n = int(c - '0')
		}
		if n > len(data) {
			return
		}
		data = data[n:]
	}
}

// Work is the memory that one goroutine signs in, which it uses for one set after
// the other.
type Work struct {
	canon []byte   // the set in canonical form
	lower []byte   // data whose names were made lower case
	data  [][]byte // the data in canonical order
	count counts
}

// canonical writes set in its canonical form (RFC 4034 section 6.3), which is both
// what is signed, after the beginning of the RRSIG, and what names the set.
func (w *Work) canonical(set *RRset) []byte {
	w.data = append(w.data[:0], set.Data...)
	if form := parts[set.Type]; form != "" {
		w.lowerData(form)
	}
	sortData(w.data)
	b := w.canon[:0]
	for i, data := range w.data {
		if i > 0 && bytes.Equal(data, w.data[i-1]) {
			continue
		}
		at := len(b)
		b = append(b, set.Owner...)
		lowerName(b[at:])
		b = binary.BigEndian.AppendUint16(b, set.Type)
		b = binary.BigEndian.AppendUint16(b, classIN)
		b = binary.BigEndian.AppendUint32(b, set.TTL)
		b = binary.BigEndian.AppendUint16(b, uint16(len(data)))
		b = append(b, data...)
	}
	w.canon = b
	return b
}

// lowerData puts copies of the data with lower-case names in its place.
func (w *Work) lowerData(form string) {
	size := 0
	for _, data := range w.data {
		size += len(data)
	}
	w.lower = slices.Grow(w.lower[:0], size) // in one piece: parts of it are pointed to
	for i, data := range w.data {
		at := len(w.lower)
		w.lower = append(w.lower, data...)
		w.data[i] = w.lower[at:len(w.lower):len(w.lower)]
		canonicalData(form, w.data[i])
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
