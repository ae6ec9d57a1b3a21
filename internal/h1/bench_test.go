package h1_test

import (
	"strings"
	"testing"

	"fairlead/internal/h1"
)

const (
	wrkRequest = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: wrk/4\r\n\r\n"

	browserRequest = "GET /static/app/main.3f2a91c0.js?v=20260114&lang=en HTTP/1.1\r\n" +
		"Host: www.example.com\r\n" +
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n" +
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n" +
		"Accept-Language: en-GB,en;q=0.5\r\n" +
		"Accept-Encoding: gzip, deflate, br, zstd\r\n" +
		"Referer: https://www.example.com/products/overview?page=2\r\n" +
		"Connection: keep-alive\r\n" +
		"Cookie: session=7f3c1e0a9b8d4c52a1f60e7d; theme=dark; _ga=GA1.2.1234567890.1700000000\r\n" +
		"Sec-Fetch-Dest: script\r\n" +
		"Sec-Fetch-Mode: no-cors\r\n" +
		"Sec-Fetch-Site: same-origin\r\n" +
		"If-None-Match: \"33a64df551425fcc55e4d42a148795d9f25f89d4\"\r\n\r\n"

	response = "HTTP/1.1 200 OK\r\n" +
		"Server: nginx\r\n" +
		"Date: Thu, 15 Jan 2026 10:00:00 GMT\r\n" +
		"Content-Type: application/octet-stream\r\n" +
		"Content-Length: 128\r\n" +
		"Connection: keep-alive\r\n" +
		"Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n" +
		"ETag: \"6955b900-80\"\r\n" +
		"Accept-Ranges: bytes\r\n\r\n"
)

func benchmarkRequest(b *testing.B, raw string) {
	var r h1.Request
	buf := []byte(raw)
	lim := &h1.Limits{}
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if n, err := r.Parse(buf, lim); n != len(buf) {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkRequestSmall(b *testing.B)   { benchmarkRequest(b, wrkRequest) }
func BenchmarkRequestBrowser(b *testing.B) { benchmarkRequest(b, browserRequest) }

func BenchmarkResponse(b *testing.B) {
	var r h1.Response
	buf := []byte(response)
	method := []byte("GET")
	lim := &h1.Limits{}
	b.SetBytes(int64(len(response)))
	b.ReportAllocs()
	for b.Loop() {
		if n, err := r.Parse(buf, method, lim); n != len(buf) {
			b.Fatal(n, err)
		}
	}
}

// BenchmarkChunked decodes chunks of 4 KiB. Decoding is in place, so each turn
// starts from a copy, which is part of the time.
func BenchmarkChunked(b *testing.B) {
	raw := strings.Repeat("1000\r\n"+strings.Repeat("x", 4096)+"\r\n", 4) + "0\r\n\r\n"
	buf := make([]byte, len(raw))
	var c h1.Chunked
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		copy(buf, raw)
		c.Reset(nil)
		if _, _, done, err := c.Decode(buf); !done {
			b.Fatal(err)
		}
	}
}
