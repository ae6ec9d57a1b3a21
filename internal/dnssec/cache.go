package dnssec

import (
	"bytes"
	"hash/maphash"
	"sync/atomic"
	"time"

	"fairlead/internal/dnswire"
	"fairlead/internal/telemetry"
)

// ways is how many places there are for a signature. The more, the later does one
// in use have to give way.
const ways = 8

// cache holds signatures. It is a table of a fixed size, each part of which is
// replaced by one atomic write: reading takes no lock and writes nothing that
// others read, but for the mark of use, once.
type cache struct {
	seed    maphash.Seed
	sets    []([ways]atomic.Pointer[entry])
	evicted telemetry.Counter
}

// entry is a signed set. Only the mark of use changes.
type entry struct {
	hash  uint64
	zone  *Zone
	canon []byte // the set in canonical form
	kind  dnswire.Type
	by    *signers // whose signatures these are

	data [][]byte // of the RRSIG records, one for each key

	from, until int64 // unix seconds: when it may be given
	renew       int64 // when it is to be made anew

	used atomic.Bool // since it was made, or since all others beside it were
}

// newCache makes a cache for about size signatures.
func newCache(size int) *cache {
	n := 1
	for n*ways < size {
		n *= 2
	}
	return &cache{seed: maphash.MakeSeed(), sets: make([][ways]atomic.Pointer[entry], n)}
}

func (c *cache) hash(z *Zone, canon []byte) uint64 {
	return maphash.Bytes(c.seed, canon) ^ z.salt
}

func (c *cache) at(hash uint64) *[ways]atomic.Pointer[entry] {
	return &c.sets[hash&uint64(len(c.sets)-1)]
}

// get returns the entry of a set, nil if there is none.
func (c *cache) get(hash uint64, z *Zone, canon []byte) *entry {
	set := c.at(hash)
	for i := range set {
		// All of it is compared: a signature of something else would make the
		// answer a forgery to whoever checks it.
		if e := set[i].Load(); e != nil && e.hash == hash && e.zone == z && bytes.Equal(e.canon, canon) {
			if !e.used.Load() {
				e.used.Store(true)
			}
			return e
		}
	}
	return nil
}

// put stores an entry in place of the one of the same set, in a free place, or in
// that of one that was not used.
func (c *cache) put(e *entry) {
	set := c.at(e.hash)
	for range 4 { // others may put too; a signature that is lost is only work
		var victim *atomic.Pointer[entry]
		var old *entry
		for i := range set {
			o := set[i].Load()
			if o == nil || o.hash == e.hash && o.zone == e.zone && bytes.Equal(o.canon, e.canon) {
				victim, old = &set[i], o
				break
			}
			if !o.used.Load() && (victim == nil || o.renew < old.renew) {
				victim, old = &set[i], o
			}
		}
		if victim == nil { // all are in use: they have to show it again
			for i := range set {
				o := set[i].Load()
				if o == nil {
					continue
				}
				o.used.Store(false)
				if victim == nil || o.renew < old.renew {
					victim, old = &set[i], o
				}
			}
		}
		if victim != nil && victim.CompareAndSwap(old, e) {
			if old != nil && (old.hash != e.hash || old.zone != e.zone) {
				c.evicted.Inc()
			}
			return
		}
	}
}

// all calls f for each entry, with a function that replaces it, or removes it by
// nil, if it is still there.
func (c *cache) all(f func(e *entry, replace func(*entry))) {
	for i := range c.sets {
		for j := range c.sets[i] {
			p := &c.sets[i][j]
			if e := p.Load(); e != nil {
				f(e, func(with *entry) { p.CompareAndSwap(e, with) })
			}
		}
	}
}

// good reports whether an entry may be given now. Clocks may be set back: what was
// made in what is now the future would not be valid yet.
func (e *entry) good(now time.Time) bool {
	t := now.Unix()
	return e.from <= t && t < e.until
}
