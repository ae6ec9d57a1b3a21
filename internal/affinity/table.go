package affinity

import (
	"math/rand/v2"
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
// Which keys share a set is a secret of the process, so that nobody can choose
// keys that push the sessions of others out.
type Table struct {
	sets   []set
	secret uint64
}

type set struct {
	mu       sync.Mutex
	sessions [ways]held
}

type held struct {
	key, endpoint uint64
	used          int64 // in seconds since 1970; 0: there is none
}

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{sets: make([]set, tableSets), secret: rand.Uint64()}
}

// Get returns the endpoint of a session that was used within ttl seconds before
// now, which counts as another use.
func (t *Table) Get(key uint64, now, ttl int64) (endpoint uint64, ok bool) {
	s := t.set(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.sessions {
		h := &s.sessions[i]
		if h.used == 0 || h.key != key {
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

// Put makes or changes a session. It reports whether another one had to give way
// that was used within ttl seconds.
func (t *Table) Put(key, endpoint uint64, now, ttl int64) (evicted bool) {
	s := t.set(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := &s.sessions[0]
	for i := range s.sessions {
		h := &s.sessions[i]
		if h.used != 0 && h.key == key {
			oldest = h
			break
		}
		if h.used < oldest.used {
			oldest = h
		}
	}
	evicted = oldest.used != 0 && oldest.key != key && now-oldest.used < ttl
	*oldest = held{key, endpoint, now}
	return evicted
}

func (t *Table) set(key uint64) *set {
	x := (key ^ t.secret) * 0x9e3779b97f4a7c15
	x ^= x >> 32
	return &t.sets[x*0xd6e8feb86659fd93>>51]
}
