package model

import "time"

// Zone is a part of the DNS that this node is authoritative for.
type Zone struct {
	// Name of the zone, such as example.com. Unique among zones.
	Name string `yaml:"name"`
	// Names of the zone's name servers, at least one.
	Nameservers []string `yaml:"nameservers"`
	// Sign answers. Default false.
	DNSSEC bool `yaml:"dnssec"`
	// The records, beside those that load balancers make.
	Records []Record `yaml:"records"`
}

// Record is one DNS resource record.
type Record struct {
	// Owner relative to the zone, or @ for the zone itself.
	Name string `yaml:"name"`
	// A, AAAA, CNAME, MX, TXT, NS, SRV, CAA, PTR, NAPTR, TLSA, SSHFP, HTTPS,
	// SVCB or DS.
	Type string `yaml:"type"`
	// The data in the form of a zone file.
	Content string `yaml:"content"`
	// How long answers may be kept, 1s to 168h in whole seconds. Default 300s.
	TTL time.Duration `yaml:"ttl"`
}

// SetDefaults fills in what holds when a key is left out.
func (r *Record) SetDefaults() { r.TTL = 300 * time.Second }
