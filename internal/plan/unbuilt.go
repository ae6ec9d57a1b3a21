package plan

import "fairlead/internal/model"

// Unbuilt returns what c asks for and no plane can do. Such a file is valid,
// and is refused by whoever would serve it, so that no setting is accepted
// and ignored.
func Unbuilt(c *model.Config) []model.Problem {
	u := unbuilt{}
	root := model.Place{}
	u.when(c.State != nil, root.Key("state"), "declarations come from this file only; remove the section")
	for i := range c.Listeners {
		u.listener(root.Key("listeners").Item(i, c.Listeners[i].Name), &c.Listeners[i])
	}
	for i := range c.Pools {
		u.pool(root.Key("pools").Item(i, c.Pools[i].Name), &c.Pools[i])
	}
	for i := range c.LoadBalancers {
		u.loadBalancer(c, root.Key("load_balancers").Item(i, c.LoadBalancers[i].Name), &c.LoadBalancers[i])
	}
	return u.problems
}

type unbuilt struct{ problems []model.Problem }

func (u *unbuilt) add(at model.Place, why string) {
	u.problems = append(u.problems, model.Problem{Path: at.Path, Text: at.Text + ": not available in this version: " + why})
}

func (u *unbuilt) when(used bool, at model.Place, why string) {
	if used {
		u.add(at, why)
	}
}

func (u *unbuilt) listener(at model.Place, l *model.Listener) {
	switch {
	case l.Protocol == model.ListenerDoH || l.Protocol == model.ListenerDoQ:
		u.add(at.Key("protocol"), "DNS is spoken over UDP, TCP and TLS: want dns or dot")
	case l.Layer4():
		u.add(at.Key("protocol"), "there is no layer 4 plane; listeners speak http, https, dns and dot")
	}
}

func (u *unbuilt) pool(at model.Place, p *model.Pool) {
	u.when(len(p.CheckRegions) > 0, at.Key("check_regions"), "probes run from this node")
	const capacity = "no steering policy reads capacities"
	u.when(p.BalancingMode != "", at.Key("balancing_mode"), capacity)
	u.when(p.CapacityScaler != 1, at.Key("capacity_scaler"), capacity)
	for i := range p.Endpoints {
		e := &p.Endpoints[i]
		u.when(e.VirtualNetwork != "", at.Key("endpoints").Item(i, e.Name).Key("virtual_network"), "there are no tunnels")
	}
}

func (u *unbuilt) loadBalancer(c *model.Config, at model.Place, b *model.LoadBalancer) {
	u.when(!b.Proxied && b.Enabled && !zoned(c, b), at.Key("proxied"), "load balancers are served over HTTP and DNS only; set proxied: true, or have zones hold the name")
	u.when(b.SteeringPolicy == model.SteerCapacity, at.Key("steering_policy"), "no steering policy reads capacities")
	for i := range b.Rules {
		u.overrides(at.Key("rules").Item(i, b.Rules[i].Name).Key("overrides"), b.Rules[i].Overrides)
	}
	u.when(b.ConnectionDrainingTimeout > 0, at.Key("connection_draining_timeout"), "there is no layer 4 plane")
}

func (u *unbuilt) overrides(at model.Place, o *model.Overrides) {
	if o == nil {
		return
	}
	u.when(o.SteeringPolicy == model.SteerCapacity, at.Key("steering_policy"), "no steering policy reads capacities")
}
