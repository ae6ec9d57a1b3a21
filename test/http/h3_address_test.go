package http_test

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/quic-go/quic-go"

	"fairlead/test/lab"
)

// move lets the client go on from another address, and returns that.
func (c *h3conn) move(to string) string {
	c.t.Helper()
	udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(to), 0)))
	if err != nil {
		c.t.Fatal(err)
	}
	tr := &quic.Transport{Conn: udp}
	c.t.Cleanup(func() {
		tr.Close()
		udp.Close()
	})
	path, err := c.AddPath(tr)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	if err := path.Probe(ctx); err != nil {
		c.t.Fatal(err)
	}
	if err := path.Switch(); err != nil {
		c.t.Fatal(err)
	}
	return udp.LocalAddr().String()
}

// A client that moves keeps its connection, and is known by where it is: to rules,
// to endpoints, and in the access log.
func TestClientMoves(t *testing.T) {
	t.Parallel()
	s := site{endpoints: []string{lab.NewOrigin(t, lab.Echo).Addr}, tls: true,
		balancer: `rules: [{name: r, condition: 'ip.src eq 127.0.0.3 and http.request.uri.path eq "/rule"', fixed_response: {status_code: 410}}]`}.start(t)
	c := s.dial3(t)
	equal(t, "status", c.ask("/rule").status(), "200")
	at := c.move("127.0.0.3")
	var st h3stream
	lab.Await(t, "a request from the new address", func() bool {
		st = c.ask("/after")
		equal(t, "status", st.status(), "200")
		log := s.AccessLog(2)
		return log[len(log)-1]["peer"] == at
	})
	_, seen, err := st.next()
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "X-Forwarded-For", lab.Field(string(seen), "X-Forwarded-For"), "127.0.0.3")
	equal(t, "status by the rule", c.ask("/rule").status(), "410")
	equal(t, "connections", s.Metric("fairlead_http_connections_total"), 1)
}

// Nobody can say in QUIC who is behind a trusted proxy whose connections have to
// begin with that; others are clients as over TCP.
func TestProxyProtocolAndHTTP3(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Echo)
	s := site{endpoints: []string{o.Addr}, tls: true, listener: "accept_proxy_protocol: true, trusted_proxies: [127.0.0.0/8]"}.start(t)
	if _, err := s.tryDial3(t, nil); err == nil {
		t.Error("a trusted proxy is let in without the header")
	}
	s.AwaitMetric(1, "fairlead_http_proxy_headers_failed_total")
	other := site{endpoints: []string{o.Addr}, tls: true, listener: "accept_proxy_protocol: true, trusted_proxies: [192.0.2.0/24]"}.start(t)
	equal(t, "status", other.dial3(t).ask("/").status(), "200")
}

// Nor does it help to begin elsewhere and to move to there.
func TestMoveBehindTrustedProxy(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Echo)
	s := site{endpoints: []string{o.Addr}, tls: true, listener: "accept_proxy_protocol: true, trusted_proxies: [127.0.0.3/32]"}.start(t)
	c := s.dial3(t)
	equal(t, "status", c.ask("/").status(), "200")
	c.move("127.0.0.3")
	// Requests are served until one comes by the new way.
	lab.Await(t, "the end of the connection", func() bool {
		st, err := c.OpenStream()
		if err != nil {
			return true
		}
		st.Write(h3head("GET", "/", "x-forwarded-for", "203.0.113.7"))
		st.Close()
		fields, data, err := h3stream{st, t}.next()
		for ; err == nil; fields, data, err = (h3stream{st, t}).next() {
			if fields == nil {
				equal(t, "X-Forwarded-For", lab.Field(string(data), "X-Forwarded-For"), "127.0.0.1")
			}
		}
		return c.Context().Err() != nil
	})
	equal(t, "refused", s.Metric("fairlead_http_proxy_headers_failed_total"), 1)
}
