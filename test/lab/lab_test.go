package lab_test

import (
	"fmt"
	"strings"
	"testing"

	"fairlead/test/lab"
)

const config = `
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools: [{name: p, endpoints: [{name: a, address: %q}]}]
load_balancers: [{name: %s, proxied: true, default_pools: [p]}]
`

func TestNode(t *testing.T) {
	lab.NoLeaks(t)
	o := lab.NewOrigin(t, lab.Answer(lab.OK))
	n := lab.Start(t, fmt.Sprintf(config, o.Addr, "www.example.com"))
	get := func(host string) string {
		return lab.Raw(t, n.Addr("web"), "GET / HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n").Status()
	}
	if got := get("www.example.com"); got != "200" {
		t.Errorf("status %s, want 200", got)
	}
	if got := o.Received(); !strings.HasPrefix(got, "GET / HTTP/1.1\r\n") {
		t.Errorf("origin received %q", got)
	}
	if got := n.Metric("fairlead_endpoint_requests_total", "endpoint", "a", "pool", "p"); got != 1 {
		t.Errorf("metric = %v, want 1", got)
	}
	n.Write(fmt.Sprintf(config, o.Addr, "new.example.com"))
	n.AwaitRevision(2)
	if got := get("new.example.com"); got != "200" {
		t.Errorf("status %s after a reload, want 200", got)
	}
	n.Write("pools: [")
	n.AwaitRefusals(1)
}

func TestAddresses(t *testing.T) {
	refusing, hole := lab.Refusing(t), lab.Blackhole(t)
	n := lab.Start(t, fmt.Sprintf(`
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools:
  - {name: refusing, endpoints: [{name: a, address: %q}]}
  - {name: hole, connect_timeout: 100ms, endpoints: [{name: a, address: %q}]}
load_balancers:
  - {name: refusing.example.com, proxied: true, default_pools: [refusing]}
  - {name: hole.example.com, proxied: true, default_pools: [hole]}
`, refusing, hole))
	for host, want := range map[string]string{"refusing": "521", "hole": "522"} {
		r := lab.Raw(t, n.Addr("web"), "GET / HTTP/1.1\r\nHost: "+host+".example.com\r\nConnection: close\r\n\r\n")
		if r.Status() != want || r.End != lab.Closed {
			t.Errorf("%s: status %s, %s; want %s, closed", host, r.Status(), r.End, want)
		}
	}
}
