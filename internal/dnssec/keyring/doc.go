// Package keyring decides which DNSSEC keys a zone has, makes them, keeps them, and
// replaces them in time (RFC 6781, RFC 7583).
//
// A zone has a key that signs its records (ZSK) and a key that the DS records of
// the parent name (KSK). Each goes through states, and from one to the next only
// when every cache that may matter has forgotten what was before:
//
//	ZSK  published -> active -> retired -> removed              pre-publication
//	KSK  published -> ready  -> active  -> retired -> removed   double signature
//
// A published key is in the DNSKEY records and waits until all caches have it. A
// ready KSK is asked for at the parent by CDS and CDNSKEY records (RFC 7344, RFC
// 8078). It becomes active when the parent has its DS record, which the parent is
// asked for, or the operator says. Only then is the one before retired, and only
// when its DS record has gone from the parent, and time has passed for caches to
// forget it, is it removed: what it signed, or what named it, is nowhere any more.
//
// What comes next is a function of the state, the clock and what the parent has
// (step). The state is a file for each zone in the data directory beside its keys.
// It is on the disk before what it says comes into force, so that a process may
// end at any moment. Where the clock is set while the process runs, what was written
// down moves with it; where that happened between two processes, what would be in
// the future begins anew.
//
// A [Manager] runs that for all zones of a node and hands the keys to package
// dnssec. Commands read the same files ([Read]), and leave what they want in the
// same directory ([Ask]).
package keyring
