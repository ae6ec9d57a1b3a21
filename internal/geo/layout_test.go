package geo

import (
	"testing"

	"fairlead/internal/geo/geotest"
	"fairlead/internal/model"
)

// Layouts of vendors, as their files have them.
func TestLayouts(t *testing.T) {
	type r = geotest.Record
	type want struct {
		country            model.Country
		subdivision        string
		region             model.Region
		asn                uint32
		latitude           float64
		longitude          float64
		middle             bool
		part, city, holder string
	}
	mountainView := want{"US", "US-CA", "WNAM", 0, 37.4, -122.1, false, "California", "Mountain View", ""}
	for _, tt := range []struct {
		name   string
		record r
		want   want
	}{
		{"MaxMind City, IP2Location, DB-IP", r{
			"city":               r{"geoname_id": uint32(5375480), "names": r{"de": "X", "en": "Mountain View", "ja": "Y"}},
			"continent":          r{"code": "NA"},
			"country":            r{"iso_code": "US", "names": r{"en": "United States"}, "is_in_european_union": false},
			"location":           r{"accuracy_radius": uint16(5), "latitude": 37.4, "longitude": -122.1, "time_zone": "America/Los_Angeles"},
			"registered_country": r{"iso_code": "CA"},
			"subdivisions":       []any{r{"iso_code": "CA", "names": r{"en": "California"}}, r{"iso_code": "085", "names": r{"en": "Santa Clara"}}},
		}, mountainView},
		{"MaxMind Country, unknown but for the registration",
			r{"registered_country": r{"iso_code": "NL"}},
			want{"NL", "", "WEU", 0, 52.1, 5.3, true, "", "", ""}},
		{"MaxMind ASN, ip-location-db ASN",
			r{"autonomous_system_number": uint32(64496), "autonomous_system_organization": "Example"},
			want{asn: 64496, holder: "Example"}},
		{"MaxMind Enterprise",
			r{"country": r{"iso_code": "NL"}, "traits": r{"autonomous_system_number": uint32(64497), "autonomous_system_organization": "Other", "isp": "X"}},
			want{"NL", "", "WEU", 64497, 52.1, 5.3, true, "", "", "Other"}},
		{"ip-location-db country", r{"country_code": "NL"},
			want{"NL", "", "WEU", 0, 52.1, 5.3, true, "", "", ""}},
		{"ip-location-db city, numbers of 32 bits",
			r{"city": "Mountain View", "country_code": "US", "latitude": float32(37.5), "longitude": float32(-122.25), "state1": "California", "timezone": "X", "postcode": "94043"},
			want{"US", "US-CA", "WNAM", 0, 37.5, -122.25, false, "California", "Mountain View", ""}},
		{"IPinfo location, numbers as texts",
			r{"city": "Mountain View", "country": "US", "lat": "37.4", "lng": "-122.1", "region": "California", "region_code": "CA"}, mountainView},
		{"IPinfo lite",
			r{"asn": "AS64496", "as_name": "Example", "country": "Netherlands", "country_code": "NL", "continent": "Europe"},
			want{"NL", "", "WEU", 64496, 52.1, 5.3, true, "", "", "Example"}},
		{"codes in small letters, the whole of a subdivision",
			r{"country_code": "us", "state_code": "US-NY"},
			want{"US", "US-NY", "ENAM", 0, 37.4, -92.4, true, "", "", ""}},
		{"a subdivision by its name only",
			r{"country_code": "CA", "region_name": "Québec"},
			want{"CA", "CA-QC", "ENAM", 0, 51.9, -95.7, true, "Québec", "", ""}},
		{"a number of 64 bits for an ASN", r{"asn": uint64(4200000000)}, want{asn: 4200000000}},
		{"an ASN as a text without AS", r{"asn": "64500"}, want{asn: 64500}},
		{"coordinates only", r{"latitude": -33.9, "longitude": 151.2}, want{latitude: -33.9, longitude: 151.2}},

		{"0, 0 is what some have for unknown", r{"country_code": "NL", "latitude": 0.0, "longitude": 0.0},
			want{"NL", "", "WEU", 0, 52.1, 5.3, true, "", "", ""}},
		{"half of the coordinates", r{"asn": uint32(1), "latitude": 1.0}, want{asn: 1}},
		{"coordinates that are none", r{"asn": uint32(1), "latitude": 91.0, "longitude": 1.0}, want{asn: 1}},
		{"texts for coordinates that are none", r{"asn": uint32(1), "lat": "1.2.3", "lng": "-"}, want{asn: 1}},
		{"codes of no country", r{"country_code": "EU", "asn": uint32(1)}, want{asn: 1}},
		{"a subdivision without a country", r{"region_code": "TX", "asn": uint32(1)}, want{asn: 1}},
		{"an ASN that is too large", r{"country_code": "NL", "asn": uint64(1) << 32},
			want{"NL", "", "WEU", 0, 52.1, 5.3, true, "", "", ""}},
		{"an ASN below 0, of another type", r{"country_code": "NL", "asn": int32(-1)},
			want{"NL", "", "WEU", 0, 52.1, 5.3, true, "", "", ""}},
		{"fields of other types than any vendor's", r{
			"country_code": "NL", "city": uint16(1), "country": []any{"US"}, "subdivisions": []any{}, "location": "here", "latitude": r{}, "asn": true,
			"autonomous_system_organization": []any{}},
			want{"NL", "", "WEU", 0, 52.1, 5.3, true, "", "", ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := openAll(t, write(t, geotest.Options{}, geotest.Networks{"192.0.2.0/24": tt.record}))
			a := addr("192.0.2.1")
			p := d.Locate(a)
			got := want{
				p.Country, p.Subdivision.String(), p.Region, p.ASN, 0, 0, p.Middle,
				string(d.AppendName(nil, a, NameSubdivision)), string(d.AppendName(nil, a, NameCity)), string(d.AppendName(nil, a, NameOrganization)),
			}
			if p.HasCoordinates {
				got.latitude, got.longitude = p.Latitude, p.Longitude
			}
			w := tt.want
			if w.middle {
				c := FindCountry(w.country)
				w.latitude, w.longitude = c.Latitude, c.Longitude
			}
			if got != w {
				t.Errorf("got  %+v\nwant %+v", got, w)
			}
			if p.Located() != (w.country != "" || w.latitude != 0) {
				t.Errorf("Located = %v", p.Located())
			}
		})
	}
}
