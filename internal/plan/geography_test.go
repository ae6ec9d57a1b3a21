package plan

import (
	"fmt"
	"slices"
	"testing"

	"fairlead/internal/geo"
)

func TestPlace(t *testing.T) {
	p := &Plan{Node: Place{PoP: "AMS", Country: "NL", Region: "WEU", Position: geo.At(52, 5)}}
	for _, tt := range []struct {
		name   string
		client geo.Place
		want   Place
	}{
		{"nothing is known", geo.Place{}, p.Node},
		{"all is known", geo.Place{Country: "SG", Region: "SEAS", Latitude: 1.3, Longitude: 103.9, HasCoordinates: true},
			Place{PoP: "AMS", Country: "SG", Region: "SEAS", Position: geo.At(1.3, 103.9)}},
		{"coordinates only", geo.Place{Latitude: 1.3, Longitude: 103.9, HasCoordinates: true},
			Place{PoP: "AMS", Country: "NL", Region: "WEU", Position: geo.At(1.3, 103.9)}},
		{"the network only", geo.Place{ASN: 64496}, p.Node},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := p.Place(&tt.client); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestByPlace(t *testing.T) {
	p := compiled(t, `
pools: [{name: main, latitude: 1, longitude: 2, endpoints: [{name: a, address: 192.0.2.1}]}]
load_balancers:
  - {name: failover.example.com, proxied: true, default_pools: [main]}
  - {name: geo.example.com, proxied: true, default_pools: [main], country_pools: {NL: [main]}}
  - {name: near.example.com, proxied: true, default_pools: [main], steering_policy: proximity}
  - {name: rule.example.com, proxied: true, default_pools: [main], rules: [{name: r, condition: ssl, overrides: {steering_policy: proximity}}]}
`, 1, tables(t))
	for i, want := range []bool{false, true, true, false} {
		if b := p.LoadBalancers[i]; b.ByPlace != want {
			t.Errorf("%s: ByPlace = %v, want %v", b.Name, b.ByPlace, want)
		}
	}
	b := p.LoadBalancers[3]
	if !b.With(AppendOverride(nil, &b.Rules[0])).ByPlace {
		t.Error("a rule's policy is not by place")
	}
}

func TestGeography(t *testing.T) {
	const text = `
%s
pools: [{name: main, latitude: 1, longitude: 2, endpoints: [{name: a, address: 192.0.2.1}]}]
load_balancers:
  - name: www.example.com
    proxied: true
    default_pools: [main]
    rules:
      - {name: r, condition: 'ip.geoip.country eq "NL" or ip.src.asnum in {64496}', fixed_response: {status_code: 410}}
      - {name: s, condition: 'ip.src.region eq "Texas" or ip.src.subdivision_1_iso_code eq "US-TX" or ip.src.continent eq "EU"', fixed_response: {status_code: 410}}
  - {name: near.example.com, proxied: true, default_pools: [main], steering_policy: proximity}
  - {name: geo.example.com, proxied: true, default_pools: [main], country_pools: {NL: [main]}}
  - {name: pop.example.com, proxied: true, default_pools: [main], pop_pools: {AMS: [main]}}
`
	const databases = "geo: {databases: [a.mmdb]}"
	const (
		r = `load_balancers[0].rules[0].condition: load balancer "www.example.com": rule "r": condition: `
		s = `load_balancers[0].rules[1].condition: load balancer "www.example.com": rule "s": condition: `
		n = ` is not known of any client: none of geo.databases has `
	)
	countries := []string{r + "ip.src.country" + n + "countries", s + "ip.src.continent" + n + "countries"}
	asn := r + "ip.src.asnum" + n + "AS numbers"
	names, codes := s+"ip.src.region"+n+"names of subdivisions", s+"ip.src.subdivision_1_iso_code"+n+"codes of subdivisions"
	near := `load_balancers[1].steering_policy: load balancer "near.example.com": steering_policy: proximity goes by the node's place for every client: none of geo.databases has coordinates or countries`
	lists := `load_balancers[2].steering_policy: load balancer "geo.example.com": steering_policy: geo goes by the node's country and region for every client: none of geo.databases has countries`
	for _, tt := range []struct {
		name, databases string
		has             geo.Facts
		want            []string
	}{
		{"no databases", "", 0, []string{countries[0], asn, countries[1], names, codes}},
		{"everything", databases, geo.FactCountry | geo.FactSubdivision | geo.FactSubdivisionName | geo.FactASN, nil},
		{"countries", databases, geo.FactCountry, []string{asn, names, codes}},
		{"AS numbers", databases, geo.FactASN, []string{countries[0], countries[1], names, codes, near, lists}},
		{"coordinates", databases, geo.FactCoordinates | geo.FactASN, []string{countries[0], countries[1], names, codes, lists}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, p := range Geography(declared(t, fmt.Sprintf(text, tt.databases)), tt.has) {
				got = append(got, p.Path+": "+p.Text)
				if !p.Warning {
					t.Errorf("%v: want a warning", p)
				}
			}
			slices.Sort(got)
			slices.Sort(tt.want)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}
