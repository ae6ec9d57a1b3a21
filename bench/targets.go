//go:build linux

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// host is what clients ask for: the name of Fairlead's load balancer.
const host = "bench.example.com"

// target is a proxy that is ready to be started.
type target struct {
	command []string
	env     []string
	admin   int // port of Go's figures about memory; 0: it is not a Go program
}

// setting is what a target is configured from; every target has a plain and a
// TLS listener, whichever the scenario uses.
type setting struct {
	dir       string // its own, empty
	shared    string // holds bench.crt, bench.key and both in bench.pem
	plain     int
	tls       int
	admin     int
	cores     int // that it may use
	holds     int // connections of clients that it must be able to hold
	endpoints []int
	fairlead  string
}

// mostIdle is how long the proxies keep idle connections: longer than any
// measurement takes.
const mostIdle = time.Hour

// newTarget writes a target's configuration.
var newTarget = map[string]func(setting) (target, error){
	"haproxy":            newHAProxy,
	"nginx":              newNginx,
	"fairlead":           func(s setting) (target, error) { return newFairlead(s, "loop") },
	"fairlead-goroutine": func(s setting) (target, error) { return newFairlead(s, "goroutine") },
}

func targetNames() string {
	return strings.Join(slices.Sorted(maps.Keys(newTarget)), ", ")
}

func newHAProxy(s setting) (target, error) {
	var servers strings.Builder
	for i, port := range s.endpoints {
		fmt.Fprintf(&servers, "    server e%d 127.0.0.1:%d check inter 10s\n", i+1, port)
	}
	// HAProxy counts two descriptors for each connection and would not start
	// where only one is needed and there.
	config := fmt.Sprintf(`
global
    nbthread %d
    maxconn %d
    no strict-limits
    ssl-default-bind-options ssl-min-ver TLSv1.3
    ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256

defaults
    mode http
    timeout connect 5s
    timeout client %ds
    timeout server 60s
    option forwardfor
    http-reuse always

frontend web
    bind 127.0.0.1:%d backlog 4096
    bind 127.0.0.1:%d backlog 4096 ssl crt %s alpn h2,http/1.1
    default_backend bench

backend bench
    balance roundrobin
%s`, s.cores, s.holds, int(mostIdle.Seconds()), s.plain, s.tls, filepath.Join(s.shared, "bench.pem"), servers.String())
	path, err := write(s.dir, "haproxy.cfg", config)
	return target{command: []string{"haproxy", "-db", "-f", path}}, err
}

func newNginx(s setting) (target, error) {
	var servers strings.Builder
	for _, port := range s.endpoints {
		fmt.Fprintf(&servers, "    server 127.0.0.1:%d;\n", port)
	}
	config := nginxMain(s.dir, s.cores, s.holds) + fmt.Sprintf(`
  ssl_certificate %[1]s/bench.crt;
  ssl_certificate_key %[1]s/bench.key;
  ssl_protocols TLSv1.3;
  ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;

  upstream bench {
%[2]s
    keepalive 1024;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
  }
  server {
    listen 127.0.0.1:%[3]d backlog=4096;
    listen 127.0.0.1:%[4]d backlog=4096 ssl http2;
    location / {
      proxy_pass http://bench;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_max_temp_file_size 0;  # a response goes to the client, not to a disk
    }
  }
}
`, s.shared, servers.String(), s.plain, s.tls)
	path, err := write(s.dir, "nginx.conf", config)
	return target{command: []string{"nginx", "-p", s.dir, "-c", path, "-e", "stderr"}}, err
}

// newFairlead has Fairlead move bytes in one of its ways, see FAIRLEAD_IO in the
// documentation.
func newFairlead(s setting, io string) (target, error) {
	var endpoints strings.Builder
	for i, port := range s.endpoints {
		fmt.Fprintf(&endpoints, "      - {name: e%d, address: \"127.0.0.1:%d\"}\n", i+1, port)
	}
	config := fmt.Sprintf(`
admin: {address: "127.0.0.1:%[1]d"}
data_dir: %[2]s/data

listeners:
  - {name: web, address: "127.0.0.1:%[3]d", protocol: http, limits: {idle_timeout: %[8]s}}
  - name: websecure
    address: "127.0.0.1:%[4]d"
    protocol: https
    limits: {idle_timeout: %[8]s}
    certificates:
      - {certificate: %[5]s/bench.crt, key: %[5]s/bench.key}

monitors:
  - {name: up, type: tcp, interval: 10s}

pools:
  - name: bench
    monitor: up
    endpoint_steering: {policy: round_robin}
    endpoints:
%[6]s
load_balancers:
  - {name: %[7]s, proxied: true, default_pools: [bench]}
`, s.admin, s.dir, s.plain, s.tls, s.shared, endpoints.String(), host, mostIdle)
	path, err := write(s.dir, "fairlead.yaml", config)
	return target{
		command: []string{s.fairlead, "serve", "--config", path},
		// The runtime sees by itself which cores it has.
		env:   []string{"FAIRLEAD_IO=" + io},
		admin: s.admin,
	}, err
}

func write(dir, name, text string) (path string, err error) {
	path = filepath.Join(dir, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// writeCertificate makes the P-256 certificate that all targets serve.
func writeCertificate(dir string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1),
		DNSNames:     []string{host},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	private := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
	for name, text := range map[string]string{
		"bench.crt": certificate,
		"bench.key": private,
		"bench.pem": certificate + private, // HAProxy wants both in one file
	} {
		if _, err := write(dir, name, text); err != nil {
			return err
		}
	}
	return nil
}
