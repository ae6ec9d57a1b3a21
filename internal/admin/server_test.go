package admin

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestPages(t *testing.T) {
	tests := []struct {
		name, method, path string
		ready              bool
		code               int
		want               string
	}{
		{"alive", "GET", "/livez", false, 200, "ok\n"},
		{"ready", "GET", "/readyz", true, 200, "ok\n"},
		{"not ready", "GET", "/readyz", false, 503, "not ready: stopping\n"},
		{"metrics", "GET", "/metrics", true, 200, "# TYPE fairlead_ready gauge"},
		{"status", "GET", "/status", true, 200, `"revision": 3`},
		{"head", "HEAD", "/readyz", true, 200, "ok"}, // the body is left out by net/http
		{"unknown", "GET", "/", true, 404, "/readyz"},
		{"unknown below", "GET", "/status/pools", true, 404, "no such page"},
		{"post", "POST", "/status", true, 405, "want GET or HEAD"},
		{"options", "OPTIONS", "/status", true, 405, "want GET or HEAD"},
		{"options for all", "OPTIONS", "*", true, 405, "want GET or HEAD"},
		{"delete", "DELETE", "/livez", true, 405, "want GET or HEAD"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			n.ready, n.reason = tt.ready, "stopping"
			w := httptest.NewRecorder()
			r := httptest.NewRequest(tt.method, tt.path, nil)
			r.Host = "localhost:9090"
			r.Header.Set("Origin", "http://evil.example.net")
			r.Header.Set("Access-Control-Request-Method", "POST")
			n.http.Handler.ServeHTTP(w, r)
			if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.want) {
				t.Errorf("%s %s = %d %q, want %d with %q", tt.method, tt.path, w.Code, w.Body, tt.code, tt.want)
			}
			if got := w.Header().Get("Cache-Control"); got != "no-store" {
				t.Errorf("Cache-Control = %q, want no-store", got)
			}
			if tt.code == 405 && w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("Allow = %q, want GET, HEAD", w.Header().Get("Allow"))
			}
			for name := range w.Header() { // C12, steps 3 and 4
				if strings.HasPrefix(name, "Access-Control-") {
					t.Errorf("answer has %s, which would let other sites read it", name)
				}
			}
		})
	}
}

// Case C12, step 2: a page whose name resolves to this address gives itself
// away by the name.
func TestHostNames(t *testing.T) {
	tests := []struct {
		address, host string
		ok            bool
	}{
		{"127.0.0.1:9090", "127.0.0.1:9090", true},
		{"127.0.0.1:9090", "10.1.2.3", true},
		{"127.0.0.1:9090", "[::1]:9090", true},
		{"127.0.0.1:9090", "[fe80::1%25eth0]:9090", true},
		{"127.0.0.1:9090", "[::1]", true},
		{"127.0.0.1:9090", "localhost:9090", true},
		{"127.0.0.1:9090", "LOCALHOST.", true},
		{"127.0.0.1:9090", "", true},
		{"127.0.0.1:9090", "rebind.example.net", false},
		{"127.0.0.1:9090", "rebind.example.net:9090", false},
		{"127.0.0.1:9090", "localhost.example.net", false},
		{"127.0.0.1:9090", "127.0.0.1.example.net", false},
		{"127.0.0.1:9090", "0x7f.1", false},
		{"127.0.0.1:9090", "2130706433", false},
		{"admin.example.com:9090", "admin.example.com:9090", true},
		{"admin.example.com:9090", "Admin.Example.com", true},
		{"admin.example.com:9090", "example.com", false},
		{":9090", "example.com", false},
		{":9090", "192.0.2.1:9090", true},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s at %s", tt.host, tt.address), func(t *testing.T) {
			n := newNode(t)
			n.host = hostOf(tt.address)
			for path, free := range map[string]bool{"/livez": true, "/readyz": false, "/metrics": false, "/status": false, "/": false} {
				w := httptest.NewRecorder()
				r := httptest.NewRequest("GET", path, nil)
				r.Host = tt.host
				n.http.Handler.ServeHTTP(w, r)
				if refused := w.Code == http.StatusMisdirectedRequest; refused == (tt.ok || free) {
					t.Errorf("GET %s: %d, want it refused: %v", path, w.Code, !refused)
				}
			}
		})
	}
}

func TestListenServeShutdown(t *testing.T) {
	n := newNode(t)
	bound, err := n.Listen()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- n.Serve() }()
	resp, err := http.Get("http://" + bound.String() + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || string(body) != "ok\n" {
		t.Errorf("/livez = %q, %v, want ok", body, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := n.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-served; err != nil {
		t.Errorf("Serve() = %v after Shutdown, want nil", err)
	}
}

func TestAddressInUse(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	n := newNode(t)
	n.cfg.Address = ln.Addr().String()
	if _, err := n.Listen(); err == nil || !strings.Contains(err.Error(), "admin: address "+n.cfg.Address) {
		t.Errorf("Listen() = %v, want an error that names the address", err)
	}
}

func TestLargeHeadsAreRefused(t *testing.T) {
	n := newNode(t)
	bound, err := n.Listen()
	if err != nil {
		t.Fatal(err)
	}
	go n.Serve()
	defer n.Shutdown(t.Context())
	c, err := net.Dial("tcp", bound.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	go fmt.Fprintf(c, "GET /livez HTTP/1.1\r\nHost: localhost\r\nX: %s\r\n\r\n", strings.Repeat("x", 64<<10))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status = %d, want 431", resp.StatusCode)
	}
}
