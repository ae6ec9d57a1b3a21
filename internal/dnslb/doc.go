// Package dnslb is the DNS plane: an authoritative name server for the zones of a
// plan, over UDP, TCP and TLS.
//
// # Flow
//
// A query takes one way through this package, whatever it came over. A listener's
// worker (udp.go, tcp.go) has a [responder], which belongs to it alone, and gives
// it the bytes that came:
//
//	dnswire.Query.Parse   what is asked: strict, without allocation
//	responder.screen      who must not be answered, is asked to come back over
//	                      TCP, or gets an error (FORMERR, NOTIMP, BADVERS, ...)
//	responder.answer      the sections: one step of an alias chain at a time, each a
//	                      look-up in a zone (zone.Zone.Lookup)
//	message.add           an RRset into a section, whole or not at all
//	message.finish        OPT with what was asked for: cookie, NSID, client subnet
//
// Nothing is allocated on this way and nothing waits, so that one worker keeps one
// processor busy. RRsets are laid out already (package zone): to answer is to copy
// bytes and fill in pointers.
//
// responder.resolve is where a name meets its records. What differs from client to
// client begins there: a node that is steered ([zone.Node.Steered]) has no A and
// AAAA sets of its own.
//
// # Reload
//
// What workers need of a plan is one snapshot, which they load anew for each batch
// of datagrams and for each query on a stream. Listeners that stay are not touched
// by a new plan; sockets stay open, and queries that wait in them are answered.
package dnslb
