package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"fairlead/internal/node"
)

type demoCmd struct {
	Address string `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Where the load balancer listens. Port 0 lets the system choose. Default: ${default}."`
}

// Help is shown by demo --help.
func (demoCmd) Help() string {
	return `Three small endpoints run in this process, watched once a second; a load
balancer steers to them at random. A request, which the demo prints, makes one
of them fail and come back. Ctrl-C ends it.`
}

// demoConfig is the file that the demo runs from.
const demoConfig = `# The demo: one listener, one pool of three endpoints.
admin: {address: "127.0.0.1:0"}
shutdown_timeout: 2s
listeners:
  - {name: web, address: %q, protocol: http}
monitors:
  - {name: up, type: http, path: /healthz, expected_codes: "200", interval: 1s, timeout: 500ms, retries: 0, consecutive_up: 2, consecutive_down: 2}
pools:
  - name: demo
    monitor: up
    endpoints:
      - {name: a, address: %q}
      - {name: b, address: %q}
      - {name: c, address: %q}
load_balancers:
  - {name: localhost, proxied: true, default_pools: [demo]}
  - {name: "127.0.0.1", proxied: true, default_pools: [demo]}
`

// Run runs the demo until ctx is done.
func (c *demoCmd) Run(ctx context.Context, s streams) error {
	dir, err := os.MkdirTemp("", "fairlead-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var servers sync.WaitGroup
	defer servers.Wait()
	defer cancel()
	addresses := make(map[string]string)
	for _, name := range []string{"a", "b", "c"} {
		if addresses[name], err = demoEndpoint(ctx, &servers, name); err != nil {
			return err
		}
	}
	file := filepath.Join(dir, "demo.yaml")
	text := fmt.Sprintf(demoConfig, c.Address, addresses["a"], addresses["b"], addresses["c"])
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	return node.Run(ctx, secondSignal(ctx), node.Config{
		File: file, Version: programVersion(),
		Log: slog.New(&demoLog{out: s}),
		Ready: func(n *node.Node) {
			web := n.Listeners()[0].Address
			fmt.Fprintf(s.out, `Fairlead listens on http://%[1]s and steers to the endpoints a, b and c.

Try, in another terminal:
  curl http://%[1]s/                     an answer from a, b or c
  curl -X POST http://%[2]s/fail   make b fail; two failed probes later it is out
  curl -X POST http://%[2]s/heal   bring b back
  curl http://%[3]s/status               what is known of pools and endpoints
  curl http://%[3]s/metrics              counters for Prometheus

Ctrl-C ends the demo. Changes of health follow.
`, web, addresses["b"], n.Admin())
		},
	})
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
// whatever goes wrong.
type demoLog struct {
	out streams
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
	switch {
	case r.Message == "endpoint health changed":
		fmt.Fprintf(d.out.out, "%s  endpoint %s is %s: %s\n", at, values["endpoint"], values["verdict"], values["reason"])
	case r.Message == "pool health changed":
		fmt.Fprintf(d.out.out, "%s  pool %s is %s\n", at, values["pool"], values["state"])
	case r.Level >= slog.LevelWarn:
		fmt.Fprintf(d.out.err, "%s  %s %v\n", at, r.Message, values)
	}
	return nil
}

// WithAttrs implements slog.Handler; nothing here uses it.
func (d *demoLog) WithAttrs([]slog.Attr) slog.Handler { return d }

// WithGroup implements slog.Handler; nothing here uses it.
func (d *demoLog) WithGroup(string) slog.Handler { return d }
