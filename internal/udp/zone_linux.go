package udp

import (
	"net"
	"strconv"
)

// zoneIndex returns the number of the interface that a zone of an address names;
// 0 where there is none.
func zoneIndex(zone string) uint32 {
	if i, err := net.InterfaceByName(zone); err == nil {
		return uint32(i.Index)
	}
	n, _ := strconv.ParseUint(zone, 10, 32)
	return uint32(n)
}
