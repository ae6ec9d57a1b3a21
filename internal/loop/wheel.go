package loop

import (
	"math/bits"
	"time"
)

// wheel keeps the timers of an event loop: a hierarchical timing wheel (Varghese
// and Lauck, 1987). The slots of each level are as long as a whole turn of the
// level below, and are spread over that when their time comes, so that setting
// and clearing a timer costs a few instructions however many there are, and the
// loop sleeps until the next slot that is in use. A timer fires up to one tick
// late and never early, unless it is set for longer than a turn of the highest
// level, about 50 days.
type wheel struct {
	at    int64 // the next tick to look at
	used  [wheelLevels + 1]uint64
	slots [wheelLevels + 1][wheelSlots]*timer // the last level holds those that fire now
}

const (
	wheelTick   = 22 // a tick is 2^22 ns, about 4 ms
	wheelBits   = 6
	wheelSlots  = 1 << wheelBits
	wheelLevels = 5
)

// timer is an entry of a wheel. The zero timer is not set. It holds no function,
// so that what has timers needs no memory for them but their own.
type timer struct {
	prev, next  *timer
	due         int64 // tick
	on          expirer
	level, slot uint8
	set         bool
}

// expirer is told when its timer, which is not set any more, has fired.
type expirer interface{ expired() }

func (w *wheel) start(now Time) { w.at = int64(now) >> wheelTick }

// add sets a timer that is not set.
func (w *wheel) add(t *timer, at Time) {
	t.due = max(dueTick(at), w.at)
	t.set = true
	w.insert(t)
}

// dueTick is the first tick that begins after a moment.
func dueTick(at Time) int64 { return int64(at)>>wheelTick + 1 }

func (w *wheel) insert(t *timer) {
	ahead := min(t.due-w.at, 1<<(wheelBits*wheelLevels)-1)
	level := max(bits.Len64(uint64(ahead))-1, 0) / wheelBits
	t.level = uint8(level)
	t.slot = uint8((w.at + ahead) >> (level * wheelBits) & (wheelSlots - 1))
	head := &w.slots[level][t.slot]
	t.prev, t.next = nil, *head
	if t.next != nil {
		t.next.prev = t
	}
	*head = t
	w.used[level] |= 1 << t.slot
}

// remove clears a timer, which may not be set.
func (w *wheel) remove(t *timer) {
	if !t.set {
		return
	}
	t.set = false
	if t.next != nil {
		t.next.prev = t.prev
	}
	if t.prev != nil {
		t.prev.next = t.next
	} else if w.slots[t.level][t.slot] = t.next; t.next == nil {
		w.used[t.level] &^= 1 << t.slot
	}
	t.prev, t.next = nil, nil
}

// next returns the next tick at which there is something to do.
func (w *wheel) next() (tick int64, ok bool) {
	for level, used := range w.used[:wheelLevels] {
		if used == 0 {
			continue
		}
		shift := level * wheelBits
		// A slot is spread at its first tick, which may be this one.
		first := (w.at + 1<<shift - 1) >> shift
		ahead := bits.TrailingZeros64(bits.RotateLeft64(used, -int(first&(wheelSlots-1))))
		if at := (first + int64(ahead)) << shift; !ok || at < tick {
			tick, ok = at, true
		}
	}
	return tick, ok
}

// advance fires what is due.
func (w *wheel) advance(now Time) {
	end := int64(now) >> wheelTick
	for {
		tick, ok := w.next()
		if !ok || tick > end {
			w.at = max(w.at, end+1)
			return
		}
		w.at = tick
		for level := wheelLevels - 1; level > 0; level-- {
			if shift := level * wheelBits; tick&(1<<shift-1) == 0 {
				w.spread(level, int(tick>>shift&(wheelSlots-1)))
			}
		}
		w.at++ // what is set by those that fire comes later
		w.fire(int(tick & (wheelSlots - 1)))
	}
}

// fire fires the timers of a slot. They are taken out of it first, as those that
// are set meanwhile may belong there, for the next turn.
func (w *wheel) fire(slot int) {
	first := &w.slots[wheelLevels][0]
	*first = w.slots[0][slot]
	w.slots[0][slot] = nil
	w.used[0] &^= 1 << slot
	for t := *first; t != nil; t = t.next {
		t.level, t.slot = wheelLevels, 0
	}
	for *first != nil {
		t := *first
		w.remove(t)
		t.on.expired()
	}
}

// spread moves the timers of a slot to where they belong now.
func (w *wheel) spread(level, slot int) {
	t := w.slots[level][slot]
	w.slots[level][slot] = nil
	w.used[level] &^= 1 << slot
	for t != nil {
		next := t.next
		w.insert(t)
		t = next
	}
}

// wait returns how long nothing is due; ok is false without a timer.
func (w *wheel) wait(now Time) (d time.Duration, ok bool) {
	tick, ok := w.next()
	return max(Time(tick<<wheelTick).Sub(now), 0), ok
}
