package health

import "time"

// Rename is [Table.Endpoint] for an endpoint that the plan in force has by another
// name, as was: what is observed of that holds for it. Names are for people, and a
// new one takes nothing out of service.
func (t *Table) Rename(k Key, was *Endpoint, monitored bool) *Endpoint {
	e := t.Endpoint(k, monitored)
	t.mu.Lock()
	defer t.mu.Unlock()
	e.was = was
	e.inherit()
	return e
}

// inherit takes over what is observed of the endpoint by its name before; the lock is
// held.
func (e *Endpoint) inherit() {
	was := e.was
	e.verdict.Store(was.verdict.Load())
	e.detail.Store(was.detail.Load())
	e.latency.bits.Store(was.latency.bits.Load())
	e.latency.first.Store(was.latency.first.Load())
	e.latency.last.Store(was.latency.last.Load())
}

// settle does inherit once more, when the endpoint's view is put in force: probes went
// on under the name before. The lock is held.
func (e *Endpoint) settle() {
	if e.was == nil {
		return
	}
	if e.was.Verdict() != Unknown { // else what was found under the new name counts
		e.inherit()
	}
	e.ejection = e.was.ejection
	e.until.Store(e.was.until.Load())
	if e.was.ejected.Load() && !e.ejected.Swap(true) {
		time.AfterFunc(time.Until(e.returns()), func() { e.table.readmit(e) })
	}
	e.was = nil
}
