package health

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// ejectable is a pool of endpoints that are up, in force.
func ejectable(t *Table, enabled ...bool) (*Pool, []*Endpoint) {
	var list []*Endpoint
	var members []Member
	for i, on := range enabled {
		e := t.Endpoint(Key{"p", string(rune('a' + i)), "192.0.2.1:80"}, false)
		list, members = append(list, e), append(members, Member{Endpoint: e, Enabled: on})
	}
	p := t.Pool("p", members, 1)
	t.Keep([]*Pool{p}, nil)
	return p, list
}

// An endpoint is out for its time, which grows when it is soon out again, and is
// back by itself.
func TestEject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		table := NewTable(slog.New(slog.NewTextHandler(&log, nil)))
		p, list := ejectable(table, true, true)
		how := Ejection{Time: 10 * time.Second, MaxPercent: 50}
		for i, c := range []struct{ pause, want time.Duration }{
			{0, 10 * time.Second}, {5 * time.Second, 20 * time.Second}, {19 * time.Second, 30 * time.Second},
			{31 * time.Second, 10 * time.Second}, // it was well for as long as it was out
		} {
			time.Sleep(c.pause)
			if !list[0].Eject(how, "for a test") {
				t.Fatalf("ejection %d is refused", i)
			}
			if until := list[0].EjectedUntil(); p.Up(0) || list[0].Up() || p.State() != PoolDegraded || time.Until(until) != c.want {
				t.Errorf("ejection %d: up %v, %v, out for %v, want %v", i, p.Up(0), p.State(), time.Until(until), c.want)
			}
			if list[0].Eject(how, "again") || list[1].Eject(how, "the other") {
				t.Error("ejected although it is out, or half of the pool is")
			}
			time.Sleep(c.want - time.Nanosecond)
			if p.Up(0) {
				t.Errorf("ejection %d ended too early", i)
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if !p.Up(0) || p.State() != PoolHealthy || !list[0].EjectedUntil().IsZero() {
				t.Errorf("ejection %d did not end", i)
			}
		}
		for range 20 { // up to ten times
			if !list[0].Eject(how, "again") {
				t.Fatal("refused")
			}
			if d := time.Until(list[0].EjectedUntil()); d > 100*time.Second {
				t.Fatalf("out for %v", d)
			}
			time.Sleep(time.Until(list[0].EjectedUntil()))
			synctest.Wait()
		}
		if n := table.Snapshot().Endpoints[0].Ejections; n != 24 {
			t.Errorf("%d ejections are counted, want 24", n)
		}
		for _, want := range []string{`msg="endpoint is ejected" pool=p endpoint=a address=192.0.2.1:80 reason="for a test" duration=20s`, `msg="endpoint is back after its ejection"`} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %s", want)
			}
		}
	})
}

func TestEjectionIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			enabled []bool
			percent int
			want    int
		}{
			{[]bool{true}, 50, 0}, {[]bool{true}, 100, 1}, {[]bool{true, true, true}, 50, 1}, {[]bool{true, true, true, true}, 50, 2},
			{[]bool{true, true, false, false}, 50, 1}, {[]bool{true, true, true}, 1, 0},
		} {
			table := NewTable(slog.New(slog.DiscardHandler))
			_, list := ejectable(table, c.enabled...)
			n := 0
			for i, e := range list {
				if c.enabled[i] && e.Eject(Ejection{time.Second, c.percent}, "x") {
					n++
				}
			}
			if n != c.want {
				t.Errorf("%d of %v are out at %d %%, want %d", n, c.enabled, c.percent, c.want)
			}
			// A reload without the endpoint forgets it.
			table.Keep(nil, nil)
			if list[0].Eject(Ejection{time.Second, 100}, "x") {
				t.Error("a forgotten endpoint is ejected")
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
	})
}
