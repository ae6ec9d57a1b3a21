package geo

import (
	"fmt"
	"math"

	"github.com/oschwald/maxminddb-golang/v2/mmdbdata"
)

// Facts is a set of facts about addresses.
type Facts uint8

// The facts.
const (
	FactCountry Facts = 1 << iota
	FactSubdivision
	FactCoordinates
	FactASN
	FactSubdivisionName
	FactCity
	FactOrganization
)

var factNames = [...]string{"country", "subdivision", "coordinates", "asn", "subdivision_name", "city", "organization"}

// Names lists the facts of the set.
func (f Facts) Names() (names []string) {
	for i, name := range factNames {
		if f&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// record is what is read of a record. Texts alias the memory of the database.
type record struct {
	country             *Country
	subdivision         Subdivision
	asn                 uint32
	latitude, longitude float64
	located             bool // there are coordinates

	subdivisionName, city, organization []byte

	registered     *Country // where the network is registered
	part           []byte   // code of the subdivision, with the country or without
	hasLat, hasLon bool
}

// gives returns the facts that the record has.
func (r *record) gives() (f Facts) {
	for _, has := range [...]struct {
		is   bool
		fact Facts
	}{
		{r.country != nil, FactCountry},
		{r.subdivision != Subdivision{}, FactSubdivision},
		{r.located, FactCoordinates},
		{r.asn != 0, FactASN},
		{len(r.subdivisionName) > 0, FactSubdivisionName},
		{len(r.city) > 0, FactCity},
		{len(r.organization) > 0, FactOrganization},
	} {
		if has.is {
			f |= has.fact
		}
	}
	return f
}

// maxFields bounds a map or an array of a record. MaxMind's largest have about
// twenty; a longer one is the sign of a broken file.
const maxFields = 256

var errFields = fmt.Errorf("a record has a map or an array of more than %d values", maxFields)

// fields walks over a map: next, then skip or read the value and skip.
type fields struct {
	at   mmdbdata.Cursor
	left uint
}

func open(value mmdbdata.Cursor) (f fields, err error) {
	m, err := value.MapReader()
	if err == nil && m.Len() > maxFields {
		err = errFields
	}
	return fields{m.First(), m.Len()}, err
}

// next returns a key, which aliases the database, and its value. After the last
// one the key is nil.
func (f *fields) next() (key []byte, value mmdbdata.Cursor, err error) {
	if f.left == 0 {
		return nil, value, nil
	}
	f.left--
	if key, value, err = f.at.ReadMapKey(); err != nil {
		return nil, value, err
	}
	f.at, err = value.Skip()
	return key, value, err
}

// member returns the value that a map has under a key.
func member(value mmdbdata.Cursor, name string) (v mmdbdata.Cursor, ok bool, err error) {
	f, err := open(value)
	for err == nil {
		var key []byte
		if key, v, err = f.next(); err != nil || key == nil {
			break
		}
		if string(key) == name {
			return v, true, nil
		}
	}
	return v, false, err
}

// read reads a record of any vendor: the nested layout of MaxMind, DB-IP and
// IP2Location and the flat ones of ip-location-db and IPinfo. What it does not
// know is passed over. It allocates only for an error.
func (r *record) read(value mmdbdata.Cursor) error {
	if err := r.group(value); err != nil {
		return err
	}
	r.resolve()
	return nil
}

// group reads the fields of a record, or of a group of fields in it.
func (r *record) group(value mmdbdata.Cursor) error {
	f, err := open(value)
	for err == nil {
		var key []byte
		var v mmdbdata.Cursor
		if key, v, err = f.next(); err != nil || key == nil {
			break
		}
		err = r.field(key, v)
	}
	return err
}

// field reads one field. The case labels are what vendors call one thing.
func (r *record) field(key []byte, value mmdbdata.Cursor) (err error) {
	switch string(key) {
	case "country":
		err = readCountry(value, &r.country)
	case "country_code", "country_iso_code":
		err = readCode(value, &r.country)
	case "registered_country":
		err = readCountry(value, &r.registered)
	case "subdivisions":
		err = r.subdivisions(value)
	case "region_code", "state_code", "subdivision_code", "region_iso_code":
		err = readText(value, &r.part)
	case "region", "region_name", "state", "state1", "state_name", "stateprov":
		err = readText(value, &r.subdivisionName)
	case "city", "city_name":
		err = readName(value, &r.city)
	case "latitude", "lat":
		err = readNumber(value, &r.latitude, &r.hasLat)
	case "longitude", "lng", "lon":
		err = readNumber(value, &r.longitude, &r.hasLon)
	case "autonomous_system_number", "asn", "as_number":
		err = readASN(value, &r.asn)
	case "autonomous_system_organization", "as_name", "as_organization":
		err = readText(value, &r.organization)
	case "location", "traits": // of MaxMind
		if is, err := value.Kind(); err != nil || is != mmdbdata.KindMap {
			return err
		}
		err = r.nested(value)
	}
	return err
}

// nested reads the fields of interest that MaxMind has one level deeper.
func (r *record) nested(value mmdbdata.Cursor) error {
	f, err := open(value)
	for err == nil {
		var key []byte
		var v mmdbdata.Cursor
		if key, v, err = f.next(); err != nil || key == nil {
			break
		}
		switch string(key) {
		case "latitude":
			err = readNumber(v, &r.latitude, &r.hasLat)
		case "longitude":
			err = readNumber(v, &r.longitude, &r.hasLon)
		case "autonomous_system_number":
			err = readASN(v, &r.asn)
		case "autonomous_system_organization":
			err = readText(v, &r.organization)
		}
	}
	return err
}

// subdivisions reads the first of a list, which is that of the first level.
func (r *record) subdivisions(value mmdbdata.Cursor) error {
	s, err := value.Slice()
	if err != nil {
		return err
	}
	_, first, ok := s.Next(mmdbdata.Cursor{})
	if !ok {
		return s.Err()
	}
	f, err := open(first)
	for err == nil {
		var key []byte
		var v mmdbdata.Cursor
		if key, v, err = f.next(); err != nil || key == nil {
			break
		}
		switch string(key) {
		case "iso_code":
			err = readText(v, &r.part)
		case "names":
			err = readEnglish(v, &r.subdivisionName)
		}
	}
	return err
}

// resolve makes of what was read what it means together.
func (r *record) resolve() {
	if r.country == nil {
		r.country = r.registered
	}
	if r.country != nil {
		r.subdivision = subdivision(r.country.Code, r.part)
		if p := partNamed(r.country.Code, r.subdivisionName); p != nil && r.subdivision == (Subdivision{}) {
			r.subdivision = p.Code
		}
	}
	// 0, 0 is in the sea, and what some have for unknown.
	r.located = r.hasLat && r.hasLon && r.latitude >= -90 && r.latitude <= 90 &&
		r.longitude >= -180 && r.longitude <= 180 && (r.latitude != 0 || r.longitude != 0)
}

// readCountry reads a map with the code, or a text: the code, or a name where
// another field has the code.
func readCountry(value mmdbdata.Cursor, to **Country) error {
	is, err := value.Kind()
	if err != nil {
		return err
	}
	if is == mmdbdata.KindMap {
		v, ok, err := member(value, "iso_code")
		if err != nil || !ok {
			return err
		}
		value = v
	}
	return readCode(value, to)
}

// readCode reads the code of a country. What is none leaves what was read before.
func readCode(value mmdbdata.Cursor, to **Country) error {
	var text []byte
	if err := readText(value, &text); err != nil {
		return err
	}
	if c := FindCountry(text); c != nil {
		*to = c
	}
	return nil
}

// readName reads a text, or a map that has it in several languages.
func readName(value mmdbdata.Cursor, to *[]byte) error {
	is, err := value.Kind()
	if err != nil || is != mmdbdata.KindMap {
		return readText(value, to)
	}
	names, ok, err := member(value, "names")
	if err != nil || !ok {
		return err
	}
	return readEnglish(names, to)
}

func readEnglish(names mmdbdata.Cursor, to *[]byte) error {
	v, ok, err := member(names, "en")
	if err != nil || !ok {
		return err
	}
	return readText(v, to)
}

// readText reads a text; what is none is passed over.
func readText(value mmdbdata.Cursor, to *[]byte) error {
	is, err := value.Kind()
	if err != nil || is != mmdbdata.KindString {
		return err
	}
	// A key is a text, and the library reads it without making a string.
	text, _, err := value.ReadMapKey()
	if err == nil {
		*to = text
	}
	return err
}

// readNumber reads degrees, which some have as texts.
func readNumber(value mmdbdata.Cursor, to *float64, has *bool) error {
	is, err := value.Kind()
	if err != nil {
		return err
	}
	switch is {
	case mmdbdata.KindFloat64, mmdbdata.KindFloat32:
		*to, _, err = value.ReadFloat()
		*has = err == nil
	case mmdbdata.KindString:
		var text []byte
		if err = readText(value, &text); err == nil {
			*to, *has = parseDecimal(text)
		}
	}
	return err
}

// readASN reads a number, or a text such as AS64496.
func readASN(value mmdbdata.Cursor, to *uint32) error {
	is, err := value.Kind()
	if err != nil {
		return err
	}
	switch is {
	case mmdbdata.KindUint16, mmdbdata.KindUint32, mmdbdata.KindUint64:
		n, _, err := value.ReadUint()
		if err == nil && n <= math.MaxUint32 {
			*to = uint32(n)
		}
		return err
	case mmdbdata.KindString:
		var text []byte
		if err := readText(value, &text); err != nil {
			return err
		}
		if len(text) > 2 && text[0] == 'A' && text[1] == 'S' {
			text = text[2:]
		}
		if n, ok := parseDecimal(text); ok && n == math.Trunc(n) && n >= 0 && n <= math.MaxUint32 {
			*to = uint32(n)
		}
	}
	return err
}

// parseDecimal reads a number such as -122.0775. strconv would want a string.
func parseDecimal(b []byte) (v float64, ok bool) {
	const longest = 24
	digits := b
	if len(b) > 0 && b[0] == '-' {
		digits = b[1:]
	}
	if len(b) > longest {
		return 0, false
	}
	scale, point := 1.0, false
	for _, c := range digits {
		switch {
		case c >= '0' && c <= '9':
			v = v*10 + float64(c-'0')
			ok = true
			if point {
				scale *= 10
			}
		case c == '.' && !point:
			point = true
		default:
			return 0, false
		}
	}
	v /= scale
	if len(digits) < len(b) {
		v = -v
	}
	return v, ok
}
