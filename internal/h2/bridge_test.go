package h2

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"fairlead/internal/loop"
)

// pair returns a client whose server runs handle.
func pair(t *testing.T, cfg *Config, handle func(*Stream)) (*Client, *Server) {
	a, b := net.Pipe()
	d := &loop.Goroutines{}
	s := NewServer(d, loop.New(a), cfg, handle)
	ended := make(chan bool)
	go func() { s.Serve(nil); close(ended) }()
	k := NewClient(d, loop.New(b), cfg)
	t.Cleanup(func() {
		k.Abort()
		k.Wait()
		<-ended
	})
	return k, s
}

// readText reads from a connection until what has come ends in end.
func readText(t *testing.T, c loop.Conn, first []byte, end string) string {
	t.Helper()
	text := string(first)
	for !strings.HasSuffix(text, end) {
		b, err := c.Read(nil)
		if err != nil {
			t.Fatalf("after %q: %v", text, err)
		}
		text += string(b)
	}
	return text
}

// TestBridge: what a user of HTTP/1.1 sends and gets.
func TestBridge(t *testing.T) {
	respond := func(status int, lines, body string, trailer string) func(*Stream) {
		return func(s *Stream) {
			readAll(s)
			s.RespondBody(status, []byte(lines), []byte(body), trailer == "")
			if trailer != "" {
				s.WriteTrailer([]byte(trailer))
			}
		}
	}
	show := func(s *Stream) {
		h := s.Head()
		text := fmt.Sprintf("%s %s %s %s\n%s\n", h.Method, h.Scheme, h.Authority, h.Path, h.Lines)
		body, _ := readAll(s)
		s.RespondBody(200, nil, []byte(text+body+"\n"+string(s.Trailer())), true)
	}
	shown := func(body string) string {
		return fmt.Sprintf("HTTP/1.1 200 \r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	}
	const get = "GET /p?q HTTP/1.1\r\nHost: a.example\r\n\r\n"
	for _, test := range []struct {
		name   string
		handle func(*Stream)
		ask    []string // each with a Write of its own
		want   string
	}{
		{"GET", show, []string{get}, shown("GET http a.example /p?q\n\n\n")},
		{"fields", show, []string{"GET / HTTP/1.1\r\nhost: a.example\r\nX-A: b\r\nConnection: close\r\nTE: trailers\r\nCookie: c\r\n\r\n"},
			shown("GET http a.example /\nx-a: b\r\nte: trailers\r\ncookie: c\r\n\n\n")},
		{"head in pieces", show, []string{"GET / HT", "TP/1.1\r\nHost: a.exam", "ple\r\n\r", "\n"}, shown("GET http a.example /\n\n\n")},
		{"length", show, []string{"PUT / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 5\r\n\r\nhe", "llo"},
			shown("PUT http a.example /\ncontent-length: 5\r\n\nhello\n")},
		{"chunks", show, []string{"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", "A;x=y\r\n0123456789\r\n0\r\n\r\n"},
			shown("POST http a.example /\n\nabc0123456789\n")},
		{"chunks cut anywhere", show, []string{"POST / HTTP/1.1\r\nHost: a.example\r\nTransfer-Encoding: chunked\r\n\r\n", "3", "\r", "\na", "bc\r", "\n0", "\r\nT", ": u\r\n\r", "\n"},
			shown("POST http a.example /\n\nabc\nt: u\r\n")},
		{"content-length", respond(200, "content-length: 2\r\nx: y\r\n", "ok", ""), []string{get}, "HTTP/1.1 200 \r\ncontent-length: 2\r\nx: y\r\n\r\nok"},
		{"trailers", respond(200, "", "ok", "grpc-status: 0\r\n"), []string{get}, "HTTP/1.1 200 \r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\ngrpc-status: 0\r\n\r\n"},
		{"trailers behind a length", respond(200, "content-length: 2\r\ntrailer: x-sum\r\n", "ok", "x-sum: 1\r\n"), []string{get}, "HTTP/1.1 200 \r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n"},
		{"trailers behind no bytes", respond(200, "content-length: 0\r\ntrailer: x-sum\r\n", "", "x-sum: 1\r\n"), []string{get}, "HTTP/1.1 200 \r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx-sum: 1\r\n\r\n"},
		{"trailers that are not sent", respond(200, "content-length: 0\r\ntrailer: x-sum\r\n", "", ""), []string{get}, "HTTP/1.1 200 \r\ncontent-length: 0\r\ntrailer: x-sum\r\n\r\n"},
		{"HEAD that announces trailers", respond(200, "content-length: 9\r\ntrailer: x-sum\r\n", "", ""), []string{"HEAD / HTTP/1.1\r\nHost: a.example\r\n\r\n"}, "HTTP/1.1 200 \r\ncontent-length: 9\r\ntrailer: x-sum\r\n\r\n"},
		{"trailers alone", respond(200, "grpc-status: 5\r\n", "", ""), []string{get}, "HTTP/1.1 200 \r\ngrpc-status: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"204", respond(204, "", "", ""), []string{get}, "HTTP/1.1 204 \r\n\r\n"},
		{"304", respond(304, "content-length: 9\r\n", "", ""), []string{get}, "HTTP/1.1 304 \r\ncontent-length: 9\r\n\r\n"},
		{"HEAD", respond(200, "content-length: 9\r\n", "", ""), []string{"HEAD / HTTP/1.1\r\nHost: a.example\r\n\r\n"}, "HTTP/1.1 200 \r\ncontent-length: 9\r\n\r\n"},
		{"HEAD without length", respond(200, "", "", ""), []string{"HEAD / HTTP/1.1\r\nHost: a.example\r\n\r\n"}, "HTTP/1.1 200 \r\n\r\n"},
		{"interim", func(s *Stream) {
			s.Respond(103, []byte("link: x\r\n"), false)
			s.Respond(200, []byte("content-length: 0\r\n"), true)
		}, []string{get}, "HTTP/1.1 103 \r\nlink: x\r\n\r\nHTTP/1.1 200 \r\ncontent-length: 0\r\n\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, srv := pair(t, nil, test.handle)
				c := k.Conn()
				for range 3 { // one after the other over the same connection
					for _, p := range test.ask[:len(test.ask)-1] {
						if err := c.Write([]byte(p)); err != nil {
							t.Fatal(err)
						}
						synctest.Wait()
					}
					var first []byte
					var err error
					if last := []byte(test.ask[len(test.ask)-1]); len(test.ask) == 1 {
						first, err = c.Ask(last)
					} else if err = c.Write(last); err == nil {
						first, err = c.Read(nil)
					}
					if err != nil {
						t.Fatal(err)
					}
					if got := readText(t, c, first, test.want[len(test.want)-5:]); got != test.want {
						t.Fatalf("answer is\n%q, want\n%q", got, test.want)
					}
					synctest.Wait()
					c.Release()
					if !c.Quiet() || !c.Alive() {
						t.Error("not quiet after a complete exchange")
					}
				}
				c.Close()
				synctest.Wait()
				if k.Streams() != 0 || srv.Streams() != 0 {
					t.Errorf("%d and %d streams are left", k.Streams(), srv.Streams())
				}
			})
		})
	}
}

// TestBridgeBodies moves large bodies both ways at once, with prefixes.
func TestBridgeBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := pair(t, nil, func(s *Stream) {
			s.Respond(200, []byte("content-length: 3000000\r\n"), false)
			for {
				b, err := s.Read()
				if err == io.EOF {
					break
				}
				if err != nil || s.Write(b, false) != nil {
					return
				}
			}
			s.Write(nil, true)
		})
		body := bytes.Repeat([]byte("0123456789"), 300000)
		c := k.Conn()
		if err := c.Write([]byte("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		go c.Writev(body[:1000000], body[1000000:])
		var got []byte
		for {
			// The prefix lies in what was lent last.
			b, err := c.Read(nil)
			if err == nil && len(b) > 10 && len(got)+len(b) < 2900000 {
				keep := b[len(b)-5:]
				got = append(got, b[:len(b)-5]...)
				b, err = c.Read(keep)
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, b...); len(got) > 3000000 && bytes.HasSuffix(got, body) {
				break
			}
		}
		if !bytes.HasSuffix(got, body) {
			t.Error("body has changed on its way")
		}
		c.Close()
	})
}

// TestBridgeUpgrade: an upgrade is an extended CONNECT, and then a tunnel.
func TestBridgeUpgrade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := pair(t, &Config{ExtendedConnect: true}, func(s *Stream) {
			h := s.Head()
			if h.Protocol == nil || strings.Contains(string(h.Lines), "sec-websocket-key") {
				s.Respond(400, nil, true)
				return
			}
			s.Respond(200, []byte("sec-websocket-protocol: chat\r\n"), false)
			c := s.Tunnel()
			b, _ := c.Read(nil)
			c.Writev([]byte("you said "), b)
			if _, err := c.Read(nil); err != io.EOF {
				t.Errorf("tunnel ends with %v", err)
			}
			c.CloseWrite()
			c.Close()
		})
		c := k.Conn()
		b, err := c.Ask([]byte("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		const want = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nsec-websocket-protocol: chat\r\n\r\n"
		if string(b) != want {
			t.Fatalf("answer is %q, want %q", b, want)
		}
		c.Write([]byte("hi"))
		if got := readText(t, c, nil, "hi"); got != "you said hi" {
			t.Errorf("got %q", got)
		}
		c.CloseWrite()
		if _, err := c.Read(nil); err != io.EOF {
			t.Errorf("upgraded connection ends with %v", err)
		}
		c.Close()
	})
}

// TestBridgeUpgradeRefused: the answer is an ordinary one, and the exchange ends.
func TestBridgeUpgradeRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := pair(t, &Config{ExtendedConnect: true}, func(s *Stream) {
			s.RespondBody(403, []byte("content-length: 2\r\n"), []byte("no"), true)
			readAll(s)
		})
		c := k.Conn()
		b, err := c.Ask([]byte("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"))
		if err != nil || string(b) != "HTTP/1.1 403 \r\ncontent-length: 2\r\n\r\nno" {
			t.Fatalf("answer is %q (%v)", b, err)
		}
		if !c.Quiet() {
			t.Error("not quiet")
		}
		c.Close()
	})
}

func TestBridgeUpgradeNotOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := pair(t, nil, echo)
		c := k.Conn()
		_, err := c.Ask([]byte("GET /ws HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"))
		if err != ErrNoExtendedConnect {
			t.Errorf("upgrade fails with %v", err)
		}
		c.Close()
	})
}

// TestTunnelRelay: a relay carries bytes and half-closes between tunnels.
func TestTunnelRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := &Config{ExtendedConnect: true}
		inner, _ := pair(t, cfg, func(s *Stream) {
			s.Respond(200, nil, false)
			body, _ := readAll(s) // until the half-close
			s.Write([]byte(strings.ToUpper(body)), true)
		})
		outer, _ := pair(t, cfg, func(s *Stream) {
			c := inner.Conn()
			if _, err := c.Ask([]byte("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n")); err != nil {
				t.Error(err)
			}
			s.Respond(200, nil, false)
			if _, _, err := loop.Relay(&loop.Goroutines{}, s.Tunnel(), c, time.Minute); err != nil {
				t.Errorf("relay: %v", err)
			}
			c.Close()
		})
		s, err := outer.Open()
		if err != nil {
			t.Fatal(err)
		}
		h := getHead("CONNECT")
		h.Protocol = []byte("x")
		if err := s.Send(h, false); err != nil {
			t.Fatal(err)
		}
		s.ReadHead()
		s.Write([]byte("hello"), true)
		if body, err := readAll(s); err != nil || body != "HELLO" {
			t.Errorf("got %q (%v)", body, err)
		}
		s.Close()
	})
}

// TestBridgeNotProcessed: it is told of requests that were certainly not
// processed, and those that could not even be sent are stale.
func TestBridgeNotProcessed(t *testing.T) {
	const get = "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n"
	for _, test := range []struct {
		name string
		then func(d *dialled)
		want error // nil: any but ErrNotProcessed
	}{
		{"refused", func(d *dialled) { d.fr.WriteRSTStream(1, http2.ErrCodeRefusedStream) }, ErrNotProcessed},
		{"GOAWAY", func(d *dialled) { d.fr.WriteGoAway(0, 0, nil) }, ErrNotProcessed},
		{"reset", func(d *dialled) { d.fr.WriteRSTStream(1, http2.ErrCodeInternal) }, nil},
		{"lost", func(d *dialled) { d.nc.Close() }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := dial(t, nil)
				d.hello()
				c := d.k.Conn()
				go func() {
					d.want("HEADERS 1 " + sentGet + " end")
					test.then(d)
				}()
				_, err := c.Ask([]byte(get))
				if err == nil || errors.Is(err, ErrNotProcessed) != (test.want == ErrNotProcessed) || err == loop.ErrStale {
					t.Errorf("Ask fails with %v", err)
				}
				c.Close()
				d.done()
				c = d.k.Conn()
				if _, err := c.Ask([]byte(get)); err != loop.ErrStale || c.Quiet() || c.Alive() {
					t.Errorf("Ask over a lost connection fails with %v", err)
				}
				if err := c.Write([]byte(get)); err != loop.ErrStale {
					t.Errorf("Write over a lost connection fails with %v", err)
				}
			})
		})
	}
}

// TestBridgeCut: Abort and Close reset what is not complete, also while others
// use it.
func TestBridgeCut(t *testing.T) {
	for name, end := range map[string]func(loop.Conn){
		"Abort": func(c loop.Conn) { c.Abort() },
		"Close": func(c loop.Conn) { c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := dial(t, nil)
				d.hello(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 3})
				c := d.k.Conn()
				result := make(chan error, 2)
				c.Write([]byte("PUT / HTTP/1.1\r\nHost: a.example\r\nContent-Length: 9\r\n\r\n"))
				go func() { result <- c.Write([]byte("012345678")) }()
				go func() { _, err := c.Read(nil); result <- err }()
				synctest.Wait()
				end(c)
				for range 2 {
					if err := <-result; err == nil {
						t.Error("went on after the end")
					}
				}
				d.next()
				d.want(`DATA 1 "012"`, "RST_STREAM 1 CANCEL")
				if n := d.k.Streams(); n != 0 {
					t.Errorf("%d streams are left", n)
				}
				d.done()
			})
		})
	}
}

func TestBridgeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := errors.New("stop")
		k, _ := pair(t, nil, func(s *Stream) {
			time.Sleep(10 * time.Second)
			s.Respond(204, nil, true)
		})
		c := k.Conn()
		c.SetReadDeadline(loop.Now().Add(2 * time.Second))
		if _, err := c.Ask([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")); err != loop.ErrTimeout {
			t.Errorf("after the deadline: %v", err)
		}
		c.SetReadDeadline(0)
		go func() { time.Sleep(time.Second); c.Interrupt(stop) }()
		if _, err := c.Read(nil); err != stop {
			t.Errorf("after Interrupt: %v", err)
		}
		c.Resume()
		if b, err := c.Read([]byte("prefix ")); err != nil || string(b) != "prefix HTTP/1.1 204 \r\n\r\n" {
			t.Errorf("read on: %q (%v)", b, err)
		}
		c.Close()
	})
}

// TestBridgeRefusesToSend: what is not well-formed is not sent on.
func TestBridgeRefusesToSend(t *testing.T) {
	const chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, in := range []string{
		"GET /\r\n\r\n",
		"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nxy",
		"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nx",
		chunked + "x\r\n",
		chunked + "\r\n",
		chunked + "1\r\nabc",
		chunked + "1\r\na\rb",
		chunked + "0\r\n\r\nx",
	} {
		synctest.Test(t, func(t *testing.T) {
			k, _ := pair(t, nil, echo)
			c := k.Conn()
			if err := c.Write([]byte(in)); err == nil {
				t.Errorf("%q was sent", in)
			}
			c.Close()
		})
	}
}
