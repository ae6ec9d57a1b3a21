package loadtest

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"fairlead/test/lab"
	"fairlead/test/process"
)

// Clients that are slow in every way there is are cut off by the limits, while
// others go on undisturbed; then nothing is left of them.
func TestSlowClients(t *testing.T) {
	ca := lab.NewCA(t)
	cert := ca.Issue(host)
	// In the long form it takes seconds until all clients are there.
	limit := scaled(2*time.Second, 6*time.Second)
	header, body, idle := limit, limit, limit
	limits := fmt.Sprintf("{header_timeout: %v, body_timeout: %v, idle_timeout: %v, body_min_rate: 64}", header, body, idle)
	p := process.Start(t, fmt.Sprintf(`
listeners:
  - {name: web, address: "127.0.0.1:0", protocol: http, limits: %s}
  - {name: secure, address: "127.0.0.1:0", protocol: https, certificates: [{certificate: %q, key: %q}], limits: %s}
pools: [{name: p, endpoints: [{name: a, address: %q}]}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [p]}]
`, limits, cert.CertFile, cert.KeyFile, limits, serve(t, nil)))
	web, secureAddr := p.Addr("web"), p.Addr("secure")

	normal := startLoad(t, "normal clients", scaled(100, 500), plain(web), 200*time.Millisecond, mixed)
	busy(t, normal)
	before := p.Descriptors()
	honest := make(chan error, 1)
	go func() { honest <- slowUpload(web, 200, scaled(6*time.Second, 60*time.Second)) }()

	// drip sends a first piece, then one byte again and again.
	drip := func(first string, every time.Duration) func(net.Conn) {
		return func(c net.Conn) {
			io.WriteString(c, first)
			for {
				time.Sleep(every)
				if _, err := c.Write([]byte("x")); err != nil {
					return
				}
			}
		}
	}
	get := "GET / HTTP/1.1\r\nHost: " + host + "\r\n"
	kinds := []struct {
		name  string
		addr  string
		tls   *tls.Config // nil: speak to the socket
		act   func(net.Conn)
		reads bool
	}{
		{name: "one byte a second in the head", addr: web, act: drip(get+"X: ", time.Second), reads: true},
		{name: "one byte a second in the body", addr: web, act: drip("POST /upload HTTP/1.1\r\nHost: "+host+"\r\nContent-Length: 100000\r\n\r\n", time.Second), reads: true},
		{name: "one byte a second in a chunk", addr: web, act: drip("POST /upload HTTP/1.1\r\nHost: "+host+"\r\nTransfer-Encoding: chunked\r\n\r\n10000\r\n", time.Second), reads: true},
		{name: "never reads", addr: web, act: func(c net.Conn) {
			io.WriteString(c, "GET /download?size=1000000000 HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		}},
		{name: "never reads, chunked", addr: web, act: func(c net.Conn) {
			io.WriteString(c, "GET /download?chunked=1&size=1000000000 HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		}},
		{name: "silent", addr: web, act: func(net.Conn) {}, reads: true},
		{name: "silent in the handshake", addr: secureAddr, act: func(net.Conn) {}, reads: true},
		{name: "half a handshake", addr: secureAddr, act: func(c net.Conn) { io.WriteString(c, "\x16\x03\x01\x02\x00\x01") }, reads: true},
		{name: "silent behind the handshake", addr: secureAddr, tls: ca.Client(host, "http/1.1"), act: func(net.Conn) {}, reads: true},
		{name: "no preface", addr: secureAddr, tls: ca.Client(host, "h2"), act: func(net.Conn) {}, reads: true},
		{name: "idle after an answer", addr: web, act: func(c net.Conn) { io.WriteString(c, get+"\r\n") }, reads: true},
	}
	var clients sync.WaitGroup
	var mu sync.Mutex
	slowest := make(map[string]time.Duration)
	for i := range scaled(20, 300) {
		for _, k := range kinds {
			clients.Go(func() {
				time.Sleep(time.Duration(i) * 2 * time.Millisecond)
				c, err := (&net.Dialer{Timeout: 10 * time.Second}).Dial("tcp", k.addr)
				if err != nil {
					t.Errorf("%s: %v", k.name, err)
					return
				}
				defer c.Close()
				if !k.reads {
					c.(*net.TCPConn).SetReadBuffer(4096)
				}
				if k.tls != nil {
					tc := tls.Client(c, k.tls)
					if err := tc.Handshake(); err != nil {
						t.Errorf("%s: %v", k.name, err)
						return
					}
					c = tc
				}
				began := time.Now()
				go k.act(c)
				if !k.reads {
					// Whether it is cut shows only in the node.
					time.Sleep(body + 8*time.Second)
					return
				}
				c.SetReadDeadline(time.Now().Add(10 * limit))
				if _, err := io.Copy(io.Discard, c); isTimeout(err) {
					t.Errorf("%s: still open after %v", k.name, time.Since(began))
				}
				mu.Lock()
				slowest[k.name] = max(slowest[k.name], time.Since(began))
				mu.Unlock()
			})
		}
	}
	open := func() float64 { return p.Metric("fairlead_http_connections_open") }
	lab.Await(t, "slow clients to be there", func() bool { return open() > float64(scaled(100, 500))+float64(scaled(20, 300)) })
	time.Sleep(body) // they are all there, and none of the long limits is over
	deadline := time.Now().Add(scaled(10*time.Second, 30*time.Second))
	for open() > float64(scaled(100, 500))+1 && time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond)
	}
	// The honest upload may still be there.
	if n := open(); n > float64(scaled(100, 500))+1 {
		t.Errorf("%v connections are open, want those of normal clients", n)
	}
	clients.Wait()
	t.Log(slowest)
	for name, took := range slowest {
		// A body has two windows at most: one that was good enough, one that was
		// not; whoever is cut off may linger for 2s to read why.
		if most := 2*body + 2*time.Second + limit; took > most {
			t.Errorf("%s: cut after %v, want at most %v", name, took, most)
		}
	}
	if err := <-honest; err != nil {
		t.Errorf("a slow but honest upload: %v", err)
	}
	normal.wantNoFailure()
	lab.Await(t, "descriptors to be as before", func() bool { return p.Descriptors() <= before+20 })
	for _, limit := range []string{"header_timeout", "body_timeout"} {
		if p.Metric("fairlead_http_limited_total", `limit="`+limit+`"`) == 0 {
			t.Errorf("limit %s has not counted", limit)
		}
	}
}

func isTimeout(err error) bool {
	ne, ok := err.(net.Error)
	return ok && ne.Timeout()
}

// slowUpload sends a body at a rate in bytes a second for a while.
func slowUpload(addr string, rate int, long time.Duration) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	pieces := int(long / (100 * time.Millisecond))
	piece := make([]byte, rate/10)
	fmt.Fprintf(c, "POST /upload HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", host, pieces*len(piece))
	for range pieces {
		time.Sleep(100 * time.Millisecond)
		if _, err := c.Write(piece); err != nil {
			return err
		}
	}
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	b, err := io.ReadAll(c)
	if err != nil {
		return err
	}
	if want := "HTTP/1.1 200 "; string(b[:min(len(b), len(want))]) != want {
		return fmt.Errorf("answer %q", b)
	}
	return nil
}

// Two thousand clients that drip headers are gone in time, and every other
// client is served meanwhile.
func TestDrippers(t *testing.T) {
	header := scaled(3*time.Second, 10*time.Second)
	p := process.Start(t, fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http, limits: {header_timeout: %v}}]
pools: [{name: p, endpoints: [{name: a, address: %q}]}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [p]}]
`, header, serve(t, nil)))
	web := p.Addr("web")
	other := startLoad(t, "other clients", 1, plain(web), 100*time.Millisecond, func(c *client, i int) error {
		defer c.close()
		began := time.Now()
		err := mixed(c, i)
		if took := time.Since(began); err == nil && took > 2*time.Second {
			err = fmt.Errorf("answered after %v", took)
		}
		return err
	})
	before := p.Descriptors()
	count := scaled(500, 2000)
	conns := make([]net.Conn, count)
	for i := range conns {
		c, err := net.Dial("tcp", web)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+host+"\r\nX: ")
		conns[i] = c
	}
	began := time.Now()
	// On a slow machine the first are cut before the last have been accepted.
	lab.Await(t, "all connections to be accepted", func() bool {
		return p.Metric("fairlead_http_connections_open")+p.Metric("fairlead_http_limited_total", `limit="header_timeout"`) >= float64(count)
	})
	for time.Since(began) < header+3*time.Second && p.Metric("fairlead_http_connections_open") > 2 {
		for _, c := range conns {
			c.Write([]byte("x"))
		}
		time.Sleep(500 * time.Millisecond)
	}
	if n := p.Metric("fairlead_http_connections_open"); n > 2 {
		t.Errorf("%v connections are open %v after the last one came, with a header_timeout of %v", n, time.Since(began), header)
	}
	other.wantNoFailure()
	lab.Await(t, "descriptors to be as before", func() bool { return p.Descriptors() <= before+20 })
	if n := p.Metric("fairlead_http_limited_total", `limit="header_timeout"`); n < float64(count) {
		t.Errorf("header_timeout counts %v, want %d", n, count)
	}
}
