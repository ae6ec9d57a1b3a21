package node

import (
	"context"
	"time"

	"fairlead/internal/plan"
)

// retryDrained is how long a failure to forget what is drained is let be: nothing
// depends on it but probes that nobody needs.
const retryDrained = time.Minute

// announceDrains tells which endpoints a plan has begun to drain, or forgotten.
func (n *Node) announceDrains(old, p *plan.Plan) {
	if old == nil {
		return
	}
	was := make(map[uint64]*plan.Endpoint)
	for _, e := range old.Endpoints {
		was[e.Session] = e
	}
	for _, e := range p.Endpoints {
		before := was[e.Session]
		delete(was, e.Session)
		switch {
		case before == nil:
		case e.Leaving() && !before.Leaving():
			n.log.Info("endpoint drains: its sessions stay", "pool", e.Pool.Name, "endpoint", e.Name, "address", e.Key, "until", e.Until.UTC().Format(time.RFC3339))
		case before.Leaving() && e.Enabled:
			n.log.Info("endpoint is back before it was drained", "pool", e.Pool.Name, "endpoint", e.Name, "address", e.Key)
		case before.Leaving() && !e.Leaving():
			n.drained(before)
		}
	}
	for _, e := range was {
		if e.Leaving() {
			n.drained(e)
		}
	}
}

func (n *Node) drained(e *plan.Endpoint) {
	n.log.Info("endpoint is drained", "pool", e.Pool.Name, "endpoint", e.Name, "address", e.Key)
}

// forgetDrained compiles the plan again when the drain of an endpoint is over, so
// that it is probed no longer, and forgotten if it was removed.
func (n *Node) forgetDrained(ctx context.Context, now time.Time) {
	p := n.plan.Load()
	next := p.NextDrained()
	if next.IsZero() || now.Before(next) || now.Before(n.retryDrained) {
		return
	}
	if _, err := n.enforce(ctx, n.document, p.Geo); err != nil && ctx.Err() == nil {
		n.retryDrained = now.Add(retryDrained)
		n.log.Error("drained endpoints cannot be forgotten", "error", err)
	}
}
