//go:build race

package h2

// raceDetector: sync.Pool drops things at random under it, so that allocations
// mean nothing.
const raceDetector = true
