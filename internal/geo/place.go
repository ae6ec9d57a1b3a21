package geo

import "fairlead/internal/model"

// Place is what is known of where an address is. The zero Place is that of an
// address of which nothing is known.
type Place struct {
	// Country is an ISO 3166-1 alpha-2 code, "" where it is not known.
	Country model.Country
	// Subdivision is the first-level subdivision, such as US-TX.
	Subdivision Subdivision
	// Region is the one of the 13 regions that country and subdivision are in, ""
	// where the country is not known.
	Region model.Region
	// ASN is the number of the autonomous system, 0 where it is not known.
	ASN uint32
	// Latitude and Longitude are in degrees north and east. They mean nothing
	// where HasCoordinates is false. Where no database has any, they are the
	// middle of the country, and Middle is true.
	Latitude, Longitude float64
	HasCoordinates      bool
	Middle              bool

	// Bits are the lengths of the prefixes of the address that decided, those
	// of facts that are not known included: all addresses that begin with as
	// many bits of the one that was asked for have the same fact, or none.
	Bits Bits
}

// Bits are lengths of prefixes, in the family of the address that was looked up.
// 0 means that no database has such facts of any address.
type Bits struct {
	Country, Subdivision, Region, ASN, Coordinates uint8
}

// Located reports whether it is known where on Earth the address is.
func (p *Place) Located() bool { return p.Country != "" || p.HasCoordinates }

// Position returns where the place is, or the zero Position.
func (p *Place) Position() Position {
	if !p.HasCoordinates {
		return Position{}
	}
	return At(p.Latitude, p.Longitude)
}

// Subdivision is an ISO 3166-2 code, such as US-TX. It is a value, so that it
// costs nothing to keep; the zero Subdivision is none.
type Subdivision struct {
	code [6]byte // 0 behind the end
}

// ParseSubdivision reads a code such as US-TX; the zero Subdivision is returned
// for what is none.
func ParseSubdivision(code string) Subdivision {
	country, part := "", ""
	if len(code) >= 4 && code[2] == '-' {
		country, part = code[:2], code[3:]
	}
	return subdivision(country, part)
}

// subdivision joins a country and what a database has for its part, with the
// country or without.
func subdivision[T ~string, P ~string | ~[]byte](country T, part P) (s Subdivision) {
	if len(country) != 2 {
		return s
	}
	if len(part) > 3 && part[2] == '-' && part[0] == country[0] && part[1] == country[1] {
		part = part[3:]
	}
	if len(part) < 1 || len(part) > 3 {
		return s
	}
	s.code[0], s.code[1], s.code[2] = country[0], country[1], '-'
	for i := range len(part) {
		c := part[i]
		if (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return Subdivision{}
		}
		s.code[3+i] = c
	}
	return s
}

// String returns the code, "" for none.
func (s Subdivision) String() string { return string(s.code[:s.len()]) }

// AppendTo appends the code to b.
func (s Subdivision) AppendTo(b []byte) []byte { return append(b, s.code[:s.len()]...) }

// AppendPart appends the part behind the country, such as TX, to b.
func (s Subdivision) AppendPart(b []byte) []byte {
	if s == (Subdivision{}) {
		return b
	}
	return append(b, s.code[3:s.len()]...)
}

func (s *Subdivision) len() int {
	n := len(s.code)
	for n > 0 && s.code[n-1] == 0 {
		n--
	}
	return n
}
