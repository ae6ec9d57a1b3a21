//go:build linux

package loop

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

func serverConfig() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{certificate()}, NextProtos: []string{"h2", "http/1.1"}}
}

func clientConfig() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(certificate().Leaf)
	return &tls.Config{ServerName: "loop.test", RootCAs: roots, NextProtos: []string{"http/1.1"}}
}

// accepted returns the next connection of a listener, of its driver.
func accepted(t *testing.T, d Driver, ln *net.TCPListener) Conn {
	t.Helper()
	nc, err := ln.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	if f, ok := d.(*fiberDriver); ok {
		return f.adopt(t, nc)
	}
	return New(nc)
}

// plain returns a connection of a driver and its other end.
func plain(t *testing.T, d Driver) (Conn, net.Conn) {
	t.Helper()
	ln, addr := listen(t)
	peer, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close() })
	c := accepted(t, d, ln)
	t.Cleanup(c.Abort)
	return c, peer
}

// Both sides on a driver's own connections, dialled and accepted.
func TestSecure(t *testing.T) {
	eachDriver(t, func(t *testing.T, d Driver) {
		ln, addr := listen(t)
		client, err := dial(d, addr, Sources{}, Now().Add(patience))
		if err != nil {
			t.Fatal(err)
		}
		server := accepted(t, d, ln)
		served := d.Spawn(func() {
			s, state, err := d.Secure(server, AsServer, serverConfig(), Now().Add(patience))
			if err != nil {
				t.Errorf("Secure() as the server = %v", err)
				server.Close()
				return
			}
			defer s.Close()
			if state.NegotiatedProtocol != "http/1.1" || state.ServerName != "loop.test" {
				t.Errorf("the server negotiated %q for %q", state.NegotiatedProtocol, state.ServerName)
			}
			b, err := s.Read(nil)
			if string(b) != "hello" {
				t.Errorf("Read() = %q, %v", b, err)
			}
			s.Write([]byte("world"))
		})
		d.Spawn(func() {
			c, state, err := d.Secure(client, AsClient, clientConfig(), 0)
			if err != nil {
				t.Errorf("Secure() as the client = %v", err)
				client.Close()
				return
			}
			defer c.Close()
			if len(state.PeerCertificates) != 1 || c.Remote() != addr {
				t.Errorf("%d certificates of %v", len(state.PeerCertificates), c.Remote())
			}
			b, err := c.Ask([]byte("hello"))
			if string(b) != "world" {
				t.Errorf("Ask() = %q, %v", b, err)
			}
			if b, err := c.Read(nil); err != io.EOF {
				t.Errorf("Read() = %q, %v; want the end in order", b, err)
			}
		}).Wait()
		served.Wait()
	})
}

// Whatever ends a handshake, it ends, and the connection is still its owner's.
func TestSecureFails(t *testing.T) {
	untrusting := clientConfig()
	untrusting.RootCAs = x509.NewCertPool()
	hello := clientHello(t)
	for _, c := range []struct {
		name   string
		peer   func(c Conn, peer net.Conn)
		within time.Duration
		want   func(error) bool
	}{
		{"silence", func(Conn, net.Conn) {}, 30 * time.Millisecond, func(err error) bool { return err == ErrTimeout }},
		{"no time", func(Conn, net.Conn) {}, -time.Second, func(err error) bool { return err == ErrTimeout }},
		{"part of a hello", func(_ Conn, peer net.Conn) { peer.Write(hello[:50]) }, 30 * time.Millisecond, func(err error) bool { return err == ErrTimeout }},
		{"a hello and silence", func(_ Conn, peer net.Conn) { peer.Write(hello) }, 60 * time.Millisecond, func(err error) bool { return err == ErrTimeout }},
		{"part of a hello and the end", func(_ Conn, peer net.Conn) {
			peer.Write(hello[:50])
			peer.Close()
		}, patience, func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
		{"the end", func(_ Conn, peer net.Conn) { peer.Close() }, patience, func(err error) bool { return err == io.EOF }},
		{"a reset", func(_ Conn, peer net.Conn) { abort(peer) }, patience, func(err error) bool { return errors.Is(err, syscall.ECONNRESET) }},
		{"a request without TLS", func(_ Conn, peer net.Conn) { io.WriteString(peer, "GET / HTTP/1.1\r\nHost: a\r\n\r\n") }, patience,
			func(err error) bool { return errors.As(err, new(tls.RecordHeaderError)) }},
		{"garbage", func(_ Conn, peer net.Conn) { peer.Write(pattern(40, 100_000)) }, patience, func(err error) bool { return err != nil && err != ErrTimeout }},
		{"a client that does not trust", func(_ Conn, peer net.Conn) { tls.Client(peer, untrusting).Handshake() }, patience,
			func(err error) bool { return errors.As(err, new(*net.OpError)) }}, // its alert
		{"an interruption", func(c Conn, _ net.Conn) { c.Interrupt(errCause) }, patience, func(err error) bool { return err == errCause }},
		{"Abort", func(c Conn, _ net.Conn) { c.Abort() }, patience, isClosed},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachDriver(t, func(t *testing.T, d Driver) {
				conn, peer := plain(t, d)
				go c.peer(conn, peer)
				d.Spawn(func() {
					deadline := Now().Add(c.within)
					s, _, err := d.Secure(conn, AsServer, serverConfig(), deadline)
					if s != nil || !c.want(err) {
						t.Errorf("Secure() = %v", err)
					}
					if err == ErrTimeout && Now() < deadline {
						t.Errorf("it ended %v before its deadline", deadline.Sub(Now()))
					}
					conn.Close()
				}).Wait()
			})
		})
	}
}

// clientHello returns what a client says first.
func clientHello(t *testing.T) []byte {
	a, b := net.Pipe()
	defer b.Close()
	go tls.Client(a, clientConfig()).Handshake()
	buf := make([]byte, 4096)
	n, err := b.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}

// trickle is a connection whose bytes are written one by one.
type trickle struct{ net.Conn }

func (c trickle) Write(b []byte) (int, error) {
	for i := range b {
		if _, err := c.Conn.Write(b[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(b), nil
}

// A peer that sends byte by byte is served, during the handshake and after it,
// and another connection meanwhile.
func TestSecureSlowPeer(t *testing.T) {
	eachDriver(t, func(t *testing.T, d Driver) {
		conn, peer := plain(t, d)
		other, otherPeer := plain(t, d)
		done := d.Spawn(func() {
			s, _, err := d.Secure(conn, AsServer, serverConfig(), Now().Add(patience))
			if err != nil {
				t.Errorf("Secure() = %v", err)
				return
			}
			s.SetReadDeadline(Now().Add(patience))
			var got []byte
			for len(got) < 3000 && err == nil {
				var b []byte
				b, err = s.Read(got)
				got = bytes.Clone(b)
			}
			if !bytes.Equal(got, pattern(41, 3000)) {
				t.Errorf("read %d bytes, %v", len(got), err)
			}
			s.Close()
		})
		echoing := d.Spawn(func() { echo(d, other) })
		c := tls.Client(trickle{peer}, clientConfig())
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		otherPeer.Write([]byte("x"))
		if _, err := io.ReadFull(otherPeer, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		c.Write(pattern(41, 3000))
		done.Wait()
		otherPeer.Close()
		echoing.Wait()
	})
}

// Two ends that both write more than fits, and read only then, each by tasks of
// their own, do not block each other, nor anything else.
func TestSecureBothDirectionsFull(t *testing.T) {
	eachDriver(t, func(t *testing.T, d Driver) {
		ln, addr := listen(t)
		client, err := dial(d, addr, Sources{}, Now().Add(patience))
		if err != nil {
			t.Fatal(err)
		}
		server := accepted(t, d, ln)
		const total = 24 << 20
		both := func(c Conn, seed uint64) {
			c.SetReadDeadline(Now().Add(2 * patience))
			c.SetWriteTimeout(patience)
			data := pattern(seed, 1<<20)
			writer := d.Spawn(func() {
				for range total / len(data) {
					if err := c.Write(data); err != nil {
						t.Errorf("Write() = %v", err)
						return
					}
				}
				c.CloseWrite()
			})
			d.Sleep(50 * time.Millisecond) // until both are full
			want, got := pattern(seed^1, 1<<20), 0
			for {
				b, err := c.Read(nil)
				if err != nil {
					if err != io.EOF || got != total {
						t.Errorf("Read() after %d bytes = %v", got, err)
					}
					break
				}
				for len(b) > 0 {
					at := got % len(want)
					n := min(len(b), len(want)-at)
					if !bytes.Equal(b[:n], want[at:at+n]) {
						t.Errorf("what came differs after %d bytes", got)
						c.Abort()
						return
					}
					b, got = b[n:], got+n
				}
			}
			writer.Wait()
			c.Close()
		}
		var tasks []Task
		for _, s := range []struct {
			c      Conn
			side   Side
			config *tls.Config
			seed   uint64
		}{{client, AsClient, clientConfig(), 50}, {server, AsServer, serverConfig(), 51}} {
			tasks = append(tasks, d.Spawn(func() {
				c, _, err := d.Secure(s.c, s.side, s.config, Now().Add(patience))
				if err != nil {
					t.Errorf("Secure() = %v", err)
					s.c.Close()
					return
				}
				both(c, s.seed)
			}))
		}
		for _, task := range tasks {
			task.Wait()
		}
	})
}

// Session tickets, which come unasked, do not make a connection stale, and those
// of one connection serve the next.
func TestSecureResumes(t *testing.T) {
	eachEngine(t, Options{Loops: 1}, func(t *testing.T, e Engine) {
		d := e.Drivers()[0]
		config := serverConfig()
		ln := serveOn(t, e, loopback, func(d Driver, c Conn) {
			s, _, err := d.Secure(c, AsServer, config, Now().Add(patience))
			if err != nil {
				t.Errorf("Secure() as the server = %v", err)
				return
			}
			echo(d, s)
			s.Close()
		})
		client := clientConfig()
		client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		for i := range 3 {
			onTask(d, func() {
				c, err := d.Dial(ln.Addr(), Sources{}, Now().Add(patience))
				if err != nil {
					t.Error(err)
					return
				}
				s, state, err := d.Secure(c, AsClient, client, Now().Add(patience))
				if err != nil {
					t.Error(err)
					c.Close()
					return
				}
				defer s.Close()
				if state.DidResume != (i > 0) {
					t.Errorf("handshake %d: resumed is %v", i, state.DidResume)
				}
				d.Sleep(5 * time.Millisecond) // the ticket comes
				s.SetReadDeadline(Now().Add(patience))
				for range 2 {
					if b, err := s.Ask([]byte("hello")); string(b) != "hello" {
						t.Errorf("Ask() = %q, %v", b, err)
					}
				}
			})
		}
	})
}

// A record that has come in part is something that has come.
func TestSecureQuietInsideARecord(t *testing.T) {
	conn, peer := plain(t, fibers)
	var s Conn
	var err error
	done := fibers.Spawn(func() { s, _, err = fibers.Secure(conn, AsServer, serverConfig(), Now().Add(patience)) })
	cut := &cutter{Conn: peer}
	c := tls.Client(cut, clientConfig())
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	done.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{1, 4, 5, 6, 20} {
		cut.at = at
		if _, err := c.Write([]byte("a record")); err != nil {
			t.Fatal(err)
		}
		until(t, "part of it has come", func() bool { return received(ownTCP(s)) == at })
		fibers.Spawn(func() {
			for range 2 {
				if s.Quiet() {
					t.Errorf("Quiet() after %d bytes of a record", at)
				}
			}
			if _, err := s.Ask([]byte("question")); err != ErrStale {
				t.Errorf("Ask() after %d bytes of a record = %v, want ErrStale", at, err)
			}
		}).Wait()
		peer.Write(cut.rest)
		fibers.Spawn(func() {
			if b, err := s.Read(nil); string(b) != "a record" {
				t.Errorf("Read() = %q, %v", b, err)
			}
			if !s.Quiet() {
				t.Error("Quiet() = false after all was read")
			}
		}).Wait()
	}
}

// cutter writes the first bytes of what it is given, and keeps the rest.
type cutter struct {
	net.Conn
	at   int // 0 is no cut
	rest []byte
}

func (c *cutter) Write(b []byte) (int, error) {
	if c.at > 0 {
		c.rest = bytes.Clone(b[c.at:])
		c.Conn.Write(b[:c.at])
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// Many handshakes at once, some of which are abandoned.
func TestSecureManyAtOnce(t *testing.T) {
	eachEngine(t, Options{Loops: 2}, func(t *testing.T, e Engine) {
		config := serverConfig()
		ln := serveOn(t, e, loopback, func(d Driver, c Conn) {
			s, _, err := d.Secure(c, AsServer, config, Now().Add(patience))
			if err != nil {
				return // abandoned
			}
			echo(d, s)
			s.Close()
		})
		hello := clientHello(t)
		var wg sync.WaitGroup
		for i := range 60 {
			wg.Go(func() {
				nc, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				defer nc.Close()
				if i%3 == 0 {
					nc.Write(hello[:len(hello)*i/60])
					return
				}
				c := tls.Client(nc, clientConfig())
				c.SetDeadline(time.Now().Add(patience))
				c.Write([]byte("hello"))
				b := make([]byte, 5)
				if _, err := io.ReadFull(c, b); err != nil || string(b) != "hello" {
					t.Errorf("read %q, %v", b, err)
				}
				c.Close()
			})
		}
		wg.Wait()
	})
}
