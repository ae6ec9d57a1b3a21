package loop

import (
	"io"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fill makes a listener's queue as short as it can be.
func fill(t *testing.T, ln *net.TCPListener) {
	t.Helper()
	raw, err := ln.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { err = unix.Listen(int(fd), 0) })
	if err != nil {
		t.Fatal(err)
	}
}

// TestNothingLeaks makes two thousand connections through every end that a
// connection can have, and counts what is left.
func TestNothingLeaks(t *testing.T) {
	ln, addr := listen(t)
	type counts struct {
		goroutines, descriptors int
		buffers                 int64
	}
	count := func() counts { return counts{runtime.NumGoroutine(), descriptors(t) - 2*freePipes(), lent.Load()} }

	var serving sync.WaitGroup
	serve := func() { // echoes with a loop connection until it ends
		nc, err := ln.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		serving.Go(func() {
			c := New(nc)
			defer c.Close()
			defer c.Release()
			for {
				b, err := c.Read(nil)
				if err != nil || c.Write(b) != nil {
					return
				}
			}
		})
	}
	bulk := make([]byte, 2*copyFirst)
	one := func(i int) {
		c, err := goroutines.Dial(addr, Sources{}, Now().Add(patience))
		if err != nil {
			t.Error(err)
			return
		}
		c.SetReadDeadline(Now().Add(patience))
		c.SetWriteTimeout(patience)
		if _, err := c.Ask([]byte("question")); err != nil {
			t.Errorf("Ask() = %v", err)
		}
		switch i % 8 {
		case 0:
			c.Release()
			c.Abort()
			return
		case 1:
			c.Interrupt(errCause)
			c.Read([]byte("prefix"))
		case 2:
			c.SetReadDeadline(1)
			c.Read([]byte("prefix"))
		case 3:
			c.CloseWrite()
			c.Read(nil)
		case 4:
			if i%40 == 4 { // spliced in a circle, then cut
				nc, peer := sockets(t)
				go io.Copy(io.Discard, peer)
				go c.Write(bulk)
				Move(New(nc), c, int64(len(bulk))-1000, Moving{Timeout: patience})
				nc.Close()
				peer.Close()
			}
		}
		c.Release()
		c.Close()
	}
	round := func(n int) {
		const together = 25
		for i := 0; i < n; i += together {
			var wg sync.WaitGroup
			for k := range together {
				wg.Go(func() { one(i + k) })
			}
			for range together {
				serve()
			}
			wg.Wait()
		}
		serving.Wait()
	}
	round(50) // what is made once
	before := count()
	round(2000)
	// What other tests left may end meanwhile.
	var after counts
	until(t, "nothing is left", func() bool {
		after = count()
		return after.goroutines <= before.goroutines && after.descriptors <= before.descriptors && after.buffers <= before.buffers
	})
	t.Logf("%+v before, %+v after", before, after)
	if n := freePipes(); n > maxFreePipes {
		t.Errorf("%d pipes are kept, want at most %d", n, maxFreePipes)
	}
}

// Without a descriptor for a pipe, a bulk stream is copied to its end.
func TestMoveWithoutPipes(t *testing.T) {
	r := route{kinds[0].new(t), kinds[0].new(t)}
	data := pattern(7, 4*copyFirst)
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	restore := func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Fatal(err)
		}
	}
	defer restore()
	pipes.Lock()
	free := pipes.free
	pipes.free = nil
	pipes.Unlock()
	for _, p := range free {
		p.put(false)
	}
	limited := was
	limited.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limited); err != nil {
		t.Fatal(err)
	}
	go feed(r.src.peer, data)
	task, m := r.move(int64(len(data)), Moving{Timeout: patience})
	r.dst.expect(data)
	task.Wait()
	m.want(t, int64(len(data)), nil, nil)
	if n := freePipes(); n != 0 {
		t.Errorf("%d pipes were made", n)
	}
}

// Pipes are only kept when they are empty.
func TestPipesAreKeptEmpty(t *testing.T) {
	r := route{kinds[0].new(t), kinds[0].new(t)}
	r.dst.c.SetWriteTimeout(20 * time.Millisecond)
	task, m := r.move(-1, Moving{Timeout: patience})
	go feed(r.src.peer, make([]byte, 48<<20))
	task.Wait()
	m.want(t, m.n, nil, ErrStalled)
	pipes.Lock()
	defer pipes.Unlock()
	for _, p := range pipes.free {
		if n, err := unix.IoctlGetInt(p.r, unix.TIOCINQ); n != 0 || err != nil {
			t.Errorf("a pipe that is kept holds %d bytes, %v", n, err)
		}
	}
}
