package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"fairlead/internal/rules"
)

func TestConditions(t *testing.T) {
	const base = `
pools: [{name: p, endpoints: [{name: a, address: 192.0.2.1}]}]
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
load_balancers:
  - name: www.example.com
    proxied: true
    default_pools: [p]
    rules:
      - {name: one, condition: 'true', fixed_response: {status_code: 410}}
      - name: two
        condition: %s
        fixed_response: {status_code: 410}
`
	for _, test := range []struct {
		condition string
		want      []string
	}{
		{`'http.host eq "x" and not ip.src in {192.0.2.0/24}'`, nil},
		{`'http.hots eq "x"'`, []string{`error load_balancers[0].rules[1].condition: load balancer "www.example.com": rule "two": condition: column 1: `}},
		{`'http.host eq 1'`, []string{`error load_balancers[0].rules[1].condition: load balancer "www.example.com": rule "two": condition: column 14: `}},
		{"|\n          http.host eq \"x\" and\n            ip.src eq \"y\"", []string{`error load_balancers[0].rules[1].condition: load balancer "www.example.com": rule "two": condition: line 2, column 13: `}},
		{"'" + strings.Repeat("x", rules.MaxLength+1) + "'", []string{`error load_balancers[0].rules[1].condition: load balancer "www.example.com": rule "two": condition: column 1: `}},
		{`'dns.qry.type eq 28'`, []string{`warning load_balancers[0].rules[1].condition: load balancer "www.example.com": rule "two": condition: column 1: `}},
	} {
		t.Run(test.condition[:min(len(test.condition), 60)], func(t *testing.T) {
			var got []string
			for _, p := range Conditions(declared(t, fmt.Sprintf(base, test.condition))) {
				kind := "error"
				if p.Warning {
					kind = "warning"
				}
				got = append(got, kind+" "+p.Path+": "+p.Text)
			}
			if !slices.EqualFunc(got, test.want, func(got, want string) bool { return len(got) > len(want) && got[:len(want)] == want }) {
				t.Errorf("Conditions() = %q, want %q", got, test.want)
			}
		})
	}
}
