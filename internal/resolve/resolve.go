// Package resolve keeps the addresses of host names current: each name is
// looked up again when its TTL asks, and a failed look-up keeps the last
// addresses.
//
// A [Name] is what readers hold; it is shared by all that ask for the same
// host, and reading it never waits. A [Resolver] owns the look-ups: the hosts
// file first, then the name servers of resolv.conf, A and AAAA together, with
// its search domains for names of fewer dots than its ndots. Both files are
// read again when they change.
//
// What becomes of a name's addresses:
//
//   - An answer replaces them. Where the look-up of one family fails, that
//     family's last addresses stay.
//   - A look-up that fails (no server answers, SERVFAIL and the like) keeps
//     them for as long as it fails, and is tried again with growing pauses.
//   - An answer that the name does not exist or has no addresses keeps them
//     for ten minutes since the first answer of the kind; then the name is
//     empty. Such answers are more often a mistake in a zone than the end of a
//     service.
//   - Addresses that this machine has no route to are left out, unless it has
//     none to any: a name with IPv6 addresses does not make every other
//     connection fail where there is no IPv6.
//
// localhost and names below it are 127.0.0.1 without asking anybody; an
// endpoint that listens on IPv6 only is written as [::1].
package resolve

import (
	"net/netip"
	"slices"
	"sync/atomic"
)

// Name is a host name with the addresses it has now. Readers never wait.
type Name struct {
	Host string
	set  atomic.Pointer[[]netip.Addr]
	turn atomic.Uint32
}

// Addresses returns what the name resolves to, in ascending order; nil before
// the first answer. The slice is never written again.
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
	return s[(n.turn.Add(1)-1)%uint32(len(s))], true
}

// Has reports whether the name resolves to a now: a kept connection to an
// address that it has lost is not to be used again.
func (n *Name) Has(a netip.Addr) bool { return slices.Contains(n.Addresses(), a.Unmap()) }
