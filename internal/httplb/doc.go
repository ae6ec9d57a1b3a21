// Package httplb is the layer 7 plane: it serves HTTP on listeners and proxies
// each request to an endpoint that steering chose.
//
// # The life of a request
//
// A listener accepts a connection and counts it against its limits. A session
// reads requests from an HTTP/1.1 connection, one after the other; HTTP/2 and
// HTTP/3 streams each come as one. Either is a stream, and an exchange carries the
// stream's request to an endpoint:
//
//	session, muxstream -> exchange: load balancer by Host, steer.Choose,
//	    requestHead, ask (a kept connection, or a new one), answer
//
// An upload sends what is left of a request's body beside the exchange that
// waits for the answer. A request that no endpoint has seen is asked of one
// other endpoint when connecting fails (failover); one that may be repeated is
// sent once more when a connection ends without a byte of answer.
//
// # What is shared
//
// A Plane publishes a snapshot: a plan, with the connections and counters of
// its endpoints and load balancers by their index. An exchange loads it once.
// Connections and counters are kept by identity and outlive plans.
//
// Protocol code speaks to loop.Conn only; see package loop for how long bytes
// that were read may be used.
package httplb
