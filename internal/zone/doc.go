// Package zone holds zones ready to be answered from.
//
// [Build] turns records into a [Zone] and says what is wrong with them, as a
// zone checker would. A Zone is never written again. Its names are the nodes of
// a table that is looked up with the hashes of a [dnswire.Key]: the exact name
// first, then its closest ancestor, which decides between a wildcard, a
// delegation and the denial ([Zone.Lookup]). Every RRset is laid out as the bytes
// of an answer, in which all names that end in the zone's are compressed against
// it: its origin is a suffix of every name that is asked, so that what has to be
// filled in are pointers ([Set.AppendTo]).
//
// What answers are made of is decided by the DNS plane, one step of an alias
// chain at a time. Names whose addresses are chosen for each client are nodes
// like others that carry a number ([Node.Steered]); what it stands for is known
// to whoever gave it. Signatures belong to sets as they are written out, so they
// are not kept here.
//
// Any number of goroutines may use a Zone at once. Looking up allocates nothing.
package zone
