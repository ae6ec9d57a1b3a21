package dnslb

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/miekg/dns"

	"fairlead/internal/telemetry"
)

// hotQueries are what a busy server is asked.
func hotQueries(t testing.TB) map[string][]byte {
	list := make(map[string][]byte)
	add := func(name, kind string, edns bool) {
		m := query(name, kind)
		if edns {
			withCookie(m, "0102030405060708")
			m.IsEdns0().Option = append(m.IsEdns0().Option, &dns.EDNS0_NSID{Code: dns.EDNS0NSID},
				&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: client.Addr().AsSlice()})
			kind += " EDNS"
		}
		b, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		list[name+" "+kind] = b
	}
	for _, edns := range []bool{false, true} {
		add("www.example.com", "A", edns)
		add("WWW.example.com", "TXT", edns)
		add("nope.example.com", "A", edns)
		add("x.y.w.example.com", "A", edns)
		add("c.example.com", "A", edns)
		add("example.com", "MX", edns)
		add("x.sub.example.com", "A", edns)
		add("x.in.example.com", "A", edns)
		add("example.org", "A", edns)
	}
	return list
}

// A query over UDP allocates nothing, whatever the answer is made of, and neither
// do the limit on answers and the query log.
func TestQueryAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	r := newResponder(t, listenerText("dns: {nsid: x, rate_limit: {responses_per_second: 100000}}")+zoneText)
	log, err := telemetry.OpenQueryLog(filepath.Join(t.TempDir(), "queries.log"), 1, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for _, logged := range []bool{false, true} {
		snap := *r.snap
		if logged {
			snap.log = log
		}
		r.snap = &snap
		for name, msg := range hotQueries(t) {
			out := make([]byte, 0, 4096)
			if n := testing.AllocsPerRun(200, func() {
				if len(r.respond(asker{client, overUDP}, msg, out)) == 0 {
					t.Error("no answer")
				}
			}); n != 0 {
				t.Errorf("%s, logged %t: %v allocations", name, logged, n)
			}
		}
	}
}

func BenchmarkRespond(b *testing.B) {
	r := newResponder(b, listenerText("")+zoneText)
	for name, msg := range hotQueries(b) {
		b.Run(name, func(b *testing.B) {
			out := make([]byte, 0, 4096)
			b.ReportAllocs()
			for b.Loop() {
				r.respond(asker{client, overUDP}, msg, out)
			}
		})
	}
}
