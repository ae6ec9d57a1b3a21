package httplb

import (
	"errors"

	"fairlead/internal/loop"
	"fairlead/internal/proxyproto"
)

// introduced reads the header of the PROXY protocol with which a trusted proxy says
// who the client is, and reports whether the connection may go on. The header must be
// there: what is optional, a client behind the proxy could write itself.
func (k *client) introduced(set *settings) bool {
	l := k.ln
	h := handshake{k.c}
	l.enter(h)
	var header proxyproto.Header
	err := k.d.Preamble(k.c, k.deadline, func(b []byte) (lacks int, err error) {
		header, _, lacks, err = proxyproto.Parse(b)
		return lacks, err
	})
	l.leave(h)
	if err != nil {
		l.stats.preambles.Inc()
		if errors.Is(err, loop.ErrTimeout) {
			l.stats.limits[limitHeaderTimeout].Inc()
		}
		l.plane.aside.Debug("PROXY protocol", "listener", l.name(), "peer", k.peer.String(), "error", err)
		return false
	}
	k.c.Resume()                 // an interruption that came too late; the listener is draining then
	if header.Source.IsValid() { // else it is the proxy's own connection
		k.peer = header.Source
	}
	return k.count(set)
}

// count counts the connection among those of its client, unless there are too many,
// or would come too fast after a flood.
func (k *client) count(set *settings) bool {
	a := k.peer.Addr()
	if !k.ln.perClient.Enter(a, set.ConnectionsPerClient) {
		k.ln.stats.limits[limitPerClient].Inc()
		return false
	}
	wait, ok := k.ln.admitAfterFlood(a, set, mostDelay)
	if !ok {
		k.ln.perClient.Leave(a)
		return false
	}
	k.counted, k.delay = a, wait
	return true
}
