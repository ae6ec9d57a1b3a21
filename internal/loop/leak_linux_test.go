package loop

import (
	"io"
	"net"
	"runtime"
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
	t.Run("goroutines", func(t *testing.T) {
		nothingLeaks(t, goroutines, func(t *testing.T, nc *net.TCPConn) Conn { return New(nc) })
	})
	t.Run("fibers", func(t *testing.T) {
		nothingLeaks(t, fibers, func(t *testing.T, nc *net.TCPConn) Conn { return fibers.adopt(t, nc) })
	})
}

func nothingLeaks(t *testing.T, d Driver, wrap func(*testing.T, *net.TCPConn) Conn) {
	ln, addr := listen(t)
	type counts struct {
		goroutines, descriptors, fibers, conns int
		buffers                                int64
	}
	count := func() (c counts) {
		free := 0
		fibers.do(func() {
			free, c.fibers, c.conns = len(fibers.free), fibers.made-len(fibers.free), fibers.open
		})
		c.goroutines = runtime.NumGoroutine() - free
		c.descriptors = descriptors(t) - 2*freePipes()
		c.buffers = lent.Load()
		return c
	}

	bulk := make([]byte, 2*copyFirst)
	one := func(i int, dst Conn) {
		c, err := d.Dial(addr, Sources{}, Now().Add(patience))
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
			if dst != nil { // spliced in a circle, then cut
				writer := d.Spawn(func() { c.Write(bulk) })
				Move(dst, c, int64(len(bulk))-1000, Moving{Timeout: patience})
				c.Abort()
				writer.Wait()
				dst.Close()
			}
		}
		c.Release()
		c.Close()
	}
	round := func(n int) {
		const together = 25
		for i := 0; i < n; i += together {
			var tasks []Task
			for k := range together {
				var dst Conn
				if (i+k)%40 == 4 {
					nc, peer := sockets(t)
					go func() {
						io.Copy(io.Discard, peer)
						peer.Close()
					}()
					dst = wrap(t, nc)
				}
				tasks = append(tasks, d.Spawn(func() { one(i+k, dst) }))
			}
			for range together {
				nc, err := ln.AcceptTCP()
				if err != nil {
					t.Fatal(err)
				}
				c := wrap(t, nc)
				tasks = append(tasks, d.Spawn(func() {
					defer c.Close()
					defer c.Release()
					echo(d, c)
				}))
			}
			for _, task := range tasks {
				task.Wait()
			}
		}
	}
	round(50) // what is made once
	before := count()
	round(2000)
	// What other tests left may end meanwhile.
	var after counts
	defer func() { t.Logf("%+v before, %+v after", before, after) }()
	until(t, "nothing is left", func() bool {
		after = count()
		return after.goroutines <= before.goroutines && after.descriptors <= before.descriptors && after.buffers <= before.buffers &&
			after.fibers <= before.fibers && after.conns <= before.conns
	})
	if n := freePipes(); n > maxFreePipes {
		t.Errorf("%d pipes are kept, want at most %d", n, maxFreePipes)
	}
}

// eachSplice runs f with routes that are spliced.
func eachSplice(t *testing.T, f func(t *testing.T, r route)) {
	for _, name := range []string{"socket", "fiber socket"} {
		t.Run(name, func(t *testing.T) { f(t, route{kindOf(name).new(t), kindOf(name).new(t)}) })
	}
}

// Without a descriptor for a pipe, a bulk stream is copied to its end.
func TestMoveWithoutPipes(t *testing.T) {
	eachSplice(t, func(t *testing.T, r route) {
		data := pattern(7, 4*copyFirst)
		pipes.Lock()
		free := pipes.free
		pipes.free = nil
		pipes.Unlock()
		for _, p := range free {
			p.put(false)
		}
		defer withoutDescriptors(t)()
		go feed(r.src.peer, data)
		task, m := r.move(int64(len(data)), Moving{Timeout: patience})
		r.dst.expect(data)
		task.Wait()
		m.want(t, int64(len(data)), nil, nil)
		if n := freePipes(); n != 0 {
			t.Errorf("%d pipes were made", n)
		}
	})
}

// Pipes are only kept when they are empty.
func TestPipesAreKeptEmpty(t *testing.T) {
	eachSplice(t, func(t *testing.T, r route) {
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
	})
}
