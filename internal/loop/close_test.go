//go:build linux

package loop

import (
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
)

func TestHalfClose(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		var err error
		p.do(func() { err = p.c.CloseWrite() })
		if p.pipe {
			if err == nil {
				t.Error("CloseWrite() = nil, although a pipe has no halves")
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(p.peer); len(b) > 0 || err != nil {
			t.Fatalf("the other end read %q, %v; want the end", b, err)
		}
		p.do(func() {
			if !p.c.Alive() {
				t.Error("Alive() = false, although only this end's half is closed")
			}
		})
		p.write([]byte("answer")) // the other half goes on
		p.wantRead([]byte("answer"))
		p.do(func() { err = p.c.Write([]byte("x")) })
		if err == nil {
			t.Error("Write() after CloseWrite() = nil")
		}
		p.peer.(interface{ CloseWrite() error }).CloseWrite()
		p.wantReadErr(io.EOF)
	})
}

func TestHalfCloseByTheOtherEnd(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		if p.pipe {
			return
		}
		p.write([]byte("question"))
		p.peer.(interface{ CloseWrite() error }).CloseWrite()
		p.wantRead([]byte("question"))
		p.wantReadErr(io.EOF)
		p.do(func() {
			if err := p.c.Write([]byte("answer")); err != nil {
				t.Errorf("Write() = %v, although the other end still reads", err)
			}
			p.c.Close()
		})
		if b, err := io.ReadAll(p.peer); string(b) != "answer" || err != nil {
			t.Fatalf("the other end read %q, %v", b, err)
		}
	})
}

// Close sends what was written, Abort tells that the stream was cut.
func TestCloseAndAbort(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		if p.pipe {
			return
		}
		data := pattern(12, 200_000)
		read := make(chan []byte)
		go func() {
			b, _ := io.ReadAll(p.peer)
			read <- b
		}()
		p.do(func() {
			p.c.Write(data)
			p.c.Close()
		})
		same(t, "what was written before Close", <-read, data)

		p = p.kind.new(t)
		p.do(func() { p.c.Write([]byte("part")) })
		p.expect([]byte("part"))
		p.c.Abort()
		b := make([]byte, 1)
		n, err := p.peer.Read(b)
		if n > 0 || err == nil || err == io.EOF {
			t.Errorf("the other end read %d bytes, %v, after Abort; want an error that is no end", n, err)
		}
		if !isReset(err) {
			t.Errorf("the other end got %v, want a reset", err)
		}
	})
}

// However it comes to be known first, a reset never looks like the end of the
// stream.
func TestResetIsNeverTheEnd(t *testing.T) {
	for _, c := range []struct {
		name  string
		known func(p *pair)
	}{
		{"by Read", func(*pair) {}},
		{"by Alive", func(p *pair) { p.c.Alive() }},
		{"by Quiet", func(p *pair) { p.c.Quiet() }},
		{"by Write", func(p *pair) { p.c.Write([]byte("x")) }},
		{"by two Writes", func(p *pair) { p.c.Write([]byte("x")); p.c.Write([]byte("x")) }},
		{"by Writev", func(p *pair) { p.c.Writev([]byte("x"), []byte("y")) }},
		{"by Ask", func(p *pair) { p.c.Ask([]byte("x")) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, p *pair) {
				if p.pipe {
					return // has no resets
				}
				p.write([]byte("part"))
				p.wantRead([]byte("part"))
				p.reset()
				p.do(func() { c.known(p) })
				for range 3 {
					b, err := p.read(nil)
					if err == nil || err == io.EOF || p.socket && !isReset(err) {
						t.Fatalf("Read() = %q, %v; want a reset", b, err)
					}
				}
				p.do(func() {
					if p.c.Alive() || p.c.Quiet() {
						t.Error("Alive() or Quiet() of a connection that was reset")
					}
				})
			})
		})
	}
}

func TestCloseDuring(t *testing.T) {
	for name, end := range map[string]func(Conn){
		"Close": func(c Conn) { c.Close() },
		"Abort": Conn.Abort,
	} {
		t.Run(name, func(t *testing.T) {
			eachWait(t, func(t *testing.T, p *pair, wait func(Conn) error, _ bool) {
				var err error
				task := p.start(func() { err = wait(p.c) })
				p.waited()
				p.do(func() { end(p.c) })
				task.Wait()
				if !isClosed(err) {
					t.Errorf("returned %v, want net.ErrClosed", err)
				}
				p.do(func() { err = wait(p.c) })
				if !isClosed(err) && err != ErrStale {
					t.Errorf("returned %v when closed, want net.ErrClosed", err)
				}
			})
		})
	}
}

func TestCloseRace(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			for range 30 {
				p := k.new(t)
				go io.Copy(p.peer, p.peer)
				var tasks []Task
				for range 2 {
					tasks = append(tasks, p.driver.Spawn(func() {
						runtime.Gosched()
						p.c.Interrupt(errCause)
						p.c.Close()
						p.c.Abort()
						p.c.Alive()
					}))
				}
				tasks = append(tasks, p.driver.Spawn(func() {
					for p.c.Write([]byte("x")) == nil {
					}
				}))
				p.do(func() {
					for {
						if _, err := p.c.Read(nil); err != nil {
							return
						}
						p.c.Quiet()
					}
				})
				for _, task := range tasks {
					task.Wait()
				}
				p.peer.Close()
			}
		})
	}
}

// A connection that was closed must not touch the one that got its descriptor.
func TestDescriptorIsUsedAgain(t *testing.T) {
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			if k.pipe {
				return
			}
			for range 20 {
				old := k.new(t)
				var stop atomic.Bool
				reader := old.driver.Spawn(func() {
					for !stop.Load() {
						if b, err := old.c.Read(nil); err == nil {
							t.Errorf("a closed connection read %q", b)
							return
						}
						old.c.Alive()
						old.c.Quiet()
						pause(old.driver)
					}
				})
				writer := old.driver.Spawn(func() {
					for !stop.Load() {
						old.c.Write([]byte("stray"))
						pause(old.driver)
					}
				})
				go io.Copy(io.Discard, old.peer)
				old.do(func() { old.c.Close() })
				next := k.new(t) // with the same descriptor, most likely
				next.write([]byte("mine"))
				next.wantRead([]byte("mine"))
				next.do(func() { next.c.Write([]byte("own")) })
				next.expect([]byte("own"))
				stop.Store(true)
				reader.Wait()
				writer.Wait()
				next.do(func() {
					if next.socket && !next.c.Quiet() {
						t.Error("the new connection is not quiet")
					}
				})
			}
		})
	}
}

func TestAliveAndQuiet(t *testing.T) {
	for _, c := range []struct {
		name         string
		make         func(p *pair)
		alive, quiet bool
	}{
		{"fresh", func(*pair) {}, true, true},
		{"used", func(p *pair) {
			p.write([]byte("x"))
			p.wantRead([]byte("x"))
		}, true, true},
		{"bytes wait", func(p *pair) {
			p.write([]byte("x"))
			until(p.t, "they have come", func() bool { return received(ownTCP(p.c)) > 0 })
		}, true, false},
		{"closed by the other end", (*pair).ended, false, false},
		{"bytes wait, closed by the other end", func(p *pair) {
			p.write([]byte("x"))
			p.ended()
		}, false, false},
		{"reset by the other end", (*pair).reset, false, false},
		{"own half closed", func(p *pair) { p.do(func() { p.c.CloseWrite() }) }, true, true},
		{"interrupted", func(p *pair) { p.c.Interrupt(errCause) }, true, true},
		{"deadline passed", func(p *pair) { p.timesOut(1) }, true, true},
		{"closed", func(p *pair) { p.do(func() { p.c.Close() }) }, false, false},
		{"aborted", func(p *pair) { p.c.Abort() }, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			each(t, func(t *testing.T, p *pair) {
				if p.pipe {
					return // nothing to look at
				}
				c.make(p)
				for range 2 {
					p.do(func() {
						if a, q := p.c.Alive(), p.c.Quiet(); a != c.alive || q != c.quiet {
							t.Errorf("Alive() = %v, Quiet() = %v; want %v, %v", a, q, c.alive, c.quiet)
						}
					})
				}
			})
		})
	}
	t.Run("while a task reads", func(t *testing.T) {
		each(t, func(t *testing.T, p *pair) {
			if p.pipe {
				return
			}
			data := pattern(13, 1<<20)
			p.write(data)
			var stop atomic.Bool
			looks := p.driver.Spawn(func() {
				for !stop.Load() {
					if !p.c.Alive() {
						t.Error("Alive() = false while bytes come")
						return
					}
					pause(p.driver)
				}
			})
			p.wantRead(data) // looking takes nothing away
			stop.Store(true)
			looks.Wait()
		})
	})
}

func TestAddresses(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		if p.pipe {
			if p.c.Remote().IsValid() || p.c.Local().IsValid() {
				t.Error("a pipe has addresses")
			}
			return
		}
		ap := func(a net.Addr) netip.AddrPort { return a.(*net.TCPAddr).AddrPort() }
		if got, want := p.c.Remote(), ap(p.peer.LocalAddr()); got != want {
			t.Errorf("Remote() = %v, want %v", got, want)
		}
		p.do(func() {
			if got, want := p.c.Local(), ap(p.peer.RemoteAddr()); got != want {
				t.Errorf("Local() = %v, want %v", got, want)
			}
		})
		remote := p.c.Remote()
		p.do(func() { p.c.Close() })
		if p.c.Remote() != remote {
			t.Error("Remote() has changed with Close()")
		}
	})
}

// A write that the other end's reset cuts short fails.
func TestWriteToReset(t *testing.T) {
	each(t, func(t *testing.T, p *pair) {
		if p.pipe {
			return
		}
		var err error
		task := p.start(func() { err = p.c.Write(make([]byte, 32<<20)) })
		p.waited()
		abort(p.peer)
		task.Wait()
		if err == nil || !isReset(err) {
			t.Errorf("Write() = %v, want a reset", err)
		}
	})
}

// What was noted first stays, and EPIPE alone is no break.
func TestBreakage(t *testing.T) {
	var k breakage
	for _, err := range []error{nil, errCause, &net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}} {
		k.note(err)
		if got := k.end(io.EOF); got != io.EOF {
			t.Errorf("end() after note(%v) = %v, want EOF", err, got)
		}
	}
	first := os.NewSyscallError("send", syscall.ECONNRESET)
	k.note(first)
	k.note(syscall.ETIMEDOUT)
	if got := k.end(io.EOF); got != first {
		t.Errorf("end() = %v, want what came first", got)
	}
}
