package model

import (
	"net/netip"
	"time"
)

// ListenerProtocol is what a listener speaks with clients.
type ListenerProtocol string

// The protocols of listeners.
const (
	ListenerHTTP           ListenerProtocol = "http"
	ListenerHTTPS          ListenerProtocol = "https"
	ListenerDNS            ListenerProtocol = "dns"
	ListenerDoT            ListenerProtocol = "dot"
	ListenerDoH            ListenerProtocol = "doh"
	ListenerDoQ            ListenerProtocol = "doq"
	ListenerTCP            ListenerProtocol = "tcp"
	ListenerUDP            ListenerProtocol = "udp"
	ListenerTLS            ListenerProtocol = "tls"
	ListenerTLSPassthrough ListenerProtocol = "tls_passthrough"
)

// Values lists the valid protocols.
func (ListenerProtocol) Values() []string {
	return []string{"http", "https", "dns", "dot", "doh", "doq", "tcp", "udp", "tls", "tls_passthrough"}
}

// ProxyProtocol is the header that endpoints are sent before a connection's
// first byte.
type ProxyProtocol string

// The PROXY protocol settings.
const (
	ProxyOff    ProxyProtocol = "off"
	ProxyV1     ProxyProtocol = "v1"
	ProxyV2     ProxyProtocol = "v2"
	ProxySimple ProxyProtocol = "simple"
)

// Values lists the valid settings.
func (ProxyProtocol) Values() []string { return []string{"off", "v1", "v2", "simple"} }

// Listener is one address, port and protocol that is open to clients.
type Listener struct {
	// Name, unique among listeners: letters, digits, - and _.
	Name string `yaml:"name"`
	// host:port, :port for all addresses, or [IPv6]:port. Port 0 lets the
	// kernel choose.
	Address string `yaml:"address"`
	// What is spoken with clients. http and https serve every load balancer
	// with proxied: true, chosen by Host; the others have one of their own.
	Protocol ListenerProtocol `yaml:"protocol"`
	// HTTP/3: QUIC on the UDP port of the same address and number, of which
	// answers over HTTP/1.1 and HTTP/2 tell (Alt-Svc); https only. Default false.
	HTTP3 bool `yaml:"http3"`
	// Certificates, chosen by the name that the client asks for; the first is
	// used when none fits. https needs one, or acme; tls, dot, doh and doq need
	// one.
	Certificates []CertificateFiles `yaml:"certificates"`
	// Host names whose certificates are obtained from the authority that acme
	// names, and renewed; https only. Exact names, no wildcards.
	ACME []string `yaml:"acme"`
	// Lowest TLS version accepted: "1.2" or "1.3". Default "1.2". QUIC has
	// nothing below 1.3.
	MinTLSVersion TLSVersion `yaml:"min_tls_version"`
	// Certificates that are asked of clients; https only. Default: none.
	ClientCertificates *ClientCertificates `yaml:"client_certificates"`
	// Prefixes whose X-Forwarded-For, or PROXY protocol, is believed. Default:
	// nobody's.
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies"`
	// Connections of trusted_proxies begin with a header of the PROXY protocol,
	// version 1 or 2, which says who the client is; those of others do not. http
	// and https only. Default false.
	AcceptProxyProtocol bool `yaml:"accept_proxy_protocol"`
	// Name of a header: what becomes of a request that has it and comes from one
	// of trusted_proxies is told in the log; http and https only. Default: none.
	ExplainHeader string `yaml:"explain_header"`
	// The load balancer that takes all traffic; layer 4 only.
	LoadBalancer string `yaml:"load_balancer"`
	// Header that endpoints are sent; tcp, tls, tls_passthrough: off, v1 or
	// v2; udp: off, v2 or simple. Default off.
	ProxyProtocol ProxyProtocol `yaml:"proxy_protocol"`
	// Choice of load balancer by the server name of the TLS handshake; tls
	// and tls_passthrough only, excludes load_balancer.
	TLSRoutes []TLSRoute `yaml:"tls_routes"`
	// Bounds on what clients may do.
	Limits Limits `yaml:"limits"`
	// How queries are answered; dns, dot, doh and doq only.
	DNS DNSOptions `yaml:"dns"`
}

// SetDefaults fills in what holds when a key is left out.
func (l *Listener) SetDefaults() {
	l.MinTLSVersion = TLS12
	l.ProxyProtocol = ProxyOff
	l.Limits.SetDefaults()
	l.DNS.SetDefaults()
}

// TLSVersion is the lowest version of TLS that is accepted.
type TLSVersion string

// The TLS versions.
const (
	TLS12 TLSVersion = "1.2"
	TLS13 TLSVersion = "1.3"
)

// Values lists the valid versions.
func (TLSVersion) Values() []string { return []string{"1.2", "1.3"} }

// CertificateFiles is a certificate with its key.
type CertificateFiles struct {
	// PEM file: the certificate, then its intermediates.
	Certificate string `yaml:"certificate"`
	// PEM file with the certificate's key.
	Key string `yaml:"key"`
}

// ClientCertificates says what certificates clients show.
type ClientCertificates struct {
	// PEM file with the authorities that sign them; read again when it changes.
	CA string `yaml:"ca"`
	// require: a client without a certificate is refused; request: it may do
	// without. One that is shown must be valid in either case. Default require.
	Mode ClientCertificateMode `yaml:"mode"`
	// Header in which endpoints are told the certificate's subject, such as
	// X-Client-Certificate-Subject. Clients of no listener can send it. Default: none.
	SubjectHeader string `yaml:"subject_header"`
}

// SetDefaults fills in what holds when a key is left out.
func (c *ClientCertificates) SetDefaults() { c.Mode = ClientCertificateRequire }

// ClientCertificateMode says whether clients must show a certificate.
type ClientCertificateMode string

// The modes.
const (
	ClientCertificateRequire ClientCertificateMode = "require"
	ClientCertificateRequest ClientCertificateMode = "request"
)

// Values lists the valid modes.
func (ClientCertificateMode) Values() []string { return []string{"require", "request"} }

// TLSRoute sends the connections for some server names to load balancers.
type TLSRoute struct {
	// Server names: exact, or *.suffix for any name below it.
	Hosts []string `yaml:"hosts"`
	// One load balancer; excludes load_balancers.
	LoadBalancer string `yaml:"load_balancer"`
	// Several load balancers that share the connections by weight.
	LoadBalancers []WeightedLoadBalancer `yaml:"load_balancers"`
}

// WeightedLoadBalancer is a load balancer's share of a TLS route.
type WeightedLoadBalancer struct {
	// Name of the load balancer.
	Name string `yaml:"name"`
	// Share, relative to the sum of the route's weights; 0 to 1000000.
	// Default 1.
	Weight int `yaml:"weight"`
}

// SetDefaults fills in what holds when a key is left out.
func (w *WeightedLoadBalancer) SetDefaults() { w.Weight = 1 }

// Limits bound what clients of one listener may do. Each has a counter in
// the metrics.
type Limits struct {
	// Bytes of a request head, request line included, 1024 to 1048576; in
	// HTTP/2 and HTTP/3 name, value and 32 for each field. Default 32768. Above
	// it: 431, and in HTTP/1.1 the connection is closed.
	HeaderBytes int `yaml:"header_bytes"`
	// Header lines of a request, 8 to 10000. Default 128. Above it: 431.
	HeaderCount int `yaml:"header_count"`
	// Time for a whole request head, from its first byte (or from the
	// connection's start), and for a handshake of TLS or QUIC; 50ms to 10m.
	// Default 10s.
	HeaderTimeout time.Duration `yaml:"header_timeout"`
	// How long a connection may stay open between requests, 50ms to 24h.
	// Default 75s.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// How long a request body, or a gRPC stream, may bring less than
	// body_min_rate asks for, and how long a client may take nothing of an
	// answer; 50ms to 1h. Default 30s.
	BodyTimeout time.Duration `yaml:"body_timeout"`
	// Bytes a second that a request body must bring, averaged over
	// body_timeout; 0 to 1048576, 0 asks only that it does not stand still.
	// Default 64.
	BodyMinRate int `yaml:"body_min_rate"`
	// How long an upgraded connection (WebSocket) may be silent in both
	// directions, 1s to 168h. Default 1h.
	UpgradeIdleTimeout time.Duration `yaml:"upgrade_idle_timeout"`
	// Open connections of the listener, 1 to 10000000. Default 100000.
	Connections int `yaml:"connections"`
	// Open connections of one client address (IPv6: one /64), 1 to 10000000.
	// Default 4096.
	ConnectionsPerClient int `yaml:"connections_per_client"`
	// New connections a second of one client address after it had a connection
	// ended for a flood, for 10 s from then, 1 to 1000000. Default 10.
	ConnectionsAfterFlood int `yaml:"connections_after_flood"`
	// Concurrent HTTP/2 or HTTP/3 streams of one connection, 1 to 10000.
	// Default 250.
	ConcurrentStreams int `yaml:"concurrent_streams"`
}

// SetDefaults fills in what holds when a key is left out.
func (l *Limits) SetDefaults() {
	*l = Limits{
		HeaderBytes: 32 << 10, HeaderCount: 128, HeaderTimeout: 10 * time.Second,
		IdleTimeout: 75 * time.Second, BodyTimeout: 30 * time.Second, BodyMinRate: 64,
		UpgradeIdleTimeout: time.Hour,
		Connections:        100_000, ConnectionsPerClient: 4096, ConnectionsAfterFlood: 10, ConcurrentStreams: 250,
	}
}
