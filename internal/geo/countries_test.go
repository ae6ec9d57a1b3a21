package geo

import (
	"slices"
	"strings"
	"testing"

	"fairlead/internal/geo/geotest"
	"fairlead/internal/model"
)

func isRegion(r model.Region) bool {
	for _, known := range model.Regions {
		if known.Code == r {
			return true
		}
	}
	return false
}

func TestCountries(t *testing.T) {
	if len(Countries) != 250 { // 249 of ISO 3166-1, and Kosovo
		t.Errorf("%d countries, want 250", len(Countries))
	}
	byRegion := make(map[model.Region]int)
	for i, c := range Countries {
		if i > 0 && c.Code <= Countries[i-1].Code {
			t.Errorf("%s stands behind %s", c.Code, Countries[i-1].Code)
		}
		byRegion[c.Region]++
		if !isRegion(c.Region) {
			t.Errorf("%s is in region %q, which is none", c.Code, c.Region)
		}
		if !slices.Contains([]string{"AF", "AN", "AS", "EU", "NA", "OC", "SA"}, c.Continent) {
			t.Errorf("%s is on continent %q, which is none", c.Code, c.Continent)
		}
		if c.Latitude < -90 || c.Latitude > 90 || c.Longitude < -180 || c.Longitude > 180 || c.Latitude == 0 && c.Longitude == 0 {
			t.Errorf("%s is at %v, %v", c.Code, c.Latitude, c.Longitude)
		}
		for _, code := range []model.Country{c.Code, model.Country(strings.ToLower(string(c.Code)))} {
			if got := FindCountry(code); got == nil || got.Code != c.Code {
				t.Errorf("FindCountry(%q) = %v", code, got)
			}
		}
	}
	for _, r := range model.Regions {
		if r.Code != "WNAM" && byRegion[r.Code] < 2 { // the west of North America is parts of countries
			t.Errorf("region %s has %d countries", r.Code, byRegion[r.Code])
		}
	}
}

func TestNoCountry(t *testing.T) {
	for _, code := range []string{"", "N", "NLD", "EU", "AP", "ZZ", "XX", "A1", "A2", "T1", "UK", "N\xcc", "@A", "[A"} {
		if c := FindCountry(code); c != nil {
			t.Errorf("FindCountry(%q) = %s, want none", code, c.Code)
		}
	}
}

func TestSubdivisions(t *testing.T) {
	count := make(map[string]int)
	for _, p := range Parts {
		count[p.Code.String()[:2]]++
		if !isRegion(p.Region) {
			t.Errorf("%s is in region %q, which is none", p.Code, p.Region)
		}
		if got := ParseSubdivision(p.Code.String()); got != p.Code {
			t.Errorf("ParseSubdivision(%q) = %q", p.Code, got)
		}
		// A territory that is a country as well is in one region.
		if c := FindCountry(p.Code.String()[3:]); c != nil && slices.Contains([]model.Country{"AS", "GU", "MP", "PR", "UM", "VI"}, c.Code) && c.Region != p.Region {
			t.Errorf("%s is in %s, and the country %s in %s", p.Code, p.Region, c.Code, c.Region)
		}
	}
	if count["CA"] != 13 || count["US"] != 57 { // 50 states, DC, 6 outlying areas
		t.Errorf("subdivisions: %v, want 13 of Canada and 57 of the United States", count)
	}
}

func TestRegionOf(t *testing.T) {
	for _, tt := range []struct {
		country     model.Country
		subdivision string
		want        model.Region
	}{
		{"US", "US-CA", "WNAM"}, {"US", "US-NY", "ENAM"}, {"US", "US-PR", "NSAM"}, {"US", "US-HI", "WNAM"},
		{"CA", "CA-BC", "WNAM"}, {"CA", "CA-MB", "ENAM"}, {"CA", "", "ENAM"},
		{"US", "", "ENAM"},
		{"US", "US-ZZ", "ENAM"},  // no such state
		{"US", "CA-BC", "ENAM"},  // of another country
		{"DE", "DE-CA", "WEU"},   // not split
		{"MX", "MX-SON", "WNAM"}, // not split
		{"ZZ", "", ""},
		{"", "", ""},
	} {
		if got := RegionOf(tt.country, ParseSubdivision(tt.subdivision)); got != tt.want {
			t.Errorf("RegionOf(%q, %q) = %q, want %q", tt.country, tt.subdivision, got, tt.want)
		}
	}
	// The regions of the made-up world were written down apart from the table.
	countries := make(map[string]bool)
	for _, l := range geotest.World() {
		countries[l.Country] = true
		part := ""
		if l.Part != "" {
			part = l.Country + "-" + l.Part
		}
		if got := RegionOf(model.Country(l.Country), ParseSubdivision(part)); string(got) != l.Region {
			t.Errorf("%v: RegionOf = %s", &l, got)
		}
	}
	if len(countries) < 60 {
		t.Errorf("the world has %d countries, want 60", len(countries))
	}
}

func TestParseSubdivision(t *testing.T) {
	for _, tt := range []struct{ code, want, part string }{
		{"US-TX", "US-TX", "TX"}, {"GB-ENG", "GB-ENG", "ENG"}, {"AT-9", "AT-9", "9"},
		{"", "", ""}, {"US", "", ""}, {"US-", "", ""}, {"US-ABCD", "", ""}, {"US_TX", "", ""}, {"US-tx", "", ""}, {"US-T\x00", "", ""},
	} {
		s := ParseSubdivision(tt.code)
		if got := s.String(); got != tt.want {
			t.Errorf("ParseSubdivision(%q) = %q, want %q", tt.code, got, tt.want)
		}
		if got := string(s.AppendTo([]byte("in "))); got != "in "+tt.want {
			t.Errorf("AppendTo of %q: %q", tt.code, got)
		}
		if got := string(s.AppendPart(nil)); got != tt.part {
			t.Errorf("AppendPart of %q: %q, want %q", tt.code, got, tt.part)
		}
	}
}
