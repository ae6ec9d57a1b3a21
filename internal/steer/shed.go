package steer

import (
	"fairlead/internal/pick"
	"fairlead/internal/plan"
)

// sheds reports whether a pool turns this request away. Within one choice the
// answer stays the same, as weights are asked for more than once. Each pool
// sheds on its own: of two that shed half, one in four requests finds neither.
func (c *candidates) sheds(p *plan.Pool) bool {
	s := &p.Shedding
	switch {
	case c.facts.Keyed && c.facts.Query: // nobody knows who has asked before: all are sessions
		return s.Sessions > 0 && shed(c.facts.Key, p, s.Sessions)
	case s.Share == 0:
		return false
	case c.facts.Keyed: // chance would send a key here and there
		return shed(c.facts.Key, p, s.Share)
	case (s.ByClient || c.facts.Query) && c.facts.Client.IsValid():
		return shed(pick.HashAddr(c.facts.Client), p, s.Share)
	}
	return shed(c.salt, p, s.Share)
}

// shed reports whether a key is in the part of the hash space that a pool sheds.
func shed(key uint64, p *plan.Pool, share float64) bool {
	return float64(pick.Mix(key^p.Hash)>>11)/(1<<53) < share
}
