package model

import "time"

// SteeringPolicy is the choice of a pool.
type SteeringPolicy string

// The traffic steering policies.
const (
	SteerFailover                 SteeringPolicy = "failover"
	SteerRandom                   SteeringPolicy = "random"
	SteerGeo                      SteeringPolicy = "geo"
	SteerDynamicLatency           SteeringPolicy = "dynamic_latency"
	SteerProximity                SteeringPolicy = "proximity"
	SteerLeastOutstandingRequests SteeringPolicy = "least_outstanding_requests"
	SteerLeastConnections         SteeringPolicy = "least_connections"
	SteerCapacity                 SteeringPolicy = "capacity"
)

// Values lists the valid policies.
func (SteeringPolicy) Values() []string {
	return []string{"failover", "random", "geo", "dynamic_latency", "proximity",
		"least_outstanding_requests", "least_connections", "capacity"}
}

// SessionAffinity is how a client keeps its endpoint.
type SessionAffinity string

// The session affinities.
const (
	AffinityNone     SessionAffinity = "none"
	AffinityCookie   SessionAffinity = "cookie"
	AffinityIPCookie SessionAffinity = "ip_cookie"
	AffinityHeader   SessionAffinity = "header"
	AffinityClientIP SessionAffinity = "client_ip"
)

// Values lists the valid affinities.
func (SessionAffinity) Values() []string {
	return []string{"none", "cookie", "ip_cookie", "header", "client_ip"}
}

// LoadBalancer is a set of pools and the policy that chooses among them.
type LoadBalancer struct {
	// For HTTP and DNS the host name, exact or *.suffix for every name below
	// it; for layer 4 any name. Unique among load balancers.
	Name string `yaml:"name"`
	// Free text, up to 1024 characters.
	Description string `yaml:"description"`
	// A disabled load balancer answers for nothing. Default true.
	Enabled bool `yaml:"enabled"`
	// true: http and https listeners serve this name. false: only DNS
	// answers for it. Default false.
	Proxied bool `yaml:"proxied"`
	// How long DNS answers may be kept, with proxied: false; 1s to 24h in
	// whole seconds. Default 30s.
	TTL time.Duration `yaml:"ttl"`
	// Names of the pools in failover order, at least one.
	DefaultPools []string `yaml:"default_pools"`
	// Last resort when no other pool can be used; its health is ignored.
	// Without it, traffic is then refused.
	FallbackPool string `yaml:"fallback_pool"`
	// How a pool is chosen. Default: geo where a geo list is given, else
	// failover.
	SteeringPolicy SteeringPolicy `yaml:"steering_policy"`
	// Weights for random, least_outstanding_requests and least_connections.
	RandomSteering RandomSteering `yaml:"random_steering"`
	// Pools in failover order for each region code; geo only.
	RegionPools map[Region][]string `yaml:"region_pools"`
	// Pools in failover order for each ISO 3166-1 alpha-2 code; geo only.
	CountryPools map[Country][]string `yaml:"country_pools"`
	// Pools in failover order for each data-centre code; geo only.
	PopPools map[string][]string `yaml:"pop_pools"`
	// Where the client of a DNS query is taken to be, with proxied: false.
	LocationStrategy LocationStrategy `yaml:"location_strategy"`
	// How a client keeps its endpoint. Default none.
	SessionAffinity SessionAffinity `yaml:"session_affinity"`
	// How long a session lasts, 30m to 168h (header: from 30s). Default 23h.
	SessionAffinityTTL time.Duration `yaml:"session_affinity_ttl"`
	// Details of session affinity.
	SessionAffinityAttributes AffinityAttributes `yaml:"session_affinity_attributes"`
	// What may leave the chosen pool.
	AdaptiveRouting AdaptiveRouting `yaml:"adaptive_routing"`
	// Further requests to endpoints, made after a failure, as a share of all
	// requests; 0 to 1, 0 for none at all. Ten a second are always allowed, and
	// those after a refused connection, which cost the endpoint nothing, do
	// not count. Default 0.2.
	RetryBudget float64 `yaml:"retry_budget"`
	// Bytes of a request body that are kept so that the request can be sent
	// again after a failure, 0 to 1048576; one with a longer body cannot, once
	// a part of it was sent. Default 65536.
	RetryBodyBytes int `yaml:"retry_body_bytes"`
	// Conditions on the request, and what they change; up to 1000.
	Rules []Rule `yaml:"rules"`
	// How long connections to an endpoint that was removed may go on; layer 4
	// only, 0s to 1h. Default 0s.
	ConnectionDrainingTimeout time.Duration `yaml:"connection_draining_timeout"`
}

// SetDefaults fills in what holds when a key is left out.
func (lb *LoadBalancer) SetDefaults() {
	lb.Enabled = true
	lb.TTL = 30 * time.Second
	lb.RandomSteering.SetDefaults()
	lb.LocationStrategy.SetDefaults()
	lb.SessionAffinity = AffinityNone
	lb.SessionAffinityTTL = 23 * time.Hour
	lb.SessionAffinityAttributes.SetDefaults()
	lb.RetryBudget = 0.2
	lb.RetryBodyBytes = 64 << 10
}

// Policy returns the steering policy that holds, with the default resolved.
func (lb *LoadBalancer) Policy() SteeringPolicy {
	switch {
	case lb.SteeringPolicy != "":
		return lb.SteeringPolicy
	case len(lb.RegionPools)+len(lb.CountryPools)+len(lb.PopPools) > 0:
		return SteerGeo
	default:
		return SteerFailover
	}
}

// RandomSteering holds the weights of pools.
type RandomSteering struct {
	// Weight of pools that pool_weights does not name, 0 to 1. Default 1.
	DefaultWeight float64 `yaml:"default_weight"`
	// Weight of each pool by name, 0 to 1. Only pools of the load balancer.
	PoolWeights map[string]float64 `yaml:"pool_weights"`
}

// SetDefaults fills in what holds when a key is left out.
func (r *RandomSteering) SetDefaults() { r.DefaultWeight = 1 }

// Weight returns the weight of a pool.
func (r *RandomSteering) Weight(pool string) float64 {
	if w, ok := r.PoolWeights[pool]; ok {
		return w
	}
	return r.DefaultWeight
}

// SameSite is the SameSite attribute of the affinity cookie.
type SameSite string

// The SameSite settings.
const (
	SameSiteAuto   SameSite = "auto"
	SameSiteLax    SameSite = "lax"
	SameSiteNone   SameSite = "none"
	SameSiteStrict SameSite = "strict"
)

// Values lists the valid settings.
func (SameSite) Values() []string { return []string{"auto", "lax", "none", "strict"} }

// SecureCookie is when the affinity cookie is marked Secure.
type SecureCookie string

// The Secure settings.
const (
	SecureAuto   SecureCookie = "auto"
	SecureAlways SecureCookie = "always"
	SecureNever  SecureCookie = "never"
)

// Values lists the valid settings.
func (SecureCookie) Values() []string { return []string{"auto", "always", "never"} }

// ZeroDowntimeFailover is what happens to a session whose endpoint fails.
type ZeroDowntimeFailover string

// The failover settings for sessions.
const (
	FailoverNone      ZeroDowntimeFailover = "none"
	FailoverTemporary ZeroDowntimeFailover = "temporary"
	FailoverSticky    ZeroDowntimeFailover = "sticky"
)

// Values lists the valid settings.
func (ZeroDowntimeFailover) Values() []string { return []string{"none", "temporary", "sticky"} }

// AffinityAttributes are the details of session affinity.
type AffinityAttributes struct {
	// SameSite of the cookie. auto: none where the client speaks HTTPS, else
	// lax. Default auto.
	SameSite SameSite `yaml:"samesite"`
	// When the cookie is Secure. auto: where the client speaks HTTPS.
	// Default auto.
	Secure SecureCookie `yaml:"secure"`
	// How long sessions stay on an endpoint that was disabled or removed, 0s
	// to 24h. Default 0s.
	DrainDuration time.Duration `yaml:"drain_duration"`
	// What happens to a session whose endpoint fails. Default none.
	ZeroDowntimeFailover ZeroDowntimeFailover `yaml:"zero_downtime_failover"`
	// Names of the headers that make the session key; 1 to 5, with header
	// affinity only.
	Headers []string `yaml:"headers"`
	// All headers must be present, not just one. Default false.
	RequireAllHeaders bool `yaml:"require_all_headers"`
}

// SetDefaults fills in what holds when a key is left out.
func (a *AffinityAttributes) SetDefaults() {
	a.SameSite, a.Secure, a.ZeroDowntimeFailover = SameSiteAuto, SecureAuto, FailoverNone
}

// AdaptiveRouting says what may leave the chosen pool.
type AdaptiveRouting struct {
	// The one retry after a failure may go to another pool when the chosen
	// one has no other healthy endpoint. Default false.
	FailoverAcrossPools bool `yaml:"failover_across_pools"`
}

// Rule changes what a load balancer does for the requests that fit.
type Rule struct {
	// Name, unique in the load balancer.
	Name string `yaml:"name"`
	// Expression over the request; the rule applies where it is true.
	Condition string `yaml:"condition"`
	// Rules run in ascending priority, then in the order of the list; 0 to
	// 1000000. Default 0.
	Priority int `yaml:"priority"`
	// A disabled rule is skipped. Default false.
	Disabled bool `yaml:"disabled"`
	// No later rule runs once this one has applied. Default false (true with
	// fixed_response).
	Terminates bool `yaml:"terminates"`
	// Settings of the load balancer that hold for the request instead.
	Overrides *Overrides `yaml:"overrides"`
	// The answer to give, without asking an endpoint; excludes overrides.
	FixedResponse *FixedResponse `yaml:"fixed_response"`
}

// Overrides replace settings of the load balancer for one request. What is
// left out stays as it is.
type Overrides struct {
	// Replaces default_pools.
	DefaultPools []string `yaml:"default_pools"`
	// Replaces fallback_pool.
	FallbackPool string `yaml:"fallback_pool"`
	// Replaces steering_policy.
	SteeringPolicy SteeringPolicy `yaml:"steering_policy"`
	// Replaces random_steering.
	RandomSteering *RandomSteering `yaml:"random_steering"`
	// Replaces region_pools.
	RegionPools map[Region][]string `yaml:"region_pools"`
	// Replaces country_pools.
	CountryPools map[Country][]string `yaml:"country_pools"`
	// Replaces pop_pools.
	PopPools map[string][]string `yaml:"pop_pools"`
	// Replaces location_strategy.
	LocationStrategy *LocationStrategy `yaml:"location_strategy"`
	// Replaces session_affinity.
	SessionAffinity SessionAffinity `yaml:"session_affinity"`
	// Replaces session_affinity_ttl.
	SessionAffinityTTL time.Duration `yaml:"session_affinity_ttl"`
	// Replaces session_affinity_attributes.
	SessionAffinityAttributes *AffinityAttributes `yaml:"session_affinity_attributes"`
	// Replaces adaptive_routing.
	AdaptiveRouting *AdaptiveRouting `yaml:"adaptive_routing"`
	// Replaces ttl.
	TTL time.Duration `yaml:"ttl"`
}

// FixedResponse is an answer made by the load balancer itself.
type FixedResponse struct {
	// Status code, 200 to 599.
	StatusCode int `yaml:"status_code"`
	// Content-Type of the body. Default text/plain.
	ContentType string `yaml:"content_type"`
	// The body, up to 1024 characters.
	MessageBody string `yaml:"message_body"`
	// Location header, for redirects.
	Location string `yaml:"location"`
}

// SetDefaults fills in what holds when a key is left out.
func (f *FixedResponse) SetDefaults() { f.ContentType = "text/plain" }
