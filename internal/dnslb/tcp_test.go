package dnslb

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// framed is a query as streams have it.
func framed(t testing.TB, id uint16, name, kind string) []byte {
	t.Helper()
	m := query(name, kind)
	m.Id = id
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...)
}

func dial(t testing.TB, address string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(10 * time.Second))
	return c.(*net.TCPConn)
}

// readAnswer reads one answer.
func readAnswer(t testing.TB, c net.Conn) *dns.Msg {
	t.Helper()
	var head [2]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, binary.BigEndian.Uint16(head[:]))
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatal(err)
	}
	m := new(dns.Msg)
	if err := m.Unpack(b); err != nil {
		t.Fatal(err)
	}
	return m
}

// ended waits for the server to end a connection.
func ended(t testing.TB, c net.Conn) {
	t.Helper()
	var b [1]byte
	if n, err := c.Read(b[:]); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection goes on: %d, %v", n, err)
	}
}

// Queries that come together, in pieces, and before the end of what a client
// sends, are all answered, on their connection.
func TestPipelining(t *testing.T) {
	for _, kind := range engines {
		p, _ := start(t, kind, listenerText("")+zoneText)
		address := at(t, p, "dns")
		three := append(append(framed(t, 1, "www.example.com", "A"), framed(t, 2, "www.example.com", "AAAA")...), framed(t, 3, "nope.example.com", "A")...)
		var many []byte
		for i := range 500 {
			many = append(many, framed(t, uint16(i), "example.com", "MX")...)
		}
		for _, c := range []struct {
			name string
			send func(*net.TCPConn)
			want int
		}{
			{"three at once", func(c *net.TCPConn) { c.Write(three) }, 3},
			{"three in single bytes", func(c *net.TCPConn) {
				c.SetNoDelay(true)
				for i := range three {
					c.Write(three[i : i+1])
				}
			}, 3},
			{"500 in one write", func(c *net.TCPConn) { c.Write(many) }, 500},
			{"one, and the end", func(c *net.TCPConn) { c.Write(three[:len(framed(t, 1, "www.example.com", "A"))]); c.CloseWrite() }, 1},
		} {
			t.Run(kind+" "+c.name, func(t *testing.T) {
				conn := dial(t, address)
				go c.send(conn)
				seen := make(map[uint16]bool)
				for range c.want {
					m := readAnswer(t, conn)
					if seen[m.Id] || m.Rcode == dns.RcodeFormatError || m.Truncated {
						t.Fatalf("answer %v", m)
					}
					seen[m.Id] = true
				}
				if c.want == 1 {
					ended(t, conn)
					return
				}
				// It stays open for the next one.
				conn.Write(framed(t, 9999, "www.example.com", "A"))
				if m := readAnswer(t, conn); m.Id != 9999 {
					t.Errorf("after those, answer %d", m.Id)
				}
			})
		}
	}
}

// A client that does not read is not read from for ever, nor kept.
func TestLimits(t *testing.T) {
	const text = `limits: {header_timeout: 100ms, idle_timeout: 150ms, body_timeout: 100ms, connections: 20, connections_per_client: 3}`
	for _, kind := range engines {
		t.Run(kind, func(t *testing.T) {
			p, _ := start(t, kind, listenerText(text)+zoneText)
			address := at(t, p, "dns")
			stats := &p.current()[0].stats
			for _, c := range []struct {
				name string
				do   func(*net.TCPConn)
				what limit
			}{
				{"nothing is asked", func(c *net.TCPConn) {}, limitIdle},
				{"half a query", func(c *net.TCPConn) { c.Write([]byte{0, 30, 1}) }, limitQuery},
				{"nothing after an answer", func(c *net.TCPConn) {
					c.Write(framed(t, 1, ".", "NS"))
					io.ReadFull(c, make([]byte, 2+12+5)) // REFUSED
				}, limitIdle},
				{"a connection too many", func(c *net.TCPConn) {
					for range 3 { // of which one is reset, maybe before Dial has returned
						if other, err := net.Dial("tcp", address); err == nil {
							defer other.Close()
						}
					}
				}, limitPerClient},
			} {
				before := stats.limits[c.what].Load()
				// Where this test gets no time another limit comes first: once more.
				for tries := 0; stats.limits[c.what].Load() == before && tries < 20; tries++ {
					conn := dial(t, address)
					c.do(conn)
					ended(t, conn)
					await(t, "the end of its connections", func() bool { return stats.open.Load() == 0 })
				}
				if stats.limits[c.what].Load() == before {
					t.Errorf("%s: the limit %v is not met", c.name, c.what)
				}
			}
			// Answers that nobody reads.
			var many []byte
			for i := range 200 {
				many = append(many, framed(t, uint16(i), "example.com", "MX")...)
			}
			for tries := 0; stats.limits[limitWrite].Load() == 0 && tries < 20; tries++ {
				conn := dial(t, address)
				conn.SetReadBuffer(4096)
				for {
					if _, err := conn.Write(many); err != nil {
						break
					}
				}
				await(t, "the end of a client that does not read", func() bool { return stats.open.Load() == 0 })
			}
			if stats.limits[limitWrite].Load() == 0 {
				t.Errorf("the limit %v is not met", limitWrite)
			}
		})
	}
}

// What is no query ends the connection; what is too long too.
func TestStrangers(t *testing.T) {
	for _, kind := range engines {
		p, _ := start(t, kind, listenerText("")+zoneText)
		stats := &p.current()[0].stats
		for name, b := range map[string][]byte{
			"an answer":   {0, 12, 0, 1, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0},
			"HTTP":        []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
			"zero length": {0, 0},
		} {
			c := dial(t, at(t, p, "dns"))
			c.Write(b)
			ended(t, c)
			await(t, name, func() bool { return stats.open.Load() == 0 })
		}
		if stats.drops[dropOversize].Load() != 1 || stats.drops[dropNoQuery].Load() != 2 {
			t.Errorf("%s: %d too long, %d no queries", kind, stats.drops[dropOversize].Load(), stats.drops[dropNoQuery].Load())
		}
	}
}
