package health

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// primeWave and primeShare are how many endpoints of one pool are probed
	// together before traffic starts: 16, or an eighth of a pool where that is
	// more. A larger pool is opened by its first wave, and the others follow
	// within firstCheckWithin; a burst of all would knock over what they share.
	primeWave  = 16
	primeShare = 8
	// primeGrace is how long a pool that can already be used waits for the
	// first verdicts of its other endpoints. Without it, one endpoint that
	// swallows packets would hold up every start for the whole time-out.
	primeGrace = time.Second
)

// Prime makes the first verdicts of pools that would otherwise start out
// empty: in each pool that cannot be used, the endpoints without a verdict are
// checked at once. It returns when all of these have theirs, or, where the
// pool can be used, after a second at the latest; never later than the
// monitor's time-out allows a check with all its retries. Checks that are then
// still running go on, and each is the first of its target's schedule.
//
// Call it with the targets of a plan that has been compiled and is not in
// force yet, then Apply, with these targets or with those that stay in force.
func (c *Checker) Prime(ctx context.Context, targets []Target) {
	pools := make(map[string][][]Target) // by endpoint, which has one for each of its monitors
	for i, t := range targets {
		if t.Endpoint.Verdict() != Unknown {
			continue
		}
		list := pools[t.Key.Pool]
		if i > 0 && len(list) > 0 && targets[i-1].Endpoint == t.Endpoint {
			list[len(list)-1] = append(list[len(list)-1], t)
		} else {
			list = append(list, []Target{t})
		}
		pools[t.Key.Pool] = list
	}
	var wg sync.WaitGroup
	for name, members := range pools {
		if !c.table.usable(name) {
			wg.Go(func() { c.primePool(ctx, name, members) })
		}
	}
	wg.Wait()
}

// primePool checks endpoints of one pool in waves, until the pool can be used
// or all have been checked.
func (c *Checker) primePool(ctx context.Context, name string, members [][]Target) {
	var longest time.Duration      // check, with all retries
	for _, t := range members[0] { // the monitors are those of the pool
		longest = max(longest, t.Monitor.Timeout*time.Duration(t.Monitor.Retries+1))
	}
	ctx, cancel := context.WithTimeout(ctx, longest+100*time.Millisecond)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)() // Close ends the wait
	size := max(primeWave, len(members)/primeShare)
	var silent []*run
	for {
		wave := silent // once there is no further one
		if len(members) > 0 {
			n := min(size, len(members))
			wave = c.startNow(slices.Concat(members[:n]...))
			members = members[n:]
		} else {
			silent = nil
		}
		silent = append(silent, await(ctx, wave, primeGrace)...)
		switch {
		case ctx.Err() != nil || c.table.usable(name):
			return
		case len(members)+len(silent) == 0:
			return
		}
	}
}

// await waits until all runs have had their first check, for d at most, and
// returns those that have not.
func await(ctx context.Context, runs []*run, d time.Duration) []*run {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for len(runs) > 0 {
		select {
		case <-runs[0].checked:
			runs = runs[1:]
		case <-ctx.Done():
			return runs
		}
	}
	return nil
}

// startNow checks targets at once, before a plan that has them is in force.
func (c *Checker) startNow(targets []Target) []*run {
	c.mu.Lock()
	defer c.mu.Unlock()
	wave := make([]*run, len(targets))
	for i, t := range targets {
		if r := c.runs[t.id()]; r != nil {
			c.stop(r)
		}
		wave[i] = c.add(t)
	}
	c.convene(targets)
	for _, r := range wave {
		c.schedule(r, time.Now()) // does nothing once the checker is closed
	}
	return wave
}
