package httplb

import (
	"net/netip"
	"sync"
)

// clients counts the open connections of each client address. It is asked
// when a connection opens and closes, never for a request.
type clients struct{ shards [64]clientShard }

type clientShard struct {
	mu    sync.Mutex
	count map[netip.Addr]int
	_     [40]byte
}

// network is what counts as one client: an IPv4 address, or the /64 that one
// IPv6 host can choose its addresses from.
func network(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if a.Is4() {
		return a
	}
	p, _ := a.WithZone("").Prefix(64)
	return p.Addr()
}

func (c *clients) shard(a netip.Addr) *clientShard {
	b := a.As16()
	h := uint(b[15]) ^ uint(b[14])*31 ^ uint(b[7])*131 ^ uint(b[6])*17
	return &c.shards[h%uint(len(c.shards))]
}

// enter counts a connection from a unless there are limit already.
func (c *clients) enter(a netip.Addr, limit int) bool {
	a = network(a)
	s := c.shard(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count[a] >= limit {
		return false
	}
	if s.count == nil {
		s.count = make(map[netip.Addr]int)
	}
	s.count[a]++
	return true
}

// leave ends what enter began.
func (c *clients) leave(a netip.Addr) {
	a = network(a)
	s := c.shard(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count[a]--; s.count[a] <= 0 {
		delete(s.count, a)
	}
}
