package pick

import (
	"net/netip"

	"github.com/cespare/xxhash/v2"
)

// HashAddr returns the hash of a client address: the xxHash64 of its 16 bytes.
// An IPv4 address and the same address mapped into IPv6 hash alike, since
// which of them is seen depends on the listener, not on the client.
func HashAddr(a netip.Addr) uint64 {
	b := a.As16()
	return xxhash.Sum64(b[:])
}

// HashBytes returns the hash of a session's key.
func HashBytes(key []byte) uint64 { return xxhash.Sum64(key) }

// HashKey returns the hash of the key of an endpoint, for [Score].
func HashKey(key string) uint64 { return xxhash.Sum64String(key) }
