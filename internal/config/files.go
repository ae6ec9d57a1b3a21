package config

import (
	"path/filepath"

	"fairlead/internal/model"
)

// fileKind is what a named file must hold.
type fileKind int

const (
	anyFile fileKind = iota
	certificateFile
	keyFile
	authorityFile
	mmdbFile
)

// namedFile is a key of the configuration whose value is a file name.
type namedFile struct {
	place model.Place
	kind  fileKind
	name  *string
}

// resolve makes a relative name start at dir.
func (f namedFile) resolve(dir string) {
	if *f.name != "" && !filepath.IsAbs(*f.name) {
		*f.name = filepath.Join(dir, *f.name)
	}
}

// files lists every key that names a file or directory.
func files(c *model.Config) []namedFile {
	var list []namedFile
	add := func(at model.Place, kind fileKind, name *string) {
		if *name != "" {
			list = append(list, namedFile{at, kind, name})
		}
	}
	var root model.Place
	add(root.Key("data_dir"), anyFile, &c.DataDir)
	if c.AccessLog.Output != "stdout" {
		add(root.Key("access_log").Key("output"), anyFile, &c.AccessLog.Output)
	}
	if s := c.State; s != nil {
		at := root.Key("state")
		add(at.Key("ca"), authorityFile, &s.CA)
		add(at.Key("certificate"), certificateFile, &s.Certificate)
		add(at.Key("key"), keyFile, &s.Key)
	}
	for i := range c.Geo.Databases {
		add(root.Key("geo").Key("databases").Item(i, ""), mmdbFile, &c.Geo.Databases[i])
	}
	for i := range c.Listeners {
		at := root.Key("listeners").Item(i, c.Listeners[i].Name).Key("certificates")
		for j := range c.Listeners[i].Certificates {
			pair := &c.Listeners[i].Certificates[j]
			add(at.Item(j, "").Key("certificate"), certificateFile, &pair.Certificate)
			add(at.Item(j, "").Key("key"), keyFile, &pair.Key)
		}
	}
	for i := range c.Pools {
		at, tls := root.Key("pools").Item(i, c.Pools[i].Name).Key("tls"), &c.Pools[i].TLS
		add(at.Key("ca"), authorityFile, &tls.CA)
		add(at.Key("certificate"), certificateFile, &tls.Certificate)
		add(at.Key("key"), keyFile, &tls.Key)
	}
	return list
}
