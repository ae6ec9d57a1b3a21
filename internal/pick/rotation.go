package pick

import "math"

// maxCycle bounds the length of a rotation: 1 MiB of positions, enough for
// 2,600 weights up to 1 in steps of 0.01 without rounding.
const maxCycle = 1 << 18

// step is the unit that weights are counted in.
const step = 0.01

// Rotation takes positions in turn, each as often as its weight says and as
// evenly spread as can be: the smooth weighted round robin of nginx, laid out
// as one cycle that repeats.
//
// A caller keeps the number of the next turn. Where a position cannot be used
// it takes further turns, counted ones, until one can: every usable position
// then still comes up as often in a cycle as its weight says, so the shares of
// the others are exact, too.
type Rotation struct {
	cycle []int32
}

// NewRotation lays out the cycle for weights, which are multiples of 0.01;
// it returns nil when none is above 0. Where a cycle would have more than
// 262,144 turns the weights are scaled down and rounded, to no less than one
// turn each.
func NewRotation(weights []float64) *Rotation {
	turns := counts(weights)
	if turns == nil {
		return nil
	}
	total := 0
	for _, t := range turns {
		total += t
	}

	// nginx adds to every position its weight, takes the position with the
	// highest sum, the first of equals, and subtracts the total from it. Of
	// positions with one weight, that takes the first, the second and so on
	// in turn; so it is enough to compare the next position of each weight.
	type class struct {
		weight    int
		positions []int32
		next      int // in positions
		sum       int // of positions[next]
	}
	byWeight := make(map[int]*class)
	var classes []*class
	for p, t := range turns {
		if t == 0 {
			continue
		}
		c := byWeight[t]
		if c == nil {
			c = &class{weight: t}
			byWeight[t] = c
			classes = append(classes, c)
		}
		c.positions = append(c.positions, int32(p))
	}

	r := &Rotation{cycle: make([]int32, 0, total)}
	for range total {
		var best *class
		for _, c := range classes {
			c.sum += c.weight
			if best == nil || c.sum > best.sum ||
				c.sum == best.sum && c.positions[c.next] < best.positions[best.next] {
				best = c
			}
		}
		r.cycle = append(r.cycle, best.positions[best.next])
		if best.next++; best.next == len(best.positions) {
			best.next = 0
			best.sum -= total // the whole class has been taken once more
		}
	}
	return r
}

// At returns the position whose turn it is.
func (r *Rotation) At(turn uint64) int { return int(r.cycle[turn%uint64(len(r.cycle))]) }

// Len returns the number of turns in a cycle.
func (r *Rotation) Len() int { return len(r.cycle) }

// counts turns weights into the smallest whole numbers in the same ratio, or
// nearly so where their sum would exceed maxCycle; nil when none is above 0.
func counts(weights []float64) []int {
	n := make([]int, len(weights))
	sum := 0
	for i, w := range weights {
		if w > 0 {
			n[i] = max(1, int(math.Round(w/step)))
			sum += n[i]
		}
	}
	if sum == 0 {
		return nil
	}
	if sum > maxCycle {
		scale := float64(maxCycle) / float64(sum)
		for i, v := range n {
			if v > 0 {
				n[i] = max(1, int(math.Round(float64(v)*scale)))
			}
		}
	}
	divisor := 0
	for _, v := range n {
		divisor = gcd(divisor, v)
	}
	for i := range n {
		n[i] /= divisor
	}
	return n
}

// gcd returns the greatest common divisor; gcd(0, b) is b.
func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
