package h3

import (
	"crypto/rand"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// Socket is a UDP address over which QUIC is spoken.
type Socket struct {
	udp    *net.UDPConn
	tr     *quic.Transport
	server atomic.Pointer[Server] // the newest
}

// quicLog keeps quic-go from writing about small buffers to the standard log: see
// Socket.Buffers.
var quicLog = sync.OnceFunc(func() {
	_ = os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true") // at worst it is written
})

// Open binds an address; an invalid Addr is all addresses of both families.
// Packets are taken from it once there is a server.
func Open(at netip.AddrPort) (*Socket, error) {
	quicLog()
	network, a := "udp", net.UDPAddr{Port: int(at.Port())}
	if ip := at.Addr(); ip.IsValid() {
		network = "udp6"
		if ip.Is4() {
			network = "udp4"
		}
		a.IP, a.Zone = ip.AsSlice(), ip.Zone()
	}
	udp, err := net.ListenUDP(network, &a)
	if err != nil {
		return nil, err
	}
	s := &Socket{udp: udp}
	// A key of this process: a connection that it does not have any more is told
	// so, one of a process before it is not.
	key := new(quic.StatelessResetKey)
	rand.Read(key[:])
	s.tr = &quic.Transport{
		Conn: udp, StatelessResetKey: key, Tracer: (*tracer)(s),
		VerifySourceAddress: func(net.Addr) bool { return s.server.Load().suspects() },
		ConnContext:         s.connContext,
	}
	return s, nil
}

// Addr returns the address as bound.
func (s *Socket) Addr() netip.AddrPort { return addrPort(s.udp.LocalAddr()) }

// Close closes the socket. All its servers are done.
func (s *Socket) Close() {
	s.tr.Close()
	s.udp.Close()
}

// WantedBuffers is how many bytes of packets a socket should hold that have come
// and were not looked at, or cannot be sent at once.
const WantedBuffers = 7 << 20

// Buffers returns how many bytes the system lets the socket hold, of what has come
// and of what is to be sent; 0 where that is not known. It is called when there is
// a server, which has raised them as far as it may.
func (s *Socket) Buffers() (received, sent int) {
	raw, err := s.udp.SyscallConn()
	if err != nil {
		return 0, 0
	}
	if err := raw.Control(func(fd uintptr) { received, sent = bufferSizes(fd) }); err != nil {
		return 0, 0
	}
	return received, sent
}

func addrPort(a net.Addr) netip.AddrPort {
	if u, ok := a.(*net.UDPAddr); ok {
		ap := u.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	return netip.AddrPort{}
}

// tracer counts what quic-go tells of packets that belong to no connection.
type tracer Socket

// RecordEvent implements qlogwriter.Recorder.
func (t *tracer) RecordEvent(e qlogwriter.Event) {
	event := Event(0)
	switch e := e.(type) {
	case qlog.PacketDropped:
		switch e.Trigger {
		case qlog.PacketDropDOSPrevention:
			event = EventDropped
		case qlog.PacketDropUnknownConnectionID:
			event = EventUnknown
		}
	case qlog.VersionNegotiationSent:
		event = EventVersion
	}
	if v := t.server.Load(); event != 0 && v != nil {
		v.owner.Count(event)
	}
}

// Close implements qlogwriter.Recorder.
func (t *tracer) Close() error { return nil }
