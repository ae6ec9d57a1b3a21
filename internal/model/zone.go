package model

import "time"

// MaxZoneFile is the size of the largest zone file, in bytes.
const MaxZoneFile = 256 << 20

// Zone is a part of the DNS that this node is authoritative for.
type Zone struct {
	// Name of the zone, such as example.com. Unique among zones.
	Name string `yaml:"name"`
	// Zone file (RFC 1035) with all records, those of SOA and NS included.
	// Excludes nameservers, soa and records. Default: the zone is declared here.
	File string `yaml:"file"`
	// Names of the zone's name servers, at least one. Default: those of file.
	Nameservers []string `yaml:"nameservers"`
	// What the zone says about itself.
	SOA SOA `yaml:"soa"`
	// Sign answers. Default false.
	DNSSEC bool `yaml:"dnssec"`
	// Bounds on how many clients share an answer that differs from client to client
	// (the scope of RFC 7871).
	ECSScope ECSScope `yaml:"ecs_scope"`
	// How answers are signed. Only with dnssec: true.
	DNSSECOptions *DNSSEC `yaml:"dnssec_options"`
	// The records, beside those that load balancers make.
	Records []Record `yaml:"records"`
}

// SetDefaults fills in what holds when a key is left out.
func (z *Zone) SetDefaults() {
	z.SOA.SetDefaults()
	z.ECSScope.SetDefaults()
}

// ECSScope bounds the scopes of answers that depend on the client subnet of a query.
type ECSScope struct {
	// Least bits of an IPv4 scope, 0 to 32. Default 0.
	IPv4Min int `yaml:"ipv4_min"`
	// Most bits of an IPv4 scope, ipv4_min to 32. Below what decides, clients share
	// answers that are meant for others. Default 32.
	IPv4Max int `yaml:"ipv4_max"`
	// Least bits of an IPv6 scope, 0 to 128. Default 0.
	IPv6Min int `yaml:"ipv6_min"`
	// Most bits of an IPv6 scope, ipv6_min to 128. Default 128.
	IPv6Max int `yaml:"ipv6_max"`
}

// SetDefaults fills in what holds when a key is left out.
func (s *ECSScope) SetDefaults() { s.IPv4Max, s.IPv6Max = 32, 128 }

// SOA is the start of authority of a zone. Its serial follows the content.
type SOA struct {
	// Name of the primary name server. Default: the first of nameservers.
	Primary string `yaml:"primary"`
	// Mail address of who is responsible. Default hostmaster at the zone.
	Contact string `yaml:"contact"`
	// How often secondaries ask for changes, 1s to 168h in whole seconds.
	// Default 1h.
	Refresh time.Duration `yaml:"refresh"`
	// How soon they ask again after a failure, 1s to 168h in whole seconds.
	// Default 15m.
	Retry time.Duration `yaml:"retry"`
	// How long they answer without having reached the primary, 1s to 2016h in
	// whole seconds. Default 336h.
	Expire time.Duration `yaml:"expire"`
	// How long it may be kept that something does not exist, 1s to 168h in whole
	// seconds. Default 300s.
	Minimum time.Duration `yaml:"minimum"`
	// TTL of the SOA record and of the NS records of the zone, 1s to 168h in
	// whole seconds. Default 1h.
	TTL time.Duration `yaml:"ttl"`
}

// SetDefaults fills in what holds when a key is left out.
func (s *SOA) SetDefaults() {
	s.Refresh, s.Retry, s.Expire = time.Hour, 15*time.Minute, 336*time.Hour
	s.Minimum, s.TTL = 300*time.Second, time.Hour
}

// Record is one DNS resource record.
type Record struct {
	// Owner relative to the zone, or @ for the zone itself.
	Name string `yaml:"name"`
	// A, AAAA, CNAME, DNAME, MX, TXT, NS, SRV, CAA, PTR, NAPTR, TLSA, SSHFP,
	// HTTPS, SVCB or DS; others as TYPE with their number (RFC 3597).
	Type string `yaml:"type"`
	// The data in the form of a zone file; \# LENGTH HEX for types that have none.
	Content string `yaml:"content"`
	// How long answers may be kept, 1s to 168h in whole seconds. Default 300s.
	TTL time.Duration `yaml:"ttl"`
}

// SetDefaults fills in what holds when a key is left out.
func (r *Record) SetDefaults() { r.TTL = 300 * time.Second }
