package dnslb

import (
	"net/netip"

	"fairlead/internal/dnswire"
	"fairlead/internal/geo"
	"fairlead/internal/plan"
	"fairlead/internal/rules"
)

// judge runs the rules of a load balancer and returns what they make of it.
func (r *responder) judge(b *plan.LoadBalancer, stats *balancerView) *plan.LoadBalancer {
	if len(b.Rules) == 0 {
		return b
	}
	s := r.steering
	s.key = s.key[:0]
	s.view.r, s.view.balancer, s.view.located = r, b.Name, false
	for i := range b.Rules {
		rule := &b.Rules[i]
		s.view.made = s.view.made[:0]
		if !rule.Condition.Match(&s.view, &s.scratch) {
			continue
		}
		stats.rules[i].inc(r.shard)
		s.key = plan.AppendOverride(s.key, rule)
		if rule.Last {
			break
		}
	}
	if len(s.key) == 0 {
		return b
	}
	return b.With(s.key)
}

// view is what rules know of a query. It implements rules.Env, and notes what of the
// client subnet they ask for.
type view struct {
	r        *responder
	balancer string
	made     []byte // values that the query does not have as they are asked for

	located bool // place is the client's
	place   geo.Place
}

// Bool implements rules.Env.
func (v *view) Bool(f rules.Field) (is, ok bool) {
	if f == rules.FieldQueryClient {
		return v.r.q.HasECS, true
	}
	return true, f == rules.FieldQueryQuestion
}

// Int implements rules.Env.
func (v *view) Int(f rules.Field) (n int64, ok bool) {
	switch f {
	case rules.FieldQueryType:
		return int64(v.r.q.Type), true
	case rules.FieldQueryNameLen:
		return int64(len(v.name())), true
	case rules.FieldClientASN:
		p := v.where()
		v.consulted(p.Bits.ASN)
		return int64(p.ASN), p.ASN != 0
	}
	return 0, false
}

// IP implements rules.Env.
func (v *view) IP(f rules.Field) (a netip.Addr, ok bool) {
	v.r.byClient()
	if f == rules.FieldQueryClientIP {
		a = v.r.subnet()
		return a, a.IsValid()
	}
	return v.r.client(), true
}

// String implements rules.Env.
func (v *view) String(f rules.Field) (b []byte, ok bool) {
	switch f {
	case rules.FieldLoadBalancerName:
		return v.text(v.balancer), true
	case rules.FieldLoadBalancerRegion:
		region := string(v.r.snap.plan.Node.Region)
		return v.text(region), region != ""
	case rules.FieldQueryName:
		return v.name(), true
	case rules.FieldClientCountry:
		p := v.where()
		v.consulted(p.Bits.Country)
		return v.text(string(p.Country)), p.Country != ""
	case rules.FieldClientContinent:
		p := v.where()
		v.consulted(p.Bits.Country)
		if c := geo.FindCountry(p.Country); c != nil {
			return v.text(c.Continent), true
		}
	case rules.FieldClientSubdivision:
		p, at := v.where(), len(v.made)
		v.consulted(p.Bits.Subdivision)
		v.made = p.Subdivision.AppendTo(v.made)
		return v.made[at:], len(v.made) > at
	case rules.FieldClientRegion:
		at := len(v.made)
		v.consulted(v.where().Bits.Subdivision)
		v.made = v.r.snap.plan.Geo.AppendName(v.made, v.r.client(), geo.NameSubdivision)
		return v.made[at:], len(v.made) > at
	}
	return nil, false
}

// where returns what is known of where the client is.
func (v *view) where() *geo.Place {
	if !v.located {
		v.located, v.place = true, v.r.snap.plan.Geo.Locate(v.r.client())
	}
	return &v.place
}

// consulted notes that so many bits of the client's address have played a part.
func (v *view) consulted(bits uint8) {
	if v.r.subnet().IsValid() {
		v.r.consulted(bits)
	}
}

// Next implements rules.Env.
func (v *view) Next(rules.Field, int) (name, value []byte, next int) { return nil, nil, 0 }

// name returns the name that is asked for, in lower case: resolvers mix the case of
// what they send.
func (v *view) name() []byte {
	at := len(v.made)
	v.made = dnswire.AppendName(v.made, v.r.q.Key.Name())
	return v.made[at:]
}

func (v *view) text(s string) []byte {
	at := len(v.made)
	v.made = append(v.made, s...)
	return v.made[at:]
}
