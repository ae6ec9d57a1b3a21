package geo

import "fairlead/internal/model"

// Part is a first-level subdivision of a country that lies in several regions.
type Part struct {
	Code   Subdivision
	Name   string // in English
	Region model.Region
}

// Parts lists the subdivisions of Canada and the United States by code. What is
// west of the Mississippi is WNAM, and in Canada what is west of Manitoba and
// Nunavut. Of the territories, those that are countries in ISO 3166-1 as well are
// where that country is.
var Parts = func() (list []Part) {
	for _, country := range []struct {
		code  model.Country
		parts [][3]string
	}{{"CA", canada}, {"US", unitedStates}} {
		for _, p := range country.parts {
			list = append(list, Part{subdivision(country.code, p[0]), p[1], model.Region(p[2])})
		}
	}
	return list
}()

var canada = [][3]string{
	{"AB", "Alberta", "WNAM"},
	{"BC", "British Columbia", "WNAM"},
	{"MB", "Manitoba", "ENAM"},
	{"NB", "New Brunswick", "ENAM"},
	{"NL", "Newfoundland and Labrador", "ENAM"},
	{"NS", "Nova Scotia", "ENAM"},
	{"NT", "Northwest Territories", "WNAM"},
	{"NU", "Nunavut", "ENAM"},
	{"ON", "Ontario", "ENAM"},
	{"PE", "Prince Edward Island", "ENAM"},
	{"QC", "Quebec", "ENAM"},
	{"SK", "Saskatchewan", "WNAM"},
	{"YT", "Yukon", "WNAM"},
}

var unitedStates = [][3]string{
	{"AK", "Alaska", "WNAM"},
	{"AL", "Alabama", "ENAM"},
	{"AR", "Arkansas", "WNAM"},
	{"AS", "American Samoa", "OC"},
	{"AZ", "Arizona", "WNAM"},
	{"CA", "California", "WNAM"},
	{"CO", "Colorado", "WNAM"},
	{"CT", "Connecticut", "ENAM"},
	{"DC", "District of Columbia", "ENAM"},
	{"DE", "Delaware", "ENAM"},
	{"FL", "Florida", "ENAM"},
	{"GA", "Georgia", "ENAM"},
	{"GU", "Guam", "OC"},
	{"HI", "Hawaii", "WNAM"},
	{"IA", "Iowa", "WNAM"},
	{"ID", "Idaho", "WNAM"},
	{"IL", "Illinois", "ENAM"},
	{"IN", "Indiana", "ENAM"},
	{"KS", "Kansas", "WNAM"},
	{"KY", "Kentucky", "ENAM"},
	{"LA", "Louisiana", "WNAM"},
	{"MA", "Massachusetts", "ENAM"},
	{"MD", "Maryland", "ENAM"},
	{"ME", "Maine", "ENAM"},
	{"MI", "Michigan", "ENAM"},
	{"MN", "Minnesota", "WNAM"},
	{"MO", "Missouri", "WNAM"},
	{"MP", "Northern Mariana Islands", "OC"},
	{"MS", "Mississippi", "ENAM"},
	{"MT", "Montana", "WNAM"},
	{"NC", "North Carolina", "ENAM"},
	{"ND", "North Dakota", "WNAM"},
	{"NE", "Nebraska", "WNAM"},
	{"NH", "New Hampshire", "ENAM"},
	{"NJ", "New Jersey", "ENAM"},
	{"NM", "New Mexico", "WNAM"},
	{"NV", "Nevada", "WNAM"},
	{"NY", "New York", "ENAM"},
	{"OH", "Ohio", "ENAM"},
	{"OK", "Oklahoma", "WNAM"},
	{"OR", "Oregon", "WNAM"},
	{"PA", "Pennsylvania", "ENAM"},
	{"PR", "Puerto Rico", "NSAM"},
	{"RI", "Rhode Island", "ENAM"},
	{"SC", "South Carolina", "ENAM"},
	{"SD", "South Dakota", "WNAM"},
	{"TN", "Tennessee", "ENAM"},
	{"TX", "Texas", "WNAM"},
	{"UM", "United States Minor Outlying Islands", "OC"},
	{"UT", "Utah", "WNAM"},
	{"VA", "Virginia", "ENAM"},
	{"VI", "U.S. Virgin Islands", "NSAM"},
	{"VT", "Vermont", "ENAM"},
	{"WA", "Washington", "WNAM"},
	{"WI", "Wisconsin", "ENAM"},
	{"WV", "West Virginia", "ENAM"},
	{"WY", "Wyoming", "WNAM"},
}

var (
	partsByCode = make(map[Subdivision]*Part)
	// partsByName has what databases that have no codes call the subdivisions.
	partsByName = make(map[string]*Part)
)

func init() {
	for i := range Parts {
		p := &Parts[i]
		partsByCode[p.Code] = p
		partsByName[p.Code.String()[:2]+p.Name] = p
	}
	partsByName["USWashington, D.C."] = partsByName["USDistrict of Columbia"]
	partsByName["CAQuébec"] = partsByName["CAQuebec"]
	partsByName["CAYukon Territory"] = partsByName["CAYukon"]
	partsByName["CANewfoundland"] = partsByName["CANewfoundland and Labrador"]
}

// partNamed returns the subdivision that a database knows by name only, nil
// where that is in no table.
func partNamed(country model.Country, name []byte) *Part {
	var key [64]byte
	if len(country)+len(name) > len(key) {
		return nil
	}
	n := copy(key[:], country)
	n += copy(key[n:], name)
	return partsByName[string(key[:n])]
}

// splits reports whether a country lies in several regions.
func splits(c model.Country) bool { return c == "CA" || c == "US" }

// RegionOf returns the region of a country and, where it is known and matters, its
// subdivision; "" where there is no such country.
func RegionOf(country model.Country, s Subdivision) model.Region {
	if splits(country) {
		if p := partsByCode[s]; p != nil && string(p.Code.code[:2]) == string(country) {
			return p.Region
		}
	}
	if c := FindCountry(country); c != nil {
		return c.Region
	}
	return ""
}
