package model

import (
	"maps"
	"mime"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

func (v *validator) eachLoadBalancer() {
	names := uniques{}
	for i := range v.c.LoadBalancers {
		lb := &v.c.LoadBalancers[i]
		at := Place{}.Key("load_balancers").Item(i, lb.Name)
		v.loadBalancerName(at, lb)
		if lb.Name != "" {
			names.add(v, at.Key("name"), CanonicalHost(lb.Name), lb.Name)
		}
		v.description(at.Key("description"), lb.Description)
		v.wholeSeconds(at.Key("ttl"), lb.TTL, time.Second, 24*time.Hour)
		if len(lb.DefaultPools) == 0 {
			v.bad(at.Key("default_pools"), "missing: want at least one pool")
		}
		v.pickPools(at, lb.DefaultPools, lb.FallbackPool, lb.RegionPools, lb.CountryPools, lb.PopPools)
		v.randomSteering(at.Key("random_steering"), &lb.RandomSteering, lb.Candidates())
		if lb.SteeringPolicy != "" {
			enum(v, at.Key("steering_policy"), lb.SteeringPolicy)
		}
		v.steering(at, lb)
		v.location(at, &lb.LocationStrategy)
		v.dnsSettings(at, lb)
		v.affinity(at, lb, lb)
		within(v, at.Key("retry_budget"), lb.RetryBudget, 0, 1)
		within(v, at.Key("retry_body_bytes"), lb.RetryBodyBytes, 0, 1<<20)
		v.draining(at, lb)
		v.rules(at.Key("rules"), lb)
		v.reachable(at, lb)
	}
}

// zoneOf returns the zone that answers for a host name, or "".
func (v *validator) zoneOf(name string) string {
	for name != "" {
		if v.origins[name] {
			return name
		}
		_, name, _ = strings.Cut(name, ".")
	}
	return ""
}

// loadBalancerName checks a name, which is a host name where HTTP or DNS
// answer for it, and anything where only layer 4 does.
func (v *validator) loadBalancerName(at Place, lb *LoadBalancer) {
	at = at.Key("name")
	v.label(at, lb.Name)
	if lb.Name == "" || !lb.Proxied && v.zoneOf(CanonicalHost(lb.Name)) == "" {
		return
	}
	// Clients may ask an address for itself, which only HTTP does.
	if _, err := netip.ParseAddr(lb.Name); err == nil && lb.Proxied {
		return
	}
	if err := checkHostName(lb.Name, true); err != nil {
		v.wrong(at, lb.Name, "%v", err)
	}
}

// reachable warns of a load balancer that no client can get to.
func (v *validator) reachable(at Place, lb *LoadBalancer) {
	if !lb.Enabled || lb.Name == "" || v.c.State != nil {
		return
	}
	layer4, zone := v.onLayer4[lb.Name], v.zoneOf(CanonicalHost(lb.Name))
	switch {
	case lb.Proxied && !layer4 && !v.c.anyListener((*Listener).SpeaksHTTP):
		v.warn(at.Key("proxied"), "true, but there is no http or https listener")
	case lb.Proxied && zone != "" && len(v.c.Node.PublicAddresses) == 0:
		v.warn(at.Key("proxied"), "true, but node.public_addresses is empty: zone %q has no address to answer", zone)
	case !lb.Proxied && !layer4 && zone == "":
		v.warn(at, "cannot be reached: want proxied: true, a zone that holds the name, or a layer 4 listener")
	}
}

// draining checks the draining of connections, which only layer 4 has.
func (v *validator) draining(at Place, lb *LoadBalancer) {
	at = at.Key("connection_draining_timeout")
	if !within(v, at, lb.ConnectionDrainingTimeout, 0, time.Hour) || lb.ConnectionDrainingTimeout == 0 {
		return
	}
	if !v.onLayer4[lb.Name] && v.c.State == nil {
		v.bad(at, "no layer 4 listener names this load balancer: want it with layer 4 only")
	}
}

// pickPools checks every place of a load balancer, or of a rule, that names
// pools.
func (v *validator) pickPools(at Place, defaults []string, fallback string,
	regions map[Region][]string, countries map[Country][]string, pops map[string][]string) {
	v.poolList(at.Key("default_pools"), defaults)
	if fallback != "" {
		v.pool(at.Key("fallback_pool"), fallback)
	}
	for _, code := range sortedKeys(regions) {
		at := at.Key("region_pools")
		v.region(at.entry(string(code)), code, false)
		v.geoList(at.Key(string(code)), regions[code])
	}
	for _, code := range sortedKeys(countries) {
		at := at.Key("country_pools")
		v.country(at.entry(string(code)), code)
		v.geoList(at.Key(string(code)), countries[code])
	}
	for _, code := range sortedKeys(pops) {
		at := at.Key("pop_pools")
		v.name(at.entry(code), code, "")
		v.geoList(at.Key(code), pops[code])
	}
}

func (v *validator) geoList(at Place, list []string) {
	if len(list) == 0 {
		v.bad(at, "empty: want at least one pool")
	}
	v.poolList(at, list)
}

func (v *validator) poolList(at Place, list []string) {
	seen := uniques{}
	for i, name := range list {
		at := at.Item(i, "")
		if seen.add(v, at, name, name) {
			v.pool(at, name)
		}
	}
}

// pool checks a reference to a pool.
func (v *validator) pool(at Place, name string) {
	v.usedPools[name] = true
	if v.pools[name] == nil {
		v.dangling(at, "pool", name, v.poolNames())
	}
}

func (v *validator) poolNames() []string {
	var names []string
	for i := range v.c.Pools {
		names = append(names, v.c.Pools[i].Name)
	}
	return names
}

// Candidates returns the name of every pool that a load balancer may choose, by
// whichever policy and rule.
func (lb *LoadBalancer) Candidates() map[string]bool {
	set := map[string]bool{lb.FallbackPool: true}
	add := func(lists ...[]string) {
		for _, list := range lists {
			for _, name := range list {
				set[name] = true
			}
		}
	}
	add(lb.DefaultPools)
	add(slices.Collect(maps.Values(lb.RegionPools))...)
	add(slices.Collect(maps.Values(lb.CountryPools))...)
	add(slices.Collect(maps.Values(lb.PopPools))...)
	for i := range lb.Rules {
		if o := lb.Rules[i].Overrides; o != nil {
			set[o.FallbackPool] = true
			add(o.DefaultPools)
			add(slices.Collect(maps.Values(o.RegionPools))...)
			add(slices.Collect(maps.Values(o.CountryPools))...)
			add(slices.Collect(maps.Values(o.PopPools))...)
		}
	}
	delete(set, "")
	return set
}

func (v *validator) randomSteering(at Place, r *RandomSteering, candidates map[string]bool) {
	within(v, at.Key("default_weight"), r.DefaultWeight, 0, 1)
	for _, name := range sortedKeys(r.PoolWeights) {
		at := at.Key("pool_weights").Key(name)
		within(v, at, r.PoolWeights[name], 0, 1)
		if candidates[name] {
			continue
		}
		if v.pools[name] == nil {
			v.bad(at, "no such pool%s", maybe(name, v.poolNames()))
		} else {
			v.bad(at, "not a pool of this load balancer: want one of %s", strings.Join(sortedKeys(candidates), ", "))
		}
	}
}

// steering checks that a load balancer's pools have what its policy reads,
// and warns of what no policy reads.
func (v *validator) steering(at Place, lb *LoadBalancer) {
	policies := []SteeringPolicy{lb.Policy()}
	for i := range lb.Rules {
		if o := lb.Rules[i].Overrides; o != nil {
			policies = append(policies, o.Apply(lb).Policy())
		}
	}
	v.unread(at, policies, lb.RegionPools, lb.CountryPools, lb.PopPools, &lb.RandomSteering)
	v.choice(at, lb)
	if n := v.c.Node; lb.Policy() == SteerProximity && n.Latitude == nil && len(v.c.Geo.Databases) == 0 {
		v.warn(at.Key("steering_policy"), "proximity without geo.databases and node.latitude does not know where clients are")
	}
}

// unread warns of settings that none of the policies reads.
func (v *validator) unread(at Place, policies []SteeringPolicy,
	regions map[Region][]string, countries map[Country][]string, pops map[string][]string, r *RandomSteering) {
	geo := slices.Contains(policies, SteerGeo)
	for _, m := range []struct {
		key   string
		given bool
	}{{"region_pools", len(regions) > 0}, {"country_pools", len(countries) > 0}, {"pop_pools", len(pops) > 0}} {
		if m.given && !geo {
			v.warn(at.Key(m.key), "kept, but steering_policy %s does not use it: only geo does", policies[0])
		}
	}
	if r != nil && (len(r.PoolWeights) > 0 || r.DefaultWeight != 1) && !slices.ContainsFunc(policies, weighs) {
		v.warn(at.Key("random_steering"), "kept, but steering_policy %s does not use it", policies[0])
	}
}

// weighs reports whether a policy reads the weights of pools.
func weighs(p SteeringPolicy) bool {
	return p == SteerRandom || p == SteerLeastOutstandingRequests || p == SteerLeastConnections
}

// choice checks the pools that lb's policy chooses from.
func (v *validator) choice(at Place, lb *LoadBalancer) {
	policy := lb.Policy()
	weightless := weighs(policy) && len(lb.DefaultPools) > 0
	for i, name := range lb.DefaultPools {
		weightless = weightless && lb.RandomSteering.Weight(name) == 0
		if pool := v.pools[name]; pool != nil {
			v.steered(at.Key("default_pools").Item(i, ""), policy, pool)
		}
	}
	if weightless {
		v.warn(at.Key("random_steering"), "all weights are 0: no pool takes traffic")
	}
}

// steered checks that a pool has what the policy reads.
func (v *validator) steered(at Place, policy SteeringPolicy, pool *Pool) {
	switch policy {
	case SteerProximity:
		if pool.Latitude == nil || pool.Longitude == nil {
			v.wrong(at, pool.Name, "has no latitude and longitude, which steering_policy proximity needs")
		}
	case SteerCapacity:
		if pool.BalancingMode == "" {
			v.wrong(at, pool.Name, "has no balancing_mode, which steering_policy capacity needs")
		}
	case SteerDynamicLatency:
		_, voting := v.probing(pool)
		tcp := func(m *Monitor) bool { return m.Type == MonitorTCP }
		switch {
		case pool.Monitor+pool.MonitorGroup == "":
			v.warn(at, "pool %q has no monitor: dynamic_latency never learns how far it is", pool.Name)
		case slices.ContainsFunc(voting, tcp):
			v.warn(at, "pool %q is probed by tcp, which measures to where TCP ends, perhaps a provider's edge: want an http, https or grpc monitor", pool.Name)
		}
	}
}

// affinity checks the session affinity of a load balancer. own is what the
// place itself declares; the rest of lb it has from the load balancer whose
// rule it is.
func (v *validator) affinity(at Place, lb, own *LoadBalancer) {
	kind, a := lb.SessionAffinity, &lb.SessionAffinityAttributes
	kindAt, attributes := at.Key("session_affinity"), at.Key("session_affinity_attributes")
	enum(v, kindAt, kind)

	least := 30 * time.Minute
	if kind == AffinityHeader {
		least = 30 * time.Second
	}
	within(v, at.Key("session_affinity_ttl"), lb.SessionAffinityTTL, least, 168*time.Hour)
	if !lb.Proxied {
		v.affinityWithoutProxy(kindAt, lb)
	}

	enum(v, attributes.Key("samesite"), a.SameSite)
	enum(v, attributes.Key("secure"), a.Secure)
	enum(v, attributes.Key("zero_downtime_failover"), a.ZeroDowntimeFailover)
	within(v, attributes.Key("drain_duration"), a.DrainDuration, 0, 24*time.Hour)
	if a.SameSite == SameSiteNone && a.Secure == SecureNever {
		v.bad(attributes.Key("secure"), "never with samesite none: browsers drop such a cookie; want auto or always")
	}
	if a.ZeroDowntimeFailover == FailoverSticky && kind != AffinityCookie && kind != AffinityIPCookie {
		v.bad(attributes.Key("zero_downtime_failover"), "sticky with session_affinity %s, which has no cookie to rewrite: want none or temporary", kind)
	}
	switch header := kind == AffinityHeader; {
	case header && len(a.Headers) == 0:
		v.bad(attributes.Key("headers"), "missing: session_affinity header wants 1 to 5 header names")
	case !header && len(a.Headers) > 0:
		v.bad(attributes.Key("headers"), "given with session_affinity %s: want them with header only", kind)
	case !header && a.RequireAllHeaders:
		v.bad(attributes.Key("require_all_headers"), "given with session_affinity %s: want it with header only", kind)
	case len(a.Headers) > 5:
		v.bad(attributes.Key("headers"), "%d names: want 1 to 5", len(a.Headers))
	}
	if own == lb {
		v.affinityWithoutEffect(at, lb)
	}
	seen := uniques{}
	for i, name := range a.Headers {
		at := attributes.Key("headers").Item(i, "")
		if v.affinityHeader(at, name) {
			seen.add(v, at, strings.ToLower(name), name)
		}
	}
}

// affinityWithoutEffect warns of what the kind of affinity has no use for.
func (v *validator) affinityWithoutEffect(at Place, lb *LoadBalancer) {
	kind, a := lb.SessionAffinity, &lb.SessionAffinityAttributes
	attributes := at.Key("session_affinity_attributes")
	var plain LoadBalancer
	plain.SetDefaults()
	why := "session_affinity " + string(kind)
	dns := !lb.Proxied && v.zoneOf(CanonicalHost(lb.Name)) != ""
	if dns {
		why = "proxied: false" // which has no sessions to remember
	}
	without := func(given bool, at Place) {
		if given {
			v.warn(at, "has no effect with %s", why)
		}
	}
	if kind == AffinityNone || kind == AffinityClientIP || dns {
		without(lb.SessionAffinityTTL != plain.SessionAffinityTTL, at.Key("session_affinity_ttl"))
		without(a.DrainDuration != 0, attributes.Key("drain_duration"))
		without(a.ZeroDowntimeFailover == FailoverTemporary, attributes.Key("zero_downtime_failover"))
	}
	if kind != AffinityCookie && kind != AffinityIPCookie || dns {
		without(a.SameSite != SameSiteAuto, attributes.Key("samesite"))
		without(a.Secure != SecureAuto, attributes.Key("secure"))
	}
}

// affinityHeader checks a header of the session key: a name, or cookie:a,b
// for some cookies only.
func (v *validator) affinityHeader(at Place, name string) bool {
	const most = 100
	if len(name) > most {
		v.bad(at, "%d characters long: want at most %d", len(name), most)
		return false
	}
	header, cookies, some := strings.Cut(name, ":")
	ok := isToken(header)
	if some {
		ok = strings.EqualFold(header, "cookie")
		for cookie := range strings.SplitSeq(cookies, ",") {
			ok = ok && isToken(cookie)
		}
	}
	if !ok {
		v.wrong(at, name, "want the name of a header, or cookie:NAME,NAME")
	}
	return ok
}

// maxRules bounds the rules of a load balancer, all of which a request may run.
const maxRules = 1000

func (v *validator) rules(at Place, lb *LoadBalancer) {
	if n := len(lb.Rules); n > maxRules {
		v.bad(at, "%d rules: want at most %d", n, maxRules)
	}
	names := uniques{}
	for i := range lb.Rules {
		r := &lb.Rules[i]
		at := at.Item(i, r.Name)
		v.label(at.Key("name"), r.Name)
		if r.Name != "" {
			names.add(v, at.Key("name"), r.Name, r.Name)
		}
		// Rule conditions are parsed by a package of their own; here only
		// their presence is checked.
		if strings.TrimSpace(r.Condition) == "" {
			v.bad(at.Key("condition"), "missing: want an expression over the request; true always applies")
		}
		within(v, at.Key("priority"), r.Priority, 0, 1_000_000)
		switch {
		case r.Overrides != nil && r.FixedResponse != nil:
			v.bad(at.Key("fixed_response"), "given with overrides: want one of the two")
		case r.Overrides == nil && r.FixedResponse == nil:
			v.bad(at, "does nothing: want overrides or fixed_response")
		}
		if r.Overrides != nil {
			v.overrides(at.Key("overrides"), lb, r.Overrides)
		}
		if r.FixedResponse != nil {
			if !lb.Proxied {
				v.bad(at.Key("fixed_response"), "given with proxied: false: only HTTP has such answers")
			}
			v.fixedResponse(at.Key("fixed_response"), r.FixedResponse)
		}
	}
}

// overrides checks what a rule replaces, by itself and as the load balancer
// that it makes.
func (v *validator) overrides(at Place, lb *LoadBalancer, o *Overrides) {
	if o.DefaultPools != nil && len(o.DefaultPools) == 0 {
		v.bad(at.Key("default_pools"), "empty: want at least one pool")
	}
	v.pickPools(at, o.DefaultPools, o.FallbackPool, o.RegionPools, o.CountryPools, o.PopPools)
	if o.RandomSteering != nil {
		v.randomSteering(at.Key("random_steering"), o.RandomSteering, lb.Candidates())
	}
	if o.SteeringPolicy != "" {
		enum(v, at.Key("steering_policy"), o.SteeringPolicy)
	}
	if o.TTL != 0 {
		v.wholeSeconds(at.Key("ttl"), o.TTL, time.Second, 24*time.Hour)
	}
	if o.LocationStrategy != nil {
		v.location(at, o.LocationStrategy)
	}
	v.onlyInDNS(at, lb, o.TTL != 0, o.LocationStrategy != nil)
	changed := o.Apply(lb)
	v.unread(at, []SteeringPolicy{changed.Policy()}, o.RegionPools, o.CountryPools, o.PopPools, o.RandomSteering)
	if o.DefaultPools != nil || o.SteeringPolicy != "" || o.RandomSteering != nil {
		v.choice(at, changed)
	}
	if o.SessionAffinity != "" || o.SessionAffinityTTL != 0 || o.SessionAffinityAttributes != nil {
		v.affinity(at, changed, lb)
	}
	if reflect.ValueOf(*o).IsZero() {
		v.bad(at, "empty: want at least one setting to replace")
	}
}

// Apply returns lb with the settings of o in place of its own.
func (o *Overrides) Apply(lb *LoadBalancer) *LoadBalancer {
	c := *lb
	if o.DefaultPools != nil {
		c.DefaultPools = o.DefaultPools
	}
	if o.FallbackPool != "" {
		c.FallbackPool = o.FallbackPool
	}
	if o.SteeringPolicy != "" {
		c.SteeringPolicy = o.SteeringPolicy
	}
	if o.RandomSteering != nil {
		c.RandomSteering = *o.RandomSteering
	}
	if o.RegionPools != nil {
		c.RegionPools = o.RegionPools
	}
	if o.CountryPools != nil {
		c.CountryPools = o.CountryPools
	}
	if o.PopPools != nil {
		c.PopPools = o.PopPools
	}
	if o.LocationStrategy != nil {
		c.LocationStrategy = *o.LocationStrategy
	}
	if o.SessionAffinity != "" {
		c.SessionAffinity = o.SessionAffinity
	}
	if o.SessionAffinityTTL != 0 {
		c.SessionAffinityTTL = o.SessionAffinityTTL
	}
	if o.SessionAffinityAttributes != nil {
		c.SessionAffinityAttributes = *o.SessionAffinityAttributes
	}
	if o.AdaptiveRouting != nil {
		c.AdaptiveRouting = *o.AdaptiveRouting
	}
	if o.TTL != 0 {
		c.TTL = o.TTL
	}
	return &c
}

func (v *validator) fixedResponse(at Place, f *FixedResponse) {
	redirect := f.StatusCode == 201 || f.StatusCode >= 300 && f.StatusCode < 400 && f.StatusCode != 304
	if f.StatusCode == 0 {
		v.bad(at.Key("status_code"), "missing: want 200 to 599")
	} else if within(v, at.Key("status_code"), f.StatusCode, 200, 599) {
		switch {
		case f.MessageBody != "" && (f.StatusCode == 204 || f.StatusCode == 205 || f.StatusCode == 304):
			v.bad(at.Key("message_body"), "given with status_code %d, which has no body", f.StatusCode)
		case f.Location != "" && !redirect:
			v.bad(at.Key("location"), "given with status_code %d: want it with redirects only", f.StatusCode)
		case f.Location == "" && redirect && f.StatusCode != 201 && f.StatusCode != 300:
			v.bad(at.Key("location"), "missing: status_code %d sends clients elsewhere", f.StatusCode)
		}
	}
	if f.ContentType != "" {
		if _, _, err := mime.ParseMediaType(f.ContentType); err != nil || !strings.Contains(f.ContentType, "/") {
			v.wrong(at.Key("content_type"), f.ContentType, "want a media type such as text/plain")
		}
	}
	if n := utf8.RuneCountInString(f.MessageBody); n > 1024 {
		v.bad(at.Key("message_body"), "%d characters long: want at most 1024", n)
	}
	if f.Location != "" {
		if _, err := url.Parse(f.Location); err != nil || len(f.Location) > 2048 ||
			strings.ContainsFunc(f.Location, func(r rune) bool { return unicode.IsSpace(r) || r > unicode.MaxASCII }) {
			v.wrong(at.Key("location"), f.Location, "want a URL of at most 2048 ASCII characters")
		}
	}
}
