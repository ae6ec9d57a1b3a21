package geo

import (
	"math/bits"
	"net/netip"
)

// trace is what is noted of a look-up beside the place.
type trace struct {
	// Which database decided each fact, by its number from 1; 0 where none has it.
	by [len(factNames)]int
	// names alias the databases.
	names    [numNames][]byte
	nameBits [numNames]uint8
}

const (
	factsOfPlace = FactCountry | FactSubdivision | FactCoordinates
	factsOfNames = FactSubdivisionName | FactCity | FactOrganization
)

// locate fills p and, where it is given, t.
//
// What is said of where an address lies must agree: the first database that has
// its country decides that, and one that has another is not heard about
// subdivision, coordinates and city. The prefix of such a fact is therefore the
// longest of those of all databases that were asked before.
func (s *snapshot) locate(addr netip.Addr, p *Place, t *trace) {
	a, before := reduce(addr)
	if !a.IsValid() {
		return
	}
	wanted := factsOfPlace | FactASN
	if t != nil {
		wanted |= factsOfNames
	}
	var country *Country
	var deepest uint8
	var r record
	for i, d := range s.databases {
		has := d.gives & wanted
		if has == 0 {
			continue
		}
		r = record{}
		found, ok := d.find(a, &r)
		if !ok {
			continue
		}
		n := uint8(found)
		if n > 0 {
			n += before
		}
		if d.gives&factsOfPlace != 0 {
			deepest = max(deepest, n)
		}
		decides := func(f Facts, known bool, by uint8, decided *uint8) bool {
			if has&f == 0 {
				return false
			}
			*decided = max(*decided, by)
			if known {
				wanted &^= f
				if t != nil {
					t.by[bits.TrailingZeros8(uint8(f))] = i + 1
				}
			}
			return known
		}
		if decides(FactCountry, r.country != nil, deepest, &p.Bits.Country) {
			country = r.country
			p.Country = country.Code
		}
		agrees := r.country == nil || country == nil || r.country == country
		if decides(FactSubdivision, agrees && r.subdivision != Subdivision{}, deepest, &p.Bits.Subdivision) {
			p.Subdivision = r.subdivision
		}
		if decides(FactCoordinates, agrees && r.located, deepest, &p.Bits.Coordinates) {
			p.Latitude, p.Longitude, p.HasCoordinates = r.latitude, r.longitude, true
		}
		if decides(FactASN, r.asn != 0, n, &p.Bits.ASN) {
			p.ASN = r.asn
		}
		if t == nil {
			continue
		}
		if decides(FactSubdivisionName, agrees && len(r.subdivisionName) > 0, deepest, &t.nameBits[NameSubdivision]) {
			t.names[NameSubdivision] = r.subdivisionName
		}
		if decides(FactCity, agrees && len(r.city) > 0, deepest, &t.nameBits[NameCity]) {
			t.names[NameCity] = r.city
		}
		if decides(FactOrganization, len(r.organization) > 0 && (r.asn == 0 || r.asn == p.ASN), n, &t.nameBits[NameOrganization]) {
			t.names[NameOrganization] = r.organization
		}
	}
	if country == nil {
		return
	}
	p.Region, p.Bits.Region = country.Region, p.Bits.Country
	if splits(p.Country) {
		p.Region, p.Bits.Region = RegionOf(p.Country, p.Subdivision), max(p.Bits.Country, p.Bits.Subdivision)
	}
	if !p.HasCoordinates {
		p.Latitude, p.Longitude, p.HasCoordinates, p.Middle = country.Latitude, country.Longitude, true, true
		p.Bits.Coordinates = max(p.Bits.Coordinates, p.Bits.Country)
	}
}

// transition is a prefix of IPv6 addresses that have an IPv4 address in them.
type transition struct {
	prefix netip.Prefix
	at     int   // its first byte
	invert bool  // its bits are turned round
	before uint8 // bits before it
}

var transitions = [...]transition{
	{prefix: netip.MustParsePrefix("2002::/16"), at: 2, before: 16},                // 6to4 (RFC 3056)
	{prefix: netip.MustParsePrefix("64:ff9b::/96"), at: 12, before: 96},            // NAT64 (RFC 6052)
	{prefix: netip.MustParsePrefix("2001::/32"), at: 12, before: 96, invert: true}, // Teredo (RFC 4380): the client
	{prefix: netip.MustParsePrefix("::ffff:0:0:0/96"), at: 12, before: 96},         // translated (RFC 2765)
	{prefix: netip.MustParsePrefix("::/96"), at: 12, before: 96},                   // compatible (RFC 4291)
}

// reduce returns the address that is looked up for one, and how many bits of that
// one come before it: an IPv4 address in IPv6 is where the IPv4 address is,
// whatever a database has of the prefix.
func reduce(addr netip.Addr) (a netip.Addr, before uint8) {
	a = addr.Unmap().WithZone("")
	if !a.Is6() {
		return a, 0
	}
	b := a.As16()
	if b[0] != 0 && b[0] != 0x20 { // of all the prefixes
		return a, 0
	}
	for i := range transitions {
		t := &transitions[i]
		if !t.prefix.Contains(a) {
			continue
		}
		v4 := [4]byte(b[t.at:])
		if t.invert {
			for j := range v4 {
				v4[j] = ^v4[j]
			}
		}
		return netip.AddrFrom4(v4), t.before
	}
	return a, 0
}
