package loop

import (
	"iter"
	"runtime/debug"
)

// fiber is a coroutine that runs one function after the other. It belongs to an
// event loop, which alone resumes it; when it parks, control goes back to the
// loop.
type fiber struct {
	loop  *eventLoop
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool

	run   func()     // what it runs; nil while it is free
	task  *fiberTask // told when run ends, or nil
	timer timer      // of Sleep and of bells

	queued bool   // it will be resumed
	steps  int    // reads since it was resumed that did not wait
	origin []byte // the stack of a panic that came out of Do
}

// maxSteps bounds what a fiber reads before it lets the others run when it never
// has to wait: a fast sender must not starve them. A step moves up to a buffer,
// or a pipe, of bytes.
const maxSteps = 16

// maxFree bounds the fibers that a loop keeps for later, so that the memory of
// a burst is given back.
const maxFree = 1024

// newFiber makes a free fiber.
func newFiber(l *eventLoop) *fiber {
	f := &fiber{loop: l}
	f.timer.on = f
	f.next, f.stop = iter.Pull(func(yield func(struct{}) bool) {
		f.yield = yield
		for f.run == nil || f.once() {
			if !yield(struct{}{}) {
				return
			}
		}
	})
	l.made++
	return f
}

// once runs the fiber's function and reports whether the fiber is kept.
func (f *fiber) once() (kept bool) {
	returned := false
	defer func() {
		l := f.loop
		if !returned && l.options.Panicked != nil {
			// Without a value it is runtime.Goexit, which ends the
			// coroutine and, as iter.Pull passes it on, the loop's
			// goroutine: see eventLoop.run.
			if v := recover(); v != nil {
				returned = true
				l.panics.Add(1)
				l.options.Panicked(v, append(debug.Stack(), f.origin...))
			}
		}
		l.wheel.remove(&f.timer)
		l.endLoan()
		if f.task != nil {
			f.task.end()
		}
		f.run, f.task, f.origin = nil, nil, nil
		if kept = returned && len(l.free) < maxFree; kept {
			l.free = append(l.free, f)
		} else {
			l.made--
		}
	}()
	f.run()
	returned = true
	return true // or what the function above decides
}

// park gives control back to the loop until the fiber is resumed. It may be
// resumed without a reason.
func (f *fiber) park() {
	f.loop.endLoan()
	f.yield(struct{}{})
}

// tired reports whether the fiber has to let others run before its next read.
func (f *fiber) tired() bool { return f.steps >= maxSteps }

// rest lets the others run.
func (f *fiber) rest() {
	f.loop.ready(f)
	f.park()
}

// expired implements expirer.
func (f *fiber) expired() { f.loop.ready(f) }

// sleep waits until a moment.
func (f *fiber) sleep(until Time) {
	for l := f.loop; l.now < until; {
		if !f.timer.set {
			l.wheel.add(&f.timer, until)
		}
		f.park()
	}
}

// fiberTask is what Spawn returns.
type fiberTask struct {
	loop    *eventLoop
	done    bool
	waiters []*fiber
}

func (t *fiberTask) end() {
	t.done = true
	for _, f := range t.waiters {
		t.loop.ready(f)
	}
	t.waiters = nil
}

// Wait implements Task.
func (t *fiberTask) Wait() {
	if t.done {
		return
	}
	f := t.loop.current
	t.waiters = append(t.waiters, f)
	for !t.done {
		f.park()
	}
}

// fiberBell is a Bell of a loop, whose tasks alone use it.
type fiberBell struct {
	loop   *eventLoop
	rung   bool
	waiter *fiber
}

func (b *fiberBell) Ring() {
	b.rung = true
	if f := b.waiter; f != nil {
		b.waiter = nil
		b.loop.ready(f)
	}
}

func (b *fiberBell) Wait(deadline Time) error {
	l, f := b.loop, b.loop.current
	for !b.rung {
		if deadline != 0 {
			if l.now >= deadline {
				return ErrTimeout
			}
			if !f.timer.set {
				l.wheel.add(&f.timer, deadline)
			}
		}
		b.waiter = f
		f.park()
		b.waiter = nil
	}
	l.wheel.remove(&f.timer)
	b.rung = false
	return nil
}
