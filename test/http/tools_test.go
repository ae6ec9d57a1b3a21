package http_test

import (
	"os/exec"
	"strings"
	"testing"

	"fairlead/test/lab"
)

// tool runs a program of others against the site and returns what it prints.
func tool(t *testing.T, name string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func TestCurl(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Echo)
	plain := site{endpoints: []string{o.Addr}}.start(t)
	secure := site{endpoints: []string{o.Addr}, tls: true}.start(t)
	for _, c := range []struct {
		name   string
		s      server
		args   []string
		status string
		want   string
	}{
		{"GET", plain, []string{"--http1.1"}, "1.1 200", "GET / HTTP/1.1\r\nHost: www.example.com\r\n"},
		{"HTTP/1.0", plain, []string{"--http1.0"}, "1.1 200", "GET / HTTP/1.1\r\nHost: www.example.com\r\n"},
		{"POST", plain, []string{"--data-binary", "hello"}, "1.1 200", "\r\n\r\nhello"},
		{"POST in chunks", plain, []string{"--data-binary", "hello", "-H", "Transfer-Encoding: chunked"}, "1.1 200", "\r\n\r\n5\r\nhello\r\n0\r\n\r\n"},
		{"h2c upgrade", plain, []string{"--http2"}, "1.1 200", "GET / HTTP/1.1\r\n"},
		{"TLS", secure, []string{"--http1.1"}, "1.1 200", "X-Forwarded-Proto: https\r\n"},
		{"TLS 1.2", secure, []string{"--http1.1", "--tls-max", "1.2"}, "1.1 200", "X-Forwarded-Proto: https\r\n"},
		{"HTTP/2", secure, []string{"--http2"}, "2 200", "GET / HTTP/1.1\r\nHost: www.example.com\r\n"},
		{"HTTP/2 POST", secure, []string{"--http2", "--data-binary", "hello"}, "2 200", "\r\n\r\nhello"},
		{"HTTP/3", secure, []string{"--http3-only"}, "3 200", "GET / HTTP/1.1\r\nHost: www.example.com\r\n"},
		{"HTTP/3 POST", secure, []string{"--http3-only", "--data-binary", "hello"}, "3 200", "\r\n\r\nhello"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if strings.HasPrefix(c.name, "HTTP/3") && !strings.Contains(tool(t, "curl", "--version"), " HTTP3") {
				t.Skip("this curl does not speak HTTP/3")
			}
			args := append([]string{"-sS", "--noproxy", "*", "-m", "20", "--connect-to", "::" + c.s.addr, "-w", "\n%{http_version} %{http_code}"}, c.args...)
			if c.s.ca != nil {
				args = append(args, "--cacert", c.s.ca.File)
			}
			out := tool(t, "curl", append(args, c.s.url("/"))...)
			if !strings.Contains(out, c.want) || !strings.HasSuffix(out, "\n"+c.status) {
				t.Errorf("curl prints %q, want %q and %s", out, c.want, c.status)
			}
		})
	}
}

func TestNghttp(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Answer("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"+strings.Repeat("x", 5000)))
	s := site{endpoints: []string{o.Addr}, tls: true}.start(t)
	out := tool(t, "nghttp", "-nv", "--no-verify-peer", "-m", "20", "-H", ":authority: "+host, "https://"+s.addr+"/")
	if n := strings.Count(out, ":status: 200"); n != 20 {
		t.Errorf("%d answers of 20\n%s", n, out)
	}
	if strings.Contains(out, "RST_STREAM") {
		t.Errorf("nghttp prints\n%s", out)
	}
}

func TestH2load(t *testing.T) {
	e := lab.NewEndpoint(t, "A")
	for _, c := range []struct {
		name, listener string
		streams        string // that the client would like to have open at once
	}{
		{"50 streams", "", "50"},
		{"1,000 streams wanted", "", "1000"},
		{"1,000 streams allowed", limits("concurrent_streams: 1000"), "1000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := e.Requests()
			s := site{endpoints: []string{e.Addr}, tls: true, listener: c.listener}.start(t)
			out := tool(t, "h2load", "-n", "4000", "-c", "2", "-m", c.streams, "-H", ":authority: "+host, "https://"+s.addr+"/")
			if !strings.Contains(out, "4000 succeeded, 0 failed, 0 errored") {
				t.Errorf("h2load prints\n%s", out)
			}
			equal(t, "requests at the endpoint", e.Requests()-before, 4000)
		})
	}
}

func TestNghttpManyStreams(t *testing.T) {
	o := lab.NewOrigin(t, lab.Answer("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n"+strings.Repeat("x", 500)))
	s := site{endpoints: []string{o.Addr}, tls: true, listener: limits("concurrent_streams: 1000")}.start(t)
	out := tool(t, "nghttp", "-nv", "--no-verify-peer", "-m", "1000", "-H", ":authority: "+host, "https://"+s.addr+"/")
	if n := strings.Count(out, ":status: 200"); n != 1000 {
		t.Errorf("%d answers of 1000", n)
	}
	if strings.Contains(out, "RST_STREAM") {
		t.Error("nghttp tells of RST_STREAM")
	}
}
