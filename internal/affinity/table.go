package affinity

import (
	"hash/maphash"
	"sync"
)

const (
	// ways is the number of sessions among which the one that was used least
	// recently gives way to a new one.
	ways = 8
	// tableSets makes room for 65,536 sessions, in 1.6 MiB.
	tableSets = 8192
)

// Table holds the sessions of a load balancer that no cookie holds, by key. It
// is bounded: among those of a set the one that was used least recently gives way.
// It may be used by any number of goroutines at once.
//
// Which keys share a slot or a set is a secret of the process, so that nobody can
// choose keys that have the session of another, or push it out.
type Table struct {
	sets []set
	seed maphash.Seed
}

type set struct {
	mu       sync.Mutex
	sessions [ways]held
}

type held struct {
	slot, endpoint uint64
	used           int64 // in seconds since any moment, from 1; 0: there is none
}

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{sets: make([]set, tableSets), seed: maphash.MakeSeed()}
}

// Slot returns what the table knows a session's key by.
func (t *Table) Slot(key []byte) uint64 { return maphash.Bytes(t.seed, key) }

// Get returns the endpoint of a session that was used within ttl seconds before
// now, which counts as another use.
func (t *Table) Get(slot uint64, now, ttl int64) (endpoint uint64, ok bool) {
	s := t.set(slot)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.sessions {
		h := &s.sessions[i]
		if h.used == 0 || h.slot != slot {
			continue
		}
		if now-h.used >= ttl {
			*h = held{}
			break
		}
		h.used = max(h.used, now)
		return h.endpoint, true
	}
	return 0, false
}

// Peek is Get without a use.
func (t *Table) Peek(slot uint64, now, ttl int64) (endpoint uint64, ok bool) {
	s := t.set(slot)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.sessions {
		if h := &s.sessions[i]; h.used != 0 && h.slot == slot {
			return h.endpoint, now-h.used < ttl
		}
	}
	return 0, false
}

// Put makes or changes a session. It reports whether another one had to give way
// that was used within ttl seconds.
func (t *Table) Put(slot, endpoint uint64, now, ttl int64) (evicted bool) {
	s := t.set(slot)
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := &s.sessions[0]
	for i := range s.sessions {
		h := &s.sessions[i]
		if h.used != 0 && h.slot == slot {
			oldest = h
			break
		}
		if h.used < oldest.used {
			oldest = h
		}
	}
	evicted = oldest.used != 0 && oldest.slot != slot && now-oldest.used < ttl
	*oldest = held{slot, endpoint, now}
	return evicted
}

func (t *Table) set(slot uint64) *set {
	return &t.sets[slot%tableSets]
}
