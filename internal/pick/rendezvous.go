package pick

import "math"

// Score returns the weighted rendezvous score of node for key; both are
// hashes. A caller computes it for every node that can be used and takes the
// highest, so that a key moves only when its own node leaves or a node that
// beats it comes: nothing moves between two nodes that stay. Over all keys
// each node wins in proportion to its weight. A weight of 0 scores below
// every other.
func Score(key, node uint64, weight float64) float64 {
	if !(weight > 0) {
		return math.Inf(-1)
	}
	// The key is mixed on its own before it meets the node, so that keys and
	// nodes with the same differences (addresses in a row) do not repeat each
	// other's order.
	h := Mix(Mix(key) ^ node)
	u := (float64(h>>11) + 0.5) / (1 << 53) // in (0, 1), both ends excluded
	return -weight / math.Log(u)
}

// Mix is the finaliser of SplitMix64: every bit of x changes about half of
// the result's.
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
