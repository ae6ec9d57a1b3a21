package model

import "time"

// DNSSEC says how the answers of a zone are signed.
type DNSSEC struct {
	// Algorithm of the keys that are made: ecdsap256sha256 (13) or ed25519 (15).
	// Default ecdsap256sha256.
	Algorithm SigningAlgorithm `yaml:"algorithm"`
	// Keys to use in place of ones that are made here: files in BIND's format,
	// K*.private with K*.key beside it. The times in them (dnssec-settime) say when
	// each is published, signs and goes. Excludes algorithm, the lifetimes, the
	// delays and what is said of the parent, but for withdraw.
	KeyFiles []string `yaml:"key_files"`
	// After what time the key that signs records (ZSK) is replaced, 24h to 43800h;
	// 0 is never. Default 720h.
	ZSKLifetime time.Duration `yaml:"zsk_lifetime"`
	// After what time the key that the parent's DS records name (KSK) is replaced,
	// 168h to 87600h; 0 is never. It goes once the parent has the new one. Default
	// 8760h.
	KSKLifetime time.Duration `yaml:"ksk_lifetime"`
	// How long a signature is valid, 72h to 2160h. Default 336h.
	SignatureValidity time.Duration `yaml:"signature_validity"`
	// How many answers per second that were never given before are signed, 10 to
	// 1000000. Default 5000.
	SignatureLimit int `yaml:"signature_limit"`
	// TTL of the DNSKEY, CDS and CDNSKEY records, 60s to 168h in whole seconds.
	// Default 1h.
	DNSKEYTTL time.Duration `yaml:"dnskey_ttl"`
	// Within what time a change is served by all servers of the zone, 0s to 168h.
	// Default 1h.
	PropagationDelay time.Duration `yaml:"propagation_delay"`
	// Addresses of those who are asked, over TCP, which DS records the parent has:
	// resolvers, or the parent's own servers. All must agree. Default: the name
	// servers of this machine.
	ParentalAgents []string `yaml:"parental_agents"`
	// Least TTL of the parent's DS records that is reckoned with, 60s to 720h.
	// Default 24h.
	ParentDSTTL time.Duration `yaml:"parent_ds_ttl"`
	// Within what time a change is served by all servers of the parent, 0s to 168h.
	// Default 1h.
	ParentPropagationDelay time.Duration `yaml:"parent_propagation_delay"`
	// true: the parent is asked, by CDS and CDNSKEY, to remove its DS records, as
	// must be before dnssec becomes false. Default false.
	Withdraw bool `yaml:"withdraw"`
}

// SigningAlgorithm is an algorithm that DNSSEC keys are for.
type SigningAlgorithm string

// Known algorithms.
const (
	ECDSAP256SHA256 SigningAlgorithm = "ecdsap256sha256"
	Ed25519         SigningAlgorithm = "ed25519"
)

// Values returns the algorithms.
func (SigningAlgorithm) Values() []string { return []string{"ecdsap256sha256", "ed25519"} }

// SetDefaults fills in what holds when a key is left out.
func (d *DNSSEC) SetDefaults() {
	d.Algorithm = ECDSAP256SHA256
	d.ZSKLifetime, d.KSKLifetime = 720*time.Hour, 8760*time.Hour
	d.SignatureValidity, d.SignatureLimit = 336*time.Hour, 5000
	d.DNSKEYTTL, d.PropagationDelay = time.Hour, time.Hour
	d.ParentDSTTL, d.ParentPropagationDelay = 24*time.Hour, time.Hour
}

// Signing returns how the answers of the zone are signed, defaults where nothing
// is said about it.
func (z *Zone) Signing() DNSSEC {
	if z.DNSSECOptions != nil {
		return *z.DNSSECOptions
	}
	var d DNSSEC
	d.SetDefaults()
	return d
}

// LongestTTL returns the greatest TTL of what the zone's answers hold, as far as it
// is declared: a zone file may have greater ones.
func (z *Zone) LongestTTL(c *Config) time.Duration {
	longest := z.SOA.TTL
	for i := range z.Records {
		longest = max(longest, z.Records[i].TTL)
	}
	origin := CanonicalHost(z.Name)
	for i := range c.LoadBalancers {
		if b := &c.LoadBalancers[i]; below(CanonicalHost(b.Name), origin) {
			longest = max(longest, b.TTL)
			for j := range b.Rules {
				if o := b.Rules[j].Overrides; o != nil {
					longest = max(longest, o.TTL)
				}
			}
		}
	}
	return longest
}
