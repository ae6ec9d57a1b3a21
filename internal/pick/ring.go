package pick

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
)

// VirtualNodes is how many points of a [Ring] belong to a position of weight
// 1. The share of a position deviates by about 1/sqrt of its points.
const VirtualNodes = 512

// Ring is a consistent hash ring with the points of Envoy's: the xxHash64 of
// "<key>_<i>" for i = 0, 1, 2 and so on.
//
// A hash belongs to the first point at or after it. Where the point's position
// cannot be used, walk on with At(i+1), At(i+2) and so on, which spreads what
// one position leaves over all others.
type Ring struct {
	hashes []uint64
	owners []int32 // by point
	// starts holds, for each value of a hash's leading bits, the first point
	// with such a hash or a higher one. There are as many values as points or
	// more, so a search goes over one or two points from there.
	starts []int32
	shift  int
}

// NewRing returns the ring of the positions of keys; nil when no weight is
// above 0. Positions of weight 0 are not on it.
//
// A position has VirtualNodes points for each unit of its weight, whatever
// else is on the ring, so that when one leaves no hash moves between those
// that stay. (Envoy fixes the size of the ring instead, and moves some.) Only
// where that would give fewer than minSize points are they doubled, and where
// it would give more than maxSize halved, until it fits; each position keeps
// at least one.
func NewRing(keys []string, weights []float64, minSize, maxSize int) *Ring {
	live, sum := positive(weights)
	if len(live) == 0 {
		return nil
	}
	unit := float64(VirtualNodes)
	for sum*unit < float64(minSize) {
		unit *= 2
	}
	for sum*unit > float64(maxSize) && unit > 1 {
		unit /= 2
	}
	points := make([]int, len(weights))
	for _, p := range live {
		points[p] = max(1, int(math.Round(weights[p]*unit)))
	}
	return NewRingPoints(keys, points)
}

// NewRingPoints returns the ring on which the position of each key has as
// many points as points says; nil when that is none.
func NewRingPoints(keys []string, points []int) *Ring {
	type point struct {
		hash  uint64
		owner int32
	}
	var all []point
	var text []byte
	for p, n := range points {
		text = append(append(text[:0], keys[p]...), '_')
		prefix := len(text)
		for i := range n {
			text = strconv.AppendInt(text[:prefix], int64(i), 10)
			all = append(all, point{xxhash.Sum64(text), int32(p)})
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b point) int {
		if c := cmp.Compare(a.hash, b.hash); c != 0 {
			return c
		}
		// The order of the list must not matter.
		return cmp.Compare(keys[a.owner], keys[b.owner])
	})

	width := bits.Len(uint(len(all)))
	r := &Ring{
		hashes: make([]uint64, len(all)),
		owners: make([]int32, len(all)),
		shift:  64 - width,
		starts: make([]int32, 1<<width),
	}
	next := 0 // the first start that is not known yet
	for i, p := range all {
		r.hashes[i], r.owners[i] = p.hash, p.owner
		for ; next <= int(p.hash>>r.shift); next++ {
			r.starts[next] = int32(i)
		}
	}
	for ; next < len(r.starts); next++ {
		r.starts[next] = int32(len(all))
	}
	return r
}

// Lookup returns the index of the point that hash belongs to.
func (r *Ring) Lookup(hash uint64) int {
	i := int(r.starts[hash>>r.shift])
	for i < len(r.hashes) && r.hashes[i] < hash {
		i++
	}
	if i == len(r.hashes) {
		return 0
	}
	return i
}

// At returns the position that the point at index i belongs to. Indexes from
// Len on go round the ring again.
func (r *Ring) At(i int) int { return int(r.owners[i%len(r.owners)]) }

// Len returns the number of points.
func (r *Ring) Len() int { return len(r.owners) }
