package dnslb

import (
	"hash/maphash"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"fairlead/internal/dnswire"
	"fairlead/internal/model"
)

// rateLimit bounds the answers over UDP to one network, by the generic cell rate
// algorithm: each kind of answer to a network has a time at which all that was
// sent would have been sent at the rate, which may be ahead of now by as much as
// a burst takes. Times are places of a table that a hash chooses; those that
// share a place take it from each other, so that memory is bounded and an
// attacker's many networks cost no more than one entry each. A place is one word,
// which is changed without a lock.
type rateLimit struct {
	model.DNSRateLimit
	seed     maphash.Seed
	start    time.Time
	interval uint64 // between two answers at the rate, in microseconds
	// table holds a tag of whom a place belongs to, in the upper bits, and the
	// time, in microseconds since start.
	table []atomic.Uint64
	turns []atomic.Uint32 // of limited answers, for slip
}

const (
	tagShift = 48 // 2^48 microseconds are nine years
	// burst is how far ahead of now a time may be, in microseconds: what one
	// second brings may come at once.
	burst = 1_000_000
)

// newRateLimit returns the limit of m, nil for none: the one before, with its
// counts, if nothing has changed.
func newRateLimit(m *model.DNSRateLimit, before *rateLimit) *rateLimit {
	if m == nil {
		return nil
	}
	if before != nil && same(&before.DNSRateLimit, m) {
		return before
	}
	size := 1
	for size < m.TableSize {
		size *= 2
	}
	return &rateLimit{
		DNSRateLimit: *m, seed: maphash.MakeSeed(), start: time.Now(),
		interval: 1_000_000 / uint64(m.ResponsesPerSecond),
		table:    make([]atomic.Uint64, size), turns: make([]atomic.Uint32, size),
	}
}

func same(a, b *model.DNSRateLimit) bool {
	return a.ResponsesPerSecond == b.ResponsesPerSecond && a.Slip == b.Slip && a.IPv4Prefix == b.IPv4Prefix &&
		a.IPv6Prefix == b.IPv6Prefix && a.TableSize == b.TableSize && slices.Equal(a.Exempt, b.Exempt)
}

// outcome is what becomes of an answer.
type outcome uint8

const (
	rateSend outcome = iota
	rateSlip
	rateDrop
)

// take accounts for an answer to an address; name, zone and class tell what kind
// of answer it is.
func (r *rateLimit) take(to netip.Addr, name []byte, zone dnswire.Name, class byte, now time.Time) outcome {
	to = to.Unmap()
	for _, p := range r.Exempt {
		if p.Contains(to) {
			return rateSend
		}
	}
	sum := r.hash(to, name, zone, class)
	i, tag := sum&uint64(len(r.table)-1), sum>>tagShift
	moment := uint64(max(now.Sub(r.start)/time.Microsecond, 0))
	for place := &r.table[i]; ; {
		old := place.Load()
		at := old & (1<<tagShift - 1)
		if old>>tagShift != tag || at < moment {
			at = moment
		}
		if at > moment+burst-r.interval {
			break
		}
		if place.CompareAndSwap(old, tag<<tagShift|(at+r.interval)) {
			return rateSend
		}
	}
	if r.Slip > 0 && r.turns[i].Add(1)%uint32(r.Slip) == 0 {
		return rateSlip
	}
	return rateDrop
}

func (r *rateLimit) hash(to netip.Addr, name []byte, zone dnswire.Name, class byte) uint64 {
	var h maphash.Hash
	h.SetSeed(r.seed)
	if to.Is4() {
		a := to.As4()
		mask(a[:], r.IPv4Prefix)
		h.Write(a[:])
	} else {
		a := to.As16()
		mask(a[:], r.IPv6Prefix)
		h.Write(a[:])
	}
	h.WriteByte(class)
	h.Write(name)
	h.WriteString(string(zone))
	return h.Sum64()
}

func mask(a []byte, bits int) {
	for i := range a {
		switch n := bits - 8*i; {
		case n <= 0:
			a[i] = 0
		case n < 8:
			a[i] &= byte(0xff << (8 - n))
		}
	}
}

// within reports whether the answer may be sent. Of those above the limit some are
// made empty first, so that the client comes back over TCP, or with a cookie.
func (r *responder) within() bool {
	if r.cookieKind() == cookieValid {
		return true
	}
	// What is asked for by the same name, or denied or refused in the same zone,
	// counts together: an attacker may make up names.
	var name []byte
	var zone dnswire.Name
	switch {
	case r.q.Question && r.m.rcode == dnswire.NoError && !r.signing.missing:
		name = r.q.Key.Name()
	case r.zone >= 0:
		zone = r.snap.plan.Zones[r.zone].Origin
	}
	switch r.set.rate.take(r.who.addr.Addr(), name, zone, byte(r.m.rcode), r.now) {
	case rateSend:
		return true
	case rateSlip:
		r.ln.stats.slipped.Inc()
		r.m.empty(&r.q)
		r.m.flags = dnswire.FlagTC
		if r.q.Cookie != nil && r.set.cookies != nil { // with what it gets here it is answered
			r.m.flags, r.m.rcode = 0, dnswire.BadCookie
		}
		return true
	}
	r.ln.stats.drop(dropLimited)
	return false
}
