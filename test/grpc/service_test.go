package grpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	api "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"fairlead/test/lab"
)

// service is gRPC's own test service, as far as the tests use it.
type service struct {
	api.UnimplementedTestServiceServer
	ended chan error // told how each call that waits for its end was ended
}

func (s *service) EmptyCall(ctx context.Context, _ *api.Empty) (*api.Empty, error) {
	in, _ := metadata.FromIncomingContext(ctx)
	if v := in.Get("x-echo-initial"); len(v) > 0 {
		grpc.SetHeader(ctx, metadata.Pairs("x-echo-initial", v[0]))
	}
	if v := in.Get("x-echo-trailing-bin"); len(v) > 0 {
		grpc.SetTrailer(ctx, metadata.Pairs("x-echo-trailing-bin", v[0]))
	}
	return new(api.Empty), nil
}

func (s *service) UnaryCall(ctx context.Context, r *api.SimpleRequest) (*api.SimpleResponse, error) {
	if e := r.GetResponseStatus(); e != nil {
		return nil, status.Error(codes.Code(e.Code), e.Message)
	}
	if r.GetFillServerId() { // the tests' sign to wait
		<-ctx.Done()
		s.ended <- ctx.Err()
		return nil, ctx.Err()
	}
	return &api.SimpleResponse{Payload: &api.Payload{Body: bytes.Repeat([]byte("r"), int(r.ResponseSize))}}, nil
}

func (s *service) StreamingOutputCall(r *api.StreamingOutputCallRequest, out grpc.ServerStreamingServer[api.StreamingOutputCallResponse]) error {
	for i, p := range r.ResponseParameters {
		if err := out.Send(&api.StreamingOutputCallResponse{Payload: &api.Payload{Body: bytes.Repeat([]byte{byte(i)}, int(p.Size))}}); err != nil {
			return err
		}
	}
	return nil
}

func (s *service) StreamingInputCall(in grpc.ClientStreamingServer[api.StreamingInputCallRequest, api.StreamingInputCallResponse]) error {
	var sum int32
	for i := 0; ; i++ {
		r, err := in.Recv()
		if err == io.EOF {
			return in.SendAndClose(&api.StreamingInputCallResponse{AggregatedPayloadSize: sum})
		}
		if err != nil {
			return err
		}
		if len(bytes.Trim(r.Payload.Body, string(rune(byte(i)&0x7f)))) > 0 {
			return status.Errorf(codes.DataLoss, "message %d is not what was sent", i)
		}
		sum += int32(len(r.Payload.Body))
	}
}

func (s *service) FullDuplexCall(b grpc.BidiStreamingServer[api.StreamingOutputCallRequest, api.StreamingOutputCallResponse]) error {
	for {
		r, err := b.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			s.ended <- err
			return err
		}
		for _, p := range r.ResponseParameters {
			if err := b.Send(&api.StreamingOutputCallResponse{Payload: &api.Payload{Body: make([]byte, p.Size)}}); err != nil {
				return err
			}
		}
	}
}

// serve runs the service and returns its address.
func serve(t *testing.T, options ...grpc.ServerOption) (*service, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &service{ended: make(chan error, 10)}
	g := grpc.NewServer(append(options, grpc.MaxRecvMsgSize(8<<20))...)
	api.RegisterTestServiceServer(g, s)
	var done sync.WaitGroup
	done.Go(func() { g.Serve(ln) })
	t.Cleanup(func() {
		g.Stop()
		done.Wait()
	})
	return s, ln.Addr().String()
}

// dial returns a client of a node's listener that asks for a host.
func dial(t *testing.T, address, host string, creds credentials.TransportCredentials) api.TestServiceClient {
	t.Helper()
	c, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds), grpc.WithAuthority(host),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(8<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return api.NewTestServiceClient(c)
}

// route is a way of gRPC through a node.
type route struct {
	name    string
	client  api.TestServiceClient
	service *service
}

// routes returns every way: in clear text and over TLS, on either side.
func routes(t *testing.T) []route {
	t.Helper()
	ca := lab.NewCA(t)
	cert := ca.Issue("h2.example.com", "h2c.example.com")
	plain, plainAddr := serve(t)
	secure, secureAddr := serve(t, grpc.Creds(credentials.NewServerTLSFromCert(&cert.TLS)))
	n := lab.Start(t, fmt.Sprintf(`
listeners:
  - {name: web, address: "127.0.0.1:0", protocol: http}
  - {name: websecure, address: "127.0.0.1:0", protocol: https, certificates: [{certificate: %q, key: %q}]}
pools:
  - {name: clear, protocol: h2c, endpoints: [{name: A, address: %q}]}
  - {name: secure, protocol: h2, tls: {ca: %q, server_name: h2.example.com}, endpoints: [{name: A, address: %q}]}
load_balancers:
  - {name: h2c.example.com, proxied: true, default_pools: [clear]}
  - {name: h2.example.com, proxied: true, default_pools: [secure]}
`, cert.CertFile, cert.KeyFile, plainAddr, ca.File, secureAddr))
	noTLS := insecure.NewCredentials()
	overTLS := func(host string) credentials.TransportCredentials { return credentials.NewTLS(ca.Client(host)) }
	return []route{
		{"clear to h2c", dial(t, n.Addr("web"), "h2c.example.com", noTLS), plain},
		{"clear to h2", dial(t, n.Addr("web"), "h2.example.com", noTLS), secure},
		{"TLS to h2c", dial(t, n.Addr("websecure"), "h2c.example.com", overTLS("h2c.example.com")), plain},
		{"TLS to h2", dial(t, n.Addr("websecure"), "h2.example.com", overTLS("h2.example.com")), secure},
	}
}

// each runs a test over every way.
func each(t *testing.T, f func(t *testing.T, ctx context.Context, r route)) {
	for _, r := range routes(t) {
		t.Run(r.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			f(t, ctx, r)
		})
	}
}

// wantCode checks the status of a call.
func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if status.Code(err) != want {
		t.Fatalf("call ended with %v, want %v", err, want)
	}
}

// awaitEnd waits until a call has ended at the server.
func (s *service) awaitEnd(t *testing.T) {
	t.Helper()
	select {
	case err := <-s.ended:
		if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && status.Code(err) != codes.Canceled {
			t.Errorf("the server's call was ended by %v, want that it was cancelled", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the server was not told that the call is over")
	}
}
