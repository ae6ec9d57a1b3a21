//go:build !race

package h2

const raceDetector = false
