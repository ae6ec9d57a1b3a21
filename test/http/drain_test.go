package http_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"fairlead/internal/admin"
	"fairlead/test/lab"
)

// drainSite is a node whose load balancer has sessions that drain for some time.
type drainSite struct {
	server
	addrs    []string
	affinity string
	duration time.Duration
}

func drained(t *testing.T, affinity string, d time.Duration, addrs ...string) *drainSite {
	s := &drainSite{addrs: addrs, affinity: affinity, duration: d}
	s.Node = lab.Start(t, s.yaml("", ""))
	s.addr = s.Node.Addr("web")
	return s
}

// yaml is the configuration, with an endpoint changed as told: without it, where
// that is "removed".
func (s *drainSite) yaml(endpoint, change string) string {
	var list []string
	for i, a := range s.addrs {
		name := string(rune('A' + i))
		keys := ""
		if name == endpoint {
			if change == "removed" {
				continue
			}
			keys = ", " + change
		}
		list = append(list, fmt.Sprintf("{name: %s, address: %q%s}", name, a, keys))
	}
	return fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools: [{name: p, endpoints: [%s]}]
load_balancers: [{name: %s, proxied: true, default_pools: [p], session_affinity: %s, session_affinity_attributes: {drain_duration: %s%s}}]
`, strings.Join(list, ", "), host, s.affinity, s.duration, map[bool]string{true: ", headers: [x-user]"}[s.affinity == "header"])
}

// change changes the file and waits until that is in force.
func (s *drainSite) change(endpoint, change string) {
	revision := s.Status().Revision
	s.Write(s.yaml(endpoint, change))
	s.AwaitRevision(revision + 1)
}

// draining returns what status says of an endpoint's drain.
func (s *drainSite) draining(endpoint string) *admin.Drain {
	for _, e := range s.Status().Pools[0].Endpoints {
		if e.Name == endpoint && e.Draining != nil {
			return e.Draining
		}
	}
	return nil
}

// drainClient is a client with a session.
type drainClient struct {
	s    *drainSite
	c    *http.Client
	user string
	jar  string
}

func (c *drainClient) visit(t *testing.T) (endpoint string) {
	t.Helper()
	req, _ := http.NewRequest("GET", c.s.url("/"), nil)
	req.Header.Set("X-User", c.user)
	if c.jar != "" {
		req.Header.Set("Cookie", c.jar)
	}
	res, err := c.c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	for _, cookie := range res.Cookies() {
		if cookie.Name == sessionCookie {
			c.jar = pair(cookie)
		}
	}
	return res.Header.Get("X-Endpoint")
}

// clientAt returns a client whose session is at an endpoint.
func (s *drainSite) clientAt(t *testing.T, endpoint string) *drainClient {
	t.Helper()
	for i := range 200 {
		c := &drainClient{s: s, c: s.client(t, v1), user: fmt.Sprint(endpoint, i)}
		if c.visit(t) == endpoint {
			return c
		}
	}
	t.Fatalf("no session came to %s", endpoint)
	return nil
}

// An endpoint that is disabled or removed keeps its sessions until the drain is over;
// new ones go elsewhere. Then its sessions move, and stay where they have moved to.
func TestDrain(t *testing.T) {
	t.Parallel()
	for _, affinity := range []string{"cookie", "header"} {
		for _, change := range []string{"enabled: false", "removed"} {
			t.Run(affinity+" "+change, func(t *testing.T) {
				t.Parallel()
				const d = 2 * time.Second
				s := drained(t, affinity, d, named(t, "A", "B")...)
				old, other := s.clientAt(t, "A"), s.clientAt(t, "B")
				s.change("A", change)
				began := time.Now()
				drain := s.draining("A")
				if drain == nil || drain.Removed != (change == "removed") || drain.Until.Sub(drain.Since) != d {
					t.Fatalf("status says %+v", drain)
				}
				equal(t, "sessions that came since the drain began", drain.Sessions, 0) // old has not
				for time.Since(began) < d-800*time.Millisecond {
					equal(t, "the session's endpoint", old.visit(t), "A")
					equal(t, "the other session's endpoint", other.visit(t), "B")
					fresh := &drainClient{s: s, c: old.c, user: fmt.Sprint("fresh", time.Since(began))}
					equal(t, "a new session's endpoint", fresh.visit(t), "B")
				}
				if n := s.draining("A").Sessions; n != 1 {
					t.Errorf("status says that %d sessions are there, want 1", n)
				}
				time.Sleep(time.Until(drain.Until))
				equal(t, "the session's endpoint after the drain", old.visit(t), "B")
				if s.draining("A") != nil {
					t.Error("status says that it drains still")
				}
				for _, kind := range []string{"new", "kept", "moved"} {
					if n := s.Metric("fairlead_session_requests_total", "session", kind); n < 1 || kind == "moved" && n > 2 {
						t.Errorf("%v requests are counted as %s", n, kind)
					}
				}
				s.change("", "") // it is back
				equal(t, "the session's endpoint after the return", old.visit(t), "B")
				s.clientAt(t, "A")
			})
		}
	}
}

// An endpoint that is back before its drain is over has its sessions still.
func TestDrainIsCalledOff(t *testing.T) {
	t.Parallel()
	s := drained(t, "cookie", time.Minute, named(t, "A", "B")...)
	c := s.clientAt(t, "A")
	s.change("A", "removed")
	equal(t, "endpoint", c.visit(t), "A")
	s.change("", "")
	equal(t, "endpoint", c.visit(t), "A")
	if s.draining("A") != nil {
		t.Error("status says that it drains still")
	}
	s.clientAt(t, "A")
}

// Without drain_duration sessions move at once.
func TestNoDrain(t *testing.T) {
	t.Parallel()
	for _, change := range []string{"enabled: false", "removed"} {
		s := drained(t, "cookie", 0, named(t, "A", "B")...)
		c := s.clientAt(t, "A")
		s.change("A", change)
		equal(t, change+": endpoint", c.visit(t), "B")
	}
}

// WebSockets and streams of sessions are ended once the drain is over, and not
// before; those of others are not touched.
func TestDrainEndsWhatIsOpen(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{}, 2)
	mixed := func(name string) string {
		return lab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Endpoint", name)
			switch r.URL.Path {
			case "/chat":
				c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
				if err != nil {
					return
				}
				defer c.CloseNow()
				for {
					kind, b, err := c.Read(context.Background())
					if err != nil || c.Write(context.Background(), kind, b) != nil {
						return
					}
				}
			case "/stream":
				w.WriteHeader(200)
				for i := 0; r.Context().Err() == nil; i++ {
					fmt.Fprintf(w, "%d\n", i)
					http.NewResponseController(w).Flush()
					time.Sleep(20 * time.Millisecond)
				}
				ended <- struct{}{}
			}
		}))
	}
	const d = 2 * time.Second
	s := drained(t, "cookie", d, mixed("A"), mixed("B"))
	dial := func(c *drainClient) *websocket.Conn {
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		t.Cleanup(cancel)
		plain := *c.c
		plain.Timeout = 0
		ws, _, err := websocket.Dial(ctx, strings.Replace(s.url("/chat"), "http", "ws", 1),
			&websocket.DialOptions{HTTPClient: &plain, HTTPHeader: http.Header{"Cookie": {c.jar}}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ws.CloseNow() })
		return ws
	}
	echo := func(ws *websocket.Conn) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if err := ws.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
			return err
		}
		_, _, err := ws.Read(ctx)
		return err
	}
	atA, atB := s.clientAt(t, "A"), s.clientAt(t, "B")
	leaving, staying := dial(atA), dial(atB)
	req, _ := http.NewRequest("GET", s.url("/stream"), nil)
	req.Header.Set("Cookie", atA.jar)
	atA.c.Timeout = 0
	res, err := atA.c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	equal(t, "endpoint of the stream", res.Header.Get("X-Endpoint"), "A")
	s.change("A", "removed")
	until := s.draining("A").Until
	for time.Until(until) > 500*time.Millisecond {
		if err := echo(leaving); err != nil {
			t.Fatalf("%v before the drain was over: %v", time.Until(until), err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	lab.Await(t, "the WebSocket's end", func() bool { return echo(leaving) != nil })
	if time.Now().Before(until) {
		t.Errorf("the WebSocket was ended %v too early", time.Until(until))
	}
	buf := make([]byte, 4096)
	for err = nil; err == nil; {
		_, err = res.Body.Read(buf)
	}
	if late := time.Since(until); late < 4*time.Second || late > 20*time.Second {
		t.Errorf("the stream was ended %v after the drain with %v, want after 5s", late, err)
	}
	<-ended
	if err := echo(staying); err != nil {
		t.Errorf("the WebSocket at the other endpoint: %v", err)
	}
	// Once all is over, the endpoint is forgotten.
	lab.AwaitWithin(t, 30*time.Second, "one endpoint", func() bool { return len(s.Status().Pools[0].Endpoints) == 1 })
	if got := s.Metric("fairlead_http_errors_total", "reason", "drained"); got != 2 {
		t.Errorf("%v answers were ended by the drain, want 2", got)
	}
}
