//go:build linux

package loadtest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	be "encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"fairlead/test/process"
)

const largeMessage = 16 << 20

// echoServer sends back what it gets: messages of WebSockets, and the bytes of
// another protocol, whose end it answers with all that is left to say.
func echoServer(t *testing.T) string {
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "raw-echo" {
			echoRaw(w)
			return
		}
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled})
		if err != nil {
			return
		}
		defer c.CloseNow()
		c.SetReadLimit(largeMessage + 8)
		for {
			kind, in, err := c.Reader(context.Background())
			if err != nil {
				return
			}
			out, err := c.Writer(context.Background(), kind)
			if err != nil {
				return
			}
			if _, err := io.Copy(out, in); err != nil || out.Close() != nil {
				return
			}
		}
	}))
}

// echoRaw waits for the end of what the client sends before it answers all of it.
func echoRaw(w http.ResponseWriter) {
	nc, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer nc.Close()
	io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: raw-echo\r\n\r\n")
	all, err := io.ReadAll(buf)
	if err == nil {
		nc.Write(all)
	}
}

// WebSockets carry messages of any size, in fragments, with pings between them, and
// other protocols the end of one direction: nothing is lost and nothing changes its
// place.
func TestWebSocketRelay(t *testing.T) {
	connections, long := scaled(60, 1000), scaled(6*time.Second, 10*time.Minute)
	p := process.Start(t, fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http, limits: {upgrade_idle_timeout: 5m}}]
pools: [{name: p, endpoints: [{name: a, address: %q}, {name: b, address: %q}]}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [p]}]
`, echoServer(t), echoServer(t)))
	addr := p.Addr("web")
	end := time.Now().Add(long)
	large := make(chan struct{}, 4) // so many large messages at once
	var all sync.WaitGroup
	var messages, pings, halves atomic.Int64
	for i := range connections {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(i)))
			for time.Now().Before(end) {
				if i%10 == 9 {
					if err := halfClosed(addr, rnd); err != nil {
						t.Errorf("connection %d: half-closed: %v", i, err)
						return
					}
					halves.Add(1)
					continue
				}
				c := &talker{rnd: rnd, large: large, messages: &messages, pings: &pings}
				if err := c.talk(addr, end); err != nil {
					t.Errorf("connection %d: %v", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d messages, %d pings, %d connections with one end closed", messages.Load(), pings.Load(), halves.Load())
	if messages.Load() < int64(connections) || pings.Load() == 0 || halves.Load() == 0 {
		t.Error("too little has happened")
	}
}

// talker sends messages over one WebSocket and compares what comes back.
type talker struct {
	rnd             *rand.Rand
	large           chan struct{}
	messages, pings *atomic.Int64
	number          uint64
}

func (k *talker) talk(addr string, end time.Time) error {
	ctx, cancel := context.WithDeadline(context.Background(), end.Add(time.Minute))
	defer cancel()
	c, _, err := websocket.Dial(ctx, "ws://"+addr+"/", &websocket.DialOptions{Host: host, CompressionMode: websocket.CompressionDisabled})
	if err != nil {
		return err
	}
	defer c.CloseNow()
	c.SetReadLimit(largeMessage + 8)
	for n := 1 + k.rnd.IntN(200); n > 0 && time.Now().Before(end); n-- {
		if err := k.exchange(ctx, c); err != nil {
			return err
		}
	}
	return c.Close(websocket.StatusNormalClosure, "")
}

// size draws the length of a message.
func (k *talker) size() int {
	switch n := k.rnd.IntN(1000); {
	case n == 0:
		return largeMessage
	case n < 50:
		return 64<<10 + k.rnd.IntN(256<<10)
	case n < 300:
		return k.rnd.IntN(16 << 10)
	}
	return k.rnd.IntN(200)
}

// exchange sends one message, in fragments or whole, and reads its echo, with a ping
// meanwhile now and then.
func (k *talker) exchange(ctx context.Context, c *websocket.Conn) error {
	size := k.size()
	if size == largeMessage {
		k.large <- struct{}{}
		defer func() { <-k.large }()
	}
	k.number++
	message := be.BigEndian.AppendUint64(make([]byte, 0, 8+size), k.number)
	var seed [32]byte
	be.BigEndian.PutUint64(seed[:], k.rnd.Uint64())
	filler := rand.NewChaCha8(seed)
	message = message[:8+size]
	filler.Read(message[8:])
	sent := make(chan error, 1)
	pieces := 1 + k.rnd.IntN(5)
	go func() { // an echo may come before all is sent
		w, err := c.Writer(ctx, websocket.MessageBinary)
		for rest := message; err == nil && len(rest) > 0; {
			n := min(len(message)/pieces+1, len(rest))
			_, err = w.Write(rest[:n])
			rest = rest[n:]
		}
		if err == nil {
			err = w.Close()
		}
		sent <- err
	}()
	if k.rnd.IntN(20) == 0 {
		go func() {
			if c.Ping(ctx) == nil {
				k.pings.Add(1)
			}
		}()
	}
	_, got, err := c.Read(ctx)
	if err == nil {
		err = <-sent
	}
	switch {
	case err != nil:
		return fmt.Errorf("message %d of %d bytes: %w", k.number, len(message), err)
	case len(got) != len(message) || sha256.Sum256(got) != sha256.Sum256(message):
		return fmt.Errorf("message %d of %d bytes came back with %d, different", k.number, len(message), len(got))
	}
	k.messages.Add(1)
	return nil
}

// halfClosed sends bytes in another protocol, closes its direction, and reads all of
// them back.
func halfClosed(addr string, rnd *rand.Rand) error {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(nc, "GET / HTTP/1.1\r\nHost: "+host+"\r\nConnection: upgrade\r\nUpgrade: raw-echo\r\n\r\n")
	in := bufio.NewReader(nc)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return fmt.Errorf("no answer: %w", err)
		}
		if line == "\r\n" {
			break
		}
		if strings.HasPrefix(line, "HTTP/") && !strings.Contains(line, " 101 ") {
			return errors.New(strings.TrimSpace(line))
		}
	}
	message := make([]byte, rnd.IntN(512<<10))
	var seed [32]byte
	be.BigEndian.PutUint64(seed[:], rnd.Uint64())
	rand.NewChaCha8(seed).Read(message)
	if _, err := nc.Write(message); err != nil {
		return err
	}
	if err := nc.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	got, err := io.ReadAll(in)
	if err == nil && !bytes.Equal(got, message) {
		err = fmt.Errorf("%d bytes came back of %d, or others", len(got), len(message))
	}
	return err
}
