package geo

import (
	"context"
	"log/slog"
	"net/netip"
)

// Config is what Open needs.
type Config struct {
	// Files are MMDB files in order: of each fact, the first that has it counts.
	Files []string
	// Dir is where the copies are kept that are mapped. They have no name there.
	// Default: the system's directory for temporary files.
	Dir string
	// Log is told of what happens to the files. Default: nobody.
	Log *slog.Logger
}

// Databases are open MMDB files. A nil *Databases is one without files.
type Databases struct{}

// Open opens all files, or none: the error is then an [Errors] with what is wrong
// with each.
func Open(cfg Config) (*Databases, error) { return nil, nil }

// Watch reloads files that change, until ctx is done.
func (d *Databases) Watch(ctx context.Context) {}

// Locate returns what is known of where an address is.
func (d *Databases) Locate(addr netip.Addr) Place { return Place{} }

// Generation grows with each file that was reloaded: what was made of places
// under an earlier one may be stale.
func (d *Databases) Generation() uint64 { return 0 }

// Name is a fact that is a text of any length, and so no part of a Place.
type Name uint8

// The names.
const (
	NameSubdivision Name = iota // of the first level, such as Texas
	NameCity
)

// AppendName appends a name of the place of an address to b, in English.
func (d *Databases) AppendName(b []byte, addr netip.Addr, n Name) []byte { return b }
