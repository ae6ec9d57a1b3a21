package h2

import (
	"bytes"
	"io"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"fairlead/internal/loop"
)

// inline is a driver whose tasks run at once, within Start, so that what they
// allocate can be told from what goroutines do.
type inline struct{ *loop.Goroutines }

type noTask struct{}

func (noTask) Wait() {}

func (inline) Start(f func())           { f() }
func (inline) Spawn(f func()) loop.Task { f(); return noTask{} }

// discard is a connection that takes everything.
type discard struct{ n int }

func (*discard) Read([]byte) ([]byte, error)   { return nil, io.EOF }
func (*discard) Ask([]byte) ([]byte, error)    { return nil, io.EOF }
func (*discard) Release()                      {}
func (d *discard) Write(b []byte) error        { d.n += len(b); return nil }
func (d *discard) Writev(a, b []byte) error    { d.n += len(a) + len(b); return nil }
func (*discard) SetReadDeadline(loop.Time)     {}
func (*discard) SetWriteTimeout(time.Duration) {}
func (*discard) CloseWrite() error             { return nil }
func (*discard) Close() error                  { return nil }
func (*discard) Abort()                        {}
func (*discard) Interrupt(error)               {}
func (*discard) Resume()                       {}
func (*discard) Alive() bool                   { return true }
func (*discard) Quiet() bool                   { return true }
func (*discard) Remote() (a netip.AddrPort)    { return a }
func (*discard) Local() (a netip.AddrPort)     { return a }

// TestAllocs: in steady state a request costs no allocation but what its task
// does.
func TestAllocs(t *testing.T) {
	lines := []byte("Content-Type: text/plain\r\nServer: x\r\nX-Request-Id: 0123456789\r\n")
	body := []byte("hello")
	s := NewServer(inline{new(loop.Goroutines)}, &discard{}, &Config{PingAfter: -1}, func(s *Stream) {
		if _, err := readBytes(s); err == nil {
			s.RespondBody(200, lines, body, true)
		}
	})
	c := &s.c
	r := newRaw(t, nil)
	var in bytes.Buffer
	r.fr = http2.NewFramer(&in, nil)
	feed := func() {
		c.mu.Lock()
		c.now = loop.Now()
		_, err := c.input(in.Bytes())
		c.readyFresh()
		c.writerOn, c.writerStart = true, false // the writer is played below
		c.unlock()
		if err != nil {
			t.Fatal(err)
		}
		c.spawnFresh()
		c.mu.Lock()
		if c.out != nil {
			c.out.free()
			c.out, c.control = nil, 0
		}
		c.unlock()
	}
	in.WriteString(Preface)
	r.fr.WriteSettings()
	feed()
	id := uint32(1)
	request := func(post bool) func() {
		return func() {
			in.Reset()
			if post {
				r.headers(id, false, r.blockInPlace(":method", "POST", ":scheme", "http", ":path", "/", ":authority", "a.example", "user-agent", "x"))
				r.fr.WriteData(id, true, body)
			} else {
				r.headers(id, true, r.blockInPlace(":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a.example", "user-agent", "x"))
			}
			id += 2
			feed()
		}
	}
	for name, post := range map[string]bool{"GET": false, "POST": true} {
		for range 200 {
			request(post)()
		}
		if n := testing.AllocsPerRun(500, request(post)); n > 0 && !raceDetector {
			t.Errorf("%s costs %v allocations, want none", name, n)
		}
	}
}

// blockInPlace is block without a copy.
func (r *raw) blockInPlace(fields ...string) []byte {
	r.buf.Reset()
	for i := 0; i+1 < len(fields); i += 2 {
		r.enc.WriteField(field(fields[i], fields[i+1]))
	}
	return r.buf.Bytes()
}

// readBytes reads a body and counts its bytes.
func readBytes(s *Stream) (n int, err error) {
	for {
		b, err := s.Read()
		n += len(b)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
