package affinity

import (
	"encoding/binary"
	"sync"
	"testing"
)

func TestTable(t *testing.T) {
	const ttl = 30
	tb := NewTable()
	get := func(key uint64, at int64, want uint64) {
		t.Helper()
		e, ok := tb.Get(key, at, ttl)
		if e != want || ok != (want != 0) {
			t.Errorf("Get(%d) at %d = %d, %v, want %d", key, at, e, ok, want)
		}
	}
	get(1, 100, 0)
	if tb.Put(1, 7, 100, ttl) {
		t.Error("something gave way in an empty table")
	}
	get(2, 100, 0)
	get(1, 129, 7)
	get(1, 158, 7) // each use prolongs it
	tb.Put(1, 8, 158, ttl)
	get(1, 160, 8)
	get(1, 150, 8) // a clock that went back ends nothing
	get(1, 190, 0) // 30 s after its last use
	get(1, 191, 0)
}

// A full set gives up the session that was used least recently, and tells if that
// was not over.
func TestTableIsBounded(t *testing.T) {
	tb := NewTable()
	first := tb.set(0)
	var keys []uint64
	for key := uint64(0); len(keys) <= ways; key++ {
		if tb.set(key) == first {
			keys = append(keys, key)
		}
	}
	for i, key := range keys[:ways] {
		if tb.Put(key, 1, int64(100+i), 1000) {
			t.Errorf("something gave way to session %d of %d", i, ways)
		}
	}
	tb.Get(keys[0], 200, 1000)
	if !tb.Put(keys[ways], 1, 201, 1000) {
		t.Error("nothing gave way in a full set")
	}
	for i, key := range keys {
		if _, ok := tb.Get(key, 202, 1000); ok != (i != 1) {
			t.Errorf("session %d is there: %v", i, ok)
		}
	}
	if tb.Put(keys[1], 1, 5000, 1000) {
		t.Error("a session that was over counts as one that gave way")
	}
}

// Sessions fill the sets evenly: of a half full table few have to give way.
func TestTableSpreads(t *testing.T) {
	tb := NewTable()
	const n = ways * tableSets / 2
	evicted := 0
	for i := range uint64(n) {
		if tb.Put(tb.Slot(binary.BigEndian.AppendUint64(nil, i)), 1, 100, 1000) {
			evicted++
		}
	}
	if evicted > n/20 {
		t.Errorf("%d of %d sessions had to give way", evicted, n)
	}
}

func TestTableTogether(t *testing.T) {
	tb := NewTable()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range uint64(10_000) {
				tb.Put(i%500, i%500+1, 100, 1000)
				if e, ok := tb.Get(i%500, 100, 1000); ok && e != i%500+1 {
					t.Errorf("session %d has endpoint %d", i%500, e)
				}
			}
		})
	}
	wg.Wait()
}

func TestTableAllocatesNothing(t *testing.T) {
	tb := NewTable()
	if n := testing.AllocsPerRun(100, func() {
		tb.Put(1, 2, 3, 4)
		tb.Get(1, 3, 4)
	}); n != 0 {
		t.Errorf("Put and Get allocate %v times", n)
	}
}
