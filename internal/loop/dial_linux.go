package loop

import (
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// Dial implements Driver.
func (l *eventLoop) Dial(to netip.AddrPort, from Sources, deadline Time) (Conn, error) {
	switch {
	case l.stopped:
		return nil, ErrStopped
	case deadline != 0 && l.now >= deadline:
		return nil, ErrTimeout
	}
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	zone := 0
	if name := to.Addr().Zone(); name != "" {
		l.Do(func() { zone = zoneIndex(name) }) // asks the system for all interfaces
	}
	fd, err := connect(to, from.For(to.Addr()), zone)
	if err != nil {
		return nil, err
	}
	c, err := l.register(fd, to, netip.AddrPort{})
	if err != nil {
		closeSocket(fd)
		return nil, err
	}
	c.dialling = true
	err = c.wait(&c.out, deadline)
	c.dialling = false
	if err == nil {
		err = connected(fd)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// connect begins to connect a new socket, and returns it.
func connect(to netip.AddrPort, source netip.Addr, zone int) (fd int, err error) {
	family, sa := sockaddr(to, zone)
	if fd, err = newSocketFD(family); err != nil {
		return -1, err
	}
	defer func() {
		if err != nil {
			closeSocket(fd)
		}
	}()
	if err = setStreamOptions(fd); err != nil {
		return -1, err
	}
	if source.IsValid() {
		// The port is chosen once the other end is known, so that one source
		// address serves many endpoints. An old system does it now.
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
		_, sa := sockaddr(netip.AddrPortFrom(source.Unmap(), 0), zone)
		if err = unix.Bind(fd, sa); err != nil {
			return -1, os.NewSyscallError("bind", err)
		}
	}
	switch err = unix.Connect(fd, sa); err {
	case nil, unix.EINPROGRESS, unix.EINTR: // it goes on either way
		return fd, nil
	}
	return -1, os.NewSyscallError("connect", err)
}

// connected returns what became of connecting.
func connected(fd int) error {
	e, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return os.NewSyscallError("getsockopt", err)
	}
	if e != 0 {
		return os.NewSyscallError("connect", syscall.Errno(e))
	}
	return nil
}

func newSocketFD(family int) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	return fd, os.NewSyscallError("socket", err)
}

// setStreamOptions sets what Go's net package sets on every TCP socket.
// Accepted sockets have them from the one that listens.
func setStreamOptions(fd int) error {
	for _, o := range [...]struct{ level, name, value int }{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15},
		{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
		{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 9},
	} {
		if err := unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	return nil
}

// zoneIndex returns the number of a zone, 0 if there is none.
func zoneIndex(name string) int {
	if i, err := net.InterfaceByName(name); err == nil {
		return i.Index
	}
	n, _ := strconv.Atoi(name)
	return n
}

func sockaddr(a netip.AddrPort, zone int) (family int, sa unix.Sockaddr) {
	if a.Addr().Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16(), ZoneId: uint32(zone)}
}

// localAddr returns the address of a socket's own end.
func localAddr(fd int) netip.AddrPort {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return netip.AddrPort{}
	}
	return addrPortOf(sa)
}

func addrPortOf(sa unix.Sockaddr) netip.AddrPort {
	switch s := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(s.Addr), uint16(s.Port))
	case *unix.SockaddrInet6:
		a := netip.AddrFrom16(s.Addr).Unmap()
		if s.ZoneId != 0 && a.Is6() {
			a = a.WithZone(strconv.Itoa(int(s.ZoneId)))
		}
		return netip.AddrPortFrom(a, uint16(s.Port))
	}
	return netip.AddrPort{}
}
