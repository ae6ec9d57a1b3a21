package health

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// errNoPing says what an operator has to do before anything can be pinged.
var errNoPing = errors.New("no ICMP socket may be opened: " +
	"let net.ipv4.ping_group_range include a group of this process, or give it CAP_NET_RAW")

// probePing passes when the endpoint answers an ICMP or ICMPv6 echo request.
func probePing(ctx context.Context, t *Target) Result {
	_, rtt, err := t.ping(ctx)
	if err != nil {
		return pingFailure(ctx, err)
	}
	return Result{RTT: rtt}
}

// pingFailure names what ended a ping.
func pingFailure(ctx context.Context, err error) Result {
	if errors.Is(err, errNoPing) {
		return failed(FailureConfig, err.Error())
	}
	return classify(ctx, stageEcho, err)
}

// ping returns the first of the endpoint's addresses that answers, and how
// long that took.
func (t *Target) ping(ctx context.Context) (from netip.Addr, rtt time.Duration, err error) {
	err = t.tryEach(ctx, func(ctx context.Context, a netip.Addr) (err error) {
		from = a.Unmap()
		rtt, err = ping(ctx, from, t.source(from))
		return err
	})
	return from, rtt, err
}

// ping sends one echo request and waits for its reply.
func ping(ctx context.Context, to, source netip.Addr) (time.Duration, error) {
	s, err := openPing(ctx, to, source)
	if err != nil {
		return 0, err
	}
	defer s.close()
	return s.exchange(ctx, to)
}

// exchange sends a request and waits for its reply. Whatever else comes is
// ignored: a raw socket is given all that the other machine says to this one.
func (s *pingSocket) exchange(ctx context.Context, to netip.Addr) (time.Duration, error) {
	defer context.AfterFunc(ctx, func() { s.conn.SetDeadline(time.Unix(1, 0)) })()

	request, reply := s.echo(to)
	start := time.Now()
	if err := s.send(request); err != nil {
		return 0, err
	}
	buf := make([]byte, 1500)
	for {
		n, from, err := s.receive(buf)
		if err != nil {
			return 0, err
		}
		if from == to.WithZone("") && isReply(buf[:n], reply) {
			return time.Since(start), nil
		}
	}
}

// pingSocket sends echo requests to one address.
type pingSocket struct {
	conn net.PacketConn
	to   net.Addr
	raw  bool
}

// openPing opens a socket of the kind that any process may have where
// net.ipv4.ping_group_range allows it, else a raw one, which takes
// CAP_NET_RAW. A raw one is connected, so that the kernel keeps from it what
// others say, and tells it of errors.
func openPing(ctx context.Context, to, source netip.Addr) (*pingSocket, error) {
	network, local := "udp4", "0.0.0.0"
	if to.Is6() {
		network, local = "udp6", "::"
	}
	if source.IsValid() {
		local = source.String()
	}
	conn, err := icmp.ListenPacket(network, local)
	if err == nil {
		return &pingSocket{conn: conn, to: &net.UDPAddr{IP: to.AsSlice(), Zone: to.Zone()}}, nil
	}
	if !forbidden(err) {
		return nil, err
	}
	network = "ip4:1"
	if to.Is6() {
		network = "ip6:58"
	}
	d := net.Dialer{}
	if source.IsValid() {
		d.LocalAddr = &net.IPAddr{IP: source.AsSlice(), Zone: source.Zone()}
	}
	raw, err := d.DialContext(ctx, network, to.String())
	if err != nil {
		if forbidden(err) {
			err = errNoPing
		}
		return nil, err
	}
	return &pingSocket{conn: raw.(*net.IPConn), raw: true}, nil
}

// forbidden reports whether a process may not open a socket of that kind, or
// the system has none.
func forbidden(err error) bool {
	return errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EPROTONOSUPPORT) || errors.Is(err, syscall.ESOCKTNOSUPPORT)
}

// echo returns a request and the reply that it asks for. Both hold random
// bytes, so that nobody who has not seen the request can answer it, and the
// replies to others that use the same identifier are not taken for ours.
func (s *pingSocket) echo(to netip.Addr) (request, reply []byte) {
	const header = 8
	request = make([]byte, header+16)
	rand.Read(request[4:]) // identifier, sequence number, data
	if a, ok := s.conn.LocalAddr().(*net.UDPAddr); ok && runtime.GOOS == "linux" {
		binary.BigEndian.PutUint16(request[4:], uint16(a.Port)) // the kernel's choice, which it writes in any case
	}
	reply = bytes.Clone(request)
	if to.Is6() {
		request[0], reply[0] = byte(ipv6.ICMPTypeEchoRequest), byte(ipv6.ICMPTypeEchoReply)
		return request, reply // the kernel knows the checksum, which covers addresses
	}
	request[0], reply[0] = byte(ipv4.ICMPTypeEcho), byte(ipv4.ICMPTypeEchoReply)
	binary.BigEndian.PutUint16(request[2:], checksum(request))
	return request, reply
}

// checksum is that of RFC 1071 over an even number of bytes.
func checksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) > 0; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

// isReply reports whether a message is the reply that was asked for. The
// checksum is left to the kernel: the random bytes say as much.
func isReply(message, reply []byte) bool {
	return len(message) == len(reply) && bytes.Equal(message[:2], reply[:2]) && bytes.Equal(message[4:], reply[4:])
}

func (s *pingSocket) send(b []byte) error {
	if s.raw {
		_, err := s.conn.(*net.IPConn).Write(b)
		return err
	}
	_, err := s.conn.WriteTo(b, s.to)
	return err
}

// receive reads one message, without its IP header, and whom it is from.
func (s *pingSocket) receive(buf []byte) (int, netip.Addr, error) {
	n, from, err := s.conn.ReadFrom(buf)
	if err != nil {
		return 0, netip.Addr{}, err
	}
	var ip net.IP
	switch a := from.(type) {
	case *net.UDPAddr:
		ip = a.IP
	case *net.IPAddr:
		ip = a.IP
	}
	a, _ := netip.AddrFromSlice(ip)
	return n, a.Unmap(), nil
}

func (s *pingSocket) close() { s.conn.Close() }

// probeUDP passes when the endpoint answers a ping and its port does not refuse
// an empty UDP packet: until the time-out no ICMP port-unreachable may come.
// An answer passes at once. The round trip is that of the ping.
//
// A second packet follows in the middle of the wait, in case the first, or
// what it led to, was lost.
func probeUDP(ctx context.Context, t *Target) Result {
	to, rtt, err := t.ping(ctx)
	if err != nil {
		return pingFailure(ctx, err)
	}
	start := time.Now()
	end, ok := ctx.Deadline()
	if !ok || end.Sub(start) < rtt {
		// A port-unreachable takes as long to come: nothing could be concluded.
		return failed(FailureTCPTimeout, fmt.Sprintf("the ping took %s, which leaves too little of the time-out to see whether the port is refused", rtt))
	}
	d := net.Dialer{}
	if s := t.source(to); s.IsValid() {
		d.LocalAddr = &net.UDPAddr{IP: s.AsSlice(), Zone: s.Zone()}
	}
	conn, err := d.DialContext(ctx, "udp", netip.AddrPortFrom(to, uint16(t.port())).String())
	if err != nil {
		return classify(ctx, stageConnect, err)
	}
	defer conn.Close()
	udp := conn.(*net.UDPConn)
	for _, until := range []time.Time{start.Add(end.Sub(start) / 2), end} {
		answered, err := knock(ctx, udp, until)
		if err != nil {
			return classify(context.Background(), stageConnect, err)
		}
		if answered {
			break
		}
	}
	return Result{RTT: rtt}
}

// knock sends an empty packet and waits for what comes of it: an answer, an
// error that the kernel was told by ICMP, or until the given moment nothing.
func knock(ctx context.Context, conn *net.UDPConn, until time.Time) (answered bool, err error) {
	if _, _, err := conn.WriteMsgUDP(nil, nil, nil); err != nil {
		return false, err
	}
	if err := conn.SetReadDeadline(until); err != nil {
		return false, err
	}
	defer context.AfterFunc(ctx, func() { conn.SetReadDeadline(time.Unix(1, 0)) })()
	_, err = conn.Read(make([]byte, 1))
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return false, nil
	}
	return false, err
}
