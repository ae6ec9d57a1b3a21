package dnslb

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"fairlead/internal/geo"
	"fairlead/internal/geo/geotest"
	"fairlead/internal/model"
)

// Clients of sixty countries are told the pools that their place asks for, as found
// out by other means; and each answer holds for all of its scope.
func TestWorldOfClients(t *testing.T) {
	countries := []string{"NL", "DE", "US", "CA", "BR", "IN", "JP", "AU", "ZA"}
	var regions []string
	for _, r := range model.Regions {
		regions = append(regions, string(r.Code))
	}
	regions = slices.DeleteFunc(regions, func(r string) bool { return r == "SAS" || r == "NSAM" }) // these get the default
	sites := []struct{ latitude, longitude float64 }{{52.4, 4.9}, {40.7, -74}, {-33.9, 151.2}, {1.3, 103.8}, {-23.5, -46.6}, {37.8, -122.4}, {-26.2, 28}}

	// Each pool has one address of each family: the number in the last byte.
	var pools, regionPools, countryPools, near []string
	pool := func(name, more string) int {
		n := len(pools) + 1
		pools = append(pools, fmt.Sprintf(`{name: %s, %s endpoints: [{name: a, address: 192.0.2.%d}]}`, name, more, n))
		return n
	}
	geoWants := map[string]int{"": pool("default", "")}
	for _, r := range regions {
		geoWants[r] = pool("region-"+r, "")
		regionPools = append(regionPools, r+": [region-"+r+"]")
	}
	for _, c := range countries {
		geoWants["in "+c] = pool("country-"+c, "")
		countryPools = append(countryPools, c+": [country-"+c+"]")
	}
	firstSite := len(pools) + 1
	for i, s := range sites {
		pool("site-"+itoa(i), fmt.Sprintf("latitude: %v, longitude: %v,", s.latitude, s.longitude))
		near = append(near, "site-"+itoa(i))
	}
	r := newResponder(t, listenerText("")+`
node: {region: WEU, country: NL, latitude: 52, longitude: 5}
pools: [`+strings.Join(pools, ", ")+`]
load_balancers:
  - {name: geo.example.com, default_pools: [default], region_pools: {`+strings.Join(regionPools, ", ")+`}, country_pools: {`+strings.Join(countryPools, ", ")+`}, location_strategy: {prefer_ecs: always, mode: resolver_ip}}
  - {name: near.example.com, default_pools: [`+strings.Join(near, ", ")+`], steering_policy: proximity}
zones: [{name: example.com, nameservers: [ns.example.org]}]
`)
	lands := geotest.World()
	file := filepath.Join(t.TempDir(), "world.mmdb")
	geotest.Write(t, file, geotest.Options{}, geotest.WorldNetworks(lands, (*geotest.Land).Nested))
	var err error
	if r.snap.plan.Geo, err = geo.Open(geo.Config{Files: []string{file}}); err != nil {
		t.Fatal(err)
	}

	wants := func(name string, l *geotest.Land) int {
		if name == "near.example.com" {
			best, least := 0, math.Inf(1)
			for i, s := range sites {
				if d := haversine(l.Latitude, l.Longitude, s.latitude, s.longitude); d < least {
					best, least = i, d
				}
			}
			return firstSite + best
		}
		if n := geoWants["in "+string(l.Country)]; n != 0 {
			return n
		}
		if n := geoWants[string(l.Region)]; n != 0 {
			return n
		}
		return geoWants[""]
	}
	var m, got dns.Msg
	answer := func(name string, a netip.Addr) (pool, scope int) {
		m = *query(name, "A")
		bits := 24
		if a.Is6() {
			bits = 56
		}
		b, err := withSubnet(&m, netip.PrefixFrom(a, bits).Masked().String()).Pack()
		if err != nil {
			t.Fatal(err)
		}
		if err := got.Unpack(r.respond(asker{client, overUDP}, b, nil)); err != nil || len(got.Answer) != 1 {
			t.Fatalf("%v %v", got.Answer, err)
		}
		return int(got.Answer[0].(*dns.A).A.To4()[3]), scopeOf(&got)
	}
	queries := 200_000
	if testing.Short() || raceEnabled {
		queries /= 10
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	seen := make(map[int]int)
	for i := range queries {
		l := &lands[rnd.IntN(len(lands))]
		a := l.In(rnd)
		name := [...]string{"geo.example.com", "near.example.com"}[i%2]
		pool, scope := answer(name, a)
		if want := wants(name, l); pool != want {
			t.Fatalf("%s for %v (%s): pool %d, want %d", name, a, l, pool, want)
		}
		seen[pool]++
		if i%16 > 1 {
			continue
		}
		if scope < 1 {
			t.Fatalf("%s for %v: scope %d", name, a, scope)
		}
		if other := within(netip.PrefixFrom(a, scope), rnd); other.IsValid() {
			if p, _ := answer(name, other); p != pool {
				t.Fatalf("%s: pool %d for %v with scope %d, and pool %d for %v", name, pool, a, scope, p, other)
			}
		}
	}
	if len(seen) < len(geoWants)+len(sites) {
		t.Errorf("only the pools %v were answered", seen)
	}
}

// within returns any address of a network.
func within(p netip.Prefix, r *rand.Rand) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < 8*len(b); i++ {
		b[i/8] &^= 1 << (7 - i%8)
		b[i/8] |= byte(r.IntN(2)) << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// haversine returns the distance of two places on a sphere of radius 1.
func haversine(lat1, lon1, lat2, lon2 float64) float64 {
	const degree = math.Pi / 180
	a := math.Sin((lat2 - lat1) * degree / 2)
	b := math.Sin((lon2 - lon1) * degree / 2)
	return 2 * math.Asin(math.Sqrt(a*a+math.Cos(lat1*degree)*math.Cos(lat2*degree)*b*b))
}
