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
	stageEcho // of a ping, which has no connection
)

// String says what an attempt waits for.
func (s stage) String() string {
	return [...]string{"connection", "TLS handshake", "answer", "echo reply"}[s]
}

// reaches reports whether the attempt is still to find out if anything is
// there.
func (s stage) reaches() bool { return s == stageConnect || s == stageEcho }

// probe makes one attempt, bounded by ctx.
func probe(ctx context.Context, t *Target) Result {
	switch t.Monitor.Type {
	case model.MonitorHTTP, model.MonitorHTTPS:
		return probeHTTP(ctx, t)
	case model.MonitorTCP:
		return probeTCP(ctx, t)
	case model.MonitorGRPC:
		return probeGRPC(ctx, t)
	case model.MonitorICMPPing:
		return probePing(ctx, t)
	case model.MonitorUDPICMP:
		return probeUDP(ctx, t)
	case model.MonitorSMTP:
		return probeSMTP(ctx, t)
	case model.MonitorLDAP:
		return probeLDAP(ctx, t)
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
func (t *Target) dial(ctx context.Context, port int) (conn net.Conn, err error) {
	err = t.tryEach(ctx, func(ctx context.Context, a netip.Addr) (err error) {
		d := net.Dialer{KeepAlive: -1}
		if s := t.source(a); s.IsValid() {
			d.LocalAddr = &net.TCPAddr{IP: s.AsSlice(), Zone: s.Zone()}
		}
		conn, err = d.DialContext(ctx, "tcp", netip.AddrPortFrom(a, uint16(port)).String())
		return err
	})
	return conn, err
}

// tryEach tries the endpoint's addresses in turn until one passes, each in its
// share of the time that is left, so that a silent address leaves some for
// those after it. When none passes, the first one's error is returned.
func (t *Target) tryEach(ctx context.Context, try func(context.Context, netip.Addr) error) error {
	var addrs []netip.Addr
	if t.Name != nil {
		addrs = t.Name.Addresses()
	} else if a, err := netip.ParseAddr(t.Host); err == nil {
		addrs = []netip.Addr{a}
	}
	if len(addrs) == 0 {
		return &net.DNSError{Err: "no address is known", Name: t.Host, IsNotFound: true}
	}
	var first error
	for i, a := range addrs {
		err := inShare(ctx, len(addrs)-i, func(ctx context.Context) error { return try(ctx, a) })
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
		if ctx.Err() != nil {
			break
		}
	}
	return first
}

// inShare calls f with one of so many shares of the time that ctx leaves.
func inShare(ctx context.Context, shares int, f func(context.Context) error) error {
	if deadline, ok := ctx.Deadline(); ok && shares > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(shares))
		defer cancel()
	}
	return f(ctx)
}

// source returns what a probe of an address comes from; an invalid address
// where that is the kernel's choice.
func (t *Target) source(a netip.Addr) netip.Addr {
	for _, s := range t.SourceAddresses {
		if s.Unmap().Is4() == a.Unmap().Is4() {
			return s.Unmap()
		}
	}
	return netip.Addr{}
}

// host returns the Host of requests: the endpoint's own, else the monitor's,
// else that of clients where they are simulated, else the address with its port where that is not the scheme's.
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

// ownHost returns the Host that the endpoint, the monitor or the load balancer
// sets, "" for none.
func (t *Target) ownHost() string {
	if t.HostHeader != "" {
		return t.HostHeader
	}
	if v := t.Monitor.Header["Host"]; len(v) > 0 {
		return v[0]
	}
	return t.Zone
}

// tlsConfig returns how to speak TLS with the endpoint. An IP address is
// verified and, as RFC 6066 has it, not sent as a server name.
func (t *Target) tlsConfig(protocols ...string) *tls.Config {
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
		NextProtos:         protocols,
		MinVersion:         tls.VersionTLS12,
	}
	if len(t.Pins) > 0 { // whatever else is not verified
		c.VerifyConnection = func(s tls.ConnectionState) error {
			return model.CheckPins(t.Pins, s.PeerCertificates[0].RawSubjectPublicKeyInfo)
		}
	}
	if t.Certificate != nil {
		// As traffic does: Certificates would show it only to endpoints that
		// list its issuer.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.Certificate, nil }
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
