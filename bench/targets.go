//go:build linux

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// host is what clients ask for: the name of Fairlead's load balancer.
const host = "bench.example.com"

// target is a proxy that is ready to be started.
type target struct {
	command []string
	env     []string
}

// setting is what a target is configured from; every target has a plain and a
// TLS listener, whichever the scenario uses.
type setting struct {
	dir       string // its own, empty
	shared    string // holds bench.crt, bench.key and both in bench.pem
	plain     int
	tls       int
	admin     int
	endpoints []int
	fairlead  string
}

// newTarget writes a target's configuration.
var newTarget = map[string]func(setting) (target, error){
	"haproxy":  newHAProxy,
	"nginx":    newNginx,
	"fairlead": newFairlead,
}

func newHAProxy(s setting) (target, error) {
	var servers strings.Builder
	for i, port := range s.endpoints {
		fmt.Fprintf(&servers, "    server e%d 127.0.0.1:%d check inter 10s\n", i+1, port)
	}
	config := fmt.Sprintf(`
global
    nbthread 1
    maxconn 8192
    ssl-default-bind-options ssl-min-ver TLSv1.3
    ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256

defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    option forwardfor
    http-reuse always

frontend web
    bind 127.0.0.1:%d backlog 4096
    bind 127.0.0.1:%d backlog 4096 ssl crt %s
    default_backend bench

backend bench
    balance roundrobin
%s`, s.plain, s.tls, filepath.Join(s.shared, "bench.pem"), servers.String())
	path, err := write(s.dir, "haproxy.cfg", config)
	return target{command: []string{"haproxy", "-db", "-f", path}}, err
}

func newNginx(s setting) (target, error) {
	var servers strings.Builder
	for _, port := range s.endpoints {
		fmt.Fprintf(&servers, "    server 127.0.0.1:%d;\n", port)
	}
	config := nginxMain(s.dir) + fmt.Sprintf(`
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
    listen 127.0.0.1:%[4]d backlog=4096 ssl;
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

func newFairlead(s setting) (target, error) {
	var endpoints strings.Builder
	for i, port := range s.endpoints {
		fmt.Fprintf(&endpoints, "      - {name: e%d, address: \"127.0.0.1:%d\"}\n", i+1, port)
	}
	config := fmt.Sprintf(`
admin: {address: "127.0.0.1:%[1]d"}
data_dir: %[2]s/data

listeners:
  - {name: web, address: "127.0.0.1:%[3]d", protocol: http}
  - name: websecure
    address: "127.0.0.1:%[4]d"
    protocol: https
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
`, s.admin, s.dir, s.plain, s.tls, s.shared, endpoints.String(), host)
	path, err := write(s.dir, "fairlead.yaml", config)
	return target{command: []string{s.fairlead, "serve", "--config", path}, env: []string{"GOMAXPROCS=1"}}, err
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
