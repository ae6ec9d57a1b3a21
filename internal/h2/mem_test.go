package h2

import (
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"fairlead/internal/loop"
)

// TestIdleMemory bounds what a connection at rest holds. When this was written it
// was 9.5 KiB, of which 2.6 KiB are this package's; the rest is that of the pipe,
// of the driver's connection and of the test.
func TestIdleMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const conns = 200
		heap := func() uint64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		var ends []net.Conn
		var servers []*Server
		ended := make(chan bool)
		serve := func() {
			a, b := net.Pipe()
			s := NewServer(&loop.Goroutines{}, loop.New(a), nil, echo)
			servers = append(servers, s)
			ends = append(ends, b)
			go func() { s.Serve(nil); ended <- true }()
			go func() {
				var small [64]byte
				for {
					if _, err := b.Read(small[:]); err != nil {
						return
					}
				}
			}()
		}
		use := func(nc net.Conn) {
			r := newRaw(t, nc)
			r.hello()
			for i := range uint32(10) {
				r.headers(2*i+1, true, r.get("x", "y"))
			}
		}
		before := heap()
		for range conns {
			serve()
		}
		synctest.Wait()
		fresh := heap()
		for _, nc := range ends {
			use(nc)
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		after := heap()
		t.Logf("a fresh connection holds %d bytes, one that was used and rests %d", (fresh-before)/conns, (after-before)/conns)
		if n := (after - before) / conns; n > 16<<10 {
			t.Errorf("a connection at rest holds %d bytes", n)
		}
		for _, nc := range ends {
			nc.Close()
			<-ended
		}
		runtime.KeepAlive(servers)
	})
}
