package h3

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"

	"fairlead/internal/fields"
)

// unheard is a connection of which nobody is at the other end.
type unheard struct {
	connection
	ctx   context.Context
	close context.CancelFunc
	code  code
}

func newUnheard() *unheard {
	u := new(unheard)
	u.ctx, u.close = context.WithCancel(context.Background())
	return u
}

func (u *unheard) Context() context.Context { return u.ctx }
func (u *unheard) RemoteAddr() net.Addr     { return nil }
func (u *unheard) LocalAddr() net.Addr      { return nil }
func (u *unheard) CloseWithError(why quic.ApplicationErrorCode, _ string) error {
	if u.code == 0 {
		u.code = code(why)
	}
	u.close()
	return nil
}

// source is a stream that brings given bytes, so many at a time.
type source struct {
	requestStream
	b     []byte
	piece int
	conn  *unheard
	reset code
}

func (s *source) Read(p []byte) (int, error) {
	if s.conn.ctx.Err() != nil || s.reset != 0 {
		return 0, errors.New("closed")
	}
	n := copy(p, s.b[:min(len(s.b), s.piece)])
	s.b = s.b[n:]
	if len(s.b) == 0 {
		return n, io.EOF
	}
	return n, nil
}

func (s *source) CancelRead(c quic.StreamErrorCode)  { s.reset = code(c) }
func (s *source) CancelWrite(c quic.StreamErrorCode) { s.reset = code(c) }
func (s *source) SetReadDeadline(time.Time) error    { return nil }
func (s *source) Context() context.Context           { return s.conn.ctx }
func (s *source) ReleaseStreamCredit()               {}

// ignoring is an owner who does nothing.
type ignoring struct{ Owner }

func (ignoring) Count(Event) {}

func fuzzConn() (*Conn, *unheard) {
	u := newUnheard()
	return &Conn{v: &Server{owner: ignoring{}}, q: u, cfg: &Config{
		MaxStreams: 10, HeaderBytes: 2000, HeaderCount: 20, HeaderTimeout: time.Hour,
	}}, u
}

// FuzzRequest reads a request to its end, whatever pieces it comes in. What is
// accepted must be fit to be written down in HTTP/1.1, and the same for all pieces.
func FuzzRequest(f *testing.F) {
	for _, seed := range [][]byte{
		head("GET", "x", "y", "cookie", "a=b", "cookie", "c=d"),
		append(head("POST", "content-length", "5", "te", "trailers", "host", "a.test"), data("hello")...),
		append(append(append(frame(0x21, []byte("x")), head("PUT")...), data("a")...), frame(frameHeaders, block("t", "1"))...),
		append(head("CONNECT", ":protocol", "websocket"), data("x")...),
		append(head("POST"), frame(frameSettings, nil)...),
		frame(frameHeaders, []byte{2, 0, 0x80}),
		appendFrame(nil, frameHeaders, 1<<40),
		append(head("POST"), 0x40),
	} {
		f.Add(seed, uint16(1))
		f.Add(seed, uint16(7))
	}
	f.Fuzz(func(t *testing.T, b []byte, piece uint16) {
		want := readAll(t, b, 1<<20)
		if got := readAll(t, b, max(int(piece), 1)); got != want {
			t.Errorf("in pieces of %d: %+v, at once %+v", piece, got, want)
		}
	})
}

// outcome is what becomes of a request.
type outcome struct {
	head, body, trailer string
	whole, tooLarge     bool
	reset, closed       code
}

func readAll(t *testing.T, b []byte, piece int) outcome {
	c, u := fuzzConn()
	src := &source{b: b, piece: piece, conn: u}
	s := streams.Get().(*Stream)
	s.reset(c, src)
	defer streams.Put(s)
	served := s.readHead()
	o := outcome{}
	if served {
		h := s.Head()
		o.tooLarge = h.TooLarge
		if !h.TooLarge {
			o.head = string(h.Method) + " " + string(h.Path) + "\n" + string(h.Lines)
			check(t, &s.block)
		}
		total := int64(0)
		for range len(b) + 3 {
			p, err := s.Read()
			if err == io.EOF {
				o.whole = true
				break
			}
			if err != nil {
				break
			}
			if len(p) == 0 {
				t.Fatal("a piece without a byte")
			}
			total += int64(len(p))
			o.body += string(p)
			s.Release()
		}
		if o.whole && !s.Exhausted() {
			t.Error("read to its end, and not exhausted")
		}
		if o.whole && !h.TooLarge && !s.tunnel && h.ContentLength >= 0 && total != h.ContentLength {
			t.Errorf("%d bytes of body, declared %d", total, h.ContentLength)
		}
		if s.ended {
			o.trailer = string(s.Trailer())
			lines(t, s.Trailer())
		}
	}
	o.reset, o.closed = src.reset, u.code
	if o.closed != 0 { // how far it was read before depends on the pieces
		return outcome{closed: o.closed}
	}
	return o
}

func check(t *testing.T, f *fields.Block) {
	for _, v := range [][]byte{f.Method, f.Scheme, f.Authority, f.Path, f.Protocol} {
		if bytes.ContainsAny(v, " \t\r\n\x00") {
			t.Errorf("%q in a pseudo-header field", v)
		}
	}
	lines(t, f.Lines)
}

func lines(t *testing.T, rest []byte) {
	for len(rest) > 0 {
		line, next, ok := bytes.Cut(rest, []byte("\r\n"))
		name, _, colon := bytes.Cut(line, []byte(": "))
		if !ok || !colon || len(name) == 0 || bytes.ContainsAny(line, "\r\n\x00") || !bytes.Equal(name, bytes.ToLower(name)) {
			t.Fatalf("malformed line %q", line)
		}
		rest = next
	}
}

// FuzzUnidirectional reads streams of each type to their end.
func FuzzUnidirectional(f *testing.F) {
	f.Add(append(frame(frameSettings, append(varint(settingDatagram), 1)), frame(frameGoAway, []byte{0})...), uint8(streamControl))
	f.Add(frame(frameSettings, []byte{0x21}), uint8(streamControl))
	f.Add(append(frame(frameSettings, nil), frame(framePriority, []byte("\x00u=1"))...), uint8(streamControl))
	f.Add([]byte{0x20, 0x3f, 0xe1}, uint8(streamEncoder))
	f.Add([]byte{0x41, 0x7f, 0x80, 0x01, 0x80}, uint8(streamDecoder))
	f.Fuzz(func(t *testing.T, b []byte, kind uint8) {
		c, _ := fuzzConn()
		r := quicvarint.NewReader(&chunked{r: bytes.NewReader(b)})
		var err error
		switch kind % 3 {
		case streamControl:
			err = c.readControl(r)
		case 1:
			err = c.readEncoder(r)
		default:
			err = c.readDecoder(r)
		}
		if err == nil {
			t.Error("it has no end")
		}
	})
}
