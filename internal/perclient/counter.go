// Package perclient bounds what one client takes: how many connections it has open,
// and how fast it comes again after a flood. A client is an IPv4 address, or the /64
// that one IPv6 host can choose its addresses from.
package perclient

import (
	"net/netip"
	"sync"
)

// Counter counts the open connections of each client address. It is asked when a
// connection opens and closes, never for a request. Its zero value is ready; any
// number of goroutines may use it.
type Counter struct{ shards [64]shard }

type shard struct {
	mu    sync.Mutex
	count map[netip.Addr]int
	_     [40]byte
}

// network returns what counts as one client.
func network(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if a.Is4() {
		return a
	}
	p, _ := a.WithZone("").Prefix(64)
	return p.Addr()
}

func (c *Counter) of(a netip.Addr) *shard {
	b := a.As16()
	h := uint(b[15]) ^ uint(b[14])*31 ^ uint(b[7])*131 ^ uint(b[6])*17
	return &c.shards[h%uint(len(c.shards))]
}

// Enter counts a connection from a unless there are limit already.
func (c *Counter) Enter(a netip.Addr, limit int) bool {
	a = network(a)
	s := c.of(a)
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

// Leave ends what Enter began.
func (c *Counter) Leave(a netip.Addr) {
	a = network(a)
	s := c.of(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.count[a]--; s.count[a] <= 0 {
		delete(s.count, a)
	}
}
