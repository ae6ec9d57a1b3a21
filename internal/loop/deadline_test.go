//go:build linux

package loop

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// late is how much later than its deadline a wait may end on a loaded machine.
const late = 2 * time.Second

// timesOut reads, and wants ErrTimeout neither before the deadline nor much
// later.
func (p *pair) timesOut(deadline Time) {
	p.t.Helper()
	p.do(func() {
		p.c.SetReadDeadline(deadline)
		b, err := p.c.Read(nil)
		if now := Now(); err != ErrTimeout || b != nil {
			p.t.Errorf("Read() = %q, %v; want ErrTimeout", b, err)
		} else if d := now.Sub(deadline); d < 0 || d > late && deadline > 1 {
			p.t.Errorf("Read() timed out %v after its deadline", d)
		}
	})
}

func TestReadDeadline(t *testing.T) {
	const ms = time.Millisecond
	each(t, func(t *testing.T, p *pair) {
		// arrive reads a byte, within a time that is armed for that.
		arrive := func(within time.Duration) {
			t.Helper()
			p.write([]byte("x"))
			if own := ownTCP(p.c); own != nil {
				until(t, "it has come", func() bool { return received(own) > 0 })
			}
			p.do(func() {
				p.c.SetReadDeadline(0)
				if within != 0 {
					p.c.SetReadDeadline(Now().Add(within))
				}
				if b, err := p.c.Read(nil); string(b) != "x" {
					t.Errorf("Read() = %q, %v", b, err)
				}
			})
		}

		p.timesOut(Now().Add(-time.Hour)) // in the past
		p.timesOut(1)
		p.timesOut(Now())
		p.timesOut(Now().Add(10 * ms))
		p.timesOut(Now().Add(10 * ms)) // again, after one has fired
		arrive(time.Hour)
		p.timesOut(Now().Add(15 * ms))
		arrive(30 * ms)
		p.timesOut(Now().Add(60 * ms))
		arrive(0)
		p.timesOut(Now().Add(10 * ms))

		// One that was armed and taken away, or passed while nobody waited.
		for _, next := range []func() Time{func() Time { return 0 }, func() Time { return Now().Add(time.Hour) }} {
			arrive(30 * ms)
			soon := Now().Add(30 * ms)
			task := p.start(func() {
				p.c.SetReadDeadline(next())
				b, err := p.c.Read(nil)
				if string(b) != "x" || err != nil {
					t.Errorf("Read() = %q, %v", b, err)
				}
			})
			until(t, "the old deadline has passed", func() bool { return Now() > soon.Add(10*ms) && p.waits() })
			p.write([]byte("x"))
			task.Wait()
		}
	})
}

// A deadline that moves forwards with every read costs no timer each time.
func TestDeadlineIsArmedSeldom(t *testing.T) {
	var d deadline
	armed := 0
	for i := range Time(1000) {
		d.want = 1_000_000 + i
		if i%3 == 1 {
			d.want = 0
		}
		if err := d.arm(func(time.Time) error { armed++; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if armed != 1 {
		t.Errorf("armed %d times for deadlines that moved forwards or were taken away, want once", armed)
	}
}

// TestDeadlineModel plays random deadlines and waits against a poller with a
// clock of its own. A wait ends at its deadline, or, when the deadline was 0 or
// late, with the bytes that come; never in between.
func TestDeadlineModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(1, 2))
		var d deadline
		var poller time.Time // what it has; zero is none
		set := func(at time.Time) error { poller = at; return nil }
		for i := range 20_000 {
			switch rnd.IntN(4) {
			case 0:
				d.want = 0
			case 1:
				d.want = Now().Add(-time.Duration(rnd.IntN(1000)))
			default:
				d.want = Now().Add(time.Duration(rnd.IntN(100_000)))
			}
			bytes := Now().Add(time.Duration(rnd.IntN(100_000)))
			for {
				if err := d.arm(set); err != nil {
					t.Fatal(err)
				}
				if !poller.IsZero() && !poller.After(bytes.Wall()) {
					time.Sleep(time.Until(poller))
					if !d.over() {
						continue
					}
					if d.want == 0 || Now() < d.want || Now() > max(d.want, 1)+1000 && d.want > bytes {
						t.Fatalf("wait %d: over at %d, deadline %d", i, Now(), d.want)
					}
					break
				}
				if d.want != 0 && d.want < bytes {
					t.Fatalf("wait %d: not over at %d, deadline %d", i, bytes, d.want)
				}
				time.Sleep(bytes.Sub(Now()))
				break
			}
			time.Sleep(time.Duration(rnd.IntN(50_000))) // in between nobody waits
		}
	})
}

// Over a pipe the clock can be the test's: reads end at their deadlines exactly.
func TestReadDeadlineExactly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newPipes(t)
		rnd := rand.New(rand.NewPCG(3, 4))
		for range 500 {
			if rnd.IntN(2) == 0 { // arm something else first
				a.SetReadDeadline(Now().Add(time.Duration(rnd.IntN(1e9))))
				go b.Write([]byte("x"))
				if _, err := a.Read(nil); err != nil && err != ErrTimeout {
					t.Fatal(err)
				}
				synctest.Wait()
				time.Sleep(time.Duration(rnd.IntN(1e9)))
			}
			begun := Now()
			want := begun.Add(time.Duration(rnd.IntN(1e9)))
			a.SetReadDeadline(want)
			for {
				if _, err := a.Read(nil); err == nil {
					continue // the byte of above, if its reader had timed out
				} else if err != ErrTimeout {
					t.Fatal(err)
				}
				break
			}
			if now := Now(); now != want {
				t.Fatalf("timed out %v after the deadline", now.Sub(want))
			}
		}
	})
}

func newPipes(t *testing.T) (a, b Conn) {
	x, y := pipePair(t)
	b = New(y)
	t.Cleanup(func() {
		x.Close()
		b.Close()
	})
	return x, b
}

func TestTime(t *testing.T) {
	if a, b := Now(), Now(); a == 0 || b < a {
		t.Errorf("Now() = %d, then %d", a, b)
	}
	a := Now()
	if got := a.Add(time.Second).Sub(a); got != time.Second {
		t.Errorf("Add and Sub: %v, want 1s", got)
	}
	if d := time.Until(a.Add(time.Hour).Wall()); d > time.Hour || d < time.Hour-time.Minute {
		t.Errorf("Wall() of in an hour is in %v", d)
	}
	if d := time.Until(a.Wall()); d > 0 || d < -time.Minute {
		t.Errorf("Wall() of now is %v from now", d)
	}
}
