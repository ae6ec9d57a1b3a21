package loop

import (
	"math/rand/v2"
	"testing"
	"time"
)

// alarm is a timer that notes when it fired.
type alarm struct {
	timer
	at    Time // 0 if it is not set
	wheel *testWheel
}

type testWheel struct {
	t *testing.T
	wheel
	now    Time
	alarms []*alarm
	fired  int
	again  func(a *alarm) // called by one that fires
}

func newTestWheel(t *testing.T, now Time, n int) *testWheel {
	w := &testWheel{t: t, now: now}
	w.start(now)
	for range n {
		a := &alarm{wheel: w}
		a.on = a
		w.alarms = append(w.alarms, a)
	}
	return w
}

const tick = Time(1) << wheelTick

func (a *alarm) expired() {
	w := a.wheel
	w.fired++
	if a.at == 0 || a.set {
		w.t.Errorf("a timer fired that was not set, or still is")
	}
	if w.now < a.at && a.at.Sub(w.now) < 40*24*time.Hour {
		w.t.Errorf("fired %v before its time", a.at.Sub(w.now))
	}
	a.at = 0
	if w.again != nil {
		w.again(a)
	}
}

func (w *testWheel) set(a *alarm, at Time) {
	a.at = at
	w.add(&a.timer, at)
}

func (w *testWheel) clear(a *alarm) {
	a.at = 0
	w.remove(&a.timer)
}

// pass moves the clock, and checks that nothing is overdue and that the wheel
// knows when it has to be looked at.
func (w *testWheel) pass(now Time) {
	w.t.Helper()
	before := w.fired
	wait, some := w.wait(w.now)
	next := w.now.Add(wait)
	w.now = now
	w.advance(now)
	if some && now < next && w.fired > before {
		w.t.Errorf("fired before the wheel said there was something to do")
	}
	if !some && w.fired > before {
		w.t.Error("fired without a timer")
	}
	set := false
	for _, a := range w.alarms {
		if (a.at != 0) != a.set {
			w.t.Fatalf("set is %v for a timer at %v", a.set, a.at)
		}
		set = set || a.set
		if a.at != 0 && now > a.at+tick {
			w.t.Fatalf("a timer is %v overdue", now.Sub(a.at))
		}
	}
	if wait, some := w.wait(now); some != set || some && wait > w.first().Sub(now)+time.Duration(tick) {
		w.t.Fatalf("wait() = %v, %v, the first of the timers is due in %v", wait, some, w.first().Sub(now))
	}
}

// first is when the first timer is due.
func (w *testWheel) first() (at Time) {
	for _, a := range w.alarms {
		if a.at != 0 && (at == 0 || a.at < at) {
			at = a.at
		}
	}
	return max(at, w.now)
}

func TestWheelFiresInTime(t *testing.T) {
	for _, from := range []Time{1, tick - 1, 63 * tick, 64 * tick, 4095*tick + 5, 1<<50 + 12345} {
		for _, in := range []time.Duration{
			-time.Hour, 0, 1, time.Millisecond, time.Duration(tick), 63 * time.Duration(tick), 64 * time.Duration(tick), 65 * time.Duration(tick),
			time.Second, 4095 * time.Duration(tick), 4096 * time.Duration(tick), time.Minute, time.Hour, 20 * time.Hour, 30 * 24 * time.Hour,
		} {
			w := newTestWheel(t, from, 1)
			w.set(w.alarms[0], from.Add(in))
			for steps := 0; w.fired == 0; steps++ {
				d, ok := w.wait(w.now)
				if !ok || steps > 10 {
					t.Fatalf("from %d in %v: wait() = %v, %v after %d steps", from, in, d, ok, steps)
				}
				w.pass(w.now.Add(max(d, 1)))
			}
			if late := w.now.Sub(max(from.Add(in), from)); late > 2*time.Duration(tick) {
				t.Errorf("from %d in %v: fired %v late", from, in, late)
			}
		}
	}
}

// Beyond its last level a wheel fires early.
func TestWheelFarAhead(t *testing.T) {
	w := newTestWheel(t, 1, 1)
	w.set(w.alarms[0], Time(1).Add(300*24*time.Hour))
	for range 100 {
		d, ok := w.wait(w.now)
		if !ok {
			break
		}
		w.pass(w.now.Add(max(d, 1)))
	}
	if w.fired != 1 || w.now.Sub(1) < 40*24*time.Hour {
		t.Errorf("fired %d times by %v", w.fired, w.now.Sub(1))
	}
}

func TestWheelFarJump(t *testing.T) {
	w := newTestWheel(t, 1, 100)
	for i, a := range w.alarms {
		w.set(a, Time(i)*Time(time.Minute)+1)
	}
	w.pass(Time(365 * 24 * time.Hour)) // the machine slept
	if w.fired != 100 {
		t.Errorf("%d of 100 fired", w.fired)
	}
}

// A timer that sets itself again at once does not fire again in the same go.
func TestWheelSetAgain(t *testing.T) {
	w := newTestWheel(t, 1, 2)
	w.again = func(a *alarm) {
		w.set(a, w.now)
		w.clear(w.alarms[1]) // and others may be cleared meanwhile
	}
	w.set(w.alarms[0], 1)
	w.set(w.alarms[1], 1)
	for i := range Time(10) {
		w.pass(i * tick)
	}
	if w.fired < 8 || w.fired > 11 {
		t.Errorf("fired %d times in 10 ticks", w.fired)
	}
}

func playWheel(t *testing.T, rnd *rand.Rand, steps int) {
	w := newTestWheel(t, Time(rnd.Int64N(1<<40)+1), 40)
	far := func() time.Duration { return time.Duration(rnd.Int64N(1 << (10 + rnd.IntN(42)))) }
	w.again = func(a *alarm) {
		if rnd.IntN(3) == 0 {
			w.set(a, w.now.Add(far()))
		}
	}
	for range steps {
		a := w.alarms[rnd.IntN(len(w.alarms))]
		switch rnd.IntN(4) {
		case 0:
			w.clear(a)
		case 1:
			d, ok := w.wait(w.now)
			if ok && rnd.IntN(2) == 0 {
				w.pass(w.now.Add(d))
			} else {
				w.pass(w.now.Add(far() >> rnd.IntN(30)))
			}
		default:
			if !a.set {
				w.set(a, w.now.Add(far()))
			}
		}
	}
}

func TestWheelModel(t *testing.T) {
	for seed := range uint64(50) {
		playWheel(t, rand.New(rand.NewPCG(seed, 1)), 2000)
	}
}

func FuzzWheel(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) { playWheel(t, rand.New(rand.NewPCG(a, b)), 300) })
}
