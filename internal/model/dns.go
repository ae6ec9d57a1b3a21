package model

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// DNSOptions say how a listener answers queries.
type DNSOptions struct {
	// Bytes of an answer over UDP at most, 512 to 4096; a client may ask for
	// less. What is longer comes over TCP. Default 1232.
	UDPSize int `yaml:"udp_size"`
	// What is told to clients that ask for the name server's identifier (NSID),
	// up to 128 bytes. Default: nothing.
	NSID string `yaml:"nsid"`
	// Answer to version.bind and version.server in class CHAOS, up to 254 bytes.
	// Default: refused.
	Version string `yaml:"version"`
	// Answer to id.server and hostname.bind in class CHAOS, up to 254 bytes.
	// Default: refused.
	Identity string `yaml:"identity"`
	// DNS cookies (RFC 7873, RFC 9018). Default true.
	Cookies bool `yaml:"cookies"`
	// File with up to three secrets of cookies, 32 hexadecimal digits on a line
	// each: the first makes cookies, all are accepted. Nodes that share an
	// address share them. Default: one that this process makes up.
	CookieSecrets string `yaml:"cookie_secrets"`
	// Limit on the answers over UDP to one network, against being used to flood
	// others. Default: none.
	RateLimit *DNSRateLimit `yaml:"rate_limit"`
}

// SetDefaults fills in what holds when a key is left out.
func (d *DNSOptions) SetDefaults() { d.UDPSize, d.Cookies = 1232, true }

// DNSRateLimit bounds the answers over UDP to one network. Clients with a valid
// cookie are exempt, as their address is known to be theirs.
type DNSRateLimit struct {
	// Answers of one kind (the same name; denials, or refusals, of one zone) a
	// second to one network, 1 to 100000; twice as many within one second after
	// a quiet one.
	ResponsesPerSecond int `yaml:"responses_per_second"`
	// Of the answers above the limit one in so many, 0 to 100, is sent truncated,
	// so that a client that is real asks over TCP; the others are dropped. 1
	// truncates all, 0 drops all. Default 2.
	Slip int `yaml:"slip"`
	// Bits of an IPv4 address that are its network, 8 to 32. Default 24.
	IPv4Prefix int `yaml:"ipv4_prefix"`
	// Bits of an IPv6 address that are its network, 16 to 128. Default 56.
	IPv6Prefix int `yaml:"ipv6_prefix"`
	// Counts that are kept at a time, 1024 to 16777216, of 12 bytes each. Default
	// 131072.
	TableSize int `yaml:"table_size"`
	// Prefixes of clients that are not limited. Default: none.
	Exempt []netip.Prefix `yaml:"exempt"`
}

// SetDefaults fills in what holds when a key is left out.
func (r *DNSRateLimit) SetDefaults() {
	r.Slip, r.IPv4Prefix, r.IPv6Prefix, r.TableSize = 2, 24, 56, 1<<17
}

// MaxCookieSecrets is the size of the largest file of cookie secrets, in bytes.
const MaxCookieSecrets = 4 << 10

// CookieSecrets reads the text of a file of cookie secrets. Errors do not show any
// part of one.
func CookieSecrets(text []byte) (secrets [][16]byte, err error) {
	const most = 3
	if len(text) > MaxCookieSecrets {
		return nil, fmt.Errorf("want a file of at most %d bytes", MaxCookieSecrets)
	}
	for i, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		var s [16]byte
		if len(line) != 2*len(s) {
			return nil, fmt.Errorf("line %d: want 32 hexadecimal digits", i+1)
		}
		if _, err := hex.Decode(s[:], []byte(line)); err != nil {
			return nil, fmt.Errorf("line %d: want 32 hexadecimal digits", i+1)
		}
		secrets = append(secrets, s)
	}
	switch {
	case len(secrets) == 0:
		return nil, errors.New("holds no secret: want 32 hexadecimal digits on a line")
	case len(secrets) > most:
		return nil, fmt.Errorf("%d secrets: want at most %d", len(secrets), most)
	}
	return secrets, nil
}
