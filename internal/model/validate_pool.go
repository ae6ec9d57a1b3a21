package model

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

func (v *validator) eachPool() {
	names := uniques{}
	for i := range v.c.Pools {
		p := &v.c.Pools[i]
		at := Place{}.Key("pools").Item(i, p.Name)
		v.name(at.Key("name"), p.Name, "")
		if p.Name != "" {
			names.add(v, at.Key("name"), p.Name, p.Name)
		}
		v.description(at.Key("description"), p.Description)
		v.poolMonitor(at, p)
		v.poolTLS(at, p)
		v.coordinates(at, p.Latitude, p.Longitude)
		v.checkRegions(at.Key("check_regions"), p)
		enum(v, at.Key("endpoint_steering").Key("policy"), p.EndpointSteering.Policy)
		v.shedding(at.Key("load_shedding"), &p.LoadShedding)
		v.capacity(at, p)
		within(v, at.Key("profile_warm_up"), p.ProfileWarmUp, 0, 24*time.Hour)
		within(v, at.Key("connect_timeout"), p.ConnectTimeout, 50*time.Millisecond, 5*time.Minute)
		within(v, at.Key("answer_timeout"), p.AnswerTimeout, 50*time.Millisecond, 24*time.Hour)
		within(v, at.Key("idle_timeout"), p.IdleTimeout, 0, time.Hour)
		within(v, at.Key("max_idle_connections"), p.MaxIdleConnections, 0, 100_000)
		v.endpointLimits(at.Key("endpoint_limits"), &p.EndpointLimits)
		within(v, at.Key("slow_start"), p.SlowStart, 0, time.Hour)
		v.outliers(at.Key("outlier_detection"), &p.OutlierDetection)
		v.endpoints(at, p)
	}
}

func (v *validator) outliers(at Place, o *OutlierDetection) {
	within(v, at.Key("consecutive_failures"), o.ConsecutiveFailures, 0, 1000)
	within(v, at.Key("error_percent"), o.ErrorPercent, 0, 100)
	within(v, at.Key("minimum_requests"), o.MinimumRequests, 1, 1_000_000)
	within(v, at.Key("interval"), o.Interval, time.Second, 10*time.Minute)
	within(v, at.Key("ejection_time"), o.EjectionTime, time.Second, time.Hour)
	within(v, at.Key("max_ejected_percent"), o.MaxEjectedPercent, 1, 100)
	var plain OutlierDetection
	plain.SetDefaults()
	if !o.On() && *o != plain {
		v.bad(at, "looks at nothing: want consecutive_failures or error_percent")
	}
}

func (v *validator) endpointLimits(at Place, l *EndpointLimits) {
	within(v, at.Key("requests"), l.Requests, 0, 1_000_000)
	within(v, at.Key("connections"), l.Connections, 0, 1_000_000)
	within(v, at.Key("queue"), l.Queue, 0, 100_000)
	within(v, at.Key("queue_timeout"), l.QueueTimeout, 0, 5*time.Minute)
	var plain EndpointLimits
	plain.SetDefaults()
	if l.Requests == 0 && l.Connections == 0 && *l != plain {
		v.bad(at, "bounds nothing: want requests or connections")
	}
}

func (v *validator) poolTLS(at Place, p *Pool) {
	enum(v, at.Key("protocol"), p.Protocol)
	at = at.Key("tls")
	v.pair(at, "certificate", p.TLS.Certificate, "key", p.TLS.Key)
	if name := p.TLS.ServerName; name != "" {
		if _, err := netip.ParseAddr(name); err != nil {
			if err := checkHostName(name, false); err != nil {
				v.wrong(at.Key("server_name"), name, "%v", err)
			}
		}
	}
	v.pins(at.Key("pins"), p.TLS.Pins)
	all, _ := v.probing(p)
	unknown := len(all) == 0 && p.Monitor+p.MonitorGroup != "" // told already
	if !p.TLS.Empty() && !p.Protocol.OverTLS() && !unknown && !slices.ContainsFunc(all, (*Monitor).OverTLS) {
		v.bad(at, "given with protocol %s: want it with https, h2 or auto, or with a monitor that speaks TLS", p.Protocol)
	}
}

func (v *validator) pins(at Place, pins []string) {
	const most = 16
	if len(pins) > most {
		v.bad(at, "%d of them: want at most %d", len(pins), most)
		return
	}
	seen := uniques{}
	for i, pin := range pins {
		at := at.Item(i, "")
		if err := checkPin(pin); err != nil {
			v.wrong(at, pin, "%v", err)
			continue
		}
		seen.add(v, at, pin, pin)
	}
}

func (v *validator) checkRegions(at Place, p *Pool) {
	seen := uniques{}
	for i, code := range p.CheckRegions {
		at := at.Item(i, "")
		v.region(at, code, true)
		seen.add(v, at, string(code), code)
	}
	if _, all := seen[string(AllRegions)]; all && len(p.CheckRegions) > 1 {
		v.bad(at, "%s stands for every region: want it alone", AllRegions)
	}
	if len(p.CheckRegions) > 0 && p.Monitor+p.MonitorGroup == "" {
		v.warn(at, "given without monitor: nothing is probed")
	}
}

func (v *validator) shedding(at Place, s *LoadShedding) {
	within(v, at.Key("default_percent"), s.DefaultPercent, 0, 100)
	within(v, at.Key("session_percent"), s.SessionPercent, 0, 100)
	enum(v, at.Key("default_policy"), s.DefaultPolicy)
	if s.SessionPolicy != ShedHash {
		v.wrong(at.Key("session_policy"), s.SessionPolicy, "want hash")
	}
}

// capacity checks the balancing mode and the capacities that go with it.
func (v *validator) capacity(at Place, p *Pool) {
	const most = 1_000_000_000
	within(v, at.Key("max_connections"), p.MaxConnections, 0, most)
	within(v, at.Key("max_connections_per_endpoint"), p.MaxConnectionsPerEndpoint, 0, most)
	within(v, at.Key("max_rate"), p.MaxRate, 0, most)
	within(v, at.Key("max_rate_per_endpoint"), p.MaxRatePerEndpoint, 0, most)
	within(v, at.Key("max_utilization"), p.MaxUtilization, 0, 1)
	within(v, at.Key("capacity_scaler"), p.CapacityScaler, 0, 1)

	given := map[string]bool{
		"max_connections":              p.MaxConnections != 0,
		"max_connections_per_endpoint": p.MaxConnectionsPerEndpoint != 0,
		"max_rate":                     p.MaxRate != 0,
		"max_rate_per_endpoint":        p.MaxRatePerEndpoint != 0,
		"max_utilization":              p.MaxUtilization != 0,
	}
	mode := p.BalancingMode
	if mode == "" {
		given["capacity_scaler"] = p.CapacityScaler != 1
		for _, key := range sortedKeys(given) {
			if given[key] {
				v.bad(at.Key(key), "given without balancing_mode: want both or neither")
			}
		}
		return
	}
	enum(v, at.Key("balancing_mode"), mode)
	refuse := func(keys ...string) {
		for _, key := range keys {
			if given[key] {
				v.bad(at.Key(key), "given with balancing_mode %s, which does not count it", mode)
			}
		}
	}
	one := func(whole, each string, needed bool) {
		switch {
		case given[whole] && given[each]:
			v.bad(at.Key(each), "given with %s: want one of the two", whole)
		case needed && !given[whole] && !given[each]:
			v.bad(at.Key("balancing_mode"), "%s wants %s or %s", mode, whole, each)
		}
	}
	switch mode {
	case BalanceConnection:
		one("max_connections", "max_connections_per_endpoint", true)
		refuse("max_rate", "max_rate_per_endpoint", "max_utilization")
	case BalanceRate:
		one("max_rate", "max_rate_per_endpoint", true)
		refuse("max_connections", "max_connections_per_endpoint", "max_utilization")
	case BalanceUtilization:
		if !given["max_utilization"] {
			v.bad(at.Key("balancing_mode"), "utilization wants max_utilization")
		}
		one("max_connections", "max_connections_per_endpoint", false)
		one("max_rate", "max_rate_per_endpoint", false)
	}
}

func (v *validator) endpoints(at Place, p *Pool) {
	if len(p.Endpoints) == 0 {
		v.bad(at.Key("endpoints"), "missing: want at least one")
	} else if p.MinimumEndpoints < 0 || p.MinimumEndpoints > len(p.Endpoints) {
		v.wrong(at.Key("minimum_endpoints"), p.MinimumEndpoints, "want 0 to %d, the number of endpoints", len(p.Endpoints))
	}
	names, addresses := uniques{}, uniques{}
	weighty := len(p.Endpoints) == 0
	for i := range p.Endpoints {
		e := &p.Endpoints[i]
		at := at.Key("endpoints").Item(i, e.Name)
		v.name(at.Key("name"), e.Name, ".")
		if e.Name != "" {
			names.add(v, at.Key("name"), e.Name, e.Name)
		}
		v.endpointAddress(at.Key("address"), p, e, addresses)
		if within(v, at.Key("weight"), e.Weight, 0, 1) && !hundredths(e.Weight) {
			v.wrong(at.Key("weight"), e.Weight, "want steps of 0.01")
		}
		weighty = weighty || e.Weight > 0
		for _, name := range sortedKeys(e.Header) {
			at := at.Key("header").Header(name)
			if !strings.EqualFold(name, "host") {
				v.bad(at, "want Host only")
				continue
			}
			v.host(at, name, e.Header[name])
		}
		if e.VirtualNetwork != "" {
			v.name(at.Key("virtual_network"), e.VirtualNetwork, ".")
		}
		v.flattening(at, e)
	}
	if !weighty {
		v.warn(at.Key("endpoints"), "all weights are 0: the pool takes no traffic")
	}
}

func (v *validator) endpointAddress(at Place, p *Pool, e *Endpoint, seen uniques) {
	if e.Address == "" {
		v.bad(at, "missing: want host, host:port, an IP address or [IPv6]:port")
		return
	}
	host, port, err := SplitAddress(e.Address)
	if err != nil {
		v.wrong(at, e.Address, "%v", err)
		return
	}
	if ip, err := netip.ParseAddr(host); err == nil && !oneMachine(ip) {
		v.wrong(at, e.Address, "want the address of one machine")
		return
	}
	if port == 0 {
		port = p.DefaultPort()
	}
	// One address in two networks is two machines.
	key := fmt.Sprintf("%s %d %s", canonicalAddr(host), port, e.VirtualNetwork)
	seen.add(v, at, key, e.Address)
}

// DefaultPort returns the port of endpoints whose address has none.
func (p *Pool) DefaultPort() int {
	if p.Protocol.OverTLS() {
		return 443
	}
	return 80
}
