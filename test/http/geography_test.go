package http_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead/internal/geo/geotest"
	"fairlead/test/lab"
)

// located is a site whose databases have some networks, with a pool for each of
// endpoints' names; its listener believes what this machine says of clients.
func located(t *testing.T, databases, pools []string, top, listener, balancer string) server {
	t.Helper()
	var list []string
	for i, addr := range named(t, pools...) {
		at := ""
		if place, ok := places[pools[i]]; ok {
			at = fmt.Sprintf("latitude: %v, longitude: %v, ", place[0], place[1])
		}
		list = append(list, fmt.Sprintf("{name: %s, %sendpoints: [{name: a, address: %q}]}", pools[i], at, addr))
	}
	n := lab.Start(t, fmt.Sprintf(`
%s
geo: {databases: [%s]}
listeners: [{name: web, address: "127.0.0.1:0", protocol: http, trusted_proxies: [127.0.0.0/8]%s}]
pools: [%s]
load_balancers: [{name: %s, proxied: true, %s}]
`, top, strings.Join(databases, ", "), more(listener), strings.Join(list, ", "), host, balancer))
	return server{n, n.Addr("web"), nil}
}

// places are those of pools.
var places = map[string][2]float64{"frankfurt": {50.1, 8.7}, "ashburn": {38.9, -77}, "singapore": {1.3, 103.9}, "sydney": {-33.9, 151.2}}

// database writes a database and returns its file.
func database(t *testing.T, networks geotest.Networks) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test.mmdb")
	geotest.Write(t, file, geotest.Options{}, networks)
	return file
}

// from asks on behalf of a client and returns which endpoint answered.
func from(t *testing.T, c *lab.Client, client string) string {
	t.Helper()
	c.Send(get("/", "X-Forwarded-For: "+client+"\r\n"))
	return endpointOf(t, c)
}

func endpointOf(t *testing.T, c *lab.Client) string {
	t.Helper()
	res := c.Response("GET")
	if res.StatusCode != 200 {
		t.Fatalf("status %d, want 200", res.StatusCode)
	}
	return res.Header.Get("X-Endpoint")
}

// Clients of sixty countries, of both families, land where an independent reading
// of the policy has them.
func TestGeographyOfTheWorld(t *testing.T) {
	t.Parallel()
	world := geotest.World()
	file := database(t, geotest.WorldNetworks(world, (*geotest.Land).Nested))
	regions := []string{"WNAM", "ENAM", "WEU", "EEU", "NSAM", "SSAM", "OC", "ME", "NAF", "SAF", "SAS", "SEAS"} // NEAS has no list
	pools := append([]string{"france", "japan", "others"}, regions...)
	var lists []string
	for _, r := range regions {
		lists = append(lists, r+": ["+r+"]")
	}
	s := located(t, []string{file}, pools, "node: {region: WEU, country: FR}", "",
		"default_pools: [others], country_pools: {FR: [france], JP: [japan]}, region_pools: {"+strings.Join(lists, ", ")+"}")
	c := s.dial(t)
	r := rand.New(rand.NewPCG(5, 6))
	seen := make(map[string]int)
	for range 3000 {
		land := &world[r.IntN(len(world))]
		want := land.Region
		switch {
		case land.Country == "FR":
			want = "france"
		case land.Country == "JP":
			want = "japan"
		case land.Region == "NEAS":
			want = "others"
		}
		a := land.In(r)
		if got := from(t, c, a.String()); got != want {
			t.Fatalf("%v in %v: pool %s, want %s", a, land, got, want)
		}
		seen[want]++
	}
	if len(seen) != len(pools) {
		t.Errorf("clients came to %v, want all of %v", seen, pools)
	}
	equal(t, "a client that is nowhere", from(t, c, "127.0.0.9"), "france") // as the node
}

// The nearest pool of each place in the world, by its distance on the sphere.
func TestProximityOfTheWorld(t *testing.T) {
	t.Parallel()
	world := geotest.World()
	file := database(t, geotest.WorldNetworks(world, (*geotest.Land).Nested))
	s := located(t, []string{file}, []string{"frankfurt", "ashburn", "singapore", "sydney"}, "", "",
		"default_pools: [frankfurt, ashburn, singapore, sydney], steering_policy: proximity")
	c := s.dial(t)
	r := rand.New(rand.NewPCG(7, 8))
	for _, tt := range []struct{ country, part, want string }{
		{"US", "NY", "ashburn"}, {"US", "CA", "ashburn"}, {"GB", "ENG", "frankfurt"}, {"NG", "", "frankfurt"}, {"BR", "", "ashburn"},
		{"JP", "", "singapore"}, {"IN", "", "singapore"}, {"NZ", "", "sydney"}, {"FJ", "", "sydney"}, {"WS", "", "sydney"},
	} {
		for i := range world {
			if l := &world[i]; l.Country == tt.country && l.Part == tt.part {
				equal(t, l.String(), from(t, c, l.In(r).String()), tt.want)
			}
		}
	}
	equal(t, "a client that is nowhere, and a node as well", from(t, c, "127.0.0.9"), "frankfurt")
}

// A client is where the database has its address, whoever says what that is; a
// client that is not trusted says nothing.
func TestGeographyOfProxies(t *testing.T) {
	t.Parallel()
	file := database(t, geotest.Networks{"192.0.2.0/24": {"country_code": "SG"}, "2001:db8::/32": {"country_code": "AU"}})
	s := located(t, []string{file}, []string{"node", "singapore", "sydney"}, "node: {country: NL}", "accept_proxy_protocol: true",
		"default_pools: [node], country_pools: {SG: [singapore], AU: [sydney]}")
	for _, tt := range []struct{ name, header, lines, want string }{
		{"the peer", local2, "", "node"},
		{"X-Forwarded-For", local2, "X-Forwarded-For: 192.0.2.1\r\n", "singapore"},
		{"PROXY, version 1", line1, "", "singapore"},
		{"PROXY, version 2", line2, "", "sydney"},
		{"PROXY, and a client who is not trusted", line2, "X-Forwarded-For: 192.0.2.1\r\n", "sydney"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nc := introducing(t, s, tt.header)
			io.WriteString(nc, get("/", tt.lines))
			res, err := http.ReadResponse(bufio.NewReader(nc), nil)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "endpoint", res.Header.Get("X-Endpoint"), tt.want)
		})
	}
}

// Fields of rules have what the databases know, in both spellings.
func TestGeographyOfRules(t *testing.T) {
	t.Parallel()
	city := database(t, geotest.Networks{
		"192.0.2.0/24": {"country": geotest.Record{"iso_code": "US"}, "subdivisions": []any{geotest.Record{"iso_code": "TX", "names": geotest.Record{"en": "Texas"}}}},
		"192.0.3.0/24": {"country": geotest.Record{"iso_code": "NL"}},
	})
	asn := database(t, geotest.Networks{"192.0.2.0/25": {"asn": uint32(64496)}})
	for _, tt := range []struct {
		condition string
		clients   string // for which it is true
	}{
		{`ip.src.country eq "US" and ip.geoip.country in {"US" "CA"}`, "192.0.2.1 192.0.2.200"},
		{`ip.src.country eq "NL"`, "192.0.3.1"},
		{`ip.src.country ne "NL"`, "192.0.2.1 192.0.2.200 127.0.0.9"}, // of what is missing, ne is true
		{`ip.src.continent eq "NA" and ip.geoip.continent eq "NA"`, "192.0.2.1 192.0.2.200"},
		{`ip.geoip.continent eq "EU"`, "192.0.3.1"},
		{`ip.src.region eq "Texas"`, "192.0.2.1 192.0.2.200"},
		{`ip.src.subdivision_1_iso_code eq "US-TX" and ip.geoip.subdivision_1_iso_code eq "US-TX"`, "192.0.2.1 192.0.2.200"},
		{`ip.src.asnum eq 64496 and ip.geoip.asnum in {64496..64511}`, "192.0.2.1"},
		{`ip.src.asnum ge 0`, "192.0.2.1"}, // missing elsewhere
		{`len(ip.src.country) eq 2 and concat(ip.src.country, "/", ip.src.region, "/", ip.src.continent) eq "US/Texas/NA"`, "192.0.2.1 192.0.2.200"},
		{`cf.load_balancer.region eq "WEU"`, "192.0.2.1 192.0.2.200 192.0.3.1 127.0.0.9"}, // the node's
	} {
		t.Run(tt.condition, func(t *testing.T) {
			t.Parallel()
			// With steering by place beside it, which must not change the node's region.
			s := located(t, []string{city, asn}, []string{"p", "q"}, "node: {region: WEU}", "",
				"default_pools: [p], region_pools: {SEAS: [q]}, rules: ["+toB(tt.condition)+"]")
			c := s.dial(t)
			var got []string
			for _, client := range []string{"192.0.2.1", "192.0.2.200", "192.0.3.1", "127.0.0.9"} {
				if from(t, c, client) == "q" {
					got = append(got, client)
				}
			}
			equal(t, "true for", strings.Join(got, " "), tt.clients)
		})
	}
}

// C29: a file that is renamed over the database is taken up as a whole; half of one
// is refused, and the old one stays, with a log line and a metric.
func TestDatabaseIsReplaced(t *testing.T) {
	t.Parallel()
	one := geotest.Build(geotest.Options{}, geotest.Networks{"192.0.2.0/24": {"country_code": "FR"}})
	two := geotest.Build(geotest.Options{}, geotest.Networks{"192.0.2.0/24": {"country_code": "US"}})
	file := filepath.Join(t.TempDir(), "geo.mmdb")
	geotest.Replace(t, file, one)
	s := located(t, []string{file}, []string{"p", "p1", "p2"}, "", "", "default_pools: [p], country_pools: {FR: [p1], US: [p2]}")
	c := s.dial(t)
	replace := func(content []byte, result string, count float64) {
		t.Helper()
		geotest.Replace(t, file, content)
		s.AwaitMetric(count, "fairlead_geo_database_reloads_total", "database", file, "result", result)
	}
	equal(t, "at first", from(t, c, "192.0.2.1"), "p1")
	replace(two, "applied", 1)
	for range 20 {
		equal(t, "replaced", from(t, c, "192.0.2.1"), "p2")
	}
	replace(one[:len(one)/2], "refused", 1)
	equal(t, "half of a file", from(t, c, "192.0.2.1"), "p2")
	if d := s.Status().Databases[0]; d.Error == "" || d.Refusals != 1 {
		t.Errorf("status %+v, want an error", d)
	}
	if got := s.Metric("fairlead_geo_database_stale", "database", file); got != 1 {
		t.Errorf("stale: %v, want 1", got)
	}
	// Whoever truncates the file in place changes nothing either.
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	replace(one, "applied", 2)
	equal(t, "a good one again", from(t, c, "192.0.2.1"), "p1")
	if d := s.Status().Databases[0]; d.Error != "" || d.Reloads != 2 {
		t.Errorf("status %+v, want no error", d)
	}
}

// Databases come and go with the configuration.
func TestDatabasesAreReloaded(t *testing.T) {
	t.Parallel()
	fr := database(t, geotest.Networks{"192.0.2.0/24": {"country_code": "FR"}})
	us := database(t, geotest.Networks{"192.0.2.0/24": {"country_code": "US"}, "192.0.3.0/24": {"country_code": "US"}})
	addrs := named(t, "p", "p1", "p2")
	text := func(databases string) string {
		return fmt.Sprintf(`
geo: {databases: [%s]}
listeners: [{name: web, address: "127.0.0.1:0", protocol: http, trusted_proxies: [127.0.0.0/8]}]
pools: [{name: p, endpoints: [{name: a, address: %q}]}, {name: p1, endpoints: [{name: a, address: %q}]}, {name: p2, endpoints: [{name: a, address: %q}]}]
load_balancers: [{name: %s, proxied: true, default_pools: [p], country_pools: {FR: [p1], US: [p2]}}]
`, databases, addrs[0], addrs[1], addrs[2], host)
	}
	n := lab.Start(t, text(""))
	s := server{n, n.Addr("web"), nil}
	c := s.dial(t)
	for i, tt := range []struct{ databases, want2, want3 string }{
		{"", "p", "p"}, {fr, "p1", "p"}, {fr + ", " + us, "p1", "p2"}, {us + ", " + fr, "p2", "p2"}, {us, "p2", "p2"}, {"", "p", "p"},
	} {
		if i > 0 {
			n.Write(text(tt.databases))
			n.AwaitRevision(uint64(i + 1))
		}
		equal(t, "with "+tt.databases, from(t, c, "192.0.2.1")+" "+from(t, c, "192.0.3.1"), tt.want2+" "+tt.want3)
		want := 0
		if tt.databases != "" {
			want = strings.Count(tt.databases, ",") + 1
		}
		if got := len(n.Status().Databases); got != want {
			t.Errorf("with %s: %d databases in the status, want %d", tt.databases, got, want)
		}
	}
	// One that cannot be used refuses the configuration with its place.
	bad := filepath.Join(t.TempDir(), "bad.mmdb")
	geotest.Replace(t, bad, append([]byte("no tree"), "\xab\xcd\xefMaxMind.com"...))
	n.Write(text(bad))
	n.AwaitRefusals(1)
	if got, want := n.Status().Config.Error, `fairlead.yaml:2:19: geo.databases[0] "`+bad+`": want a complete database in MMDB format`; !strings.Contains(got, want) {
		t.Errorf("error %q, want %q in it", got, want)
	}
}
