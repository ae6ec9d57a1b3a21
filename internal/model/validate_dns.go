package model

import "strings"

// dnsOptions checks how a listener answers queries.
func (v *validator) dnsOptions(at Place, l *Listener) {
	d := &l.DNS
	within(v, at.Key("udp_size"), d.UDPSize, 512, 4096)
	if r := d.RateLimit; r != nil {
		v.dnsRateLimit(at.Key("rate_limit"), r)
	}
	if !l.SpeaksDNS() {
		var defaults DNSOptions
		defaults.SetDefaults()
		if *d != defaults {
			v.bad(at, "given with protocol %s: want it with dns, dot, doh or doq only", l.Protocol)
		}
		return
	}
	v.dnsText(at.Key("nsid"), d.NSID, 128)
	v.dnsText(at.Key("version"), d.Version, 254)
	v.dnsText(at.Key("identity"), d.Identity, 254)
	if d.CookieSecrets != "" && !d.Cookies {
		v.bad(at.Key("cookie_secrets"), "given with cookies: false: want one of the two")
	}
	if d.RateLimit != nil && l.Protocol != ListenerDNS {
		v.bad(at.Key("rate_limit"), "given with protocol %s: want it with dns only, as it is about UDP", l.Protocol)
	}
}

func (v *validator) dnsRateLimit(at Place, r *DNSRateLimit) {
	if r.ResponsesPerSecond == 0 {
		v.bad(at.Key("responses_per_second"), "missing: want 1 to 100000")
	} else {
		within(v, at.Key("responses_per_second"), r.ResponsesPerSecond, 1, 100_000)
	}
	within(v, at.Key("slip"), r.Slip, 0, 100)
	within(v, at.Key("ipv4_prefix"), r.IPv4Prefix, 8, 32)
	within(v, at.Key("ipv6_prefix"), r.IPv6Prefix, 16, 128)
	within(v, at.Key("table_size"), r.TableSize, 1024, 1<<24)
	for i, p := range r.Exempt {
		at := at.Key("exempt").Item(i, "")
		switch {
		case !p.IsValid():
			v.bad(at, "missing: want an IP prefix such as 10.0.0.0/8")
		case p != p.Masked():
			v.wrong(at, p, "want no bits behind the prefix; did you mean %q?", p.Masked())
		}
	}
}

// dnsLimits finds bounds that queries have nothing to do with.
func (v *validator) dnsLimits(at Place, l *Listener) {
	if l.Protocol != ListenerDNS && l.Protocol != ListenerDoT {
		return
	}
	var d Limits
	d.SetDefaults()
	for _, k := range []struct {
		key   string
		given bool
	}{
		{"header_bytes", l.Limits.HeaderBytes != d.HeaderBytes},
		{"header_count", l.Limits.HeaderCount != d.HeaderCount},
		{"body_min_rate", l.Limits.BodyMinRate != d.BodyMinRate},
		{"upgrade_idle_timeout", l.Limits.UpgradeIdleTimeout != d.UpgradeIdleTimeout},
		{"concurrent_streams", l.Limits.ConcurrentStreams != d.ConcurrentStreams},
	} {
		if k.given {
			v.bad(at.Key(k.key), "given with protocol %s, whose queries have no such thing", l.Protocol)
		}
	}
}

func (v *validator) dnsText(at Place, text string, most int) {
	switch {
	case len(text) > most:
		v.bad(at, "%d bytes long: want at most %d", len(text), most)
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		v.bad(at, "want no control characters")
	}
}
