package loop

import (
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// Loops serve about as many clients each, however the kernel's hash falls, and
// what leaves is made up for by what comes.
func TestClientsAreSpreadEvenly(t *testing.T) {
	const loops, clients = 8, 160
	e, err := NewLoopEngine(Options{Loops: loops})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	var served atomic.Int64
	var on [loops]atomic.Int64
	ln := serveOn(t, e, loopback, func(d Driver, c Conn) {
		on[d.Index()].Add(1)
		served.Add(1)
		echo(d, c)
		on[d.Index()].Add(-1)
	})
	connect := func(n int) (conns []net.Conn) {
		for range n {
			was := served.Load()
			c, err := net.Dial("tcp", ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			conns = append(conns, c)
			until(t, "it is served", func() bool { return served.Load() > was })
		}
		return conns
	}
	even := func() {
		t.Helper()
		least, most := on[0].Load(), on[0].Load()
		for i := range on {
			least, most = min(least, on[i].Load()), max(most, on[i].Load())
		}
		// One more than what is worth a handover.
		if most-least > 2+most/16 {
			t.Errorf("a loop serves %d clients, another %d", most, least)
		}
	}
	conns := connect(clients)
	even()
	left := int64(clients)
	for i, c := range conns {
		if i%3 == 0 || i < clients/4 {
			c.Close()
			left--
		}
	}
	counted := func() (n int64) {
		for _, d := range e.Drivers() {
			n += int64(d.(*eventLoop).clients.Load())
		}
		return n
	}
	until(t, "they are gone", func() bool { return counted() == left })
	connect(clients)
	even()
	if n := counted(); n != left+clients {
		t.Errorf("%d clients are counted, there are %d", n, left+clients)
	}
}

// A listener, and an engine, may be closed while clients come and are handed from
// loop to loop. Each client is served or refused, and nothing of it is left.
func TestCloseWhileClientsCome(t *testing.T) {
	cycle := func(engineFirst bool) {
		e, err := NewLoopEngine(Options{Loops: 4})
		if err != nil {
			t.Fatal(err)
		}
		ln, err := e.Listen(loopback)
		if err != nil {
			t.Fatal(err)
		}
		var closed atomic.Bool
		var came atomic.Int64
		ln.Serve(func(d Driver, c Conn) {
			came.Add(1)
			if closed.Load() {
				t.Error("a client was given after the listener was closed")
			}
			c.Close()
		}, func(err error) { t.Errorf("trouble: %v", err) })
		var stop atomic.Bool
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for !stop.Load() {
					if c, err := net.DialTimeout("tcp", ln.Addr().String(), patience); err == nil {
						c.Close()
					}
				}
			})
		}
		until(t, "they come", func() bool { return came.Load() > 200 })
		if !engineFirst {
			ln.Close()
			<-ln.Closed()
			closed.Store(true)
		}
		closes(t, e)
		ln.Close()
		<-ln.Closed()
		stop.Store(true)
		clients.Wait()
	}
	cycle(true)
	before := descriptors(t)
	for i := range 10 {
		cycle(i%2 == 0)
	}
	until(t, "all descriptors are given back", func() bool { return descriptors(t) <= before })
}

// A processor is left beside the loops, for which their number does not grow.
func TestProcessors(t *testing.T) {
	for range 2 {
		e, err := NewLoopEngine(Options{})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(e.Drivers()); n != processors() || runtime.GOMAXPROCS(0) <= n {
			t.Errorf("%d loops, %d processors; there were %d", n, runtime.GOMAXPROCS(0), processors())
		}
		e.Close()
	}
}

// The last bytes of a long stream are acknowledged when they are read, although
// their reader writes and reads in turn, so that the system would wait for what
// it writes next.
func TestLongStreamIsAcknowledged(t *testing.T) {
	eachRoute(t, func(t *testing.T, r route) {
		const n, tail = ackFrom, 1000
		for range 5 {
			task, m := r.move(n, Moving{Timeout: patience})
			data := pattern(1, n)
			feed(r.src.peer, data[:n-tail])
			r.dst.expect(data[:n-tail])
			feed(r.src.peer, data[n-tail:])
			r.dst.expect(data[n-tail:])
			task.Wait()
			m.want(t, n, nil, nil)
			if left := unacknowledged(t, r.src.peer); left > 0 {
				t.Fatalf("%d segments are not acknowledged", left)
			}
			r.src.do(func() { r.src.c.Write([]byte("next")) })
			r.src.expect([]byte("next"))
		}
	})
}

// unacknowledged returns how many segments of a connection are under way.
func unacknowledged(t *testing.T, nc net.Conn) (n uint32) {
	t.Helper()
	if w, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = w.NetConn()
	}
	tcp, ok := nc.(*net.TCPConn)
	if !ok {
		return 0 // a pipe
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			t.Error(err)
			return
		}
		n = info.Unacked
	})
	return n
}
