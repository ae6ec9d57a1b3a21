package health

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// probeGRPC asks the standard health service, grpc.health.v1.Health/Check, for
// the service that the monitor's path names ("/" for the whole server) and
// passes when it is SERVING. The round trip is that of connection and call.
func probeGRPC(ctx context.Context, t *Target) Result {
	a := &grpcAttempt{stage: stageConnect}
	port := 80
	var transport credentials.TransportCredentials = insecure.NewCredentials()
	if t.TLS {
		port = 443
		transport = credentials.NewTLS(t.tlsConfig("h2"))
	}
	conn, err := grpc.NewClient("passthrough:///endpoint",
		grpc.WithContextDialer(func(dialCtx context.Context, _ string) (net.Conn, error) {
			conn, err := t.dial(dialCtx, t.port())
			a.enter(stageTLS, err)
			return conn, err
		}),
		grpc.WithTransportCredentials(&watchedCredentials{transport, a}),
		grpc.WithAuthority(t.host(port)),
		grpc.WithUserAgent(userAgent(t.Key.Pool)),
		grpc.WithNoProxy(),
		grpc.WithDisableRetry(),
		grpc.WithDisableServiceConfig(),
		grpc.WithMaxHeaderListSize(maxHead),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxHead)),
	)
	if err != nil {
		return failed(FailureConfig, err.Error())
	}
	defer conn.Close()

	for name, values := range t.Monitor.Header {
		if strings.EqualFold(name, "Host") {
			continue
		}
		for _, v := range values {
			ctx = metadata.AppendToOutgoingContext(ctx, name, v)
		}
	}
	start := time.Now()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx,
		&grpc_health_v1.HealthCheckRequest{Service: strings.TrimPrefix(t.Monitor.Path, "/")})
	if err != nil {
		return a.failure(ctx, err)
	}
	if s := answer.GetStatus(); s != grpc_health_v1.HealthCheckResponse_SERVING {
		return failed(FailureCode, fmt.Sprintf("service is %v, want SERVING", s))
	}
	return Result{RTT: time.Since(start)}
}

// grpcAttempt remembers how far a connection came and what ended it, which the
// status of the call does not tell.
type grpcAttempt struct {
	mu    sync.Mutex
	stage stage
	err   error
}

// enter moves to the next stage, unless err ended the one before.
func (a *grpcAttempt) enter(next stage, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.err = err
		return
	}
	a.stage = next
}

// failure names what ended a call.
func (a *grpcAttempt) failure(ctx context.Context, err error) Result {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, _ := status.FromError(err)
	switch {
	case ctx.Err() != nil || a.err != nil:
		return classify(ctx, a.stage, a.err)
	case s.Code() == codes.Unavailable && strings.Contains(s.Message(), "connection reset"):
		return failed(FailureReset, s.Message())
	case s.Code() == codes.Unavailable, s.Code() == codes.Internal, s.Code() == codes.Unknown:
		return failed(FailureInvalid, s.Message())
	}
	return failed(FailureCode, fmt.Sprintf("status %v: %s", s.Code(), s.Message()))
}

// watchedCredentials tell the attempt how the handshake went.
type watchedCredentials struct {
	credentials.TransportCredentials
	attempt *grpcAttempt
}

// ClientHandshake implements credentials.TransportCredentials.
func (w *watchedCredentials) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, info, err := w.TransportCredentials.ClientHandshake(ctx, authority, conn)
	w.attempt.enter(stageAnswer, err)
	return c, info, err
}

// Info implements credentials.TransportCredentials. It leaves out the server
// name, which the library would compare with the authority: what TLS verifies
// and what the call asks for may differ.
func (w *watchedCredentials) Info() credentials.ProtocolInfo {
	i := w.TransportCredentials.Info()
	i.ServerName = ""
	return i
}

// Clone implements credentials.TransportCredentials.
func (w *watchedCredentials) Clone() credentials.TransportCredentials {
	return &watchedCredentials{w.TransportCredentials.Clone(), w.attempt}
}
