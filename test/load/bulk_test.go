package loadtest

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"fairlead/test/lab"
	"fairlead/test/process"
)

// Long bodies pass whole, in both directions and over every protocol, and the
// node needs little memory for them.
func TestBulk(t *testing.T) {
	ca := lab.NewCA(t)
	cert := ca.Issue(host)
	p := process.Start(t, fmt.Sprintf(`
listeners:
  - {name: web, address: "127.0.0.1:0", protocol: http}
  - {name: secure, address: "127.0.0.1:0", protocol: https, certificates: [{certificate: %q, key: %q}]}
pools: [{name: p, endpoints: [{name: a, address: %q}]}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [p]}]
`, cert.CertFile, cert.KeyFile, serve(t, nil)))
	// The standard library's client streams well, and repeats nothing that has
	// a body.
	transport := func(dial dialer) http.RoundTripper {
		tr := &http.Transport{
			DialContext:    func(context.Context, string, string) (net.Conn, error) { return dial() },
			DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return dial() },
		}
		t.Cleanup(tr.CloseIdleConnections)
		return tr
	}
	h2 := &http2.Transport{DialTLSContext: func(context.Context, string, string, *tls.Config) (net.Conn, error) {
		return secure(p.Addr("secure"), ca.Client(host, "h2"))()
	}}
	t.Cleanup(h2.CloseIdleConnections)
	protocols := []struct {
		name   string
		tr     http.RoundTripper
		scheme string
		size   int64
	}{
		{"HTTP/1.1", transport(plain(p.Addr("web"))), "http", scaled(int64(256<<20), 1<<30)},
		{"HTTP/1.1 over TLS", transport(secure(p.Addr("secure"), ca.Client(host, "http/1.1"))), "https", scaled(int64(32<<20), 256<<20)},
		{"HTTP/2", h2, "https", scaled(int64(32<<20), 256<<20)},
	}
	for _, proto := range protocols {
		size := proto.size
		if process.Race {
			size = min(size, 16<<20)
		}
		want := digestOf(size)
		base := proto.scheme + "://" + host
		download := func(t *testing.T, query string) {
			t.Helper()
			c := http.Client{Transport: proto.tr, Timeout: 2 * time.Minute}
			res, err := c.Get(fmt.Sprintf("%s/download?size=%d%s", base, size, query))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			d := newDigest()
			if _, err := io.CopyBuffer(d, struct{ io.Reader }{res.Body}, make([]byte, 64<<10)); err != nil {
				t.Fatal(err)
			}
			if got := d.String(); got != want {
				t.Errorf("received %s, want %s", got, want)
			}
		}
		upload := func(t *testing.T, length int64) {
			t.Helper()
			req, err := http.NewRequest("POST", base+"/upload", struct{ io.Reader }{&pattern{left: size}})
			if err != nil {
				t.Fatal(err)
			}
			req.ContentLength = length
			c := http.Client{Transport: proto.tr, Timeout: 2 * time.Minute}
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			got, err := io.ReadAll(res.Body)
			if err != nil || string(got) != want {
				t.Errorf("endpoint received %q, %v, want %s", got, err, want)
			}
		}
		t.Run(proto.name, func(t *testing.T) {
			t.Run("download", func(t *testing.T) { download(t, "") })
			t.Run("download chunked", func(t *testing.T) { download(t, "&chunked=1") })
			t.Run("upload", func(t *testing.T) { upload(t, size) })
			t.Run("upload chunked", func(t *testing.T) { upload(t, -1) })
		})
		wantMemoryBelow(t, p, 100<<20)
	}
	// Many at once, with clients that take their time.
	const clients = 64
	errs := make(chan error, clients)
	for range clients {
		go func() { errs <- halfDownload(p.Addr("web")) }()
	}
	for range clients {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	wantMemoryBelow(t, p, 100<<20)
}

// halfDownload reads a part of a long answer slowly, then leaves.
func halfDownload(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /download?chunked=1&size=1000000000 HTTP/1.1\r\nHost: %s\r\n\r\n", host)
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	for range 20 {
		if _, err := io.CopyN(io.Discard, res.Body, 32<<10); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}
