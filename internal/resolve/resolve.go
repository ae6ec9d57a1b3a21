// Package resolve keeps the addresses of host names current: each name is
// looked up again when its TTL asks, and a failed look-up keeps the last
// addresses.
package resolve

import (
	"net/netip"
	"sync/atomic"
)

// Name is a host name with the addresses it has now. Readers never wait.
type Name struct {
	Host string
	set  atomic.Pointer[[]netip.Addr]
	turn atomic.Uint32
}

// Addresses returns what the name resolves to; nil before the first answer.
// The slice is never written again.
func (n *Name) Addresses() []netip.Addr {
	if s := n.set.Load(); s != nil {
		return *s
	}
	return nil
}

// Next returns the addresses in turn, so that new connections use all of
// them.
func (n *Name) Next() (netip.Addr, bool) {
	s := n.Addresses()
	if len(s) == 0 {
		return netip.Addr{}, false
	}
	return s[int(n.turn.Add(1)-1)%len(s)], true
}
