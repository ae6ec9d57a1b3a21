package geotest

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
)

// Land is a country of the made-up world.
type Land struct {
	Country string // ISO 3166-1 alpha-2
	// Part is the code of a subdivision, such as TX, or "".
	Part string
	// Region is the region that this place is in, written down here by hand.
	Region              string
	Latitude, Longitude float64
	// Networks are its addresses, of both families.
	Networks []netip.Prefix
}

// lands have the places of the made-up world. The regions are those of the table
// that people read, not of the one that programs use.
var lands = []Land{
	{Country: "US", Part: "CA", Region: "WNAM", Latitude: 37.8, Longitude: -122.4},
	{Country: "US", Part: "TX", Region: "WNAM", Latitude: 32.8, Longitude: -96.8},
	{Country: "US", Part: "NY", Region: "ENAM", Latitude: 40.7, Longitude: -74.0},
	{Country: "US", Part: "VA", Region: "ENAM", Latitude: 39.0, Longitude: -77.5},
	{Country: "CA", Part: "BC", Region: "WNAM", Latitude: 49.3, Longitude: -123.1},
	{Country: "CA", Part: "QC", Region: "ENAM", Latitude: 45.5, Longitude: -73.6},
	{Country: "MX", Region: "WNAM", Latitude: 19.4, Longitude: -99.1},
	{Country: "BM", Region: "ENAM", Latitude: 32.3, Longitude: -64.8},
	{Country: "CR", Region: "NSAM", Latitude: 9.9, Longitude: -84.1},
	{Country: "JM", Region: "NSAM", Latitude: 18.0, Longitude: -76.8},
	{Country: "CO", Region: "NSAM", Latitude: 4.7, Longitude: -74.1},
	{Country: "VE", Region: "NSAM", Latitude: 10.5, Longitude: -66.9},
	{Country: "PE", Region: "NSAM", Latitude: -12.0, Longitude: -77.0},
	{Country: "BR", Region: "SSAM", Latitude: -23.5, Longitude: -46.6},
	{Country: "AR", Region: "SSAM", Latitude: -34.6, Longitude: -58.4},
	{Country: "CL", Region: "SSAM", Latitude: -33.4, Longitude: -70.6},
	{Country: "GB", Part: "ENG", Region: "WEU", Latitude: 51.5, Longitude: -0.1},
	{Country: "IE", Region: "WEU", Latitude: 53.3, Longitude: -6.3},
	{Country: "NL", Part: "NH", Region: "WEU", Latitude: 52.4, Longitude: 4.9},
	{Country: "DE", Part: "HE", Region: "WEU", Latitude: 50.1, Longitude: 8.7},
	{Country: "FR", Region: "WEU", Latitude: 48.9, Longitude: 2.3},
	{Country: "ES", Region: "WEU", Latitude: 40.4, Longitude: -3.7},
	{Country: "IT", Region: "WEU", Latitude: 45.5, Longitude: 9.2},
	{Country: "SE", Region: "WEU", Latitude: 59.3, Longitude: 18.1},
	{Country: "NO", Region: "WEU", Latitude: 59.9, Longitude: 10.8},
	{Country: "CH", Region: "WEU", Latitude: 47.4, Longitude: 8.5},
	{Country: "PL", Region: "EEU", Latitude: 52.2, Longitude: 21.0},
	{Country: "RO", Region: "EEU", Latitude: 44.4, Longitude: 26.1},
	{Country: "UA", Region: "EEU", Latitude: 50.5, Longitude: 30.5},
	{Country: "RU", Region: "EEU", Latitude: 55.8, Longitude: 37.6},
	{Country: "LV", Region: "EEU", Latitude: 56.9, Longitude: 24.1},
	{Country: "GR", Region: "EEU", Latitude: 38.0, Longitude: 23.7},
	{Country: "KZ", Region: "EEU", Latitude: 43.2, Longitude: 76.9},
	{Country: "XK", Region: "EEU", Latitude: 42.7, Longitude: 21.2},
	{Country: "TR", Region: "ME", Latitude: 41.0, Longitude: 28.9},
	{Country: "IL", Region: "ME", Latitude: 32.1, Longitude: 34.8},
	{Country: "AE", Region: "ME", Latitude: 25.3, Longitude: 55.3},
	{Country: "SA", Region: "ME", Latitude: 24.7, Longitude: 46.7},
	{Country: "IR", Region: "ME", Latitude: 35.7, Longitude: 51.4},
	{Country: "EG", Region: "NAF", Latitude: 30.0, Longitude: 31.2},
	{Country: "MA", Region: "NAF", Latitude: 33.6, Longitude: -7.6},
	{Country: "NG", Region: "NAF", Latitude: 6.5, Longitude: 3.4},
	{Country: "ET", Region: "NAF", Latitude: 9.0, Longitude: 38.7},
	{Country: "KE", Region: "SAF", Latitude: -1.3, Longitude: 36.8},
	{Country: "ZA", Region: "SAF", Latitude: -26.2, Longitude: 28.0},
	{Country: "AO", Region: "SAF", Latitude: -8.8, Longitude: 13.2},
	{Country: "IN", Region: "SAS", Latitude: 19.1, Longitude: 72.9},
	{Country: "PK", Region: "SAS", Latitude: 24.9, Longitude: 67.0},
	{Country: "BD", Region: "SAS", Latitude: 23.8, Longitude: 90.4},
	{Country: "LK", Region: "SAS", Latitude: 6.9, Longitude: 79.9},
	{Country: "SG", Region: "SEAS", Latitude: 1.3, Longitude: 103.9},
	{Country: "ID", Region: "SEAS", Latitude: -6.2, Longitude: 106.8},
	{Country: "TH", Region: "SEAS", Latitude: 13.8, Longitude: 100.5},
	{Country: "VN", Region: "SEAS", Latitude: 10.8, Longitude: 106.7},
	{Country: "PH", Region: "SEAS", Latitude: 14.6, Longitude: 121.0},
	{Country: "JP", Region: "NEAS", Latitude: 35.7, Longitude: 139.7},
	{Country: "KR", Region: "NEAS", Latitude: 37.6, Longitude: 127.0},
	{Country: "CN", Region: "NEAS", Latitude: 31.2, Longitude: 121.5},
	{Country: "HK", Region: "NEAS", Latitude: 22.3, Longitude: 114.2},
	{Country: "TW", Region: "NEAS", Latitude: 25.0, Longitude: 121.6},
	{Country: "AU", Part: "NSW", Region: "OC", Latitude: -33.9, Longitude: 151.2},
	{Country: "NZ", Region: "OC", Latitude: -36.8, Longitude: 174.8},
	{Country: "FJ", Region: "OC", Latitude: -18.1, Longitude: 178.4},
	{Country: "WS", Region: "OC", Latitude: -13.8, Longitude: -171.8},
}

// World returns the places of the made-up world, of sixty countries in all
// regions, each with networks of its own: IPv4 ones of many sizes between 1.0.0.0
// and 223.255.255.255, and IPv6 ones.
func World() []Land {
	world := append([]Land(nil), lands...)
	r := rand.New(rand.NewPCG(60, 200_000))
	// Two thirds of the /12 networks are somebody's, some of them in parts.
	for top := range uint32(223 << 4) {
		base := (top + 1<<4) << 20
		if base>>24 == 10 || base>>24 == 127 || r.IntN(3) == 0 {
			continue
		}
		parts := uint32(1) << r.IntN(3)
		for part := range parts {
			size := uint32(1<<20) / parts
			i := r.IntN(len(world))
			world[i].Networks = append(world[i].Networks, netip.PrefixFrom(ipv4(base+part*size), 12+log2(parts)))
		}
	}
	for i := range world {
		for range 4 {
			b := [16]byte{0: 0x26, 1: byte(i), 2: byte(r.Uint32()), 3: byte(r.Uint32())}
			world[i].Networks = append(world[i].Networks, netip.PrefixFrom(netip.AddrFrom16(b), 32+4*r.IntN(3)))
		}
	}
	return world
}

func log2(n uint32) (bits int) {
	for ; n > 1; n >>= 1 {
		bits++
	}
	return bits
}

func ipv4(n uint32) netip.Addr {
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, n)))
}

// Nested is the place in the layout of MaxMind's City databases.
func (l *Land) Nested() Record {
	r := Record{
		"continent": Record{"code": "XX", "names": Record{"en": "made up", "fr": "inventé"}},
		"country":   Record{"iso_code": l.Country, "geoname_id": uint32(1), "names": Record{"de": "Land " + l.Country, "en": "Land " + l.Country}},
		"location":  Record{"accuracy_radius": uint16(20), "latitude": l.Latitude, "longitude": l.Longitude, "time_zone": "Etc/UTC"},
		"city":      Record{"names": Record{"de": "Stadt", "en": "City of " + l.Country + l.Part}},
	}
	if l.Part != "" {
		r["subdivisions"] = []any{Record{"iso_code": l.Part, "names": Record{"en": "Part " + l.Part}}, Record{"iso_code": "999"}}
	}
	return r
}

// WorldNetworks returns a database of all places, each with the record that of gives.
func WorldNetworks(world []Land, of func(*Land) Record) Networks {
	networks := make(Networks)
	for i := range world {
		for _, p := range world[i].Networks {
			networks[p.String()] = of(&world[i])
		}
	}
	return networks
}

// In returns an address of the place, any of them.
func (l *Land) In(r *rand.Rand) netip.Addr {
	p := l.Networks[r.IntN(len(l.Networks))]
	b := p.Addr().As16()
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	for i := bits; i < 128; i++ {
		if r.IntN(2) == 1 {
			b[i/8] |= 1 << (7 - i%8)
		}
	}
	a := netip.AddrFrom16(b)
	if p.Addr().Is4() {
		a = a.Unmap()
	}
	return a
}

// String names the place.
func (l *Land) String() string { return fmt.Sprintf("%s-%s in %s", l.Country, l.Part, l.Region) }
