package model

// PreferECS is where the client subnet of a DNS query says where the client is.
type PreferECS string

// The preferences.
const (
	ECSAlways    PreferECS = "always"
	ECSNever     PreferECS = "never"
	ECSProximity PreferECS = "proximity"
	ECSGeo       PreferECS = "geo"
)

// Values lists the valid preferences.
func (PreferECS) Values() []string { return []string{"always", "never", "proximity", "geo"} }

// LocationMode is where clients are taken to be that no client subnet tells of.
type LocationMode string

// The modes.
const (
	LocatePoP        LocationMode = "pop"
	LocateResolverIP LocationMode = "resolver_ip"
)

// Values lists the valid modes.
func (LocationMode) Values() []string { return []string{"pop", "resolver_ip"} }

// LocationStrategy says where the client of a DNS query is taken to be.
type LocationStrategy struct {
	// Whether the client subnet of a query (ECS) says where the client is: always,
	// never, with steering_policy proximity only, or with geo only, for
	// country_pools. Default proximity.
	PreferECS PreferECS `yaml:"prefer_ecs"`
	// Where the client is when no client subnet says it: pop for the place of this
	// node, resolver_ip for that of the resolver that asks. With pop, region_pools
	// always go by this node. Default: resolver_ip with geo.databases, else pop.
	Mode LocationMode `yaml:"mode"`
}

// SetDefaults fills in what holds when a key is left out.
func (l *LocationStrategy) SetDefaults() { l.PreferECS = ECSProximity }

// UsesECS reports whether client subnets say where clients are, for a policy.
func (l *LocationStrategy) UsesECS(policy SteeringPolicy) bool {
	switch l.PreferECS {
	case ECSAlways:
		return policy == SteerProximity || policy == SteerGeo
	case ECSProximity:
		return policy == SteerProximity
	case ECSGeo:
		return policy == SteerGeo
	}
	return false
}
