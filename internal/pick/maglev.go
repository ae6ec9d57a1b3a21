package pick

import (
	"cmp"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// maglevSizes are the table sizes that NewMaglev chooses from, all prime. A
// hundred slots for each position keep shares within 1 % of the weights.
var maglevSizes = [...]int{65_537, 655_373, 5_000_011}

// Maglev is the lookup table of Google's Maglev (Eisenbud et al., NSDI 2016),
// filled as Envoy fills it: one load finds the position of a hash, shares are
// as exact as the table's size allows, and removing a position moves little
// beside its own hashes.
//
// Where a position cannot be used, look up again with attempt 1, 2 and so on.
type Maglev struct {
	table []int32
}

// NewMaglev returns the table of the positions of keys, with m slots: a prime
// of at most 5,000,011, or 0 for 65,537 (above 655 positions, the next of
// 655,373 and 5,000,011 that has a hundred slots for each). It returns nil
// when no weight is above 0; positions of weight 0 are not in the table. The
// order of keys does not matter.
func NewMaglev(keys []string, weights []float64, m int) *Maglev {
	live, sum := positive(weights)
	if len(live) == 0 {
		return nil
	}
	if m <= 0 {
		m = maglevSizes[len(maglevSizes)-1]
		for _, s := range maglevSizes {
			if s >= 100*len(live) {
				m = s
				break
			}
		}
	}
	if m > maglevSizes[len(maglevSizes)-1] || !prime(m) {
		panic("pick: the size of a Maglev table must be a prime of at most 5000011")
	}

	type host struct {
		position     int32
		weight       float64
		target       float64
		offset, skip uint64
		next         uint64
	}
	slices.SortStableFunc(live, func(a, b int) int { return cmp.Compare(keys[a], keys[b]) })
	hosts := make([]host, len(live))
	highest := 0.0
	second := xxhash.NewWithSeed(1)
	for i, p := range live {
		second.ResetWithSeed(1)
		_, _ = second.WriteString(keys[p]) // never fails
		hosts[i] = host{
			position: int32(p),
			weight:   weights[p] / sum,
			offset:   xxhash.Sum64String(keys[p]) % uint64(m),
			skip:     second.Sum64()%uint64(m-1) + 1,
		}
		highest = math.Max(highest, hosts[i].weight)
	}

	t := &Maglev{table: make([]int32, m)}
	for i := range t.table {
		t.table[i] = -1
	}
	filled := 0
	for round := 1; ; round++ {
		for i := range hosts {
			h := &hosts[i]
			if float64(round)*h.weight < h.target {
				continue
			}
			h.target += highest
			slot := (h.offset + h.skip*h.next) % uint64(m)
			for t.table[slot] >= 0 {
				h.next++
				slot = (h.offset + h.skip*h.next) % uint64(m)
			}
			t.table[slot] = h.position
			h.next++
			if filled++; filled == m {
				return t
			}
		}
	}
}

// Lookup returns the position of hash. Attempts from 1 on look elsewhere in
// the table, each in a place of its own.
//
// Envoy's further attempts flip the hash's low bits, which leads to slots side
// by side; whose slot follows whose is a property of the two skips, and with
// several positions out of use the shares of the rest were found 10 % off. So
// the hash is mixed anew for each attempt instead.
func (t *Maglev) Lookup(hash, attempt uint64) int {
	if attempt > 0 {
		hash = Mix(hash + attempt)
	}
	return int(t.table[hash%uint64(len(t.table))])
}

// Len returns the number of slots.
func (t *Maglev) Len() int { return len(t.table) }

// prime reports whether n is a prime number.
func prime(n int) bool {
	if n < 2 {
		return false
	}
	for d := 2; d*d <= n; d++ {
		if n%d == 0 {
			return false
		}
	}
	return true
}
