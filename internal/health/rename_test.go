package health

import (
	"testing"
	"testing/synctest"
	"time"
)

// What is known of an endpoint holds under another name: also what was learned
// between the look at the file and the moment from which it counts.
func TestRename(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _ := newLog(t)
		table := NewTable(log)
		pool := func(e ...*Endpoint) *Pool {
			var members []Member
			for _, e := range e {
				members = append(members, Member{Endpoint: e, Enabled: true})
			}
			return table.Pool("p", members, 1)
		}
		was, other := table.Endpoint(Key{"p", "a", "192.0.2.1:80"}, true), table.Endpoint(Key{"p", "b", "192.0.2.2:80"}, true)
		first := pool(was, other)
		table.Keep([]*Pool{first}, nil)
		table.RecordForTest(was, Unhealthy, refused, time.Now())
		table.RecordForTest(other, Healthy, passed, time.Now())

		e := table.Rename(Key{"p", "c", "192.0.2.1:80"}, was, true)
		second := pool(e, other)
		if e.Verdict() != Unhealthy || e.Detail().Failure != was.Detail().Failure || second.Up(0) {
			t.Errorf("the new name is %v, %+v", e.Verdict(), e.Detail())
		}
		table.RecordForTest(was, Healthy, passed, time.Now())
		if !was.Eject(Ejection{Time: 10 * time.Second, MaxPercent: 50}, "for a test") {
			t.Fatal("cannot be ejected")
		}
		until := was.EjectedUntil()
		time.Sleep(time.Second)
		table.Keep([]*Pool{second}, []*Pool{first})
		if e.Verdict() != Healthy || second.Up(0) || !e.EjectedUntil().Equal(until) || e.Detail().RTT != was.Detail().RTT {
			t.Errorf("in force the new name is %v, out until %v, %+v", e.Verdict(), e.EjectedUntil(), e.Detail())
		}
		if _, ok := e.Latency().Value(); !ok {
			t.Error("the latency is forgotten")
		}
		table.Keep([]*Pool{second}, nil)
		time.Sleep(9*time.Second - time.Nanosecond)
		if second.Up(0) {
			t.Error("the ejection ended with the name")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if !second.Up(0) {
			t.Error("the ejection did not end")
		}
	})
}
