package h2

import (
	"time"

	"fairlead/internal/loop"
)

// Event is something that is counted because it is not in order: a bound was
// met, or a time-out passed.
type Event uint8

// The events. Those of floods end the connection with ENHANCE_YOUR_CALM.
const (
	_ Event = iota
	// EventRapidReset: the client opened streams and reset them, or made us
	// reset them, again and again.
	EventRapidReset
	// EventRefusedFlood: the client kept opening more streams than it may.
	EventRefusedFlood
	// EventPingFlood, EventSettingsFlood, EventPriorityFlood,
	// EventGoAwayFlood, EventWindowFlood, EventResetFlood, EventUnknownFlood
	// and EventEmptyDataFlood: too many frames of a kind that cost work and
	// bring nothing, or too many settings in one.
	EventPingFlood
	EventSettingsFlood
	EventPriorityFlood
	EventGoAwayFlood
	EventWindowFlood
	EventResetFlood
	EventUnknownFlood
	EventEmptyDataFlood
	// EventContinuationFlood: a header block in too many frames, or of too
	// many bytes.
	EventContinuationFlood
	// EventHeaderFlood: a header block that decodes to far more than
	// HeaderBytes.
	EventHeaderFlood
	// EventControlFlood: the other end makes us answer and does not read the
	// answers.
	EventControlFlood

	// EventProtocol: the connection was ended for any other breach of the
	// protocol.
	EventProtocol
	// EventRefused: a stream over MaxStreams was refused.
	EventRefused
	// EventMalformed: a message was malformed, and its stream reset.
	EventMalformed
	// EventHeaderLimit: a head was over HeaderBytes or HeaderCount.
	EventHeaderLimit
	// EventHeaderTimeout: preface or head took too long.
	EventHeaderTimeout
	// EventSettingsTimeout: SETTINGS was not acknowledged.
	EventSettingsTimeout
	// EventPingTimeout: the other end has vanished.
	EventPingTimeout
	// EventWriteTimeout: the other end takes no more bytes, or a stream's
	// window stays shut.
	EventWriteTimeout
	// EventIdleTimeout: the connection was without streams for too long.
	EventIdleTimeout

	// Events is the number of events, for tables of counters.
	Events
)

var eventNames = [Events]string{
	EventRapidReset:        "rapid_reset",
	EventRefusedFlood:      "refused_flood",
	EventPingFlood:         "ping_flood",
	EventSettingsFlood:     "settings_flood",
	EventPriorityFlood:     "priority_flood",
	EventGoAwayFlood:       "goaway_flood",
	EventWindowFlood:       "window_flood",
	EventResetFlood:        "reset_flood",
	EventUnknownFlood:      "unknown_flood",
	EventEmptyDataFlood:    "empty_data_flood",
	EventContinuationFlood: "continuation_flood",
	EventHeaderFlood:       "header_flood",
	EventControlFlood:      "control_flood",
	EventProtocol:          "protocol_error",
	EventRefused:           "refused",
	EventMalformed:         "malformed",
	EventHeaderLimit:       "header_limit",
	EventHeaderTimeout:     "header_timeout",
	EventSettingsTimeout:   "settings_timeout",
	EventPingTimeout:       "ping_timeout",
	EventWriteTimeout:      "write_timeout",
	EventIdleTimeout:       "idle_timeout",
}

// String returns a word for metrics.
func (e Event) String() string {
	if e > 0 && e < Events {
		return eventNames[e]
	}
	return "invalid"
}

// isFlood reports whether the other end did too much of what brings nothing.
func (e Event) isFlood() bool { return e >= EventRapidReset && e <= EventControlFlood }

// floodWindow is the time over which floods are counted.
const floodWindow = 10 * time.Second

// floodLimits says how many of a kind a connection may see in floodWindow for
// nothing. With what it does of use it may see more; see conn.flood.
var floodLimits = [Events]uint32{
	EventRapidReset:     100, // and MaxStreams
	EventRefusedFlood:   100, // and MaxStreams
	EventPingFlood:      500,
	EventSettingsFlood:  100, // no more, as each touches all streams
	EventPriorityFlood:  500,
	EventGoAwayFlood:    10,
	EventWindowFlood:    1000,
	EventResetFlood:     500,
	EventUnknownFlood:   500,
	EventEmptyDataFlood: 100,
}

// floods counts, since a moment, what may become a flood.
type floods struct {
	since loop.Time
	n     [EventEmptyDataFlood + 1]uint32
	// frames counts frames that move data or begin a request, streams counts
	// requests that were answered to their end.
	frames, streams uint32
	sent            uint32 // conn.sent at that moment
}

// flood counts a frame that brings nothing and returns an error once there are
// too many. The allowance grows with use: window updates and pings come with the
// data that they are for, and a client that has requests answered may well
// cancel as many.
func (c *conn) flood(e Event) error {
	f := &c.floods
	if c.now.Sub(f.since) >= floodWindow {
		*f = floods{since: c.now, sent: c.sent}
	}
	f.n[e]++
	limit := floodLimits[e]
	switch e {
	case EventRapidReset, EventRefusedFlood:
		limit += c.MaxStreams + f.streams
	case EventSettingsFlood, EventGoAwayFlood:
		// No use comes with many of them.
	default:
		limit += 4 * (f.frames + c.sent - f.sent)
	}
	if f.n[e] <= limit {
		return nil
	}
	return &ConnError{Code: CodeEnhanceYourCalm, Reason: e.String(), event: e}
}
