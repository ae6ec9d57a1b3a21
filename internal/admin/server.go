// Package admin answers what operators and their tools ask a node over HTTP:
// whether it lives and is ready, what it measures, and the state of
// everything declared. It changes nothing; docs/admin.md describes it.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/netutil"

	"fairlead/internal/health"
	"fairlead/internal/plan"
	"fairlead/internal/resolve"
	"fairlead/internal/telemetry"
)

// Bounds on what clients of this address can hold. Questions are small;
// answers of large nodes are not.
const (
	maxConnections = 256
	maxHeaderBytes = 16 << 10
	readTimeout    = 10 * time.Second
	writeTimeout   = 60 * time.Second
	idleTimeout    = 2 * time.Minute
)

// Config is what a Server shows. The functions are called for each request
// and must not wait.
type Config struct {
	// Address is the host:port to listen on. A host name in it is also a name
	// by which the server may be asked.
	Address string
	Log     *slog.Logger
	// Registry is what /metrics shows; New adds the state of the plan to it.
	Registry *telemetry.Registry
	// Plan returns the plan in force; nil before the first.
	Plan func() *plan.Plan
	// Ready reports whether the node should be sent traffic, and if not, why.
	Ready func() (bool, string)
	// Health counts changes of verdicts.
	Health *health.Table
	// Probes returns the counts of the health checker. Optional.
	Probes func() health.Stats
	// Lookups returns the counts of the resolver of endpoints' host names.
	// Optional.
	Lookups func() resolve.Stats
	// Listeners returns the open listeners. Optional.
	Listeners func() []ListenerStatus
	// Reloads returns how the configuration file was taken up. Optional.
	Reloads func() ReloadStatus
	// Databases returns the databases of geography. Optional.
	Databases func() []DatabaseStatus
	// Explain tells what would become of a request. Optional.
	Explain func(*Question) (string, error)
	// Version is that of the program; Started is when the process began.
	Version string
	Started time.Time
}

// Server is the read-only part of the admin address.
type Server struct {
	cfg  Config
	host string // in lower case; of the configured address, "" when it has none
	http *http.Server
	ln   net.Listener
}

// New makes a server and adds its metrics to the registry.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, host: hostOf(cfg.Address)}
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", s.live)
	mux.HandleFunc("/readyz", s.ready)
	mux.HandleFunc("/status", s.status)
	mux.HandleFunc("/explain", s.explain)
	mux.Handle("/metrics", cfg.Registry.Handler())
	mux.HandleFunc("/", notFound)
	s.http = &http.Server{
		Handler:                      s.guard(mux),
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		IdleTimeout:                  idleTimeout,
		MaxHeaderBytes:               maxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	cfg.Registry.Add(s)
	return s
}

// Listen opens the address and returns what was bound.
func (s *Server) Listen() (netip.AddrPort, error) {
	ln, err := net.Listen("tcp", s.cfg.Address)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("admin: address %s: %w", s.cfg.Address, err)
	}
	s.ln = netutil.LimitListener(ln, maxConnections)
	bound := ln.Addr().(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(bound.Addr().Unmap(), bound.Port()), nil
}

// Serve answers until Shutdown is called, and then returns nil. Listen comes
// first.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin: %w", err)
	}
	return nil
}

// Shutdown stops listening and waits until all requests are answered or ctx
// is done; those that are left are then cut off.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		s.http.Close()
	}
	return err
}

// guard refuses what is not a question, and what a web page could have asked.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			answer(w, http.StatusMethodNotAllowed, "method not allowed: want GET or HEAD")
		case r.URL.Path != "/livez" && !s.knows(r.Host):
			answer(w, http.StatusMisdirectedRequest,
				"this host name is not served here: want an IP address, localhost, or the name in admin.address")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// knows reports whether a Host header can be meant for this server. A web page
// whose name was made to resolve to this address (DNS rebinding) gives itself
// away by that name. No Host at all, as in HTTP/1.0, comes from no browser.
func (s *Server) knows(hostport string) bool {
	host := hostOf(hostport)
	if host == "" || host == "localhost" || host == s.host {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

// hostOf returns the host of a Host header or an address, as names are
// compared.
func hostOf(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]") // no port
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// live says that the process answers.
func (s *Server) live(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") }

// ready says whether traffic should be sent here.
func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	if ok, reason := s.cfg.Ready(); !ok {
		answer(w, http.StatusServiceUnavailable, "not ready: "+reason)
		return
	}
	answer(w, http.StatusOK, "ok")
}

func notFound(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusNotFound, `no such page; there are:
/livez    200 while the process answers
/readyz   200 when traffic should be sent here, else 503 with the reason
/metrics  what is measured, for Prometheus
/status   the state of everything declared, as JSON`)
}

// answer sends a line of text.
func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	fmt.Fprintln(w, text)
}
