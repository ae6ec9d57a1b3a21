package steer

import "fairlead/internal/pick"

// tries is how often a position is drawn from a table of all positions before
// only those that can be taken are looked at, one by one. With half of the
// endpoints down one draw in 65,536 comes to that.
const tries = 16

// unusable is the weight of what cannot be taken.
const unusable = -1

// A draw takes one of n positions in proportion to weight(i); positions whose
// weight is below 0 cannot be taken. The total of the weights is found first,
// in a pass of its own, so weight is asked twice: what is up or open may change
// meanwhile, which shifts a probability a little and breaks nothing. draw
// reports false when no position can be taken.
func draw(n int, weight func(int) float64, r Source) (int, bool) {
	sum, equal := total(n, weight)
	x := float64(r.Uint64()>>11) / (1 << 53) * sum
	last := unusable
	for i := range n {
		w := stake(weight(i), equal)
		if w <= 0 {
			continue
		}
		if last = i; x < w {
			break
		}
		x -= w
	}
	return last, last >= 0
}

// total returns the sum of the stakes. equal is true where no position that
// can be taken has a weight above 0.
func total(n int, weight func(int) float64) (sum float64, equal bool) {
	usable := 0
	for i := range n {
		if w := weight(i); w >= 0 {
			sum += w
			usable++
		}
	}
	if sum > 0 {
		return sum, false
	}
	return float64(usable), true
}

// stake is the part of the total that belongs to a position of weight w.
func stake(w float64, equal bool) float64 {
	switch {
	case w < 0:
		return 0
	case equal:
		return 1
	}
	return w
}

// rendezvous takes the one of n positions that a key leads to by weighted
// rendezvous hashing ([pick.Score]), as draw takes one by chance: positions whose
// weight is below 0 cannot be taken, and where none of the others has a weight
// above 0 all count as equal.
func rendezvous(n int, key uint64, hash func(int) uint64, weight func(int) float64) (best int, ok bool) {
	for _, equal := range [...]bool{false, true} {
		highest := 0.0 // scores are above, but for those of weight 0
		for i := range n {
			w := stake(weight(i), equal)
			if w <= 0 {
				continue
			}
			if score := pick.Score(key, hash(i), w); score > highest {
				best, highest, ok = i, score, true
			}
		}
		if ok {
			break
		}
	}
	return best, ok
}
