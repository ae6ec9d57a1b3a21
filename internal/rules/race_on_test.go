//go:build race

package rules

// raceDetector makes sync.Pool drop what it is given at random, so that regular
// expressions and JSON allocate now and then.
const raceDetector = true
