package geo

import (
	"net/netip"
	"path/filepath"
	"testing"

	"fairlead/internal/geo/geotest"
)

// write writes a database and returns its file.
func write(t testing.TB, o geotest.Options, networks geotest.Networks) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "test.mmdb")
	geotest.Write(t, file, o, networks)
	return file
}

// openAll opens databases as a node does: mapped.
func openAll(t testing.TB, files ...string) *Databases {
	t.Helper()
	d, err := Open(Config{Files: files, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }
