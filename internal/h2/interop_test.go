package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"fairlead/internal/loop"
)

// listen serves connections to a port of its own and returns its address.
func listen(t *testing.T, serve func(net.Conn)) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	all.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, nc)
			mu.Unlock()
			all.Go(func() { serve(nc) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, nc := range open {
			nc.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return ln.Addr().String()
}

// TestServesLibrary has the client of golang.org/x/net talk to our server.
func TestServesLibrary(t *testing.T) {
	addr := listen(t, func(nc net.Conn) {
		NewServer(&loop.Goroutines{}, loop.New(nc), &Config{MaxStreams: 1000}, echoStream).Serve(nil)
	})
	client := func(t *testing.T, window int) *http.Client {
		tr := &http2.Transport{
			AllowHTTP: true,
			DialTLSContext: func(_ context.Context, network, _ string, _ *tls.Config) (net.Conn, error) {
				return net.Dial(network, addr)
			},
		}
		if window > 0 {
			t1 := &http.Transport{HTTP2: &http.HTTP2Config{MaxReceiveBufferPerStream: window, MaxReceiveBufferPerConnection: 1 << 20}}
			t2, err := http2.ConfigureTransports(t1)
			if err != nil {
				t.Fatal(err)
			}
			t2.ConnPool = nil // that of t1 does not dial
			t2.AllowHTTP, t2.DialTLSContext = true, tr.DialTLSContext
			tr = t2
		}
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr}
	}
	body := bytes.Repeat([]byte("0123456789"), 100000)
	exchange := func(t *testing.T, c *http.Client, body []byte) {
		t.Helper()
		req, err := http.NewRequest("POST", "http://"+addr+"/", io.NopCloser(bytes.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		req.Trailer = http.Header{"X-Trailer": {"of the request"}}
		res, err := c.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		got, err := io.ReadAll(res.Body)
		if err != nil || !bytes.Equal(got, body) || res.Trailer.Get("X-Trailer") != "of the request" {
			t.Errorf("%d bytes came back of %d (%v), trailer %v", len(got), len(body), err, res.Trailer)
		}
	}
	t.Run("upload", func(t *testing.T) { exchange(t, client(t, 0), body) })
	t.Run("tiny windows", func(t *testing.T) { exchange(t, client(t, 5000), body) })
	t.Run("1000 streams", func(t *testing.T) {
		c := client(t, 0)
		var all sync.WaitGroup
		for i := range 1000 {
			all.Go(func() { exchange(t, c, body[:i*10]) })
		}
		all.Wait()
	})
}

// echoStream sends back what comes as it comes, and the trailers.
func echoStream(s *Stream) {
	if s.Respond(200, []byte("trailer: x-trailer\r\n"), false) != nil {
		return
	}
	for {
		b, err := s.Read()
		if err == io.EOF {
			s.WriteTrailer(s.Trailer())
			return
		}
		if err != nil || s.Write(b, false) != nil {
			return
		}
	}
}

// TestAsksLibrary has our client talk to the server of golang.org/x/net.
func TestAsksLibrary(t *testing.T) {
	var server http2.Server
	server.MaxConcurrentStreams = 1000
	addr := listen(t, func(nc net.Conn) {
		server.ServeConn(nc, &http2.ServeConnOpts{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(103)
			w.Header().Set("Trailer", "X-Trailer")
			io.Copy(w, r.Body)
			w.Header().Set("X-Trailer", r.Trailer.Get("X-Trailer"))
		})})
	})
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	k := NewClient(&loop.Goroutines{}, loop.New(nc), nil)
	defer k.Wait()
	defer k.Abort()
	exchange := func(body string) error {
		s, err := k.Open()
		for err == ErrBusy {
			s, err = k.Open()
		}
		if err != nil {
			return err
		}
		defer s.Close()
		h := getHead("POST")
		h.Lines = []byte("Trailer: X-Trailer\r\n")
		if err := s.Send(h, false); err != nil {
			return err
		}
		var up sync.WaitGroup
		up.Go(func() {
			for b := []byte(body); len(b) > 0; {
				n := min(len(b), 50000)
				if s.Write(b[:n], false) != nil {
					return
				}
				b = b[n:]
			}
			s.WriteTrailer([]byte("x-trailer: of the request\r\n"))
		})
		defer up.Wait()
		for {
			h, err := s.ReadHead()
			if err != nil {
				return err
			}
			if h.Status >= 200 {
				break
			}
		}
		got, err := readAll(s)
		if err != nil {
			return err
		}
		if got != body || string(s.Trailer()) != "x-trailer: of the request\r\n" {
			return fmt.Errorf("%d bytes came back of %d, trailer %q", len(got), len(body), s.Trailer())
		}
		return nil
	}
	if err := exchange(strings.Repeat("0123456789", 200000)); err != nil {
		t.Error(err)
	}
	var all sync.WaitGroup
	for i := range 300 {
		all.Go(func() {
			if err := exchange(strings.Repeat("x", i*100)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestManyTasks lets readers and writers of many streams run in parallel, with
// resets in between: for the race detector.
func TestManyTasks(t *testing.T) {
	addr := listen(t, func(nc net.Conn) {
		NewServer(&loop.Goroutines{}, loop.New(nc), &Config{MaxStreams: 50}, echoStream).Serve(nil)
	})
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	k := NewClient(&loop.Goroutines{}, loop.New(nc), nil)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			c := k.Conn()
			for j := range 50 {
				n := (i + 1) * j * 100
				text := fmt.Appendf(nil, "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", n)
				if err := c.Write(text); err != nil {
					t.Error(err)
					return
				}
				var up sync.WaitGroup
				up.Go(func() { c.Write(make([]byte, n)) })
				if j%10 == 9 {
					c.Abort()
					up.Wait()
					c = k.Conn()
					continue
				}
				first, err := c.Read(nil)
				if err != nil {
					t.Error(err)
					return
				}
				text = append([]byte{}, first...)
				for !bytes.HasSuffix(text, []byte("\r\n0\r\n\r\n")) {
					b, err := c.Read(nil)
					if err != nil {
						t.Error(err)
						return
					}
					text = append(text, b...)
				}
				up.Wait()
				c.Release()
			}
			c.Close()
		})
	}
	all.Wait()
	if n := k.Streams(); n != 0 {
		t.Errorf("%d streams are left", n)
	}
	k.Close()
	k.Wait()
	if err := k.Err(); !errors.Is(err, errDrained) {
		t.Errorf("connection ended with %v", err)
	}
}
