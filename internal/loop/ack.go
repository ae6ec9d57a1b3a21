package loop

// ackFrom is from what length on the end of what was moved is acknowledged at
// once.
const ackFrom = 64 << 10

// acker is a connection that can acknowledge at once what it has read.
//
// The last piece of a long stream is often a short one. It is acknowledged with
// what is written next, or 40 ms later when nothing is, as on a connection that
// is kept for the next request. A sender that goes by the rate at which its bytes
// are acknowledged (BBR, draft-ietf-ccwg-bbr section 4.5) then takes the path for
// a hundred times slower than it is, and paces the next response accordingly.
type acker interface{ ackNow() }

func (c *stream) ackNow() {
	if c.tcp != nil {
		ackNow(c.tcp)
	}
}
