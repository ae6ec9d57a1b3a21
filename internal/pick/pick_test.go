package pick

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// random is a source that makes failures repeatable.
func random() *rand.PCG { return rand.NewPCG(1, 2) }

// hostKeys returns n keys 10.0.0.0:443, 10.0.0.1:443 and so on.
func hostKeys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("10.%d.%d.%d:443", i>>16, i>>8&255, i&255)
	}
	return keys
}

// equal returns n weights of 1.
func equal(n int) []float64 {
	w := make([]float64, n)
	for i := range w {
		w[i] = 1
	}
	return w
}

// without returns weights with the one at position i set to 0.
func without(weights []float64, i int) []float64 {
	w := slices.Clone(weights)
	w[i] = 0
	return w
}

// wantShares checks that counts follow weights by a chi-square test that a
// right distribution fails once in 100,000 times.
func wantShares(t *testing.T, counts []int, weights []float64) {
	t.Helper()
	sum, n, free, chi := 0.0, 0, -1.0, 0.0
	for i, w := range weights {
		sum += w
		n += counts[i]
	}
	for i, w := range weights {
		if w == 0 {
			if counts[i] != 0 {
				t.Errorf("position %d of weight 0 was picked %d times", i, counts[i])
			}
			continue
		}
		free++
		want := w / sum * float64(n)
		chi += (float64(counts[i]) - want) * (float64(counts[i]) - want) / want
	}
	if free <= 0 {
		return
	}
	// Wilson and Hilferty's approximation of the quantile.
	h := 2 / (9 * free)
	limit := free * math.Pow(1-h+4.265*math.Sqrt(h), 3)
	if chi > limit {
		t.Errorf("counts %v do not follow weights %v: chi-square %.1f, want at most %.1f", counts, weights, chi, limit)
	}
}

// weightTables are the weights that every weighted algorithm is tried with.
var weightTables = []struct {
	name    string
	weights []float64
}{
	{"one", []float64{1}},
	{"one of hundredth", []float64{0.01}},
	{"thirds", []float64{1, 1, 1}},
	{"seventy thirty", []float64{0.7, 0.3}},
	{"four five six", []float64{0.4, 0.5, 0.6}},
	{"eight five six", []float64{0.8, 0.5, 0.6}},
	{"zero first", []float64{0, 0.5, 1}},
	{"zero between", []float64{0.5, 0, 1, 0}},
	{"wide", []float64{1, 0.01, 0.5, 0.02}},
	{"seventeen", []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, .5, .5, .5, .5, .5, .25, .25, .75}},
}

func TestNoWeightAboveZeroMakesNoTable(t *testing.T) {
	for name, weights := range map[string][]float64{
		"none": nil, "zeros": {0, 0}, "negative": {-1}, "not a number": {math.NaN()},
	} {
		keys := hostKeys(len(weights))
		if NewAlias(weights) != nil {
			t.Errorf("NewAlias of %s is not nil", name)
		}
		if NewRotation(weights) != nil {
			t.Errorf("NewRotation of %s is not nil", name)
		}
		if NewRing(keys, weights, 1024, 8<<20) != nil {
			t.Errorf("NewRing of %s is not nil", name)
		}
		if NewMaglev(keys, weights, 0) != nil {
			t.Errorf("NewMaglev of %s is not nil", name)
		}
	}
}

func TestPickingAllocatesNothing(t *testing.T) {
	keys, weights, r := hostKeys(8), equal(8), random()
	alias, rotation := NewAlias(weights), NewRotation(weights)
	ring, maglev := NewRing(keys, weights, 1024, 8<<20), NewMaglev(keys, weights, 0)
	sink := 0
	if n := testing.AllocsPerRun(1000, func() {
		x := r.Uint64()
		sink += alias.Pick(x) + rotation.At(x) + ring.At(ring.Lookup(x)) + maglev.Lookup(x, 0)
		if Score(x, 1, 0.5) > Score(x, 2, 0.5) {
			sink++
		}
	}); n != 0 {
		t.Errorf("picking allocates %v times", n)
	}
}

var sink int

func BenchmarkPick(b *testing.B) {
	for _, n := range []int{4, 1000} {
		keys, weights := hostKeys(n), equal(n)
		for i := range weights {
			weights[i] = float64(i%100+1) / 100
		}
		r := random()
		b.Run(fmt.Sprintf("alias/%d", n), func(b *testing.B) {
			a := NewAlias(weights)
			for b.Loop() {
				sink += a.Pick(r.Uint64())
			}
		})
		b.Run(fmt.Sprintf("rotation/%d", n), func(b *testing.B) {
			rot := NewRotation(weights)
			turn := uint64(0)
			for b.Loop() {
				sink += rot.At(turn)
				turn++
			}
		})
		b.Run(fmt.Sprintf("ring/%d", n), func(b *testing.B) {
			ring := NewRing(keys, weights, 1024, 8<<20)
			for b.Loop() {
				sink += ring.At(ring.Lookup(r.Uint64()))
			}
		})
		b.Run(fmt.Sprintf("maglev/%d", n), func(b *testing.B) {
			m := NewMaglev(keys, weights, 0)
			for b.Loop() {
				sink += m.Lookup(r.Uint64(), 0)
			}
		})
	}
	b.Run("score/1", func(b *testing.B) {
		r := random()
		best := 0.0
		for b.Loop() {
			best = max(best, Score(r.Uint64(), 12345, 0.7))
		}
	})
}

func BenchmarkBuild(b *testing.B) {
	const n = 1000
	keys, weights := hostKeys(n), equal(n)
	for i := range weights {
		weights[i] = float64(i%100+1) / 100
	}
	b.Run("alias", func(b *testing.B) {
		for b.Loop() {
			NewAlias(weights)
		}
	})
	b.Run("rotation", func(b *testing.B) {
		for b.Loop() {
			NewRotation(weights)
		}
	})
	b.Run("ring", func(b *testing.B) {
		for b.Loop() {
			NewRing(keys, weights, 1024, 8<<20)
		}
	})
	b.Run("maglev", func(b *testing.B) {
		for b.Loop() {
			NewMaglev(keys, weights, 0)
		}
	})
}
