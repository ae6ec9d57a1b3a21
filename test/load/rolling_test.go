//go:build linux

package loadtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"fairlead/test/process"
)

// rolling is a pool whose endpoints are replaced one after the other.
type rolling struct {
	t     *testing.T
	drain time.Duration

	names []string
	addrs map[string]string

	mu      sync.Mutex // guards what follows
	left    map[string]time.Time
	arrived map[string]time.Time
}

// affinities are the load balancers of a rolling: one for each kind of session.
var affinities = []string{"cookie", "ip_cookie", "header", "client_ip"}

func (r *rolling) yaml() string {
	var b strings.Builder
	b.WriteString("listeners: [{name: web, address: \"127.0.0.1:0\", protocol: http}]\n")
	b.WriteString("pools: [{name: p, endpoints: [")
	for _, name := range r.names {
		fmt.Fprintf(&b, "{name: %s, address: %q}, ", name, r.addrs[name])
	}
	b.WriteString("]}]\nload_balancers:\n")
	for _, kind := range affinities {
		attributes := fmt.Sprintf("drain_duration: %s", r.drain)
		switch kind {
		case "header":
			attributes += ", headers: [x-user]"
		case "client_ip":
			attributes = "samesite: auto" // it has nothing to drain
		}
		fmt.Fprintf(&b, "  - {name: %s.example.com, proxied: true, default_pools: [p], session_affinity: %s, session_affinity_attributes: {%s}}\n",
			strings.ReplaceAll(kind, "_", "-"), kind, attributes)
	}
	return b.String()
}

// add starts an endpoint that tells its name.
func (r *rolling) add(name string) {
	r.addrs[name] = serve(r.t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Endpoint", name)
		io.WriteString(w, "ok")
	}))
	r.names = append(r.names, name)
}

// mayMove reports why a session may have moved from one endpoint to another.
func (r *rolling) mayMove(kind, from, to string, at time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	left, gone := r.left[from]
	if kind == "client_ip" { // what the address leads to, and no memory
		return gone || !r.arrived[to].IsZero()
	}
	// The node knows of it a little later than the test.
	return gone && !at.Before(left.Add(r.drain))
}

// All endpoints are replaced, each drained, under the load of all kinds of sessions:
// no request fails, and no session moves before its drain is over.
func TestRollingReplacement(t *testing.T) {
	r := &rolling{t: t, drain: scaled(time.Second, 5*time.Second), addrs: map[string]string{}, left: map[string]time.Time{}, arrived: map[string]time.Time{}}
	for i := range 4 {
		r.add(fmt.Sprintf("old-%d", i))
	}
	p := process.Start(t, r.yaml())
	addr := p.Addr("web")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var clients sync.WaitGroup
	var requests, moves [4]atomic.Int64
	for k, kind := range affinities {
		for i := range 8 {
			source := &net.TCPAddr{IP: net.IPv4(127, 0, byte(10+k), byte(1+i))}
			tr := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{LocalAddr: source}).DialContext(ctx, network, addr)
			}}
			t.Cleanup(tr.CloseIdleConnections)
			clients.Go(func() {
				c := &rollingClient{kind: kind, user: fmt.Sprint("user", i), client: &http.Client{Transport: tr, Timeout: 20 * time.Second}}
				at := ""
				for ctx.Err() == nil {
					before := time.Now()
					endpoint, err := c.visit()
					if err != nil {
						t.Errorf("%s: %v", kind, err)
						return
					}
					requests[k].Add(1)
					if at != "" && endpoint != at {
						moves[k].Add(1)
						if !r.mayMove(kind, at, endpoint, time.Now()) {
							t.Errorf("%s: a session moved from %s to %s, %v after the request", kind, at, endpoint, time.Since(before))
						}
					}
					at = endpoint
					time.Sleep(2 * time.Millisecond)
				}
			})
		}
	}
	time.Sleep(300 * time.Millisecond)
	for i := range 4 {
		old, replacement := fmt.Sprintf("old-%d", i), fmt.Sprintf("new-%d", i)
		r.add(replacement)
		r.mu.Lock()
		r.arrived[replacement] = time.Now()
		r.left[old] = time.Now() // the node sees it later
		r.mu.Unlock()
		for j, name := range r.names {
			if name == old {
				r.names = append(r.names[:j], r.names[j+1:]...)
				break
			}
		}
		p.Reload(r.yaml())
		time.Sleep(r.drain + 500*time.Millisecond)
	}
	cancel()
	clients.Wait()
	for k, kind := range affinities {
		t.Logf("%s: %d requests, %d moves of sessions", kind, requests[k].Load(), moves[k].Load())
		if requests[k].Load() < 100 || moves[k].Load() < 8 { // all of them have moved
			t.Errorf("%s: too little has happened", kind)
		}
	}
	for _, e := range p.Find("endpoint drains: its sessions stay") {
		if !strings.HasPrefix(e["endpoint"].(string), "old-") {
			t.Errorf("drained: %v", e)
		}
	}
	if n := p.Count("endpoint drains: its sessions stay"); n != 4 {
		t.Errorf("%d endpoints were drained, want 4", n)
	}
}

// rollingClient has a session of a kind.
type rollingClient struct {
	kind, user, cookie string
	client             *http.Client
}

func (c *rollingClient) visit() (endpoint string, err error) {
	req, err := http.NewRequest("GET", "http://"+strings.ReplaceAll(c.kind, "_", "-")+".example.com/", nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("X-User", c.user)
	if c.cookie != "" {
		req.Header.Set("Cookie", c.cookie)
	}
	res, err := c.client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 || string(body) != "ok" {
		return "", fmt.Errorf("%s %.60q %w", res.Status, body, err)
	}
	for _, cookie := range res.Cookies() {
		if cookie.Name == "__fairlead" {
			c.cookie = cookie.Name + "=" + cookie.Value
		}
	}
	return res.Header.Get("X-Endpoint"), nil
}
