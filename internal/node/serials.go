package node

import (
	"fmt"
	"path/filepath"
	"time"

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

// longestTTLs returns the greatest TTL of each zone.
func longestTTLs(p *plan.Plan) map[string]time.Duration {
	ttls := make(map[string]time.Duration, len(p.Zones))
	for _, z := range p.Zones {
		ttls[z.Name] = time.Duration(z.LongestTTL) * time.Second
	}
	return ttls
}
