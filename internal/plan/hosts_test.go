package plan

import (
	"strings"
	"testing"
)

const hostsFile = `
listeners: [{name: web, address: "127.0.0.1:0", protocol: http}]
pools: [{name: main, endpoints: [{name: a, address: 192.0.2.1}]}]
load_balancers:
  - {name: "*.example.com", proxied: true, default_pools: [main]}
  - {name: X.example.com., proxied: true, default_pools: [main]}
  - {name: "*.x.example.com", proxied: true, default_pools: [main]}
  - {name: 192.0.2.80, proxied: true, default_pools: [main]}
  - {name: "2001:DB8:0:0::80", proxied: true, default_pools: [main]}
  - {name: off.example.net, enabled: false, proxied: true, default_pools: [main]}
  - {name: dns.example.net, default_pools: [main]}
`

// TestHost holds the table of case C34: a wildcard covers one or more labels
// and not the name below its star, exact beats wildcard, longer beats shorter.
func TestHost(t *testing.T) {
	p := compiled(t, hostsFile, 1, tables(t))
	for _, test := range []struct{ host, want string }{
		{"a.example.com", "*.example.com"},
		{"a.b.example.com", "*.example.com"},
		{"X.Example.com.", "x.example.com"},
		{"x.example.com", "x.example.com"},
		{"a.x.example.com", "*.x.example.com"},
		{"a.b.x.example.com", "*.x.example.com"},
		{"A.B.X.EXAMPLE.COM.", "*.x.example.com"},
		{"ax.example.com", "*.example.com"},
		{"y.a.example.com", "*.example.com"},
		{"example.com", ""},
		{"example.com.", ""},
		{"aexample.com", ""},
		{"example.net", ""},
		{"com", ""},

		{"192.0.2.80", "192.0.2.80"},
		{"192.0.2.81", ""},
		{"[2001:db8::80]", "2001:db8:0:0::80"},
		{"[2001:DB8::80]", "2001:db8:0:0::80"},
		{"[2001:db8::81]", ""},
		{"2001:db8::80", ""},

		{"off.example.net", ""}, // disabled
		{"dns.example.net", ""}, // not proxied

		{"", ""},
		{".", ""},
		{"..", ""},
		{"a.example.com..", ""},
		{"*.example.com", "*.example.com"}, // no DNS name, and the parser of requests refuses it
		{"a_b.example.com", "*.example.com"},
		{strings.Repeat("a.", 120) + "example.com", "*.example.com"},
		{strings.Repeat("a", 254), ""},
		{strings.Repeat("a.", 200) + "example.com", ""}, // longer than a name can be
	} {
		got := ""
		if b := p.Host([]byte(test.host)); b != nil {
			got = b.Name
		}
		if got != test.want {
			t.Errorf("Host(%q) = %q, want %q", test.host, got, test.want)
		}
	}
	if b := new(Plan).Host([]byte("a.example.com")); b != nil {
		t.Errorf("Host of an empty plan = %v, want nil", b)
	}
}

// A request looks its host up once, so that must not allocate.
func TestHostAllocatesNothing(t *testing.T) {
	p := compiled(t, hostsFile, 1, tables(t))
	for _, host := range []string{"x.example.com", "A.B.X.Example.COM.", "a.b.c.d.e.f.example.org", strings.Repeat("a.", 126)} {
		b := []byte(host)
		if n := testing.AllocsPerRun(100, func() { p.Host(b) }); n != 0 {
			t.Errorf("Host(%q) allocates %v times, want 0", host, n)
		}
	}
}

func BenchmarkHost(b *testing.B) {
	p := &Plan{}
	for _, name := range []string{"*.example.com", "x.example.com"} {
		p.hosts.add(&LoadBalancer{Name: name})
	}
	for _, host := range []string{"x.example.com", "a.b.c.example.com"} {
		b.Run(host, func(b *testing.B) {
			h := []byte(host)
			for b.Loop() {
				p.Host(h)
			}
		})
	}
}
