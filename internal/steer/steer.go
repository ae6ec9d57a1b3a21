// Package steer chooses the pool and the endpoint that take a request, a
// connection or a DNS query.
//
// A choice is a function of its arguments: the compiled load balancer with the
// health and load tables behind it, the facts about the client, a random
// source and the time. The package opens no sockets, reads no clock, takes no
// lock and starts no goroutine, which is why all planes share it and why a
// choice can be replayed.
//
// Choosing goes in two steps. Traffic steering takes a pool: the policy yields
// a list of candidates, those that are disabled or critical are dropped, one
// of the rest is taken; when none is left, the fallback pool takes the traffic
// whatever its health. Endpoint steering then takes one of the endpoints of
// that pool that are enabled and up.
//
// Weights are shares: a candidate is taken with the probability of its weight
// divided by the sum of the weights of all that can be taken. One of weight 0
// is taken only while nothing else can be: where every candidate left has
// weight 0, the choice among them is an equal one.
//
// All functions may be called from any number of goroutines at once. Choose
// and Again allocate nothing. Explain runs the same code and writes down what
// it saw.
package steer

import (
	"net/netip"
	"time"

	"fairlead/internal/plan"
)

// Facts is what is known of a client.
type Facts struct {
	// Client is the client's address. Where it is unknown (the zero value),
	// hashing policies draw by weight.
	Client netip.Addr
	// Place is where the request is taken to come from: the client's place,
	// or the node's own where there is no geography.
	Place plan.Place
	// Session is the endpoint that the client has had so far, or nil.
	Session *plan.Endpoint
	// Key decides what is drawn by weight, and the endpoint, where Keyed is
	// true: the same key leads to the same endpoint on every node.
	Key   uint64
	Keyed bool
	// Query says that an answer is wanted, not a connection (Answers): what it
	// causes is not seen here, so that nothing open plays a part, and as resolvers
	// keep it, what is shed is shed by address and not by chance.
	Query bool
}

// Source is a source of random bits, such as *math/rand/v2.PCG. It is called
// from the goroutine that chooses only.
type Source interface{ Uint64() uint64 }

// Reason says what led to a pool. There are few, for logs and metric labels.
type Reason uint8

// The reasons.
const (
	ReasonNone             Reason = iota // nothing was chosen
	ReasonFailover                       // the first usable pool
	ReasonRandom                         // drawn by weight
	ReasonGeoPop                         // the first usable pool of the PoP's list
	ReasonGeoCountry                     // of the country's list
	ReasonGeoRegion                      // of the region's list
	ReasonGeoDefault                     // of the default pools, as no geo list fits
	ReasonDynamicLatency                 // the lowest average round trip
	ReasonLatencyWarming                 // the first usable pool, as no average counts yet
	ReasonProximity                      // the nearest pool
	ReasonPlaceUnknown                   // the first usable pool, as no distance is known
	ReasonLeastOutstanding               // drawn by weight / (open requests + 1)
	ReasonLeastConnections               // drawn by weight / (open connections + 1)
	ReasonFallback                       // no candidate was left
	ReasonSession                        // the client's session
	ReasonRetry                          // the session's endpoint has failed
)

// String returns the reason's name in logs.
func (r Reason) String() string {
	return [...]string{
		"none", "failover", "random", "geo_pop", "geo_country", "geo_region", "geo_default",
		"dynamic_latency", "latency_warming", "proximity", "place_unknown",
		"least_outstanding_requests", "least_connections", "fallback", "session", "retry",
	}[r]
}

// Decision is the outcome of a choice.
type Decision struct {
	Pool     *plan.Pool
	Endpoint *plan.Endpoint
	// Reason says what led to the pool; how the endpoint was chosen is the
	// pool's Policy.
	Reason Reason
	// Fallback is true when the pool was taken as the last resort.
	Fallback bool
}

// Choose takes a pool of lb and an endpoint of the pool. It reports false when
// nothing can take the request: no candidate can be used and the fallback pool
// is missing, disabled or without enabled endpoints.
func Choose(lb *plan.LoadBalancer, f *Facts, r Source, now time.Time) (Decision, bool) {
	kept, shedBy := session(lb, f, now)
	if kept.Endpoint != nil {
		return kept, true
	}
	return chooseWithout(lb, shedBy, f, r, now, nil)
}

// chooseWithout is choose, with the pool that it is to leave out, if given, as
// better than nowhere.
func chooseWithout(lb *plan.LoadBalancer, not *plan.Pool, f *Facts, r Source, now time.Time, t *Explanation) (Decision, bool) {
	d, ok := choose(lb, not, f, r, now, t)
	if !ok && not != nil {
		d, ok = choose(lb, nil, f, r, now, t)
	}
	return d, ok
}

// Elsewhere is Choose without the pool of d, for the retry after a failure when
// Again finds no other endpoint in that pool.
func Elsewhere(lb *plan.LoadBalancer, d Decision, f *Facts, r Source, now time.Time) (Decision, bool) {
	return choose(lb, d.Pool, f, r, now, nil)
}

// Again takes another endpoint of the pool of d, never d.Endpoint, for the
// retry after a failure. It reports false when there is none. An endpoint that
// is not up is taken only where the pool is the fallback and no other is up.
func Again(d Decision, f *Facts, r Source, now time.Time) (Decision, bool) {
	e := endpointIn(d.Pool, d.Fallback, d.Endpoint.Slot, f, r, now, nil)
	if e == nil {
		return Decision{}, false
	}
	d.Endpoint = e
	if d.Reason == ReasonSession {
		d.Reason = ReasonRetry
	}
	return d, true
}

// choose is Choose without the pool not, if given, and, where t is given,
// Explain.
func choose(lb *plan.LoadBalancer, not *plan.Pool, f *Facts, r Source, now time.Time, t *Explanation) (Decision, bool) {
	// A pool can lose its last endpoint between the look at the pool and the
	// look at its endpoints; the choice is then made once more without it.
	gone := not
	for range 2 {
		p, reason := choosePool(lb, f, r, now, gone, t)
		if p == nil {
			break
		}
		if e := endpointIn(p, false, nobody, f, r, now, t); e != nil {
			return Decision{Pool: p, Endpoint: e, Reason: reason}, true
		}
		if gone != nil {
			break
		}
		gone = p
	}
	if p := lb.Fallback; p != nil && p.Enabled && p != not {
		if e := endpointIn(p, true, nobody, f, r, now, t); e != nil {
			return Decision{Pool: p, Endpoint: e, Reason: ReasonFallback, Fallback: true}, true
		}
	}
	return Decision{}, false
}
