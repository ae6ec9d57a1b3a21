package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"fairlead/internal/node"
)

type demoCmd struct {
	Address string `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where the load balancer listens. With port 0 the system chooses. Default: 127.0.0.1:8080."`
	TLS     string `name:"tls-address" placeholder:"HOST:PORT" help:"Where it listens for https. Default: port 8443 of the host of --address, or one that the system chooses if it chooses that of --address too."`
}

// Help is shown by demo --help.
func (demoCmd) Help() string {
	return `Three small endpoints, a, b and c, run in this process, each on a port of its
own. A load balancer listens before them, for http and with a certificate that
signs itself for https, and probes each once a second. The demo prints lines to
try with curl: for an answer from any endpoint, for making b fail its probes,
for bringing it back, for the state and the counters. A line for each change of
health follows.

Nothing is installed and nothing stays behind. Ctrl-C ends it.`
}

// Validate is called by the parser of the command line.
func (c *demoCmd) Validate() error {
	host, port, err := net.SplitHostPort(c.Address)
	if err != nil {
		return fmt.Errorf("--address %q: want HOST:PORT", c.Address)
	}
	if c.TLS == "" {
		c.TLS = net.JoinHostPort(host, "8443")
		if port == "0" {
			c.TLS = net.JoinHostPort(host, "0")
		}
	}
	if _, _, err := net.SplitHostPort(c.TLS); err != nil {
		return fmt.Errorf("--tls-address %q: want HOST:PORT", c.TLS)
	}
	return nil
}

// demoConfig is the file that the demo runs from.
const demoConfig = `# The demo: two listeners, one pool of three endpoints.
admin: {address: "127.0.0.1:0"}
shutdown_timeout: 2s
listeners:
  - {name: web, address: %q, protocol: http}
  - {name: websecure, address: %q, protocol: https, certificates: [{certificate: demo.pem, key: demo.key}]}
monitors:
  - {name: up, type: http, path: /healthz, expected_codes: "200", interval: 1s, timeout: 500ms, retries: 0, consecutive_up: 2, consecutive_down: 2}
pools:
  - name: demo
    monitor: up
    endpoint_steering: {policy: random}
    endpoints:
      - {name: a, address: %q}
      - {name: b, address: %q}
      - {name: c, address: %q}
load_balancers:
`

// demoHosts are the hosts that the demo answers for: this machine's usual
// names, and what it was told to listen on.
func (c *demoCmd) hosts() []string {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	for _, address := range []string{c.Address, c.TLS} {
		host, _, _ := net.SplitHostPort(address) // Validate has looked at it
		if ip, err := netip.ParseAddr(host); err == nil {
			host = ip.String()
		}
		if host != "" && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// file returns the text of the demo's configuration.
func (c *demoCmd) file(endpoints map[string]string) string {
	text := fmt.Sprintf(demoConfig, c.Address, c.TLS, endpoints["a"], endpoints["b"], endpoints["c"])
	for _, h := range c.hosts() {
		text += fmt.Sprintf("  - {name: %q, proxied: true, default_pools: [demo]}\n", h)
	}
	return text
}

// Run runs the demo until it is told to stop.
func (c *demoCmd) Run(s streams) error {
	stop, now := stopSignals()
	dir, err := os.MkdirTemp("", "fairlead-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	ctx, cancel := context.WithCancel(context.Background()) // of the endpoints, which outlast the load balancer
	var servers sync.WaitGroup
	defer servers.Wait()
	defer cancel()
	endpoints := make(map[string]string)
	for _, name := range []string{"a", "b", "c"} {
		if endpoints[name], err = demoEndpoint(ctx, &servers, name); err != nil {
			return err
		}
	}
	file := filepath.Join(dir, "demo.yaml")
	if err := os.WriteFile(file, []byte(c.file(endpoints)), 0o600); err != nil {
		return err
	}
	if err := signItself(filepath.Join(dir, "demo.pem"), filepath.Join(dir, "demo.key"), c.hosts()); err != nil {
		return err
	}
	log := &demoLog{out: s, held: true}
	err = node.Run(stop, now, node.Config{
		File: file, Version: programVersion(), Log: slog.New(log),
		Ready: func(n *node.Node) {
			open := make(map[string]string)
			for _, l := range n.Listeners() {
				a := l.Address
				if a.Addr().IsUnspecified() {
					a = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), a.Port())
				}
				open[l.Name] = a.String()
			}
			introduce(s.out, open["web"], open["websecure"], endpoints["b"], n.Admin().String())
			log.release()
		},
	})
	if err != nil && strings.Contains(err.Error(), "is in use") {
		return fmt.Errorf("%w; choose another with --address or --tls-address, as in --address 127.0.0.1:0", err)
	}
	return err
}

// introduce says what there is to try.
func introduce(w io.Writer, web, secure, b, admin string) {
	fmt.Fprintf(w, "Fairlead listens on http://%s and https://%s and steers to the endpoints a, b and c.\n\nTry, in another terminal:\n", web, secure)
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, line := range [][2]string{
		{"curl http://" + web + "/", "an answer from a, b or c"},
		{"curl -k https://" + secure + "/", "the same over TLS, with a certificate that signs itself"},
		{"curl -X POST http://" + b + "/fail", "make b fail its probes: out after the second"},
		{"curl -X POST http://" + b + "/heal", "bring b back"},
		{"curl http://" + admin + "/status", "what is known of pools and endpoints"},
		{"curl http://" + admin + "/metrics", "counters, for Prometheus"},
	} {
		fmt.Fprintf(t, "  %s\t%s\n", line[0], line[1])
	}
	_ = t.Flush() // the writes to w tell nothing either
	fmt.Fprint(w, "\nCtrl-C ends the demo. Changes of health follow.\n")
}

// demoEndpoint serves an endpoint until ctx is done and returns its address.
func demoEndpoint(ctx context.Context, servers *sync.WaitGroup, name string) (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	var failing atomic.Bool
	answer := func(w http.ResponseWriter, status int, text string) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		fmt.Fprintln(w, text)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		answer(w, http.StatusOK, fmt.Sprintf("hello from endpoint %s, you asked for %s", name, r.URL.Path))
	})
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if failing.Load() {
			answer(w, http.StatusServiceUnavailable, "failing")
			return
		}
		answer(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("POST /fail", func(w http.ResponseWriter, _ *http.Request) {
		failing.Store(true)
		answer(w, http.StatusOK, "endpoint "+name+" fails its probes from now on")
	})
	mux.HandleFunc("POST /heal", func(w http.ResponseWriter, _ *http.Request) {
		failing.Store(false)
		answer(w, http.StatusOK, "endpoint "+name+" passes its probes again")
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute}
	servers.Go(func() {
		<-ctx.Done()
		srv.Close()
	})
	servers.Go(func() {
		if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "fairlead: demo endpoint", name+":", err)
		}
	})
	return ln.Addr().String(), nil
}

// demoLog shows a person what happens: a line for each change of health, and
// whatever goes wrong. While it is held it keeps the lines, so that they stand
// below the introduction.
type demoLog struct {
	out streams

	mu    sync.Mutex // guards what follows, and lines on out
	held  bool
	lines []string
}

// Enabled implements slog.Handler.
func (*demoLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle implements slog.Handler.
func (d *demoLog) Handle(_ context.Context, r slog.Record) error {
	values := make(map[string]string)
	r.Attrs(func(a slog.Attr) bool {
		values[a.Key] = a.Value.String()
		return true
	})
	at := r.Time.Format(time.TimeOnly)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case r.Message == "endpoint health changed":
		d.print(fmt.Sprintf("%s  endpoint %s is %s: %s", at, values["endpoint"], values["verdict"], values["reason"]))
	case r.Message == "pool health changed":
		d.print(fmt.Sprintf("%s  pool %s is %s", at, values["pool"], values["state"]))
	case r.Level >= slog.LevelWarn:
		fmt.Fprintf(d.out.err, "%s  %s %v\n", at, r.Message, values)
	}
	return nil
}

// print prints a line, now or on release; the lock is held.
func (d *demoLog) print(line string) {
	if d.held {
		d.lines = append(d.lines, line)
		return
	}
	fmt.Fprintln(d.out.out, line)
}

// release prints what was held, and all further lines as they come.
func (d *demoLog) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = false
	for _, line := range d.lines {
		d.print(line)
	}
	d.lines = nil
}

// WithAttrs implements slog.Handler; nothing here uses it.
func (d *demoLog) WithAttrs([]slog.Attr) slog.Handler { return d }

// WithGroup implements slog.Handler; nothing here uses it.
func (d *demoLog) WithGroup(string) slog.Handler { return d }
