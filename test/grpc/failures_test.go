package grpc

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	api "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"fairlead/test/lab"
)

// What goes wrong on the way is told to gRPC clients as gRPC tells it, with a code
// that says whether to try again.
func TestFailuresHaveCodes(t *testing.T) {
	_, silent := serve(t)
	cuts := lab.NewOrigin(t, func(c *lab.OriginConn) {
		c.Read(make([]byte, 10))
		c.Close()
	})
	n := lab.Start(t, fmt.Sprintf(`
access_log: {output: %q}
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools:
  - {name: refuses, protocol: h2c, endpoints: [{name: A, address: %q}]}
  - {name: silent, protocol: h2c, answer_timeout: 200ms, endpoints: [{name: A, address: %q}]}
  - {name: cuts, protocol: h2c, endpoints: [{name: A, address: %q}]}
  - {name: off, enabled: false, protocol: h2c, endpoints: [{name: A, address: %q}]}
load_balancers:
  - {name: refuses.example.com, proxied: true, default_pools: [refuses]}
  - {name: silent.example.com, proxied: true, default_pools: [silent]}
  - {name: cuts.example.com, proxied: true, default_pools: [cuts]}
  - {name: off.example.com, proxied: true, default_pools: [off]}
`, t.TempDir()+"/access.log", lab.Refusing(t), silent, cuts.Addr, silent))
	for _, c := range []struct {
		host string
		code codes.Code
		text string
	}{
		{"refuses.example.com", codes.Unavailable, "521 Web Server Is Down"},
		{"silent.example.com", codes.DeadlineExceeded, "524 A Timeout Occurred"},
		{"cuts.example.com", codes.Internal, "520 Unknown Error"},
		{"off.example.com", codes.Unavailable, "530 No Healthy Pool"},
		{"nobody.example.com", codes.Unimplemented, "404 Not Found"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		client := dial(t, n.Addr("web"), c.host, insecure.NewCredentials())
		_, err := client.UnaryCall(ctx, &api.SimpleRequest{FillServerId: true}) // to which the service does not answer
		if s := status.Convert(err); s.Code() != c.code || !strings.HasPrefix(s.Message(), c.text) {
			t.Errorf("%s: %v %q, want %v %q", c.host, s.Code(), s.Message(), c.code, c.text)
		}
		if c.code != codes.DeadlineExceeded { // a client that may still send has time
			stream, err := client.FullDuplexCall(ctx)
			if err == nil {
				_, err = stream.Recv()
			}
			if s := status.Convert(err); s.Code() != c.code {
				t.Errorf("%s: a stream ends with %v %q, want %v", c.host, s.Code(), s.Message(), c.code)
			}
		}
		cancel()
	}
	for _, line := range n.AccessLog(9) {
		if line["status"] != 200.0 || line["error"] == nil {
			t.Errorf("the access log says %v", line)
		}
	}
}
