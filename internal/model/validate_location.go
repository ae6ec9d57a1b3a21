package model

import "net/netip"

// location checks where the clients of DNS queries are taken to be.
func (v *validator) location(at Place, l *LocationStrategy) {
	at = at.Key("location_strategy")
	enum(v, at.Key("prefer_ecs"), l.PreferECS)
	if l.Mode != "" {
		enum(v, at.Key("mode"), l.Mode)
	}
	if l.Mode == LocateResolverIP && len(v.c.Geo.Databases) == 0 {
		v.warn(at.Key("mode"), "resolver_ip without geo.databases: nothing tells where resolvers are")
	}
}

// dnsSettings warns of settings of a load balancer that only DNS reads and for which
// it does not answer.
func (v *validator) dnsSettings(at Place, lb *LoadBalancer) {
	var plain LoadBalancer
	plain.SetDefaults()
	v.onlyInDNS(at, lb, lb.TTL != plain.TTL, lb.LocationStrategy != plain.LocationStrategy)
}

// onlyInDNS warns where ttl or location_strategy is given, by lb or by one of its
// rules, and DNS does not answer for lb.
func (v *validator) onlyInDNS(at Place, lb *LoadBalancer, ttl, location bool) {
	why := ""
	switch {
	case lb.Proxied:
		why = "proxied: true"
	case v.zoneOf(CanonicalHost(lb.Name)) == "" && v.c.State == nil:
		why = "a name that no zone holds"
	default:
		return
	}
	if ttl {
		v.warn(at.Key("ttl"), "has no effect with %s", why)
	}
	if location {
		v.warn(at.Key("location_strategy"), "has no effect with %s", why)
	}
}

// flattening warns of flatten_cname where there is no name.
func (v *validator) flattening(at Place, e *Endpoint) {
	if e.FlattenCNAME {
		return
	}
	if host, _, err := SplitAddress(e.Address); err == nil {
		if _, err := netip.ParseAddr(host); err == nil {
			v.warn(at.Key("flatten_cname"), "false has no effect: %s is an address, not a host name", host)
		}
	}
}

// ecsScope checks the bounds of a zone's scopes.
func (v *validator) ecsScope(at Place, s *ECSScope) {
	at = at.Key("ecs_scope")
	for _, f := range [...]struct {
		min, max       string
		low, high, top int
	}{{"ipv4_min", "ipv4_max", s.IPv4Min, s.IPv4Max, 32}, {"ipv6_min", "ipv6_max", s.IPv6Min, s.IPv6Max, 128}} {
		if within(v, at.Key(f.min), f.low, 0, f.top) && within(v, at.Key(f.max), f.high, 0, f.top) && f.low > f.high {
			v.bad(at.Key(f.min), "%d is more than %s (%d)", f.low, f.max, f.high)
		}
	}
}

// affinityWithoutProxy checks the session affinity of a load balancer that no HTTP
// listener serves. DNS keeps an endpoint by address, and layer 4 does; neither has
// more to go by.
func (v *validator) affinityWithoutProxy(at Place, lb *LoadBalancer) {
	kind := lb.SessionAffinity
	dns := v.zoneOf(CanonicalHost(lb.Name)) != ""
	switch {
	case kind == AffinityIPCookie && dns:
	case dns && (kind == AffinityCookie || kind == AffinityHeader), dns && kind == AffinityClientIP && !v.onLayer4[lb.Name]:
		v.warn(at, "%s acts as none in DNS: want ip_cookie for the same endpoint for the same client", kind)
	case kind == AffinityCookie || kind == AffinityIPCookie || kind == AffinityHeader:
		v.wrong(at, kind, "only HTTP has cookies and headers: want proxied: true, or client_ip")
	}
}
