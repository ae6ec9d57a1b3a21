package telemetry

import (
	"math"
	"sync"
	"testing"
	"time"
	"unsafe"
)

func TestSizesAreWholeCacheLines(t *testing.T) {
	for name, size := range map[string]uintptr{
		"Counter":   unsafe.Sizeof(Counter{}),
		"Gauge":     unsafe.Sizeof(Gauge{}),
		"Histogram": unsafe.Sizeof(Histogram{}),
	} {
		if size%64 != 0 {
			t.Errorf("size of %s = %d, want a multiple of 64", name, size)
		}
	}
}

func TestCountersAddUp(t *testing.T) {
	var c Counter
	var g Gauge
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				c.Inc()
				c.Add(2)
				g.Add(3)
				g.Add(-1)
			}
		})
	}
	wg.Wait()
	if got := c.Load(); got != 24000 {
		t.Errorf("Counter.Load() = %d, want 24000", got)
	}
	if got := g.Load(); got != 16000 {
		t.Errorf("Gauge.Load() = %d, want 16000", got)
	}
}

func TestHistogramBuckets(t *testing.T) {
	tests := []struct {
		name string
		d    time.Duration
		le   float64 // the lowest bound that counts it
	}{
		{"nothing", 0, 0.0005},
		{"a clock that ran backwards", -time.Second, 0.0005},
		{"on the first bound", 500 * time.Microsecond, 0.0005},
		{"just above the first bound", 500*time.Microsecond + 1, 0.001},
		{"between bounds", 100*time.Millisecond + 1, 0.25},
		{"on the last bound", time.Minute, 60},
		{"above all", time.Minute + 1, math.Inf(1)},
		{"a day", 24 * time.Hour, math.Inf(1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var h Histogram
			h.Observe(tt.d)
			buckets, count, sum := h.snapshot()
			if count != 1 {
				t.Errorf("count = %d, want 1", count)
			}
			if want := max(tt.d, 0).Seconds(); sum != want {
				t.Errorf("sum = %v, want %v", sum, want)
			}
			for le, n := range buckets {
				if want := le >= tt.le; (n == 1) != want {
					t.Errorf("bucket le=%v counts %d, want counted: %v", le, n, want)
				}
			}
		})
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	var c Counter
	var g Gauge
	var h Histogram
	if n := testing.AllocsPerRun(100, func() { c.Inc(); g.Add(1); h.Observe(time.Millisecond) }); n != 0 {
		t.Errorf("allocations = %v, want 0", n)
	}
}

func BenchmarkHistogram(b *testing.B) {
	var h Histogram
	for b.Loop() {
		h.Observe(80 * time.Millisecond)
	}
}
