package plan

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"fairlead/internal/model"
)

// drainFile has pool p with endpoints, and two load balancers that have it: their
// sessions drain for 60s and 2m.
func drainFile(t *testing.T, endpoints string) *model.Config {
	return declared(t, fmt.Sprintf(`
monitors: [{name: up, type: http}]
pools: [{name: p, monitor: up, endpoints: [%s]}, {name: other, endpoints: [{name: z, address: 192.0.2.9}]}]
load_balancers:
  - {name: a, proxied: true, default_pools: [p], session_affinity: header,
     session_affinity_attributes: {headers: [x], drain_duration: 60s}}
  - {name: b, proxied: true, default_pools: [p], session_affinity: header,
     session_affinity_attributes: {headers: [x]}, rules: [{name: r, condition: ssl, overrides: {session_affinity_attributes: {headers: [x], drain_duration: 2m}}}]}
  - {name: c, proxied: true, default_pools: [other, p]}
`, endpoints))
}

// An endpoint that is disabled, or removed, is there until its longest drain is over,
// and probed until then.
func TestDrain(t *testing.T) {
	const (
		one  = "{name: one, address: 192.0.2.1}"
		two  = "{name: two, address: 192.0.2.2}"
		off  = "{name: two, address: 192.0.2.2, enabled: false}"
		move = "{name: two, address: 192.0.2.3}" // another endpoint by the same name
	)
	for _, c := range []struct {
		name, text string
		removed    bool
	}{
		{"disabled", one + ", " + off, false},
		{"removed", one, true},
		{"at another address", one + ", " + move, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tab := tables(t)
				next := func(p *Plan, text string) *Plan {
					p, err := Compile(drainFile(t, text), p, tab)
					if err != nil {
						t.Fatal(err)
					}
					return p
				}
				// find returns what a plan has of the endpoint.
				find := func(p *Plan) (e *Endpoint, probed bool) {
					for _, x := range p.Endpoints {
						if x.Key == "192.0.2.2:80" {
							e = x
						}
					}
					for _, target := range p.Targets {
						probed = probed || target.Key.Address == "192.0.2.2:80"
					}
					return e, probed
				}
				// A file that has it disabled from the start drains nothing.
				if e, probed := find(next(nil, one+", "+off)); e.Leaving() || probed || e.Draining(time.Now()) {
					t.Errorf("of a first plan: %+v", e)
				}
				p := next(nil, one+", "+two)
				if e, probed := find(p); e.Leaving() || !probed || !p.NextDrained().IsZero() {
					t.Errorf("before: %+v", e)
				}
				time.Sleep(time.Hour)
				left := time.Now()
				for range 3 { // a reload in between starts no clock anew
					p = next(p, c.text)
					e, probed := find(p)
					if e == nil || !e.Leaving() || !e.Left.Equal(left) || !e.Until.Equal(left.Add(2*time.Minute)) || e.Removed != c.removed ||
						e.Enabled || !probed || !p.NextDrained().Equal(left.Add(2*time.Minute+DrainRest)) {
						t.Fatalf("after %v: %+v, probed: %v, next %v", time.Since(left), e, probed, p.NextDrained())
					}
					a, b := p.LoadBalancers[0].Affinity, p.LoadBalancers[1].Affinity
					if got := a.Endpoint(e.Session); got != e {
						t.Errorf("sessions of a find %v", got)
					}
					now := time.Now()
					if a.Keeps(e, now) != (now.Sub(left) < time.Minute) || b.Keeps(e, now) ||
						!p.LoadBalancers[1].With(key(p.LoadBalancers[1], 0)).Affinity.Keeps(e, now) || p.LoadBalancers[2].Affinity.Keeps(e, now) {
						t.Errorf("after %v: wrong about who keeps it", now.Sub(left))
					}
					if p.Pools[0].Health.Up(e.Slot) {
						t.Error("new sessions may come")
					}
					time.Sleep(50 * time.Second)
				}
				back := next(p, one+", "+two)
				if e, _ := find(back); e.Leaving() || !e.Enabled {
					t.Errorf("back: %+v", e)
				}
				if e, _ := find(next(back, one+", "+two)); e.Leaving() {
					t.Errorf("later: %+v", e)
				}
				time.Sleep(time.Until(p.NextDrained()))
				p = next(p, c.text)
				e, probed := find(p)
				if probed || !p.NextDrained().IsZero() || c.removed != (e == nil) || e != nil && e.Leaving() {
					t.Errorf("drained: %+v, probed: %v", e, probed)
				}
			})
		})
	}
}

// Nothing drains where no load balancer's sessions do.
func TestNothingDrains(t *testing.T) {
	tab := tables(t)
	for _, affinity := range []string{"none", "client_ip", "header, session_affinity_attributes: {headers: [x]}"} {
		text := func(endpoints string) string {
			return fmt.Sprintf("pools: [{name: p, endpoints: [{name: a, address: 192.0.2.1}%s]}]\n"+
				"load_balancers: [{name: x, proxied: true, default_pools: [p], session_affinity: %s}]\n", endpoints, affinity)
		}
		first := compiled(t, text(", {name: b, address: 192.0.2.2}"), 1, tab)
		for _, now := range []string{"", ", {name: b, address: 192.0.2.2, enabled: false}"} {
			p, err := Compile(declared(t, text(now)), first, tab)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(p.Endpoints); n != 1+strings.Count(now, "name") || !p.NextDrained().IsZero() {
				t.Errorf("%s: %d endpoints, next %v", affinity, n, p.NextDrained())
			}
		}
	}
}
