package http_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"fairlead/test/lab"
)

// introducing dials the site, writes a header of the PROXY protocol, and puts TLS on
// the connection where the site wants that.
func introducing(t *testing.T, s server, header string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	io.WriteString(nc, header)
	if s.ca != nil {
		nc = tls.Client(nc, s.ca.Client(host, "http/1.1"))
	}
	return nc
}

const (
	line1 = "PROXY TCP4 192.0.2.7 198.51.100.1 12345 443\r\n"
	// The same in version 2, for IPv6.
	line2 = "\r\n\r\n\x00\r\nQUIT\n\x21\x21\x00\x24" + "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07" +
		"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x30\x39\x01\xbb"
	local2 = "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
)

// What a trusted proxy says in the PROXY protocol is who the client is, for endpoints,
// hashing, limits and the log.
func TestProxyProtocol(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"http": false, "https": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := lab.NewOrigin(t, lab.Echo)
			s := site{endpoints: []string{o.Addr}, tls: secure, listener: "trusted_proxies: [127.0.0.0/8], accept_proxy_protocol: true"}.start(t)
			for i, c := range []struct{ header, client, peer string }{
				{line1, "192.0.2.7", "192.0.2.7:12345"},
				{line2, "2001:db8::7", "[2001:db8::7]:12345"},
				{local2, "127.0.0.1", ""},
				{"PROXY UNKNOWN\r\n", "127.0.0.1", ""},
			} {
				nc := introducing(t, s, c.header)
				in := bufio.NewReader(nc)
				for range 2 { // the connection is the client's, all of it
					io.WriteString(nc, get("/", "X-Forwarded-For: 203.0.113.9\r\n"))
					res, err := http.ReadResponse(in, nil)
					if err != nil {
						t.Fatalf("%q: %v", c.header, err)
					}
					reply, err := io.ReadAll(res.Body)
					if err != nil {
						t.Fatalf("%q: %v", c.header, err)
					}
					// The client behind the proxy is not trusted; the proxy itself is.
					want := "X-Forwarded-For: " + c.client + "\r\n"
					if c.peer == "" {
						want = "X-Forwarded-For: 203.0.113.9, 127.0.0.1\r\n"
					}
					if !strings.Contains(string(reply), want) {
						t.Errorf("%q: the endpoint got %q, want %q", c.header, reply, want)
					}
				}
				if line := s.AccessLog(2*i + 2)[2*i]; c.peer != "" && (line["client"] != c.peer || line["peer"] != c.peer) {
					t.Errorf("%q: the log has client %v and peer %v", c.header, line["client"], line["peer"])
				}
			}
		})
	}
}

// From a trusted proxy the header must come, whole, right and soon; from others it is
// no header.
func TestProxyProtocolIsStrict(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Echo)
	trusting := site{endpoints: []string{o.Addr}, listener: "trusted_proxies: [127.0.0.0/8], accept_proxy_protocol: true, limits: {header_timeout: 500ms}"}.start(t)
	refused := 0.0
	for _, text := range []string{get("/", ""), "PROXY TCP4 a b c d\r\n" + get("/", ""), "PROXY", "\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff", ""} {
		nc := introducing(t, trusting, text)
		if b, _ := io.ReadAll(nc); len(b) > 0 {
			t.Errorf("%q was answered: %q", text, b)
		}
		refused++
		lab.Await(t, "the count", func() bool { return trusting.Metric("fairlead_http_proxy_headers_failed_total") == refused })
	}
	if n := len(o.Log()); n != 0 {
		t.Errorf("the endpoint got %d requests", n)
	}
	equal(t, "time-outs", trusting.Metric("fairlead_http_limited_total", "limit", "header_timeout"), 2)

	other := site{endpoints: []string{o.Addr}, listener: "trusted_proxies: [192.0.2.0/24], accept_proxy_protocol: true"}.start(t)
	if r := other.raw(t, get("/", "Connection: close\r\n")); !strings.Contains(r.Text, "X-Forwarded-For: 127.0.0.1\r\n") {
		t.Errorf("a client that is no proxy: %s", r.Text)
	}
	if r := other.raw(t, line1+get("/", "Connection: close\r\n")); !strings.HasPrefix(r.Text, "HTTP/1.1 400 ") {
		t.Errorf("a client that is no proxy and sends a header: %s", r.Text)
	}
}

// Connections are bounded by client, of whom a proxy has many.
func TestProxyProtocolClientsAreBounded(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Echo)
	s := site{endpoints: []string{o.Addr}, listener: "trusted_proxies: [127.0.0.0/8], accept_proxy_protocol: true, " + limits("connections_per_client: 2")}.start(t)
	open := func(client string) bool {
		nc := introducing(t, s, "PROXY TCP4 "+client+" 198.51.100.1 12345 443\r\n")
		io.WriteString(nc, get("/", ""))
		n, _ := nc.Read(make([]byte, 4096))
		return n > 0
	}
	for _, client := range []string{"192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2", "192.0.2.3"} {
		if !open(client) {
			t.Errorf("a connection of %s was refused", client)
		}
	}
	if open("192.0.2.1") {
		t.Error("a third connection of a client was served")
	}
	equal(t, "limited", s.Metric("fairlead_http_limited_total", "limit", "connections_per_client"), 1)
}
