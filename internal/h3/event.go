package h3

import (
	"errors"
	"time"

	"github.com/quic-go/quic-go"
)

// Event is something that is counted because it is not in order: a bound was
// met, or a time-out passed.
type Event uint8

// The events. Those of floods end the connection with H3_EXCESSIVE_LOAD.
const (
	_ Event = iota
	// EventRetry: a client had to prove its address before it was let in.
	EventRetry
	// EventDropped: a packet was dropped, as more came from newcomers than
	// could be looked at.
	EventDropped
	// EventUnknown: a packet of a connection that is not known was dropped
	// without an answer (stateless reset).
	EventUnknown
	// EventVersion: a client was told which versions of QUIC there are.
	EventVersion

	// EventRapidReset: the client opened requests and reset them, or made us
	// reset them, again and again.
	EventRapidReset
	// EventFrameFlood: too many frames that bring nothing.
	EventFrameFlood
	// EventStreamFlood: too many unidirectional streams that bring nothing.
	EventStreamFlood

	// EventProtocol: the connection was ended for any other breach of HTTP/3.
	EventProtocol
	// EventTransport: it was ended for a breach of QUIC.
	EventTransport
	// EventStreamLimit: it was ended as the client opened more requests than it
	// may.
	EventStreamLimit
	// EventMalformed: a message was malformed, and its stream reset.
	EventMalformed
	// EventHeaderLimit: a head was over HeaderBytes or HeaderCount.
	EventHeaderLimit
	// EventHeaderTimeout: a head took too long.
	EventHeaderTimeout
	// EventWriteTimeout: a client takes no more of an answer.
	EventWriteTimeout
	// EventIdleTimeout: the connection was without requests for too long.
	EventIdleTimeout
	// EventVanished: nothing came from the client for too long.
	EventVanished
	// EventReset: the client's system says that it does not know the
	// connection (stateless reset).
	EventReset

	// Events is the number of events, for tables of counters.
	Events
)

var eventNames = [Events]string{
	EventRetry:         "retry",
	EventDropped:       "packet_dropped",
	EventUnknown:       "packet_unknown",
	EventVersion:       "version_negotiation",
	EventRapidReset:    "rapid_reset",
	EventFrameFlood:    "frame_flood",
	EventStreamFlood:   "stream_flood",
	EventProtocol:      "protocol_error",
	EventTransport:     "transport_error",
	EventStreamLimit:   "stream_limit",
	EventMalformed:     "malformed",
	EventHeaderLimit:   "header_limit",
	EventHeaderTimeout: "header_timeout",
	EventWriteTimeout:  "write_timeout",
	EventIdleTimeout:   "idle_timeout",
	EventVanished:      "vanished",
	EventReset:         "stateless_reset",
}

// String returns a word for metrics.
func (e Event) String() string {
	if e > 0 && e < Events {
		return eventNames[e]
	}
	return "invalid"
}

// floodWindow is the time over which floods are counted.
const floodWindow = 10 * time.Second

// How many of a kind a connection may see in floodWindow for nothing. With what
// it does of use it may see more; see Conn.flood.
const (
	resetBound  = 100 // and MaxStreams
	frameBound  = 500
	streamBound = 100
)

// floods counts, since a moment, what may become a flood.
type floods struct {
	since                  time.Time
	resets, frames, opened int
	data                   int // frames that bring something
	answered               int // requests that were answered to their end
}

// flood counts something that brings nothing and ends the connection once there
// is too much of it. The allowance grows with use: a client that has requests
// answered may well cancel as many.
func (c *Conn) flood(e Event) {
	c.mu.Lock()
	f := c.flooding()
	over := false
	switch e {
	case EventRapidReset:
		f.resets++
		over = f.resets > resetBound+c.cfg.MaxStreams+f.answered
	case EventFrameFlood:
		f.frames++
		over = f.frames > frameBound+4*f.data
	case EventStreamFlood:
		f.opened++
		over = f.opened > streamBound
	}
	over = over && !c.flooded
	c.flooded = c.flooded || over
	c.mu.Unlock()
	if over {
		c.count(e)
		c.close(codeExcessiveLoad, e.String())
	}
}

// flooding returns the counts of the window; c.mu is held.
func (c *Conn) flooding() *floods {
	if now := time.Now(); now.Sub(c.floods.since) >= floodWindow {
		c.floods = floods{since: now}
	}
	return &c.floods
}

// useful counts what is of use.
func (c *Conn) useful(data, answered int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.flooding()
	f.data += data
	f.answered += answered
}

// countEnd counts why QUIC has ended a connection, as far as that is not in
// order.
func (c *Conn) countEnd(err error) {
	var transport *quic.TransportError
	var idle *quic.IdleTimeoutError
	var reset *quic.StatelessResetError
	switch {
	case errors.As(err, &idle):
		c.count(EventVanished)
	case errors.As(err, &reset):
		c.count(EventReset)
	case !errors.As(err, &transport) || transport.Remote:
	case transport.ErrorCode == quic.StreamLimitError:
		c.count(EventStreamLimit)
	default:
		c.count(EventTransport)
	}
}
