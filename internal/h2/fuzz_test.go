package h2

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"fairlead/internal/fields"
	"fairlead/internal/loop"
)

// FuzzFrame feeds a connection bytes in two cuts: what becomes of them must not
// depend on where they were cut.
func FuzzFrame(f *testing.F) {
	var all bytes.Buffer
	fr := http2.NewFramer(&all, nil)
	fr.AllowIllegalWrites = true
	r := newRaw(nil, nil)
	fr.WriteSettings(http2.Setting{ID: 4, Val: 70000})
	f.Add(bytes.Clone(all.Bytes()), 3)
	fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.post(), EndHeaders: true})
	fr.WriteDataPadded(1, false, []byte("abc"), make([]byte, 5))
	fr.WriteData(1, true, []byte("abc"))
	f.Add(bytes.Clone(all.Bytes()), 60)
	b := r.get("x", "y")
	fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: b[:2], EndStream: true})
	fr.WriteContinuation(3, true, b[2:])
	fr.WriteWindowUpdate(1, 5)
	fr.WritePriority(5, http2.PriorityParam{StreamDep: 3})
	fr.WriteRSTStream(3, http2.ErrCodeCancel)
	fr.WritePing(false, [8]byte{1})
	fr.WriteGoAway(0, 0, nil)
	fr.WriteRawFrame(0x77, 1, 0, []byte("unknown"))
	f.Add(bytes.Clone(all.Bytes()), 100)

	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		run := func(pieces ...[]byte) (string, error) {
			c := &conn{server: true}
			c.start(&loop.Goroutines{}, loop.New(nowhere{}), nil)
			c.writerOn = true // nobody writes
			c.now = 1
			var rest []byte
			var err error
			for _, p := range pieces {
				rest, err = c.input(append(bytes.Clone(rest), p...))
				if err != nil || c.err != nil {
					break
				}
			}
			out := ""
			if c.out != nil {
				out = string(c.out.b)
			}
			return out, err
		}
		cut = min(max(cut, 0), len(in))
		out1, err1 := run(in)
		out2, err2 := run(in[:cut], in[cut:])
		if out1 != out2 || (err1 == nil) != (err2 == nil) || err1 != nil && err1.Error() != err2.Error() {
			t.Errorf("in one: %q %v\nin two: %q %v", out1, err1, out2, err2)
		}
	})
}

// nowhere is a connection for what is never read or written.
type nowhere struct{ net.Conn }

func (nowhere) LocalAddr() net.Addr              { return nil }
func (nowhere) RemoteAddr() net.Addr             { return nil }
func (nowhere) SetDeadline(time.Time) error      { return nil }
func (nowhere) SetReadDeadline(time.Time) error  { return nil }
func (nowhere) SetWriteDeadline(time.Time) error { return nil }
func (nowhere) Close() error                     { return nil }

// FuzzHeaderBlock decodes a block as each kind of section. What is accepted must
// be fit to be written down in HTTP/1.1, and encode to the same again.
func FuzzHeaderBlock(f *testing.F) {
	r := newRaw(nil, nil)
	f.Add(r.get("x", "y", "cookie", "a=b", "cookie", "c=d"), uint8(0))
	f.Add(r.post("content-length", "5", "te", "trailers", "host", "a.example"), uint8(0))
	f.Add(r.block(":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":path", "/", ":authority", "a:1"), uint8(0))
	f.Add(r.block(":status", "200", "set-cookie", "a"), uint8(1))
	f.Add(r.block("grpc-status", "0"), uint8(2))
	f.Add([]byte{0x82, 0x86, 0x84, 0x41, 0x8c, 0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff}, uint8(0))
	f.Fuzz(func(t *testing.T, block []byte, kind uint8) {
		var b bounds
		b.fill(&Config{ExtendedConnect: true, HeaderBytes: 2000, HeaderCount: 20})
		var fs fields.Block
		fs.Reset(fields.Section(kind%3), b.section())
		dec := hpack.NewDecoder(4096, func(h hpack.HeaderField) { fs.Add(h.Name, h.Value) })
		_, err := dec.Write(block)
		if dec.Close() != nil || err != nil || fs.Finish(true) != "" {
			return
		}
		if n := len(fs.Lines); n > 2000+4*20 {
			t.Errorf("%d bytes are kept", n)
		}
		if fs.TooLarge {
			return
		}
		for _, v := range [][]byte{fs.Method, fs.Scheme, fs.Authority, fs.Path, fs.Protocol} {
			if bytes.ContainsAny(v, " \t\r\n\x00") {
				t.Errorf("%q in a pseudo-header field", v)
			}
		}
		lines := 0
		for rest := fs.Lines; len(rest) > 0; lines++ {
			line, next, ok := bytes.Cut(rest, crlf)
			name, _, colon := bytes.Cut(line, []byte(": "))
			if !ok || !colon || len(name) == 0 || bytes.ContainsAny(line, "\r\n\x00") || !bytes.Equal(name, bytes.ToLower(name)) {
				t.Fatalf("malformed line %q", line)
			}
			rest = next
		}
		var e encoder
		e.init()
		e.begin(nil)
		e.lines(fs.Lines)
		if fields.Section(kind%3) != fields.Request {
			return
		}
		var again fields.Block
		again.Reset(fields.Request, fields.Limits{Bytes: 1 << 20, Count: 1000})
		for _, p := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "a"}, {":path", "/"}} {
			again.Add(p[0], p[1])
		}
		dec = hpack.NewDecoder(4096, func(h hpack.HeaderField) { again.Add(h.Name, h.Value) })
		if _, err := dec.Write(e.out); err != nil || dec.Close() != nil {
			t.Fatalf("encoded block: %v", err)
		}
		if bad := again.Finish(true); bad != "" || !bytes.Equal(again.Lines, fs.Lines) {
			t.Errorf("lines %q come back as %q (%s)", fs.Lines, again.Lines, bad)
		}
	})
}

// FuzzConversation sends frames in the order that the input says to a server that
// echoes. It must come to an end, with all its tasks, and keep to its bounds.
func FuzzConversation(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 10, 1, 2, 5, 1, 3, 1, 9, 0, 7, 0, 1})
	f.Add([]byte{0, 2, 1, 0, 2, 2, 5, 3, 1, 1, 4, 1, 0, 8, 0, 0, 6, 1, 9})
	f.Add([]byte{11, 0, 1, 1, 12, 1, 0, 12, 1, 4, 5, 1, 2, 0, 3, 0})
	f.Add(bytes.Repeat([]byte{0, 1, 0, 3, 1, 0}, 100))
	f.Add(bytes.Repeat([]byte{9, 0, 9}, 300))
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 3000 {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			a, b := net.Pipe()
			cfg := &Config{MaxStreams: 10, StreamWindow: initialWindow, ConnWindow: initialWindow}
			s := NewServer(&loop.Goroutines{}, loop.New(a), cfg, echoStream)
			ended := make(chan bool)
			go func() { s.Serve(nil); close(ended) }()
			go io.Copy(io.Discard, b)
			r := newRaw(t, b)
			r.hello()
			next := uint32(1)
			take := func() byte {
				if len(in) == 0 {
					return 0
				}
				x := in[0]
				in = in[1:]
				return x
			}
			for len(in) > 0 {
				op, x := take(), take()
				id := uint32(x)%40 + 1
				switch op % 14 {
				case 0:
					r.headers(next, x&1 == 1, r.post())
					next += 2
				case 1:
					r.headers(id, x&2 == 2, r.block("a", "b"))
				case 2:
					r.fr.WriteData(id, take()&1 == 1, make([]byte, int(take())*40))
				case 3:
					r.fr.WriteRSTStream(id, http2.ErrCode(take()))
				case 4:
					r.fr.WriteWindowUpdate(id-1, uint32(take())<<(take()%24))
				case 5:
					r.fr.WriteSettings(http2.Setting{ID: http2.SettingID(x % 10), Val: uint32(take()) << (take() % 25)})
				case 6:
					r.fr.WritePing(x&1 == 1, [8]byte{x})
				case 7:
					r.fr.WritePriority(id, http2.PriorityParam{StreamDep: uint32(take())})
				case 8:
					r.fr.WriteDataPadded(id, x&1 == 1, make([]byte, take()), make([]byte, take()))
				case 9:
					r.fr.WriteRawFrame(http2.FrameType(x), http2.Flags(take()), uint32(take()), make([]byte, take()))
				case 10:
					r.fr.WriteGoAway(id, http2.ErrCode(x), nil)
				case 11:
					r.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: next, BlockFragment: r.post()[:2]})
				case 12:
					r.fr.WriteContinuation(id, x&1 == 1, r.post()[2:])
				case 13:
					time.Sleep(time.Duration(x) * 100 * time.Millisecond)
				}
				c := &s.c
				c.mu.Lock()
				if c.live > 20 || c.out != nil && len(c.out.b) > 4*outBound || len(c.closed) > rememberStreams {
					t.Errorf("%d streams, out %v, %d remembered", c.live, c.out, len(c.closed))
				}
				c.mu.Unlock()
			}
			if len(in)%2 == 0 {
				s.Drain()
			}
			b.Close()
			<-ended
			if s.Streams() != 0 {
				t.Errorf("%d streams are left", s.Streams())
			}
			if n := len(s.c.part) + len(s.c.block.buf); n > 10*maxFrame {
				t.Errorf("%d bytes of frames were kept", n)
			}
		})
	})
}

// FuzzBridge writes bytes to a bridge in two cuts. Whether they were sent must
// not depend on where they were cut, and a request that was is what was written.
func FuzzBridge(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n"), 7)
	f.Add([]byte("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"), 50)
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\nt: u\r\n\r\n"), 60)
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n"), 20)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		run := func(pieces ...[]byte) (string, bool) {
			k := &Client{}
			c := &k.c
			c.start(&loop.Goroutines{}, loop.New(nowhere{}), nil)
			c.writerOn = true // nobody writes
			c.peerSettings, c.peerConnect = true, true
			b := k.Conn()
			failed := false
			for _, p := range pieces {
				if failed = b.Write(p) != nil; failed {
					break
				}
			}
			if c.out == nil {
				return "", failed
			}
			return shape(c.out.b), failed
		}
		if len(in) > initialWindow || strings.Count(string(in), "\n") > 500 {
			return
		}
		cut = min(max(cut, 0), len(in))
		out1, failed1 := run(in)
		out2, failed2 := run(in[:cut], in[cut:])
		if failed1 != failed2 || !failed1 && out1 != out2 {
			t.Errorf("in one: %v %q\nin two: %v %q", failed1, out1, failed2, out2)
		}
	})
}

// shape shows frames with neighbouring data joined.
func shape(b []byte) string {
	var s strings.Builder
	last := byte(0xff)
	for len(b) >= frameHeaderLen {
		h := parseFrameHeader(b)
		if h.typ != frameData || last != frameData {
			s.WriteString("|")
			s.WriteByte('0' + h.typ)
		}
		s.Write(b[frameHeaderLen : frameHeaderLen+h.length])
		if h.has(flagEndStream) {
			s.WriteString(" end")
		}
		last = h.typ
		b = b[frameHeaderLen+h.length:]
	}
	return s.String()
}
