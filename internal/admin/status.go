package admin

import (
	"cmp"
	"encoding/json"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"fairlead/internal/health"
	"fairlead/internal/model"
	"fairlead/internal/plan"
)

// Status is the answer of /status. Its field names are part of the interface:
// they are added to, and do not change. Durations are milliseconds.
type Status struct {
	Version  string    `json:"version"`
	Started  time.Time `json:"started"`
	Ready    bool      `json:"ready"`
	NotReady string    `json:"not_ready_reason,omitempty"`
	Node     Node      `json:"node"`
	// Revision counts the plans of this process, from 1; 0 before the first.
	Revision      uint64           `json:"revision"`
	Config        ReloadStatus     `json:"config"`
	Databases     []DatabaseStatus `json:"geo_databases"`
	Listeners     []ListenerStatus `json:"listeners"`
	LoadBalancers []LoadBalancer   `json:"load_balancers"`
	Pools         []Pool           `json:"pools"`
}

// Node is the place of this process.
type Node struct {
	Name    string        `json:"name"`
	PoP     string        `json:"pop,omitempty"`
	Region  model.Region  `json:"region,omitempty"`
	Country model.Country `json:"country,omitempty"`
}

// ReloadStatus is how the configuration file was taken up.
type ReloadStatus struct {
	File string `json:"file"`
	// Applied is when the plan in force was made from the file.
	Applied time.Time `json:"applied,omitzero"`
	// Tried is when the file was last read, whatever came of it.
	Tried time.Time `json:"tried,omitzero"`
	// Error is why the file, as last read, was refused; empty when it is in
	// force.
	Error string `json:"error,omitempty"`
	// Reloads and Refusals count the changes of the file since the start.
	Reloads  uint64 `json:"reloads"`
	Refusals uint64 `json:"refusals"`
}

// DatabaseStatus is a database of geography.
type DatabaseStatus struct {
	File string `json:"file"`
	// Type is what its maker calls it, and Built is when that was made.
	Type  string    `json:"type"`
	Built time.Time `json:"built"`
	// Loaded is when the content that is in use was read.
	Loaded time.Time `json:"loaded"`
	// Facts are what it has of some address.
	Facts []string `json:"facts"`
	// Error is why the file, as it is now, is not in use; empty when it is.
	Error string `json:"error,omitempty"`
	// LookupFailures are look-ups that met what cannot be read.
	LookupFailures uint64 `json:"lookup_failures"`
	// Reloads and Refusals count the changes of the file since it was opened.
	Reloads  uint64 `json:"reloads"`
	Refusals uint64 `json:"refusals"`
}

// ListenerStatus is an open listener.
type ListenerStatus struct {
	Name string `json:"name"`
	// Address is what was bound, with the port that the kernel chose.
	Address         string                 `json:"address"`
	Protocol        model.ListenerProtocol `json:"protocol"`
	OpenConnections int64                  `json:"open_connections"`
}

// LoadBalancer is the state of a load balancer.
type LoadBalancer struct {
	Name   string               `json:"name"`
	Policy model.SteeringPolicy `json:"steering_policy"`
	// State is healthy when all pools are; critical when none can be used, so
	// that the fallback pool takes the traffic; else degraded.
	State string `json:"state"`
	// Pools are those that the policy chooses among, and UsablePools those of
	// them that it may choose now.
	Pools        []string `json:"pools"`
	UsablePools  []string `json:"usable_pools"`
	FallbackPool string   `json:"fallback_pool,omitempty"`
}

// Pool is the state of a pool.
type Pool struct {
	Name    string `json:"name"`
	Enabled bool   `json:"enabled"`
	// State is healthy, degraded or critical.
	State string `json:"state"`
	// Usable is whether steering may choose the pool.
	Usable           bool `json:"usable"`
	EndpointsUp      int  `json:"endpoints_up"`
	EndpointsEnabled int  `json:"endpoints_enabled"`
	EndpointsTotal   int  `json:"endpoints_total"`
	MinimumEndpoints int  `json:"minimum_endpoints"`
	// Latency is the pool's latency profile.
	Latency         Profile    `json:"latency"`
	OpenRequests    int64      `json:"open_requests"`
	OpenConnections int64      `json:"open_connections"`
	Endpoints       []Endpoint `json:"endpoints"`
}

// Profile is what dynamic_latency steers a pool by.
type Profile struct {
	// State is none without a sample, warming until the pool's
	// profile_warm_up has passed since the first, then active.
	State string `json:"state"`
	// Average of the round trips of passed probes.
	Average float64   `json:"average_ms,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// Endpoint is the state of an endpoint.
type Endpoint struct {
	Name string `json:"name"`
	// Address is host:port. Resolved are the addresses that its host name
	// has now; left out for an IP address.
	Address  string           `json:"address"`
	Resolved []netip.AddrPort `json:"resolved,omitempty"`
	Enabled  bool             `json:"enabled"`
	Weight   float64          `json:"weight"`
	// Verdict is healthy, unhealthy, unknown or unmonitored, since Since.
	Verdict string    `json:"verdict"`
	Since   time.Time `json:"since,omitzero"`
	// What the last check found. Failure and Cause are empty when it passed.
	Checked time.Time `json:"last_check,omitzero"`
	Failure string    `json:"failure_reason,omitempty"`
	Cause   string    `json:"failure_cause,omitempty"`
	Code    int       `json:"response_code,omitempty"`
	RTT     float64   `json:"rtt_ms,omitempty"`
	// Average of the round trips of passed probes.
	Average         float64 `json:"average_ms,omitempty"`
	OpenRequests    int64   `json:"open_requests"`
	OpenConnections int64   `json:"open_connections"`
	// EjectedUntil is there while the endpoint is out because requests failed.
	EjectedUntil time.Time `json:"ejected_until,omitzero"`
	// Monitors are those of the pool's monitor group. With one, the check above
	// is the newest of those that vote, the failure that of one that fails, and
	// the round trip the mean.
	Monitors []Monitor `json:"monitors,omitempty"`
	// Draining is there while sessions stay although the endpoint was disabled
	// or removed.
	Draining *Drain `json:"draining,omitempty"`
}

// Monitor is what one monitor of a group found at an endpoint.
type Monitor struct {
	Name           string `json:"name"`
	MustBeHealthy  bool   `json:"must_be_healthy"`
	MonitoringOnly bool   `json:"monitoring_only"`
	// Verdict is healthy, unhealthy or unknown, since Since.
	Verdict string    `json:"verdict"`
	Since   time.Time `json:"since,omitzero"`
	Checked time.Time `json:"last_check,omitzero"`
	Failure string    `json:"failure_reason,omitempty"`
	Cause   string    `json:"failure_cause,omitempty"`
	Code    int       `json:"response_code,omitempty"`
	RTT     float64   `json:"rtt_ms,omitempty"`
}

// Drain is the way of an endpoint out of service.
type Drain struct {
	// Removed is whether the file has the endpoint no more.
	Removed bool      `json:"removed"`
	Since   time.Time `json:"since"`
	// Until is when the last sessions are moved.
	Until time.Time `json:"until"`
	// Sessions is about how many sessions have made a request there since the drain
	// began, within the last one to two minutes. Those that are idle are not known.
	Sessions int `json:"sessions"`
}

func (s *Server) status(w http.ResponseWriter, _ *http.Request) {
	// Encoded whole before the first byte, so that an error can still be told.
	body, err := json.MarshalIndent(s.snapshot(time.Now()), "", "  ")
	if err != nil {
		answer(w, http.StatusInternalServerError, "status cannot be encoded: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	_, _ = w.Write(append(body, '\n'))
}

// snapshot gathers the state of this moment. Lists are never null.
func (s *Server) snapshot(now time.Time) *Status {
	out := &Status{
		Version: s.cfg.Version, Started: s.cfg.Started.UTC(),
		Databases: []DatabaseStatus{}, Listeners: []ListenerStatus{}, LoadBalancers: []LoadBalancer{}, Pools: []Pool{},
	}
	if ready, why := s.cfg.Ready(); ready {
		out.Ready = true
	} else {
		out.NotReady = why
	}
	if s.cfg.Reloads != nil {
		out.Config = s.cfg.Reloads()
	}
	if s.cfg.Databases != nil {
		out.Databases = append(out.Databases, s.cfg.Databases()...)
	}
	if s.cfg.Listeners != nil {
		out.Listeners = append(out.Listeners, s.cfg.Listeners()...)
	}
	p := s.cfg.Plan()
	if p == nil {
		return out
	}
	out.Revision = p.Revision
	out.Node = Node{Name: p.Config.Node.Name, PoP: p.Node.PoP, Region: p.Node.Region, Country: p.Node.Country}
	for _, lb := range p.LoadBalancers {
		out.LoadBalancers = append(out.LoadBalancers, loadBalancer(lb))
	}
	for _, pool := range p.Pools {
		out.Pools = append(out.Pools, poolStatus(pool, now))
	}
	return out
}

func loadBalancer(lb *plan.LoadBalancer) LoadBalancer {
	out := LoadBalancer{Name: lb.Name, Policy: lb.Policy, State: loadBalancerState(lb), Pools: []string{}, UsablePools: []string{}}
	for _, p := range candidates(lb) {
		out.Pools = append(out.Pools, p.Name)
		if usable(p) {
			out.UsablePools = append(out.UsablePools, p.Name)
		}
	}
	if lb.Fallback != nil {
		out.FallbackPool = lb.Fallback.Name
	}
	return out
}

// candidates returns all pools that the policy chooses among: the default
// pools in their order, then those that only a geo list names, by name.
func candidates(lb *plan.LoadBalancer) []*plan.Pool {
	all := slices.Clone(lb.Default)
	var listed []*plan.Pool
	for _, list := range lb.Regions {
		listed = append(listed, list...)
	}
	for _, list := range lb.Countries {
		listed = append(listed, list...)
	}
	for _, list := range lb.PoPs {
		listed = append(listed, list...)
	}
	slices.SortFunc(listed, func(a, b *plan.Pool) int { return cmp.Compare(a.Name, b.Name) })
	for _, p := range listed {
		if !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

// usable reports whether steering may choose the pool.
func usable(p *plan.Pool) bool { return p.Enabled && p.Health.Usable() }

// loadBalancerState sums up the pools. A disabled pool says nothing about
// health and is left out.
func loadBalancerState(lb *plan.LoadBalancer) string {
	healthy, some := true, false
	for _, p := range candidates(lb) {
		if !p.Enabled {
			continue
		}
		some = some || p.Health.Usable()
		healthy = healthy && p.Health.State() == health.PoolHealthy
	}
	switch {
	case !some:
		return health.PoolCritical.String()
	case !healthy:
		return health.PoolDegraded.String()
	}
	return health.PoolHealthy.String()
}

func poolStatus(p *plan.Pool, now time.Time) Pool {
	out := Pool{
		Name: p.Name, Enabled: p.Enabled, State: p.Health.State().String(), Usable: usable(p),
		EndpointsUp: p.Health.UpCount(), EndpointsEnabled: p.Health.EnabledCount(), EndpointsTotal: len(p.Endpoints),
		MinimumEndpoints: p.Health.Minimum(),
		Latency:          profile(p, now),
		OpenRequests:     p.Load.Requests(), OpenConnections: p.Load.Connections(),
		Endpoints: []Endpoint{},
	}
	for _, e := range p.Endpoints {
		if e.Removed {
			out.EndpointsTotal--
		}
		out.Endpoints = append(out.Endpoints, endpoint(e, now))
	}
	return out
}

func profile(p *plan.Pool, now time.Time) Profile {
	average, ok := p.Health.Profile().Value()
	if !ok {
		return Profile{State: "none"}
	}
	out := Profile{State: "active", Average: millis(average), Since: p.Health.Profile().Since().UTC()}
	if now.Sub(out.Since) < p.WarmUp {
		out.State = "warming"
	}
	return out
}

func endpoint(e *plan.Endpoint, now time.Time) Endpoint {
	d := e.Health.Detail()
	average, _ := e.Health.Latency().Value()
	out := Endpoint{
		Name: e.Name, Address: e.Key, Resolved: resolved(e), Enabled: e.Enabled, Weight: e.Weight,
		Verdict: e.Health.Verdict().String(), Since: d.Since.UTC(),
		Checked: d.Checked.UTC(), Failure: d.Failure, Cause: d.Cause, Code: d.Code, RTT: millis(d.RTT),
		Average:      millis(average),
		OpenRequests: e.Load.Requests(), OpenConnections: e.Load.Connections(),
	}
	out.EjectedUntil = e.Health.EjectedUntil().UTC()
	for _, m := range d.Monitors {
		out.Monitors = append(out.Monitors, Monitor{
			Name: m.Monitor, MustBeHealthy: m.MustBeHealthy, MonitoringOnly: m.MonitoringOnly,
			Verdict: m.Verdict.String(), Since: m.Since.UTC(), Checked: m.Checked.UTC(),
			Failure: m.Failure, Cause: m.Cause, Code: m.Code, RTT: millis(m.RTT),
		})
	}
	if e.Draining(now) {
		out.Draining = &Drain{Removed: e.Removed, Since: e.Left.UTC(), Until: e.Until.UTC(), Sessions: e.Load.SessionsLately(now)}
	}
	return out
}

// resolved returns the addresses of an endpoint that has a host name.
func resolved(e *plan.Endpoint) []netip.AddrPort {
	name := e.ResolvedName()
	if name == nil {
		return nil
	}
	_, digits, err := net.SplitHostPort(e.Key)
	if err != nil {
		return nil
	}
	port, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 16)
	if err != nil {
		return nil
	}
	var out []netip.AddrPort
	for _, a := range name.Addresses() {
		out = append(out, netip.AddrPortFrom(a, uint16(port)))
	}
	return out
}

// millis is d in milliseconds, to the microsecond.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
