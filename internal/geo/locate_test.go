package geo

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"fairlead/internal/geo/geotest"
	"fairlead/internal/model"
)

// The world is found again in every form that a database can have.
func TestWorld(t *testing.T) {
	world := geotest.World()
	flat := func(l *geotest.Land) geotest.Record {
		r := geotest.Record{"country_code": l.Country, "lat": l.Latitude, "lon": l.Longitude}
		if l.Part != "" {
			r["region_code"] = l.Part
		}
		return r
	}
	nested := func(l *geotest.Land) geotest.Record { return l.Nested() }
	for _, tt := range []struct {
		name   string
		o      geotest.Options
		layout func(*geotest.Land) geotest.Record
	}{
		{"24 bits, nested", geotest.Options{Bits: 24}, nested},
		{"28 bits, flat", geotest.Options{Bits: 28}, flat},
		{"32 bits, nested", geotest.Options{Bits: 32}, nested},
	} {
		t.Run(tt.name, func(t *testing.T) {
			networks := geotest.WorldNetworks(world, tt.layout)
			d := openAll(t, write(t, tt.o, networks))
			r := rand.New(rand.NewPCG(1, 2))
			for range 2000 {
				l := &world[r.IntN(len(world))]
				a := l.In(r)
				p := d.Locate(a)
				if string(p.Country) != l.Country || string(p.Region) != l.Region || p.Latitude != l.Latitude || p.Longitude != l.Longitude {
					t.Fatalf("%v is at %+v, want %v", a, p, l)
				}
				if got, want := string(p.Subdivision.AppendPart(nil)), l.Part; got != want {
					t.Fatalf("%v is in subdivision %q, want %q", a, got, want)
				}
				// All addresses of the prefix have the answer, or it is a part of the
				// network: never more.
				prefix, err := a.Prefix(int(p.Bits.Country))
				if err != nil || !inside(prefix, l.Networks) {
					t.Fatalf("%v: prefix %v is not of %v (%v)", a, prefix, l, l.Networks)
				}
			}
		})
	}
}

func inside(p netip.Prefix, networks []netip.Prefix) bool {
	for _, n := range networks {
		if n.Bits() <= p.Bits() && n.Contains(p.Addr()) {
			return true
		}
	}
	return false
}

func TestOnlyIPv4(t *testing.T) {
	d := openAll(t, write(t, geotest.Options{OnlyIPv4: true}, geotest.Networks{"192.0.2.0/24": {"country_code": "NL"}}))
	for _, tt := range []struct {
		addr    string
		country model.Country
		bits    uint8
	}{
		{"192.0.2.255", "NL", 24},
		{"192.0.3.0", "", 24},
		{"::ffff:192.0.2.1", "NL", 24},
		{"2002:c000:0201::1", "NL", 40},
		{"2001:db8::1", "", 0},
	} {
		if p := d.Locate(addr(tt.addr)); p.Country != tt.country || p.Bits.Country != tt.bits {
			t.Errorf("%s: country %q by %d bits, want %q by %d", tt.addr, p.Country, p.Bits.Country, tt.country, tt.bits)
		}
	}
}

// An IPv4 address in IPv6 is where the IPv4 address is.
func TestTransitions(t *testing.T) {
	d := openAll(t, write(t, geotest.Options{}, geotest.Networks{
		"192.0.2.0/25":  {"country_code": "NL"},
		"2001:db8::/32": {"country_code": "DE"},
		"2002::/16":     {"country_code": "US"}, // what a database has of the prefix does not matter
	}))
	for _, tt := range []struct {
		name, addr string
		country    model.Country
		bits       uint8
	}{
		{"IPv4", "192.0.2.127", "NL", 25},
		{"IPv4 beside it", "192.0.2.128", "", 25},
		{"mapped", "::ffff:192.0.2.1", "NL", 25},
		{"6to4", "2002:c000:201:5::1", "NL", 16 + 25},
		{"NAT64", "64:ff9b::192.0.2.1", "NL", 96 + 25},
		{"Teredo: the client's address, inverted", "2001:0:4136:e378:8000:63bf:3fff:fdfe", "NL", 96 + 25},
		{"compatible", "::192.0.2.1", "NL", 96 + 25},
		{"IPv6", "2001:db8::1", "DE", 32},
		{"IPv6 with a zone", "2001:db8::1%eth0", "DE", 32},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if p := d.Locate(addr(tt.addr)); p.Country != tt.country || p.Bits.Country != tt.bits {
				t.Errorf("country %q by %d bits, want %q by %d", p.Country, p.Bits.Country, tt.country, tt.bits)
			}
		})
	}
	if p := d.Locate(netip.Addr{}); p != (Place{}) {
		t.Errorf("no address: %+v", p)
	}
}

// Each fact comes from the first database that has it; what is said of one place
// agrees; and the prefix is that of all that were asked.
func TestSeveral(t *testing.T) {
	own := write(t, geotest.Options{}, geotest.Networks{
		"10.0.0.0/8":   {"country_code": "NL", "latitude": 52.3, "longitude": 4.8},
		"192.0.2.0/26": {"country_code": "DE"},
	})
	city := write(t, geotest.Options{}, geotest.Networks{
		"192.0.2.0/25": {"country_code": "DE", "city": "Mainz", "region_code": "RP", "latitude": 50.0, "longitude": 8.3},
		"10.1.0.0/16":  {"country_code": "US", "region_code": "TX", "city": "Austin", "latitude": 30.3, "longitude": -97.7},
		"10.2.0.0/17":  {"city": "Utrecht", "region_code": "UT"},
	})
	asn := write(t, geotest.Options{}, geotest.Networks{
		"192.0.2.0/28": {"asn": uint32(64496), "as_name": "Example"},
		"10.0.0.0/12":  {"asn": uint32(64497), "as_name": "Net Ten"},
	})
	d := openAll(t, own, city, asn)
	if got, want := d.Gives(), FactCountry|FactSubdivision|FactCoordinates|FactASN|FactCity|FactOrganization; got != want {
		t.Errorf("Gives %v, want %v", got.Names(), want.Names())
	}
	for _, tt := range []struct {
		addr string
		want Place
		city string
	}{
		{"192.0.2.1", Place{Country: "DE", Subdivision: ParseSubdivision("DE-RP"), Region: "WEU", ASN: 64496, Latitude: 50, Longitude: 8.3, HasCoordinates: true,
			Bits: Bits{Country: 26, Subdivision: 26, Region: 26, ASN: 28, Coordinates: 26}}, "Mainz"},
		// The first file says nothing of these: how far that goes is part of the answer.
		{"192.0.2.100", Place{Country: "DE", Subdivision: ParseSubdivision("DE-RP"), Region: "WEU", Latitude: 50, Longitude: 8.3, HasCoordinates: true,
			Bits: Bits{Country: 26, Subdivision: 26, Region: 26, ASN: 26, Coordinates: 26}}, "Mainz"},
		// The second file has another country: it is not heard.
		{"10.1.0.1", Place{Country: "NL", Region: "WEU", ASN: 64497, Latitude: 52.3, Longitude: 4.8, HasCoordinates: true,
			Bits: Bits{Country: 8, Subdivision: 16, Region: 8, ASN: 12, Coordinates: 8}}, ""},
		// The second file has no country: what it says is of the same place.
		{"10.2.0.1", Place{Country: "NL", Region: "WEU", ASN: 64497, Latitude: 52.3, Longitude: 4.8, HasCoordinates: true,
			Bits: Bits{Country: 8, Subdivision: 17, Region: 8, ASN: 12, Coordinates: 8}}, "Utrecht"},
	} {
		t.Run(tt.addr, func(t *testing.T) {
			if got := d.Locate(addr(tt.addr)); got != tt.want {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
			if got := string(d.AppendName(nil, addr(tt.addr), NameCity)); got != tt.city {
				t.Errorf("city %q, want %q", got, tt.city)
			}
		})
	}
}

// Find says of each fact which database has it, and for which prefix.
func TestFind(t *testing.T) {
	country := write(t, geotest.Options{}, geotest.Networks{"192.0.0.0/16": {"country_code": "US"}})
	city := write(t, geotest.Options{}, geotest.Networks{"192.0.2.0/24": {"country_code": "US", "region_code": "TX", "state": "Texas", "city": "Austin"}})
	d := openAll(t, country, city)
	for _, tt := range []struct {
		addr string
		want []string
		city string
	}{
		{"192.0.2.1", []string{"country by 0 for 192.0.0.0/16", "subdivision by 1 for 192.0.2.0/24", "subdivision_name by 1 for 192.0.2.0/24", "city by 1 for 192.0.2.0/24"}, "Austin"},
		{"::ffff:192.0.3.1", []string{"country by 0 for 192.0.0.0/16", "subdivision by none for 192.0.3.0/24", "subdivision_name by none for 192.0.3.0/24", "city by none for 192.0.3.0/24"}, ""},
		{"2002:c000:201::1%eth0", []string{"country by 0 for 2002:c000::/32", "subdivision by 1 for 2002:c000:200::/40", "subdivision_name by 1 for 2002:c000:200::/40", "city by 1 for 2002:c000:200::/40"}, "Austin"},
	} {
		t.Run(tt.addr, func(t *testing.T) {
			f := d.Find(addr(tt.addr))
			var got []string
			for _, s := range f.Sources {
				by := "none"
				if i := slices.Index([]string{country, city}, s.File); i >= 0 {
					by = fmt.Sprint(i)
				}
				got = append(got, fmt.Sprintf("%s by %s for %s", s.Fact.Names()[0], by, s.Prefix))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
			if f.Names[NameCity] != tt.city || f.Place != d.Locate(addr(tt.addr)) {
				t.Errorf("finding %+v, want city %q and the place that Locate returns", f, tt.city)
			}
		})
	}
	if f := (*Databases)(nil).Find(addr("192.0.2.1")); f.Sources != nil {
		t.Errorf("without databases: %+v", f)
	}
}

// In the United States and Canada the subdivision decides the region, and so does
// its prefix.
func TestRegionBits(t *testing.T) {
	country := write(t, geotest.Options{}, geotest.Networks{"192.0.0.0/16": {"country_code": "US"}, "198.51.0.0/16": {"country_code": "NL"}})
	state := write(t, geotest.Options{}, geotest.Networks{"192.0.2.0/24": {"country_code": "US", "region_code": "TX"}, "198.51.100.0/24": {"country_code": "NL", "region_code": "NH"}})
	d := openAll(t, country, state)
	for _, tt := range []struct {
		addr   string
		region model.Region
		bits   uint8
	}{
		{"192.0.2.1", "WNAM", 24}, {"192.0.3.1", "ENAM", 24}, {"198.51.100.1", "WEU", 16},
	} {
		if p := d.Locate(addr(tt.addr)); p.Region != tt.region || p.Bits.Region != tt.bits {
			t.Errorf("%s: region %s by %d bits, want %s by %d", tt.addr, p.Region, p.Bits.Region, tt.region, tt.bits)
		}
	}
}

func TestNoDatabases(t *testing.T) {
	d, err := Open(Config{})
	if d != nil || err != nil {
		t.Fatalf("Open without files: %v, %v", d, err)
	}
	if p := d.Locate(addr("192.0.2.1")); p != (Place{}) || p.Located() || p.Position().Known() {
		t.Errorf("place %+v", p)
	}
	if d.Gives() != 0 || d.Generation() != 0 || d.Status() != nil || len(d.AppendName(nil, addr("192.0.2.1"), NameCity)) != 0 {
		t.Error("something is known without databases")
	}
}

// Nothing is allocated for a look-up, in any layout.
func TestAllocations(t *testing.T) {
	world := geotest.World()
	nested := write(t, geotest.Options{}, geotest.WorldNetworks(world, (*geotest.Land).Nested))
	asn := write(t, geotest.Options{}, geotest.Networks{"0.0.0.0/1": {"asn": "AS64496", "as_name": "Example", "lat": "1.5", "lng": "2.5"}})
	d := openAll(t, asn, nested)
	r := rand.New(rand.NewPCG(3, 4))
	var addrs []netip.Addr
	for i := range world {
		addrs = append(addrs, world[i].In(r))
	}
	i, buf := 0, make([]byte, 0, 64)
	var known int
	if n := testing.AllocsPerRun(1000, func() {
		i++
		p := d.Locate(addrs[i%len(addrs)])
		if p.Located() {
			known++
		}
		buf = d.AppendName(buf[:0], addrs[i%len(addrs)], NameCity)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
	if known == 0 || len(buf) == 0 {
		t.Error("nothing was found")
	}
}

func BenchmarkLocate(b *testing.B) {
	world := geotest.World()
	d := openAll(b, write(b, geotest.Options{}, geotest.WorldNetworks(world, (*geotest.Land).Nested)))
	r := rand.New(rand.NewPCG(3, 4))
	var addrs []netip.Addr
	for i := range world {
		addrs = append(addrs, world[i].In(r))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		d.Locate(addrs[i%len(addrs)])
	}
}
