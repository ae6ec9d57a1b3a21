package http_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"fairlead/test/lab"
)

func TestC01ConnectionListedFields(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Answer("HTTP/1.1 200 OK\r\nConnection:\r\nConnection: X-Back\r\nX-Back: 1\r\nContent-Length: 2\r\n\r\nok"))
	s := site{endpoints: []string{o.Addr}}.start(t)
	c := s.dial(t)
	c.Send(get("/", "Connection:\r\nConnection: X-Secret, X-Forwarded-For\r\nX-Secret: 1\r\n"))
	r := c.Response("GET")
	equal(t, "status", r.StatusCode, 200)
	equal(t, "X-Back", r.Header.Get("X-Back"), "")
	equal(t, "Connection of the answer", r.Header.Get("Connection"), "")
	head := o.Received()
	equal(t, "X-Secret", lab.Field(head, "X-Secret"), "")
	equal(t, "Connection", lab.Field(head, "Connection"), "")
	equal(t, "X-Forwarded-For", lab.Field(head, "X-Forwarded-For"), "127.0.0.1")
}

// tooLarge refuses an upload without reading it.
func tooLarge(c *lab.OriginConn) {
	if _, err := c.Head(); err != nil {
		return
	}
	c.Say("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
	c.Conn.(*net.TCPConn).CloseWrite()
	time.Sleep(time.Second)
}

func TestC02EarlyAnswer(t *testing.T) {
	const size = 50_000_000
	protocols(t, func(t *testing.T, tls bool, v httpVersion) {
		o := lab.NewOrigin(t, tooLarge)
		s := site{endpoints: []string{o.Addr}, tls: tls}.start(t)
		for i := range 30 {
			begun := time.Now()
			var status int
			var text string
			if v != v1 {
				c := s.client(t, v)
				res, err := c.Post(s.url("/"), "", io.LimitReader(zeros{}, size))
				if err != nil {
					t.Fatalf("upload %d: %v", i, err)
				}
				b, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil {
					t.Fatalf("upload %d: body: %v", i, err)
				}
				status, text = res.StatusCode, string(b)
			} else {
				c := s.dial(t)
				c.Send(request("POST", "/", "Content-Length: "+strconv.Itoa(size)+"\r\n", ""))
				go io.Copy(c.Conn, io.LimitReader(zeros{}, size))
				r := c.Response("POST")
				status, text = r.StatusCode, r.Text
				c.Close()
			}
			if status != 413 || text != "big" {
				t.Fatalf("upload %d: %d %q, want 413 big", i, status, text)
			}
			if d := time.Since(begun); d > slack+2*time.Second {
				t.Errorf("upload %d took %v", i, d)
			}
		}
		equal(t, "errors at the endpoint", s.Metric("fairlead_endpoint_errors_total"), 0)
	})
}

// zeros is a body without an end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// events sends its head, and an event each time that more is sent to, until the
// connection ends.
func events(contentType string, more chan string) func(c *lab.OriginConn) {
	return func(c *lab.OriginConn) {
		if _, err := c.Head(); err != nil {
			return
		}
		c.Say("HTTP/1.1 200 OK\r\nContent-Type: " + contentType + "\r\nTransfer-Encoding: chunked\r\n\r\n")
		for event := range more {
			line := "data: " + event + "\n"
			c.Say(fmt.Sprintf("%x\r\n%s\r\n", len(line), line))
		}
		c.AwaitEnd() // silent from here on
	}
}

// The endpoint says nothing more before the client has what it said, so what is
// held back anywhere never comes.
func TestC03Streaming(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{"text/event-stream", "application/x-ndjson"} {
		t.Run(contentType[strings.LastIndexByte(contentType, '/')+1:], func(t *testing.T) {
			protocols(t, func(t *testing.T, tls bool, v httpVersion) {
				more := make(chan string)
				o := lab.NewOrigin(t, events(contentType, more))
				// The time between events is none of the client's.
				s := site{endpoints: []string{o.Addr}, tls: tls, listener: limits("body_timeout: 200ms")}.start(t)
				req, _ := http.NewRequest("GET", s.url("/"), nil)
				req.Header.Set("Accept-Encoding", "gzip, br")
				c := s.client(t, v)
				res, err := c.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				if res.ProtoMajor != int(v) {
					t.Fatalf("answer in %s", res.Proto)
				}
				lines := bufio.NewScanner(res.Body)
				for i := range 3 {
					time.Sleep(300 * time.Millisecond)
					more <- strconv.Itoa(i)
					if !lines.Scan() {
						t.Fatalf("event %d does not come: %v", i, lines.Err())
					}
					equal(t, "event", lines.Text(), "data: "+strconv.Itoa(i))
				}
				close(more)
				res.Body.Close() // the client hangs up
				c.CloseIdleConnections()
				hungUp := time.Now()
				lab.Await(t, "the endpoint's connection to be closed", func() bool { return o.Open() == 0 })
				if d := time.Since(hungUp); d > slack+time.Second {
					t.Errorf("endpoint's connection was closed after %v", d)
				}
			})
		})
	}
}

// slack is added to what is promised in time: these tests share their machine.
const slack = time.Second

// oneAnswer answers the first request of each connection and closes at the first
// byte of a second one.
func oneAnswer(answered *atomic.Int64) func(c *lab.OriginConn) {
	return func(c *lab.OriginConn) {
		head, err := c.Head()
		if err != nil {
			return
		}
		if _, err := c.Body(head); err != nil {
			return
		}
		answered.Add(1)
		c.Say(lab.OK)
		c.Read(make([]byte, 1))
	}
}

func TestC04ReusedConnectionDies(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"GET", "PUT"} {
		t.Run(method, func(t *testing.T) {
			protocols(t, func(t *testing.T, tls bool, v httpVersion) {
				var answered atomic.Int64
				o := lab.NewOrigin(t, oneAnswer(&answered))
				s := site{endpoints: []string{o.Addr}, tls: tls}.start(t)
				c := s.client(t, v)
				for i := range 200 {
					req, _ := http.NewRequest(method, s.url("/"), nil)
					if method == "PUT" {
						req, _ = http.NewRequest(method, s.url("/"), strings.NewReader("x"))
					}
					res, err := c.Do(req)
					if err != nil {
						t.Fatalf("request %d: %v", i, err)
					}
					io.Copy(io.Discard, res.Body)
					res.Body.Close()
					if res.StatusCode != 200 {
						t.Fatalf("request %d: %s", i, res.Status)
					}
				}
				equal(t, "requests answered", answered.Load(), 200)
				equal(t, "errors at the endpoint", s.Metric("fairlead_endpoint_errors_total"), 0)
				equal(t, "retries", s.Metric("fairlead_http_retries_total"), 0)
				if s.Metric("fairlead_endpoint_resent_total") == 0 {
					t.Error("nothing was sent again: the case did not come up")
				}
			})
		})
	}
}

func TestC05AbsoluteForm(t *testing.T) {
	t.Parallel()
	a, b := lab.NewOrigin(t, lab.Answer(lab.OK)), lab.NewOrigin(t, lab.Answer(lab.OK))
	n := lab.Start(t, fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools:
  - {name: a, endpoints: [{name: A, address: %q}]}
  - {name: b, endpoints: [{name: B, address: %q}]}
load_balancers:
  - {name: a.example.com, proxied: true, default_pools: [a], rules: [{name: never, condition: 'http.host eq "b.example.com"', fixed_response: {status_code: 418}}]}
  - {name: b.example.com, proxied: true, default_pools: [b]}
`, a.Addr, b.Addr))
	c := lab.Dial(t, n.Addr("web"))
	c.Send("GET http://a.example.com/x?y=1 HTTP/1.1\r\nHost: b.example.com\r\n\r\n")
	equal(t, "status", c.Response("GET").StatusCode, 200)
	c.Send("GET http://A.EXAMPLE.COM:80 HTTP/1.1\r\nHost: b.example.com\r\n\r\n")
	equal(t, "status", c.Response("GET").StatusCode, 200)
	equal(t, "B received", b.Received(), "")
	requests := strings.SplitAfter(a.Received(), "\r\n\r\n")
	for i, want := range []struct{ line, host string }{{"GET /x?y=1 HTTP/1.1", "a.example.com"}, {"GET / HTTP/1.1", "a.example.com:80"}} {
		line, _, _ := strings.Cut(requests[i], "\r\n")
		equal(t, "request line", line, want.line)
		if got := strings.Join(lab.Fields(requests[i], "Host"), "|"); !strings.EqualFold(got, want.host) {
			t.Errorf("Host = %q, want %q in any case", got, want.host)
		}
	}
	r := lab.Raw(t, n.Addr("web"), "GET http://user:pw@a.example.com/ HTTP/1.1\r\nHost: a.example.com\r\n\r\n")
	equal(t, "status with userinfo", r.Status(), "400")
	equal(t, "end with userinfo", r.End, lab.Closed)
}

// hashing answers with the hash of the body.
func hashing(uploads *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		if _, err := io.Copy(h, r.Body); err != nil {
			return
		}
		uploads.Add(1)
		io.WriteString(w, hex.EncodeToString(h.Sum(nil)))
	})
}

// This test does not run beside others: it looks at the memory of the process.
func TestC06ConnectFailsUnderUpload(t *testing.T) {
	const size = 40_000_000
	want := sha256.New()
	io.CopyN(want, zeros{}, size)
	var uploads atomic.Int64
	b := lab.Serve(t, hashing(&uploads))
	s := site{endpoints: []string{lab.Refusing(t), b}, balancer: "retry_budget: 1"}.start(t)
	c := s.client(t, v1)
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	peak := uint64(0)
	const rounds = 8
	for i := range 2 * rounds {
		req, _ := http.NewRequest("POST", s.url("/"), io.LimitReader(zeros{}, size))
		if i%2 == 0 {
			req.ContentLength = size // else chunked
		}
		res, err := c.Do(req)
		if err != nil {
			t.Fatalf("upload %d: %v", i, err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != 200 || string(text) != hex.EncodeToString(want.Sum(nil)) {
			t.Fatalf("upload %d: %s %q", i, res.Status, text)
		}
		runtime.ReadMemStats(&now)
		peak = max(peak, now.HeapInuse)
	}
	equal(t, "uploads seen", uploads.Load(), 2*rounds)
	if s.Metric("fairlead_http_retries_total") == 0 {
		t.Error("nothing was retried: the case did not come up")
	}
	if grown := int64(peak) - int64(before.HeapInuse); grown > size/2 {
		t.Errorf("memory grew by %d bytes, with uploads of %d", grown, size)
	}
}

func TestC08Framing(t *testing.T) {
	t.Parallel()
	const body = "5\r\nhello\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: www.example.com\r\n\r\n"
	for i, c := range []struct{ lines, status string }{
		{"Transfer-Encoding: chunked\t\r\n", "200"},
		{"Transfer-Encoding: xchunked\r\n", "501"},
		{"Transfer-Encoding: chunked, identity\r\n", "400"},
		{"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "400"},
		{"Transfer-Encoding : chunked\r\n", "400"},
		{"Transfer-Encoding:\r\n chunked\r\n", "400"},
		{"Content-Length: 5\r\nContent-Length: 6\r\n", "400"},
		{"Content-Length: 5, 5\r\n", "400"},
		{"Content-Length: +5\r\n", "400"},
		{"Content-Length: 0x5\r\n", "400"},
		{"Content-Length: 5 5\r\n", "400"},
	} {
		t.Run(strconv.Itoa(i+1), func(t *testing.T) {
			t.Parallel()
			o := lab.NewOrigin(t, lab.Echo)
			s := site{endpoints: []string{o.Addr}}.start(t)
			cl := s.dial(t)
			cl.Send(request("POST", "/t", c.lines, body))
			if c.status == "200" {
				equal(t, "status", cl.Response("POST").StatusCode, 200)
				second := cl.Response("GET")
				equal(t, "second status", second.StatusCode, 200)
				if !strings.HasPrefix(second.Text, "GET /evil HTTP/1.1\r\n") {
					t.Errorf("second request = %q", second.Text)
				}
				equal(t, "Transfer-Encoding", strings.Join(lab.Fields(o.Received(), "Transfer-Encoding"), "|"), "chunked")
				return
			}
			r := cl.Raw()
			equal(t, "status", r.Status(), c.status)
			equal(t, "end", r.End, lab.Closed)
			equal(t, "answers", strings.Count(r.Text, "HTTP/1.1 "), 1)
			equal(t, "received by the endpoint", o.Received(), "")
		})
	}
}

func TestC11ForgedClientAddress(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T, trusted string) (*lab.Origin, server) {
		o := lab.NewOrigin(t, lab.Answer(lab.OK))
		return o, site{endpoints: []string{o.Addr}, listener: "trusted_proxies: [" + trusted + "]"}.start(t)
	}
	t.Run("strangers", func(t *testing.T) {
		t.Parallel()
		o, s := start(t, "")
		c := s.dial(t)
		c.Send(get("/", "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-For: 203.0.113.7\r\n"+
			"CF-Connecting-IP: 203.0.113.7\r\nTrue-Client-IP: 203.0.113.7\r\nX-Real-IP: 203.0.113.7\r\n"+
			"Forwarded: for=203.0.113.7\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: forged.example\r\n"))
		equal(t, "status", c.Response("GET").StatusCode, 200)
		head := o.Received()
		equal(t, "X-Forwarded-For", strings.Join(lab.Fields(head, "X-Forwarded-For"), "|"), "127.0.0.1")
		equal(t, "X-Forwarded-Proto", strings.Join(lab.Fields(head, "X-Forwarded-Proto"), "|"), "http")
		equal(t, "X-Forwarded-Host", strings.Join(lab.Fields(head, "X-Forwarded-Host"), "|"), host)
		equal(t, "Forwarded", strings.Join(lab.Fields(head, "Forwarded"), "|"), `for=127.0.0.1;host="www.example.com";proto=http`)
		if strings.Contains(head, "203.0.113.7") || strings.Contains(head, "forged") {
			t.Errorf("forged values reach the endpoint: %q", head)
		}
		client := s.AccessLog(1)[0]["client"].(string)
		if !strings.HasPrefix(client, "127.0.0.1:") {
			t.Errorf("client in the access log = %q, want the peer", client)
		}
	})
	for _, c := range []struct{ name, lines, client, forwarded string }{
		{"last hop", "X-Forwarded-For: 198.51.100.9, 203.0.113.7\r\n", "203.0.113.7", "198.51.100.9, 203.0.113.7, 127.0.0.1"},
		{"forged first hop", "X-Forwarded-For: 203.0.113.7, 198.51.100.9\r\n", "198.51.100.9", "203.0.113.7, 198.51.100.9, 127.0.0.1"},
		{"trusted hops are skipped", "X-Forwarded-For: 203.0.113.7, 10.1.1.1,\t10.2.2.2\r\n", "203.0.113.7", "203.0.113.7, 10.1.1.1,\t10.2.2.2, 127.0.0.1"},
		{"two lines", "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-For: 10.1.1.1\r\n", "203.0.113.7", "203.0.113.7, 10.1.1.1, 127.0.0.1"},
		{"IPv6 with port", "X-Forwarded-For: [2001:db8::7]:443\r\n", "2001:db8::7", "[2001:db8::7]:443, 127.0.0.1"},
		{"no address", "X-Forwarded-For: not-an-ip\r\n", "127.0.0.1", "not-an-ip, 127.0.0.1"},
		{"address behind no address", "X-Forwarded-For: 203.0.113.7, not-an-ip\r\n", "127.0.0.1", "203.0.113.7, not-an-ip, 127.0.0.1"},
		{"empty", "X-Forwarded-For:\r\n", "127.0.0.1", "127.0.0.1"},
		{"absent", "", "127.0.0.1", "127.0.0.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o, s := start(t, "127.0.0.1/32, 10.0.0.0/8")
			cl := s.dial(t)
			cl.Send(get("/", c.lines+"X-Forwarded-Proto: https\r\n"))
			equal(t, "status", cl.Response("GET").StatusCode, 200)
			equal(t, "X-Forwarded-For", strings.Join(lab.Fields(o.Received(), "X-Forwarded-For"), "|"), c.forwarded)
			equal(t, "X-Forwarded-Proto", strings.Join(lab.Fields(o.Received(), "X-Forwarded-Proto"), "|"), "https")
			client := s.AccessLog(1)[0]["client"].(string)
			if c.client == "127.0.0.1" {
				client, _, _ = strings.Cut(client, ":")
			}
			equal(t, "client in the access log", client, c.client)
		})
	}
}

func TestC34Wildcards(t *testing.T) {
	t.Parallel()
	a, b, c := lab.NewEndpoint(t, "A"), lab.NewEndpoint(t, "B"), lab.NewEndpoint(t, "C")
	n := lab.Start(t, fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools:
  - {name: a, endpoints: [{name: A, address: %q}]}
  - {name: b, endpoints: [{name: B, address: %q}]}
  - {name: c, endpoints: [{name: C, address: %q}]}
load_balancers:
  - {name: "*.example.com", proxied: true, default_pools: [a]}
  - {name: x.example.com, proxied: true, default_pools: [b]}
  - {name: "*.x.example.com", proxied: true, default_pools: [c]}
`, a.Addr, b.Addr, c.Addr))
	for _, test := range []struct{ host, want string }{
		{"a.example.com", "A"},
		{"a.b.example.com", "A"},
		{"X.Example.com.", "B"},
		{"x.example.com:8080", "B"},
		{"a.x.example.com", "C"},
		{"a.b.x.example.com", "C"},
		{"ax.example.com", "A"},
		{"y.a.example.com:8080", "A"},
		{"example.com", "404"},
		{"example.net", "404"},
	} {
		cl := lab.Dial(t, n.Addr("web"))
		cl.Send("GET / HTTP/1.1\r\nHost: " + test.host + "\r\n\r\n")
		r := cl.Response("GET")
		got := r.Text
		if r.StatusCode != 200 {
			got = strconv.Itoa(r.StatusCode)
		}
		equal(t, test.host, got, test.want)
	}
}

func TestC41BodyFraming(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Echo)
	for _, c := range []struct{ name, method, lines, body, length, coding string }{
		{"GET", "GET", "", "", "", ""},
		{"PUT of nothing", "PUT", "Content-Length: 0\r\n", "", "0", ""},
		{"POST of 5 bytes", "POST", "Content-Length: 5\r\n", "hello", "5", ""},
		{"PATCH in chunks", "PATCH", "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n", "", "chunked"},
		{"DELETE", "DELETE", "", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := site{endpoints: []string{o.Addr}}.start(t)
			cl := s.dial(t)
			cl.Send(request(c.method, "/", c.lines, c.body))
			seen := cl.Response(c.method).Text
			equal(t, "Content-Length", strings.Join(lab.Fields(seen, "Content-Length"), "|"), c.length)
			equal(t, "Transfer-Encoding", strings.Join(lab.Fields(seen, "Transfer-Encoding"), "|"), c.coding)
			_, body, _ := strings.Cut(seen, "\r\n\r\n")
			equal(t, "body", body, c.body)
		})
	}
	for _, c := range []struct {
		name, method string
		body         io.Reader
		length       int64
		wantLength   string
		wantCoding   string
	}{
		{"HTTP2 POST that ends with its head", "POST", nil, 0, "0", ""},
		{"HTTP2 GET", "GET", nil, 0, "", ""},
		{"HTTP2 DELETE", "DELETE", nil, 0, "", ""},
		{"HTTP2 POST of 5 bytes", "POST", strings.NewReader("hello"), 5, "5", ""},
		{"HTTP2 POST of unknown length", "POST", io.MultiReader(strings.NewReader("hello")), -1, "", "chunked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := site{endpoints: []string{o.Addr}, tls: true}.start(t)
			req, _ := http.NewRequest(c.method, s.url("/"), c.body)
			req.ContentLength = c.length
			res, err := s.client(t, v2).Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			seen, _ := io.ReadAll(res.Body)
			equal(t, "Content-Length", strings.Join(lab.Fields(string(seen), "Content-Length"), "|"), c.wantLength)
			equal(t, "Transfer-Encoding", strings.Join(lab.Fields(string(seen), "Transfer-Encoding"), "|"), c.wantCoding)
			if c.body != nil && !bytes.Contains(seen, []byte("hello")) {
				t.Errorf("no body in %q", seen)
			}
		})
	}
}

func TestC45Coalescing(t *testing.T) {
	t.Parallel()
	a, b := lab.NewEndpoint(t, "A"), lab.NewEndpoint(t, "B")
	ca := lab.NewCA(t)
	cert := ca.Issue("*.example.com")
	n := lab.Start(t, fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: https, http3: true, certificates: [{certificate: %q, key: %q}]}]
pools:
  - {name: a, endpoints: [{name: A, address: %q}]}
  - {name: b, endpoints: [{name: B, address: %q}]}
load_balancers:
  - {name: a.example.com, proxied: true, default_pools: [a]}
  - {name: b.example.com, proxied: true, default_pools: [b]}
`, cert.CertFile, cert.KeyFile, a.Addr, b.Addr))
	s := server{n, n.Addr("web"), ca}
	for _, v := range []httpVersion{v1, v2, v3} {
		c := s.client(t, v)
		for _, test := range []struct{ host, want string }{
			{"a.example.com", "A"}, {"b.example.com", "B"}, {"a.example.net", "404"}, {"a.example.com", "A"},
		} {
			req, _ := http.NewRequest("GET", "https://a.example.com/", nil)
			req.Host = test.host
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(res.Body)
			res.Body.Close()
			got := string(text)
			if res.StatusCode != 200 {
				got = strconv.Itoa(res.StatusCode)
			}
			equal(t, fmt.Sprintf("%s (HTTP/%d)", test.host, v), got, test.want)
		}
	}
	equal(t, "connections", n.Metric("fairlead_http_connections_total"), 3)
}
