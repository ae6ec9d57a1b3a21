package model

// Region is one of the 13 region codes, or ALL_REGIONS in check_regions.
type Region string

// AllRegions stands for every region, in check_regions only.
const AllRegions Region = "ALL_REGIONS"

// Regions lists the 13 codes with their names.
var Regions = []struct {
	Code Region
	Name string
}{
	{"WNAM", "Western North America"},
	{"ENAM", "Eastern North America"},
	{"WEU", "Western Europe"},
	{"EEU", "Eastern Europe"},
	{"NSAM", "Northern South America"},
	{"SSAM", "Southern South America"},
	{"OC", "Oceania"},
	{"ME", "Middle East"},
	{"NAF", "Northern Africa"},
	{"SAF", "Southern Africa"},
	{"SAS", "Southern Asia"},
	{"SEAS", "Southeast Asia"},
	{"NEAS", "Northeast Asia"},
}

// Country is an ISO 3166-1 alpha-2 code in capitals.
type Country string
