package h2

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"fairlead/internal/loop"
)

func init() {
	rigs["loop"] = func(t *testing.T, test func(*testing.T, *rig)) {
		r := new(rig)
		e, err := loop.NewEngine("loop", loop.Options{Loops: 1, Panicked: r.panicked})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		ln, err := e.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
		if err != nil {
			t.Fatal(err)
		}
		tasks := make(chan func(loop.Driver, loop.Conn), 10)
		ln.Serve(func(d loop.Driver, c loop.Conn) {
			task := <-tasks
			d.Start(func() { task(d, c) })
		}, func(err error) { t.Error(err) })
		r.open = func(task func(loop.Driver, loop.Conn)) net.Conn {
			tasks <- task
			nc, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			return nc
		}
		test(t, r)
		ln.Close()
		<-ln.Closed()
		// Each look is a turn of the loop.
		for deadline := time.Now().Add(10 * time.Second); ; {
			turn := make(chan bool)
			e.Drivers()[0].Go(func() { close(turn) })
			<-turn
			s := e.Stats().Loops[0]
			if s.Connections == 0 && s.Fibers == 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d connections and %d fibers are left", s.Connections, s.Fibers)
			}
		}
		r.tell(t)
	}
}
