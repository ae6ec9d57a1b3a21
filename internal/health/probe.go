package health

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"fairlead/internal/model"
)

// stage is how far an attempt has come; what an error means depends on it.
type stage int

const (
	stageConnect stage = iota
	stageTLS
	stageAnswer
)

// String says what an attempt waits for.
func (s stage) String() string { return [...]string{"connection", "TLS handshake", "answer"}[s] }

// probe makes one attempt, bounded by ctx.
func probe(ctx context.Context, t *Target) Result {
	switch t.Monitor.Type {
	case model.MonitorHTTP, model.MonitorHTTPS:
		return probeHTTP(ctx, t)
	case model.MonitorTCP:
		return probeTCP(ctx, t)
	case model.MonitorGRPC:
		return probeGRPC(ctx, t)
	}
	return failed(FailureConfig, fmt.Sprintf("monitor type %q cannot be probed", t.Monitor.Type))
}

// probeTCP passes once the connection is made. Its round trip is that of the
// handshake, to wherever TCP ends.
func probeTCP(ctx context.Context, t *Target) Result {
	start := time.Now()
	conn, err := t.dial(ctx, t.port())
	if err != nil {
		return classify(ctx, stageConnect, err)
	}
	rtt := time.Since(start)
	conn.Close()
	return Result{RTT: rtt}
}

// dial connects to the first of the endpoint's addresses that answers.
func (t *Target) dial(ctx context.Context, port int) (net.Conn, error) {
	var addrs []netip.Addr
	if t.Name != nil {
		addrs = t.Name.Addresses()
	} else if a, err := netip.ParseAddr(t.Host); err == nil {
		addrs = []netip.Addr{a}
	}
	if len(addrs) == 0 {
		return nil, &net.DNSError{Err: "no address is known", Name: t.Host, IsNotFound: true}
	}
	var first error
	for i, a := range addrs {
		conn, err := t.dialAddr(ctx, netip.AddrPortFrom(a, uint16(port)), len(addrs)-i)
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, first
}

// dialAddr connects to one address in its share of the time that is left, so
// that a silent address leaves some for those after it.
func (t *Target) dialAddr(ctx context.Context, a netip.AddrPort, shares int) (net.Conn, error) {
	if deadline, ok := ctx.Deadline(); ok && shares > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(shares))
		defer cancel()
	}
	d := net.Dialer{KeepAlive: -1}
	for _, s := range t.SourceAddresses {
		if s.Unmap().Is4() == a.Addr().Unmap().Is4() {
			d.LocalAddr = &net.TCPAddr{IP: s.AsSlice(), Zone: s.Zone()}
			break
		}
	}
	return d.DialContext(ctx, "tcp", a.String())
}

// host returns the Host of requests: the endpoint's own, else the monitor's,
// else the address with its port where that is not the scheme's.
func (t *Target) host(defaultPort int) string {
	if h := t.ownHost(); h != "" {
		return h
	}
	if p := t.port(); p != defaultPort {
		return net.JoinHostPort(t.Host, strconv.Itoa(p))
	}
	if a, err := netip.ParseAddr(t.Host); err == nil && a.Is6() {
		return "[" + t.Host + "]"
	}
	return t.Host
}

// ownHost returns the Host that the endpoint or the monitor sets, "" for none.
func (t *Target) ownHost() string {
	if t.HostHeader != "" {
		return t.HostHeader
	}
	if v := t.Monitor.Header["Host"]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// tlsConfig returns how to speak TLS with the endpoint. An IP address is
// verified and, as RFC 6066 has it, not sent as a server name.
func (t *Target) tlsConfig(protocol string) *tls.Config {
	name := t.ServerName
	if name == "" {
		name = hostname(t.ownHost())
	}
	if name == "" {
		name = t.Host
	}
	c := &tls.Config{
		ServerName:         name,
		RootCAs:            t.RootCAs,
		InsecureSkipVerify: t.Monitor.AllowInsecure,
		NextProtos:         []string{protocol},
		MinVersion:         tls.VersionTLS12,
	}
	if len(t.Pins) > 0 { // whatever else is not verified
		c.VerifyConnection = func(s tls.ConnectionState) error {
			return model.CheckPins(t.Pins, s.PeerCertificates[0].RawSubjectPublicKeyInfo)
		}
	}
	if t.Certificate != nil {
		c.Certificates = []tls.Certificate{*t.Certificate}
	}
	return c
}

// hostname strips the port from a Host.
func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		return h
	}
	if len(host) > 1 && host[0] == '[' && host[len(host)-1] == ']' {
		return host[1 : len(host)-1]
	}
	return host
}
