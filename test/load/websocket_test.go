//go:build linux

package loadtest

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	be "encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairlead/test/lab"
	"fairlead/test/process"
)

// WebSockets carry messages of any size, in fragments, with pings between them, both
// ways at once, and one way when one end has closed its direction, over HTTP/1.1, with
// and without TLS, and over HTTP/2; and so do other protocols. Nothing is lost, nothing
// changes its place, and nothing of it is left.
func TestWebSocketRelay(t *testing.T) {
	engines := []string{os.Getenv("FAIRLEAD_IO")}
	if engines[0] == "" {
		engines = []string{"loop", "goroutine"}[:scaled(1, 2)]
	}
	for _, engine := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Setenv("FAIRLEAD_IO", engine)
			relayNode(t)
		})
	}
}

// sharing is how many WebSockets share an HTTP/2 connection.
const sharing = 8

func relayNode(t *testing.T) {
	connections := scaled(60, 1000)
	var heard counts
	all := talk{
		until: time.Now().Add(scaled(3*time.Second, 10*time.Minute)),
		pause: scaled(200*time.Millisecond, 20*time.Second),
		large: make(chan struct{}, 4), counts: &heard,
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	ca := lab.NewCA(t)
	cert := ca.Issue(host)
	p := process.Start(t, fmt.Sprintf(`
listeners:
  - {name: web, address: "127.0.0.1:0", protocol: http, limits: {upgrade_idle_timeout: 5m}}
  - {name: secure, address: "127.0.0.1:0", protocol: https, limits: {upgrade_idle_timeout: 5m}, certificates: [{certificate: %q, key: %q}]}
pools: [{name: p, endpoints: [{name: a, address: %q}, {name: b, address: %q}]}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [p]}]
`, cert.CertFile, cert.KeyFile, talkServer(t, all), talkServer(t, all)))
	before := holdingsOf(t, p)

	web := plain(p.Addr("web"))
	secure1, secure2 := secure(p.Addr("secure"), ca.Client(host, "http/1.1")), secure(p.Addr("secure"), ca.Client(host, "h2"))
	ways := []struct {
		name string
		open func(i int, path string) (socket, *bufio.Reader, error)
		done atomic.Int64
	}{
		{name: "HTTP/1.1", open: func(_ int, path string) (socket, *bufio.Reader, error) { return upgrade(web, path) }},
		{name: "HTTP/1.1 over TLS", open: func(_ int, path string) (socket, *bufio.Reader, error) { return upgrade(secure1, path) }},
		{name: "HTTP/2"},
	}
	var muxes []*mux
	for range connections/len(ways)/sharing + 1 {
		m, err := newMux(secure2, all.until.Add(2*lateBy))
		if err != nil {
			t.Fatal(err)
		}
		defer m.close()
		muxes = append(muxes, m)
	}
	ways[2].open = func(i int, path string) (socket, *bufio.Reader, error) {
		return muxes[i/len(ways)/sharing].open(path)
	}

	var raw atomic.Int64
	var clients sync.WaitGroup
	for i := range connections {
		clients.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(i)))
			way := &ways[i%len(ways)]
			for time.Now().Before(all.until) {
				if i%10 == 9 {
					if err := halfClosed(web, rnd); err != nil {
						t.Errorf("connection %d: another protocol: %v", i, err)
						return
					}
					raw.Add(1)
					time.Sleep(time.Duration(rnd.Int64N(int64(all.pause / 10))))
					continue
				}
				mine := all
				mine.seed, mine.messages = rnd.Uint64()&^7|uint64(i%8), math.MaxInt // all kinds, however few
				if i%7 == 0 {                                                       // others stay
					mine.messages = 1 + rnd.IntN(200)
				}
				s, in, err := way.open(i, fmt.Sprintf("/talk?seed=%d&messages=%d", mine.seed, mine.messages))
				if err == nil {
					err = newPeer(s, in, true, mine).run()
				}
				if err != nil {
					t.Errorf("connection %d over %s, seed %d: %v", i, way.name, mine.seed, err)
					return
				}
				way.done.Add(1)
			}
		})
	}
	clients.Wait()
	lab.AwaitWithin(t, lateBy, "the endpoints to hear the last of it", func() bool { return heard.ends.Load() == 0 })
	t.Log(&heard)
	var done int64
	for i := range ways {
		t.Logf("%d WebSockets over %s", ways[i].done.Load(), ways[i].name)
		if least := int64(connections / len(ways) / 2); ways[i].done.Load() < least {
			t.Errorf("%d WebSockets over %s, want at least %d", ways[i].done.Load(), ways[i].name, least)
		}
		done += ways[i].done.Load()
	}
	t.Logf("%d connections in another protocol", raw.Load())
	if n := heard.halves.Load(); n != done {
		t.Errorf("%d ends closed while the other went on, want one of each WebSocket", n)
	}
	if heard.messages.Load() < 10*int64(connections) || heard.large.Load() == 0 || heard.pings.Load() < int64(connections) || raw.Load() == 0 {
		t.Error("too little has happened")
	}
	for _, m := range muxes {
		m.close()
	}
	lab.Await(t, "the end of all connections", func() bool {
		return p.Metric("fairlead_http_upgraded_open") == 0 && holdingsOf(t, p).open == 0
	})
	after := holdingsOf(t, p)
	t.Logf("before %+v, after %+v", before, after)
	// The engine keeps 32 pipes for later.
	if after.descriptors > before.descriptors+8 || after.pipes > before.pipes+2*32 || after.goroutines > before.goroutines+8 {
		t.Errorf("after the connections there are %+v, want %+v", after, before)
	}
	wantMemoryBelow(t, p, scaled(int64(256<<20), 512<<20))
}

// acceptance answers the key of a WebSocket's handshake.
func acceptance(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// talkServer is an endpoint of WebSockets whose ends talk as the path says, and of
// another protocol, which sends back what it got once all has come.
func talkServer(t *testing.T, all talk) string {
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nc, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		nc.SetDeadline(time.Time{})
		if r.Header.Get("Upgrade") == "raw-echo" {
			io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: raw-echo\r\n\r\n")
			if all, err := io.ReadAll(buf); err == nil {
				nc.Write(all)
			}
			return
		}
		mine := all
		seed, err := strconv.ParseUint(r.FormValue("seed"), 10, 64)
		messages, err2 := strconv.Atoi(r.FormValue("messages"))
		if err != nil || err2 != nil || r.Header.Get("Upgrade") != "websocket" {
			t.Errorf("endpoint is asked for %s, to upgrade to %q", r.URL, r.Header.Get("Upgrade"))
			return
		}
		mine.seed, mine.messages = seed, messages
		fmt.Fprintf(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n", acceptance(r.Header.Get("Sec-WebSocket-Key")))
		if err := newPeer(nc.(socket), buf.Reader, false, mine).run(); err != nil {
			t.Errorf("endpoint, seed %d: %v", seed, err)
		}
	}))
}

// upgrade opens a WebSocket over HTTP/1.1.
func upgrade(dial dialer, path string) (socket, *bufio.Reader, error) {
	const key = "dGhlIHNhbXBsZSBub25jZQ=="
	nc, in, head, err := switched(dial, path, "websocket", "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "+key+"\r\n")
	if err != nil {
		return nil, nil, err
	}
	if got := head.Get("Sec-WebSocket-Accept"); got != acceptance(key) {
		nc.Close()
		return nil, nil, fmt.Errorf("Sec-WebSocket-Accept: %q, want %q", got, acceptance(key))
	}
	return nc.(socket), in, nil
}

// switched connects and changes to another protocol.
func switched(dial dialer, path, protocol, lines string) (net.Conn, *bufio.Reader, http.Header, error) {
	nc, err := dial()
	if err != nil {
		return nil, nil, nil, err
	}
	nc.SetDeadline(time.Now().Add(time.Minute))
	in := bufio.NewReaderSize(nc, 16<<10)
	io.WriteString(nc, "GET "+path+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: upgrade\r\nUpgrade: "+protocol+"\r\n"+lines+"\r\n")
	res, err := http.ReadResponse(in, nil)
	if err == nil && res.StatusCode != http.StatusSwitchingProtocols {
		err = errors.New(res.Status)
	}
	if err != nil {
		nc.Close()
		return nil, nil, nil, fmt.Errorf("answer: %w", err)
	}
	nc.SetDeadline(time.Time{})
	return nc, in, res.Header, nil
}

// halfClosed sends bytes in another protocol, closes its direction, and reads all of
// them back.
func halfClosed(dial dialer, rnd *rand.Rand) error {
	nc, in, _, err := switched(dial, "/", "raw-echo", "")
	if err != nil {
		return err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(time.Minute))
	message := make([]byte, rnd.IntN(512<<10))
	var seed [32]byte
	be.BigEndian.PutUint64(seed[:], rnd.Uint64())
	rand.NewChaCha8(seed).Read(message)
	if _, err := nc.Write(message); err != nil {
		return err
	}
	if err := nc.(socket).CloseWrite(); err != nil {
		return err
	}
	got, err := io.ReadAll(in)
	if err == nil && !bytes.Equal(got, message) {
		err = fmt.Errorf("%d bytes came back of %d, or others", len(got), len(message))
	}
	return err
}
