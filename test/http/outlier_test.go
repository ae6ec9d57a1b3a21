package http_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"fairlead/test/lab"
)

// moody is an endpoint that answers with a status, or cuts.
func moody(t *testing.T, name string, status *atomic.Int64) string {
	return lab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Endpoint", name)
		if s := int(status.Load()); s > 0 {
			w.WriteHeader(s)
			return
		}
		panic(http.ErrAbortHandler)
	}))
}

func count(t *testing.T, s server, n int) map[string]int {
	t.Helper()
	got := make(map[string]int)
	c := s.client(t, v1)
	for range n {
		res, err := c.Post(s.url("/"), "text/plain", nil)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		got[res.Header.Get("X-Endpoint")]++
	}
	return got
}

// An endpoint that refuses, or cuts, several times in a row is out for a while, and
// back after that.
func TestConsecutiveFailuresEject(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	s := site{endpoints: append(named(t, "A"), moody(t, "B", &status)),
		pool: "outlier_detection: {consecutive_failures: 3, ejection_time: 2s}, endpoint_steering: {policy: round_robin}"}.start(t)
	status.Store(200)
	if got := count(t, s, 10); got["A"] != 5 || got["B"] != 5 {
		t.Fatalf("while all is well: %v", got)
	}
	status.Store(0)
	count(t, s, 4)
	status.Store(200)
	count(t, s, 2) // an answer ends the row
	status.Store(0)
	if got := count(t, s, 4); got[""] != 2 {
		t.Errorf("two failures in a row eject: %v", got)
	}
	equal(t, "ejections", s.Metric("fairlead_endpoint_ejections_total", "endpoint", "B"), 0)
	count(t, s, 2)
	lab.Await(t, "the ejection", func() bool { return s.Metric("fairlead_endpoint_ejections_total", "endpoint", "B") == 1 })
	if got := count(t, s, 20); got["A"] != 20 {
		t.Errorf("while it is out: %v", got)
	}
	if e := s.Status().Pools[0].Endpoints[1]; e.Name != "B" || time.Until(e.EjectedUntil) > 2*time.Second || e.EjectedUntil.IsZero() {
		t.Errorf("status says %+v", e)
	}
	status.Store(200)
	lab.Await(t, "its return", func() bool { return s.Metric("fairlead_endpoint_up", "endpoint", "B") == 1 })
	if got := count(t, s, 10); got["B"] != 5 {
		t.Errorf("after that: %v", got)
	}
}

// An endpoint whose answers are errors too often is out.
func TestErrorPercentEjects(t *testing.T) {
	t.Parallel()
	var good, bad atomic.Int64
	good.Store(404) // the client's errors are none of the endpoint's
	bad.Store(503)
	s := site{endpoints: []string{moody(t, "A", &good), moody(t, "B", &bad)},
		pool: "outlier_detection: {error_percent: 50, minimum_requests: 10, interval: 1s, ejection_time: 60s}, endpoint_steering: {policy: round_robin}"}.start(t)
	lab.Await(t, "the ejection", func() bool {
		count(t, s, 30)
		return s.Metric("fairlead_endpoint_ejections_total", "endpoint", "B") == 1
	})
	if got := count(t, s, 20); got["A"] != 20 {
		t.Errorf("while it is out: %v", got)
	}
	equal(t, "ejections of the other", s.Metric("fairlead_endpoint_ejections_total", "endpoint", "A"), 0)
}

// The last half of a pool stays, however bad.
func TestEjectionLeavesEndpoints(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	status.Store(500)
	s := site{endpoints: []string{moody(t, "A", &status), moody(t, "B", &status)},
		pool: "outlier_detection: {error_percent: 1, minimum_requests: 1, interval: 1s, ejection_time: 60s}"}.start(t)
	ejections := func() float64 { return s.Metric("fairlead_endpoint_ejections_total") }
	lab.Await(t, "the ejection", func() bool { count(t, s, 20); return ejections() == 1 })
	for begun := time.Now(); time.Since(begun) < 3*time.Second; {
		if got := count(t, s, 5); got["A"]+got["B"] != 5 {
			t.Errorf("answers: %v", got)
		}
		time.Sleep(100 * time.Millisecond)
	}
	equal(t, "ejections", ejections(), 1)
}
