package admin

import (
	"runtime"

	"fairlead/internal/health"
	"fairlead/internal/plan"
	"fairlead/internal/telemetry"
)

const (
	counter = telemetry.CounterKind
	gauge   = telemetry.GaugeKind
)

var (
	ofPool     = []string{"pool"}
	ofEndpoint = []string{"pool", "endpoint"}
)

var (
	buildInfo = &telemetry.Desc{Name: "fairlead_build_info", Kind: gauge, Labels: []string{"version", "go_version"},
		Help: "1, with the version of the program and of the Go toolchain that built it."}
	readyGauge = &telemetry.Desc{Name: "fairlead_ready", Kind: gauge,
		Help: "1 when the node should be sent traffic, else 0."}

	configRevision = &telemetry.Desc{Name: "fairlead_config_revision", Kind: gauge,
		Help: "Number of the plan in force, counted from the start of the process."}
	configRefused = &telemetry.Desc{Name: "fairlead_config_refused", Kind: gauge,
		Help: "1 while the configuration file has errors and an earlier plan is in force, else 0."}
	configApplied = &telemetry.Desc{Name: "fairlead_config_applied_timestamp_seconds", Kind: gauge,
		Help: "When the plan in force was made, in seconds since 1970."}
	configReloads = &telemetry.Desc{Name: "fairlead_config_reloads_total", Kind: counter, Labels: []string{"result"},
		Help: "Changes of the configuration file, by result: applied or refused."}

	loadBalancerStates = &telemetry.Desc{Name: "fairlead_load_balancer_state", Kind: gauge, Labels: []string{"load_balancer", "state"},
		Help: "1 for the state that the load balancer is in, 0 for the others: healthy, degraded, critical."}

	poolStates = &telemetry.Desc{Name: "fairlead_pool_state", Kind: gauge, Labels: []string{"pool", "state"},
		Help: "1 for the state that the pool is in, 0 for the others: healthy, degraded, critical."}
	poolStateChanges = &telemetry.Desc{Name: "fairlead_pool_state_changes_total", Kind: counter, Labels: ofPool,
		Help: "Changes of the pool's state."}
	poolEnabled = &telemetry.Desc{Name: "fairlead_pool_enabled", Kind: gauge, Labels: ofPool,
		Help: "1 when the pool is enabled, else 0."}
	poolEndpoints = &telemetry.Desc{Name: "fairlead_pool_endpoints", Kind: gauge, Labels: ofPool,
		Help: "Enabled endpoints of the pool."}
	poolEndpointsUp = &telemetry.Desc{Name: "fairlead_pool_endpoints_up", Kind: gauge, Labels: ofPool,
		Help: "Enabled endpoints of the pool that may be sent traffic."}
	poolMinimum = &telemetry.Desc{Name: "fairlead_pool_minimum_endpoints", Kind: gauge, Labels: ofPool,
		Help: "Endpoints that have to be up for the pool not to be critical."}
	poolLatency = &telemetry.Desc{Name: "fairlead_pool_latency_seconds", Kind: gauge, Labels: ofPool,
		Help: "Moving average of the round trips of the pool's passed probes."}
	poolRequests = &telemetry.Desc{Name: "fairlead_pool_open_requests", Kind: gauge, Labels: ofPool,
		Help: "Requests that are open at the pool's endpoints."}
	poolConnections = &telemetry.Desc{Name: "fairlead_pool_open_connections", Kind: gauge, Labels: ofPool,
		Help: "Connections that are open to the pool's endpoints, idle ones included."}

	endpointUp = &telemetry.Desc{Name: "fairlead_endpoint_up", Kind: gauge, Labels: ofEndpoint,
		Help: "1 when the endpoint's health allows traffic, else 0. An endpoint without a monitor has 1."}
	endpointMonitor = &telemetry.Desc{Name: "fairlead_endpoint_monitor_up", Kind: gauge, Labels: []string{"pool", "endpoint", "monitor"},
		Help: "1 when a monitor of the pool's monitor group finds the endpoint healthy, else 0."}
	endpointEnabled = &telemetry.Desc{Name: "fairlead_endpoint_enabled", Kind: gauge, Labels: ofEndpoint,
		Help: "1 when the endpoint is enabled, else 0."}
	endpointChanges = &telemetry.Desc{Name: "fairlead_endpoint_verdict_changes_total", Kind: counter, Labels: ofEndpoint,
		Help: "Changes of the endpoint's verdict, the first one included."}
	endpointEjections = &telemetry.Desc{Name: "fairlead_endpoint_ejections_total", Kind: counter, Labels: ofEndpoint,
		Help: "Times that the endpoint was taken out because requests failed (outlier_detection)."}
	endpointLatency = &telemetry.Desc{Name: "fairlead_endpoint_latency_seconds", Kind: gauge, Labels: ofEndpoint,
		Help: "Moving average of the round trips of the endpoint's passed probes."}
	endpointRequests = &telemetry.Desc{Name: "fairlead_endpoint_open_requests", Kind: gauge, Labels: ofEndpoint,
		Help: "Requests that are open at the endpoint."}
	endpointConnections = &telemetry.Desc{Name: "fairlead_endpoint_open_connections", Kind: gauge, Labels: ofEndpoint,
		Help: "Connections that are open to the endpoint, idle ones included."}

	probeTargets = &telemetry.Desc{Name: "fairlead_probe_targets", Kind: gauge,
		Help: "Endpoints that are probed, once for each of their monitors."}
	probesInFlight = &telemetry.Desc{Name: "fairlead_probes_in_flight", Kind: gauge,
		Help: "Probes that are running."}
	probesWaiting = &telemetry.Desc{Name: "fairlead_probes_waiting", Kind: gauge,
		Help: "Checks that are due and wait because too many probes are running."}
	probeRetries = &telemetry.Desc{Name: "fairlead_probe_retries_total", Kind: counter,
		Help: "Further attempts after a time-out."}
	probeResults = &telemetry.Desc{Name: "fairlead_probes_total", Kind: counter, Labels: []string{"result"},
		Help: "Completed checks, by result: No failures, or the failure."}

	resolverNames = &telemetry.Desc{Name: "fairlead_resolver_names", Kind: gauge,
		Help: "Host names of endpoints that are kept resolved."}
	resolverLookups = &telemetry.Desc{Name: "fairlead_resolver_lookups_total", Kind: counter, Labels: []string{"result"},
		Help: "Look-ups of endpoints' host names, by result: found, not_found or failed."}
)

// Collect emits the state of the plan in force and of what is observed.
func (s *Server) Collect(e *telemetry.Emitter) {
	e.Gauge(buildInfo, 1, s.cfg.Version, runtime.Version())
	ready, _ := s.cfg.Ready()
	e.Gauge(readyGauge, number(ready))
	if s.cfg.Reloads != nil {
		r := s.cfg.Reloads()
		e.Gauge(configRefused, number(r.Error != ""))
		e.Counter(configReloads, r.Reloads, "applied")
		e.Counter(configReloads, r.Refusals, "refused")
		if !r.Applied.IsZero() {
			e.Gauge(configApplied, float64(r.Applied.UnixMilli())/1000)
		}
	}
	if s.cfg.Probes != nil {
		collectProbes(e, s.cfg.Probes())
	}
	if s.cfg.Lookups != nil {
		l := s.cfg.Lookups()
		e.Gauge(resolverNames, float64(l.Names))
		e.Counter(resolverLookups, l.Found, "found")
		e.Counter(resolverLookups, l.NotFound, "not_found")
		e.Counter(resolverLookups, l.Failed, "failed")
	}
	p := s.cfg.Plan()
	if p == nil {
		return
	}
	e.Gauge(configRevision, float64(p.Revision))
	for _, lb := range p.LoadBalancers {
		collectState(e, loadBalancerStates, lb.Name, loadBalancerState(lb))
	}
	changes := changesOf(s.cfg.Health)
	for _, pool := range p.Pools {
		collectPool(e, pool, changes)
		for _, endpoint := range pool.Endpoints {
			if endpoint.Removed {
				continue // another one may have its name
			}
			collectEndpoint(e, endpoint, changes)
		}
	}
}

func collectProbes(e *telemetry.Emitter, s health.Stats) {
	e.Gauge(probeTargets, float64(s.Targets))
	e.Gauge(probesInFlight, float64(s.InFlight))
	e.Gauge(probesWaiting, float64(s.Waiting))
	e.Counter(probeRetries, s.Retries)
	for result, n := range s.Probes {
		e.Counter(probeResults, n, result)
	}
}

// changes are the counts of changes that the health table keeps.
type changes struct {
	pools     map[string]uint64
	endpoints map[health.Key]health.EndpointSnapshot
}

func changesOf(t *health.Table) changes {
	s := t.Snapshot()
	c := changes{make(map[string]uint64, len(s.Pools)), make(map[health.Key]health.EndpointSnapshot, len(s.Endpoints))}
	for _, p := range s.Pools {
		c.pools[p.Name] = p.Changes
	}
	for _, e := range s.Endpoints {
		c.endpoints[e.Key] = e
	}
	return c
}

func collectPool(e *telemetry.Emitter, p *plan.Pool, c changes) {
	collectState(e, poolStates, p.Name, p.Health.State().String())
	e.Counter(poolStateChanges, c.pools[p.Name], p.Name)
	e.Gauge(poolEnabled, number(p.Enabled), p.Name)
	e.Gauge(poolEndpoints, float64(p.Health.EnabledCount()), p.Name)
	e.Gauge(poolEndpointsUp, float64(p.Health.UpCount()), p.Name)
	e.Gauge(poolMinimum, float64(p.Health.Minimum()), p.Name)
	if average, ok := p.Health.Profile().Value(); ok {
		e.Gauge(poolLatency, average.Seconds(), p.Name)
	}
	e.Gauge(poolRequests, float64(p.Load.Requests()), p.Name)
	e.Gauge(poolConnections, float64(p.Load.Connections()), p.Name)
}

func collectEndpoint(e *telemetry.Emitter, ep *plan.Endpoint, c changes) {
	pool, name := ep.Pool.Name, ep.Name
	e.Gauge(endpointUp, number(ep.Health.Up()), pool, name)
	for _, m := range ep.Health.Detail().Monitors {
		e.Gauge(endpointMonitor, number(m.Verdict == health.Healthy), pool, name, m.Monitor)
	}
	e.Gauge(endpointEnabled, number(ep.Enabled), pool, name)
	e.Counter(endpointChanges, c.endpoints[ep.Health.Key].Changes, pool, name)
	e.Counter(endpointEjections, c.endpoints[ep.Health.Key].Ejections, pool, name)
	if average, ok := ep.Health.Latency().Value(); ok {
		e.Gauge(endpointLatency, average.Seconds(), pool, name)
	}
	e.Gauge(endpointRequests, float64(ep.Load.Requests()), pool, name)
	e.Gauge(endpointConnections, float64(ep.Load.Connections()), pool, name)
}

// collectState emits one series for each state, so that a change is seen as
// one series going to 0 and another to 1.
func collectState(e *telemetry.Emitter, d *telemetry.Desc, name, state string) {
	for s := health.PoolCritical; s <= health.PoolHealthy; s++ {
		e.Gauge(d, number(s.String() == state), name, s.String())
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
