package httplb

import (
	"net/netip"
	"sync"
	"time"

	"fairlead/internal/loop"
	"fairlead/internal/plan"
)

// target is where to connect: to whichever of an endpoint's addresses answers first.
type target struct {
	addrs     []netip.AddrPort // in the order in which they are tried
	connected netip.AddrPort   // the one that did; invalid where none did
	deadline  loop.Time
	alive     func() bool // there is still a reason to wait for room
}

const (
	// maxAddresses bounds the addresses of one host name that one request tries.
	maxAddresses = 4
	// attemptDelay is how long one address has for itself before the next is
	// tried beside it (RFC 8305 section 5).
	attemptDelay = 250 * time.Millisecond
)

// addresses returns those of an endpoint in the order in which they are tried.
func addresses(e *plan.Endpoint, first netip.AddrPort) []netip.AddrPort {
	if n := e.ResolvedName(); n != nil {
		return interleave(first, n.Addresses())
	}
	return []netip.AddrPort{first}
}

// interleave begins with the address whose turn it is; then the two families take
// turns (RFC 8305 section 4).
func interleave(first netip.AddrPort, all []netip.Addr) []netip.AddrPort {
	var same, other []netip.AddrPort
	for _, a := range all {
		to := netip.AddrPortFrom(a, first.Port())
		switch {
		case to == first:
		case a.Is4() == first.Addr().Is4():
			same = append(same, to)
		default:
			other = append(other, to)
		}
	}
	list := []netip.AddrPort{first}
	for len(list) < maxAddresses && len(same)+len(other) > 0 {
		if len(other) > 0 {
			list, other = append(list, other[0]), other[1:]
		}
		if len(same) > 0 {
			list, same = append(list, same[0]), same[1:]
		}
	}
	return list[:min(len(list), maxAddresses)]
}

// connect connects to the address that accepts first. The next one is tried when all
// that were have failed, or a while after the last, while those go on.
func (t *target) connect(d loop.Driver, from loop.Sources) (loop.Conn, error) {
	deadline := t.deadline
	if len(t.addrs) == 1 {
		c, err := d.Dial(t.addrs[0], from, deadline)
		if err == nil {
			t.connected = t.addrs[0]
		}
		return c, err
	}
	r := race{d: d, bell: d.Bell()}
	for _, to := range t.addrs {
		r.start(to, from, deadline)
		for loop.Now() < deadline {
			until := deadline
			if r.started < len(t.addrs) {
				until = min(until, r.last.Add(attemptDelay))
			}
			rung := r.bell.Wait(until) == nil
			if c, lost := r.look(); c != nil {
				t.connected = r.winner
				return c, nil
			} else if lost || !rung {
				break
			}
		}
	}
	c, err := r.end()
	if c != nil {
		t.connected = r.winner
	}
	return c, err
}

// race is a set of attempts to connect, of which the first that succeeds counts.
type race struct {
	d       loop.Driver
	bell    loop.Bell
	started int
	last    loop.Time // when one was started

	mu     sync.Mutex // guards what follows; of a loop nobody ever waits for it
	failed int
	err    error // the first
	late   bool  // one of them was the deadline's
	c      loop.Conn
	winner netip.AddrPort
	over   bool // whoever connects now is too late
}

// start begins an attempt.
func (r *race) start(to netip.AddrPort, from loop.Sources, deadline loop.Time) {
	r.started++
	r.last = loop.Now()
	r.d.Start(func() {
		c, err := r.d.Dial(to, from, deadline)
		r.mu.Lock()
		late := r.over || r.c != nil
		switch {
		case err != nil:
			r.failed++
			r.late = r.late || err == loop.ErrTimeout
			if r.err == nil {
				r.err = err
			}
		case !late:
			r.c, r.winner = c, to
		}
		r.mu.Unlock()
		if err == nil && late {
			c.Close()
		}
		r.bell.Ring()
	})
}

// look returns the connection that was made, or reports that all attempts have
// failed.
func (r *race) look() (c loop.Conn, lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.c, r.failed == r.started
}

// end ends the race.
func (r *race) end() (loop.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
	switch {
	case r.c != nil:
		return r.c, nil
	case r.failed == r.started && !r.late:
		return nil, r.err
	}
	return nil, loop.ErrTimeout
}
