package h2

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"fairlead/internal/loop"
)

// dialled is a client under test.
type dialled struct {
	*raw
	k *Client
}

func dial(t *testing.T, cfg *Config) *dialled {
	a, b := net.Pipe()
	r := newRaw(t, b)
	go func() {
		io.ReadFull(b, make([]byte, len(Preface)))
		r.read()
	}()
	return &dialled{r, NewClient(&loop.Goroutines{}, loop.New(a), cfg)}
}

// hello begins a connection as a server.
func (d *dialled) hello(settings ...http2.Setting) {
	d.fr.WriteSettings(settings...)
	d.fr.WriteSettingsAck()
	synctest.Wait()
}

func (d *dialled) done() {
	d.nc.Close()
	d.k.Wait()
	for range d.got {
		// what nobody asked for
	}
}

// request opens a stream with a GET.
func (d *dialled) request(end bool) *Stream {
	d.t.Helper()
	s, err := d.k.Open()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := s.Send(getHead("GET"), end); err != nil {
		d.t.Fatal(err)
	}
	return s
}

func getHead(method string) *Head {
	return &Head{Method: []byte(method), Scheme: []byte("http"), Authority: []byte("a.example"), Path: []byte("/")}
}

const sentGet = ":method=GET;:scheme=http;:authority=a.example;:path=/;"

func TestClientExchange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dial(t, nil)
		d.hello()
		s := d.request(false)
		d.want("HEADERS 1 " + sentGet)
		s.Write([]byte("body"), false)
		s.WriteTrailer([]byte("A: b\r\n"))
		d.want(`DATA 1 "body"`, "HEADERS 1 a=b; end")
		d.headers(1, false, d.block(":status", "103", "link", "x"))
		d.headers(1, false, d.block(":status", "200", "x", "y"))
		d.fr.WriteData(1, false, []byte("answer"))
		d.headers(1, true, d.block("grpc-status", "0"))
		h1, err := s.ReadHead()
		if err != nil || h1.Status != 103 || string(h1.Lines) != "link: x\r\n" {
			t.Fatalf("first head %+v (%v)", h1, err)
		}
		h2, err := s.ReadHead()
		if err != nil || h2.Status != 200 || string(h2.Lines) != "x: y\r\n" || h2.End {
			t.Fatalf("second head %+v (%v)", h2, err)
		}
		body, err := readAll(s)
		if err != nil || body != "answer" || string(s.Trailer()) != "grpc-status: 0\r\n" {
			t.Errorf("body %q, trailer %q (%v)", body, s.Trailer(), err)
		}
		s.Close()
		if n := d.k.Streams(); n != 0 {
			t.Errorf("%d streams are open", n)
		}
		d.done()
	})
}

// TestClientAnswers: what a server may not do ends the stream or the connection.
func TestClientAnswers(t *testing.T) {
	for _, test := range []struct {
		name   string
		method string
		send   func(r *raw)
		want   []string
		err    error // of ReadHead or reading to the end; nil is any
	}{
		{"malformed head", "GET", func(r *raw) { r.headers(1, true, r.block(":status", "2000")) }, []string{"RST_STREAM 1 PROTOCOL_ERROR"}, nil},
		{"DATA before the head", "GET", func(r *raw) { r.fr.WriteData(1, true, []byte("x")) }, []string{"RST_STREAM 1 PROTOCOL_ERROR"}, nil},
		{"body of a 204", "GET", func(r *raw) {
			r.headers(1, false, r.block(":status", "204"))
			r.fr.WriteData(1, true, []byte("x"))
		}, []string{"RST_STREAM 1 PROTOCOL_ERROR"}, nil},
		{"body of HEAD", "HEAD", func(r *raw) {
			r.headers(1, false, r.block(":status", "200", "content-length", "1"))
			r.fr.WriteData(1, true, []byte("x"))
		}, []string{"RST_STREAM 1 PROTOCOL_ERROR"}, nil},
		{"body cut short", "GET", func(r *raw) {
			r.headers(1, false, r.block(":status", "200", "content-length", "5"))
			r.fr.WriteData(1, true, []byte("x"))
		}, []string{"RST_STREAM 1 PROTOCOL_ERROR"}, nil},
		{"many interim answers", "GET", func(r *raw) {
			for range maxInterim + 1 {
				r.headers(1, false, r.block(":status", "100"))
			}
		}, []string{"RST_STREAM 1 ENHANCE_YOUR_CALM"}, nil},
		{"refused", "GET", func(r *raw) { r.fr.WriteRSTStream(1, http2.ErrCodeRefusedStream) }, nil, ErrNotProcessed},
		{"GOAWAY before it", "GET", func(r *raw) { r.fr.WriteGoAway(0, http2.ErrCodeNo, nil) }, nil, ErrNotProcessed},
		{"PUSH_PROMISE", "GET", func(r *raw) {
			r.fr.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, BlockFragment: r.get(), EndHeaders: true})
		}, []string{"GOAWAY 0 PROTOCOL_ERROR"}, nil},
		{"ENABLE_PUSH", "GET", func(r *raw) { r.fr.WriteSettings(http2.Setting{ID: 2, Val: 1}) }, []string{"GOAWAY 0 PROTOCOL_ERROR"}, nil},
		{"HEADERS on a stream of the server's", "GET", func(r *raw) { r.headers(2, true, r.block(":status", "200")) }, []string{"GOAWAY 0 PROTOCOL_ERROR"}, nil},
		{"HEADERS on an idle stream", "GET", func(r *raw) { r.headers(3, true, r.block(":status", "200")) }, []string{"GOAWAY 0 PROTOCOL_ERROR"}, nil},
		{"extended CONNECT taken back", "GET", func(r *raw) {
			r.fr.WriteSettings(http2.Setting{ID: 8, Val: 1})
			r.fr.WriteSettings(http2.Setting{ID: 8, Val: 0})
		}, []string{"GOAWAY 0 PROTOCOL_ERROR"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := dial(t, nil)
				d.hello()
				s, err := d.k.Open()
				if err != nil {
					t.Fatal(err)
				}
				s.Send(getHead(test.method), true)
				d.next()
				test.send(d.raw)
				synctest.Wait()
				for err == nil {
					if _, err = s.ReadHead(); err == io.EOF {
						_, err = readAll(s)
						break
					}
				}
				if err == nil || test.err != nil && !errors.Is(err, test.err) || test.err == nil && errors.Is(err, ErrNotProcessed) {
					t.Errorf("stream ends with %v, want %v", err, test.err)
				}
				d.want(test.want...)
				s.Close()
				d.done()
			})
		})
	}
}

// TestClientLimits: Open keeps to what the server takes.
func TestClientLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dial(t, nil)
		d.hello(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 2})
		a, b := d.request(true), d.request(true)
		if _, err := d.k.Open(); err != ErrBusy || d.k.Usable() {
			t.Errorf("third stream: %v, want ErrBusy", err)
		}
		a.Close()
		d.want("HEADERS 1 "+sentGet+" end", "HEADERS 3 "+sentGet+" end", "RST_STREAM 1 CANCEL")
		c := d.request(true)
		d.want("HEADERS 5 " + sentGet + " end")
		d.fr.WriteGoAway(3, http2.ErrCodeNo, nil)
		synctest.Wait()
		if _, err := c.ReadHead(); !errors.Is(err, ErrNotProcessed) {
			t.Errorf("stream behind GOAWAY ends with %v", err)
		}
		if _, err := d.k.Open(); err != ErrClosed || d.k.Alive() {
			t.Errorf("stream after GOAWAY: %v, want ErrClosed", err)
		}
		d.headers(3, true, d.block(":status", "200"))
		if h, err := b.ReadHead(); err != nil || h.Status != 200 {
			t.Errorf("stream before GOAWAY: %v", err)
		}
		b.Close()
		c.Close()
		d.want("RST_STREAM 5 CANCEL", "GOAWAY 0 NO_ERROR", "closed")
		d.done()
	})
}

// TestClientUnsent: a request that never left was not processed, one that has
// may have been.
func TestClientUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		k := NewClient(&loop.Goroutines{}, loop.New(a), nil)
		synctest.Wait() // the preface is being written
		d := &dialled{newRaw(t, b), k}
		s := d.request(true)
		synctest.Wait()
		b.Close()
		if _, err := s.ReadHead(); !errors.Is(err, ErrNotProcessed) {
			t.Errorf("request that never left ends with %v", err)
		}
		s.Close()
		k.Wait()

		d = dial(t, nil)
		d.hello()
		s = d.request(true)
		d.want("HEADERS 1 " + sentGet + " end")
		d.nc.Close()
		if _, err := s.ReadHead(); err == nil || errors.Is(err, ErrNotProcessed) {
			t.Errorf("request that has left ends with %v", err)
		}
		s.Close()
		d.done()
	})
}

func TestClientIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		d := dial(t, &Config{IdleTimeout: 50 * time.Second})
		d.hello()
		d.want("GOAWAY 0 NO_ERROR", "closed")
		d.k.Wait()
		if since := time.Since(begun); since != 50*time.Second || d.k.Err() != ErrIdle {
			t.Errorf("ended after %v with %v", since, d.k.Err())
		}
		d.done()
	})
}

// TestClientClose lets open streams end.
func TestClientClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dial(t, nil)
		d.hello()
		s := d.request(true)
		d.k.Close()
		if _, err := d.k.Open(); err != ErrClosed {
			t.Errorf("Open after Close: %v", err)
		}
		d.want("HEADERS 1 " + sentGet + " end")
		d.headers(1, true, d.block(":status", "200"))
		if _, err := s.ReadHead(); err != nil {
			t.Error(err)
		}
		s.Close()
		d.want("GOAWAY 0 NO_ERROR", "closed")
		d.done()
	})
}

func TestClientExtendedConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, offered := range []uint32{0, 1} {
			d := dial(t, nil)
			s, err := d.k.Open()
			if err != nil {
				t.Fatal(err)
			}
			result := make(chan error)
			go func() {
				h := getHead("CONNECT")
				h.Protocol = []byte("websocket")
				result <- s.Send(h, false)
			}()
			synctest.Wait() // for the server's SETTINGS
			d.hello(http2.Setting{ID: 8, Val: offered})
			err = <-result
			if offered == 0 && err != ErrNoExtendedConnect || offered == 1 && err != nil {
				t.Errorf("extended CONNECT, offered %d: %v", offered, err)
			}
			if offered == 1 {
				d.want("HEADERS 1 :method=CONNECT;:protocol=websocket;:scheme=http;:authority=a.example;:path=/;")
			}
			s.Close()
			d.done()
		}
	})
}

// TestClientDies: streams hear of it when the connection is lost.
func TestClientDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dial(t, nil)
		d.hello()
		s := d.request(false)
		d.next()
		d.headers(1, false, d.block(":status", "200"))
		d.fr.WriteData(1, false, []byte("part"))
		s.ReadHead()
		s.Read()
		d.nc.Close()
		if _, err := s.Read(); err == nil || err == io.EOF {
			t.Errorf("cut body ends with %v", err)
		}
		if err := s.Write([]byte("x"), true); err == nil {
			t.Error("written to a connection that is lost")
		}
		s.Close()
		d.done()
		if d.k.Alive() {
			t.Error("client is alive")
		}
	})
}

// TestClientKeepsReceived: an answer that has come whole is read although the
// connection was lost, or the rest of the request refused, since.
func TestClientKeepsReceived(t *testing.T) {
	for name, end := range map[string]func(d *dialled){
		"lost":  func(d *dialled) { d.nc.Close() },
		"reset": func(d *dialled) { d.fr.WriteRSTStream(1, http2.ErrCodeNo) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := dial(t, nil)
				d.hello()
				s := d.request(false)
				d.next()
				d.headers(1, false, d.block(":status", "413"))
				d.fr.WriteData(1, true, []byte("too large"))
				end(d)
				synctest.Wait()
				h, err := s.ReadHead()
				if err != nil || h.Status != 413 {
					t.Fatalf("head: %v", err)
				}
				if body, err := readAll(s); err != nil || body != "too large" {
					t.Errorf("body %q (%v)", body, err)
				}
				if s.Alive() {
					t.Error("stream is alive")
				}
				s.Close()
				d.done()
			})
		})
	}
}

func TestCodes(t *testing.T) {
	for code, want := range map[ErrCode]string{CodeNo: "NO_ERROR", CodeHTTP11Required: "HTTP_1_1_REQUIRED", 0xfe: "error code 0xfe"} {
		if got := fmt.Sprint(code); got != want {
			t.Errorf("code %d is %q, want %q", uint32(code), got, want)
		}
	}
	for e := Event(1); e < Events; e++ {
		if e.String() == "" {
			t.Errorf("event %d has no name", e)
		}
	}
}
