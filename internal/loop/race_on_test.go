//go:build race

package loop

// raceDetector: sync.Pool drops things at random under it, so that allocations
// mean nothing.
const raceDetector = true
