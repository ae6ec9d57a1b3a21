//go:build linux

package loop

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

var errPreamble = errors.New("malformed by the test")

// untilEnd asks for one byte more until it has "end", and refuses "bad".
func untilEnd(seen *string) func(b []byte) (int, error) {
	return func(b []byte) (int, error) {
		*seen = string(b)
		switch n := len(b); {
		case n >= 3 && string(b[n-3:]) == "bad":
			return 0, errPreamble
		case n >= 3 && string(b[n-3:]) == "end":
			return 0, nil
		case n < 3:
			return 3 - n, nil
		}
		return 1, nil
	}
}

// A preamble is read to its last byte, however it comes, and what is behind it is
// there for whoever reads next, be it TLS.
func TestPreamble(t *testing.T) {
	eachDriver(t, func(t *testing.T, d Driver) {
		for _, pieces := range [][]string{{"preamble end", "behind"}, {"preamble endbehind"}, {"p", "reamble e", "n", "d", "behind"}} {
			c, peer := plain(t, d)
			go func() {
				for _, piece := range pieces {
					io.WriteString(peer, piece)
					time.Sleep(5 * time.Millisecond)
				}
			}()
			d.Spawn(func() {
				var seen string
				if err := d.Preamble(c, Now().Add(patience), untilEnd(&seen)); err != nil || seen != "preamble end" {
					t.Errorf("Preamble() = %v with %q", err, seen)
				}
				c.SetReadDeadline(Now().Add(patience))
				var got []byte
				for len(got) < len("behind") {
					b, err := c.Read(nil)
					if err != nil {
						t.Errorf("behind it: %q, %v", got, err)
						return
					}
					got = append(got, b...)
				}
				if string(got) != "behind" {
					t.Errorf("behind it is %q", got)
				}
			}).Wait()
		}
	})
}

func TestPreambleFails(t *testing.T) {
	for _, test := range []struct {
		name   string
		peer   func(c Conn, peer net.Conn)
		within time.Duration
		want   error
	}{
		{"silence", func(Conn, net.Conn) {}, 30 * time.Millisecond, ErrTimeout},
		{"part of it", func(_ Conn, peer net.Conn) { io.WriteString(peer, "prea") }, 30 * time.Millisecond, ErrTimeout},
		{"no time", func(Conn, net.Conn) {}, -time.Second, ErrTimeout},
		{"malformed", func(_ Conn, peer net.Conn) { io.WriteString(peer, "bad") }, patience, errPreamble},
		{"the end", func(_ Conn, peer net.Conn) { peer.Close() }, patience, io.ErrUnexpectedEOF},
		{"part of it and the end", func(_ Conn, peer net.Conn) {
			io.WriteString(peer, "prea")
			peer.Close()
		}, patience, io.ErrUnexpectedEOF},
		{"an interruption", func(c Conn, _ net.Conn) { c.Interrupt(errCause) }, patience, errCause},
	} {
		t.Run(test.name, func(t *testing.T) {
			eachDriver(t, func(t *testing.T, d Driver) {
				c, peer := plain(t, d)
				go test.peer(c, peer)
				d.Spawn(func() {
					var seen string
					if err := d.Preamble(c, Now().Add(test.within), untilEnd(&seen)); err != test.want {
						t.Errorf("Preamble() = %v, want %v", err, test.want)
					}
					c.Close()
				}).Wait()
			})
		})
	}
}
