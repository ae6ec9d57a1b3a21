// Package plan compiles what was declared into the immutable form that every
// data plane works from.
//
// A Plan is never written after Compile returned it. Planes load one pointer
// at the start of a request and use what they got to its end. Everything a
// request needs is reachable by pointer or by a dense index; weights are laid
// out as tables once, here.
//
// Observed state (health, load, resolved addresses) lives in tables that
// outlive plans. The plan holds pointers into them, found when it is compiled.
package plan

import (
	"net/netip"
	"time"

	"fairlead/internal/dnswire"
	"fairlead/internal/geo"
	"fairlead/internal/health"
	"fairlead/internal/load"
	"fairlead/internal/model"
	"fairlead/internal/pick"
	"fairlead/internal/resolve"
	"fairlead/internal/zone"
)

// Plan is one revision of everything declared, ready to be used.
type Plan struct {
	// Revision counts the plans of this process, from 1.
	Revision uint64
	// Config is what the plan was compiled from. It is not to be changed.
	Config *model.Config
	// Node is the place of this process.
	Node Place
	// Geo tells where clients are; nil where every client has the node's place.
	Geo *geo.Databases

	Listeners []Listener // of the HTTP plane
	// DNSListeners are those of the DNS plane.
	DNSListeners []Listener
	// SubjectHeaders are the headers, in lower case, in which endpoints are told
	// who a client is: no client's own are passed on, whatever its listener.
	SubjectHeaders []string
	LoadBalancers  []*LoadBalancer
	Pools          []*Pool     // Pools[i].Index == i
	Endpoints      []*Endpoint // of all pools; Endpoints[i].Index == i
	// Targets is what health checking has to probe.
	Targets []health.Target

	// Zones are what the DNS plane answers for, and Authority finds the position
	// in Zones of the one that a name belongs to.
	Zones     []*Zone
	Authority *zone.Zones

	hosts hostIndex
	fixed map[string]*resolve.Name // names that own zones resolve, by host
}

// Place is a point on Earth with the codes that steering knows it by. Codes
// are empty where nothing is known.
type Place struct {
	PoP      string
	Country  model.Country
	Region   model.Region
	Position Position
}

// Position is a point on the unit sphere; the zero value means unknown.
type Position = geo.Position

// Place returns where steering takes a client to be of which so much is known. Each
// fact that is not known is that of the node; the PoP always is, as it is where the
// client came in.
func (p *Plan) Place(client *geo.Place) Place {
	place := p.Node
	if client.Country != "" {
		place.Country, place.Region = client.Country, client.Region
	}
	if client.HasCoordinates {
		place.Position = client.Position()
	}
	return place
}

// Listener is an open address.
type Listener struct {
	*model.Listener
	// Bind is where it listens; an invalid address with a port means all
	// addresses.
	Bind netip.AddrPort
}

// LoadBalancer is a compiled load balancer.
type LoadBalancer struct {
	Index   int
	Name    string // lower case, without trailing dot
	Proxied bool
	Policy  model.SteeringPolicy

	// ByPlace: the policy goes by where the client is.
	ByPlace bool

	// Default is the failover order.
	Default []*Pool
	// Weights are the random_steering weights of Default, by position.
	Weights []float64
	// Table draws a position of Default by weight; nil when all weights are 0.
	Table *pick.Alias
	// Fallback is the last resort, or nil.
	Fallback *Pool

	Regions   map[model.Region][]*Pool
	Countries map[model.Country][]*Pool
	PoPs      map[string][]*Pool

	RetryBudget float64
	RetryBody   int // bytes of a request's body that are kept to be sent again
	// AcrossPools lets a retry leave the pool.
	AcrossPools bool
	// Sheds is true where one of the pools does.
	Sheds bool
	// Affinity is how clients keep their endpoints; nil where they do not.
	Affinity *Affinity

	// Answering is how DNS answers for it.
	Answering Answering

	// Rules are those that run, in their order.
	Rules    []Rule
	variants *variants // nil without rules
}

// Shedding is what a pool turns away.
type Shedding struct {
	// Share of the traffic without a session, 0 to 1.
	Share float64
	// ByClient makes it always the same clients; else it is chance.
	ByClient bool
	// Sessions is the share of the sessions, 0 to 1, by client.
	Sessions float64
}

// Pool is a compiled pool.
type Pool struct {
	Index     int
	Name      string
	Enabled   bool
	Endpoints []*Endpoint // Endpoints[i].Slot == i
	Policy    model.EndpointPolicy
	// Even: all enabled endpoints have the same weight.
	Even     bool
	Position Position
	WarmUp   time.Duration
	Shedding Shedding
	// Hash is the hash of Name, for what is drawn for each pool on its own.
	Hash uint64

	// Health is this plan's view of the endpoints' verdicts, by slot.
	Health *health.Pool
	// Load counts what is open in the whole pool.
	Load *load.Counter

	// What the endpoint policy needs; the others are nil. All cover only
	// enabled endpoints with a weight above 0 and yield slots.
	Table    *pick.Alias    // random, least_*
	Rotation *pick.Rotation // round_robin
	Ring     *pick.Ring     // ring_hash
	Maglev   *pick.Maglev   // maglev

	Protocol       model.PoolProtocol
	TLS            bool // endpoints are spoken to over TLS
	TLSFiles       model.PoolTLS
	ConnectTimeout time.Duration
	AnswerTimeout  time.Duration
	IdleTimeout    time.Duration
	MaxIdle        int
	Limits         model.EndpointLimits
	SlowStart      time.Duration
	Outliers       model.OutlierDetection
}

// Endpoint is a compiled endpoint.
type Endpoint struct {
	Index int // among all endpoints of the plan
	Slot  int // in its pool
	Name  string
	Pool  *Pool
	// Key is host:port with the port resolved: the identity in hashing, so
	// that neither order nor names move clients.
	Key string
	// Hash is the hash of Key, for rendezvous hashing.
	Hash uint64
	// Session is the endpoint's identity in sessions.
	Session uint64
	Weight  float64
	Enabled bool
	// Since is when the endpoint was enabled, or added; the zero time where that
	// was before this process began.
	Since time.Time
	// Left is when an endpoint that is not enabled was so last; the zero time
	// where it never was, or where nothing drains. Until is when the last load
	// balancer's sessions leave it. Removed: the file has it no more.
	Left, Until time.Time
	Removed     bool
	// Host replaces the client's Host header, unless empty.
	Host string
	// ServerName is asked for and verified in TLS.
	ServerName string

	// Alias is the host name that DNS may answer in place of its addresses; "" for
	// none. Private: the address means nothing to clients.
	Alias   dnswire.Name
	Private bool

	Health *health.Endpoint
	Load   *load.Counter

	declared *model.Endpoint

	addr netip.AddrPort // valid for literal addresses
	name *resolve.Name  // for host names
	port uint16
}

// Address returns where to connect now. Host names with several addresses
// yield them in turn; false means that the name has no address yet.
func (e *Endpoint) Address() (netip.AddrPort, bool) {
	if e.name == nil {
		return e.addr, true
	}
	a, ok := e.name.Next()
	return netip.AddrPortFrom(a, e.port), ok
}

// ResolvedName returns the host name whose addresses the endpoint has; nil for a
// literal address.
func (e *Endpoint) ResolvedName() *resolve.Name { return e.name }

// HasAddress reports whether clients can be told an address of a family.
func (e *Endpoint) HasAddress(six bool) bool {
	if e.Private {
		return false
	}
	if e.name == nil {
		return e.addr.Addr().Is6() == six && e.addr.Addr().Zone() == ""
	}
	for _, a := range e.name.Addresses() {
		if a.Is6() == six {
			return true
		}
	}
	return false
}

// AppendAddresses appends the addresses of a family that clients can be told.
func (e *Endpoint) AppendAddresses(dst []netip.Addr, six bool) []netip.Addr {
	switch {
	case !e.HasAddress(six):
		return dst
	case e.name == nil:
		return append(dst, e.addr.Addr())
	}
	for _, a := range e.name.Addresses() {
		if a.Is6() == six {
			dst = append(dst, a)
		}
	}
	return dst
}
