package health

import "time"

// Ejection is what takes an endpoint out for a while by how requests fare there,
// whatever its probes say: passive health. Times grow with each ejection that
// follows soon, as in Envoy's outlier detection.
type Ejection struct {
	// Time is for how long the first is; the second in a row is twice as long, up
	// to ten times.
	Time time.Duration
	// MaxPercent is the share of a pool's enabled endpoints that may be out at
	// once, 0 to 100.
	MaxPercent int
}

// maxEjections bounds by how much the time of an ejection grows.
const maxEjections = 10

// ejection is guarded by the table's lock.
type ejection struct {
	row   int // ejections in a row
	total uint64
}

// Eject takes the endpoint out, unless it is out, forgotten, or its pool has as many
// out as may be, and reports whether it did. It logs, and so may wait.
func (e *Endpoint) Eject(how Ejection, reason string) bool {
	t := e.table
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if t.endpoints[e.Key] != e || e.ejected.Load() || !t.mayEject(e, how.MaxPercent) {
		return false
	}
	if now.Sub(e.returns()) > how.Time*time.Duration(e.ejection.row) {
		e.ejection.row = 0 // it has been well for as long as it was out
	}
	e.ejection.row = min(e.ejection.row+1, maxEjections)
	e.ejection.total++
	d := how.Time * time.Duration(e.ejection.row)
	e.until.Store(now.Add(d).UnixNano())
	e.ejected.Store(true)
	t.log.Warn("endpoint is ejected", "pool", e.Key.Pool, "endpoint", e.Key.Endpoint, "address", e.Key.Address, "reason", reason, "duration", d.String())
	t.refresh(e.Key.Pool)
	time.AfterFunc(d, func() { t.readmit(e) })
	return true
}

// mayEject reports whether another endpoint of the pool may be out; the lock is
// held.
func (t *Table) mayEject(e *Endpoint, percent int) bool {
	views := t.views[e.Key.Pool]
	if len(views) == 0 {
		return false
	}
	enabled, out, left := 0, 1, 0
	for _, m := range views[len(views)-1].members {
		if !m.Enabled {
			continue
		}
		enabled++
		switch {
		case m.Endpoint.ejected.Load():
			out++
		case m.Endpoint != e && m.Endpoint.Up():
			left++
		}
	}
	return out*100 <= percent*enabled && (left > 0 || enabled == 1)
}

// readmit ends an ejection.
func (t *Table) readmit(e *Endpoint) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.ejected.Store(false)
	if t.endpoints[e.Key] != e {
		return
	}
	t.log.Info("endpoint is back after its ejection", "pool", e.Key.Pool, "endpoint", e.Key.Endpoint, "address", e.Key.Address)
	t.refresh(e.Key.Pool)
}

// EjectedUntil returns when the endpoint is back that is out because of how requests
// fared there; the zero time where it is not out.
func (e *Endpoint) EjectedUntil() time.Time {
	if !e.ejected.Load() {
		return time.Time{}
	}
	return e.returns()
}

// returns is when the last ejection ends, or ended.
func (e *Endpoint) returns() time.Time {
	n := e.until.Load()
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n)
}
