package geo

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"fairlead/internal/geo/geotest"
)

// FuzzDatabase: whatever a file holds, it is refused or can be looked up in, and
// what comes out of it is within bounds.
func FuzzDatabase(f *testing.F) {
	land := geotest.World()[0]
	for _, o := range []geotest.Options{{Bits: 24}, {Bits: 28, OnlyIPv4: true}, {Bits: 32}} {
		networks := geotest.Networks{
			"192.0.2.0/24": land.Nested(), "192.0.2.128/25": nil,
			"198.51.100.0/24": {"country_code": "NL", "lat": "52.4", "lng": "4.9", "asn": "AS64496", "as_name": "Example", "region": "North Holland"},
		}
		if !o.OnlyIPv4 {
			networks["2001:db8::/32"] = geotest.Record{"traits": geotest.Record{"autonomous_system_number": uint32(1)}, "registered_country": geotest.Record{"iso_code": "CA"}}
		}
		good := geotest.Build(o, networks)
		f.Add(good)
		f.Add(good[:len(good)-20])
		circle := bytes.Clone(good)
		binary.BigEndian.PutUint32(circle, 0)
		f.Add(circle)
	}
	f.Add([]byte("\xab\xcd\xefMaxMind.com\xe0"))
	addrs := []netip.Addr{
		addr("0.0.0.0"), addr("192.0.2.1"), addr("198.51.100.1"), addr("255.255.255.255"),
		addr("::"), addr("2001:db8::1"), addr("2002:c000:201::1"), addr("ffff::ffff"),
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		db, err := newDatabase("test.mmdb", content)
		if err != nil {
			return
		}
		s := &snapshot{databases: []*database{db}, gives: db.gives}
		for _, a := range addrs {
			var p Place
			var tr trace
			s.locate(a, &p, &tr)
			if p.Country != "" && FindCountry(p.Country) == nil {
				t.Errorf("%v: country %q", a, p.Country)
			}
			if p.Region != "" && !isRegion(p.Region) {
				t.Errorf("%v: region %q", a, p.Region)
			}
			if p.HasCoordinates && !(p.Latitude >= -90 && p.Latitude <= 90 && p.Longitude >= -180 && p.Longitude <= 180) {
				t.Errorf("%v: at %v, %v", a, p.Latitude, p.Longitude)
			}
			for _, bits := range []uint8{p.Bits.Country, p.Bits.Subdivision, p.Bits.Region, p.Bits.ASN, p.Bits.Coordinates} {
				if int(bits) > a.BitLen() {
					t.Errorf("%v: decided by %d bits", a, bits)
				}
			}
		}
	})
}
