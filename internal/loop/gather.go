package loop

import "time"

// A bulk body comes in many small pieces when it is read as fast as it comes,
// and each costs a wake-up and two calls. While it is known that more is to
// come, a connection can wait for more than the first bytes (SO_RCVLOWAT).
const (
	// gatherMark is how much it waits for at most. The buffer holds twice
	// that.
	gatherMark = 256 << 10
	// gatherTime is how long bytes that are there may wait for more. A source
	// that is too slow for that is read as it comes from then on: below some
	// 16 MB/s nothing is gained.
	gatherTime = 16 * time.Millisecond
)

// gatherer is a connection that can wait for more than the first bytes.
type gatherer interface {
	// gather makes the next waits be for n bytes, which are certain to come
	// unless the stream breaks. 1 is the first bytes, and small reads; 0 is
	// for the end: another move finds out anew whether it is worth it.
	gather(n int)
}

// spacious is a connection that knows how much it can take without waiting.
type spacious interface{ space() int }
