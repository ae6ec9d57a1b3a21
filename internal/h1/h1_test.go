package h1_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"fairlead/internal/h1"
	"fairlead/internal/h1/h1test"
)

// feed gives raw to parse in pieces that end at the cuts, each piece in a new array
// with what came before it, as a connection's buffer may move. It returns what
// the last call returned.
func feed(raw string, cuts []int, parse func([]byte) (int, error)) (n int, err error) {
	for _, c := range append(cuts, len(raw)) {
		n, err = parse([]byte(raw[:c]))
		if n != 0 || err != nil {
			return n, err
		}
	}
	return 0, nil
}

// ways returns lists of cuts: none, each single position (each 97th of a long
// message), and all of them.
func ways(raw string) [][]int {
	w := [][]int{nil}
	var all []int
	for i := range len(raw) {
		if len(raw) < 1000 || i%97 == 0 {
			w = append(w, []int{i})
		}
		all = append(all, i)
	}
	return append(w, all)
}

// reason returns the status and reason of a refusal.
func reason(err error) string {
	var e *h1.Error
	if !errors.As(err, &e) {
		return fmt.Sprintf("%v, no *h1.Error", err)
	}
	return fmt.Sprintf("%d %s", e.Status, e.Reason)
}

func TestTablesAreLargeEnough(t *testing.T) {
	if n := len(h1test.Malformed); n < 70 {
		t.Errorf("%d malformed requests, want at least 70", n)
	}
	if n := len(h1test.Good); n < 30 {
		t.Errorf("%d good requests, want at least 30", n)
	}
	seen := map[string]string{}
	note := func(table, name, raw string) {
		if was, ok := seen[raw]; ok {
			t.Errorf("%s %q has the same bytes as %s", table, name, was)
		}
		seen[raw] = table + " " + name
	}
	for _, c := range h1test.Malformed {
		note("Malformed", c.Name, c.Raw)
	}
	for _, c := range h1test.MalformedBody {
		note("MalformedBody", c.Name, c.Raw)
	}
	for _, c := range h1test.Good {
		note("Good", c.Name, c.Raw)
	}
}

func TestMalformedRequests(t *testing.T) {
	for _, c := range h1test.Malformed {
		t.Run(c.Name, func(t *testing.T) {
			var first string
			for _, cuts := range ways(c.Raw) {
				var r h1.Request
				n, err := feed(c.Raw, cuts, func(b []byte) (int, error) { return r.Parse(b, nil) })
				if n != 0 || err == nil {
					t.Fatalf("Parse = %d, %v, want an error of status %d", n, err, c.Status)
				}
				got := reason(err)
				if !strings.HasPrefix(got, fmt.Sprint(c.Status, " ")) {
					t.Fatalf("Parse = %s, want status %d", got, c.Status)
				}
				if first == "" {
					first = got
					t.Log(got)
				}
				if got != first {
					t.Fatalf("cut at %v: %s; whole: %s", cuts, got, first)
				}
			}
		})
	}
}

func TestGoodRequests(t *testing.T) {
	for _, c := range h1test.Good {
		t.Run(c.Name, func(t *testing.T) {
			var first string
			for _, cuts := range ways(c.Raw) {
				var r h1.Request
				n, err := feed(c.Raw, cuts, func(b []byte) (int, error) { return r.Parse(b, nil) })
				if n == 0 || err != nil {
					t.Fatalf("Parse = %d, %v, want success", n, err)
				}
				if s := describeRequest(n, &r); first == "" {
					first = s
				} else if s != first {
					t.Fatalf("cut at %v: %s\nwhole: %s", cuts, s, first)
				}
			}
			var r h1.Request
			n, _ := r.Parse([]byte(c.Raw), nil)
			equal(t, "Method", string(r.Method), c.Method)
			equal(t, "Path", string(r.Path), c.Path)
			equal(t, "Query", string(r.Query), c.Query)
			equal(t, "HasQuery", r.HasQuery, bytes.IndexByte(r.Target, '?') >= 0)
			equal(t, "Host", string(r.Host), c.Host)
			equal(t, "HostPort", string(r.HostPort), c.HostPort)
			equal(t, "Close", r.Close, c.Close)
			equal(t, "hop-by-hop", hops(&r.Message), c.Hop)
			body, trailer, rest := readBody(t, &r.Message, c.Raw[n:])
			equal(t, "body", body, c.Body)
			equal(t, "trailer", trailer, c.Trailer)
			equal(t, "rest", rest, "")
		})
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %#v, want %#v", what, got, want)
	}
}

// hops names the hop-by-hop fields in order.
func hops(m *h1.Message) string {
	var names []string
	for i := range m.Fields {
		if f := &m.Fields[i]; f.Hop {
			names = append(names, string(m.Name(f)))
		}
	}
	return strings.Join(names, " ")
}

// readBody reads a body by what m says of it.
func readBody(t *testing.T, m *h1.Message, raw string) (body, trailer, rest string) {
	t.Helper()
	switch m.Body {
	case h1.BodyLength:
		if int64(len(raw)) < m.Length {
			t.Fatalf("body has %d bytes, want %d", len(raw), m.Length)
		}
		return raw[:m.Length], "", raw[m.Length:]
	case h1.BodyChunked:
		var c h1.Chunked
		b := []byte(raw)
		data, used, done, err := c.Decode(b)
		if !done || err != nil {
			t.Fatalf("Decode = %d, %d, %v, %v, want success", data, used, done, err)
		}
		return string(b[:data]), string(c.Trailer()), string(b[used:])
	case h1.BodyUntilClose:
		return raw, "", ""
	}
	return "", "", raw
}

func describe(n int, m *h1.Message) string {
	var s strings.Builder
	fmt.Fprintf(&s, "n=%d head=%q 1.0=%v body=%v length=%d close=%v upgrade=%q names=%v\n",
		n, m.Head, m.HTTP10, m.Body, m.Length, m.Close, m.Upgrade, m.NamesFields)
	for i := range m.Fields {
		f := &m.Fields[i]
		fmt.Fprintf(&s, "  %q = %q (%q) kind=%d hop=%v\n", m.Name(f), m.Value(f), m.Line(f), f.Kind, f.Hop)
	}
	return s.String()
}

func describeRequest(n int, r *h1.Request) string {
	return fmt.Sprintf("%q %q scheme=%q path=%q query=%q %v host=%q hostport=%q 100=%v te=%v ",
		r.Method, r.Target, r.Scheme, r.Path, r.Query, r.HasQuery, r.Host, r.HostPort, r.Expect100, r.TETrailers) +
		describe(n, &r.Message)
}

func describeResponse(n int, r *h1.Response) string {
	return fmt.Sprintf("%d %q ", r.Status, r.Reason) + describe(n, &r.Message)
}

func TestMalformedBodies(t *testing.T) {
	for _, c := range h1test.MalformedBody {
		t.Run(c.Name, func(t *testing.T) {
			var r h1.Request
			n, err := r.Parse([]byte(c.Raw), nil)
			if n == 0 || err != nil {
				t.Fatalf("Parse = %d, %v, want a good head", n, err)
			}
			raw := c.Raw[n:]
			var first string
			for _, cuts := range ways(raw) {
				_, _, rest, err := decode(raw, cuts)
				if err == nil {
					t.Fatalf("Decode accepts it, leaving %q, want an error", rest)
				}
				got := reason(err)
				if !strings.HasPrefix(got, fmt.Sprint(c.Status, " ")) {
					t.Fatalf("Decode = %s, want status %d", got, c.Status)
				}
				if first == "" {
					first = got
					t.Log(got)
				}
				if got != first {
					t.Fatalf("cut at %v: %s; whole: %s", cuts, got, first)
				}
			}
		})
	}
}

// decode decodes raw in pieces that end at the cuts.
func decode(raw string, cuts []int) (body, trailer, rest string, err error) {
	var c h1.Chunked
	at := 0
	for _, cut := range append(cuts, len(raw)) {
		b := []byte(raw[at:cut])
		data, used, done, err := c.Decode(b)
		if err != nil {
			return body, "", "", err
		}
		body += string(b[:data])
		if string(b[used:]) != raw[at+used:cut] {
			return "", "", "", errors.New("bytes that were not used are changed")
		}
		if done != c.Done() {
			return "", "", "", errors.New("done and Done differ")
		}
		if done {
			return body, string(c.Trailer()), raw[at+used:], nil
		}
		if used != len(b) {
			return "", "", "", fmt.Errorf("used %d of %d bytes", used, len(b))
		}
		at = cut
	}
	return body, "", "", errIncomplete
}

var errIncomplete = errors.New("incomplete")

func TestGoodBodies(t *testing.T) {
	for _, c := range h1test.Good {
		var r h1.Request
		n, _ := r.Parse([]byte(c.Raw), nil)
		if r.Body != h1.BodyChunked {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			raw := c.Raw[n:] + h1test.Hidden
			for _, cuts := range ways(raw) {
				body, trailer, rest, err := decode(raw, cuts)
				if body != c.Body || trailer != c.Trailer || rest != h1test.Hidden || err != nil {
					t.Fatalf("cut at %v: %q, %q, %q, %v, want %q, %q, %q, nil", cuts,
						body, trailer, rest, err, c.Body, c.Trailer, h1test.Hidden)
				}
			}
			for i := range len(c.Raw) - n {
				if _, _, _, err := decode(c.Raw[n:n+i], nil); err != errIncomplete {
					t.Fatalf("first %d bytes: %v, want more to be asked for", i, err)
				}
			}
		})
	}
}

func TestMalformedResponses(t *testing.T) {
	for _, c := range h1test.MalformedResponses {
		t.Run(c.Name, func(t *testing.T) {
			var first string
			for _, cuts := range ways(c.Raw) {
				var r h1.Response
				n, err := feed(c.Raw, cuts, func(b []byte) (int, error) { return r.Parse(b, []byte("GET"), nil) })
				if n != 0 || err == nil {
					t.Fatalf("Parse = %d, %v, want an error", n, err)
				}
				got := reason(err)
				if first == "" {
					first = got
					t.Log(got)
				}
				if got != first {
					t.Fatalf("cut at %v: %s; whole: %s", cuts, got, first)
				}
			}
		})
	}
}

func TestGoodResponses(t *testing.T) {
	for _, c := range h1test.GoodResponses {
		t.Run(c.Name, func(t *testing.T) {
			method := []byte("GET")
			if c.Method != "" {
				method = []byte(c.Method)
			}
			var first string
			for _, cuts := range ways(c.Raw) {
				var r h1.Response
				n, err := feed(c.Raw, cuts, func(b []byte) (int, error) { return r.Parse(b, method, nil) })
				if n == 0 || err != nil {
					t.Fatalf("Parse = %d, %v, want success", n, err)
				}
				if s := describeResponse(n, &r); first == "" {
					first = s
				} else if s != first {
					t.Fatalf("cut at %v: %s\nwhole: %s", cuts, s, first)
				}
			}
			var r h1.Response
			n, _ := r.Parse([]byte(c.Raw), method, nil)
			equal(t, "Status", r.Status, c.Status)
			equal(t, "Reason", string(r.Reason), c.Reason)
			equal(t, "Body", r.Body.String(), c.Kind)
			equal(t, "Close", r.Close, c.Close)
			equal(t, "hop-by-hop", hops(&r.Message), c.Hop)
			body, trailer, rest := readBody(t, &r.Message, c.Raw[n:])
			equal(t, "body", body, c.Body)
			equal(t, "trailer", trailer, c.Trailer)
			equal(t, "rest", rest, "")
		})
	}
}

// A parser is used for one message after another, good or bad, without Reset.
func TestReuse(t *testing.T) {
	var r h1.Request
	for _, c := range h1test.Good {
		r.Parse([]byte(h1test.Malformed[0].Raw), nil)
		n, err := r.Parse([]byte(c.Raw), nil)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		var fresh h1.Request
		m, _ := fresh.Parse([]byte(c.Raw), nil)
		if got, want := describeRequest(n, &r), describeRequest(m, &fresh); got != want {
			t.Errorf("%s: reused\n%swant\n%s", c.Name, got, want)
		}
	}
	r.Reset()
	if r.Head != nil || len(r.Fields) != 0 || r.Method != nil {
		t.Error("Reset keeps borrowed bytes")
	}
}

func TestPipelined(t *testing.T) {
	b := []byte("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n\r\nGET /2 HTTP/1.1\r\nHost: b\r\n\r\nGET /3 HT")
	var r h1.Request
	for _, want := range []string{"/1", "/2"} {
		n, err := r.Parse(b, nil)
		if err != nil || string(r.Path) != want {
			t.Fatalf("Path = %q, %v, want %q", r.Path, err, want)
		}
		b = b[n:]
	}
	if n, err := r.Parse(b, nil); n != 0 || err != nil {
		t.Fatalf("Parse = %d, %v, want 0, nil", n, err)
	}
}

func TestHeadLimits(t *testing.T) {
	head := "GET /x HTTP/1.1\r\nHost: a\r\nA: 1\r\nB: 2\r\n\r\n"
	for _, c := range []struct {
		name string
		raw  string
		lim  *h1.Limits
		want error
	}{
		{"exact bytes", head, &h1.Limits{HeadBytes: len(head)}, nil},
		{"exact bytes with more behind", head + head, &h1.Limits{HeadBytes: len(head)}, nil},
		{"exact bytes behind empty lines", "\r\n\r\n" + head, &h1.Limits{HeadBytes: len(head)}, nil},
		{"a byte too long", head, &h1.Limits{HeadBytes: len(head) - 1}, h1.ErrHeadLong},
		{"field line too long", head, &h1.Limits{HeadBytes: 20}, h1.ErrHeadLong},
		{"request line too long", head, &h1.Limits{HeadBytes: 16}, h1.ErrTargetLong},
		{"request line fills it", head, &h1.Limits{HeadBytes: 17}, h1.ErrHeadLong},
		{"exact fields", head, &h1.Limits{Fields: 3}, nil},
		{"a field too many", head, &h1.Limits{Fields: 2}, h1.ErrTooManyFields},
		{"default bytes", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 65536), nil, h1.ErrHeadLong},
		{"default target", "GET /" + strings.Repeat("x", 65536), nil, h1.ErrTargetLong},
		{"default fields", "GET / HTTP/1.1\r\n" + strings.Repeat("X: 1\r\n", 129), nil, h1.ErrTooManyFields},
	} {
		t.Run(c.name, func(t *testing.T) {
			cuts := ways(c.raw)
			if len(c.raw) > 1000 {
				var some []int // feed copies, so each byte would be quadratic
				for i := 0; i < len(c.raw); i += 997 {
					some = append(some, i)
				}
				cuts = [][]int{nil, some}
			}
			for _, cut := range cuts {
				var r h1.Request
				n, err := feed(c.raw, cut, func(b []byte) (int, error) { return r.Parse(b, c.lim) })
				if err != c.want && (c.want != nil || err != nil) {
					t.Fatalf("cut at %v: Parse = %d, %v, want %v", cut, n, err, c.want)
				}
			}
		})
	}
	for _, c := range []struct {
		name string
		lim  *h1.Limits
		want error
	}{
		{"exact", &h1.Limits{HeadBytes: len(response)}, nil},
		{"a byte too long", &h1.Limits{HeadBytes: len(response) - 1}, h1.ErrHeadLong},
		{"status line too long", &h1.Limits{HeadBytes: 10}, h1.ErrHeadLong},
		{"a field too many", &h1.Limits{Fields: 7}, h1.ErrTooManyFields},
	} {
		t.Run("response "+c.name, func(t *testing.T) {
			for _, cut := range ways(response) {
				var r h1.Response
				n, err := feed(response, cut, func(b []byte) (int, error) { return r.Parse(b, nil, c.lim) })
				if err != c.want && (c.want != nil || err != nil) {
					t.Fatalf("cut at %v: Parse = %d, %v, want %v", cut, n, err, c.want)
				}
			}
		})
	}
}

// An incomplete head must be looked at once, however small the pieces: a client
// must not be able to buy quadratic work with single bytes.
func TestIncrementalIsLinear(t *testing.T) {
	raw := []byte("GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 1<<20))
	var r h1.Request
	lim := &h1.Limits{HeadBytes: 2 << 20}
	for i := range raw {
		// A scan from the start each time would be 5e11 bytes.
		if n, err := r.Parse(raw[:i], lim); n != 0 || err != nil {
			t.Fatalf("Parse of %d bytes = %d, %v", i, n, err)
		}
	}
}

func TestTrailerLimits(t *testing.T) {
	trailer := "A: 1\r\nB: 2\r\n\r\n"
	for _, c := range []struct {
		name string
		lim  h1.Limits
		want error
	}{
		{"exact bytes", h1.Limits{HeadBytes: len(trailer)}, nil},
		{"a byte too long", h1.Limits{HeadBytes: len(trailer) - 1}, h1.ErrTrailerLong},
		{"line fills it", h1.Limits{HeadBytes: 6}, h1.ErrTrailerLong},
		{"exact fields", h1.Limits{Fields: 2}, nil},
		{"a field too many", h1.Limits{Fields: 1}, h1.ErrTrailers},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := "0\r\n" + trailer
			for i := range len(raw) + 1 {
				var d h1.Chunked
				d.Reset(&c.lim)
				_, _, _, err := d.Decode([]byte(raw[:i]))
				if err == nil {
					_, _, _, err = d.Decode([]byte(raw[i:]))
				}
				if err != c.want && (c.want != nil || err != nil) {
					t.Fatalf("cut at %d: %v, want %v", i, err, c.want)
				}
			}
		})
	}
}

func TestChunkedReuse(t *testing.T) {
	var c h1.Chunked
	c.Discard = true
	if _, _, done, err := c.Decode([]byte("0\r\nA: 1\r\n\r\n")); !done || err != nil {
		t.Fatal(done, err)
	}
	if len(c.Trailer()) != 0 {
		t.Errorf("Trailer = %q with Discard, want none", c.Trailer())
	}
	if data, used, done, err := c.Decode([]byte("GET")); data != 0 || used != 0 || !done || err != nil {
		t.Errorf("Decode of a finished body = %d, %d, %v, %v, want 0, 0, true, nil", data, used, done, err)
	}
	c.Reset(nil)
	if c.Done() || c.Left() != 0 {
		t.Error("Reset leaves the old body")
	}
	if _, _, _, err := c.Decode([]byte("A\r\n123")); err != nil || c.Left() != 7 {
		t.Errorf("Left = %d, %v, want 7", c.Left(), err)
	}
	c.Reset(nil)
	if _, _, done, err := c.Decode([]byte("0\r\nA: 1\r\n\r\n")); !done || err != nil || string(c.Trailer()) != "A: 1\r\n" {
		t.Errorf("Trailer = %q, %v, %v", c.Trailer(), done, err)
	}
}

func TestRequestDetails(t *testing.T) {
	parse := func(raw string) *h1.Request {
		t.Helper()
		r := new(h1.Request)
		if n, err := r.Parse([]byte(raw), nil); n == 0 || err != nil {
			t.Fatalf("Parse(%q) = %d, %v", raw, n, err)
		}
		return r
	}
	const start = "POST / HTTP/1.1\r\nHost: a\r\n"
	if r := parse(start + "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n"); string(r.Upgrade) != "websocket" {
		t.Errorf("Upgrade = %q, want websocket", r.Upgrade)
	}
	for _, raw := range []string{
		start + "Upgrade: websocket\r\n\r\n",
		start + "Connection: upgrade\r\n\r\n",
		start + "Connection: upgrade\r\nUpgrade:\r\n\r\n",
		start + "Connection: upgrade\r\nUpgrade: a\r\nUpgrade: b\r\n\r\n",
		"GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
	} {
		if r := parse(raw); r.Upgrade != nil {
			t.Errorf("Upgrade = %q for %q, want nil", r.Upgrade, raw)
		}
	}
	equal(t, "Expect100", parse(start+"Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n").Expect100, true)
	equal(t, "Expect100 without body", parse(start+"Expect: 100-continue\r\nContent-Length: 0\r\n\r\n").Expect100, false)
	equal(t, "TETrailers", parse(start+"TE: gzip;q=0.5\r\nTE: deflate , Trailers\r\n\r\n").TETrailers, true)
	equal(t, "TETrailers of another coding", parse(start+"TE: trailersx, gzip\r\n\r\n").TETrailers, false)
	equal(t, "Length", parse(start+"\r\n").Length, -1)
	equal(t, "Length", parse(start+"Content-Length: 999999999999999999\r\n\r\n").Length, 999999999999999999)
	equal(t, "NamesFields", parse(start+"Connection: close, TE, Keep-Alive, Upgrade, Host\r\n\r\n").NamesFields, false)
	equal(t, "NamesFields", parse(start+"Connection: close, X-Sum\r\n\r\n").NamesFields, true)
	equal(t, "Scheme", string(parse("GET HttpS://a/ HTTP/1.1\r\nHost: a\r\n\r\n").Scheme), "HttpS")

	r := parse(start + "X-A: 1\r\nX-B:\r\nx-a: 2\r\n\r\n")
	equal(t, "Get", string(r.Get("x-a")), "1")
	if v := r.Get("x-b"); v == nil || len(v) != 0 {
		t.Errorf("Get of an empty field = %#v, want empty and not nil", v)
	}
	if v := r.Get("x-c"); v != nil {
		t.Errorf("Get of no field = %q, want nil", v)
	}
	equal(t, "Lines", string(r.Lines(&r.Fields[1], &r.Fields[2])), "X-A: 1\r\nX-B:\r\n")
	equal(t, "Line", string(r.Line(&r.Fields[3])), "x-a: 2\r\n")
}

// Each known name has its kind in any case, and no name near it has.
func TestKinds(t *testing.T) {
	kinds := map[string]h1.Kind{
		"Connection": h1.KindConnection, "Content-Length": h1.KindContentLength, "Content-Type": h1.KindContentType,
		"Cookie": h1.KindCookie, "Date": h1.KindDate, "Expect": h1.KindExpect, "Forwarded": h1.KindForwarded,
		"Host": h1.KindHost, "Keep-Alive": h1.KindKeepAlive, "Proxy-Authenticate": h1.KindProxyAuth,
		"Proxy-Authorization": h1.KindProxyAuth, "Proxy-Authentication-Info": h1.KindProxyAuth,
		"Proxy-Connection": h1.KindProxyConnection, "Server": h1.KindServer, "Set-Cookie": h1.KindSetCookie,
		"TE": h1.KindTE, "Trailer": h1.KindTrailer, "Transfer-Encoding": h1.KindTransferEncoding,
		"Upgrade": h1.KindUpgrade, "Via": h1.KindVia, "X-Forwarded-For": h1.KindXForwardedFor,
		"X-Forwarded-Host": h1.KindXForwardedHost, "X-Forwarded-Proto": h1.KindXForwardedProto,
		"X-Real-IP": h1.KindClientIP, "CF-Connecting-IP": h1.KindClientIP, "True-Client-IP": h1.KindClientIP,
	}
	kind := func(name string) h1.Kind {
		var r h1.Response
		if n, err := r.Parse([]byte("HTTP/1.1 200\r\n"+name+": 1\r\n\r\n"), nil, nil); n == 0 &&
			!errors.Is(err, h1.ErrCodingOther) {
			t.Fatalf("%s: %v", name, err)
		}
		return r.Fields[0].Kind
	}
	for name, want := range kinds {
		for _, n := range []string{name, strings.ToLower(name), strings.ToUpper(name)} {
			equal(t, n, kind(n), want)
		}
		for i := range name {
			for _, x := range "a_~^`|\x40\x1d" {
				near := []byte(name)
				if near[i]|0x20 == byte(x)|0x20 && near[i]|0x20 >= 'a' || x < ' ' || x == '@' {
					continue
				}
				near[i] = byte(x)
				if _, ok := kinds[string(near)]; !ok {
					equal(t, string(near), kind(string(near)), h1.KindOther)
				}
			}
			equal(t, name[:i]+"x"+name[i:], kind(name[:i]+"x"+name[i:]), h1.KindOther)
		}
	}
}

func TestValidHost(t *testing.T) {
	for _, h := range []string{"a", "a.b", "a.b.", "127.0.0.1", "[::]", "[::1]:1", "[1:2:3:4:5:6:7:8]",
		"[1:2:3:4:5:6:7::]", "[::2:3:4:5:6:7:8]", "[1:2:3:4:5:6:1.2.3.4]", "a:65535", "-", "xn--a"} {
		if !h1.ValidHost([]byte(h)) {
			t.Errorf("ValidHost(%q) = false, want true", h)
		}
	}
	for _, h := range []string{"", ".", "a..", "a b", "a:", ":1", "a:00080", "a:080", "a:65536", "a:123456", "[", "[]", "]",
		"[:]", "[:::]", "[1]", "[1:2:3:4:5:6:7:8:9]", "[1:2:3:4:5:6:7:8::]", "[12345::]", "[::1.2.3]", "[::1.2.3.4.5]",
		"[::01.2.3.4]", "[::256.2.3.4]", "[1.2.3.4]", "[::1.2.3.4:5]", "[::g]", "[1:]", "[v1.a]", "[::1]1", "[::1]:", "a*"} {
		if h1.ValidHost([]byte(h)) {
			t.Errorf("ValidHost(%q) = true, want false", h)
		}
	}
}

// An address in brackets is valid exactly when net/netip can parse it.
func FuzzIPv6(f *testing.F) {
	for _, s := range []string{"::", "::1", "1:2:3:4:5:6:7:8", "1::8", "::ffff:1.2.3.4", "1:2:3:4:5:6:7:1.2.3.4", "1:::2", ":1", "1:"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := netip.ParseAddr(s)
		want := err == nil && a.Is6() && a.Zone() == ""
		if got := h1.ValidHost([]byte("[" + s + "]")); got != want {
			t.Errorf("ValidHost([%s]) = %v, want %v", s, got, want)
		}
	})
}

func TestNoAllocation(t *testing.T) {
	var r h1.Request
	var p h1.Response
	var c h1.Chunked
	browser, small, resp, get := []byte(browserRequest), []byte(wrkRequest), []byte(response), []byte("GET")
	bad := []byte(h1test.Malformed[0].Raw)
	v6 := []byte("GET http://[2001:db8::1]:80/ HTTP/1.1\r\nHost: [::1.2.3.4]\r\nConnection: X, close\r\nX: 1\r\n\r\n")
	body := "5\r\nhello\r\n3;a\r\n123\r\n0\r\nA: 1\r\nHost: x\r\n\r\n"
	buf := make([]byte, len(body))
	run := func() {
		r.Parse(small, nil)
		r.Parse(bad, nil)
		r.Parse(v6, nil)
		r.Parse(browser[:100], nil)
		if n, err := r.Parse(browser, nil); n == 0 {
			t.Fatal(err)
		}
		if r.Get("referer") == nil {
			t.Fatal("no Referer")
		}
		if n, err := p.Parse(resp, get, nil); n == 0 {
			t.Fatal(err)
		}
		copy(buf, body)
		c.Reset(nil)
		c.Decode(buf[:20])
		if _, _, done, err := c.Decode(buf[20:]); !done {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func TestWrite(t *testing.T) {
	b := h1.AppendStatusLine(nil, 522, "Connection Timed Out")
	b = h1.AppendField(b, "Content-Length", "0")
	b = append(b, h1.CRLF...)
	var r h1.Response
	if n, err := r.Parse(b, nil, nil); n != len(b) || r.Status != 522 || string(r.Reason) != "Connection Timed Out" {
		t.Errorf("Parse(%q) = %d, %v", b, n, err)
	}
	c := h1.AppendChunkHeader(nil, 4096)
	c = append(c, strings.Repeat("x", 4096)+h1.CRLF+h1.LastChunk+h1.CRLF...)
	if body, _, _, err := decode(string(c), nil); len(body) != 4096 || err != nil {
		t.Errorf("chunk of 4096 bytes reads as %d, %v", len(body), err)
	}
	equal(t, "AppendUint", string(h1.AppendUint(nil, 18446744073709551615)), "18446744073709551615")
}
