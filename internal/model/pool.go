package model

import (
	"strings"
	"time"
)

// PoolProtocol is how endpoints are spoken to at layer 7.
type PoolProtocol string

// The pool protocols.
const (
	PoolHTTP  PoolProtocol = "http"
	PoolHTTPS PoolProtocol = "https"
	PoolH2    PoolProtocol = "h2"
	PoolH2C   PoolProtocol = "h2c"
	PoolAuto  PoolProtocol = "auto"
)

// Values lists the valid protocols.
func (PoolProtocol) Values() []string { return []string{"http", "https", "h2", "h2c", "auto"} }

// OverTLS reports whether endpoints are spoken to over TLS.
func (p PoolProtocol) OverTLS() bool { return p == PoolHTTPS || p == PoolH2 || p == PoolAuto }

// EndpointPolicy is the choice of an endpoint in a pool.
type EndpointPolicy string

// The endpoint steering policies.
const (
	EndpointRandom                   EndpointPolicy = "random"
	EndpointHash                     EndpointPolicy = "hash"
	EndpointLeastOutstandingRequests EndpointPolicy = "least_outstanding_requests"
	EndpointLeastConnections         EndpointPolicy = "least_connections"
	EndpointRoundRobin               EndpointPolicy = "round_robin"
	EndpointRingHash                 EndpointPolicy = "ring_hash"
	EndpointMaglev                   EndpointPolicy = "maglev"
)

// Values lists the valid policies.
func (EndpointPolicy) Values() []string {
	return []string{"random", "hash", "least_outstanding_requests", "least_connections", "round_robin", "ring_hash", "maglev"}
}

// BalancingMode says what a pool's capacity is counted in.
type BalancingMode string

// The balancing modes.
const (
	BalanceConnection  BalancingMode = "connection"
	BalanceUtilization BalancingMode = "utilization"
	BalanceRate        BalancingMode = "rate"
)

// Values lists the valid modes.
func (BalancingMode) Values() []string { return []string{"connection", "utilization", "rate"} }

// Pool is a set of endpoints that are alike, in one place.
type Pool struct {
	// Name, unique among pools: letters, digits, - and _.
	Name string `yaml:"name"`
	// Free text, up to 1024 characters.
	Description string `yaml:"description"`
	// A disabled pool gets no traffic and no probes. Default true.
	Enabled bool `yaml:"enabled"`
	// Name of the monitor that probes the endpoints. Without one, and without
	// monitor_group, health plays no part.
	Monitor string `yaml:"monitor"`
	// Name of the group of monitors that probe the endpoints; excludes monitor.
	MonitorGroup string `yaml:"monitor_group"`
	// How endpoints are spoken to by http and https listeners: http and https
	// are HTTP/1.1, h2 is HTTP/2 over TLS, h2c HTTP/2 without TLS from the
	// first byte, auto what they choose of HTTP/2 and HTTP/1.1 over TLS.
	// Default http.
	Protocol PoolProtocol `yaml:"protocol"`
	// Certificates used with protocol https, h2 and auto, and by probes that
	// speak TLS.
	TLS PoolTLS `yaml:"tls"`
	// The health threshold: with fewer healthy endpoints the pool is out of
	// all steering; 0 to the number of endpoints. Default 1.
	MinimumEndpoints int `yaml:"minimum_endpoints"`
	// Degrees north, -90 to 90; for proximity steering. Given together with
	// longitude.
	Latitude *float64 `yaml:"latitude"`
	// Degrees east, -180 to 180. Given together with latitude.
	Longitude *float64 `yaml:"longitude"`
	// Regions that probes run from: region codes or ALL_REGIONS. Default:
	// all that have nodes.
	CheckRegions []Region `yaml:"check_regions"`
	// How an endpoint is chosen.
	EndpointSteering EndpointSteering `yaml:"endpoint_steering"`
	// Share of traffic that is turned away to other pools.
	LoadShedding LoadShedding `yaml:"load_shedding"`
	// What the pool's capacity is counted in; read by steering_policy
	// capacity. Default: no capacity.
	BalancingMode BalancingMode `yaml:"balancing_mode"`
	// Capacity in connections of the whole pool; 0 to 1000000000.
	MaxConnections int `yaml:"max_connections"`
	// Capacity in connections of each endpoint; 0 to 1000000000.
	MaxConnectionsPerEndpoint int `yaml:"max_connections_per_endpoint"`
	// Capacity in requests a second of the whole pool; 0 to 1000000000.
	MaxRate float64 `yaml:"max_rate"`
	// Capacity in requests a second of each endpoint; 0 to 1000000000.
	MaxRatePerEndpoint float64 `yaml:"max_rate_per_endpoint"`
	// Capacity as a share of what endpoints report as their limit, 0 to 1.
	MaxUtilization float64 `yaml:"max_utilization"`
	// Multiplies the capacity, 0 to 1; 0 drains the pool. Default 1.
	CapacityScaler float64 `yaml:"capacity_scaler"`
	// How long latency is measured before dynamic_latency steers by it, 0s
	// to 24h. Default 10m.
	ProfileWarmUp time.Duration `yaml:"profile_warm_up"`
	// Time for a connection to an endpoint, TLS included, 50ms to 5m.
	// Default 5s.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// How long an endpoint may bring nothing: before its answer and between
	// two parts of it; 50ms to 24h. Default 120s.
	AnswerTimeout time.Duration `yaml:"answer_timeout"`
	// How long an unused connection to an endpoint is kept, 0s to 1h. 0 keeps
	// none. Default 60s.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// Unused connections kept for each endpoint, 0 to 100000, divided among
	// the event loops; HTTP/2 connections, which requests share, are not
	// counted. Default 1024.
	MaxIdleConnections int `yaml:"max_idle_connections"`
	// What may be open at each endpoint.
	EndpointLimits EndpointLimits `yaml:"endpoint_limits"`
	// How long an endpoint that was down, or is new, takes less than its share,
	// rising from a tenth of it, where shares go by weight; 0s to 1h. Default 0s.
	SlowStart time.Duration `yaml:"slow_start"`
	// Endpoints that fail requests are taken out for a while.
	OutlierDetection OutlierDetection `yaml:"outlier_detection"`
	// The endpoints, at least one.
	Endpoints []Endpoint `yaml:"endpoints"`
}

// SetDefaults fills in what holds when a key is left out.
func (p *Pool) SetDefaults() {
	p.Enabled = true
	p.Protocol = PoolHTTP
	p.MinimumEndpoints = 1
	p.EndpointSteering.SetDefaults()
	p.LoadShedding.SetDefaults()
	p.CapacityScaler = 1
	p.ProfileWarmUp = 10 * time.Minute
	p.ConnectTimeout = 5 * time.Second
	p.AnswerTimeout = 120 * time.Second
	p.IdleTimeout = 60 * time.Second
	p.MaxIdleConnections = 1024
	p.EndpointLimits.SetDefaults()
	p.OutlierDetection.SetDefaults()
}

// OutlierDetection takes out endpoints by how requests fare there, whatever probes
// say. It is off unless one of the first two is set.
type OutlierDetection struct {
	// Failures in a row to connect to an endpoint or to get an answer from it, 0
	// to 1000. Default 0: not looked at.
	ConsecutiveFailures int `yaml:"consecutive_failures"`
	// Share of the requests of an interval that fail or are answered with a
	// status from 500 on, 0 to 100. Default 0: not looked at.
	ErrorPercent int `yaml:"error_percent"`
	// Requests at an endpoint in an interval from which on error_percent is
	// looked at, 1 to 1000000. Default 100.
	MinimumRequests int `yaml:"minimum_requests"`
	// The interval of error_percent, 1s to 10m. Default 10s.
	Interval time.Duration `yaml:"interval"`
	// How long an endpoint is out, 1s to 1h; twice as long the second time in a
	// row, and so on up to ten times. Default 30s.
	EjectionTime time.Duration `yaml:"ejection_time"`
	// Share of the enabled endpoints of the pool that may be out at once, 1 to
	// 100. Default 50.
	MaxEjectedPercent int `yaml:"max_ejected_percent"`
}

// SetDefaults fills in what holds when a key is left out.
func (o *OutlierDetection) SetDefaults() {
	o.MinimumRequests, o.Interval, o.EjectionTime, o.MaxEjectedPercent = 100, 10*time.Second, 30*time.Second, 50
}

// On reports whether anything is looked at.
func (o *OutlierDetection) On() bool { return o.ConsecutiveFailures > 0 || o.ErrorPercent > 0 }

// EndpointLimits bound what this node has open at each endpoint of a pool.
type EndpointLimits struct {
	// Requests that are open at once, WebSockets among them, 0 to 1000000; others
	// go to another endpoint, or wait. Default 0: no bound.
	Requests int `yaml:"requests"`
	// Connections that are open at once, unused ones among them, 0 to 1000000.
	// Default 0: no bound.
	Connections int `yaml:"connections"`
	// Requests that wait at an endpoint at most, while all of its pool have no
	// room, 0 to 100000; further ones get 503. Default 128.
	Queue int `yaml:"queue"`
	// How long a request waits before it gets 503, 0s to 5m. Default 5s.
	QueueTimeout time.Duration `yaml:"queue_timeout"`
}

// SetDefaults fills in what holds when a key is left out.
func (l *EndpointLimits) SetDefaults() { l.Queue, l.QueueTimeout = 128, 5*time.Second }

// PoolTLS is how certificates are handled between Fairlead and endpoints.
type PoolTLS struct {
	// PEM file with the authorities that may sign endpoints' certificates.
	// Default: those of the system.
	CA string `yaml:"ca"`
	// PEM file with the certificate that Fairlead shows to endpoints; needs
	// key.
	Certificate string `yaml:"certificate"`
	// PEM file with that certificate's key.
	Key string `yaml:"key"`
	// Name that is asked for and verified. Default: the endpoint's Host
	// header, else the host of its address.
	ServerName string `yaml:"server_name"`
	// Public keys that endpoints' certificates may have, at most 16: sha256/ and
	// the base64 of the SHA-256 of the SubjectPublicKeyInfo. A certificate must
	// be valid as well. Default: any key.
	Pins []string `yaml:"pins"`
}

// Empty reports whether nothing is declared.
func (t *PoolTLS) Empty() bool { return t.ID() == (&PoolTLS{}).ID() }

// ID tells one declaration from another.
func (t *PoolTLS) ID() string {
	return strings.Join(append([]string{t.CA, t.Certificate, t.Key, t.ServerName}, t.Pins...), "\x00")
}

// EndpointSteering says how an endpoint of a pool is chosen.
type EndpointSteering struct {
	// The policy. Default random.
	Policy EndpointPolicy `yaml:"policy"`
}

// SetDefaults fills in what holds when a key is left out.
func (s *EndpointSteering) SetDefaults() { s.Policy = EndpointRandom }

// ShedPolicy is how the requests to turn away are picked.
type ShedPolicy string

// The shedding policies.
const (
	ShedRandom ShedPolicy = "random"
	ShedHash   ShedPolicy = "hash"
)

// Values lists the valid policies.
func (ShedPolicy) Values() []string { return []string{"random", "hash"} }

// LoadShedding turns a share of a pool's traffic away to other pools.
type LoadShedding struct {
	// Share of traffic without a session, 0 to 100. Default 0.
	DefaultPercent float64 `yaml:"default_percent"`
	// random: each request by chance; hash: always the same clients.
	// Default random.
	DefaultPolicy ShedPolicy `yaml:"default_policy"`
	// Share of existing sessions, 0 to 100. Default 0.
	SessionPercent float64 `yaml:"session_percent"`
	// Only hash. Default hash.
	SessionPolicy ShedPolicy `yaml:"session_policy"`
}

// SetDefaults fills in what holds when a key is left out.
func (s *LoadShedding) SetDefaults() { s.DefaultPolicy, s.SessionPolicy = ShedRandom, ShedHash }

// Endpoint is one address that takes traffic.
type Endpoint struct {
	// Name, unique in its pool: letters, digits, -, _ and dots.
	Name string `yaml:"name"`
	// host, host:port, an IPv4 or IPv6 address, or [IPv6]:port. Without a
	// port, the protocol's: 80 or 443.
	Address string `yaml:"address"`
	// Share of the pool's traffic, relative to the sum of the weights; 0 to 1
	// in steps of 0.01. 0 takes no traffic and is still probed. Default 1.
	Weight float64 `yaml:"weight"`
	// A disabled endpoint gets no traffic and no probes. Default true.
	Enabled bool `yaml:"enabled"`
	// Request headers for this endpoint, in traffic and in probes. Only Host
	// with exactly one value.
	Header map[string][]string `yaml:"header" secret:"true"`
	// Network through whose tunnel the address is reached.
	VirtualNetwork string `yaml:"virtual_network"`
	// true: DNS answers have the addresses of the host name. false: they are a
	// CNAME record to it, where the endpoint alone is answered, for a name that has
	// no other records. Default true.
	FlattenCNAME bool `yaml:"flatten_cname"`
}

// SetDefaults fills in what holds when a key is left out.
func (e *Endpoint) SetDefaults() { e.Weight, e.Enabled, e.FlattenCNAME = 1, true, true }

// HostHeader returns the Host that this endpoint is sent, or "" for the
// client's own.
func (e *Endpoint) HostHeader() string {
	if v := e.Header["Host"]; len(v) == 1 {
		return v[0]
	}
	return ""
}
