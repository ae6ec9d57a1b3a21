package geo

import (
	"net/netip"
	"runtime"
)

// Finding is what is known of an address, and why.
type Finding struct {
	Place Place
	// Names are by [Name]; "" where one is not known.
	Names [numNames]string
	// Sources are of the facts of the databases, and no others.
	Sources []Source
}

// Source is where a fact of an address is from.
type Source struct {
	Fact Facts // one
	// File is the database that has it; "" where none has.
	File string
	// Prefix has the address, and all of its addresses have the same fact, or none.
	Prefix netip.Prefix
}

// Find is Locate for people: it says what Locate does and tells why. It allocates.
func (d *Databases) Find(addr netip.Addr) (f Finding) {
	if d == nil {
		return f
	}
	s := d.current.Load()
	defer runtime.KeepAlive(s)
	var t trace
	s.locate(addr, &f.Place, &t)
	for i, name := range t.names {
		f.Names[i] = string(name)
	}
	b := &f.Place.Bits
	lengths := [...]uint8{b.Country, b.Subdivision, b.Coordinates, b.ASN, t.nameBits[NameSubdivision], t.nameBits[NameCity], t.nameBits[NameOrganization]}
	addr = addr.Unmap().WithZone("") // what lengths of prefixes are of
	for i, n := range lengths {
		one := Source{Fact: 1 << i}
		if s.gives&one.Fact == 0 {
			continue
		}
		one.Prefix, _ = addr.Prefix(int(n))
		if by := t.by[i]; by > 0 {
			one.File = s.databases[by-1].file
		}
		f.Sources = append(f.Sources, one)
	}
	return f
}
