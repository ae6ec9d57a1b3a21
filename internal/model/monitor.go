package model

import (
	"strings"
	"time"
)

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

// MonitorTLS is how the probe of a protocol that begins without TLS comes to
// speak it.
type MonitorTLS string

// The ways to TLS.
const (
	MonitorTLSAuto     MonitorTLS = "auto"
	MonitorTLSNone     MonitorTLS = "none"
	MonitorTLSStartTLS MonitorTLS = "starttls"
	MonitorTLSImplicit MonitorTLS = "implicit"
)

// Values lists the valid ways.
func (MonitorTLS) Values() []string { return []string{"auto", "none", "starttls", "implicit"} }

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
	// Ask as requests do, by the pool's protocol (also HTTP/2) and with its
	// certificates, and by the name of its load balancer where no Host is set;
	// http where the pool speaks no TLS, https where it does. Default false:
	// HTTP/1.1, whatever the pool speaks.
	SimulateZone bool `yaml:"simulate_zone"`
	// Do not verify certificates; https, and grpc, smtp and ldap over TLS.
	// Default false.
	AllowInsecure bool `yaml:"allow_insecure"`
	// How TLS begins; smtp and ldap only. none: not at all; starttls: by the
	// command of the protocol, which the endpoint must know; implicit: with the
	// first byte; auto, for smtp only: by that command where the endpoint offers
	// it. Default auto for smtp, none for ldap.
	TLS MonitorTLS `yaml:"tls"`
	// Whom an ldap monitor signs in as. Default: nobody, and the root entry is
	// asked for.
	LDAP LDAPBind `yaml:"ldap"`
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

// LDAPBind is whom an ldap monitor signs in as, by a simple bind.
type LDAPBind struct {
	// Distinguished name; needs password_file.
	BindDN string `yaml:"bind_dn"`
	// File with the password, whose last line break does not count. It is read
	// at each check.
	PasswordFile string `yaml:"password_file"`
}

// MaxPassword is how long a file with a password may be, in bytes.
const MaxPassword = 4096

// Password is the one that stands in a file: all but the line break that
// editors end files with.
func Password(file []byte) string {
	return strings.TrimSuffix(strings.TrimSuffix(string(file), "\n"), "\r")
}

// SetDefaults fills in what holds when a key is left out.
func (m *Monitor) SetDefaults() {
	m.Type = MonitorHTTP
	m.Interval = 60 * time.Second
	m.Timeout = 5 * time.Second
	m.Retries = 2
}

// WayToTLS returns how the probe comes to speak TLS where its protocol begins
// without: what tls says or means when it is left out.
func (m *Monitor) WayToTLS() MonitorTLS {
	switch {
	case m.TLS != "":
		return m.TLS
	case m.Type == MonitorSMTP:
		return MonitorTLSAuto
	}
	return MonitorTLSNone
}

// ChoosesTLS reports whether the protocol of the probe begins with TLS or
// without, as tls says.
func (m *Monitor) ChoosesTLS() bool { return m.Type == MonitorSMTP || m.Type == MonitorLDAP }

// OverTLS reports whether the probe may see a certificate, whatever the
// protocol of the pool.
func (m *Monitor) OverTLS() bool {
	return m.Type == MonitorHTTPS || m.ChoosesTLS() && m.WayToTLS() != MonitorTLSNone
}

// SpeaksHTTP reports whether the probe is an HTTP request.
func (m *Monitor) SpeaksHTTP() bool { return m.Type == MonitorHTTP || m.Type == MonitorHTTPS }
