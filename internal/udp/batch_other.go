//go:build !linux

package udp

import (
	"errors"
	"net/netip"
	"syscall"
)

// Listen opens an address; an invalid Addr is all addresses of both families.
// count is how many sockets share it where the system can do that.
func Listen(at netip.AddrPort, _ int) ([]Socket, error) { return ListenPortable(at) }

func noFamily(err error) bool { return errors.Is(err, syscall.EAFNOSUPPORT) }
