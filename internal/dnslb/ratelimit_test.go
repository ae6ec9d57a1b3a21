package dnslb

import (
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"fairlead/internal/model"
)

func newLimit(t testing.TB, change func(*model.DNSRateLimit)) *rateLimit {
	t.Helper()
	m := &model.DNSRateLimit{ResponsesPerSecond: 10}
	m.SetDefaults()
	if change != nil {
		change(m)
	}
	return newRateLimit(m, nil)
}

// sent counts the answers that pass, of n to an address at a moment.
func sent(r *rateLimit, to string, name string, n int, at time.Duration) int {
	count := 0
	for range n {
		if r.take(netip.MustParseAddr(to), []byte(name), "", 0, r.start.Add(at)) == rateSend {
			count++
		}
	}
	return count
}

func TestRateLimit(t *testing.T) {
	r := newLimit(t, func(m *model.DNSRateLimit) { m.Exempt = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")} })
	for _, c := range []struct {
		name, to, what string
		n              int
		at             time.Duration
		want           int
	}{
		{"what one second brings may come at once", "192.0.2.1", "a", 100, 0, 10},
		{"the network is one", "192.0.2.200", "a", 100, 0, 0},
		{"IPv4 in IPv6", "::ffff:192.0.2.3", "a", 100, 0, 0},
		{"another network", "192.0.3.1", "a", 100, 0, 10},
		{"another name", "192.0.2.1", "b", 100, 0, 10},
		{"a tenth of a second later", "192.0.2.1", "a", 100, 100 * time.Millisecond, 1},
		{"half a second later", "192.0.2.1", "a", 100, 600 * time.Millisecond, 5},
		{"long after", "192.0.2.1", "a", 100, time.Hour, 10},
		{"IPv6", "2001:db8:0:1::1", "a", 100, 0, 10},
		{"the same /56", "2001:db8:0:ff::1", "a", 100, 0, 0},
		{"another /56", "2001:db8:0:100::1", "a", 100, 0, 10},
		{"exempt", "203.0.113.9", "a", 100, 0, 100},
	} {
		if got := sent(r, c.to, c.what, c.n, c.at); got != c.want {
			t.Errorf("%s: %d of %d sent, want %d", c.name, got, c.n, c.want)
		}
	}
	// The rate holds over time, whatever it is.
	for _, rate := range []int{1, 3, 1000, 100_000} {
		r := newLimit(t, func(m *model.DNSRateLimit) { m.ResponsesPerSecond = rate })
		got := 0
		const seconds = 5
		for tick := range 100 * seconds {
			got += sent(r, "192.0.2.1", "a", rate/50+1, time.Duration(tick)*10*time.Millisecond)
		}
		if want := rate * (seconds + 1); got < want*98/100-1 || got > want*102/100 {
			t.Errorf("rate %d: %d answers in %d seconds, want %d", rate, got, seconds, want)
		}
	}
}

func TestRateLimitSlip(t *testing.T) {
	for slip, want := range map[int]int{0: 0, 1: 90, 2: 45, 3: 30} {
		r := newLimit(t, func(m *model.DNSRateLimit) { m.Slip = slip })
		got := 0
		for range 100 {
			if r.take(client.Addr(), []byte("a"), "", 0, r.start) == rateSlip {
				got++
			}
		}
		if got != want {
			t.Errorf("slip %d: %d of 90 truncated, want %d", slip, got, want)
		}
	}
}

// Memory is bounded: a flood of networks takes places from others, no more.
func TestRateLimitTableIsBounded(t *testing.T) {
	r := newLimit(t, func(m *model.DNSRateLimit) { m.TableSize = 1024 })
	if len(r.table) != 1024 {
		t.Fatalf("%d places, want 1024", len(r.table))
	}
	for i := range 100_000 {
		a := netip.AddrFrom4([4]byte{byte(i >> 16), byte(i >> 8), byte(i), 1})
		if r.take(a, []byte("a"), "", 0, r.start) != rateSend {
			t.Fatal("a network is limited by its first answer")
		}
	}
}

// A reload that changes nothing keeps the counts.
func TestRateLimitIsKept(t *testing.T) {
	a := newLimit(t, nil)
	m := a.DNSRateLimit
	if newRateLimit(&m, a) != a {
		t.Error("the same limit is made anew")
	}
	m.Slip = 5
	if newRateLimit(&m, a) == a || newRateLimit(nil, a) != nil {
		t.Error("another limit is the one before")
	}
}

// What is limited is truncated or dropped; who proves an address is not limited.
func TestLimitedAnswers(t *testing.T) {
	r := newResponder(t, listenerText("dns: {rate_limit: {responses_per_second: 1, slip: 2}}")+zoneText)
	if got := shown(ask(t, r, query("www.example.com", "AAAA"), overUDP)); got != "NOERROR aa\nanswer: www.example.com. AAAA 2001:db8::1" {
		t.Fatalf("the first: %s", got)
	}
	if got := shown(ask(t, r, query("www.example.com", "AAAA"), overUDP)); got != "nothing" {
		t.Errorf("the second: %s", got)
	}
	if got := shown(ask(t, r, query("www.example.com", "AAAA"), overUDP)); got != "NOERROR tc" {
		t.Errorf("the third: %s", got)
	}
	if got := shown(ask(t, r, query("www.example.com", "AAAA"), overTCP)); got != "NOERROR aa\nanswer: www.example.com. AAAA 2001:db8::1" {
		t.Errorf("over TCP: %s", got)
	}
	// Names that are made up count together, by zone.
	ask(t, r, query("x1.example.com", "A"), overUDP)
	limited := 0
	for i := range 10 {
		if got := ask(t, r, query("x"+itoa(i+2)+".example.com", "A"), overUDP); got == nil || got.Truncated {
			limited++
		}
	}
	if limited != 10 {
		t.Errorf("%d of 10 denials limited", limited)
	}
	if got := ask(t, r, query("x.example.net", "A"), overUDP); got == nil || got.Rcode != dns.RcodeNameError {
		t.Errorf("denials of another zone: %v", got)
	}
	// With a cookie it goes on: BADCOOKIE brings the client its own.
	var cookie string
	for range 2 {
		if got := ask(t, r, withCookie(query("www.example.com", "AAAA"), "0102030405060708"), overUDP); got != nil {
			if got.Rcode != dns.RcodeBadCookie || got.Truncated || len(got.Answer) > 0 {
				t.Errorf("limited, with a client's cookie: %v", got)
			}
			cookie = cookieOf(got)
		}
	}
	for range 10 {
		if got := ask(t, r, withCookie(query("www.example.com", "AAAA"), cookie), overUDP); got == nil || len(got.Answer) != 1 {
			t.Errorf("with a valid cookie: %v", got)
		}
	}
	if r.ln.stats.slipped.Load() == 0 || r.ln.stats.drops[dropLimited].Load() == 0 {
		t.Error("nothing is counted")
	}
}
