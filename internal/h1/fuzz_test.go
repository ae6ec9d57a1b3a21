package h1_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"testing"

	"fairlead/internal/h1"
	"fairlead/internal/h1/h1test"
)

// parseRequest parses raw whole, byte by byte, and in two pieces, and fails if that
// makes a difference. It returns nil if raw is refused or incomplete.
func parseRequest(t *testing.T, raw string, cut int) (*h1.Request, int) {
	t.Helper()
	lim := &h1.Limits{HeadBytes: 4096, Fields: 20}
	whole := func(cuts []int) (*h1.Request, int, string) {
		var r h1.Request
		n, err := feed(raw, cuts, func(b []byte) (int, error) { return r.Parse(b, lim) })
		if err != nil {
			return &r, n, reason(err)
		}
		if n == 0 {
			return &r, 0, "incomplete"
		}
		return &r, n, describeRequest(n, &r)
	}
	r, n, want := whole(nil)
	if _, _, got := whole([]int{cut}); got != want {
		t.Fatalf("cut at %d: %s\nwhole: %s", cut, got, want)
	}
	if _, _, got := whole(everywhere(raw)); got != want {
		t.Fatalf("byte by byte: %s\nwhole: %s", got, want)
	}
	if n == 0 {
		return nil, 0
	}
	return r, n
}

func parseResponse(t *testing.T, raw, method string, cut int) (*h1.Response, int) {
	t.Helper()
	lim := &h1.Limits{HeadBytes: 4096, Fields: 20}
	whole := func(cuts []int) (*h1.Response, int, string) {
		var r h1.Response
		n, err := feed(raw, cuts, func(b []byte) (int, error) { return r.Parse(b, []byte(method), lim) })
		if err != nil {
			return &r, n, reason(err)
		}
		if n == 0 {
			return &r, 0, "incomplete"
		}
		return &r, n, describeResponse(n, &r)
	}
	r, n, want := whole(nil)
	if _, _, got := whole([]int{cut}); got != want {
		t.Fatalf("cut at %d: %s\nwhole: %s", cut, got, want)
	}
	if _, _, got := whole(everywhere(raw)); got != want {
		t.Fatalf("byte by byte: %s\nwhole: %s", got, want)
	}
	if n == 0 {
		return nil, 0
	}
	return r, n
}

func everywhere(raw string) []int {
	if len(raw) > 6000 {
		return nil // beyond the limits, and quadratic in the copies of feed
	}
	cuts := make([]int, len(raw))
	for i := range cuts {
		cuts[i] = i
	}
	return cuts
}

// cutOf turns a fuzzed number into a place in raw.
func cutOf(raw string, n uint) int { return int(n % uint(len(raw)+1)) }

// forwarded writes the message as a proxy would send it on: hop-by-hop fields
// dropped, one Host, framing written anew.
func forwarded(first, host string, m *h1.Message) string {
	var s strings.Builder
	s.WriteString(first + "\r\n")
	if host != "" {
		s.WriteString("Host: " + host + "\r\n")
	}
	for i := range m.Fields {
		if f := &m.Fields[i]; !f.Hop && (f.Kind != h1.KindHost || host == "") {
			s.Write(m.Line(f))
		}
	}
	if m.Body == h1.BodyChunked {
		s.WriteString("Transfer-Encoding: chunked\r\n")
	}
	s.WriteString("\r\n")
	return s.String()
}

// kept lists names and values of the fields that are forwarded, but Host and
// Transfer-Encoding, which are written anew.
func kept(m *h1.Message) (s []string) {
	for i := range m.Fields {
		f := &m.Fields[i]
		if !f.Hop && f.Kind != h1.KindHost {
			s = append(s, fmt.Sprintf("%q: %q", m.Name(f), m.Value(f)))
		}
	}
	return s
}

// checkParts fails unless the lines of m are its head.
func checkParts(t *testing.T, m *h1.Message) {
	t.Helper()
	at := bytes.Index(m.Head, []byte("\r\n")) + 2
	for i := range m.Fields {
		f := &m.Fields[i]
		l := m.Line(f)
		if !bytes.HasPrefix(m.Head[at:], l) || !bytes.HasPrefix(l, m.Name(f)) || !bytes.Contains(l, m.Value(f)) {
			t.Fatalf("field %d is %q, which is not at %d of %q", i, l, at, m.Head)
		}
		at += len(l)
	}
	if string(m.Head[at:]) != "\r\n" {
		t.Fatalf("behind the fields is %q, want the blank line", m.Head[at:])
	}
	if c := bytes.ReplaceAll(m.Head, []byte("\r\n"), nil); bytes.ContainsAny(c, "\r\n\x00") {
		t.Fatalf("head %q has a stray CR, LF or NUL", m.Head)
	}
}

func FuzzRequest(f *testing.F) {
	for _, c := range h1test.Good {
		f.Add(c.Raw, uint(len(c.Raw)/2))
	}
	for _, c := range h1test.Malformed {
		f.Add(c.Raw, uint(len(c.Raw)/3))
	}
	f.Add(browserRequest, uint(5))
	f.Fuzz(func(t *testing.T, raw string, cut uint) {
		r, n := parseRequest(t, raw, cutOf(raw, cut))
		if r == nil {
			return
		}
		checkParts(t, &r.Message)
		if !strings.HasSuffix(raw[:n], string(r.Head)) || strings.Trim(raw[:n-len(r.Head)], "\r\n") != "" {
			t.Fatalf("head %q is not the start of %q", r.Head, raw)
		}

		// What would be sent on is accepted again and means the same.
		target := string(r.Path)
		if r.HasQuery {
			target += "?" + string(r.Query)
		}
		version := "HTTP/1.1"
		if r.HTTP10 {
			version = "HTTP/1.0" // keeps what depends on it comparable
		}
		again := forwarded(string(r.Method)+" "+target+" "+version, string(r.HostPort), &r.Message)
		var q h1.Request
		if m, err := q.Parse([]byte(again), nil); m != len(again) {
			t.Fatalf("forwarded as %q: Parse = %d, %v", again, m, err)
		}
		got := fmt.Sprintf("%q %q %q %v %q %q %v %d %v", q.Method, q.Path, q.Query, q.HasQuery, q.Host, q.HostPort, q.Body, q.Length, q.Expect100)
		want := fmt.Sprintf("%q %q %q %v %q %q %v %d %v", r.Method, r.Path, r.Query, r.HasQuery, r.Host, r.HostPort, r.Body, r.Length, r.Expect100)
		if got != want || fmt.Sprint(kept(&q.Message)) != fmt.Sprint(kept(&r.Message)) {
			t.Fatalf("forwarded as %q: %s %s\nreceived: %s %s", again, got, kept(&q.Message), want, kept(&r.Message))
		}
		if q.NamesFields || q.Upgrade != nil || q.TETrailers {
			t.Fatalf("forwarded as %q, which still has hop-by-hop meaning", again)
		}
		likeRequest(t, r, raw[n:])
	})
}

// likeRequest fails unless net/http reads the same from a request that was
// accepted, with what follows it.
func likeRequest(t *testing.T, r *h1.Request, rest string) {
	raw := string(r.Head) + rest
	q, err := http.ReadRequest(bufio.NewReaderSize(strings.NewReader(raw), 1<<16))
	if err != nil {
		switch {
		case badURL(string(r.Target)):
			// net/http decodes the path and refuses escapes such as %zz.
			// Here the path stays as received and is the endpoint's to judge.
		case strings.Contains(err.Error(), "bad trailer key"):
			// net/http refuses a Trailer line that announces, say, Host;
			// here such a trailer is dropped when it comes.
		default:
			t.Fatalf("net/http: %v for %q", err, raw)
		}
		return
	}
	equal(t, "Method", string(r.Method), q.Method)
	equal(t, "Target", string(r.Target), q.RequestURI)
	equal(t, "HostPort", string(r.HostPort), q.Host)
	equal(t, "Query", string(r.Query), q.URL.RawQuery)
	path, err := url.PathUnescape(string(r.Path))
	switch {
	case err != nil:
		t.Errorf("net/http accepts path %q, net/url does not: %v", r.Path, err)
	case q.URL.Path == "" && (path == "/" || path == "*"):
		// net/http leaves it empty when an absolute-form has no path.
	default:
		equal(t, "Path", path, q.URL.Path)
	}
	equal(t, "HTTP10", r.HTTP10, q.ProtoMinor == 0)
	equal(t, "Close", r.Close, q.Close)
	want := int64(-1)
	if r.Body != h1.BodyChunked {
		want = max(r.Length, 0)
	}
	equal(t, "length", want, q.ContentLength)
	likeFields(t, &r.Message, q.Header)
	likeBody(t, &r.Message, rest, q.Body, func() http.Header { return q.Trailer })
}

func badURL(target string) bool {
	_, err := url.ParseRequestURI(target)
	return err != nil
}

// likeFields compares the fields with those net/http keeps in its map.
func likeFields(t *testing.T, m *h1.Message, h http.Header) {
	t.Helper()
	ours := http.Header{}
	for i := range m.Fields {
		f := &m.Fields[i]
		switch f.Kind {
		case h1.KindHost, h1.KindTransferEncoding, h1.KindTrailer:
			continue // net/http moves them out of the map
		}
		k := textproto.CanonicalMIMEHeaderKey(string(m.Name(f)))
		ours[k] = append(ours[k], string(m.Value(f)))
	}
	h = h.Clone()
	for _, k := range []string{"Host", "Transfer-Encoding", "Trailer"} {
		delete(h, k)
	}
	if p := ours["Pragma"]; len(p) > 0 && p[0] == "no-cache" && ours["Cache-Control"] == nil {
		delete(h, "Cache-Control") // net/http makes one up
	}
	if h["Connection"] == nil && m.Close {
		delete(ours, "Connection") // net/http drops the close of a response
	}
	for k := range ours {
		if !slices.Equal(ours[k], h[k]) {
			t.Errorf("%s = %q, net/http reads %q", k, ours[k], h[k])
		}
		delete(h, k)
	}
	if len(h) > 0 {
		t.Errorf("net/http also reads %q", h)
	}
}

// likeBody compares the body, and where it ends, with what net/http reads.
func likeBody(t *testing.T, m *h1.Message, raw string, body io.Reader, trailer func() http.Header) {
	t.Helper()
	data, err := io.ReadAll(body)
	switch m.Body {
	case h1.BodyNone:
		if len(data) > 0 || err != nil {
			t.Errorf("no body, net/http reads %q, %v", data, err)
		}
	case h1.BodyLength:
		want := raw[:min(int64(len(raw)), m.Length)]
		if string(data) != want || (err == nil) != (int64(len(raw)) >= m.Length) {
			t.Errorf("body %q, net/http reads %q, %v", want, data, err)
		}
	case h1.BodyUntilClose:
		if string(data) != raw || err != nil {
			t.Errorf("body %q, net/http reads %q, %v", raw, data, err)
		}
	case h1.BodyChunked:
		likeChunked(t, raw, string(data), err, trailer)
	}
}

// likeChunked compares a chunked body with what net/http made of it.
func likeChunked(t *testing.T, raw, data string, err error, trailer func() http.Header) {
	t.Helper()
	body, lines, _, e := decode(raw, nil)
	if e != nil {
		return // refused or incomplete: net/http may be laxer
	}
	if err != nil {
		// net/http does not know the white space that RFC 9112 section
		// 7.1.1 has recipients accept before the semicolon of an extension.
		if strings.Contains(raw, " ;") || strings.Contains(raw, "\t;") {
			return
		}
		t.Fatalf("net/http: %v for chunked %q", err, raw)
	}
	if body != data {
		t.Fatalf("chunked body %q, net/http reads %q", body, data)
	}
	if trailer == nil {
		return
	}
	h, err := textproto.NewReader(bufio.NewReader(strings.NewReader(lines + "\r\n"))).ReadMIMEHeader()
	if err != nil {
		t.Fatalf("trailer %q: %v", lines, err)
	}
	for k, v := range h {
		if !slices.Equal(v, trailer()[k]) {
			t.Errorf("trailer %s = %q, net/http reads %q", k, v, trailer()[k])
		}
	}
}

func FuzzResponse(f *testing.F) {
	for _, c := range h1test.GoodResponses {
		f.Add(c.Raw, c.Method, uint(len(c.Raw)/2))
	}
	for _, c := range h1test.MalformedResponses {
		f.Add(c.Raw, "GET", uint(len(c.Raw)/3))
	}
	f.Add(response, "GET", uint(5))
	f.Fuzz(func(t *testing.T, raw, method string, cut uint) {
		r, n := parseResponse(t, raw, method, cutOf(raw, cut))
		if r == nil {
			return
		}
		checkParts(t, &r.Message)
		if string(r.Head) != raw[:n] {
			t.Fatalf("head %q is not the start of %q", r.Head, raw)
		}

		version := "HTTP/1.1"
		if r.HTTP10 {
			version = "HTTP/1.0"
		}
		again := forwarded(fmt.Sprintf("%s %d %s", version, r.Status, r.Reason), "", &r.Message)
		var q h1.Response
		if m, err := q.Parse([]byte(again), []byte(method), nil); m != len(again) {
			t.Fatalf("forwarded as %q: Parse = %d, %v", again, m, err)
		}
		got := fmt.Sprintf("%d %q %v", q.Status, q.Reason, q.Body)
		want := fmt.Sprintf("%d %q %v", r.Status, r.Reason, r.Body)
		if r.Body == h1.BodyNone && r.Length < 0 && q.Body == h1.BodyUntilClose {
			t.Fatalf("forwarded as %q, which grew a body", again)
		}
		if got != want || fmt.Sprint(kept(&q.Message)) != fmt.Sprint(kept(&r.Message)) {
			t.Fatalf("forwarded as %q: %s %s\nreceived: %s %s", again, got, kept(&q.Message), want, kept(&r.Message))
		}
		likeResponse(t, r, method, raw[n:])
	})
}

// likeResponse fails unless net/http reads the same from a response that was
// accepted, with what follows it.
func likeResponse(t *testing.T, r *h1.Response, method, rest string) {
	if method == "CONNECT" {
		return // net/http gives tunnels a body, which here is the caller's
	}
	raw := string(r.Head) + rest
	q, err := http.ReadResponse(bufio.NewReaderSize(strings.NewReader(raw), 1<<16), &http.Request{Method: method})
	if err != nil {
		if strings.Contains(err.Error(), "bad trailer key") {
			return // see likeRequest
		}
		t.Fatalf("net/http: %v for %q", err, raw)
	}
	equal(t, "Status", r.Status, q.StatusCode)
	if got, want := strings.TrimSpace(fmt.Sprintf("%d %s", r.Status, r.Reason)), strings.TrimSpace(q.Status); got != want {
		t.Errorf("status line %q, net/http reads %q", got, want)
	}
	equal(t, "HTTP10", r.HTTP10, q.ProtoMinor == 0)
	likeFields(t, &r.Message, q.Header)
	likeBody(t, &r.Message, rest, q.Body, func() http.Header { return q.Trailer })
	// net/http does not take a malformed option for close, nor an unbounded
	// body in all cases; the other way round would be a mistake.
	if q.Close && !r.Close {
		t.Errorf("Close = false, net/http reads true from %q", raw)
	}
}

func FuzzChunked(f *testing.F) {
	for _, c := range h1test.Good {
		if _, body, ok := strings.Cut(c.Raw, "\r\n\r\n"); ok {
			f.Add(body, uint(len(body)/2))
		}
	}
	for _, c := range h1test.MalformedBody {
		_, body, _ := strings.Cut(c.Raw, "\r\n\r\n")
		f.Add(body, uint(len(body)/3))
	}
	f.Fuzz(func(t *testing.T, raw string, cut uint) {
		whole := func(cuts []int) string {
			body, trailer, rest, err := decode(raw, cuts)
			switch {
			case err == errIncomplete:
				return fmt.Sprintf("incomplete after %q", body)
			case err != nil:
				return reason(err)
			}
			return fmt.Sprintf("%q %q %q", body, trailer, rest)
		}
		want := whole(nil)
		if got := whole([]int{cutOf(raw, cut)}); got != want {
			t.Fatalf("cut at %d: %s\nwhole: %s", cutOf(raw, cut), got, want)
		}
		if got := whole(everywhere(raw)); got != want {
			t.Fatalf("byte by byte: %s\nwhole: %s", got, want)
		}
		body, trailer, rest, err := decode(raw, nil)
		if err != nil {
			return
		}

		// Written anew, it reads the same, with what followed it.
		var again []byte
		if len(body) > 0 {
			again = h1.AppendChunkHeader(again, len(body))
			again = append(again, body+h1.CRLF...)
		}
		again = append(again, h1.LastChunk+trailer+h1.CRLF+rest...)
		b, tr, re, err := decode(string(again), nil)
		if b != body || tr != trailer || re != rest || err != nil {
			t.Fatalf("written as %q: %q %q %q %v", again, b, tr, re, err)
		}

		q, err := http.ReadRequest(bufio.NewReaderSize(
			strings.NewReader("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"+raw), 1<<16))
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(q.Body)
		likeChunked(t, raw, string(data), err, func() http.Header { return q.Trailer })
	})
}
