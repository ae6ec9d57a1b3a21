package loop

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
)

// halver sends the first half of a write, and the rest when it is told to.
type halver struct {
	net.Conn
	halve bool
	rest  chan []byte
}

func (h *halver) Write(b []byte) (int, error) {
	if !h.halve {
		return h.Conn.Write(b)
	}
	h.rest <- append([]byte(nil), b[len(b)/2:]...)
	_, err := h.Conn.Write(b[:len(b)/2])
	return len(b), err
}

// A prefix outlives every wait of a read, of which there are several when
// readiness brings no bytes: part of a TLS record, or a wake-up for nothing.
// What other connections of the loop read meanwhile must not get into it.
func TestPrefixOutlivesWaits(t *testing.T) {
	const first, second = "GET /one-half-of-a-head ", "and the other half"
	overwrite := func(t *testing.T) { // the loop's buffer, by another connection
		other := kindOf("fiber socket").new(t)
		other.write(pattern(9, 200))
		other.wantRead(pattern(9, 200))
	}
	read := func(c Conn, then func(b []byte)) Task {
		return fibers.Spawn(func() {
			underTest(func() {
				b, err := c.Read(nil)
				if err != nil || string(b) != first {
					t.Errorf("Read() = %q, %v", b, err)
				}
				if b, err = c.Read(b); err != nil {
					t.Errorf("Read() = %v", err)
				}
				then(b)
			})
		})
	}
	want := func(b []byte) {
		if string(b) != first+second {
			t.Errorf("Read() = %q, want %q", b, first+second)
		}
	}
	t.Run("part of a record", func(t *testing.T) {
		in, out := sockets(t)
		h := &halver{Conn: out, rest: make(chan []byte, 1)}
		roots := x509.NewCertPool()
		roots.AddCert(certificate().Leaf)
		peer := tls.Client(h, &tls.Config{ServerName: "loop.test", RootCAs: roots})
		defer peer.Close()
		done := make(chan error, 1)
		go func() { done <- peer.Handshake() }()
		plain := fibers.adopt(t, in)
		var c Conn
		var err error
		fibers.Spawn(func() {
			c, _, err = fibers.Secure(plain, AsServer, &tls.Config{Certificates: []tls.Certificate{certificate()}}, Now().Add(patience))
		}).Wait()
		if err != nil || <-done != nil {
			t.Fatal(err)
		}
		defer func() { fibers.Spawn(func() { c.Close() }).Wait() }()
		task := read(c, want)
		peer.Write([]byte(first))
		until(t, "the second read waits", fibers.waits)
		h.halve = true
		peer.Write([]byte(second))
		until(t, "half a record was read", func() bool {
			var quiet bool
			fibers.do(func() { quiet = plain.in.waiter != nil && !plain.in.ready })
			return quiet && received(fiberSocket{plain}) == 0
		})
		overwrite(t)
		out.Write(<-h.rest)
		h.halve = false
		task.Wait()
	})
	t.Run("woken for nothing", func(t *testing.T) {
		p := kindOf("fiber socket").new(t)
		c := p.c.(*fiberConn)
		task := read(c, want)
		p.write([]byte(first))
		until(t, "the second read waits", fibers.waits)
		fibers.do(func() {
			c.in.ready = true
			c.in.wake()
		})
		until(t, "it waits again", func() bool {
			var waits bool
			fibers.do(func() { waits = c.in.waiter != nil && !c.in.ready })
			return waits
		})
		overwrite(t)
		p.write([]byte(second))
		task.Wait()
	})
}
