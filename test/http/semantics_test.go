package http_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/version"
	"io"
	"log"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"fairlead/test/lab"
)

// understood is what a server has understood of a request, as it tells the
// client.
type understood struct {
	Method, URI, Host string
	Length            int64
	Fields            http.Header
	Body              string
	Trailers          http.Header
}

// answerUnderstood answers requests with what it has understood of them; some
// paths ask for answers that are special.
func answerUnderstood(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	switch r.URL.Path {
	case "/204":
		w.WriteHeader(204)
		return
	case "/304":
		w.Header().Set("ETag", `"x"`)
		w.WriteHeader(304)
		return
	case "/103":
		w.Header().Set("Link", "</style.css>")
		w.WriteHeader(103)
		w.WriteHeader(103)
	case "/trailers":
		w.Header().Set("Trailer", "X-Behind")
		defer w.Header().Set("X-Behind", "yes")
	case "/length":
		w.Header().Set("Content-Length", "5")
		io.WriteString(w, "hello")
		return
	case "/empty":
		return
	case "/many":
		for i := range 3 {
			w.Header().Add("Set-Cookie", fmt.Sprintf("c%d=v", i))
		}
	case "/599":
		w.WriteHeader(599)
		return
	}
	u := understood{r.Method, r.RequestURI, r.Host, r.ContentLength, r.Header, string(body), r.Trailer}
	for _, added := range []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "Forwarded",
		"Content-Length", // which is in Length
		"Expect"} {       // which only the server for HTTP/1.1 shows

		u.Fields.Del(added)
	}
	b, _ := json.Marshal(u)
	w.Header().Set("Content-Type", "application/json")
	w.Write(b)
}

// message is a request as it is sent: field lines in pairs, pieces of body,
// trailers in pairs.
type message struct {
	fields   []string
	body     []string
	trailers []string
}

// saidRefused is what ask returns for a request that was refused.
const saidRefused = "refused"

// ask sends a request as the first of a connection and returns the answer, in the
// order in which it came. Statuses from 400 to 499 but for 404 are refusals, as
// are resets.
func (m *message) ask(t *testing.T, addr string) string {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(20 * time.Second))
	var out bytes.Buffer
	fr := http2.NewFramer(&out, nc)
	fr.AllowIllegalWrites = true
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	fr.MaxHeaderListSize = 1 << 20
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	headers := func(fields []string, end bool) {
		block.Reset()
		for i := 0; i < len(fields); i += 2 {
			enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
		}
		b := block.Bytes()
		first := b[:min(len(b), 16<<10)]
		b = b[len(first):]
		fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: first, EndStream: end, EndHeaders: len(b) == 0})
		for len(b) > 0 {
			next := b[:min(len(b), 16<<10)]
			b = b[len(next):]
			fr.WriteContinuation(1, len(b) == 0, next)
		}
	}
	out.WriteString(http2.ClientPreface)
	fr.WriteSettings()
	fr.WriteSettingsAck()
	headers(m.fields, len(m.body) == 0 && m.trailers == nil)
	for i, b := range m.body {
		fr.WriteData(1, m.trailers == nil && i == len(m.body)-1, []byte(b))
	}
	if m.trailers != nil {
		headers(m.trailers, true)
	}
	if _, err := nc.Write(out.Bytes()); err != nil {
		return saidRefused
	}
	var said []string
	var body []byte
	note := func(f *http2.MetaHeadersFrame) {
		line := f.PseudoValue("status")
		for _, h := range f.RegularFields() {
			switch h.Name {
			case "date", "content-type":
				continue
			case "content-length": // which few need
				if m.fields[1] != "HEAD" {
					continue
				}
			}
			line += " " + h.Name + "=" + h.Value
		}
		said = append(said, strings.TrimSpace(line))
	}
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			return saidRefused
		}
		ended := false
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			if s := f.PseudoValue("status"); len(s) == 3 && s[0] == '4' && s != "404" {
				return saidRefused
			}
			note(f)
			ended = f.StreamEnded()
		case *http2.DataFrame:
			body = append(body, f.Data()...)
			ended = f.StreamEnded()
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return saidRefused
		}
		if ended {
			return strings.Join(append(said, string(body)), "\n")
		}
	}
}

// asked is a request with the usual fields before those given; a usual one that is
// given too, or as "-name", is left out.
func asked(fields ...string) *message {
	m := new(message)
	usual := []string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", host}
	var rest []string
	for i := 0; i < len(usual); i += 2 {
		value, keep := usual[i+1], true
		for j := 0; j < len(fields); j += 2 {
			switch fields[j] {
			case usual[i]:
				value = fields[j+1]
			case "-" + usual[i]:
				keep = false
			}
		}
		if keep {
			m.fields = append(m.fields, usual[i], value)
		}
	}
	for j := 0; j < len(fields); j += 2 {
		switch name := fields[j]; {
		case name == ":method", name == ":scheme", name == ":path", name == ":authority", strings.HasPrefix(name, "-:"):
		default:
			rest = append(rest, strings.TrimPrefix(name, "+"), fields[j+1])
		}
	}
	m.fields = append(m.fields, rest...)
	return m
}

func (m *message) with(body ...string) *message {
	m.body = body
	return m
}

func (m *message) behind(trailers ...string) *message {
	m.trailers = trailers
	return m
}

// TestSemantics sends requests to net/http's HTTP/2 server, and through a node to
// its HTTP/1.1 server: what the same handler understands must be the same, or
// both must refuse it. Differences that are meant have a reason.
func TestSemantics(t *testing.T) {
	t.Parallel()
	if v := version.Lang(runtime.Version()); v != "" && version.Compare(v, "go1.27") < 0 {
		t.Skipf("what is expected is what the server of Go 1.27 does, and this is %s", runtime.Version())
	}
	direct := serveHTTP2(t, http.HandlerFunc(answerUnderstood))
	endpoint := lab.Serve(t, http.HandlerFunc(answerUnderstood))
	s := site{endpoints: []string{endpoint}}.start(t)

	value := func(name string, values ...string) (all []*message) {
		for _, v := range values {
			all = append(all, asked(name, v))
		}
		return all
	}
	type differs = map[string]string
	const (
		token    = "a method is a token (RFC 9110 section 9.1); net/http takes anything"
		target   = "a path has no such bytes (RFC 3986 section 3.3), and HTTP/1.1 could not carry them"
		hostname = "a host that could be read in two ways, or that HTTP/1.1 would have refused"
		hostLine = "net/http shows a host field besides the host"
		hosts    = "a second host, which somebody else might go by (RFC 9113 section 8.3.1)"
		blanks   = "white space around a value is malformed (RFC 9113 section 8.2.1), and would be lost in HTTP/1.1"
	)
	post := func(fields ...string) *message { return asked(append([]string{":method", "POST"}, fields...)...) }
	many := func(n int) (fields []string) {
		for i := range n {
			fields = append(fields, fmt.Sprintf("x-%d", i), "v")
		}
		return fields
	}
	for _, c := range []struct {
		name string
		ask  []*message
		// What is meant to differ: text of the request's fields, and why.
		differs differs
	}{
		{name: "method", ask: value(":method", "GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "QUERY", "M-SEARCH",
			"get", "FOO", "", "G T", "GET\x00", "G\xc3\xa9T", "CONNECT", strings.Repeat("M", 200)),
			differs: differs{
				`":method"="G T"`:   token,
				`":method"="GéT"`:   token,
				`":method"="MMMMMM`: "501 is a refusal too: methods are at most 32 bytes long",
			}},
		{name: "path", ask: value(":path", "/", "/a/b", "/a//b", "//a", "/a/../b", "/./a", "/a/", "/%2e%2E/x", "/%41", "/a?b=c", "/?", "/a?b?c", "/a?b=/c",
			"/a;b=c", "/a,b", "/~a", "/a@b", "/a:b", "/a'b()*!$&", "/a|b", "/a\"b", "/a<b>", "/a\\b", "/a{b}", "/a^b`", "/a[b]",
			"", "*", "a", "?a", "http://www.example.com/a", "/a b", "/a\tb", "/a\x00", "/a\x7f", "/a\r\nb", "/a#b", "/\xc3\xbc", "/\xff", "/%", "/%zz", "/a%00",
			"/"+strings.Repeat("a", 5000)),
			differs: differs{
				`":path"="*"`:     "only OPTIONS has this path (RFC 9113 section 8.3.1)",
				`":path"="/a b"`:  target,
				`":path"="/a#b"`:  target,
				`":path"="/ü"`:    target,
				`":path"="/\xff"`: target,
			}},
		{name: "OPTIONS *", ask: []*message{asked(":method", "OPTIONS", ":path", "*")},
			differs: differs{
				`":path"="*"`: "net/http's HTTP/1.1 server answers it by itself, without the handler",
			}},
		{name: "scheme", ask: append(value(":scheme", "http", "https", "HTTP", "ftp", "", "a b", "1x"), asked("-:scheme", "")),
			differs: differs{`":scheme"="HTTP"`: "schemes have no case (RFC 3986 section 3.1)"}},
		{name: "missing", ask: []*message{asked("-:method", ""), asked("-:path", ""), asked("-:authority", "")},
			differs: differs{
				`":method"="GET";":scheme"="http";":path"="/"; `: "HTTP/1.1 has to name a host, and nothing is routed without",
			}},
		{name: "authority", ask: append(value(":authority", host, "WWW.Example.COM", host+":80", host+":8443", host+":", host+":x", host+":99999",
			"a@"+host, "a:b@"+host, host+"/x", host+"?x", host+" ", " "+host, "", "a b", "www.example.com\x00"),
			asked("-:authority", "", "host", host), asked("host", host), asked("host", "WWW.example.com"),
			asked("host", "other.example.com"), asked("host", host+":80"), asked("host", ""), asked("host", host, "+host", host),
			asked("-:authority", "", "host", host, "+host", host), asked("-:authority", "", "host", ""), asked(":authority", "", "host", host)),
			differs: differs{
				`":authority"="www.example.com:"`:                           hostname,
				`":authority"="www.example.com:x"`:                          hostname,
				`":authority"="www.example.com:99999"`:                      hostname,
				`":authority"="www.example.com/x"`:                          hostname,
				`":authority"="www.example.com?x"`:                          hostname,
				`":authority"="www.example.com "`:                           hostname,
				`":authority"=" www.example.com"`:                           hostname,
				`":authority"=""; `:                                         hostname,
				`":authority"="a b"`:                                        hostname,
				`":path"="/";"host"="www.example.com"; `:                    hostLine,
				`":authority"="www.example.com";"host"="www.example.com"; `: hostLine,
				`":authority"="www.example.com";"host"="WWW.example.com"`:   hostLine,
				`"host"="other.example.com"`:                                hosts,
				`"host"="www.example.com:80"`:                               hosts,
				`":authority"="www.example.com";"host"=""`:                  hosts,
				`"host"="www.example.com";"host"="www.example.com"`:         hosts,
				`":path"="/";"host"="";`:                                    hostname,
				`":authority"="";"host"="www.example.com"`:                  hosts,
			}},
		{name: "pseudo fields", ask: []*message{asked("+:path", "/b"), asked("+:method", "GET"), asked("+:authority", host), asked(":status", "200"),
			asked(":unknown", "x"), asked("x", "y", ":late", "z"), asked("x", "y", "+:path", "/"), asked(":protocol", "websocket"), asked(":", "x")}},
		{name: "field names", ask: func() (all []*message) {
			for _, n := range []string{"x", "x-y", "x_y", "x.y", "!#$%&'*+-.^_`|~", "1", "X", "x-Y", "", "x y", "x:", "x:y", "x\x00", "x\r", "x\xc3\xa9", "x/y", "(x)", "x\"", strings.Repeat("x", 3000)} {
				all = append(all, asked(n, "v"))
			}
			return all
		}()},
		{name: "field values", ask: value("x", "", "v", "a b", "a\tb", "a,b", "\"q\"", "a\xc3\xa9", "\xff\x80", " v", "v ", "\tv", "v\t", " ", "a\x00b", "a\rb", "a\nb", "a\r\nb: c",
			"a\x01b", "a\x7fb", strings.Repeat("v", 10000), "a:b", "=?utf-8?"),
			differs: differs{
				`"x"=" v"`:  blanks,
				`"x"="v "`:  blanks,
				`"x"="\tv"`: blanks,
				`"x"="v\t"`: blanks,
				`"x"=" "`:   blanks,
			}},
		{name: "fields twice", ask: []*message{asked("x", "a", "+x", "b"), asked("x", "a", "y", "c", "+x", "b"), asked("accept", "a", "+accept", "b"), asked("x", "", "+x", "")}},
		{name: "fields of connections", ask: []*message{asked("connection", "close"), asked("connection", "keep-alive"), asked("connection", "x", "x", "y"), asked("keep-alive", "timeout=5"),
			asked("proxy-connection", "x"), asked("transfer-encoding", "chunked"), post("transfer-encoding", "chunked").with("x"), asked("transfer-encoding", "identity"), asked("upgrade", "websocket"), asked("connection", "")}},
		{name: "te", ask: value("te", "trailers", "Trailers", "gzip", "trailers, gzip", "", "trailers;q=1"),
			differs: differs{
				`"te"="trailers"`: "of the connection, so that it is not passed on",
				`"te"=""`:         "only trailers may stand there (RFC 9113 section 8.2.2)",
			}},
		{name: "cookies", ask: []*message{asked("cookie", "a=b"), asked("cookie", "a=b", "+cookie", "c=d"), asked("cookie", "a=b", "x", "y", "+cookie", "c=d", "z", "w", "+cookie", "e=f; g=h"), asked("cookie", ""), asked("cookie", "a=b", "+cookie", "")},
			differs: differs{
				`"cookie"="a=b";"cookie"=""`: "HTTP/1.1 has no space at the end of a value",
			}},
		{name: "content-length", ask: []*message{
			post("content-length", "5").with("hello"), post("content-length", "5").with("he", "llo"), post("content-length", "4").with("hello"), post("content-length", "6").with("hello"),
			post("content-length", "0").with(""), post("content-length", "0").with("x"), post("content-length", "0"), post("content-length", "5"), asked("content-length", "0"), asked("content-length", "5"),
			post("content-length", "+5").with("hello"), post("content-length", "-5").with("hello"), post("content-length", "05").with("hello"), post("content-length", "0x5").with("hello"), post("content-length", "5, 5").with("hello"),
			post("content-length", " 5").with("hello"), post("content-length", "").with("hello"), post("content-length", "99999999999999999999").with("hello"), post("content-length", "5", "+content-length", "5").with("hello"),
			post("content-length", "5", "+content-length", "6").with("hello"), post("content-length", "5").with("hello").behind("x-t", "v"), post("content-length", "6").with("hello").behind("x-t", "v"),
		},
			differs: differs{
				`"content-length"="5";"content-length"="5"`: "a length twice is refused, as in HTTP/1.1",
			}},
		{name: "bodies", ask: []*message{
			post().with("hello"), post().with("he", "", "llo"), post().with(""), post().with("hello", ""), post(), asked().with("hello"), asked(":method", "HEAD").with("hello"), asked(":method", "DELETE").with("hello"),
			asked(":method", "OPTIONS").with("hello"), asked(":method", "PUT").with(strings.Repeat("x", 16<<10), strings.Repeat("y", 16<<10)), asked().with(""), asked(":method", "FOO").with("x"),
		}},
		{name: "trailers", ask: []*message{
			post("trailer", "x-t").with("hello").behind("x-t", "v"), post("trailer", "x-t, x-u").with("hello").behind("x-t", "v", "x-u", "w"), post("trailer", "x-t").with("hello").behind("x-t", ""),
			post("trailer", "x-t").with("hello").behind("X-T", "v"), post("trailer", "x-t").with("hello").behind(":path", "/"), post("trailer", "x-t").with("hello").behind("x-t", "a\r\nb"), post("trailer", "x-t").behind("x-t", "v"),
			post().with("hello").behind("x-undeclared", "v"), post("trailer", "content-length").with("hello").behind("content-length", "3"), post().with("hello").behind("host", "x"), post().with("hello").behind("connection", "close"), post("trailer", "x-t").with("hello"),
		},
			differs: differs{
				`"x-undeclared"`:             "net/http's HTTP/2 server hides trailers that were not declared",
				`"trailer"="content-length"`: "net/http's HTTP/1.1 server refuses the declaration",
				`["connection" "close"]`:     "malformed in trailers too (RFC 9113 section 8.2.2)",
			}},
		{name: "Expect", ask: []*message{post("expect", "100-continue", "content-length", "5").with("hello"), post("expect", "100-Continue").with("hello"), post("expect", "200-ok").with("hello"), asked("expect", "100-continue"), post("expect", "").with("hello")},
			differs: differs{
				`"expect"="200-ok"`: "417 (RFC 9110 section 10.1.1)",
				`"expect"=""`:       "417 (RFC 9110 section 10.1.1)",
				`":method"="GET"`:   "without a body there is nothing to wait for",
			}},
		{name: "sizes", ask: []*message{asked(many(120)...), asked(many(1000)...), asked("x", strings.Repeat("v", 31000)), asked("x", strings.Repeat("v", 100_000))}},
		{name: "answers", ask: append(value(":path", "/204", "/304", "/103", "/trailers", "/length", "/empty", "/many", "/599"),
			asked(":method", "HEAD", ":path", "/204"), asked(":method", "HEAD", ":path", "/304"), asked(":method", "HEAD", ":path", "/length"), asked(":method", "HEAD", ":path", "/trailers"),
			asked(":method", "HEAD", ":path", "/103"), asked(":method", "HEAD", ":path", "/empty"), post(":path", "/204").with("hello"), post(":path", "/304").with("hello")),
			differs: differs{
				`":method"="HEAD";":scheme"="http";":path"="/trailers"`: "the endpoint declares trailers and so no length",
			}},
		{name: "others", ask: []*message{asked("range", "bytes=0-1"), asked("priority", "u=1"), asked("http2-settings", "AAMAAABk"), asked("user-agent", ""), asked("accept-encoding", "gzip"), asked("forwarded", "for=1.2.3.4"), asked("authorization", "Basic eA=="), asked("max-forwards", "3")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			met := make(map[string]bool)
			for _, m := range c.ask {
				want, got := m.ask(t, direct), m.ask(t, s.addr)
				what := fmt.Sprintf("%s %.100q %.100q", short(m.fields), m.body, m.trailers)
				if got == want {
					continue
				}
				reason := ""
				for text := range c.differs {
					if strings.Contains(what, text) {
						reason = text
					}
				}
				if reason == "" {
					t.Errorf("%s\nnet/http: %.600s\n    ours: %.600s", what, want, got)
				}
				met[reason] = true
			}
			for text, why := range c.differs {
				if !met[text] {
					t.Errorf("%s: nothing differs any more, though %s", text, why)
				}
			}
		})
	}
}

// short shows fields.
func short(fields []string) string {
	var b strings.Builder
	for i := 0; i < len(fields) && i < 24; i += 2 {
		fmt.Fprintf(&b, "%.50q=%.50q;", fields[i], fields[i+1])
	}
	return b.String()
}

// serveHTTP2 runs net/http's HTTP/2 server, without TLS, and returns its address.
func serveHTTP2(t *testing.T, h http.Handler) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http2.Server{}
	base := &http.Server{ErrorLog: log.New(io.Discard, "", 0), MaxHeaderBytes: 32 << 10}
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			go s.ServeConn(nc, &http2.ServeConnOpts{Handler: h, BaseConfig: base})
		}
	}()
	t.Cleanup(func() { ln.Close() })
	return ln.Addr().String()
}
