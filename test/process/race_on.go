//go:build race

package process

// Race tells that the race detector is on.
const Race = true
