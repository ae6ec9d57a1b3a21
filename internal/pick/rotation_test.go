package pick

import (
	"math"
	"slices"
	"testing"
)

// take returns the first n turns.
func take(r *Rotation, n int) []int {
	var got []int
	for turn := range n {
		got = append(got, r.At(uint64(turn)))
	}
	return got
}

func TestRotationTakesTurnsAsNginxDoes(t *testing.T) {
	for _, tt := range []struct {
		name    string
		weights []float64
		want    []int
	}{
		{"one", []float64{0.3}, []int{0}},
		{"equal", []float64{1, 1, 1}, []int{0, 1, 2}},
		{"five one one", []float64{0.05, 0.01, 0.01}, []int{0, 0, 1, 0, 2, 0, 0}}, // the example of nginx
		{"one two three", []float64{0.1, 0.2, 0.3}, []int{2, 1, 0, 2, 1, 2}},
		{"zero left out", []float64{0, 0.5, 0, 1}, []int{3, 1, 3}},
		{"weights not in order", []float64{0.2, 0.1, 0.2, 0.1}, []int{0, 2, 1, 3, 0, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := NewRotation(tt.weights)
			if got := take(r, r.Len()); !slices.Equal(got, tt.want) {
				t.Errorf("a cycle is %v, want %v", got, tt.want)
			}
			if r.At(uint64(r.Len())) != tt.want[0] {
				t.Errorf("the cycle does not repeat")
			}
		})
	}
}

// The cycle is computed by groups of equal weight; position by position, as
// nginx does, it has to come out the same.
func TestRotationEqualsTheAlgorithmItAbridges(t *testing.T) {
	for _, tt := range weightTables {
		t.Run(tt.name, func(t *testing.T) {
			n := counts(tt.weights)
			total := 0
			for _, w := range n {
				total += w
			}
			sums := make([]int, len(n))
			var want []int
			for range total {
				best := -1
				for i, w := range n {
					sums[i] += w
					if w > 0 && (best < 0 || sums[i] > sums[best]) {
						best = i
					}
				}
				sums[best] -= total
				want = append(want, best)
			}
			r := NewRotation(tt.weights)
			if got := take(r, r.Len()); !slices.Equal(got, want) {
				t.Errorf("a cycle is %v, want %v", got, want)
			}
		})
	}
}

func TestRotationSharesStayExactWhenOneIsDown(t *testing.T) {
	for _, tt := range []struct {
		name    string
		weights []float64
		down    int
	}{
		{"three equal", []float64{1, 1, 1}, 1},
		{"three weights", []float64{0.5, 0.3, 0.2}, 0},
		{"in front of the heaviest", []float64{0.1, 0.1, 1, 0.3}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := NewRotation(tt.weights)
			counts := make([]int, len(tt.weights))
			turn := uint64(0)
			for turn < uint64(r.Len()*100) {
				p := r.At(turn)
				turn++
				if p != tt.down {
					counts[p]++
				}
			}
			for p, w := range tt.weights {
				want := int(math.Round(float64(r.Len()*100) * w / sum(tt.weights)))
				if p == tt.down {
					want = 0
				}
				if counts[p] != want {
					t.Errorf("position %d came up %d times in 100 cycles, want %d", p, counts[p], want)
				}
			}
		})
	}
}

func sum(weights []float64) float64 {
	_, s := positive(weights)
	return s
}

func TestRotationIsBounded(t *testing.T) {
	weights := make([]float64, 10_000) // 505,000 turns unbounded
	for i := range weights {
		weights[i] = float64(i%100+1) / 100
	}
	r := NewRotation(weights)
	if r.Len() < maxCycle*99/100 || r.Len() > maxCycle*101/100 {
		t.Errorf("a cycle has %d turns, want about %d", r.Len(), maxCycle)
	}
	seen := make([]int, len(weights))
	for turn := range r.Len() {
		seen[r.At(uint64(turn))]++
	}
	if seen[0] != 1 || seen[99] != 52 {
		t.Errorf("weights .01 and 1 have %d and %d turns, want 1 and 52", seen[0], seen[99])
	}
	if slices.Min(seen) == 0 {
		t.Error("a position with weight has no turn")
	}
}
