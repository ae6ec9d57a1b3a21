package fields

import (
	"fmt"
	"strings"
	"testing"
)

// wide bounds nothing that the tests do not mean to.
var wide = Limits{Bytes: 64 << 10, Count: 128}

func collect(of Section, l Limits, end bool, list ...string) (*Block, string) {
	f := new(Block)
	f.Reset(of, l)
	for i := 0; i < len(list); i += 2 {
		f.Add(list[i], list[i+1])
	}
	return f, f.Finish(end)
}

func TestRequestHead(t *testing.T) {
	get := []string{":method", "GET", ":scheme", "https", ":authority", "a.example", ":path", "/p?q"}
	with := func(more ...string) []string { return append(append([]string{}, get...), more...) }
	const lines = "GET https a.example /p?q  -1|"
	for _, test := range []struct {
		name string
		in   []string
		want string // the head, or "!" and what is malformed
	}{
		{"plain", get, lines},
		{"fields in order", with("b", "2", "a", "1", "b", ""), lines + "b: 2\r\na: 1\r\nb: \r\n"},
		{"cookies are joined", with("cookie", "a=1", "x", "y", "cookie", "b=2"), lines + "x: y\r\ncookie: a=1; b=2\r\n"},
		{"empty cookies", with("cookie", "", "cookie", "b=2", "cookie", ""), lines + "cookie: b=2\r\n"},
		{"only an empty cookie", with("cookie", ""), lines + "cookie: \r\n"},
		{"te: trailers", with("te", "trailers"), lines + "te: trailers\r\n"},
		{"content-length", with("content-length", "12"), "GET https a.example /p?q  12|content-length: 12\r\n"},
		{"host beside the same authority", with("host", "A.example"), lines},
		{"host alone", []string{":method", "GET", ":scheme", "http", ":path", "/", "host", "b.example:81"}, "GET http b.example:81 /  -1|"},
		{"asterisk", []string{":method", "OPTIONS", ":scheme", "http", ":path", "*", ":authority", "a"}, "OPTIONS http a *  -1|"},
		{"CONNECT", []string{":method", "CONNECT", ":authority", "a:443"}, "CONNECT  a:443   -1|"},
		{"extended CONNECT", []string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":path", "/ws", ":authority", "a"},
			"CONNECT https a /ws websocket -1|"},
		{"obs-text in a value", with("x", "\xe9"), lines + "x: \xe9\r\n"},

		{"no method", []string{":scheme", "http", ":path", "/", ":authority", "a"}, "!malformed or missing :method"},
		{"method is no token", []string{":method", "G T", ":scheme", "http", ":path", "/", ":authority", "a"}, "!malformed or missing :method"},
		{"no scheme", []string{":method", "GET", ":path", "/", ":authority", "a"}, "!malformed or missing :scheme"},
		{"odd scheme", []string{":method", "GET", ":scheme", "1x", ":path", "/", ":authority", "a"}, "!malformed or missing :scheme"},
		{"no path", []string{":method", "GET", ":scheme", "http", ":authority", "a"}, "!malformed or missing :path"},
		{"empty path", []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", ""}, "!malformed or missing :path"},
		{"path with a space", []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/ HTTP/1.1"}, "!malformed or missing :path"},
		{"path without slash", []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "x"}, "!malformed or missing :path"},
		{"fragment", []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/#x"}, "!malformed or missing :path"},
		{"asterisk of GET", []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "*"}, "!malformed or missing :path"},
		{"no authority", []string{":method", "GET", ":scheme", "http", ":path", "/"}, "!malformed or missing :authority"},
		{"empty authority", []string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "", "host", ""}, "!malformed or missing :authority"},
		{"user in authority", []string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "u@a"}, "!malformed or missing :authority"},
		{"other host", with("host", "b.example"), "!host is not :authority"},
		{"host twice", with("host", "a.example", "host", "a.example"), "!host twice"},
		{"CONNECT with path", []string{":method", "CONNECT", ":authority", "a:443", ":path", "/"}, "!CONNECT with :scheme or :path"},
		{"CONNECT without authority", []string{":method", "CONNECT", "host", "a:443"}, "!host is not :authority"},
		{"protocol without CONNECT", with(":protocol", "websocket"), "!:protocol without CONNECT"},
		{"method twice", with(":method", "GET"), "!pseudo-header field twice"},
		{"unknown pseudo", with(":x", "y"), "!unknown pseudo-header field"},
		{"status in a request", with(":status", "200"), "!pseudo-header field of the other direction"},
		{"pseudo behind regular", []string{":method", "GET", "x", "y", ":path", "/"}, "!pseudo-header field behind regular ones"},
		{"upper case", with("X", "y"), "!malformed field name"},
		{"empty name", with("", "y"), "!malformed field name"},
		{"colon in name", with("a:b", "y"), "!malformed field name"},
		{"CR in value", with("x", "a\rb"), "!malformed field value"},
		{"LF in value", with("x", "a\nb"), "!malformed field value"},
		{"NUL in value", with("x", "a\x00b"), "!malformed field value"},
		{"LF in path", []string{":method", "GET", ":path", "/\n"}, "!malformed field value"},
		{"leading space", with("x", " y"), "!malformed field value"},
		{"trailing tab", with("x", "y\t"), "!malformed field value"},
		{"connection", with("connection", "close"), "!field of a connection"},
		{"keep-alive", with("keep-alive", "1"), "!field of a connection"},
		{"proxy-connection", with("proxy-connection", "x"), "!field of a connection"},
		{"transfer-encoding", with("transfer-encoding", "chunked"), "!field of a connection"},
		{"upgrade", with("upgrade", "x"), "!field of a connection"},
		{"te: gzip", with("te", "trailers, gzip"), "!te that is not trailers"},
		{"length twice", with("content-length", "1", "content-length", "1"), "!malformed content-length"},
		{"length is a list", with("content-length", "1, 1"), "!malformed content-length"},
		{"length with sign", with("content-length", "+1"), "!malformed content-length"},
		{"empty length", with("content-length", ""), "!malformed content-length"},
		{"long length", with("content-length", strings.Repeat("1", 19)), "!malformed content-length"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := wide
			l.ExtendedConnect = true
			f, bad := collect(Request, l, true, test.in...)
			got := "!" + bad
			if bad == "" {
				got = fmt.Sprintf("%s %s %s %s %s %d|%s", f.Method, f.Scheme, f.Authority, f.Path, f.Protocol, f.ContentLength, f.Lines)
			}
			if got != test.want {
				t.Errorf("head is %q, want %q", got, test.want)
			}
		})
	}
	if _, bad := collect(Request, wide, true, ":method", "CONNECT", ":protocol", "websocket"); bad != ":protocol that was not offered" {
		t.Errorf(":protocol without ExtendedConnect: %q", bad)
	}
}

func TestResponseHead(t *testing.T) {
	for _, test := range []struct {
		name string
		end  bool
		in   []string
		want string
	}{
		{"200", true, []string{":status", "200", "set-cookie", "a", "set-cookie", "b"}, "200|set-cookie: a\r\nset-cookie: b\r\n"},
		{"103", false, []string{":status", "103", "link", "x"}, "103|link: x\r\n"},
		{"no status", true, []string{"x", "y"}, "!malformed :status"},
		{"short status", true, []string{":status", "20"}, "!malformed :status"},
		{"status with letters", true, []string{":status", "2x0"}, "!malformed :status"},
		{"status below 100", true, []string{":status", "099"}, "!malformed :status"},
		{"101", false, []string{":status", "101"}, "!101, which only HTTP/1.1 has"},
		{"interim at the end", true, []string{":status", "100"}, "!interim answer that ends the stream"},
		{"path in an answer", true, []string{":status", "200", ":path", "/"}, "!pseudo-header field of the other direction"},
		{"connection", true, []string{":status", "200", "connection", "close"}, "!field of a connection"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, bad := collect(Response, wide, test.end, test.in...)
			got := "!" + bad
			if bad == "" {
				got = fmt.Sprintf("%d|%s", f.Status, f.Lines)
			}
			if got != test.want {
				t.Errorf("head is %q, want %q", got, test.want)
			}
		})
	}
}

func TestTrailerSection(t *testing.T) {
	for _, test := range []struct {
		name string
		in   []string
		want string
	}{
		{"gRPC", []string{"grpc-status", "0", "grpc-message", "x"}, "grpc-status: 0\r\ngrpc-message: x\r\n"},
		{"what may not stand there is dropped", []string{"content-length", "5", "host", "x", "authorization", "y", "cookie", "z", "a", "b"}, "a: b\r\n"},
		{"pseudo", []string{":status", "200"}, "!pseudo-header field in trailers"},
		{"connection", []string{"connection", "x"}, "!field of a connection"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, bad := collect(Trailer, wide, true, test.in...)
			got := "!" + bad
			if bad == "" {
				got = string(f.Lines)
			}
			if got != test.want {
				t.Errorf("trailers are %q, want %q", got, test.want)
			}
		})
	}
}

func TestHeadBounds(t *testing.T) {
	l := Limits{Bytes: 400, Count: 6}
	get := []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/"}
	for _, test := range []struct {
		name string
		more []string
		want bool
	}{
		{"within", []string{"x", "y"}, false},
		{"bytes", []string{"x", strings.Repeat("y", 300)}, true},
		{"fields", []string{"x", "", "x", "", "x", ""}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, bad := collect(Request, l, true, append(append([]string{}, get...), test.more...)...)
			if bad != "" || f.TooLarge != test.want {
				t.Errorf("TooLarge = %v (malformed: %q), want %v", f.TooLarge, bad, test.want)
			}
		})
	}
}
