// Package dnswire turns DNS messages and records into bytes and back.
//
// It has two halves. The hot path is our own and allocates nothing: [Query.Parse]
// reads what a client sent, strictly, and [Key] makes a name ready to be looked
// up. The rest serves zones when they are loaded: names and records as people
// write them ([ParseName], [ParseRData], [ParseZone]), in which the less common
// types are left to github.com/miekg/dns. No other package needs that library
// for what it serves, so that it can be replaced here.
//
// A name is held in wire form, uncompressed, with the root's zero at its end;
// data of records likewise. What is compressed, and against what, is decided by
// whoever writes a message (package zone).
//
// Functions may be called from any number of goroutines at once. A Query and a
// Key belong to one.
package dnswire
