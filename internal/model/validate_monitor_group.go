package model

import "slices"

func (v *validator) eachMonitorGroup() {
	names := uniques{}
	for i := range v.c.MonitorGroups {
		g := &v.c.MonitorGroups[i]
		at := Place{}.Key("monitor_groups").Item(i, g.Name)
		v.name(at.Key("name"), g.Name, "")
		if g.Name != "" {
			names.add(v, at.Key("name"), g.Name, g.Name)
		}
		v.description(at.Key("description"), g.Description)
		v.groupMembers(at.Key("members"), g)
	}
}

func (v *validator) groupMembers(at Place, g *MonitorGroup) {
	if len(g.Members) == 0 {
		v.bad(at, "missing: want at least one")
		return
	}
	var monitors []string
	for i := range v.c.Monitors {
		monitors = append(monitors, v.c.Monitors[i].Name)
	}
	members := uniques{}
	for i := range g.Members {
		m := &g.Members[i]
		at := at.Item(i, m.Monitor)
		if m.MustBeHealthy && m.MonitoringOnly {
			v.bad(at.Key("must_be_healthy"), "given with monitoring_only, which has no say: want one of the two")
		}
		at = at.Key("monitor")
		if m.Monitor == "" {
			v.bad(at, "missing: want the name of a monitor")
			continue
		}
		v.usedMonitors[m.Monitor] = true
		members.add(v, at, m.Monitor, m.Monitor)
		if v.monitors[m.Monitor] == nil {
			v.dangling(at, "monitor", m.Monitor, monitors)
		}
	}
	if !slices.ContainsFunc(g.Members, func(m MonitorMember) bool { return m.Votes() }) {
		v.bad(at, "none of them is enabled and votes: want at least one that does")
	}
}

// probing returns the monitors that probe a pool, and those of them that have
// a say; what is not declared is left out.
func (v *validator) probing(p *Pool) (all, voting []*Monitor) {
	if m := v.monitors[p.Monitor]; m != nil {
		return []*Monitor{m}, []*Monitor{m}
	}
	g := v.groups[p.MonitorGroup]
	if g == nil {
		return nil, nil
	}
	for i := range g.Members {
		member := &g.Members[i]
		m := v.monitors[member.Monitor]
		if m == nil || !member.Enabled {
			continue
		}
		all = append(all, m)
		if member.Votes() {
			voting = append(voting, m)
		}
	}
	return all, voting
}

// poolMonitor checks which monitors probe a pool.
func (v *validator) poolMonitor(at Place, p *Pool) {
	if p.Monitor != "" {
		v.usedMonitors[p.Monitor] = true
		if v.monitors[p.Monitor] == nil {
			var names []string
			for i := range v.c.Monitors {
				names = append(names, v.c.Monitors[i].Name)
			}
			v.dangling(at.Key("monitor"), "monitor", p.Monitor, names)
		}
	}
	if p.MonitorGroup != "" {
		v.usedGroups[p.MonitorGroup] = true
		if v.groups[p.MonitorGroup] == nil {
			var names []string
			for i := range v.c.MonitorGroups {
				names = append(names, v.c.MonitorGroups[i].Name)
			}
			v.dangling(at.Key("monitor_group"), "monitor group", p.MonitorGroup, names)
		}
	}
	if p.Monitor != "" && p.MonitorGroup != "" {
		v.bad(at.Key("monitor_group"), "given with monitor: want one of the two")
		return
	}
	key := "monitor"
	if p.MonitorGroup != "" {
		key = "monitor_group"
	}
	all, _ := v.probing(p)
	for _, m := range all {
		v.simulates(at.Key(key), p, m)
	}
}

// simulates checks that a monitor which asks as requests do has the type that
// says how they go.
func (v *validator) simulates(at Place, p *Pool, m *Monitor) {
	want := MonitorHTTP
	if p.Protocol.OverTLS() {
		want = MonitorHTTPS
	}
	if m.SimulateZone && m.SpeaksHTTP() && m.Type != want {
		v.bad(at, "monitor %q has simulate_zone and type %s: want type %s for protocol %s", m.Name, m.Type, want, p.Protocol)
	}
}
