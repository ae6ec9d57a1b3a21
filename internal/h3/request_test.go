package h3

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"fairlead/internal/loop"
)

// echo answers with what came: the head, the body, and the trailers as such.
func echo(s *Stream) {
	h := s.Head()
	if h.TooLarge {
		s.Respond(431, nil, true)
		return
	}
	text := fmt.Sprintf("%s %s %s %s %s %d %v|%s|", h.Method, h.Scheme, h.Authority, h.Path, h.Protocol, h.ContentLength, s.Exhausted(), h.Lines)
	for {
		b, err := s.Read()
		if err == io.EOF {
			break
		}
		if err != nil {
			return
		}
		text += string(b)
	}
	s.Respond(103, []byte("Link: x\r\n"), false)
	s.RespondBody(200, []byte("Content-Type: text/plain\r\nConnection: x\r\nTE: Trailers\r\nX-A: 1\r\n"), []byte(text[:4]), false)
	s.Write([]byte(text[4:]), false)
	s.WriteTrailer(append([]byte("X-End: 1\r\n"), s.Trailer()...))
}

func TestRequests(t *testing.T) {
	r := newRig(t, nil, echo)
	c := r.dial()
	long := strings.Repeat("0123456789", 30_000)
	for _, test := range []struct {
		name   string
		pieces [][]byte
		want   string // the body of the answer
		more   map[string]string
	}{
		{"GET", [][]byte{head("GET", "x", "y")}, "GET https a.test /  -1 true|x: y\r\n|", nil},
		{"content-length", [][]byte{head("POST", "content-length", "5"), data("hel"), data("lo")}, "POST https a.test /  5 false|content-length: 5\r\n|hello", nil},
		{"no content", [][]byte{head("POST", "content-length", "0")}, "POST https a.test /  0 true|content-length: 0\r\n|", nil},
		{"trailers", [][]byte{head("POST"), data("hello"), frame(frameHeaders, block("x-t", "1", "host", "z"))}, "POST https a.test /  -1 false||hello", map[string]string{"x-t": "1"}},
		{"trailers alone", [][]byte{head("PUT"), frame(frameHeaders, block("x-t", "2"))}, "PUT https a.test /  -1 false||", map[string]string{"x-t": "2"}},
		{"unknown frames", [][]byte{frame(0x21, []byte("ignored")), head("POST"), frame(0x40, nil), data("a"), frame(0x21, make([]byte, 5000)), data("b"), frame(0x21, nil)},
			"POST https a.test /  -1 false||ab", nil},
		{"empty data", [][]byte{head("POST"), data(""), data("a"), data("")}, "POST https a.test /  -1 false||a", nil},
		{"long body", [][]byte{head("POST"), data(long)}, "POST https a.test /  -1 false||" + long, nil},
		{"body of small frames", [][]byte{head("POST"), []byte(strings.Repeat(string(data("0123456789")), 1000))}, "POST https a.test /  -1 false||" + long[:10_000], nil},
		{"cookies", [][]byte{head("GET", "cookie", "a=1", "x", "y", "cookie", "b=2")}, "GET https a.test /  -1 true|x: y\r\ncookie: a=1; b=2\r\n|", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			res := read(t, c.request(true, test.pieces...))
			if len(res.heads) != 2 || res.heads[0][":status"] != "103" || res.heads[0]["link"] != "x" {
				t.Fatalf("heads are %v", res.heads)
			}
			h := res.heads[1]
			if h[":status"] != "200" || h["content-type"] != "text/plain" || h["x-a"] != "1" || h["te"] != "trailers" || h["connection"] != "" {
				t.Errorf("head is %v", h)
			}
			if res.body != test.want {
				t.Errorf("body is %.200q, want %.200q", res.body, test.want)
			}
			if res.trailer["x-end"] != "1" || len(res.trailer) != 1+len(test.more) {
				t.Errorf("trailers are %v", res.trailer)
			}
			for name, value := range test.more {
				if res.trailer[name] != value {
					t.Errorf("trailer %s is %q, want %q", name, res.trailer[name], value)
				}
			}
		})
	}
}

// A request comes byte by byte, each in a packet of its own as far as can be.
func TestRequestInPieces(t *testing.T) {
	r := newRig(t, nil, echo)
	c := r.dial()
	s := c.request(false)
	for _, b := range append(append(head("POST", "x", "y"), data("hello")...), frame(frameHeaders, block("x-t", "1"))...) {
		s.Write([]byte{b})
		time.Sleep(time.Millisecond)
	}
	s.Close()
	res := read(t, s)
	if want := "POST https a.test /  -1 false|x: y\r\n|hello"; res.body != want || res.trailer["x-t"] != "1" {
		t.Errorf("body %q, trailers %v; want %q", res.body, res.trailer, want)
	}
}

// The end of a request without a body may come behind its head; it has no body all
// the same. One that may have a body is not waited for.
func TestEndBehindHead(t *testing.T) {
	begun := make(chan struct{}, 2)
	r := newRig(t, nil, func(s *Stream) {
		begun <- struct{}{}
		echo(s)
	})
	c := r.dial()
	s := c.request(false, head("GET"))
	time.Sleep(50 * time.Millisecond)
	s.Close()
	if res := read(t, s); res.body != "GET https a.test /  -1 true||" {
		t.Errorf("body %q", res.body)
	}
	<-begun
	s = c.request(false, head("POST"))
	r.within("the request is served before its body comes", begun)
	s.Close()
	if res := read(t, s); res.body != "POST https a.test /  -1 false||" {
		t.Errorf("body %q", res.body)
	}
}

// What is wrong with a request resets its stream, and nothing else.
func TestMalformedRequests(t *testing.T) {
	r := newRig(t, func(c *Config) { c.HeaderTimeout = 300 * time.Millisecond }, echo)
	c := r.dial()
	for _, test := range []struct {
		name   string
		end    bool
		pieces [][]byte
		want   code
		event  Event
	}{
		{"no path", true, [][]byte{frame(frameHeaders, block(":method", "GET", ":scheme", "https", ":authority", "a"))}, codeMessage, EventMalformed},
		{"upper case", true, [][]byte{head("GET", "X", "y")}, codeMessage, EventMalformed},
		{"LF in a value", true, [][]byte{head("GET", "x", "a\nb: c")}, codeMessage, EventMalformed},
		{"connection", true, [][]byte{head("GET", "connection", "close")}, codeMessage, EventMalformed},
		{"transfer-encoding", true, [][]byte{head("POST", "transfer-encoding", "chunked")}, codeMessage, EventMalformed},
		{"two lengths", true, [][]byte{head("POST", "content-length", "1", "content-length", "2"), data("a")}, codeMessage, EventMalformed},
		{"length without a body", true, [][]byte{head("POST", "content-length", "1")}, codeMessage, EventMalformed},
		{"body too short", true, [][]byte{head("POST", "content-length", "9"), data("short")}, codeMessage, EventMalformed},
		{"body too long", true, [][]byte{head("POST", "content-length", "1"), data("longer")}, codeMessage, EventMalformed},
		{"pseudo in trailers", true, [][]byte{head("POST"), data("a"), frame(frameHeaders, block(":path", "/"))}, codeMessage, EventMalformed},
		{"trailers too large", true, [][]byte{head("POST"), frame(frameHeaders, block("x", strings.Repeat("x", 5000)))}, codeMessage, EventHeaderLimit},
		{"no head", true, nil, codeRequestIncomplete, 0},
		{"nothing but unknown frames", true, [][]byte{frame(0x21, []byte("x"))}, codeRequestIncomplete, 0},
		{"head that does not end", false, [][]byte{head("GET")[:9]}, codeRequestIncomplete, EventHeaderTimeout},
		{"head that does not begin", false, [][]byte{{1}}, codeRequestIncomplete, EventHeaderTimeout},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := r.count(test.event)
			if got := reset(t, c.request(test.end, test.pieces...)); got != test.want {
				t.Errorf("reset with %#x, want %#x", got, test.want)
			}
			if test.event != 0 && r.count(test.event) != before+1 {
				t.Errorf("%v was counted %d times", test.event, r.count(test.event)-before)
			}
		})
	}
	if res := read(t, c.request(true, head("GET"))); res.heads[1][":status"] != "200" {
		t.Errorf("after all that: %v", res.heads)
	}
}

// A head that is over a bound is answered, whatever is announced, and costs no
// memory for what does not come.
func TestLargeHeads(t *testing.T) {
	r := newRig(t, nil, echo)
	c := r.dial()
	for name, piece := range map[string][]byte{
		"fields":     head("GET", "x", strings.Repeat("x", 5000)),
		"a block":    head("GET", "x", strings.Repeat("\x7f", 200_000)),
		"announced":  appendFrame(nil, frameHeaders, 1<<61),
		"many":       head("GET", strings.Split(strings.Repeat("x,y,", 70)+"x,y", ",")...),
		"many short": frame(frameHeaders, append([]byte{0, 0}, []byte(strings.Repeat("\xd1", 4000))...)),
	} {
		t.Run(name, func(t *testing.T) {
			if name == "many short" {
				// The static table makes much of little: ":method: GET" each.
				if got := reset(t, c.request(true, piece)); got != codeMessage {
					t.Errorf("reset with %#x", got)
				}
				return
			}
			if res := read(t, c.request(false, piece)); res.heads[0][":status"] != "431" {
				t.Errorf("heads %v, want 431", res.heads)
			}
		})
	}
	if n := r.count(EventHeaderLimit); n != 4 {
		t.Errorf("%d heads over the limit were counted", n)
	}
}

// What breaks the protocol ends the connection.
func TestBreaches(t *testing.T) {
	settings := append([]byte{streamControl}, frame(frameSettings, nil)...)
	control := func(more ...byte) []byte { return append(settings[:len(settings):len(settings)], more...) }
	setting := func(id, value uint64) []byte { return append(varint(id), varint(value)...) }
	type step struct {
		uni []byte
		end bool
	}
	for _, test := range []struct {
		name    string
		request []byte
		unis    []step
		want    code
	}{
		{"data first", data("x"), nil, codeFrameUnexpected},
		{"settings in a request", frame(frameSettings, nil), nil, codeFrameUnexpected},
		{"goaway in a request", append(head("POST"), frame(frameGoAway, []byte{0})...), nil, codeFrameUnexpected},
		{"push promise", append(head("POST"), frame(framePushPromise, []byte{0})...), nil, codeFrameUnexpected},
		{"priority in a request", frame(framePriority, []byte{0}), nil, codeFrameUnexpected},
		{"frame of HTTP/2", frame(0x8, nil), nil, codeFrameUnexpected},
		{"data behind trailers", append(append(head("POST"), frame(frameHeaders, block("a", "b"))...), data("x")...), nil, codeNo},
		{"malformed block", frame(frameHeaders, []byte{0, 0, 0xff, 0xff, 0xff}), nil, codeDecompression},
		{"dynamic table", frame(frameHeaders, []byte{2, 0, 0x80}), nil, codeDecompression},
		{"ends in a frame", append(head("POST"), 0, 5, 'x'), nil, codeFrame},
		{"ends in a head", head("POST")[:8], nil, codeFrame},
		{"ends in a frame's header", append(head("POST"), 0x40), nil, codeFrame},

		{"no settings", nil, []step{{uni: append([]byte{streamControl}, frame(frameGoAway, []byte{0})...)}}, codeMissingSettings},
		{"settings twice", nil, []step{{uni: control(frame(frameSettings, nil)...)}}, codeFrameUnexpected},
		{"data on control", nil, []step{{uni: control(data("x")...)}}, codeFrameUnexpected},
		{"frame of HTTP/2 on control", nil, []step{{uni: control(0x6, 0)}}, codeFrameUnexpected},
		{"goaway that is no number", nil, []step{{uni: control(frame(frameGoAway, []byte{0, 0})...)}}, codeFrame},
		{"empty goaway", nil, []step{{uni: control(frame(frameGoAway, nil)...)}}, codeFrame},
		{"long goaway", nil, []step{{uni: control(frame(frameGoAway, make([]byte, 9))...)}}, codeFrame},
		{"cancelled push", nil, []step{{uni: control(frame(frameCancelPush, []byte{0})...)}}, codeID},
		{"priority of a push", nil, []step{{uni: control(frame(framePriorityPush, []byte{0})...)}}, codeID},
		{"long frame", nil, []step{{uni: control(appendFrame(nil, 0x21, maxSettings+1)...)}}, codeExcessiveLoad},
		{"long settings", nil, []step{{uni: append([]byte{streamControl}, appendFrame(nil, frameSettings, maxSettings+1)...)}}, codeExcessiveLoad},
		{"setting twice", nil, []step{{uni: append([]byte{streamControl}, frame(frameSettings, append(setting(0x21, 1), setting(0x21, 1)...))...)}}, codeSettings},
		{"setting of HTTP/2", nil, []step{{uni: append([]byte{streamControl}, frame(frameSettings, setting(0x4, 1))...)}}, codeSettings},
		{"setting that is no truth", nil, []step{{uni: append([]byte{streamControl}, frame(frameSettings, setting(settingExtendedConnect, 2))...)}}, codeSettings},
		{"cut setting", nil, []step{{uni: append([]byte{streamControl}, frame(frameSettings, []byte{0x21})...)}}, codeFrame},
		{"control twice", nil, []step{{uni: settings}, {uni: settings}}, codeStreamCreation},
		{"encoder twice", nil, []step{{uni: []byte{streamEncoder}}, {uni: []byte{streamEncoder}}}, codeStreamCreation},
		{"push", nil, []step{{uni: []byte{streamPush, 0}}}, codeStreamCreation},
		{"control ends", nil, []step{{settings, true}}, codeClosedCritical},
		{"decoder ends", nil, []step{{[]byte{streamDecoder}, true}}, codeClosedCritical},
		{"table is changed", nil, []step{{uni: []byte{streamEncoder, 0x3f, 0xe1, 0x1f}}}, codeEncoderStream},
		{"what was not sent is acknowledged", nil, []step{{uni: []byte{streamDecoder, 0x80}}}, codeDecoderStream},
		{"integer without an end", nil, []step{{uni: append([]byte{streamDecoder, 0x7f}, strings.Repeat("\xff", 20)...)}}, codeDecoderStream},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil, echo)
			c := r.dial()
			for _, s := range test.unis {
				u := c.uni(s.uni...)
				if s.end {
					u.Close()
				}
			}
			if test.request != nil {
				s := c.request(true, test.request)
				if test.want == codeNo { // is not looked at
					read(t, s)
					return
				}
			}
			if got := c.closed(); got != test.want {
				t.Errorf("connection closed with %#x, want %#x", got, test.want)
			}
			until(t, "the breach is counted", func() bool { return r.count(EventProtocol) == 1 })
		})
	}
}

// What clients may do besides asking disturbs nothing.
func TestHarmless(t *testing.T) {
	r := newRig(t, nil, echo)
	c := r.dial()
	control := append([]byte{streamControl}, frame(frameSettings, append(varint(settingDatagram), 1))...)
	control = append(control, frame(frameMaxPushID, []byte{8})...)
	control = append(control, frame(framePriority, []byte("\x00u=1"))...)
	control = append(control, frame(frameGoAway, []byte{0})...)
	control = append(control, frame(0x21, []byte("grease"))...)
	c.uni(control...)
	c.uni(streamEncoder, 0x20)
	c.uni(streamDecoder, 0x41, 0x7f, 0x80, 0x01)
	c.uni(0x21, 1, 2, 3).Close()
	c.uni().Close()
	for range 20 {
		if res := read(t, c.request(true, head("GET"))); res.heads[1][":status"] != "200" {
			t.Fatalf("heads %v", res.heads)
		}
		time.Sleep(time.Millisecond)
	}
	if err := c.Context().Err(); err != nil {
		t.Error(err)
	}
}

// Waiting for a body, and writing, end when they are told to, and go on.
func TestInterrupt(t *testing.T) {
	errCause := fmt.Errorf("cause")
	waits := make(chan *Stream, 1)
	var mu sync.Mutex
	var got []error
	done := make(chan struct{})
	r := newRig(t, nil, func(s *Stream) {
		defer close(done)
		note := func(err error) {
			mu.Lock()
			got = append(got, err)
			mu.Unlock()
		}
		s.SetReadDeadline(loop.Now().Add(30 * time.Millisecond))
		_, err := s.Read()
		note(err) // the deadline
		s.SetReadDeadline(0)
		waits <- s
		_, err = s.Read()
		note(err) // the cause
		_, err = s.Read()
		note(err) // still
		s.Resume()
		_, err = s.Read()
		note(err)
		note(s.Respond(204, nil, true))
	})
	c := r.dial()
	st := c.request(false, head("POST"), frame(frameData, []byte("hello"))[:2])
	s := <-waits
	time.Sleep(20 * time.Millisecond)
	s.Interrupt(errCause)
	time.Sleep(20 * time.Millisecond)
	st.Write([]byte("hello"))
	st.Close()
	if res := read(t, st); res.heads[0][":status"] != "204" {
		t.Errorf("answer %v", res.heads)
	}
	<-done
	want := []error{loop.ErrTimeout, errCause, errCause, nil, nil}
	mu.Lock()
	defer mu.Unlock()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("errors are %v, want %v", got, want)
	}
}

// A client that takes nothing more of its answer is given up; what it has taken
// slowly is progress.
func TestSlowReader(t *testing.T) {
	result := make(chan error, 1)
	r := newRig(t, func(c *Config) { c.WriteTimeout = 300 * time.Millisecond }, func(s *Stream) {
		s.Respond(200, nil, false)
		var err error
		for n := 0; err == nil && n < 64; n++ {
			err = s.Write(make([]byte, 64<<10), false)
		}
		result <- err
	})
	c, err := r.tryDial(&quic.Config{InitialStreamReceiveWindow: 64 << 10, MaxStreamReceiveWindow: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	s := c.request(true, head("GET"))
	b := make([]byte, 8<<10)
	for range 10 { // slower than the time-out for a piece, but it moves
		time.Sleep(100 * time.Millisecond)
		if _, err := io.ReadFull(s, b); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-result:
		t.Fatalf("writing ended with %v while the client read", err)
	default:
	}
	if err := <-result; err != loop.ErrStalled {
		t.Errorf("writing to a client that does not read: %v, want %v", err, loop.ErrStalled)
	}
	if n := r.count(EventWriteTimeout); n != 1 {
		t.Errorf("counted %d times", n)
	}
	if got := reset(t, s); got != codeInternal {
		t.Errorf("stream was reset with %#x", got)
	}
}

// A client that gives up a request is seen to, whether or not it has sent a body.
func TestClientGone(t *testing.T) {
	for name, end := range map[string]bool{"body is open": false, "body has ended": true} {
		t.Run(name, func(t *testing.T) {
			begun, gone := make(chan struct{}), make(chan struct{})
			r := newRig(t, nil, func(s *Stream) {
				if !s.Alive() {
					t.Error("the client is gone at once")
				}
				close(begun)
				for s.Alive() {
					time.Sleep(time.Millisecond)
				}
				if err := s.Respond(200, nil, true); err == nil {
					t.Error("answering a client that has gone succeeds")
				}
				close(gone)
			})
			c := r.dial()
			s := c.request(end, head("POST"))
			r.within("the request is served", begun)
			s.CancelRead(quic.StreamErrorCode(codeRequestCancelled))
			s.CancelWrite(quic.StreamErrorCode(codeRequestCancelled))
			r.within("the client is seen to have gone", gone)
		})
	}
}

// A tunnel carries bytes in both directions, each to its own end.
func TestTunnel(t *testing.T) {
	r := newRig(t, nil, func(s *Stream) {
		if string(s.Head().Protocol) != "websocket" {
			s.Respond(501, nil, true)
			return
		}
		s.Respond(200, nil, false)
		c := s.Tunnel()
		for {
			b, err := c.Read([]byte("<"))
			if err == io.EOF {
				c.Write([]byte("end"))
				c.CloseWrite()
				return
			}
			if err != nil || c.Writev(b, []byte(">")) != nil {
				t.Errorf("tunnel: %v", err)
				return
			}
			c.Release()
		}
	})
	c := r.dial()
	s := c.request(false, head("CONNECT", ":protocol", "websocket"))
	s.Write(data("hello"))
	time.Sleep(50 * time.Millisecond)
	s.Write(data("again"))
	s.Close()
	if res := read(t, s); res.heads[0][":status"] != "200" || res.body != "<hello><again>end" {
		t.Errorf("answer %v %q", res.heads, res.body)
	}
}
