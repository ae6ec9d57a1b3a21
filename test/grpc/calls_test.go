package grpc

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	api "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

func TestUnary(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, r route) {
		for _, size := range []int{0, 1, 100, 70 << 10, 3 << 20} {
			res, err := r.client.UnaryCall(ctx, &api.SimpleRequest{ResponseSize: int32(size), Payload: &api.Payload{Body: make([]byte, size)}})
			wantCode(t, err, codes.OK)
			if got := len(res.Payload.Body); got != size {
				t.Errorf("%d bytes came back, want %d", got, size)
			}
		}
	})
}

func TestMetadata(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, r route) {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-echo-initial", "first", "x-echo-trailing-bin", "\xab\x00\xff")
		var header, trailer metadata.MD
		_, err := r.client.EmptyCall(ctx, new(api.Empty), grpc.Header(&header), grpc.Trailer(&trailer))
		wantCode(t, err, codes.OK)
		if got := header.Get("x-echo-initial"); len(got) != 1 || got[0] != "first" {
			t.Errorf("initial metadata %q", got)
		}
		if got := trailer.Get("x-echo-trailing-bin"); len(got) != 1 || got[0] != "\xab\x00\xff" {
			t.Errorf("trailing metadata %q", got)
		}
	})
}

// An error is a head that ends the stream: its status must come through.
func TestErrors(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, r route) {
		_, err := r.client.UnaryCall(ctx, &api.SimpleRequest{ResponseStatus: &api.EchoStatus{Code: int32(codes.FailedPrecondition), Message: "as told: ü\t%"}})
		wantCode(t, err, codes.FailedPrecondition)
		_, err = r.client.UnimplementedCall(ctx, new(api.Empty))
		wantCode(t, err, codes.Unimplemented)
	})
}

func TestClientStream(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, r route) {
		upload(ctx, t, r, 20, 30<<10)
	})
}

func upload(ctx context.Context, t *testing.T, r route, messages, size int) {
	t.Helper()
	out, err := r.client.StreamingInputCall(ctx)
	wantCode(t, err, codes.OK)
	for i := range messages {
		body := bytes.Repeat([]byte{byte(i) & 0x7f}, size)
		if err := out.Send(&api.StreamingInputCallRequest{Payload: &api.Payload{Body: body}}); err != nil {
			t.Fatalf("message %d: %v (%v)", i, err, out.RecvMsg(nil))
		}
	}
	res, err := out.CloseAndRecv()
	wantCode(t, err, codes.OK)
	if got := int(res.AggregatedPayloadSize); got != messages*size {
		t.Errorf("the server got %d bytes, want %d", got, messages*size)
	}
}

func TestServerStream(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, r route) {
		download(ctx, t, r, 20, 30<<10)
	})
}

func download(ctx context.Context, t *testing.T, r route, messages, size int) {
	t.Helper()
	q := new(api.StreamingOutputCallRequest)
	for range messages {
		q.ResponseParameters = append(q.ResponseParameters, &api.ResponseParameters{Size: int32(size)})
	}
	in, err := r.client.StreamingOutputCall(ctx, q)
	wantCode(t, err, codes.OK)
	for i := range messages {
		res, err := in.Recv()
		wantCode(t, err, codes.OK)
		if want := bytes.Repeat([]byte{byte(i)}, size); !bytes.Equal(res.Payload.Body, want) {
			t.Fatalf("message %d is not what was sent", i)
		}
	}
	if _, err := in.Recv(); err != io.EOF {
		t.Errorf("after the last message: %v, want the end", err)
	}
}

// Each message is answered before the next is sent.
func TestFullDuplex(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, r route) {
		s, err := r.client.FullDuplexCall(ctx)
		wantCode(t, err, codes.OK)
		for i := range 50 {
			size := int32(i * 1000)
			if err := s.Send(&api.StreamingOutputCallRequest{ResponseParameters: []*api.ResponseParameters{{Size: size}}}); err != nil {
				t.Fatal(err)
			}
			res, err := s.Recv()
			wantCode(t, err, codes.OK)
			if len(res.Payload.Body) != int(size) {
				t.Fatalf("%d bytes, want %d", len(res.Payload.Body), size)
			}
		}
		if err := s.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); err != io.EOF {
			t.Errorf("at the end: %v", err)
		}
	})
}

func TestDeadline(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, r route) {
		begun := time.Now()
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		_, err := r.client.UnaryCall(short, &api.SimpleRequest{FillServerId: true})
		if status.Code(err) == codes.Internal && strings.Contains(err.Error(), "520") && time.Since(begun) > 150*time.Millisecond {
			// The endpoint's clock was first: it reset its stream, and the
			// client was told that there was no answer.
			t.Log(err)
		} else {
			wantCode(t, err, codes.DeadlineExceeded)
		}
		r.service.awaitEnd(t)
		_, err = r.client.EmptyCall(ctx, new(api.Empty)) // the connection goes on
		wantCode(t, err, codes.OK)
	})
}

func TestCancellation(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, r route) {
		cut, cancel := context.WithCancel(ctx)
		s, err := r.client.FullDuplexCall(cut)
		wantCode(t, err, codes.OK)
		if err := s.Send(&api.StreamingOutputCallRequest{ResponseParameters: []*api.ResponseParameters{{Size: 10}}}); err != nil {
			t.Fatal(err)
		}
		_, err = s.Recv()
		wantCode(t, err, codes.OK)
		cancel()
		_, err = s.Recv()
		wantCode(t, err, codes.Canceled)
		r.service.awaitEnd(t)
	})
}

// A hundred megabytes in each direction.
func TestLongStreams(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, r route) {
		const size = 1 << 20
		upload(ctx, t, r, 100, size)
		download(ctx, t, r, 100, size)
	})
}

// Many calls share a connection.
func TestManyCalls(t *testing.T) {
	each(t, func(t *testing.T, ctx context.Context, r route) {
		const calls = 1000
		done := make(chan error, calls)
		for range calls {
			go func() {
				_, err := r.client.UnaryCall(ctx, &api.SimpleRequest{ResponseSize: 1000, Payload: &api.Payload{Body: make([]byte, 1000)}})
				done <- err
			}()
		}
		for range calls {
			wantCode(t, <-done, codes.OK)
		}
	})
}
