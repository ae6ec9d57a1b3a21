package node

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestHeadroom(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{0, 1200}, {4 << 20, 1200}, {6 << 20, 800}, {24 << 20, 200},
		{48 << 20, 100}, {1 << 30, 100}, {1 << 40, 100},
	} {
		if got := percentFor(c.live); got != c.want {
			t.Errorf("percentFor(%d) = %d, want %d", c.live, got, c.want)
		}
	}
}

// The percentage follows what is in use after each run of the collector.
func TestCollectorIsPaced(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(usualPercent))
	percent := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	reaches := func(what string, ok func(uint64) bool) {
		t.Helper()
		for until := time.Now().Add(10 * time.Second); !ok(percent()); time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("with %s the percentage is %d", what, percent())
			}
			runtime.GC()
		}
	}
	new(pacer).adjust()
	reaches("a small heap", func(p uint64) bool { return p > 2*usualPercent })
	large := make([]byte, headroom)
	reaches("a large heap", func(p uint64) bool { return p == usualPercent })
	runtime.KeepAlive(large) // and no longer
	reaches("a small heap again", func(p uint64) bool { return p > 2*usualPercent })
}
