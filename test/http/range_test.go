package http_test

import (
	"bytes"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"fairlead/test/lab"
)

// A part of a body that a client asks for is the endpoint's to choose: what it
// answers passes through as it is, with the part alone.
func TestRange(t *testing.T) {
	t.Parallel()
	content := make([]byte, 300_000)
	for i := range content {
		content[i] = byte(i / 251)
	}
	addr := lab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		w.Header().Set("Content-Type", "application/octet-stream")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	protocols(t, func(t *testing.T, tls bool, v httpVersion) {
		s := site{endpoints: []string{addr}, tls: tls}.start(t)
		cl := s.client(t, v)
		for _, c := range []struct {
			name, method, ask, ifRange string
			status                     int
			contentRange               string
			length                     int
			from                       int // of the body in the content; -1: it is none of it
		}{
			{"first", "GET", "bytes=0-0", "", 206, "bytes 0-0/300000", 1, 0},
			{"middle", "GET", "bytes=1000-200999", "", 206, "bytes 1000-200999/300000", 200_000, 1000},
			{"from here", "GET", "bytes=299990-", "", 206, "bytes 299990-299999/300000", 10, 299_990},
			{"last", "GET", "bytes=-500", "", 206, "bytes 299500-299999/300000", 500, 299_500},
			{"of this version", "GET", "bytes=5-9", `"v1"`, 206, "bytes 5-9/300000", 5, 5},
			{"of another version", "GET", "bytes=5-9", `"v0"`, 200, "", 300_000, 0},
			{"all", "GET", "", "", 200, "", 300_000, 0},
			{"behind the end", "GET", "bytes=300000-", "", 416, "bytes */300000", -1, -1},
			{"head alone", "HEAD", "bytes=10-19", "", 206, "bytes 10-19/300000", 10, -1},
		} {
			t.Run(c.name, func(t *testing.T) {
				req, _ := http.NewRequest(c.method, s.url("/file"), nil)
				if c.ask != "" {
					req.Header.Set("Range", c.ask)
				}
				if c.ifRange != "" {
					req.Header.Set("If-Range", c.ifRange)
				}
				res, err := cl.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(res.Body)
				res.Body.Close()
				if err != nil {
					t.Fatalf("body: %v after %d bytes", err, len(body))
				}
				equal(t, "version", res.ProtoMajor, int(v))
				equal(t, "status", res.StatusCode, c.status)
				equal(t, "Content-Range", strings.Join(res.Header.Values("Content-Range"), "|"), c.contentRange)
				if c.length >= 0 {
					equal(t, "Content-Length", res.Header.Get("Content-Length"), strconv.Itoa(c.length))
					equal(t, "Accept-Ranges", res.Header.Get("Accept-Ranges"), "bytes")
				}
				if c.from >= 0 && !bytes.Equal(body, content[c.from:c.from+c.length]) {
					t.Errorf("body of %d bytes is not that of %d from %d on", len(body), c.length, c.from)
				}
				if c.method == "HEAD" && len(body) > 0 {
					t.Errorf("body of %d bytes after HEAD", len(body))
				}
			})
		}
		t.Run("several", func(t *testing.T) {
			req, _ := http.NewRequest("GET", s.url("/file"), nil)
			req.Header.Set("Range", "bytes=0-9,1000-1009")
			res, err := cl.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			equal(t, "status", res.StatusCode, 206)
			parts := parts(t, res)
			equal(t, "parts", len(parts), 2)
			equal(t, "first part", parts["bytes 0-9/300000"], string(content[:10]))
			equal(t, "second part", parts["bytes 1000-1009/300000"], string(content[1000:1010]))
		})
	})
}

// parts reads an answer of several ranges, by their Content-Range.
func parts(t *testing.T, res *http.Response) map[string]string {
	t.Helper()
	kind, params, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/byteranges" {
		t.Fatalf("Content-Type %q, %v, want multipart/byteranges", res.Header.Get("Content-Type"), err)
	}
	found := map[string]string{}
	r := multipart.NewReader(res.Body, params["boundary"])
	for {
		part, err := r.NextPart()
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(part)
		if err != nil {
			t.Fatal(err)
		}
		found[part.Header.Get("Content-Range")] = string(body)
	}
}
