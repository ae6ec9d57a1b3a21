package health

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"fairlead/internal/model"
)

func TestGRPC(t *testing.T) {
	ca := newAuthority(t)
	cert := ca.certificate(t, time.Now().Add(time.Hour), "127.0.0.1")
	serve := func(withHealth bool, opts ...grpc.ServerOption) func(*testing.T) int {
		return func(t *testing.T) int {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := grpc.NewServer(opts...)
			if withHealth {
				h := health.NewServer()
				h.SetServingStatus("good", grpc_health_v1.HealthCheckResponse_SERVING)
				h.SetServingStatus("bad", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
				grpc_health_v1.RegisterHealthServer(s, h)
			}
			done := make(chan error, 1)
			go func() { done <- s.Serve(l) }()
			t.Cleanup(func() {
				s.Stop()
				<-done
			})
			return l.Addr().(*net.TCPAddr).Port
		}
	}
	secure := grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{"h2"}}))
	for _, c := range []struct {
		name string
		port func(*testing.T) int
		path string
		tls  bool
		edit func(*Target)
		want string
	}{
		{"the whole server", serve(true), "/", false, nil, ""},
		{"a service", serve(true), "/good", false, nil, ""},
		{"a service without slash", serve(true), "good", false, nil, ""},
		{"a service that does not serve", serve(true), "/bad", false, nil, FailureCode},
		{"a service that nobody knows", serve(true), "/other", false, nil, FailureCode},
		{"no health service", serve(false), "/", false, nil, FailureCode},
		{"headers", serve(true), "/", false, func(t *Target) {
			t.Monitor.Header = map[string][]string{"Host": {"grpc.example.test"}, "X-Token": {"t"}}
		}, ""},
		{"TLS", serve(true, secure), "/", true, nil, ""},
		{"TLS of an unknown authority", serve(true, secure), "/", true, func(t *Target) { t.RootCAs = x509.NewCertPool() }, FailureUntrusted},
		{"TLS with allow_insecure", serve(true, secure), "/", true, func(t *Target) { t.RootCAs, t.Monitor.AllowInsecure = nil, true }, ""},
		{"TLS of another name", serve(true, secure), "/", true, func(t *Target) { t.HostHeader = "other.example.test" }, FailureName},
		{"refused", closedPort, "/", false, nil, FailureRefused},
		{"not gRPC", plain(ok), "/", false, nil, FailureInvalid},
		{"closed without an answer", raw(func(c net.Conn) {
			c.(*net.TCPConn).CloseWrite()
			never(c)
		}), "/", false, nil, FailureInvalid},
		{"no answer in time", raw(never), "/", false, func(t *Target) { t.Monitor.Timeout = 200 * time.Millisecond }, FailureTimeout},
		{"no connection in time", fullBacklog, "/", false, func(t *Target) { t.Monitor.Timeout = 200 * time.Millisecond }, FailureTCPTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := at(c.port(t), func(m *model.Monitor) { m.Type, m.Path = model.MonitorGRPC, c.path })
			target.TLS, target.RootCAs = c.tls, ca.pool()
			if c.edit != nil {
				c.edit(&target)
			}
			r := once(t, target)
			if r.Failure != c.want || r.Passed() != (r.RTT > 0) {
				t.Errorf("result = %+v, want %q", r, c.want)
			}
		})
	}
}
