package node

import (
	"fmt"
	"path/filepath"

	"fairlead/internal/model"
	"fairlead/internal/plan"
	"fairlead/internal/zone"
)

// loadSerials reads, once, the serials that an earlier process gave to zones.
func (n *Node) loadSerials(c *model.Config) error {
	if n.serialsLoaded {
		return nil
	}
	if err := n.serials.Load(filepath.Join(c.DataDir, "zones", "serials.json")); err != nil {
		return fmt.Errorf("serials of zones: %w", err)
	}
	n.serialsLoaded = true
	return nil
}

// keepSerials remembers the serials that are in force. That they cannot be written
// stops nothing: after a restart they may then move without need.
func (n *Node) keepSerials(p *plan.Plan) {
	list := make([]*zone.Zone, len(p.Zones))
	for i, z := range p.Zones {
		list[i] = z.Zone
	}
	if err := n.serials.Keep(list); err != nil {
		n.log.Error("serials of zones are not kept", "error", err)
	}
}
