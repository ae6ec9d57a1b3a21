package geo

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"fairlead/internal/model"
)

// Config is what Open needs.
type Config struct {
	// Files are MMDB files in order: of each fact, the first that has it counts.
	Files []string
	// Dir is an existing directory for the copies that are mapped, which have no
	// name there. Without it the files are read into memory, for programs that do
	// not run for long.
	Dir string
	// Busy, if given, reports whether a file is open for writing: it is not read
	// then.
	Busy func(file string) bool
	// Log is told of what happens to the files.
	Log *slog.Logger
}

// Databases are open MMDB files. A nil *Databases is one without files.
type Databases struct {
	cfg     Config
	current atomic.Pointer[snapshot]

	files []*file
	mu    sync.Mutex // guards what of files is shown; held for moments
}

// snapshot is what look-ups work from. It is never changed.
type snapshot struct {
	databases  []*database
	gives      Facts
	generation uint64
}

// FileError is what is wrong with one file.
type FileError struct {
	Index int // in Config.Files
	File  string
	Err   error
}

// Errors is what is wrong with files, in their order.
type Errors []FileError

func (e Errors) Error() string {
	var b strings.Builder
	for i, one := range e {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s: %v", one.File, one.Err)
	}
	return b.String()
}

// Problems returns what is wrong with the place of each file in the
// configuration.
func (e Errors) Problems() (problems []model.Problem) {
	for _, one := range e {
		at := model.Place{}.Key("geo").Key("databases").Item(one.Index, "")
		problems = append(problems, model.Problem{Path: at.Path, Text: fmt.Sprintf("%s %s: %v", at.Text, model.Show(one.File), one.Err)})
	}
	return problems
}

// Open opens all files, or none: an error is of type [Errors]. Without files it
// returns nil.
func Open(cfg Config) (*Databases, error) {
	if len(cfg.Files) == 0 {
		return nil, nil
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	d := &Databases{cfg: cfg}
	var errs Errors
	s := new(snapshot)
	for i, name := range cfg.Files {
		if slices.Contains(cfg.Files[:i], name) {
			errs = append(errs, FileError{i, name, errors.New("is given twice")})
			continue
		}
		f := newFile(name) // before it is read, so that no change is missed
		db, err := openDatabase(name, cfg.Dir)
		if err != nil {
			errs = append(errs, FileError{i, name, err})
			continue
		}
		d.files = append(d.files, f)
		s.databases = append(s.databases, db)
		s.gives |= db.gives
	}
	if len(errs) > 0 {
		return nil, errs
	}
	d.current.Store(s)
	return d, nil
}

// Gives returns the facts that one of the databases has of some address.
func (d *Databases) Gives() Facts {
	if d == nil {
		return 0
	}
	return d.current.Load().gives
}

// Generation grows with each file that is taken up anew: what was made of places
// under an earlier one may be stale.
func (d *Databases) Generation() uint64 {
	if d == nil {
		return 0
	}
	return d.current.Load().generation
}

// Locate returns what is known of where an address is.
func (d *Databases) Locate(addr netip.Addr) (p Place) {
	if d == nil {
		return p
	}
	s := d.current.Load()
	s.locate(addr, &p, nil)
	runtime.KeepAlive(s)
	return p
}

// Name is a fact that is a text of any length, and so no part of a Place.
type Name uint8

// The names, in English.
const (
	NameSubdivision Name = iota // of the first level, such as Texas
	NameCity
	NameOrganization // that has the autonomous system
	numNames
)

// AppendName appends a name of the place of an address to b, and nothing where
// it is not known.
func (d *Databases) AppendName(b []byte, addr netip.Addr, n Name) []byte {
	if d == nil {
		return b
	}
	s := d.current.Load()
	var p Place
	var t trace
	s.locate(addr, &p, &t)
	b = append(b, t.names[n]...)
	runtime.KeepAlive(s)
	return b
}
