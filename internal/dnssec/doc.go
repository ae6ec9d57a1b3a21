// Package dnssec signs answers as they are given (RFC 4033-4035), and says what
// does not exist by compact denial of existence (RFC 9824).
//
// A [Signer] belongs to a node and has one cache of signatures. A [Zone] of it
// signs with the keys that [Zone.SetKeys] gave it last; which keys those are at
// what time is the business of package keyring. An [RRset] is named by what is in
// it, so that each of the many answers of a steered name has a signature of its
// own, and no answer can get that of another: the cache compares all of it.
//
//	set := dnssec.RRset{Owner: qname, Type: 1, TTL: 30, Data: addresses}
//	signatures, err := zone.Sign(work, &set, now) // data of RRSIG records
//
// Sign takes no lock, and nothing is allocated when the signature is known. One
// that is in use is made again ahead of its expiry by [Signer.Run], so that only an
// answer which was never given before waits for a signature to be computed. The
// rate of those is bounded: whoever makes up names gets [ErrBusy].
//
// Records are written here byte by byte, rather than with a DNS library: an RRSIG
// is 18 fixed bytes, a name and a signature over bytes that the server has anyway,
// and a library would make objects of those bytes, pack them again, and allocate
// for every record. Tests verify what is written with such a library.
//
// Names are in wire form without compression. A Zone may be used by any number of
// goroutines at once, each of which has a [Work].
package dnssec
