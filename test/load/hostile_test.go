package loadtest

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"fairlead/internal/h1/h1test"
	"fairlead/test/lab"
	"fairlead/test/process"
)

// hostile runs a node for an attack, with normal clients beside it that must
// not notice. After the attack the node is looked over.
func hostile(t *testing.T, limits string, attack func(t *testing.T, web, secure string, ca *lab.CA)) {
	t.Helper()
	ca := lab.NewCA(t)
	cert := ca.Issue(host)
	p := process.Start(t, fmt.Sprintf(`
listeners:
  - {name: web, address: "127.0.0.1:0", protocol: http, limits: %s}
  - {name: secure, address: "127.0.0.1:0", protocol: https, certificates: [{certificate: %q, key: %q}], limits: %s}
pools: [{name: p, endpoints: [{name: a, address: %q}]}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [p]}]
`, limits, cert.CertFile, cert.KeyFile, limits, serve(t, nil)))
	normal := []*load{
		startLoad(t, "normal clients", 8, plain(p.Addr("web")), 20*time.Millisecond, mixed),
		startLoad(t, "normal clients with TLS", 4, secure(p.Addr("secure"), ca.Client(host, "http/1.1")), 20*time.Millisecond, mixed),
	}
	busy(t, normal[0])
	before := usageOf(p)
	attack(t, p.Addr("web"), p.Addr("secure"), ca)
	for _, l := range normal {
		l.wantNoFailure()
	}
	wantMemoryBelow(t, p, 256<<20)
	lab.Await(t, "goroutines and descriptors to be as before", func() bool {
		u := usageOf(p)
		return u.goroutines <= before.goroutines+20 && u.descriptors <= before.descriptors+20
	})
	if n := p.Metric("fairlead_http_panics_total"); n > 0 {
		t.Errorf("%v connections met a defect", n)
	}
	for name, v := range p.Series() {
		if strings.HasPrefix(name, "fairlead_http_limited_total") && v > 0 {
			t.Log(name, v)
		}
	}
}

// shortLimits let a test see the end of what they cut, and leave honest clients
// time on a busy machine.
const shortLimits = "{header_timeout: 3s, body_timeout: 3s, idle_timeout: 5s}"

// One address opens far more connections than it may. Those beyond the limit are
// refused; another address is served.
func TestConnectionStorm(t *testing.T) {
	hostile(t, "{connections_per_client: 200, header_timeout: 5s}", func(t *testing.T, web, _ string, _ *lab.CA) {
		var refused, kept atomic.Int64
		var wg sync.WaitGroup
		// The normal clients come from 127.0.0.1.
		d := net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}
		const workers = 8
		for range workers {
			wg.Go(func() {
				var mine []net.Conn
				for range scaled(3000, 20000) / workers {
					c, err := d.Dial("tcp", web)
					if err != nil {
						refused.Add(1)
						continue
					}
					c.SetReadDeadline(time.Now().Add(time.Millisecond))
					if _, err := c.Read(make([]byte, 1)); isTimeout(err) {
						kept.Add(1)
						mine = append(mine, c)
						continue
					}
					refused.Add(1)
					c.Close()
				}
				for _, c := range mine {
					c.Close()
				}
			})
		}
		wg.Wait()
		t.Logf("%d refused, %d kept open", refused.Load(), kept.Load())
		if refused.Load() == 0 {
			t.Error("no connection was refused")
		}
	})
}

// Random bytes, and messages that were damaged, over many connections.
func TestRandomBytes(t *testing.T) {
	hostile(t, shortLimits, func(t *testing.T, web, secureAddr string, ca *lab.CA) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		var messages [][]byte
		for _, r := range h1test.Good {
			messages = append(messages, []byte(r.Raw))
		}
		for _, r := range h1test.Malformed {
			messages = append(messages, []byte(r.Raw))
		}
		end := time.Now().Add(scaled(5*time.Second, time.Minute))
		var wg sync.WaitGroup
		var sent atomic.Int64
		for worker := range 8 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(seed, uint64(worker)))
				for time.Now().Before(end) {
					var c net.Conn
					var err error
					switch rnd.IntN(4) {
					case 0:
						c, err = secure(secureAddr, ca.Client(host, "http/1.1"))()
					case 1:
						c, err = secure(secureAddr, ca.Client(host, "h2"))()
						if err == nil && rnd.IntN(2) == 0 {
							io.WriteString(c, http2.ClientPreface)
						}
					case 2:
						c, err = plain(secureAddr)()
					default:
						c, err = plain(web)()
					}
					if err != nil {
						t.Errorf("connect: %v", err)
						return
					}
					c.SetDeadline(time.Now().Add(50 * time.Millisecond))
					c.Write(damaged(rnd, messages))
					io.CopyN(io.Discard, c, int64(rnd.IntN(4096)))
					c.Close()
					sent.Add(1)
				}
			})
		}
		wg.Wait()
		t.Logf("%d messages", sent.Load())
	})
}

// damaged returns random bytes or a message with some bytes changed, repeated
// or left out.
func damaged(rnd *rand.Rand, messages [][]byte) []byte {
	if rnd.IntN(4) == 0 {
		b := make([]byte, 1+rnd.IntN(4096))
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return b
	}
	b := bytes.Clone(messages[rnd.IntN(len(messages))])
	for range rnd.IntN(6) {
		if len(b) < 2 {
			break
		}
		i := rnd.IntN(len(b) - 1)
		switch rnd.IntN(4) {
		case 0:
			b[i] = byte(rnd.Uint32())
		case 1:
			b = append(b[:i], b[i+1:]...)
		case 2:
			b = append(bytes.Clone(b[:i]), bytes.Repeat(b[i:i+1], 1+rnd.IntN(100))...)
		default:
			b = append(b, b[i:]...)
		}
	}
	return b
}

// Heads that are large in each way that heads can be.
func TestHeaderBombs(t *testing.T) {
	get := "GET / HTTP/1.1\r\nHost: " + host + "\r\n"
	bombs := []struct{ name, text string }{
		{"long line", get + "X: " + strings.Repeat("a", 8<<20)},
		{"many lines", get + strings.Repeat("X: a\r\n", 1<<20)},
		{"long target", "GET /" + strings.Repeat("a", 8<<20)},
		{"long method", strings.Repeat("A", 8<<20)},
		{"blank lines", strings.Repeat("\r\n", 4<<20)},
		{"many chunks", "POST /upload HTTP/1.1\r\nHost: " + host + "\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\na\r\n", 1<<18)},
		{"long chunk extension", "POST /upload HTTP/1.1\r\nHost: " + host + "\r\nTransfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("a", 8<<20)},
		{"long trailer", "POST /upload HTTP/1.1\r\nHost: " + host + "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: " + strings.Repeat("a", 8<<20)},
		{"pipeline", strings.Repeat(get+"\r\n", scaled(6000, 20000))},
	}
	hostile(t, shortLimits, func(t *testing.T, web, _ string, _ *lab.CA) {
		var wg sync.WaitGroup
		for _, bomb := range bombs {
			for range scaled(4, 32) {
				wg.Go(func() {
					c, err := plain(web)()
					if err != nil {
						t.Errorf("%s: %v", bomb.name, err)
						return
					}
					defer c.Close()
					c.SetDeadline(time.Now().Add(40 * time.Second))
					go io.WriteString(c, bomb.text)
					if _, err := io.Copy(io.Discard, c); isTimeout(err) {
						t.Errorf("%s: the connection stays open", bomb.name)
					}
				})
			}
		}
		wg.Wait()
	})
}

// framer is an HTTP/2 client that can do what no honest one does.
type framer struct {
	*http2.Framer
	c   net.Conn
	buf bytes.Buffer
	enc *hpack.Encoder
}

func dialFramer(addr string, cfg *tls.Config) (*framer, error) {
	c, err := secure(addr, cfg)()
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(60 * time.Second))
	f := &framer{Framer: http2.NewFramer(c, c), c: c}
	f.enc = hpack.NewEncoder(&f.buf)
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		return nil, err
	}
	return f, f.WriteSettings()
}

// head encodes a request's head.
func (f *framer) head(path string) []byte {
	f.buf.Reset()
	for _, kv := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", host}, {":path", path}} {
		f.enc.WriteField(hpack.HeaderField{Name: kv[0], Value: kv[1]})
	}
	return f.buf.Bytes()
}

// drain reads until the node ends the connection.
func (f *framer) drain() error {
	_, err := io.Copy(io.Discard, f.c)
	return err
}

func TestHTTP2Attacks(t *testing.T) {
	frames := scaled(20000, 200000)
	attacks := []struct {
		name string
		act  func(f *framer) error // until an error, which is the node's answer
	}{
		{"rapid reset", func(f *framer) error {
			for i := range frames {
				id := uint32(2*i + 1)
				if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: f.head("/wait?for=10s"), EndHeaders: true, EndStream: true}); err != nil {
					return err
				}
				if err := f.WriteRSTStream(id, http2.ErrCodeCancel); err != nil {
					return err
				}
			}
			return nil
		}},
		{"CONTINUATION without end", func(f *framer) error {
			if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.head("/")}); err != nil {
				return err
			}
			for range frames {
				f.buf.Reset()
				f.enc.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("a", 1000), Sensitive: true})
				if err := f.WriteContinuation(1, false, f.buf.Bytes()); err != nil {
					return err
				}
			}
			return nil
		}},
		{"dripped CONTINUATION", func(f *framer) error {
			if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.head("/")}); err != nil {
				return err
			}
			for range 100 {
				time.Sleep(200 * time.Millisecond)
				if err := f.WriteContinuation(1, false, nil); err != nil {
					return err
				}
			}
			return nil
		}},
		{"compressed header bomb", func(f *framer) error {
			for i := range frames / 100 {
				f.head("/")
				f.enc.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("a", 3000)}) // is in the table then
				for range 2000 {
					f.enc.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("a", 3000)})
				}
				if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: f.buf.Bytes(), EndHeaders: true, EndStream: true}); err != nil {
					return err
				}
			}
			return nil
		}},
		{"settings flood", func(f *framer) error {
			for range frames {
				if err := f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1000}); err != nil {
					return err
				}
			}
			return nil
		}},
		{"ping flood", func(f *framer) error {
			for range frames {
				if err := f.WritePing(false, [8]byte{}); err != nil {
					return err
				}
			}
			return nil
		}},
		{"empty data", func(f *framer) error {
			if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.head("/upload"), EndHeaders: true}); err != nil {
				return err
			}
			for range frames {
				if err := f.WriteData(1, false, nil); err != nil {
					return err
				}
			}
			return nil
		}},
		{"no window", func(f *framer) error {
			if err := f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
				return err
			}
			for i := range 200 {
				if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: f.head("/download?size=1000000000"), EndHeaders: true, EndStream: true}); err != nil {
					return err
				}
			}
			return nil
		}},
	}
	// run makes attacks over so many connections each.
	run := func(t *testing.T, connections int, some ...int) {
		hostile(t, shortLimits, func(t *testing.T, _, secureAddr string, ca *lab.CA) {
			var wg sync.WaitGroup
			for _, i := range some {
				for range connections {
					wg.Go(func() {
						f, err := dialFramer(secureAddr, ca.Client(host, "h2"))
						if err != nil {
							t.Error(err)
							return
						}
						defer f.c.Close()
						ended := make(chan struct{})
						go func() {
							defer close(ended)
							f.drain()
						}()
						attacks[i].act(f)
						// Whoever attacks and stays is cut off by the time-outs.
						select {
						case <-ended:
						case <-time.After(25 * time.Second):
							t.Errorf("%s: the connection stays open", attacks[i].name)
						}
					})
				}
			}
			wg.Wait()
		})
	}
	if process.Race { // one node has to do for all
		run(t, 1, 0, 1, 2, 3, 4, 5, 6, 7)
		return
	}
	for i, attack := range attacks {
		t.Run(attack.name, func(t *testing.T) {
			t.Parallel() // they mostly wait for time-outs
			run(t, scaled(4, 16), i)
		})
	}
}
