package health

import (
	"fmt"
	"time"
)

// panel is the monitors of a group at one endpoint, which make its verdict
// together. The checker's lock guards it.
type panel struct {
	endpoint *Endpoint
	seats    []*run // in the order of the group
}

// ballot is what one monitor of a panel says.
type ballot struct {
	verdict Verdict
	since   time.Time // when it began
	checked time.Time // when the last check ended
	last    Result    // of that check
	rtt     time.Duration
}

// count makes a verdict of what the members of a panel say, and reports
// whether it can: not while members that have not said anything yet could turn
// it. Each is given as one of the verdicts, and whether it must be healthy.
func count(votes []vote) (v Verdict, decided bool) {
	var against, silent int
	silentMust := false
	for _, b := range votes {
		switch {
		case b.verdict == Unhealthy && b.must:
			return Unhealthy, true
		case b.verdict == Unhealthy:
			against++
		case b.verdict != Healthy:
			silent++
			silentMust = silentMust || b.must
		}
	}
	switch {
	case 2*against > len(votes):
		return Unhealthy, true
	case silentMust || 2*(against+silent) > len(votes):
		return Unknown, false
	}
	return Healthy, len(votes) > 0
}

// vote is the say of one member.
type vote struct {
	verdict Verdict
	must    bool
}

// votes reports whether a run has a say.
func (r *run) votes() bool { return !r.target.MonitoringOnly }

// finding sums up a panel after a check of one of its members, or after its
// members have changed, with nil. What cannot be decided yet stays as it is.
func (p *panel) finding(by *run) finding {
	f := finding{verdict: p.endpoint.Verdict(), reason: NoFailures}
	var votes []vote
	var failing *run // that decides, as far as one alone does: the first, those first that must be healthy
	var sum time.Duration
	passed := 0
	for _, r := range p.seats {
		b, t := r.ballot, &r.target
		f.monitors = append(f.monitors, MonitorDetail{
			Monitor: t.Member, MustBeHealthy: t.MustBeHealthy, MonitoringOnly: t.MonitoringOnly, Verdict: b.verdict,
			Since: b.since, Checked: b.checked, Failure: b.last.Failure, Cause: b.last.Cause, Code: b.last.Code, RTT: b.rtt,
		})
		if !r.votes() {
			continue
		}
		votes = append(votes, vote{b.verdict, t.MustBeHealthy})
		if b.checked.After(f.checked) {
			f.checked = b.checked
		}
		switch {
		case b.checked.IsZero():
		case b.last.Passed():
			sum += b.rtt
			passed++
		case failing == nil || t.MustBeHealthy && !failing.target.MustBeHealthy:
			failing = r
		}
	}
	if passed > 0 {
		f.rtt = sum / time.Duration(passed)
		f.sample = by != nil && by.votes() && by.ballot.last.Passed()
	}
	if failing != nil {
		last := failing.ballot.last
		f.failure, f.code = last.Failure, last.Code
		f.cause = bounded(fmt.Sprintf("monitor %q: %s", failing.target.Member, last.Cause))
		f.reason = f.failure
	}
	if v, decided := count(votes); decided {
		f.verdict = v
	}
	if f.verdict == Healthy && failing != nil {
		f.reason = "fewer monitors fail than decide"
	}
	return f
}

// convene makes panels of targets that belong to groups, in which every
// endpoint is whole, and counts anew what their members have said; the lock is
// held.
func (c *Checker) convene(targets []Target) {
	panels := make(map[*Endpoint]*panel)
	var order []*panel
	for i := range targets {
		t := &targets[i]
		if t.Member == "" {
			c.table.alone(t.Endpoint)
			continue
		}
		p := panels[t.Endpoint]
		if p == nil {
			p = &panel{endpoint: t.Endpoint}
			panels[t.Endpoint] = p
			order = append(order, p)
		}
		r := c.runs[t.id()]
		r.panel = p
		p.seats = append(p.seats, r)
	}
	now := time.Now()
	for _, p := range order {
		c.table.write(p.endpoint, p.finding(nil), now)
	}
}

// cast takes the result of a check of a member, and what the panel makes of
// it; the lock is held.
func (c *Checker) cast(r *run, t *Target, result Result, now time.Time) {
	b := r.ballot
	v := r.streak.next(b.verdict, result.Passed(), t.Monitor)
	if v != b.verdict {
		b.verdict, b.since = v, now
		c.table.logMember(t, v, result)
	}
	b.checked, b.last = now, result
	if result.Passed() {
		b.rtt = result.RTT
	}
	c.table.write(t.Endpoint, r.panel.finding(r), now)
}
