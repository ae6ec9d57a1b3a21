package geo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/oschwald/maxminddb-golang/v2"
	"github.com/oschwald/maxminddb-golang/v2/mmdbdata"

	"fairlead/internal/model"
	"fairlead/internal/telemetry"
)

// maxSize bounds a file. The largest that are sold have half of it.
const maxSize = 4 << 30

// database is the content of one file. It is never changed.
type database struct {
	file   string
	memory []byte // of the whole file
	reader *maxminddb.Reader
	data   *mmdbdata.Decoder // of the data section
	both   bool              // holds IPv6 addresses too
	kind   string            // what its maker calls it
	built  time.Time
	gives  Facts // what any of its records has
	failed telemetry.Counter
}

// openDatabase reads a file. Where dir is not empty it maps a copy in that
// directory, which has no name there: whoever writes into the file, or cuts it
// short, would otherwise change what is mapped, and reading beyond the end of a
// file that was cut ends the process (SIGBUS). File systems that can share blocks
// (XFS, Btrfs) copy none.
func openDatabase(file, dir string) (*database, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, cause(err)
	}
	if !info.Mode().IsRegular() { // opening a pipe could take for ever
		return nil, errors.New("want a regular file")
	}
	switch {
	case info.Size() == 0:
		return nil, errEmpty
	case info.Size() > maxSize:
		return nil, fmt.Errorf("%d bytes long: want at most %d", info.Size(), int64(maxSize))
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, cause(err)
	}
	defer f.Close()
	var memory []byte
	if dir == "" {
		memory, err = io.ReadAll(io.LimitReader(f, maxSize))
		err = cause(err)
	} else {
		memory, err = mapCopy(f, dir)
	}
	if err != nil {
		return nil, err
	}
	d, err := newDatabase(file, memory)
	if dir != "" {
		if err != nil {
			_ = syscall.Munmap(memory)
			return nil, err
		}
		// Look-ups may be under way in a database that is replaced; the collector
		// knows when the last has ended.
		runtime.AddCleanup(d, func(m []byte) { _ = syscall.Munmap(m) }, memory)
	}
	return d, err
}

// cause is an error of the file system without the name of the file, which the
// message has already.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

var errEmpty = errors.New("is empty: want a database in MMDB format")

// mapCopy maps a copy of f.
func mapCopy(f *os.File, dir string) ([]byte, error) {
	tmp, err := os.CreateTemp(dir, ".geo-*")
	if err != nil {
		return nil, fmt.Errorf("cannot be copied into %s: %w", dir, cause(err))
	}
	defer tmp.Close()
	if err := os.Remove(tmp.Name()); err != nil {
		return nil, fmt.Errorf("cannot be copied into %s: %w", dir, cause(err))
	}
	n, err := io.Copy(tmp, io.LimitReader(f, maxSize))
	if err != nil {
		return nil, fmt.Errorf("cannot be copied into %s: %w", dir, cause(err))
	}
	if n == 0 { // of nothing there is no mapping
		return nil, errEmpty
	}
	memory, err := syscall.Mmap(int(tmp.Fd()), 0, int(n), syscall.PROT_READ, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("cannot be mapped: %w", err)
	}
	return memory, nil
}

// newDatabase reads the content of a file and looks at all of it, so that no
// look-up meets what it cannot read.
func newDatabase(file string, memory []byte) (*database, error) {
	reader, err := maxminddb.OpenBytes(memory, maxminddb.DisableStringCache())
	if err != nil {
		return nil, fmt.Errorf("want a complete database in MMDB format: %w", err)
	}
	m := &reader.Metadata
	if m.BinaryFormatMajorVersion != 2 {
		return nil, fmt.Errorf("has version %d of the MMDB format: want 2", m.BinaryFormatMajorVersion)
	}
	if m.IPVersion != 4 && m.IPVersion != 6 {
		return nil, fmt.Errorf("has addresses of IP version %d: want 4 or 6", m.IPVersion)
	}
	t, err := newTree(memory, m)
	if err != nil {
		return nil, err
	}
	d := &database{
		file: file, memory: memory, reader: reader, data: mmdbdata.NewDecoder(t.data, 0),
		both: m.IPVersion == 6, kind: printable(m.DatabaseType), built: m.BuildTime(),
	}
	if err := d.verify(t); err != nil {
		return nil, err
	}
	return d, nil
}

// printable bounds what a file says of itself, for messages and metrics.
func printable(s string) string {
	const longest = 100
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), longest)]
}

// verify reads every record once, and notes what facts there are.
func (d *database) verify(t *tree) error {
	at, err := t.records()
	if err != nil {
		return err
	}
	var keys []string // of the first record
	for offset := range at.all() {
		var r record
		if err := r.read(d.data.CursorAt(offset)); err != nil {
			return fmt.Errorf("is broken: the record at byte %d of the data: %w", offset, err)
		}
		d.gives |= r.gives()
		if keys == nil {
			keys = d.keys(offset)
		}
	}
	if d.gives == 0 {
		return fmt.Errorf("has nothing of use: want records with a country, coordinates or an AS number; these have %s", describe(keys))
	}
	return nil
}

// keys lists the keys of a record.
func (d *database) keys(offset uint) []string {
	const enough = 10
	keys := []string{}
	f, err := open(d.data.CursorAt(offset))
	for err == nil && len(keys) < enough {
		var key []byte
		if key, _, err = f.next(); err != nil || key == nil {
			break
		}
		keys = append(keys, model.Show(printable(string(key))))
	}
	return keys
}

func describe(keys []string) string {
	if len(keys) == 0 {
		return "no fields"
	}
	slices.Sort(keys)
	return strings.Join(keys, ", ")
}

// find reads the record of an address into r and returns the length of the prefix
// that has it, or that has none. ok is false where the database has nothing to say
// of such addresses, or nothing that can be read.
func (d *database) find(a netip.Addr, r *record) (bits int, ok bool) {
	if !d.both && !a.Is4() {
		return 0, false
	}
	result := d.reader.Lookup(a)
	if err := result.Err(); err != nil {
		d.failed.Inc()
		return 0, false
	}
	prefix := result.Prefix()
	if prefix.Addr().Is4() == a.Is4() { // else it has no IPv4 addresses at all
		bits = prefix.Bits()
	}
	if !result.Found() {
		return bits, true
	}
	if err := r.read(d.data.CursorAt(uint(result.Offset()))); err != nil {
		d.failed.Inc()
		*r = record{}
		return 0, false
	}
	return bits, true
}
