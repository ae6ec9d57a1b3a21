package dnslb

import (
	"net/netip"
	"time"
)

// worker answers the datagrams of one socket.
type worker struct{ responder }

func newWorker(l *listener, i int) *worker {
	return &worker{responder{ln: l, shard: i % l.plane.shards}}
}

// Begin implements udp.Handler: a batch sees one plan.
func (w *worker) Begin() { w.use(time.Now()) }

// Answer implements udp.Handler.
func (w *worker) Answer(from netip.AddrPort, datagram, reply []byte) (answer []byte) {
	defer w.ln.recovered() // with no answer
	return w.respond(asker{from, overUDP}, datagram, reply)
}
