package httplb

import (
	"errors"
	"hash/maphash"
	"net/netip"
	"time"

	"fairlead/internal/plan"
)

// This file ends what sessions have open at an endpoint once its drain is over: a
// WebSocket or a stream would otherwise keep its client there for ever.

// errDrained ends what is open.
var errDrained = errors.New("the endpoint is drained")

// drainGrace is how long after the end of a drain an answer may go on that is not a
// WebSocket: most that are under way then are about to end.
const drainGrace = 5 * time.Second

// stay is an answer of a session that goes on and on: a WebSocket, or a body that
// did not come with its head.
type stay struct {
	conn     *upstreamConn // nil where there is none
	own      *ownConns     // that lists it
	drain    time.Duration // of the session, as it was when the answer began
	upgraded bool
	ended    bool // by us

	before, behind *stay
}

// remain lists the answer that begins as one that goes on, if it is of a session that
// drains.
func (x *exchange) remain(upgraded bool) {
	a := x.lb.Affinity
	if a == nil || a.Drain == 0 || !a.Cookie() && !x.facts.Keyed {
		return
	}
	own := &x.upstream().own[x.d.Index()]
	x.stay = stay{conn: x.conn, own: own, drain: a.Drain, upgraded: upgraded}
	own.mu.Lock()
	defer own.mu.Unlock()
	if x.stay.behind = own.staying; x.stay.behind != nil {
		x.stay.behind.before = &x.stay
	}
	own.staying = &x.stay
}

// remained ends what remain began, and reports whether we have ended the answer.
func (x *exchange) remained() (ended bool) {
	s := &x.stay
	if s.conn == nil {
		return false
	}
	s.own.mu.Lock()
	defer s.own.mu.Unlock()
	if s.behind != nil {
		s.behind.before = s.before
	}
	if s.before != nil {
		s.before.behind = s.behind
	} else {
		s.own.staying = s.behind
	}
	ended = s.ended
	*s = stay{}
	return ended
}

// endDrained ends what sessions have open at an endpoint that leaves, at a driver.
func (u *upstream) endDrained(driver int, e *plan.Endpoint, now time.Time) {
	own := &u.own[driver]
	own.mu.Lock()
	defer own.mu.Unlock()
	for s := own.staying; s != nil; s = s.behind {
		end := e.Left.Add(s.drain)
		if !s.upgraded {
			end = end.Add(drainGrace)
		}
		if !s.ended && !now.Before(end) {
			s.ended = true
			s.conn.Interrupt(errDrained)
		}
	}
}

// sessionSeed is of this process.
var sessionSeed = maphash.MakeSeed()

// sessionHash tells sessions in cookies apart, nearly: by whom they are of and, where
// it stays, by their end.
func (x *exchange) sessionHash(end int64) uint64 {
	if x.lb.Affinity.Renew {
		end = 0
	}
	return maphash.Comparable(sessionSeed, struct {
		client netip.Addr
		end    int64
	}{x.facts.Client, end})
}
