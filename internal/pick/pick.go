// Package pick holds the algorithms that choose one of N by weight or by
// hash: alias tables, smooth weighted rotation, weighted rendezvous, hash
// rings and Maglev tables.
//
// Each is built once and never written again, knows nothing of health or
// pools, and yields positions. Picking allocates nothing and may be done from
// any number of goroutines. A caller for whom a position is not usable asks
// for the next one in the way that the algorithm's methods describe.
package pick
