package pick

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"
)

func TestHashes(t *testing.T) {
	for text, want := range map[string]uint64{
		"":             0xef46db3751d8e999,
		"a":            0xd24ec4f1a98c6e5b,
		"abc":          0x44bc2cf5ad770999,
		"127.0.0.1:90": 0xb6e9805bf4890ed5,
	} {
		if got := HashKey(text); got != want {
			t.Errorf("HashKey(%q) = %x, want %x", text, got, want)
		}
	}
}

func TestHashAddrTakesMappedAddressesForWhatTheyAre(t *testing.T) {
	v4, mapped := netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("::ffff:192.0.2.7")
	if HashAddr(v4) != HashAddr(mapped) {
		t.Errorf("%v and %v hash differently", v4, mapped)
	}
	if HashAddr(v4) == HashAddr(netip.MustParseAddr("192.0.2.8")) {
		t.Error("two addresses hash alike")
	}
}

// hashed is one of the ways from a hash to a position.
type hashed struct {
	name  string
	build func(keys []string, weights []float64) func(hash uint64) int
}

var allHashed = []hashed{
	{"rendezvous", func(keys []string, weights []float64) func(uint64) int {
		nodes := make([]uint64, len(keys))
		for i, k := range keys {
			nodes[i] = HashKey(k)
		}
		return func(hash uint64) int {
			best, highest := 0, math.Inf(-1)
			for i, n := range nodes {
				if s := Score(hash, n, weights[i]); s > highest {
					best, highest = i, s
				}
			}
			return best
		}
	}},
	{"ring", func(keys []string, weights []float64) func(uint64) int {
		r := NewRing(keys, weights, 1024, 8<<20)
		return func(hash uint64) int { return r.At(r.Lookup(hash)) }
	}},
	{"maglev", func(keys []string, weights []float64) func(uint64) int {
		m := NewMaglev(keys, weights, 0)
		return func(hash uint64) int { return m.Lookup(hash, 0) }
	}},
}

// clients are hashes of addresses in a row, as clients behind one network
// have them.
func clients(n int) []uint64 {
	hashes := make([]uint64, n)
	for i := range hashes {
		hashes[i] = HashAddr(netip.AddrFrom4([4]byte{198, 51, byte(i >> 8), byte(i)}))
	}
	return hashes
}

func TestHashedSharesFollowWeights(t *testing.T) {
	// How far the share of a position may be off, relative to its weight's.
	within := map[string]float64{"rendezvous": 0.06, "ring": 0.25, "maglev": 0.06}
	for _, h := range allHashed {
		for _, tt := range weightTables {
			t.Run(h.name+"/"+tt.name, func(t *testing.T) {
				of := h.build(hostKeys(len(tt.weights)), tt.weights)
				counts := make([]int, len(tt.weights))
				for _, c := range clients(60_000) {
					counts[of(c)]++
				}
				for p, w := range tt.weights {
					want := w / sum(tt.weights) * 60_000
					// Small counts vary by themselves.
					if off := math.Abs(float64(counts[p]) - want); off > want*within[h.name]+4*math.Sqrt(want) {
						t.Errorf("position %d has %d clients, want %.0f", p, counts[p], want)
					}
				}
			})
		}
	}
}

// Removing one of N moves its own clients; of the others, none under
// rendezvous and on the ring, few under Maglev. Share and 5 % bound all.
func TestRemovalMovesLittleMoreThanTheShare(t *testing.T) {
	for _, h := range allHashed {
		for _, n := range []int{3, 10, 100} {
			t.Run(fmt.Sprintf("%s/%d", h.name, n), func(t *testing.T) {
				keys, weights := hostKeys(n), equal(n)
				before := h.build(keys, weights)
				after := h.build(slices.Delete(slices.Clone(keys), 1, 2), slices.Delete(slices.Clone(weights), 1, 2))
				moved, own := 0, 0
				for _, c := range clients(30_000) {
					b, a := before(c), after(c)
					if a >= 1 {
						a++ // as numbered before
					}
					if b != a {
						moved++
					}
					if b == 1 {
						own++
					}
				}
				if h.name != "maglev" && moved != own {
					t.Errorf("%d clients moved, want just the %d of the one that left", moved, own)
				}
				if limit := own + 30_000*5/100; moved > limit {
					t.Errorf("%d clients moved, want at most %d", moved, limit)
				}
			})
		}
	}
}

// Going through a change of weight moves clients only to or from the one
// whose weight changed.
func TestRendezvousWeightChangeMovesOnlyItsOwn(t *testing.T) {
	keys := hostKeys(5)
	before := allHashed[0].build(keys, []float64{1, 1, 0.5, 1, 1})
	after := allHashed[0].build(keys, []float64{1, 1, 0.8, 1, 1})
	for _, c := range clients(30_000) {
		if b, a := before(c), after(c); b != a && a != 2 {
			t.Fatalf("client %x moved from %d to %d, whose weights did not change", c, b, a)
		}
	}
}

func TestReorderingMovesNobody(t *testing.T) {
	// The sums of the second depend on the order of addition.
	for _, weights := range [][]float64{{1, .5, .5, .25, 1, 0, .75}, {.03, .03, .28, .01, .04, .06, .1}} {
		for _, h := range allHashed {
			t.Run(h.name, func(t *testing.T) {
				keys := hostKeys(7)
				before := h.build(keys, weights)
				for shift := range 6 {
					order := []int{0, 2, 1, 3, 6, 5, 4}
					order = append(order[shift:], order[:shift]...)
					var otherKeys []string
					var otherWeights []float64
					for _, p := range order {
						otherKeys = append(otherKeys, keys[p])
						otherWeights = append(otherWeights, weights[p])
					}
					after := h.build(otherKeys, otherWeights)
					for _, c := range clients(10_000) {
						if b, a := keys[before(c)], otherKeys[after(c)]; a != b {
							t.Fatalf("order %v: client %x moved from %s to %s", order, c, b, a)
						}
					}
				}
			})
		}
	}
}

func TestScoreOfWeightZeroNeverWins(t *testing.T) {
	r := random()
	for range 10_000 {
		key, node := r.Uint64(), r.Uint64()
		if zero, least := Score(key, node, 0), Score(key, node^1, 0.01); zero >= least {
			t.Fatalf("Score(%d, %d, 0) = %v beats %v", key, node, zero, least)
		}
	}
}

// Keys and nodes that differ in the same bits must not repeat each other's
// order: among two nodes in a row, keys in a row are spread evenly.
func TestScoreHidesPatterns(t *testing.T) {
	for _, step := range []uint64{1, 2, 256, 1 << 32, 1 << 48} {
		wins, agree, last := 0, 0, false
		for k := range uint64(20_000) {
			w := Score(k*step, 0, 1) > Score(k*step, step, 1)
			if w {
				wins++
			}
			if w == last {
				agree++
			}
			last = w
		}
		if wins < 9_600 || wins > 10_400 || agree < 9_600 || agree > 10_400 {
			t.Errorf("step %d: %d of 20000 keys go to the first of two nodes, %d as the key before; want about half", step, wins, agree)
		}
	}
}

func TestRingIsEnvoys(t *testing.T) {
	want := []struct {
		port string
		hash uint64
	}{
		{"94", 833437586790550860}, {"92", 928266305478181108}, {"90", 1033482794131418490},
		{"95", 3551244743356806947}, {"93", 3851675632748031481}, {"91", 5583722120771150861},
		{"91", 6311230543546372928}, {"93", 7700377290971790572}, {"95", 13144177310400110813},
		{"92", 13444792449719432967}, {"94", 15516499411664133160}, {"90", 16117243373044804889},
	}
	keys := loopback()
	r := NewRingPoints(keys, []int{2, 2, 2, 2, 2, 2})
	if r.Len() != len(want) {
		t.Fatalf("Len() = %d, want %d", r.Len(), len(want))
	}
	for i, w := range want {
		if r.hashes[i] != w.hash || keys[r.At(i)] != "127.0.0.1:"+w.port {
			t.Errorf("point %d is %s at %d, want port %s at %d", i, keys[r.At(i)], r.hashes[i], w.port, w.hash)
		}
	}
	for _, tt := range []struct {
		name string
		hash uint64
		want int
	}{
		{"before the first", 0, 0},
		{"at a point", 928266305478181108, 1},
		{"behind a point", 928266305478181109, 2},
		{"behind the last", math.MaxUint64, 0},
	} {
		if got := r.Lookup(tt.hash); got != tt.want {
			t.Errorf("%s: Lookup(%d) = %d, want %d", tt.name, tt.hash, got, tt.want)
		}
	}
	if r.At(12) != r.At(0) || r.At(25) != r.At(1) {
		t.Error("the ring does not go round")
	}
}

// The search by leading bits finds what a plain search does.
func TestRingLookupFindsTheFirstPointAtOrAfter(t *testing.T) {
	random := random()
	for _, n := range []int{1, 2, 3, 10} {
		r := NewRing(hostKeys(n), equal(n), 0, 8<<20)
		probe := func(hash uint64) {
			want, _ := slices.BinarySearch(r.hashes, hash)
			if got := r.Lookup(hash); got != want%r.Len() {
				t.Fatalf("%d keys: Lookup(%d) = %d, want %d", n, hash, got, want%r.Len())
			}
		}
		for _, h := range r.hashes {
			probe(h - 1)
			probe(h)
			probe(h + 1)
		}
		for range 10_000 {
			probe(random.Uint64())
		}
	}
}

func TestRingSize(t *testing.T) {
	for _, tt := range []struct {
		name     string
		weights  []float64
		min, max int
		want     int
	}{
		{"constant per weight", []float64{1, 1, 0.5}, 1024, 8 << 20, 1280},
		{"one alone", []float64{1}, 0, 8 << 20, 512},
		{"least size", []float64{0.1, 0.1}, 1024, 8 << 20, 1638},
		{"greatest size", equal(100), 0, 10_000, 6400},
		{"greatest size below the number of keys", equal(100), 0, 50, 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := NewRing(hostKeys(len(tt.weights)), tt.weights, tt.min, tt.max).Len(); got != tt.want {
				t.Errorf("Len() = %d, want %d", got, tt.want)
			}
		})
	}
}

// loopback are the keys of Envoy's own tests.
func loopback() []string {
	return []string{"127.0.0.1:90", "127.0.0.1:91", "127.0.0.1:92", "127.0.0.1:93", "127.0.0.1:94", "127.0.0.1:95"}
}

func TestMaglevIsEnvoys(t *testing.T) {
	keys := loopback()
	m := NewMaglev(keys, equal(6), 7)
	for slot, port := range []string{"92", "94", "90", "91", "95", "90", "93"} {
		if got := keys[m.Lookup(uint64(slot), 0)]; got != "127.0.0.1:"+port {
			t.Errorf("slot %d holds %s, want port %s", slot, got, port)
		}
	}
}

func TestMaglevWeights(t *testing.T) {
	m := NewMaglev([]string{"a:1", "b:1"}, []float64{1, 2}, 0)
	counts := make([]int, 2)
	for _, p := range m.table {
		counts[p]++
	}
	if !slices.Equal(counts, []int{21_846, 43_691}) {
		t.Errorf("the table has %v entries, want [21846 43691]", counts)
	}
}

func TestMaglevAttemptsLookElsewhere(t *testing.T) {
	m := NewMaglev(loopback(), equal(6), 0)
	for _, c := range clients(1000) {
		seen := map[int]bool{}
		for attempt := range uint64(100) {
			seen[m.Lookup(c, attempt)] = true
		}
		if len(seen) != 6 {
			t.Fatalf("100 attempts for %x reach %d of 6 positions", c, len(seen))
		}
	}
}

// With most positions out of use the rest still have the shares of their
// weights.
func TestMaglevAttemptsFollowWeights(t *testing.T) {
	weights := []float64{1, 1, .5, 1, 1, .25, 1, .25}
	m := NewMaglev(hostKeys(8), weights, 0)
	counts := make([]int, 8)
	for _, c := range clients(60_000) {
		p := m.Lookup(c, 0)
		for attempt := uint64(1); p != 2 && p != 5 && p != 7; attempt++ {
			p = m.Lookup(c, attempt)
		}
		counts[p]++
	}
	wantShares(t, counts, []float64{0, 0, .5, 0, 0, .25, 0, .25})
}

func TestMaglevSize(t *testing.T) {
	for _, tt := range []struct{ n, m, want int }{
		{1, 0, 65_537}, {655, 0, 65_537}, {656, 0, 655_373}, {3, 7, 7}, {3, 65_537, 65_537},
	} {
		if got := NewMaglev(hostKeys(tt.n), equal(tt.n), tt.m).Len(); got != tt.want {
			t.Errorf("NewMaglev of %d positions with m = %d has %d slots, want %d", tt.n, tt.m, got, tt.want)
		}
	}
	for _, m := range []int{1, 4, 65_536, 5_000_017} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a table of %d slots is made", m)
				}
			}()
			NewMaglev(hostKeys(2), equal(2), m)
		}()
	}
}

// The measured figures of disruption, slot by slot, of the Envoy construction:
// slots whose position is still there and yet changed.
func TestMaglevDisruption(t *testing.T) {
	for _, tt := range []struct {
		n       int
		percent float64
	}{{3, 0.01}, {10, 0.2}, {100, 0.55}, {1000, 0.59}} {
		t.Run(fmt.Sprint(tt.n), func(t *testing.T) {
			keys := hostKeys(tt.n)
			before := NewMaglev(keys, equal(tt.n), 65_537)
			after := NewMaglev(keys, without(equal(tt.n), 0), 65_537)
			extra := 0
			for slot, p := range before.table {
				if p != 0 && after.table[slot] != p {
					extra++
				}
			}
			got := float64(extra) / 65_537 * 100
			if math.Abs(got-tt.percent) > 0.15 {
				t.Errorf("%.2f %% of the slots of survivors changed, want about %.2f %%", got, tt.percent)
			}
		})
	}
}
