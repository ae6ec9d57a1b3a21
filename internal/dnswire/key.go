package dnswire

import (
	"encoding/binary"
	"math/bits"
)

// Key is a name that is ready to be looked up: in lower case, with the place and
// the hash of each of its suffixes. It holds no pointer and is reused.
type Key struct {
	name   [MaxName]byte
	length int
	labels int
	starts [MaxLabels + 1]uint8 // of each label, the root last
	hashes [MaxLabels + 1]uint32
}

// Set makes k the key of a name in wire form, which must be valid.
func (k *Key) Set(name []byte) {
	k.length = len(name)
	lower(k.name[:], name)
	k.prepare()
}

// SetName is Set for a Name.
func (k *Key) SetName(name Name) {
	k.length = copy(k.name[:], name)
	lower(k.name[:k.length], k.name[:k.length])
	k.prepare()
}

// Join makes k the key of the first labels of a name, before the suffix that
// begins at label cut, put before another suffix; false if that is too long for
// a name. It also returns the name in the case of both.
func (k *Key) Join(dst []byte, prefix []byte, suffix Name) (joined []byte, ok bool) {
	if len(prefix)+len(suffix) > MaxName {
		return nil, false
	}
	joined = append(append(dst, prefix...), suffix...)
	k.Set(joined)
	return joined, true
}

// prepare finds the labels and hashes the suffixes, from the root upwards.
func (k *Key) prepare() {
	n, i := 0, 0
	for k.name[i] != 0 {
		k.starts[n] = uint8(i)
		n++
		i += int(k.name[i]) + 1
	}
	k.labels = n
	k.starts[n] = uint8(i)
	h := uint64(hashSeed)
	k.hashes[n] = fold(h)
	for n--; n >= 0; n-- {
		start := int(k.starts[n])
		h = hashLabel(h, k.name[start:start+1+int(k.name[start])])
		k.hashes[n] = fold(h)
	}
}

// The hash is for tables that operators fill: who asks for names that collide
// gains nothing by it. It is the same in all processes.
const (
	hashSeed = 0x9e3779b97f4a7c15
	hashMul  = 0xa0761d6478bd642f
)

func hashLabel(h uint64, label []byte) uint64 {
	for len(label) >= 8 {
		h = mix(h ^ binary.LittleEndian.Uint64(label))
		label = label[8:]
	}
	var tail uint64
	for i, c := range label {
		tail |= uint64(c) << (8 * i)
	}
	return mix(h ^ tail ^ uint64(len(label))<<56)
}

func mix(v uint64) uint64 {
	hi, lo := bits.Mul64(v, hashMul)
	return hi ^ lo
}

func fold(h uint64) uint32 { return uint32(h>>32) ^ uint32(h) }

// Labels counts the labels, the root not counted.
func (k *Key) Labels() int { return k.labels }

// Name returns the name in lower case. It is valid until k is set again.
func (k *Key) Name() []byte { return k.name[:k.length] }

// Suffix returns what is left when skip labels are taken away, in lower case.
func (k *Key) Suffix(skip int) []byte { return k.name[k.starts[skip]:k.length] }

// Start returns where in the name the suffix without skip labels begins.
func (k *Key) Start(skip int) int { return int(k.starts[skip]) }

// Hash returns the hash of the suffix without skip labels.
func (k *Key) Hash(skip int) uint32 { return k.hashes[skip] }

// Len returns the length of the name.
func (k *Key) Len() int { return k.length }
