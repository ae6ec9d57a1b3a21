package httplb

import (
	"net/netip"
	"time"
)

// mostDelay is how long a client waits at most that comes again after a flood. Who
// would have to wait longer is refused.
const mostDelay = time.Second

// flooded notes that a connection of a client was ended for a flood. Trusted proxies
// that do not say who their clients are speak for many, of whom one does it.
func (l *listener) flooded(a netip.Addr, err error) {
	set := l.set.Load()
	if !a.IsValid() || isTrusted(a, set.TrustedProxies) {
		return
	}
	if l.flooders.Note(a, time.Now()) {
		l.plane.aside.Warn("connections of a client are slowed", "listener", l.name(), "client", a.String(),
			"connections_after_flood", set.ConnectionsAfterFlood, "reason", err)
	}
}

func (k *client) flooded(err error) { k.ln.flooded(k.counted, err) }

// admitAfterFlood returns how long a new connection of a client has to wait. With
// false it is refused.
func (l *listener) admitAfterFlood(a netip.Addr, set *settings, most time.Duration) (wait time.Duration, ok bool) {
	wait, ok = l.flooders.Admit(a, time.Now(), set.ConnectionsAfterFlood, most)
	if wait > 0 || !ok {
		l.stats.limits[limitAfterFlood].Inc()
	}
	return wait, ok
}
