package h2

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"fairlead/internal/loop"
)

// raw is the other end of a connection under test, which sends frame by frame
// what a test wants and shows what comes as one line each.
type raw struct {
	t   *testing.T
	nc  net.Conn
	fr  *http2.Framer
	dec *hpack.Decoder
	got chan string // closed at the end of the connection

	buf bytes.Buffer
	enc *hpack.Encoder
}

func newRaw(t *testing.T, nc net.Conn) *raw {
	r := &raw{t: t, nc: nc, fr: http2.NewFramer(nc, nc), dec: hpack.NewDecoder(4096, nil), got: make(chan string, 1000)}
	r.fr.AllowIllegalWrites, r.fr.AllowIllegalReads = true, true
	r.enc = hpack.NewEncoder(&r.buf)
	return r
}

// read shows frames until the connection ends.
func (r *raw) read() {
	defer close(r.got)
	var block []byte
	for {
		f, err := r.fr.ReadFrame()
		if err != nil {
			return
		}
		id := f.Header().StreamID
		end := ""
		if h, ok := f.(*http2.DataFrame); ok && h.StreamEnded() {
			end = " end"
		}
		if h, ok := f.(*http2.HeadersFrame); ok && h.StreamEnded() {
			end = " end"
		}
		switch f := f.(type) {
		case *http2.DataFrame:
			r.got <- fmt.Sprintf("DATA %d %q%s", id, f.Data(), end)
		case *http2.HeadersFrame:
			block = append(block[:0], f.HeaderBlockFragment()...)
			if !f.HeadersEnded() {
				r.got <- fmt.Sprintf("HEADERS %d ...%s", id, end)
				continue
			}
			r.got <- fmt.Sprintf("HEADERS %d %s%s", id, r.decode(block), end)
		case *http2.ContinuationFrame:
			block = append(block, f.HeaderBlockFragment()...)
			if f.HeadersEnded() {
				r.got <- fmt.Sprintf("CONTINUATION %d %s", id, r.decode(block))
			}
		case *http2.RSTStreamFrame:
			r.got <- fmt.Sprintf("RST_STREAM %d %s", id, ErrCode(f.ErrCode))
		case *http2.GoAwayFrame:
			r.got <- fmt.Sprintf("GOAWAY %d %s", f.LastStreamID, ErrCode(f.ErrCode))
		case *http2.PingFrame:
			if f.IsAck() {
				r.got <- "PING ack"
			} else {
				r.got <- "PING " + strings.TrimRight(string(f.Data[:]), "\x00")
			}
		case *http2.SettingsFrame:
			if f.IsAck() {
				r.got <- "SETTINGS ack"
			} else {
				r.got <- "SETTINGS"
			}
		case *http2.WindowUpdateFrame:
			r.got <- fmt.Sprintf("WINDOW_UPDATE %d %d", id, f.Increment)
		default:
			r.got <- f.Header().Type.String()
		}
	}
}

func (r *raw) decode(block []byte) string {
	list, err := r.dec.DecodeFull(block)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, f := range list {
		fmt.Fprintf(&b, "%s=%s;", f.Name, f.Value)
	}
	return b.String()
}

func field(name, value string) hpack.HeaderField {
	return hpack.HeaderField{Name: name, Value: value}
}

// block encodes fields given as "name", "value", ...
func (r *raw) block(fields ...string) []byte {
	r.buf.Reset()
	for i := 0; i+1 < len(fields); i += 2 {
		r.enc.WriteField(field(fields[i], fields[i+1]))
	}
	return bytes.Clone(r.buf.Bytes())
}

// get is a usual request with further fields.
func (r *raw) get(more ...string) []byte {
	return r.block(append([]string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a.example"}, more...)...)
}

func (r *raw) post(more ...string) []byte {
	return r.block(append([]string{":method", "POST", ":scheme", "http", ":path", "/", ":authority", "a.example"}, more...)...)
}

func (r *raw) headers(id uint32, end bool, block []byte) {
	r.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndStream: end, EndHeaders: true})
}

// hello begins a connection as a client.
func (r *raw) hello(settings ...http2.Setting) {
	io.WriteString(r.nc, Preface)
	r.fr.WriteSettings(settings...)
	r.fr.WriteSettingsAck()
}

// ordinary reports whether a frame is of no interest to most tests.
func ordinary(f string) bool {
	return strings.HasPrefix(f, "SETTINGS") || strings.HasPrefix(f, "WINDOW_UPDATE")
}

// next returns the next frame of interest, "closed" at the end.
func (r *raw) next() string {
	r.t.Helper()
	for {
		f, ok := <-r.got
		if !ok {
			return "closed"
		}
		if !ordinary(f) {
			return f
		}
	}
}

// want expects the next frames to be these.
func (r *raw) want(frames ...string) {
	r.t.Helper()
	for _, w := range frames {
		if f := r.next(); f != w {
			r.t.Errorf("next frame is %q, want %q", f, w)
		}
	}
}

// served is a server under test.
type served struct {
	*raw
	s   *Server
	err error
	end chan struct{}

	mu     sync.Mutex
	events map[Event]int
}

func (s *served) count(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events[e]++
}

func (s *served) seen(e Event) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events[e]
}

// serve starts a server and returns its client's end. Closing that is the test's
// when done is called, which waits for the server.
func serve(t *testing.T, cfg Config, handle func(*Stream)) *served {
	a, b := net.Pipe()
	s := &served{raw: newRaw(t, b), end: make(chan struct{}), events: make(map[Event]int)}
	cfg.Count = s.count
	s.s = NewServer(&loop.Goroutines{}, loop.New(a), &cfg, handle)
	go func() {
		defer close(s.end)
		s.err = s.s.Serve(nil)
	}()
	go s.read()
	return s
}

// pipeServer is serve with bytes that were read before.
func pipeServer(t *testing.T, handle func(*Stream), already []byte) (*Server, *raw) {
	a, b := net.Pipe()
	s := NewServer(&loop.Goroutines{}, loop.New(a), nil, handle)
	go s.Serve(already)
	r := newRaw(t, b)
	go r.read()
	return s, r
}

// done ends the connection and returns what Serve did.
func (s *served) done() error {
	s.nc.Close()
	<-s.end
	if n := s.s.Streams(); n != 0 {
		s.t.Errorf("%d streams are left", n)
	}
	for range s.got {
		// what nobody asked for
	}
	return s.err
}

// echo answers with the request's body and trailers, once it has all.
func echo(s *Stream) {
	var body []byte
	for {
		b, err := s.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return
		}
		body = append(body, b...)
	}
	if len(s.Trailer()) > 0 {
		s.RespondBody(200, nil, body, false)
		s.WriteTrailer(s.Trailer())
		return
	}
	s.RespondBody(200, nil, body, true)
}

// readAll reads a stream's body to its end.
func readAll(s *Stream) (string, error) {
	var body []byte
	for {
		b, err := s.Read()
		body = append(body, b...)
		if err == io.EOF {
			return string(body), nil
		}
		if err != nil {
			return string(body), err
		}
	}
}

// netPipe is net.Pipe, for files that do not need the package otherwise.
func netPipe() (a, b net.Conn) { return net.Pipe() }
