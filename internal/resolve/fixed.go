package resolve

import (
	"net/netip"
	"slices"
	"strings"
)

// Fixed returns a name that nobody is asked about: its addresses are known.
func Fixed(host string, addrs []netip.Addr) *Name {
	n := &Name{Host: strings.ToLower(host)}
	addrs = slices.Clone(addrs)
	slices.SortFunc(addrs, netip.Addr.Compare)
	addrs = slices.Compact(addrs)
	addrs = slices.Clip(addrs[:min(len(addrs), maxAddresses)])
	n.set.Store(&addrs)
	return n
}
