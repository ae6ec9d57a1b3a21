// Package geo tells where an address is: its country, subdivision, region,
// autonomous system and coordinates, and how far two places are apart.
//
// A [Databases] is a list of MMDB files of any vendor. Each fact comes from the
// first of them that has it; the region comes from the country, and in Canada
// and the United States from the subdivision, by the table in this package.
// With each fact comes the length of the prefix that decided it: no address
// within that prefix has another answer, which is what the scope of a DNS
// answer is made of (RFC 7871).
//
//	place := databases.Locate(client) // nil *Databases: nothing is known
//	if place.Country == "" { ... }    // not known: the node's own place holds
//
// Locate may be called from any number of goroutines at once, during a reload
// too. It takes no lock and allocates nothing. It looks nothing up anew: a
// [Place] holds no memory of a database and may be kept.
//
// A file is mapped into memory from a copy of its own, so that whatever is done
// to the file, truncation in place included, changes no answer until the new
// content has been read as a whole and found good.
//
// What a client without a place of its own gets is for steering to decide.
// Databases for tests are made by package geotest.
package geo
