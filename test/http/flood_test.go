package http_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"fairlead/test/lab"
)

// attacked is a node under attack, with an https and an http listener.
type attacked struct {
	*lab.Node
	ca      *lab.CA
	release func() // ends the answers to /hold
}

// listeners of attacked nodes: HTTP/2 agreed on by TLS, and with prior knowledge.
var h2listeners = []string{"secure", "plain"}

// manyAgain lets attackers come again as fast as they can.
const manyAgain = "connections_after_flood: 1000000"

func startAttacked(t *testing.T, keys string) *attacked {
	t.Helper()
	release := make(chan struct{})
	large := bytes.Repeat([]byte("x"), 1<<20)
	addr := lab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/hold": // answers when it is let
			select {
			case <-release:
			case <-r.Context().Done():
			}
		case "/large": // answers 100 MiB
			for range 100 {
				if _, err := w.Write(large); err != nil {
					return
				}
			}
		default:
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n)
		}
	}))
	ca := lab.NewCA(t)
	cert := ca.Issue(host)
	n := lab.Start(t, fmt.Sprintf(`
listeners:
  - {name: secure, address: "127.0.0.1:0", protocol: https, certificates: [{certificate: %q, key: %q}]%s}
  - {name: plain, address: "127.0.0.1:0", protocol: http%s}
pools: [{name: p, endpoints: [{name: A, address: %q}]}]
load_balancers: [{name: %s, proxied: true, default_pools: [p]}]
`, cert.CertFile, cert.KeyFile, more(keys), more(keys), addr, host))
	let := sync.OnceFunc(func() { close(release) })
	t.Cleanup(let)
	return &attacked{n, ca, let}
}

// dial connects to a listener with whatever goes before HTTP/2.
func (a *attacked) dial(listener string) (net.Conn, error) {
	nc, err := net.Dial("tcp", a.Addr(listener))
	if err != nil {
		return nil, err
	}
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	if listener == "plain" {
		return nc, nil
	}
	tc := tls.Client(nc, a.ca.Client(host, "h2"))
	if err := tc.Handshake(); err != nil {
		nc.Close()
		return nil, err
	}
	return tc, nil
}

// normal runs clients that must not notice an attack. Each makes requests one
// after the other; stop ends them and fails the test if any request failed.
func (a *attacked) normal(t *testing.T) (stop func()) {
	t.Helper()
	var done atomic.Int64
	end := make(chan struct{})
	var clients sync.WaitGroup
	for _, c := range []struct{ listener, protocol string }{
		{"secure", "h2"}, {"secure", "http/1.1"}, {"plain", "h2"}, {"plain", "http/1.1"},
	} {
		p := new(http.Protocols)
		p.SetHTTP1(c.protocol != "h2")
		p.SetHTTP2(c.protocol == "h2" && c.listener == "secure")
		p.SetUnencryptedHTTP2(c.protocol == "h2" && c.listener == "plain")
		tr := &http.Transport{TLSClientConfig: a.ca.Client(host, c.protocol), Protocols: p}
		t.Cleanup(tr.CloseIdleConnections)
		client := &http.Client{Transport: tr, Timeout: 20 * time.Second}
		scheme := "https://"
		if c.listener == "plain" {
			scheme = "http://"
		}
		url := scheme + a.Addr(c.listener) + "/"
		clients.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-end:
					return
				case <-time.After(time.Millisecond):
				}
				body := strings.Repeat("x", i%5000)
				req, _ := http.NewRequest("POST", url, strings.NewReader(body))
				req.Host = host
				res, err := client.Do(req)
				if err != nil {
					t.Errorf("normal client with %s on %s, request %d: %v", c.protocol, c.listener, i, err)
					return
				}
				b, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil || res.StatusCode != 200 || string(b) != fmt.Sprint(len(body)) {
					t.Errorf("normal client with %s on %s, request %d: %s %q, %v", c.protocol, c.listener, i, res.Status, b, err)
					return
				}
				done.Add(1)
			}
		})
	}
	lab.Await(t, "normal clients to be served", func() bool { return done.Load() >= 20 })
	atRest := done.Load()
	return sync.OnceFunc(func() {
		close(end)
		clients.Wait()
		if done.Load() == atRest {
			t.Error("no normal client was served during the attack")
		}
	})
}

// attacker is a client of HTTP/2 that does what it is told, at speed.
type attacker struct {
	*http2.Framer
	nc    net.Conn
	w     *bufio.Writer
	enc   *hpack.Encoder
	block bytes.Buffer
	ended chan struct{}
	code  http2.ErrCode // of the GOAWAY, once ended
	gone  bool          // there was one
}

// attack begins HTTP/2 on a connection. Unless it is deaf, the attacker reads
// what comes.
func attack(nc net.Conn, deaf bool, settings ...http2.Setting) *attacker {
	a := &attacker{nc: nc, w: bufio.NewWriterSize(nc, 16<<10), ended: make(chan struct{})}
	a.Framer = http2.NewFramer(a.w, nc)
	a.AllowIllegalWrites, a.AllowIllegalReads = true, true
	a.enc = hpack.NewEncoder(&a.block)
	io.WriteString(a.w, http2.ClientPreface)
	a.WriteSettings(settings...)
	a.WriteSettingsAck()
	if !deaf {
		go a.listen()
	}
	return a
}

// listen reads until the connection ends.
func (a *attacker) listen() {
	defer close(a.ended)
	for {
		f, err := a.ReadFrame()
		if err != nil {
			return
		}
		if g, ok := f.(*http2.GoAwayFrame); ok {
			a.code, a.gone = g.ErrCode, true
			return
		}
	}
}

// over reports whether the server has ended the connection.
func (a *attacker) over() bool {
	select {
	case <-a.ended:
		return true
	default:
		return false
	}
}

// fields encodes a header block of pairs of name and value.
func (a *attacker) fields(fields ...string) []byte {
	a.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		a.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return a.block.Bytes()
}

// open opens a stream with a request; one with POST is not ended.
func (a *attacker) open(stream uint32, method, path string, more ...string) {
	a.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, EndHeaders: true, EndStream: method != "POST",
		BlockFragment: a.fields(append([]string{":method", method, ":scheme", "https", ":path", path, ":authority", host}, more...)...)})
}

// flood is something that a client repeats on a connection until that ends.
type flood struct {
	name  string
	event string        // that counts it; "" for a mere breach of the protocol
	code  http2.ErrCode // of the GOAWAY
	once  func(a *attacker)
	step  func(a *attacker, i uint32)
}

const calm = http2.ErrCodeEnhanceYourCalm

var floodsOfHTTP2 = []flood{
	{"rapid reset", "rapid_reset", calm, nil, func(a *attacker, i uint32) {
		a.open(2*i+1, "GET", "/hold")
		a.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
	}},
	{"rapid reset of requests under way", "rapid_reset", calm, nil, func(a *attacker, i uint32) {
		a.open(2*i+1, "GET", "/hold")
		a.w.Flush()
		if i >= 50 {
			a.WriteRSTStream(2*(i-50)+1, http2.ErrCodeCancel)
		}
	}},
	{"made you reset: window update by 0", "rapid_reset", calm, nil, func(a *attacker, i uint32) {
		a.open(2*i+1, "GET", "/hold")
		a.WriteWindowUpdate(2*i+1, 0)
	}},
	{"made you reset: window too large", "rapid_reset", calm, nil, func(a *attacker, i uint32) {
		a.open(2*i+1, "GET", "/hold")
		a.WriteWindowUpdate(2*i+1, 1<<31-1)
	}},
	{"made you reset: DATA on a half-closed stream", "rapid_reset", calm, nil, func(a *attacker, i uint32) {
		a.open(2*i+1, "GET", "/hold")
		a.WriteData(2*i+1, false, []byte("x"))
	}},
	{"made you reset: stream depends on itself", "rapid_reset", calm, nil, func(a *attacker, i uint32) {
		a.open(2*i+1, "GET", "/hold")
		a.WritePriority(2*i+1, http2.PriorityParam{StreamDep: 2*i + 1})
	}},
	{"made you reset: malformed", "rapid_reset", calm, nil, func(a *attacker, i uint32) {
		a.open(2*i+1, "GET", "/hold", "Upper", "case")
	}},
	{"made you reset: more than content-length", "rapid_reset", calm, nil, func(a *attacker, i uint32) {
		a.open(2*i+1, "POST", "/hold", "content-length", "1")
		a.WriteData(2*i+1, false, []byte("xx"))
	}},
	{"resets of what is reset", "reset_flood", calm, func(a *attacker) {
		a.open(1, "GET", "/hold")
	}, func(a *attacker, i uint32) { a.WriteRSTStream(1, http2.ErrCodeCancel) }},
	{"resets of idle streams", "", http2.ErrCodeProtocol, nil, func(a *attacker, i uint32) {
		a.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
	}},
	{"streams over the limit", "refused_flood", calm, nil, func(a *attacker, i uint32) {
		a.open(2*i+1, "GET", "/hold")
	}},
	{"PING", "ping_flood", calm, nil, func(a *attacker, i uint32) { a.WritePing(false, [8]byte{}) }},
	{"acknowledged PING", "ping_flood", calm, nil, func(a *attacker, i uint32) { a.WritePing(true, [8]byte{}) }},
	{"SETTINGS", "settings_flood", calm, nil, func(a *attacker, i uint32) { a.WriteSettings() }},
	{"acknowledged SETTINGS", "settings_flood", calm, nil, func(a *attacker, i uint32) { a.WriteSettingsAck() }},
	{"SETTINGS that move all windows", "settings_flood", calm, func(a *attacker) {
		for i := range uint32(100) {
			a.open(2*i+1, "GET", "/large")
		}
	}, func(a *attacker, i uint32) {
		list := make([]http2.Setting, 2700)
		for i := range list {
			list[i] = http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i & 1)}
		}
		a.WriteSettings(list...)
	}},
	{"PRIORITY", "priority_flood", calm, nil, func(a *attacker, i uint32) {
		a.WritePriority(2*i+1, http2.PriorityParam{})
	}},
	{"GOAWAY", "goaway_flood", calm, func(a *attacker) { a.open(1, "GET", "/hold") },
		func(a *attacker, i uint32) { a.WriteGoAway(0, http2.ErrCodeNo, nil) }},
	{"unknown frames", "unknown_flood", calm, nil, func(a *attacker, i uint32) { a.WriteRawFrame(0xbe, 0, 0, nil) }},
	{"tiny window updates of the connection", "window_flood", calm, nil, func(a *attacker, i uint32) { a.WriteWindowUpdate(0, 1) }},
	{"tiny window updates of a stream", "window_flood", calm, func(a *attacker) {
		a.open(1, "GET", "/large")
	}, func(a *attacker, i uint32) { a.WriteWindowUpdate(1, 1) }},
	{"empty DATA", "empty_data_flood", calm, func(a *attacker) { a.open(1, "POST", "/hold") },
		func(a *attacker, i uint32) { a.WriteData(1, false, nil) }},
	{"DATA of padding", "empty_data_flood", calm, func(a *attacker) { a.open(1, "POST", "/") },
		func(a *attacker, i uint32) { a.WriteDataPadded(1, false, nil, make([]byte, 50)) }},
	{"empty CONTINUATION", "continuation_flood", calm, func(a *attacker) {
		a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
	}, func(a *attacker, i uint32) { a.WriteContinuation(1, false, nil) }},
	{"small CONTINUATION", "continuation_flood", calm, func(a *attacker) {
		a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
	}, func(a *attacker, i uint32) { a.WriteContinuation(1, false, []byte{0x82}) }},
	{"fields of the decoder's table", "header_flood", calm, nil, func(a *attacker, i uint32) {
		block := a.fields(":method", "GET", ":scheme", "https", ":path", "/", ":authority", host, "x", strings.Repeat("v", 4000))
		a.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, EndHeaders: true, EndStream: true,
			BlockFragment: append(block, bytes.Repeat([]byte{0xbe}, 12_000)...)})
	}},
	{"large CONTINUATION", "continuation_flood", calm, func(a *attacker) {
		a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
	}, func(a *attacker, i uint32) { a.WriteContinuation(1, false, bytes.Repeat([]byte{0x82}, 16<<10)) }},
}

// TestFloods: whatever a client floods a node with, its connection ends and it is
// counted, while others are served.
func TestFloods(t *testing.T) {
	const (
		attackers = 8
		lasting   = 250 * time.Millisecond
		most      = 100_000 // steps on a connection
	)
	n := startAttacked(t, limits(manyAgain))
	stop := n.normal(t)
	defer stop()
	heap := live()
	for _, f := range floodsOfHTTP2 {
		t.Run(f.name, func(t *testing.T) {
			for _, listener := range h2listeners {
				counted := func() (n0 float64) {
					n0 = n.Metric("fairlead_http2_events_total", "listener", listener, "event", f.event)
					if f.event == "rapid_reset" { // if more of them come at once than may be open
						n0 += n.Metric("fairlead_http2_events_total", "listener", listener, "event", "refused_flood")
					}
					return n0
				}
				before := counted()
				var ended, told atomic.Int64
				var wg sync.WaitGroup
				for until := time.Now().Add(lasting); ; {
					for range attackers {
						wg.Go(func() {
							nc, err := n.dial(listener)
							if err != nil {
								t.Errorf("%s: %v", listener, err)
								return
							}
							defer nc.Close()
							a := attack(nc, false)
							if f.once != nil {
								f.once(a)
							}
							for i := uint32(0); i < most && !a.over(); i++ {
								f.step(a, i)
							}
							a.w.Flush()
							<-a.ended
							ended.Add(1)
							// Who goes on sending for longer than the node
							// lingers may lose the GOAWAY to a reset.
							if a.gone {
								told.Add(1)
								if a.code != f.code {
									t.Errorf("%s: GOAWAY %v, want %v", listener, a.code, f.code)
								}
							}
						})
					}
					wg.Wait()
					if t.Failed() || time.Now().After(until) {
						break
					}
				}
				if told.Load() == 0 {
					t.Errorf("%s: none of %d connections was told by GOAWAY", listener, ended.Load())
				}
				if got := counted() - before; f.event != "" && got != float64(ended.Load()) {
					t.Errorf("%s: %v times %s was counted for %d connections", listener, got, f.event, ended.Load())
				}
			}
		})
	}
	stop()
	n.settled(t)
	lab.Await(t, "memory to be as before", func() bool { return live()-heap < 64<<20 })
}

// live returns the bytes that are in use, in all of the test's process.
func live() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // pools keep what they have for one collection
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// settled waits until nothing of the attackers is left.
func (a *attacked) settled(t *testing.T) {
	t.Helper()
	lab.Await(t, "requests of attackers to end", func() bool { return a.Status().Pools[0].OpenRequests == 0 })
	equal(t, "panics", a.Metric("fairlead_http_panics_total")+a.Metric("fairlead_loop_panics_total"), 0)
}

// An attacker that makes the node answer and reads nothing.
func TestFloodOfAnswersUnread(t *testing.T) {
	n := startAttacked(t, limits(manyAgain))
	stop := n.normal(t)
	defer stop()
	for _, listener := range h2listeners {
		nc, err := n.dial(listener)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		a := attack(nc, true)
		a.open(1, "POST", "/")
		// Pings are allowed in proportion to data, which the endpoint takes.
		for i := 0; i < 2_000_000 && err == nil; i++ {
			a.WriteData(1, false, []byte("x"))
			a.WritePing(false, [8]byte{})
			a.WritePing(false, [8]byte{})
			err = a.WritePing(false, [8]byte{})
		}
		n.AwaitMetric(1, "fairlead_http2_events_total", "listener", listener, "event", "control_flood")
	}
	stop()
	n.settled(t)
}

// shut opens streams whose answers are large, and whose windows take one byte.
func (a *attacked) shut(t *testing.T, listener string, streams int) {
	t.Helper()
	nc, err := a.dial(listener)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	f := attack(nc, false, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
	for i := range uint32(streams) {
		f.open(2*i+1, "GET", "/large")
	}
	f.w.Flush()
}

// Attackers that ask for large answers on all streams and keep their windows shut
// make a node hold one read for each.
func TestShutWindows(t *testing.T) {
	const (
		attackers = 4
		streams   = 128
		// What one read of the endpoint has brought, and the endpoint's side,
		// which is in this process too.
		eachStream = 192 << 10
	)
	for _, listener := range h2listeners {
		t.Run(listener, func(t *testing.T) {
			// The time-out is the default, so that none ends while others are
			// opened, be the machine ever so busy.
			n := startAttacked(t, limits(manyAgain))
			stop := n.normal(t)
			defer stop()
			heap := live()
			for range attackers {
				n.shut(t, listener, streams)
			}
			lab.Await(t, "answers to wait", func() bool { return n.Status().Pools[0].OpenRequests >= attackers*streams })
			if each := (live() - heap) / (attackers * streams); each > eachStream {
				t.Errorf("a stream whose window is shut costs %d KiB", each>>10)
			}
			stop()
		})
	}
}

// Windows that stay shut end their streams in time.
func TestShutWindowsEnd(t *testing.T) {
	t.Parallel()
	const streams = 50
	for _, listener := range h2listeners {
		n := startAttacked(t, limits("body_timeout: 1s, "+manyAgain))
		n.shut(t, listener, streams)
		n.AwaitMetric(streams, "fairlead_http2_events_total", "listener", listener, "event", "write_timeout")
		n.settled(t)
	}
}

// Attackers that are slow: each way of it ends in its time.
func TestSlowHTTP2(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, metric, label, value string
		slow                       func(a *attacker)
	}{
		{"preface", "fairlead_http2_events_total", "event", "header_timeout", nil},
		{"CONTINUATION", "fairlead_http2_events_total", "event", "header_timeout", func(a *attacker) {
			a.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0x82}})
			for range 60 {
				if a.w.Flush() != nil || a.over() {
					return
				}
				time.Sleep(100 * time.Millisecond)
				a.WriteContinuation(1, false, []byte{0x84})
			}
		}},
		{"bytes of HEADERS", "fairlead_http2_events_total", "event", "header_timeout", func(a *attacker) {
			a.w.WriteString("\x00\x3f\xff\x01\x04\x00\x00\x00\x01")
			for a.w.Flush() == nil && !a.over() {
				time.Sleep(50 * time.Millisecond)
				a.w.WriteByte(0x82)
			}
		}},
		{"bytes of DATA", "fairlead_http_limited_total", "limit", "body_timeout", func(a *attacker) {
			a.open(1, "POST", "/")
			for range 40 {
				a.WriteData(1, false, []byte("x"))
				if a.w.Flush() != nil {
					return
				}
				time.Sleep(50 * time.Millisecond)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := startAttacked(t, limits("header_timeout: 1s, body_timeout: 1s, idle_timeout: 2s, "+manyAgain))
			nc, err := n.dial("secure")
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			begun := time.Now()
			if c.slow == nil {
				io.WriteString(nc, http2.ClientPreface[:3])
			} else {
				c.slow(attack(nc, false))
			}
			n.AwaitMetric(1, c.metric, "listener", "secure", c.label, c.value)
			if d := time.Since(begun); d > slack+6*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}
