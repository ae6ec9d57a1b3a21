package http_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"fairlead/test/lab"
)

// echoSocket is a WebSocket endpoint that sends back what it gets.
func echoSocket(t *testing.T) string {
	return lab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
		if err != nil {
			return
		}
		defer c.CloseNow()
		c.SetReadLimit(10 << 20)
		for {
			kind, b, err := c.Read(context.Background())
			if err != nil {
				return
			}
			if c.Write(context.Background(), kind, b) != nil {
				return
			}
		}
	}))
}

func (s server) socket(t *testing.T) *websocket.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	client := s.client(t, v1)
	client.Timeout = 0
	c, _, err := websocket.Dial(ctx, strings.Replace(s.url("/chat"), "http", "ws", 1), &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	c.SetReadLimit(10 << 20)
	t.Cleanup(func() { c.CloseNow() })
	return c
}

func TestC07WebSocket(t *testing.T) {
	t.Parallel()
	for name, tls := range map[string]bool{"ws": false, "wss": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := site{endpoints: []string{echoSocket(t)}, tls: tls}.start(t)
			c := s.socket(t)
			for _, size := range []int{0, 5, 70_000, 3 << 20} {
				want, _ := io.ReadAll(io.LimitReader(&counting{}, int64(size)))
				if err := c.Write(t.Context(), websocket.MessageBinary, want); err != nil {
					t.Fatal(err)
				}
				_, got, err := c.Read(t.Context())
				if err != nil || string(got) != string(want) {
					t.Fatalf("echo of %d bytes: %d bytes, %v", size, len(got), err)
				}
			}
			equal(t, "open upgraded connections", s.Metric("fairlead_http_upgraded_open"), 1)
			if err := c.Close(websocket.StatusNormalClosure, "done"); err != nil {
				t.Errorf("close: %v", err)
			}
			r := s.AccessLog(1)[0]
			equal(t, "status", r["status"], any(101.0))
			equal(t, "upgraded", r["upgraded"], any(true))
			if in := r["bytes_in"].(float64); in < 3<<20 {
				t.Errorf("bytes_in = %v", in)
			}
			if _, failed := r["error"]; failed {
				t.Errorf("access log: %v", r)
			}
			lab.Await(t, "the upgraded connection to be over", func() bool { return s.Metric("fairlead_http_upgraded_open") == 0 })
		})
	}
}

const upgrade = "Connection: Upgrade\r\nUpgrade: echo\r\n"

// switching is the head of a change to the protocol of these tests.
const switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\nX-A: 1\r\n\r\n"

// What both sides send right behind their heads gets through.
func TestUpgradeEarlyBytes(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{
		"alone":           "",
		"behind a 103":    "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
		"behind two 103s": "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := lab.NewOrigin(t, func(c *lab.OriginConn) {
				head, err := c.Head()
				if err != nil {
					return
				}
				equal(t, "Upgrade", lab.Field(head, "Upgrade"), "echo")
				equal(t, "Connection", lab.Field(head, "Connection"), "upgrade")
				c.Say(before + switching + "from the endpoint|")
				io.Copy(c.Conn, c)
			})
			s := site{endpoints: []string{o.Addr}}.start(t)
			c := s.dial(t)
			c.Send(get("/", upgrade) + "from the client|")
			time.Sleep(50 * time.Millisecond)
			c.Send("and more")
			c.Conn.(interface{ CloseWrite() error }).CloseWrite() // the other direction goes on
			r := c.Raw(lab.Within(5 * time.Second))
			equal(t, "end", r.End, lab.Closed)
			if !strings.HasPrefix(r.Text, before+"HTTP/1.1 101 Switching Protocols\r\n") {
				t.Errorf("answer = %q", r.Text)
			}
			parts := strings.Split(r.Text, "\r\n\r\n")
			head := parts[len(parts)-2]
			equal(t, "X-A", lab.Field(head, "X-A"), "1")
			equal(t, "Upgrade", lab.Field(head, "Upgrade"), "echo")
			equal(t, "Connection", lab.Field(head, "Connection"), "upgrade")
			equal(t, "stream", parts[len(parts)-1], "from the endpoint|from the client|and more")
		})
	}
}

// Each side may end its direction and go on reading.
func TestUpgradeHalfClose(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, func(c *lab.OriginConn) {
		if _, err := c.Head(); err != nil {
			return
		}
		c.Say(switching + "bye")
		c.Conn.(interface{ CloseWrite() error }).CloseWrite()
		c.AwaitEnd()
	})
	s := site{endpoints: []string{o.Addr}}.start(t)
	c := s.dial(t)
	c.Send(get("/", upgrade))
	r := c.Raw(lab.Within(5 * time.Second))
	equal(t, "end", r.End, lab.Closed)
	equal(t, "stream", r.Body(), "bye")
	c.Send("still here")
	lab.Await(t, "the endpoint to get it", func() bool { return strings.HasSuffix(o.Received(), "still here") })
	equal(t, "open", s.Metric("fairlead_http_upgraded_open"), 1)
	c.Close()
	lab.Await(t, "the end", func() bool { return s.Metric("fairlead_http_upgraded_open") == 0 })
}

func TestUpgradeIdleTimeout(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, func(c *lab.OriginConn) {
		if _, err := c.Head(); err != nil {
			return
		}
		c.Say(switching)
		for range 4 { // one direction alone keeps both alive
			time.Sleep(400 * time.Millisecond)
			c.Say("x")
		}
		c.AwaitEnd()
	})
	s := site{endpoints: []string{o.Addr}, listener: limits("upgrade_idle_timeout: 1s, idle_timeout: 50ms, body_timeout: 50ms")}.start(t)
	c := s.dial(t)
	begun := time.Now()
	c.Send(get("/", upgrade))
	r := c.Raw(lab.Within(10 * time.Second))
	equal(t, "end", r.End, lab.Closed)
	equal(t, "stream", r.Body(), "xxxx")
	if d := time.Since(begun); d < 2400*time.Millisecond {
		t.Errorf("cut after %v, want a second after the last byte", d)
	}
	s.awaitLimited(t, "upgrade_idle_timeout", 1)
}

// An endpoint that does not want to change answers in HTTP, and may not change
// what nobody asked for.
func TestUpgradeRefused(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Answer("HTTP/1.1 426 Upgrade Required\r\nUpgrade: other\r\nConnection: upgrade\r\nContent-Length: 2\r\n\r\nno"))
	s := site{endpoints: []string{o.Addr}}.start(t)
	c := s.dial(t)
	for range 2 {
		c.Send(get("/", upgrade))
		r := c.Response("GET")
		equal(t, "status", r.StatusCode, 426)
		equal(t, "body", r.Text, "no")
	}
	unasked := lab.NewOrigin(t, lab.Answer(switching))
	s = site{endpoints: []string{unasked.Addr}}.start(t)
	c = s.dial(t)
	c.Send(get("/", ""))
	equal(t, "status of a 101 that was not asked for", c.Response("GET").StatusCode, 520)
}

// A cut on one side is a cut on the other: a stream that was reset does not look
// finished.
func TestUpgradeReset(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, func(c *lab.OriginConn) {
		if _, err := c.Head(); err != nil {
			return
		}
		c.Say(switching + "half")
		c.Read(make([]byte, 1))
		c.Conn.(interface{ SetLinger(int) error }).SetLinger(0)
	})
	s := site{endpoints: []string{o.Addr}}.start(t)
	c := s.dial(t)
	c.Send(get("/", upgrade))
	r := c.Raw(50*time.Millisecond, "x", lab.Within(5*time.Second))
	equal(t, "end", r.End, lab.Reset)
}
