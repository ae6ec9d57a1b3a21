package plan

import (
	"strings"

	"fairlead/internal/health"
	"fairlead/internal/model"
)

// watch is one monitor of a pool.
type watch struct {
	*model.Monitor
	member *model.MonitorMember // of the pool's group; nil for a monitor alone
	zone   string               // that clients of the pool ask for, if the monitor needs it
}

// watches returns the monitors that probe a pool; none where nothing does.
func (k *compiler) watches(m *model.Pool) []watch {
	var list []watch
	if monitor := k.monitors[m.Monitor]; monitor != nil {
		list = append(list, watch{Monitor: monitor})
	} else if g := k.groups[m.MonitorGroup]; g != nil {
		for i := range g.Members {
			if member := &g.Members[i]; member.Enabled {
				list = append(list, watch{Monitor: k.monitors[member.Monitor], member: member})
			}
		}
	}
	for i := range list {
		if list[i].SimulateZone {
			list[i].zone = askedName(k.plan.Config, m.Name)
		}
	}
	return list
}

// target is an endpoint as a monitor probes it, but for what the pool's files
// hold.
func (k *compiler) target(p *Pool, e *Endpoint, w *watch) health.Target {
	host, _, _ := model.SplitAddress(e.declared.Address) // valid: endpoint took it apart
	t := health.Target{
		Key: e.Health.Key, Endpoint: e.Health, Monitor: w.Monitor,
		Host: host, Port: int(e.port), Name: e.name, HostHeader: e.Host,
		SourceAddresses: k.plan.Config.Node.SourceAddresses,
		TLS:             p.TLS, ServerName: p.TLSFiles.ServerName,
	}
	if p.TLS {
		t.ServerName = e.ServerName // probes judge the certificate that traffic meets
	}
	if w.SimulateZone {
		t.Protocol, t.Zone = p.Protocol, w.zone
	}
	if w.member != nil {
		t.Member, t.MustBeHealthy, t.MonitoringOnly = w.Name, w.member.MustBeHealthy, w.member.MonitoringOnly
	}
	return t
}

// askedName returns the name that clients of a pool ask for: that of the first load
// balancer that has the pool and stands for one name; "" where there is none.
func askedName(c *model.Config, pool string) string {
	for i := range c.LoadBalancers {
		b := &c.LoadBalancers[i]
		if b.Enabled && b.Proxied && !strings.HasPrefix(b.Name, "*.") && b.Candidates()[pool] {
			return model.CanonicalHost(b.Name)
		}
	}
	return ""
}
