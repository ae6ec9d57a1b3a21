package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSplitAddress(t *testing.T) {
	for _, c := range []struct {
		addr, host string
		port       int
		err        string // part of it; "" for none
	}{
		{"x.org", "x.org", 0, ""},
		{"x.org:80", "x.org", 80, ""},
		{"x.org.:80", "x.org.", 80, ""},
		{"localhost:65535", "localhost", 65535, ""},
		{"my_service", "my_service", 0, ""},
		{"192.0.2.1", "192.0.2.1", 0, ""},
		{"192.0.2.1:1", "192.0.2.1", 1, ""},
		{"::1", "::1", 0, ""},
		{"2001:db8::1:80", "2001:db8::1:80", 0, ""}, // an address, not a port
		{"[::1]", "::1", 0, ""},
		{"[::1]:80", "::1", 80, ""},
		{"fe80::1%eth0", "fe80::1%eth0", 0, ""},
		{"[fe80::1%eth0]:80", "fe80::1%eth0", 80, ""},
		{"", "", 0, "want host"},
		{":80", "", 0, "want a host name"},
		{"x.org:", "", 0, `port "": want 1 to 65535`},
		{"x.org:0", "", 0, `port "0"`},
		{"x.org:65536", "", 0, `port "65536"`},
		{"x.org:-1", "", 0, `port "-1"`},
		{"x.org:08", "", 0, `port "08"`},
		{"x.org: 8", "", 0, `port " 8"`},
		{"x.org:８", "", 0, "port"},
		{"[::1", "", 0, "want ]"},
		{"[::1]x", "", 0, "want :port"},
		{"[::1]:", "", 0, "port"},
		{"[x.org]:80", "", 0, "want an IPv6 address"},
		{"[192.0.2.1]:80", "", 0, "want an IPv6 address"},
		{"::1]:80", "", 0, "want an IPv6 address"},
		{"http://x.org", "", 0, "not a URL"},
		{"x.org/path", "", 0, "letters, digits"},
		{"user@x.org", "", 0, "letters, digits"},
		{"x org", "", 0, "letters, digits"},
		{"x..org", "", 0, "empty labels"},
		{".", "", 0, "empty labels"},
		{"x-.org", "", 0, "neither begin nor end"},
		{strings.Repeat("a", 64) + ".org", "", 0, "at most 63"},
		{strings.Repeat("a.", 127) + "org", "", 0, "at most 253"},
		{"1.2.3", "", 0, "want a host name or an IP address"},
		{"1.2.3.4.5:80", "", 0, "want a host name or an IP address"},
		{"bücher.example", "", 0, "ASCII"},
	} {
		host, port, err := SplitAddress(c.addr)
		if host != c.host || port != c.port || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("SplitAddress(%q) = %q, %d, %v, want %q, %d, %s", c.addr, host, port, err, c.host, c.port, c.err)
		}
	}
}

func TestParseCodes(t *testing.T) {
	for _, c := range []struct {
		text    string
		in, out []int
	}{
		{"200", []int{200}, []int{0, 199, 201, -1, 1000}},
		{"2xx", []int{200, 204, 299}, []int{199, 300}},
		{"2XX", []int{250}, []int{300}},
		{"1xx,5xx", []int{100, 199, 500, 599}, []int{99, 200, 600}},
		{"200-204,301", []int{200, 202, 204, 301}, []int{205, 300, 302}},
		{" 200 , 204 - 206 ", []int{200, 204, 206}, []int{203, 207}},
		{"100-599", []int{100, 599}, []int{99, 600}},
	} {
		codes, err := ParseCodes(c.text)
		if err != nil {
			t.Errorf("ParseCodes(%q): %v", c.text, err)
		}
		for _, code := range c.in {
			if !codes.Contains(code) {
				t.Errorf("ParseCodes(%q) lacks %d", c.text, code)
			}
		}
		for _, code := range c.out {
			if codes.Contains(code) {
				t.Errorf("ParseCodes(%q) has %d", c.text, code)
			}
		}
	}
	for _, text := range []string{"", ",", "200,", "2x", "xx", "0xx", "6xx", "20", "2000", "099", "600", "200-", "-200", "300-200", "2xx-3xx", "+200", "2 00", "200;204"} {
		if _, err := ParseCodes(text); err == nil {
			t.Errorf("ParseCodes(%q) is accepted", text)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	keys := []string{"name", "listeners", "load_balancers", "monitors", "pools", "timeout"}
	for got, want := range map[string]string{
		"listne": "listeners", "listener": "listeners", "Listeners": "listeners", "load-balancers": "load_balancers",
		"loadbalancers": "load_balancers", "tiemout": "timeout", "naem": "name", "monitor": "monitors",
		"zebra": "", "x": "", "": "", "endpoints": "", strings.Repeat("name", 1000): "",
	} {
		if s := DidYouMean(got, keys); s != want {
			t.Errorf("DidYouMean(%q) = %q, want %q", got, s, want)
		}
	}
}

func TestPlace(t *testing.T) {
	root := Place{}
	for _, c := range []struct {
		place      Place
		path, text string
	}{
		{root.Key("data_dir"), "data_dir", "data_dir"},
		{root.Key("node").Key("name"), "node.name", "node.name"},
		{root.Key("pools").Item(0, "eu"), "pools[0]", `pool "eu"`},
		{root.Key("pools").Item(0, ""), "pools[0]", "pools[0]"},
		{root.Key("pools").Item(0, "eu").Key("tls").Key("ca"), "pools[0].tls.ca", `pool "eu": tls.ca`},
		{root.Key("pools").Item(0, "eu").Key("endpoints").Item(2, "a").Key("weight"), "pools[0].endpoints[2].weight", `pool "eu": endpoint "a": weight`},
		{root.Key("pools").Item(0, "").Key("endpoints").Item(2, "a").Key("weight"), "pools[0].endpoints[2].weight", `pools[0]: endpoint "a": weight`},
		{root.Key("load_balancers").Item(1, "a.b: c").Key("rules").Item(0, "r"), "load_balancers[1].rules[0]", `load balancer "a.b: c": rule "r"`},
		{root.Key("listeners").Item(0, "l").Key("tls_routes").Item(3, "").Key("load_balancers").Item(1, "x").Key("weight"),
			"listeners[0].tls_routes[3].load_balancers[1].weight", `listener "l": tls_routes[3]: load balancer "x": weight`},
		{root.Key("geo").Key("databases").Item(1, ""), "geo.databases[1]", "geo.databases[1]"},
	} {
		if c.place.Path != c.path || c.place.Text != c.text {
			t.Errorf("place = %q %q, want %q %q", c.place.Path, c.place.Text, c.path, c.text)
		}
	}
}

func TestShow(t *testing.T) {
	for _, c := range []struct {
		value any
		want  string
	}{
		{5 * time.Second, "5s"}, {90 * time.Second, "1m30s"}, {10 * time.Minute, "10m"}, {24 * time.Hour, "24h"},
		{90 * time.Minute, "1h30m"}, {time.Duration(0), "0s"}, {50 * time.Millisecond, "50ms"}, {0.5, "0.5"}, {1e9, "1000000000"},
		{7, "7"}, {"a\"b", `"a\"b"`}, {SteerGeo, `"geo"`}, {strings.Repeat("a", 100), `"` + strings.Repeat("a", 80) + `"...`},
	} {
		if got := Show(c.value); got != c.want {
			t.Errorf("Show(%v) = %s, want %s", c.value, got, c.want)
		}
	}
}

// Validate works on what an API hands over too: nothing there has been
// through the checks of the YAML decoder.
func TestValidateOfAnythingDoesNotPanic(t *testing.T) {
	c := &Config{
		Listeners:     []Listener{{Protocol: "x", TLSRoutes: []TLSRoute{{LoadBalancers: []WeightedLoadBalancer{{}}}}}},
		Monitors:      []Monitor{{Type: "x", Retries: -5, Header: map[string][]string{"": nil}}},
		Pools:         []Pool{{Endpoints: []Endpoint{{Header: map[string][]string{"Host": nil}}}}},
		LoadBalancers: []LoadBalancer{{Rules: []Rule{{Overrides: &Overrides{}, FixedResponse: &FixedResponse{}}}}},
		Zones:         []Zone{{}, {Name: "x.org", Records: []Record{{}}}},
		State:         &State{},
	}
	paths := map[string]bool{}
	for _, p := range c.Validate() {
		paths[p.Path] = true
		if p.Error() == "" || p.Text == "" {
			t.Errorf("problem without text at %s", p.Path)
		}
	}
	for _, want := range []string{
		"listeners[0].protocol", "monitors[0].type", "pools[0].protocol", "load_balancers[0].session_affinity",
		"load_balancers[0].session_affinity_attributes.samesite", "zones[1].records[0].type", "state", "admin.address", "data_dir",
		"pools[0].endpoint_steering.policy", "pools[0].load_shedding.default_policy", "listeners[0].min_tls_version",
	} {
		if !paths[want] {
			t.Errorf("no problem at %s", want)
		}
	}
	(&Config{}).Validate()
}

func TestValidateSaysTheSameEveryTime(t *testing.T) {
	pools := map[string]float64{}
	regions := map[Region][]string{}
	for i := range 20 {
		pools[fmt.Sprintf("p%d", i)] = 2
		regions[Region(fmt.Sprintf("R%d", i))] = nil
	}
	c := &Config{LoadBalancers: []LoadBalancer{{Name: "a", RandomSteering: RandomSteering{PoolWeights: pools}, RegionPools: regions}}}
	first := c.Validate()
	for range 10 {
		if !slices.Equal(first, c.Validate()) {
			t.Fatal("two runs differ")
		}
	}
}

// A zone of many names and a pool of many endpoints are checked in time that
// grows with their number, not its square.
func TestValidateOfManyThings(t *testing.T) {
	const n = 20_000
	p := Pool{Name: "p"}
	p.SetDefaults()
	z := Zone{Name: "example.com", Nameservers: []string{"ns.example.net"}}
	z.SetDefaults()
	for i := range n {
		e := Endpoint{Name: fmt.Sprintf("e%d", i), Address: fmt.Sprintf("h%d.example.com:80", i)}
		e.SetDefaults()
		p.Endpoints = append(p.Endpoints, e)
		z.Records = append(z.Records, Record{Name: fmt.Sprintf("r%d", i), Type: "A", Content: "192.0.2.1", TTL: time.Minute})
	}
	c := &Config{Pools: []Pool{p}, Zones: []Zone{z}}
	c.SetDefaults()
	start := time.Now()
	for _, p := range c.Validate() {
		if !p.Warning {
			t.Error(p)
		}
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestManyRules(t *testing.T) {
	for _, n := range []int{maxRules, maxRules + 1} {
		var c Config
		c.SetDefaults()
		c.LoadBalancers = []LoadBalancer{{Name: "x", Rules: make([]Rule, n)}}
		refused := slices.ContainsFunc(c.Validate(), func(p Problem) bool { return strings.Contains(p.Text, "rules: want at most") })
		if refused != (n > maxRules) {
			t.Errorf("%d rules are refused: %v", n, refused)
		}
	}
}
