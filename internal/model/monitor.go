package model

import "time"

// MonitorType is the protocol of a probe.
type MonitorType string

// The monitor types.
const (
	MonitorHTTP     MonitorType = "http"
	MonitorHTTPS    MonitorType = "https"
	MonitorTCP      MonitorType = "tcp"
	MonitorUDPICMP  MonitorType = "udp_icmp"
	MonitorICMPPing MonitorType = "icmp_ping"
	MonitorSMTP     MonitorType = "smtp"
	MonitorLDAP     MonitorType = "ldap"
	MonitorGRPC     MonitorType = "grpc"
)

// Values lists the valid types.
func (MonitorType) Values() []string {
	return []string{"http", "https", "tcp", "udp_icmp", "icmp_ping", "smtp", "ldap", "grpc"}
}

// Monitor says how the health of endpoints is probed.
type Monitor struct {
	// Name, unique among monitors: letters, digits, - and _.
	Name string `yaml:"name"`
	// Free text, up to 1024 characters.
	Description string `yaml:"description"`
	// Protocol of the probe. Default http.
	Type MonitorType `yaml:"type"`
	// GET or HEAD (any method is accepted); http and https only. Default GET.
	Method string `yaml:"method"`
	// Path and query of the request; for grpc the service asked about.
	// Default / (grpc: the whole server).
	Path string `yaml:"path"`
	// Request headers; http, https and grpc only. Host is the name asked
	// for unless the endpoint has its own; User-Agent cannot be set.
	Header map[string][]string `yaml:"header" secret:"true"`
	// Port that is probed, 0 to 65535. Default 0: the endpoint's own.
	Port int `yaml:"port"`
	// Codes that pass: 200, a class 2xx, a range 200-204, or a list of these
	// with commas; http and https only. Default 2xx.
	ExpectedCodes string `yaml:"expected_codes"`
	// Text that the first 100 KiB of the body must hold, in any case; http
	// and https only. Default: not looked at.
	ExpectedBody string `yaml:"expected_body"`
	// Follow redirects to the end (at most 10) and judge the last answer;
	// http and https only. Default false.
	FollowRedirects bool `yaml:"follow_redirects"`
	// Do not verify certificates; https and grpc over TLS. Default false.
	AllowInsecure bool `yaml:"allow_insecure"`
	// Time between probes, 50ms to 1h. Default 60s.
	Interval time.Duration `yaml:"interval"`
	// Time for one attempt, 50ms to 1m. Default 5s.
	Timeout time.Duration `yaml:"timeout"`
	// Further attempts, at once and only after a time-out, before the check
	// counts as failed; 0 to 5. Default 2.
	Retries int `yaml:"retries"`
	// Checks in a row that must pass before an unhealthy endpoint is healthy;
	// 0 to 100, where 0 and 1 both mean at once. Default 0.
	ConsecutiveUp int `yaml:"consecutive_up"`
	// Checks in a row that must fail before a healthy endpoint is unhealthy;
	// 0 to 100, where 0 and 1 both mean at once. Default 0.
	ConsecutiveDown int `yaml:"consecutive_down"`
}

// SetDefaults fills in what holds when a key is left out.
func (m *Monitor) SetDefaults() {
	m.Type = MonitorHTTP
	m.Interval = 60 * time.Second
	m.Timeout = 5 * time.Second
	m.Retries = 2
}

// SpeaksHTTP reports whether the probe is an HTTP request.
func (m *Monitor) SpeaksHTTP() bool { return m.Type == MonitorHTTP || m.Type == MonitorHTTPS }
