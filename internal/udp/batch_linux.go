package udp

import (
	"errors"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// batch is how many datagrams one system call takes or sends.
const batch = 64

// wantedBuffer is how many bytes of datagrams a socket should hold; the system
// may allow less.
const wantedBuffer = 4 << 20

func noFamily(err error) bool {
	return errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL)
}

// Listen opens an address; an invalid Addr is all addresses of both families.
// count sockets share it: the kernel spreads clients over them. It fails with
// EADDRINUSE where anybody else has the address.
func Listen(at netip.AddrPort, count int) ([]Socket, error) {
	var sockets []Socket
	dual, ip := !at.Addr().IsValid(), at.Addr().Unmap()
	if dual {
		ip = netip.IPv6Unspecified()
	}
	for len(sockets) < count {
		s, err := open(netip.AddrPortFrom(ip.WithZone(at.Addr().Zone()), at.Port()), dual, len(sockets) == 0)
		if err != nil && dual && len(sockets) == 0 && noFamily(err) { // there is no IPv6
			dual, ip = false, netip.IPv4Unspecified()
			continue
		}
		if err != nil {
			for _, s := range sockets {
				s.Close()
			}
			return nil, err
		}
		sockets = append(sockets, s)
		at = netip.AddrPortFrom(at.Addr(), s.addr.Port())
	}
	return sockets, nil
}

// open opens a socket. The first one is bound without SO_REUSEPORT, so that it
// fails where anybody else has the address, even if they would share it; once
// the option is set, the others can join.
func open(at netip.AddrPort, dual, first bool) (*socket, error) {
	family := unix.AF_INET6
	if at.Addr().Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	s := &socket{fd: fd, v4: family == unix.AF_INET}
	set := func(level, option, value int) {
		if err == nil {
			err = os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, level, option, value))
		}
	}
	if !s.v4 {
		only := 1
		if dual {
			only = 0
		}
		set(unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, only)
	}
	if at.Addr().IsUnspecified() {
		s.tells = true
		if s.v4 {
			set(unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
		} else {
			set(unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
		}
	}
	// Answers are not sent in pieces that somebody else could forge, nor is what
	// ICMP says of the path believed.
	if s.v4 || dual {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_OMIT)
	}
	if !s.v4 {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_OMIT)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, wantedBuffer)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, wantedBuffer)
	// A wait that nothing ends is looked after now and then.
	wait := unix.Timeval{Sec: 1}
	if err == nil {
		err = os.NewSyscallError("setsockopt", unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait))
	}
	if !first {
		set(unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}
	if err == nil {
		err = os.NewSyscallError("bind", unix.Bind(fd, sockaddr(at)))
	}
	if first {
		set(unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}
	var bound unix.Sockaddr
	if err == nil {
		bound, err = unix.Getsockname(fd)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	switch a := bound.(type) {
	case *unix.SockaddrInet4:
		s.addr = netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		s.addr = netip.AddrPortFrom(netip.AddrFrom16(a.Addr).Unmap(), uint16(a.Port))
	}
	return s, nil
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	out := &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
	if zone := a.Addr().Zone(); zone != "" {
		out.ZoneId = zoneIndex(zone)
	}
	return out
}

// socket is a share of an address.
type socket struct {
	fd    int
	addr  netip.AddrPort
	v4    bool
	tells bool // where datagrams came to

	closing atomic.Bool
	mu      sync.Mutex // guards what follows
	served  bool
	closed  bool
}

func (s *socket) Addr() netip.AddrPort { return s.addr }

func (s *socket) Close() {
	s.closing.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if !s.served {
		s.closed = true
		unix.Close(s.fd)
		return
	}
	// Of no effect on what is received, but it ends the wait for more. ENOTCONN
	// is what it says in that case too.
	_ = unix.Shutdown(s.fd, unix.SHUT_RD)
}

// mmsghdr is struct mmsghdr: a message, and how many bytes of it there were.
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32
	_   [unsafe.Sizeof(uintptr(0)) - 4]byte
}

// controlSize has room for where a datagram came to, of either family.
const controlSize = 64

// messages are what one batch needs. It is allocated once, and the kernel is
// given addresses in it: it does not move, as the heap does not.
type messages struct {
	in       [batch]mmsghdr
	out      [batch]mmsghdr
	inVec    [batch]unix.Iovec
	outVec   [batch]unix.Iovec
	names    [batch]unix.RawSockaddrInet6 // which is the larger
	controls [batch][controlSize]byte
	received [batch][MaxDatagram]byte
	answers  [batch][MaxAnswer]byte
}

func (s *socket) Serve(h Handler, stats *Stats) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.served = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.closed = true
		unix.Close(s.fd)
		s.mu.Unlock()
	}()
	// The thread waits in the kernel, which wakes it when something comes: the
	// shortest way there is.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m := new(messages)
	for i := range m.in {
		m.inVec[i].Base = &m.received[i][0]
		m.inVec[i].SetLen(MaxDatagram)
		hdr := &m.in[i].hdr
		hdr.Name = (*byte)(unsafe.Pointer(&m.names[i]))
		hdr.Iov = &m.inVec[i]
		hdr.SetIovlen(1)
		if s.tells {
			hdr.Control = &m.controls[i][0]
		}
		m.out[i].hdr.Iov = &m.outVec[i]
		m.out[i].hdr.SetIovlen(1)
	}
	failed := 0
	fresh := batch // headers that the kernel has written to
	for {
		for i := range fresh {
			m.in[i].hdr.Namelen = unix.SizeofSockaddrInet6
			if s.tells {
				m.in[i].hdr.SetControllen(controlSize)
			}
		}
		n, errno := s.receive(m)
		switch {
		case n > 0:
			s.answer(m, n, h, stats)
			fresh, failed = n, 0
			continue
		case s.closing.Load():
			return ErrClosed
		case errno == unix.EBADF || errno == unix.ENOTSOCK || errno == unix.EFAULT:
			return os.NewSyscallError("recvmmsg", errno)
		case !passes(errno):
			if failed++; failed == maxFailures {
				return os.NewSyscallError("recvmmsg", errno)
			}
		}
		// No time for anything: a signal, the time-out, or what ICMP says of an
		// answer.
		fresh = batch
	}
}

// receive takes what has come. Only where that is nothing it waits, telling Go's
// scheduler.
func (s *socket) receive(m *messages) (n int, errno unix.Errno) {
	r, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&m.in)), batch, unix.MSG_DONTWAIT, 0, 0)
	if errno == unix.EAGAIN && !s.closing.Load() {
		r, _, errno = unix.Syscall6(unix.SYS_RECVMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&m.in)), batch, unix.MSG_WAITFORONE, 0, 0)
	}
	if errno != 0 {
		return 0, errno
	}
	if n = int(r); n > 0 && m.in[0].n == 0 && m.in[0].hdr.Namelen == 0 {
		return 0, 0 // the end of the wait after Close, which looks like a message
	}
	return n, 0
}

func (s *socket) answer(m *messages, n int, h Handler, stats *Stats) {
	h.Begin()
	var bytesIn, bytesOut, oversize uint64
	k := 0
	for i := range n {
		hdr := &m.in[i].hdr
		size := int(m.in[i].n)
		bytesIn += uint64(size)
		if hdr.Flags&unix.MSG_TRUNC != 0 {
			oversize++
			continue
		}
		from, ok := s.source(&m.names[i])
		if !ok {
			continue
		}
		answer := h.Answer(from, m.received[i][:size], m.answers[k][:0])
		if len(answer) == 0 {
			continue
		}
		bytesOut += uint64(len(answer))
		m.outVec[k].Base = &answer[0]
		m.outVec[k].SetLen(len(answer))
		out := &m.out[k].hdr
		out.Name, out.Namelen = hdr.Name, hdr.Namelen
		if s.tells {
			out.Control = hdr.Control
			out.Controllen = hdr.Controllen
			anyInterface(m.controls[i][:], int(hdr.Controllen))
		}
		k++
	}
	sent := s.send(m, k)
	stats.Received.Add(uint64(n))
	stats.BytesReceived.Add(bytesIn)
	if sent > 0 {
		stats.Sent.Add(uint64(sent))
		stats.BytesSent.Add(bytesOut)
	}
	if oversize > 0 {
		stats.Oversize.Add(oversize)
	}
	if k > sent {
		stats.Unsent.Add(uint64(k - sent))
	}
}

// send sends the first k answers and returns how many the system took. One that it
// does not take is left out.
func (s *socket) send(m *messages, k int) (sent int) {
	for i := 0; i < k; {
		r, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&m.out[i])), uintptr(k-i), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch {
		case errno == unix.EINTR:
		case errno != 0 || int(r) <= 0:
			i++
		default:
			i += int(r)
			sent += int(r)
		}
	}
	return sent
}

// source returns where a datagram came from.
func (s *socket) source(raw *unix.RawSockaddrInet6) (netip.AddrPort, bool) {
	port := (*[2]byte)(unsafe.Pointer(&raw.Port))
	p := uint16(port[0])<<8 | uint16(port[1])
	if raw.Family == unix.AF_INET {
		return netip.AddrPortFrom(netip.AddrFrom4((*unix.RawSockaddrInet4)(unsafe.Pointer(raw)).Addr), p), true
	}
	return netip.AddrPortFrom(netip.AddrFrom16(raw.Addr).Unmap(), p), raw.Family == unix.AF_INET6
}

// anyInterface makes of where a datagram came to where its answer comes from: the
// same address, by whatever way leads to the client. Addresses of one link need
// their interface.
func anyInterface(control []byte, length int) {
	const head = unix.SizeofCmsghdr
	if length < head {
		return
	}
	c := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
	switch {
	case c.Level == unix.IPPROTO_IP && c.Type == unix.IP_PKTINFO && length >= head+unix.SizeofInet4Pktinfo:
		(*unix.Inet4Pktinfo)(unsafe.Pointer(&control[head])).Ifindex = 0
	case c.Level == unix.IPPROTO_IPV6 && c.Type == unix.IPV6_PKTINFO && length >= head+unix.SizeofInet6Pktinfo:
		info := (*unix.Inet6Pktinfo)(unsafe.Pointer(&control[head]))
		if !(info.Addr[0] == 0xfe && info.Addr[1]&0xc0 == 0x80) {
			info.Ifindex = 0
		}
	}
}
