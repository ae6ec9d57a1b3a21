// Package h2 speaks HTTP/2 (RFC 9113), as a server and as a client, over the
// connections of package loop.
//
// [NewServer] serves one connection and runs a handler for each request, in a
// task of its own; [NewClient] makes requests over one. Both hand out [Stream],
// which is one request with its answer: heads are HTTP/1.1 field lines, bodies
// are read and written as pieces. [Stream.Tunnel] turns a stream into a
// loop.Conn, for extended CONNECT (RFC 8441). [Client.Conn] is a loop.Conn to
// which HTTP/1.1 is spoken, so that code which knows only that can use
// endpoints that speak HTTP/2.
//
// # Tasks
//
// One task reads a connection and handles its frames, without ever waiting for
// anything but bytes. Another writes: what all streams append while it writes
// leaves together in its next write. It is started when there is something to
// write, and ends when the connection has been at rest for a while. Each
// request of a server has a task.
//
// All state of a connection and its streams is guarded by one mutex, which is
// never held across a wait. On drivers whose tasks do not run in parallel it is
// therefore never contended. Tasks wait on bells only, and whatever is borrowed
// from elsewhere is copied before a wait.
//
// A stream is read by one task and written by one, which may be another, of the
// driver of its connection. Server.Drain, Server.Abort, Client.Close and
// Client.Abort may be called from anywhere; everything of a stream, Tunnel and
// Client.Conn included, only from tasks of the driver.
//
// A handler that panics loses its stream, which is reset with INTERNAL_ERROR. A
// panic in one of the two tasks of a connection ends that with a reset. Either
// goes on to whom the driver tells.
//
// # Bounds
//
// Everything that a peer can make grow is bounded, and what it can make us do
// for nothing is counted against what it does of use; see [Event]. Bytes that
// were received and not read are bounded by the windows, which are opened again
// only as the user reads.
package h2

import (
	"time"

	"fairlead/internal/fields"
	"fairlead/internal/loop"
)

// Head is the head of a request or of an answer.
type Head = fields.Head

// Config sets the bounds of a connection, on either side. Zero values mean the
// defaults; a negative time-out means none.
type Config struct {
	// MaxStreams is how many requests a client may have open at once, those
	// it has reset included while their handlers still run. Default 128.
	MaxStreams uint32
	// StreamWindow and ConnWindow bound what is received and not yet read,
	// for a stream and for all of a connection. Defaults 256 KiB and 1 MiB,
	// at least 65535.
	StreamWindow, ConnWindow int
	// HeaderBytes bounds a decoded head or trailer section, as RFC 9113
	// section 6.5.2 counts: name, value and 32 for each field. Default 64 KiB.
	// HeaderCount bounds the number of its fields. Default 128.
	HeaderBytes, HeaderCount int

	// HeaderTimeout bounds how long the preface with the first SETTINGS may
	// take, and a head that comes in several frames. Default 10 s.
	HeaderTimeout time.Duration
	// IdleTimeout is how long a connection may be without a stream. Default
	// 60 s.
	IdleTimeout time.Duration
	// WriteTimeout is how long writing may make no progress: of the
	// connection, and of a stream that waits for its window. Default 30 s.
	WriteTimeout time.Duration
	// PingAfter is how long nothing may come, while there are streams, before
	// the other end is asked whether it is alive; it has PingTimeout to
	// answer. Defaults 30 s and 15 s.
	PingAfter, PingTimeout time.Duration

	// ExtendedConnect lets clients use extended CONNECT. Servers only.
	ExtendedConnect bool
	// Scheme is that of requests made by Client.Conn: "http" (the default) or
	// "https".
	Scheme string

	// Count, if given, is told of each event. It is called with locks held
	// and must neither wait nor call back.
	Count func(Event)
}

// Defaults of Config.
const (
	defaultStreams      = 128
	defaultStreamWindow = 256 << 10
	defaultConnWindow   = 1 << 20
	defaultHeaderBytes  = 64 << 10
	defaultHeaderCount  = 128
)

// Bounds that are not configured.
const (
	// settingsTimeout is how long the other end may take to acknowledge our
	// SETTINGS.
	settingsTimeout = 20 * time.Second
	// drainTimeout bounds the round trip between the two GOAWAYs of a drain.
	drainTimeout = 2 * time.Second
	// restAfter is how long a connection is without streams before it gives
	// up what it keeps for the next ones.
	restAfter = 2 * time.Second
	// lookAfter is how often a connection whose streams are silent looks
	// whether there still are any.
	lookAfter = 5 * time.Second
	// closeTimeout bounds writing the last frames, lingerTimeout and
	// lingerBytes reading what was still on its way, lest a reset overtake
	// them.
	closeTimeout  = 2 * time.Second
	lingerTimeout = time.Second
	lingerBytes   = 1 << 20

	// outBound is how much output may wait to be written before streams that
	// want to add to it wait themselves.
	outBound = 64 << 10
	// controlBound is how much of the output may be frames that answer the
	// other end's, which it has not read.
	controlBound = 64 << 10
	// headBound is how much output may wait before a client opens no further
	// streams.
	headBound = 1 << 20

	// longInput is how long what comes may take to handle before other
	// connections have a turn, though there may be more bytes: what a byte
	// costs is up to the other end.
	longInput = 200 * time.Microsecond
	// stillInput is how long a connection has to be still for what it cost
	// before to be forgotten.
	stillInput = time.Millisecond

	// maxInterim bounds the 1xx heads of one answer that wait to be read.
	maxInterim = 32
	// maxFragments bounds the frames of one header block, maxEmptyFragments
	// those of them that bring nothing.
	maxFragments      = 64
	maxEmptyFragments = 4
	// decodePart is how much of a header block is decoded at a time.
	decodePart = 1 << 10
	// minListBytes is up to what size a head that is over HeaderBytes is
	// answered, however small that is.
	minListBytes = 128 << 10
	// maxSettings bounds the settings of one frame, of which few are known.
	maxSettings = 32
)

// bounds is a Config with its defaults filled in.
type bounds struct{ Config }

func (b *bounds) fill(c *Config) {
	if c != nil {
		b.Config = *c
	}
	if b.MaxStreams == 0 {
		b.MaxStreams = defaultStreams
	}
	window := func(n *int, def int) {
		if *n == 0 {
			*n = def
		}
		*n = min(max(*n, initialWindow), maxWindow)
	}
	window(&b.StreamWindow, defaultStreamWindow)
	window(&b.ConnWindow, defaultConnWindow)
	if b.HeaderBytes <= 0 {
		b.HeaderBytes = defaultHeaderBytes
	}
	b.HeaderBytes = min(b.HeaderBytes, 16<<20)
	if b.HeaderCount <= 0 {
		b.HeaderCount = defaultHeaderCount
	}
	timeout := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	timeout(&b.HeaderTimeout, 10*time.Second)
	timeout(&b.IdleTimeout, 60*time.Second)
	timeout(&b.WriteTimeout, 30*time.Second)
	timeout(&b.PingAfter, 30*time.Second)
	timeout(&b.PingTimeout, 15*time.Second)
	if b.Scheme == "" {
		b.Scheme = "http"
	}
}

// blockBytes bounds a header block as it is sent. It leaves room for blocks that
// are over HeaderBytes, so that these can be answered with 431.
func (b *bounds) blockBytes() int { return 2*b.HeaderBytes + maxFrame }

// listBytes bounds what a header block may decode to: above it the connection ends.
func (b *bounds) listBytes() int { return max(4*b.HeaderBytes, minListBytes) }

// section returns the bounds of a head, or of trailers.
func (b *bounds) section() fields.Limits {
	return fields.Limits{Bytes: b.HeaderBytes, Count: b.HeaderCount, ExtendedConnect: b.ExtendedConnect}
}

func (b *bounds) count(e Event) {
	if b.Count != nil && e != 0 {
		b.Count(e)
	}
}

// by returns the moment d after t, or none if d is no bound.
func by(t loop.Time, d time.Duration) loop.Time {
	if d < 0 {
		return 0
	}
	return t.Add(d)
}

// earlier returns the earlier of two deadlines, of which 0 is none.
func earlier(a, b loop.Time) loop.Time {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
