// Package h3 speaks HTTP/3 (RFC 9114) as a server, over the QUIC of quic-go.
//
// A [Socket] is a UDP address over which QUIC is spoken. A [Server] accepts
// connections there for an [Owner], which decides on each and gets every request
// as a [Stream]: the head as lines of HTTP/1.1, the bodies as pieces, as of
// package h2. [Stream.Tunnel] turns a stream into a loop.Conn, for extended
// CONNECT (RFC 9220).
//
// quic-go's own HTTP/3 server is not used. It hands out a net/http request: fields
// in a map without their order, values joined and names in another case, so that
// there would be a second reading of requests beside that of h1. And it leaves out
// what a server needs that strangers reach: a time-out for heads, counters for
// bounds and floods, the announcement before the last GOAWAY.
//
// # Tasks
//
// quic-go waits in its own ways, so that everything here runs on goroutines: one
// takes a connection's streams, one its unidirectional ones, and each request has
// one. A stream is read by one task and written by one, which may be another.
//
// # A socket outlives its servers
//
// QUIC finds a connection by what its packets carry, so that connections of a
// server that drains need the socket they came by, while the next server of the
// same address accepts new ones over it: see [Socket.Serve].
//
// # Bounds
//
// Everything that a client can make grow is bounded, and what it can make us do
// for nothing is counted against what it does of use; see [Event]. While many
// handshakes of addresses that nobody has proved go on, a client has to prove its
// own first (Retry), which costs us no memory. Requests are never taken from 0-RTT
// data, which can be replayed.
package h3

import (
	"crypto/tls"
	"net/netip"
	"time"

	"github.com/quic-go/quic-go"

	"fairlead/internal/fields"
)

// Config sets the bounds of a connection; all have to be given.
type Config struct {
	// MaxStreams is how many requests a client may have open at once, those
	// it has reset included while their handlers still run.
	MaxStreams int
	// HeaderBytes bounds a decoded head or trailer section, as RFC 9114
	// section 4.2.2 counts: name, value and 32 for each field. HeaderCount
	// bounds the number of its fields.
	HeaderBytes, HeaderCount int

	// HeaderTimeout bounds a handshake, and the head of a request.
	HeaderTimeout time.Duration
	// IdleTimeout is how long a connection may be without a request.
	IdleTimeout time.Duration
	// WriteTimeout is how long writing may make no progress.
	WriteTimeout time.Duration
	// SilentTimeout is after which time without a packet a client is taken for
	// vanished. It is asked for one at half that time.
	SilentTimeout time.Duration
}

// Bounds that are not configured.
const (
	// unprovenBound is how many handshakes of addresses that nobody has proved
	// may go on at a socket before newcomers have to prove theirs. Each costs
	// some 90 KiB until it ends, and a signature.
	unprovenBound = 128
	// streamWindow and connWindow bound what is received and not yet read, for
	// a stream and for all of a connection. They begin smaller, and grow while
	// what comes is read as fast as that.
	firstStreamWindow, streamWindow = 256 << 10, 1 << 20
	firstConnWindow, connWindow     = 512 << 10, 2 << 20
	// uniStreams bounds the client's unidirectional streams: three have a use.
	uniStreams = 8

	// goAwayGrace is the least time between the two GOAWAYs of a drain. A client
	// may be about to send a request, most of all one that has just connected.
	goAwayGrace = time.Second
	// drainTimeout is the most, and how long a client may take to close a
	// connection after them.
	drainTimeout = 2 * time.Second
	// handshakeGrace is how long handshakes that go on may take to end when a
	// server stops accepting.
	handshakeGrace = time.Second
	// controlTimeout bounds writing to the control stream.
	controlTimeout = 5 * time.Second
	// endTimeout is how long the end of a request without a body may take to
	// follow its head before a body is expected.
	endTimeout = time.Second

	// maxSettings bounds the bytes of SETTINGS and of other frames on the control
	// stream.
	maxSettings = 4 << 10
)

// blockBytes bounds a header block as it is sent. It leaves room for blocks that
// are over HeaderBytes, so that these can be answered with 431.
func (c *Config) blockBytes() uint64 { return uint64(2*c.HeaderBytes + 16<<10) }

func (c *Config) section() fields.Limits {
	return fields.Limits{Bytes: c.HeaderBytes, Count: c.HeaderCount, ExtendedConnect: true}
}

// quic returns the bounds of a connection as quic-go takes them.
func (c *Config) quic() *quic.Config {
	return &quic.Config{
		HandshakeIdleTimeout: c.HeaderTimeout / 2, // a handshake may take twice that
		MaxIdleTimeout:       c.SilentTimeout,
		KeepAlivePeriod:      c.SilentTimeout / 2,

		InitialStreamReceiveWindow: firstStreamWindow, MaxStreamReceiveWindow: streamWindow,
		InitialConnectionReceiveWindow: firstConnWindow, MaxConnectionReceiveWindow: connWindow,
		MaxIncomingStreams: int64(c.MaxStreams), MaxIncomingUniStreams: uniStreams,
		// A client that resets a request has its place back only when we have
		// ended with it, too.
		RequireStreamCreditRelease: true,
	}
}

// Owner is whose connections a server accepts. Its methods must not wait.
type Owner interface {
	// Config returns the bounds for a connection that begins.
	Config() *Config
	// TLS returns the settings for a handshake that begins: of TLS 1.3, with the
	// protocol h3.
	TLS() *tls.Config
	// Admit decides on a connection of which nothing but a first packet has come,
	// and returns nil to refuse it. proven says that the address is the client's
	// own; it may be forged otherwise.
	Admit(from netip.AddrPort, proven bool) Peer
	// Count is told of each event. It may be called by anyone.
	Count(Event)
}

// Peer is a connection as its owner sees it.
type Peer interface {
	// Begin is called when the handshake is over, which proves the client's
	// address. The connection is closed if it returns false.
	Begin(c *Conn) bool
	// Serve answers a request, in a task of its own. What it has not ended when it
	// returns is reset.
	Serve(s *Stream)
	// End is called last, once for every peer.
	End(err error)
}
