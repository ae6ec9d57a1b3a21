//go:build !race

package httplb

const raceEnabled = false
