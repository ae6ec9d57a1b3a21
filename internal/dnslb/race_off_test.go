//go:build !race

package dnslb

const raceEnabled = false
