package pick

import (
	"math"
	"testing"
)

func TestAliasFollowsWeights(t *testing.T) {
	for _, tt := range weightTables {
		t.Run(tt.name, func(t *testing.T) {
			a, r := NewAlias(tt.weights), random()
			counts := make([]int, len(tt.weights))
			for range 200_000 {
				counts[a.Pick(r.Uint64())]++
			}
			wantShares(t, counts, tt.weights)
		})
	}
}

// The table itself holds the shares: what each position has of the columns.
func TestAliasIsExact(t *testing.T) {
	for _, tt := range weightTables {
		t.Run(tt.name, func(t *testing.T) {
			a := NewAlias(tt.weights)
			got := make([]float64, len(tt.weights))
			for _, c := range a.columns {
				own := float64(c.below) / (1 << 63) / 2
				got[c.self] += own / float64(a.Len())
				got[c.other] += (1 - own) / float64(a.Len())
			}
			_, sum := positive(tt.weights)
			for i, w := range tt.weights {
				if math.Abs(got[i]-w/sum) > 1e-12 {
					t.Errorf("position %d has %v of the table, want %v", i, got[i], w/sum)
				}
			}
		})
	}
}

// Whatever the bits, positions of weight 0 stay out: the ends of columns are
// where a rounding error would show.
func TestAliasNeverPicksWeightZero(t *testing.T) {
	a := NewAlias([]float64{0, 0.1, 0, 0.2, 0.7, 0})
	if a.Len() != 3 {
		t.Errorf("Len() = %d, want 3", a.Len())
	}
	for _, at := range []uint64{0, 1, math.MaxUint64/3 - 1, math.MaxUint64 / 3, math.MaxUint64/3 + 1,
		math.MaxUint64 / 3 * 2, math.MaxUint64/3*2 + 1, math.MaxUint64/3*2 + 2, math.MaxUint64 - 1, math.MaxUint64} {
		if p := a.Pick(at); p != 1 && p != 3 && p != 4 {
			t.Errorf("Pick(%#x) = %d, want a position that has weight", at, p)
		}
	}
}

func TestAliasRedrawsInProportionToTheRest(t *testing.T) {
	weights := []float64{0.4, 0.5, 0.6, 0.3}
	a, r := NewAlias(weights), random()
	counts := make([]int, len(weights))
	for range 200_000 {
		p := a.Pick(r.Uint64())
		for p == 1 {
			p = a.Pick(r.Uint64())
		}
		counts[p]++
	}
	wantShares(t, counts, without(weights, 1))
}
