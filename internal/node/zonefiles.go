package node

import (
	"fairlead/internal/model"
)

// zoneFiles watches the files that zones are read from. It belongs to the
// goroutine of Run.
type zoneFiles map[string]*watcher

// follow watches the files that c names, from before they are read on: also those
// of a configuration that is refused, as one of them may be why.
func (f zoneFiles) follow(c *model.Config) {
	named := make(map[string]bool)
	for i := range c.Zones {
		if name := c.Zones[i].File; name != "" {
			named[name] = true
			if f[name] == nil {
				f[name] = newWatcher(name)
			}
		}
	}
	for name := range f {
		if !named[name] {
			delete(f, name)
		}
	}
}

// changed reports whether one of them is to be read again.
func (f zoneFiles) changed() bool {
	any := false
	for _, w := range f {
		changed, _ := w.look()
		any = any || changed
	}
	return any
}
