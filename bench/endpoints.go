//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	smallBytes = 128
	largeBytes = 1 << 20
)

// endpoints is the back end of every target: one nginx on four ports. It
// answers /small from its configuration and /large by sendfile, which costs far
// less than proxying either.
type endpoints struct {
	*process
	ports []int
}

func startEndpoints(ctx context.Context, dir, cpus string, workers int) (*endpoints, error) {
	ports, err := freePorts(4)
	if err != nil {
		return nil, err
	}
	root := filepath.Join(dir, "endpoints")
	if err := os.Mkdir(root, 0o755); err != nil {
		return nil, err
	}
	large := bytes.Repeat([]byte("fairlead"), largeBytes/8)
	if err := os.WriteFile(filepath.Join(root, "large"), large, 0o644); err != nil {
		return nil, err
	}

	var listen strings.Builder
	for _, port := range ports {
		fmt.Fprintf(&listen, "    listen 127.0.0.1:%d backlog=4096;\n", port)
	}
	config := nginxMain(root, workers, 8192) + `
  server {
` + listen.String() + `
    default_type application/octet-stream;
    location = /small { return 200 "` + strings.Repeat("x", smallBytes) + `"; }
    location = /large { root ` + root + `; }
  }
}
`
	path := filepath.Join(root, "nginx.conf")
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		return nil, err
	}
	p, err := startPinned(cpus, filepath.Join(root, "log"), nil, "nginx", "-p", root, "-c", path, "-e", "stderr")
	if err != nil {
		return nil, err
	}
	err = p.await(ctx, startWithin, func() error {
		return get(fmt.Sprintf("http://127.0.0.1:%d/small", ports[0]), smallBytes)
	})
	if err != nil {
		p.stop()
		return nil, err
	}
	return &endpoints{process: p, ports: ports}, nil
}

// nginxMain is what the endpoints and the proxy nginx have in common: they run
// in the foreground, without logs, and keep connections for as long as the
// benchmark lasts. It leaves the http block open.
func nginxMain(root string, workers, connections int) string {
	return `
daemon off;
` + nginxUser() + `
worker_processes ` + strconv.Itoa(workers) + `;
pid ` + root + `/pid;
error_log stderr warn;
events { worker_connections ` + strconv.Itoa(connections) + `; }
http {
  access_log off;
  client_body_temp_path ` + root + `/body;
  proxy_temp_path ` + root + `/proxy;
  fastcgi_temp_path ` + root + `/fastcgi;
  uwsgi_temp_path ` + root + `/uwsgi;
  scgi_temp_path ` + root + `/scgi;
  sendfile on;
  tcp_nopush on;
  keepalive_timeout 1h;
  keepalive_requests 1000000000;
`
}

// nginxUser keeps the workers under the user who runs the benchmark, who owns
// the directory that they read; only root may, and needs to, say so.
func nginxUser() string {
	if os.Getuid() == 0 {
		return "user root;"
	}
	return ""
}

var client = &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// get fetches a URL for the host that the load asks for, and checks the length
// of the answer.
func get(url string, want int64) error {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Host = host
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ContentLength != want {
		return fmt.Errorf("GET %s: status %d with %d bytes, want 200 with %d", url, resp.StatusCode, resp.ContentLength, want)
	}
	return nil
}
