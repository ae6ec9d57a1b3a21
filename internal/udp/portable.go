package udp

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"

	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// ListenPortable opens an address with Go's own means: one socket for each family.
// An invalid Addr is all addresses of both.
func ListenPortable(at netip.AddrPort) ([]Socket, error) {
	type place struct {
		network string
		ip      netip.Addr
	}
	ip := at.Addr().Unmap()
	var places []place
	switch {
	case !ip.IsValid():
		places = []place{{"udp4", netip.IPv4Unspecified()}, {"udp6", netip.IPv6Unspecified()}}
	case ip.Is4():
		places = []place{{"udp4", ip}}
	default:
		places = []place{{"udp6", ip}}
	}
	var sockets []Socket
	for _, p := range places {
		c, err := net.ListenUDP(p.network, net.UDPAddrFromAddrPort(netip.AddrPortFrom(p.ip, at.Port())))
		if err != nil {
			if len(sockets) > 0 && !ip.IsValid() && noFamily(err) {
				break
			}
			for _, s := range sockets {
				s.Close()
			}
			return nil, err
		}
		s := &portable{conn: c, v4: p.network == "udp4"}
		if p.ip.IsUnspecified() {
			s.packet()
		}
		sockets = append(sockets, s)
		at = netip.AddrPortFrom(at.Addr(), s.Addr().Port())
	}
	return sockets, nil
}

// portable is a Socket over Go's own.
type portable struct {
	conn   *net.UDPConn
	v4     bool
	p4     *ipv4.PacketConn // these for sockets of all addresses
	p6     *ipv6.PacketConn
	closed atomic.Bool
}

// packet makes the socket tell where a datagram came to. Where the system cannot,
// it chooses the source of answers.
func (s *portable) packet() {
	if s.v4 {
		if p := ipv4.NewPacketConn(s.conn); p.SetControlMessage(ipv4.FlagDst, true) == nil {
			s.p4 = p
		}
		return
	}
	if p := ipv6.NewPacketConn(s.conn); p.SetControlMessage(ipv6.FlagDst, true) == nil {
		s.p6 = p
	}
}

func (s *portable) Addr() netip.AddrPort {
	a := s.conn.LocalAddr().(*net.UDPAddr).AddrPort()
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

func (s *portable) Close() {
	s.closed.Store(true)
	s.conn.Close()
}

func (s *portable) Serve(h Handler, stats *Stats) error {
	in, out := make([]byte, MaxDatagram+1), make([]byte, 0, MaxAnswer)
	failed := 0
	for {
		n, from, to, err := s.receive(in)
		if err != nil {
			if s.closed.Load() || errors.Is(err, net.ErrClosed) {
				return ErrClosed
			}
			var errno syscall.Errno // of one datagram: what was sent before could not be delivered
			if !errors.As(err, &errno) || !passes(errno) {
				if failed++; failed == maxFailures {
					return err
				}
			}
			continue
		}
		failed = 0
		stats.Received.Add(1)
		stats.BytesReceived.Add(uint64(n))
		if n > MaxDatagram {
			stats.Oversize.Add(1)
			continue
		}
		h.Begin()
		answer := h.Answer(from, in[:n], out)
		if len(answer) == 0 {
			continue
		}
		if err := s.send(answer, from, to); err != nil {
			stats.Unsent.Add(1)
			continue
		}
		stats.Sent.Add(1)
		stats.BytesSent.Add(uint64(len(answer)))
	}
}

func (s *portable) receive(b []byte) (n int, from netip.AddrPort, to net.IP, err error) {
	var addr net.Addr
	switch {
	case s.p4 != nil:
		var cm *ipv4.ControlMessage
		if n, cm, addr, err = s.p4.ReadFrom(b); cm != nil {
			to = cm.Dst
		}
	case s.p6 != nil:
		var cm *ipv6.ControlMessage
		if n, cm, addr, err = s.p6.ReadFrom(b); cm != nil {
			to = cm.Dst
		}
	default:
		n, from, err = s.conn.ReadFromUDPAddrPort(b)
		return n, from, nil, err
	}
	if err != nil {
		return 0, from, nil, err
	}
	return n, addr.(*net.UDPAddr).AddrPort(), to, nil
}

func (s *portable) send(b []byte, to netip.AddrPort, from net.IP) (err error) {
	switch {
	case s.p4 != nil && from != nil && !from.IsMulticast():
		_, err = s.p4.WriteTo(b, &ipv4.ControlMessage{Src: from}, net.UDPAddrFromAddrPort(to))
	case s.p6 != nil && from != nil && !from.IsMulticast():
		_, err = s.p6.WriteTo(b, &ipv6.ControlMessage{Src: from}, net.UDPAddrFromAddrPort(to))
	default:
		_, err = s.conn.WriteToUDPAddrPort(b, to)
	}
	return err
}
