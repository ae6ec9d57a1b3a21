package http_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead/test/lab"
)

func TestHead(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, tls bool, v httpVersion) {
		o := lab.NewOrigin(t, lab.Answer("HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nX-A: 1\r\n\r\n"))
		s := site{endpoints: []string{o.Addr}, tls: tls}.start(t)
		c := s.client(t, v)
		for range 3 { // the same connections are used again
			res, err := c.Head(s.url("/"))
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "length", res.ContentLength, 1234)
			equal(t, "X-A", res.Header.Get("X-A"), "1")
		}
		equal(t, "connections to the endpoint", o.Connections(), 1)
	})
}

func TestHeadOfErrorPage(t *testing.T) {
	t.Parallel()
	s := site{endpoints: []string{lab.Refusing(t)}}.start(t)
	c := s.dial(t)
	c.Send("HEAD / HTTP/1.1\r\nHost: none.example\r\n\r\n")
	equal(t, "status", c.Response("HEAD").StatusCode, 404)
	c.Send(request("HEAD", "/", "", ""))
	equal(t, "status", c.Response("HEAD").StatusCode, 521)
	c.Send("BAD\r\n\r\n") // not a HEAD any more: its page has a body
	r := c.Response("GET")
	equal(t, "status", r.StatusCode, 400)
	equal(t, "length of the page", int64(len(r.Text)), r.ContentLength)
}

func TestWithoutBody(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"HTTP/1.1 204 No Content\r\nX-A: 1\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nX-A: 1\r\nContent-Length: 9\r\n\r\n",
		"HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 0\r\n\r\n",
	} {
		protocols(t, func(t *testing.T, tls bool, v httpVersion) {
			o := lab.NewOrigin(t, lab.Answer(answer))
			s := site{endpoints: []string{o.Addr}, tls: tls}.start(t)
			c := s.client(t, v)
			for range 2 {
				res, err := c.Get(s.url("/"))
				if err != nil {
					t.Fatal(err)
				}
				b, err := io.ReadAll(res.Body)
				res.Body.Close()
				// Go's HTTP/2 client misses the body that the length of a 304
				// speaks of; RFC 9113 section 8.1.1 allows the length.
				if len(b) > 0 || err != nil && !(v == v2 && res.StatusCode == 304) {
					t.Errorf("body = %q, %v", b, err)
				}
				equal(t, "X-A", res.Header.Get("X-A"), "1")
			}
			equal(t, "connections to the endpoint", o.Connections(), 1)
		})
	}
}

// Interim answers that come in one piece, with the final one or without, are all
// passed on as they are.
func TestInterimAnswers(t *testing.T) {
	t.Parallel()
	early := func(i int) string {
		return fmt.Sprintf("HTTP/1.1 103 Early Hints\r\nLink: <%s%d>\r\n\r\n", strings.Repeat("/long", 10*i), i)
	}
	for name, pieces := range map[string][]string{
		"in one piece":    {early(3) + early(2) + early(1) + lab.OK},
		"apart":           {early(3), early(2), early(1), lab.OK},
		"in pairs":        {early(3) + early(2), early(1) + lab.OK},
		"cut":             {early(3) + early(2)[:20], early(2)[20:] + early(1)[:9], early(1)[9:] + lab.OK[:11], lab.OK[11:]},
		"with processing": {"HTTP/1.1 102 Processing\r\n\r\n" + early(3) + early(2) + early(1) + lab.OK},
	} {
		t.Run(name, func(t *testing.T) {
			protocols(t, func(t *testing.T, tls bool, v httpVersion) {
				o := lab.NewOrigin(t, func(c *lab.OriginConn) {
					for {
						if _, err := c.Head(); err != nil {
							return
						}
						for i, p := range pieces {
							if i > 0 {
								time.Sleep(20 * time.Millisecond)
							}
							c.Say(p)
						}
					}
				})
				s := site{endpoints: []string{o.Addr}, tls: tls}.start(t)
				var links []string
				trace := httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
					if code == 103 {
						links = append(links, h.Get("Link"))
					}
					return nil
				}}
				req, _ := http.NewRequest("GET", s.url("/"), nil)
				res, err := s.client(t, v).Do(req.WithContext(httptrace.WithClientTrace(req.Context(), &trace)))
				if err != nil {
					t.Fatal(err)
				}
				b, _ := io.ReadAll(res.Body)
				res.Body.Close()
				equal(t, "status", res.StatusCode, 200)
				equal(t, "body", string(b), "ok")
				want := fmt.Sprintf("<%s3> <%s2> <%s1>", strings.Repeat("/long", 30), strings.Repeat("/long", 20), strings.Repeat("/long", 10))
				equal(t, "links", strings.Join(links, " "), want)
				equal(t, "Link of the final answer", res.Header.Get("Link"), "")
			})
		})
	}
	t.Run("not to HTTP 1.0", func(t *testing.T) {
		t.Parallel()
		o := lab.NewOrigin(t, lab.Answer(early(1)+lab.OK))
		r := site{endpoints: []string{o.Addr}}.start(t).raw(t, "GET / HTTP/1.0\r\nHost: "+host+"\r\n\r\n")
		equal(t, "status", r.Status(), "200")
		equal(t, "end", r.End, lab.Closed)
	})
}

func TestTrailers(t *testing.T) {
	t.Parallel()
	protocols(t, func(t *testing.T, tls bool, v httpVersion) {
		got := make(chan http.Header, 1)
		addr := lab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Sum")
			io.Copy(w, r.Body)
			got <- r.Trailer
			w.Header().Set("X-Sum", "back")
			w.Header().Set(http.TrailerPrefix+"X-Late", "2")
		}))
		s := site{endpoints: []string{addr}, tls: tls}.start(t)
		req, _ := http.NewRequest("POST", s.url("/"), io.MultiReader(strings.NewReader("hello")))
		req.Trailer = http.Header{"X-Check": {"there"}}
		res, err := s.client(t, v).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if string(b) != "hello" || err != nil {
			t.Errorf("body = %q, %v", b, err)
		}
		equal(t, "trailer of the request", (<-got).Get("X-Check"), "there")
		equal(t, "trailer of the answer", res.Trailer.Get("X-Sum"), "back")
		equal(t, "trailer that was not announced", res.Trailer.Get("X-Late"), "2")
	})
}

func TestChunkedBothWays(t *testing.T) {
	protocols(t, func(t *testing.T, tls bool, v httpVersion) {
		addr := lab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).EnableFullDuplex()
			w.WriteHeader(200)
			b := make([]byte, 16<<10)
			for {
				n, err := r.Body.Read(b)
				w.Write(b[:n])
				w.(http.Flusher).Flush()
				if err != nil {
					return
				}
			}
		}))
		s := site{endpoints: []string{addr}, tls: tls}.start(t)
		const size = 3 << 20
		req, _ := http.NewRequest("POST", s.url("/"), io.LimitReader(&counting{}, size))
		res, err := s.client(t, v).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		same(t, res.Body, size)
	})
}

// counting is a body in which each byte tells its place.
type counting struct{ n int }

func (c *counting) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = place(c.n)
		c.n++
	}
	return len(b), nil
}

func place(n int) byte { return byte(n>>16 ^ n>>8 ^ n) }

// same checks that r is the start of a counting body.
func same(t *testing.T, r io.Reader, size int) {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil || len(b) != size {
		t.Fatalf("body of %d bytes, %v; want %d", len(b), err, size)
	}
	for i := range b {
		if b[i] != place(i) {
			t.Fatalf("byte %d is another", i)
		}
	}
}

// Long bodies of known length take the way of splice.
func TestLongBodies(t *testing.T) {
	protocols(t, func(t *testing.T, tls bool, v httpVersion) {
		const size = 9<<20 + 12345
		var mu sync.Mutex
		var uploaded error
		addr := lab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "PUT" {
				n, err := 0, error(nil)
				b := make([]byte, 64<<10)
				for err == nil {
					var k int
					k, err = r.Body.Read(b)
					for i := range b[:k] {
						if b[i] != place(n+i) {
							err = fmt.Errorf("byte %d is another", n+i)
							break
						}
					}
					n += k
				}
				mu.Lock()
				defer mu.Unlock()
				if uploaded = nil; err != io.EOF || n != size {
					uploaded = fmt.Errorf("%d bytes, %v", n, err)
				}
				return
			}
			w.Header().Set("Content-Length", fmt.Sprint(size))
			io.Copy(w, io.LimitReader(&counting{}, size))
		}))
		s := site{endpoints: []string{addr}, tls: tls}.start(t)
		c := s.client(t, v)
		for range 2 {
			res, err := c.Get(s.url("/"))
			if err != nil {
				t.Fatal(err)
			}
			same(t, res.Body, size)
			res.Body.Close()
			req, _ := http.NewRequest("PUT", s.url("/"), io.LimitReader(&counting{}, size))
			req.ContentLength = size
			if res, err = c.Do(req); err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			equal(t, "status", res.StatusCode, 200)
			mu.Lock()
			equal(t, "upload", uploaded, nil)
			mu.Unlock()
		}
		equal(t, "connections to the endpoint", s.Metric("fairlead_endpoint_connects_total"), 1)
	})
}

func TestHTTP10Clients(t *testing.T) {
	t.Parallel()
	length := lab.NewOrigin(t, lab.Answer(lab.OK))
	chunks := lab.NewOrigin(t, lab.Answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n"))
	for _, c := range []struct {
		name, lines, addr string
		connection        string
	}{
		{"close", "", length.Addr, "close"},
		{"keep-alive", "Connection: keep-alive\r\n", length.Addr, "keep-alive"},
		{"keep-alive with chunks ends by closing", "Connection: keep-alive\r\n", chunks.Addr, "close"},
		{"chunks", "", chunks.Addr, "close"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := site{endpoints: []string{c.addr}}.start(t)
			cl := s.dial(t)
			for range 2 {
				cl.Send("GET / HTTP/1.0\r\nHost: " + host + "\r\n" + c.lines + "\r\n")
				r := cl.Response("GET")
				equal(t, "status", r.StatusCode, 200)
				equal(t, "body", r.Text, "ok")
				connection := r.Header.Get("Connection")
				if r.Close { // the library takes the field away then
					connection = "close"
				}
				equal(t, "Connection", connection, c.connection)
				equal(t, "coding", len(r.TransferEncoding), 0)
				if c.connection == "close" {
					equal(t, "end", cl.Ended(5*time.Second), lab.Closed)
					break
				}
			}
		})
	}
}

func TestPipelining(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Echo)
	s := site{endpoints: []string{o.Addr}}.start(t)
	var all strings.Builder
	const count = 50
	for i := range count {
		switch i % 3 {
		case 0:
			all.WriteString(get(fmt.Sprintf("/%d", i), ""))
		case 1:
			all.WriteString(request("POST", fmt.Sprintf("/%d", i), "Content-Length: 5\r\n", "hello"))
		case 2:
			all.WriteString(request("PUT", fmt.Sprintf("/%d", i), "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"))
		}
	}
	c := s.dial(t)
	c.Send(all.String())
	for i := range count {
		r := c.Response("GET")
		if want := fmt.Sprintf(" /%d HTTP/1.1\r\n", i); r.StatusCode != 200 || !strings.Contains(r.Text, want) {
			t.Fatalf("answer %d = %d %q", i, r.StatusCode, r.Text)
		}
	}
	equal(t, "connections to the endpoint", o.Connections(), 1)
	sum := 0.0
	for _, r := range s.AccessLog(count) {
		sum += r["bytes_in"].(float64)
	}
	equal(t, "bytes_in of all requests", int(sum), all.Len())
	equal(t, "bytes received", int(s.Metric("fairlead_http_received_bytes_total")), all.Len())
}

// A head that takes its time is answered like any other.
func TestSlowHead(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Answer(lab.OK))
	s := site{endpoints: []string{o.Addr}, pool: "answer_timeout: 400ms"}.start(t)
	raw := get("/", "")
	for range 2 {
		r := s.raw(t, raw[:5], 700*time.Millisecond, raw[5:], lab.Within(500*time.Millisecond))
		equal(t, "status", r.Status(), "200")
	}
}

func TestExpectContinue(t *testing.T) {
	t.Parallel()
	const expect = "Expect: 100-continue\r\nContent-Length: 5\r\n"
	t.Run("granted", func(t *testing.T) {
		t.Parallel()
		o := lab.NewOrigin(t, func(c *lab.OriginConn) {
			for {
				head, err := c.Head()
				if err != nil {
					return
				}
				equal(t, "Expect", strings.ToLower(lab.Field(head, "Expect")), "100-continue")
				c.Say("HTTP/1.1 100 Continue\r\n\r\n")
				if body, _ := c.Body(head); body != "hello" {
					t.Errorf("body = %q", body)
				}
				c.Say(lab.OK)
			}
		})
		s := site{endpoints: []string{o.Addr}}.start(t)
		c := s.dial(t)
		for range 2 {
			c.Send(request("POST", "/", expect, ""))
			equal(t, "interim", c.Line(), "HTTP/1.1 100 Continue")
			equal(t, "line behind", c.Line(), "")
			c.Send("hello")
			r := c.Response("POST")
			equal(t, "status", r.StatusCode, 200)
			equal(t, "Connection", r.Header.Get("Connection"), "")
		}
		equal(t, "connections to the endpoint", o.Connections(), 1)
	})
	t.Run("refused at once", func(t *testing.T) {
		t.Parallel()
		o := lab.NewOrigin(t, lab.Answer("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n"))
		s := site{endpoints: []string{o.Addr}}.start(t)
		c := s.dial(t)
		c.Send(request("POST", "/", expect, ""))
		r := c.Response("POST")
		equal(t, "status", r.StatusCode, 417)
		equal(t, "closed", r.Close, true)
		c.Close()
		if strings.Contains(o.Received(), "hello") {
			t.Error("a body reached the endpoint")
		}
	})
	t.Run("client does not wait", func(t *testing.T) {
		t.Parallel()
		o := lab.NewOrigin(t, lab.Echo) // says no 100
		s := site{endpoints: []string{o.Addr}}.start(t)
		c := s.dial(t)
		c.Send(request("POST", "/", expect, "hello"))
		if r := c.Response("POST"); r.StatusCode != 200 || !strings.HasSuffix(r.Text, "hello") {
			t.Errorf("answer = %d %q", r.StatusCode, r.Text)
		}
	})
}

// An endpoint that breaks off its answer must not look finished.
func TestCutAnswers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"length":         "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
		"chunks":         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
		"chunk":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
		"wrong chunks":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nx\r\n",
		"no first chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			protocols(t, func(t *testing.T, tls bool, v httpVersion) {
				o := lab.NewOrigin(t, func(c *lab.OriginConn) {
					if _, err := c.Head(); err == nil {
						c.Say(answer)
					}
				})
				s := site{endpoints: []string{o.Addr}, tls: tls}.start(t)
				res, err := s.client(t, v).Get(s.url("/"))
				if err == nil { // the head may be all that came, or not even that
					equal(t, "status", res.StatusCode, 200)
					var b []byte
					if b, err = io.ReadAll(res.Body); err == nil {
						t.Errorf("body %q looks whole", b)
					}
					res.Body.Close()
				}
				r := s.AccessLog(1)[0]
				equal(t, "status in the access log", r["status"], any(200.0))
				equal(t, "error in the access log", r["error"], any("bad_answer"))
				equal(t, "errors at the endpoint", s.Metric("fairlead_endpoint_errors_total", "reason", "bad_answer"), 1)
			})
		})
	}
}

// An endpoint whose answer has something behind it gives nothing to the next
// request.
func TestAnswerWithExcess(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"length": lab.OK + "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong",
		"chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong",
		"none":   "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := lab.NewOrigin(t, lab.Answer(answer))
			s := site{endpoints: []string{o.Addr}}.start(t)
			c := s.dial(t)
			for range 3 {
				c.Send(get("/", ""))
				if r := c.Response("GET"); r.Text == "wrong" {
					t.Error("client got bytes from behind an answer")
				}
			}
			equal(t, "connections to the endpoint", o.Connections(), 3)
		})
	}
	t.Run("later", func(t *testing.T) {
		t.Parallel()
		sent := make(chan struct{}, 10)
		o := lab.NewOrigin(t, func(c *lab.OriginConn) {
			if _, err := c.Head(); err != nil {
				return
			}
			c.Say(lab.OK)
			time.Sleep(20 * time.Millisecond)
			c.Say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")
			sent <- struct{}{}
			c.AwaitEnd()
		})
		s := site{endpoints: []string{o.Addr}}.start(t)
		c := s.dial(t)
		for range 3 {
			c.Send(get("/", ""))
			equal(t, "body", c.Response("GET").Text, "ok")
			<-sent
		}
	})
}

// With TLS, what came unasked may be inside the TLS connection already.
func TestAnswerWithExcessOverTLS(t *testing.T) {
	t.Parallel()
	ca := lab.NewCA(t)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{ca.Issue("secure.test").TLS}})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	sent := make(chan struct{}, 10)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				for {
					if _, err := http.ReadRequest(r); err != nil {
						return
					}
					io.WriteString(c, lab.OK)
					time.Sleep(20 * time.Millisecond)
					io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")
					sent <- struct{}{}
				}
			}()
		}
	}()
	n := lab.Start(t, fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools: [{name: p, protocol: https, tls: {ca: %q, server_name: secure.test}, endpoints: [{name: A, address: %q}]}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [p]}]
`, ca.File, ln.Addr()))
	c := lab.Dial(t, n.Addr("web"))
	for range 4 {
		c.Send(get("/", ""))
		equal(t, "body", c.Response("GET").Text, "ok")
		<-sent
	}
}

// An answer that breaks off while its request is still being sent ends both.
func TestAnswerCutDuringUpload(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, func(c *lab.OriginConn) {
		if _, err := c.Head(); err != nil {
			return
		}
		c.Say("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
	})
	s := site{endpoints: []string{o.Addr}}.start(t)
	for range 20 {
		c := s.dial(t)
		c.Send("POST / HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 100000000\r\n\r\n" + strings.Repeat("x", 1<<20))
		c.Ended(5 * time.Second)
		c.Close()
	}
}

// The time-out of an answer does not run while its request is on the way.
func TestUploadLongerThanAnswerTimeout(t *testing.T) {
	t.Parallel()
	addr := lab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	}))
	n := lab.Start(t, fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools: [{name: p, answer_timeout: 400ms, endpoints: [{name: A, address: %q}]}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [p]}]
`, addr))
	const pieces, piece = 20, 256 << 10
	c := lab.Dial(t, n.Addr("web"))
	c.Send(fmt.Sprintf("POST / HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n", host, pieces*piece))
	tick := time.NewTicker(60 * time.Millisecond)
	defer tick.Stop()
	for range pieces {
		c.Send(strings.Repeat("x", piece))
		<-tick.C
	}
	r := c.Response("POST")
	equal(t, "status", r.StatusCode, 200)
	equal(t, "bytes", r.Text, fmt.Sprint(pieces*piece))
}

// An endpoint that does not wait for a request is no HTTP server. It is not to
// be asked for ever.
func TestEndpointSpeaksFirst(t *testing.T) {
	t.Parallel()
	for name, greeting := range map[string]string{"greets": "220 ready\r\n", "closes": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := lab.NewOrigin(t, func(c *lab.OriginConn) {
				if greeting != "" {
					c.Say(greeting)
					c.AwaitEnd()
				}
			})
			s := site{endpoints: []string{o.Addr}}.start(t)
			for _, method := range []string{"GET", "POST"} {
				c := s.dial(t)
				c.Send(request(method, "/", "", ""))
				equal(t, method, c.Response(method).StatusCode, 520)
			}
			if n := o.Connections(); n > 4 {
				t.Errorf("endpoint was connected to %d times for 2 requests", n)
			}
		})
	}
}

// An answer that breaks off in its head leaves nothing behind for the next one
// over the same connection of the client.
func TestAnswerCutInItsHead(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, func(c *lab.OriginConn) {
		for {
			head, err := c.Head()
			if err != nil {
				return
			}
			if strings.Contains(head, "/cut") {
				c.Say("HTTP/1.1 200 OK\r\nX-A: bc")
				return
			}
			c.Say("HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno")
		}
	})
	s := site{endpoints: []string{o.Addr}}.start(t)
	c := s.dial(t)
	for range 3 {
		c.Send(request("POST", "/cut", "Content-Length: 0\r\n", ""))
		equal(t, "status of the cut answer", c.Response("POST").StatusCode, 520)
		c.Send(get("/", ""))
		equal(t, "status of the next", c.Response("GET").StatusCode, 404)
	}
}
