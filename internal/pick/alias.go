package pick

import (
	"math/bits"
	"slices"
)

// Alias draws a position with a probability proportional to its weight, in
// constant time whatever their number (Vose, "A Linear Algorithm for
// Generating Random Numbers with a Given Distribution").
//
// Where a drawn position cannot be used, draw again with fresh bits: the
// positions that remain are then drawn in proportion to their own weights. A
// caller bounds the draws and falls back on a pass over all positions.
type Alias struct {
	columns []column
}

// column is one of the equally likely columns: below the threshold it yields
// self, from there on other.
type column struct {
	below       uint64
	self, other int32
}

// NewAlias lays out a table for weights; the positions drawn are theirs. It
// returns nil when no weight is above 0. Weights are finite.
func NewAlias(weights []float64) *Alias {
	live, sum := positive(weights)
	if len(live) == 0 {
		return nil
	}
	// A column holds 1/n of the whole. Each that is not filled by its own
	// position is topped up from one position that has more than a column.
	// Positions of weight 0 have no column, so that rounding cannot make them
	// likely: what is left over at the end fills its column alone.
	a := &Alias{columns: make([]column, len(live))}
	scaled := make([]float64, len(live))
	var small, large []int32
	for c, p := range live {
		a.columns[c] = column{self: int32(p), other: int32(p)}
		scaled[c] = weights[p] / sum * float64(len(live))
		if scaled[c] < 1 {
			small = append(small, int32(c))
		} else {
			large = append(large, int32(c))
		}
	}
	for len(small) > 0 && len(large) > 0 {
		s, l := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		a.columns[s].below = uint64(scaled[s] * (1 << 63) * 2)
		a.columns[s].other = a.columns[l].self
		scaled[l] -= 1 - scaled[s]
		if scaled[l] < 1 {
			large = large[:len(large)-1]
			small = append(small, l)
		}
	}
	return a
}

// Pick returns the position that the 64 random bits of r draw.
func (a *Alias) Pick(r uint64) int {
	// r/2^64*n has the column before the point and the place in the column
	// behind it; the two are independent up to n/2^64.
	c, at := bits.Mul64(r, uint64(len(a.columns)))
	col := &a.columns[c]
	if at < col.below {
		return int(col.self)
	}
	return int(col.other)
}

// Len returns how many positions have a weight above 0.
func (a *Alias) Len() int { return len(a.columns) }

// positive returns the positions whose weight is above 0, and their sum. It
// adds up in the order of size, so that the sum is the same to the last bit
// in whatever order the positions are: a table laid out by it must not depend
// on that.
func positive(weights []float64) (live []int, sum float64) {
	var sorted []float64
	for i, w := range weights {
		if w > 0 {
			live = append(live, i)
			sorted = append(sorted, w)
		}
	}
	slices.Sort(sorted)
	for _, w := range sorted {
		sum += w
	}
	return live, sum
}
