package load

import (
	"sync"
	"testing"
	"unsafe"
)

func TestCounter(t *testing.T) {
	var c Counter
	c.RequestStarted()
	c.RequestStarted()
	c.RequestDone()
	c.ConnectionOpened()
	c.ConnectionOpened()
	c.ConnectionOpened()
	c.ConnectionClosed()
	if r, n := c.Requests(), c.Connections(); r != 1 || n != 2 {
		t.Errorf("Requests, Connections = %d, %d, want 1, 2", r, n)
	}
	for want := range uint64(3) {
		if got := c.Turn(); got != want {
			t.Errorf("Turn() = %d, want %d", got, want)
		}
	}
}

// Counters are neighbours in memory and written by every core.
func TestCounterFillsACacheLine(t *testing.T) {
	if size := unsafe.Sizeof(Counter{}); size != 64 {
		t.Errorf("a Counter has %d bytes, want 64", size)
	}
}

func TestCounterOfManyWriters(t *testing.T) {
	var c Counter
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				c.RequestStarted()
				c.ConnectionOpened()
				c.Turn()
				c.RequestDone()
			}
		})
	}
	wg.Wait()
	if r, n, turn := c.Requests(), c.Connections(), c.Turn(); r != 0 || n != 8000 || turn != 8000 {
		t.Errorf("Requests, Connections, Turn = %d, %d, %d, want 0, 8000, 8000", r, n, turn)
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	var c Counter
	if n := testing.AllocsPerRun(100, func() {
		c.RequestStarted()
		c.ConnectionOpened()
		_ = c.Requests() + c.Connections() + int64(c.Turn())
		c.ConnectionClosed()
		c.RequestDone()
	}); n != 0 {
		t.Errorf("counting allocates %v times, want 0", n)
	}
}

func TestTable(t *testing.T) {
	var table Table
	pool := Key{Pool: "main"}
	a := Key{"main", "a", "192.0.2.1:80"}
	counters := map[Key]*Counter{}
	for _, k := range []Key{pool, a, {"main", "a", "192.0.2.2:80"}, {"main", "b", "192.0.2.1:80"}, {"other", "a", "192.0.2.1:80"}, {Pool: "other"}} {
		c := table.Counter(k)
		for other, o := range counters {
			if o == c {
				t.Errorf("%v and %v share a counter", k, other)
			}
		}
		counters[k] = c
	}
	for k, c := range counters {
		if table.Counter(k) != c {
			t.Errorf("Counter(%v) is another one the second time", k)
		}
	}

	// What is still declared keeps its counts; a request that is counted by a
	// forgotten counter still ends there.
	counters[a].RequestStarted()
	gone := Key{"other", "a", "192.0.2.1:80"}
	counters[gone].RequestStarted()
	table.Keep(func(k Key) bool { return k.Pool == "main" })
	if got := table.Counter(a).Requests(); got != 1 {
		t.Errorf("Requests of what was kept = %d, want 1", got)
	}
	if c := table.Counter(gone); c == counters[gone] || c.Requests() != 0 {
		t.Error("what was forgotten is still there")
	}
	counters[gone].RequestDone()
	if got := len(table.items); got != 5 { // main's four, and the new one
		t.Errorf("%d counters are kept, want 5", got)
	}
}

// Plans are compiled while others are in use.
func TestTableOfManyCallers(t *testing.T) {
	var table Table
	k := Key{Pool: "main"}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				table.Counter(k).RequestStarted()
				table.Keep(func(Key) bool { return true })
			}
		})
	}
	wg.Wait()
	if got := table.Counter(k).Requests(); got != 1600 {
		t.Errorf("Requests() = %d, want 1600", got)
	}
}
