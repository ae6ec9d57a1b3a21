package resolve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// logLines collects what is logged.
type logLines struct {
	t  *testing.T
	mu sync.Mutex
	l  []string
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := strings.TrimSpace(string(b))
	l.l = append(l.l, s)
	l.t.Log(s)
	return len(b), nil
}

// take returns the lines since the last call.
func (l *logLines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.l
	l.l = nil
	return s
}

func newLog(t *testing.T) (*slog.Logger, *logLines) {
	l := &logLines{t: t}
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})), l
}

// zone is a fake network: what look-ups answer now.
type zone struct {
	mu      sync.Mutex
	answer  answer
	lookups []time.Time
}

func (z *zone) lookup(context.Context, string) answer {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.lookups = append(z.lookups, time.Now())
	return z.answer
}

func (z *zone) set(a answer) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.answer = a
}

func (z *zone) count() int {
	z.mu.Lock()
	defer z.mu.Unlock()
	return len(z.lookups)
}

// found, absent and broken are answers of one family.
func found(ttl time.Duration, addrs ...string) family {
	f := family{ttl: ttl}
	for _, a := range addrs {
		f.addrs = append(f.addrs, netip.MustParseAddr(a))
	}
	return f
}

func absent(ttl time.Duration) family { return family{ttl: ttl, err: errNotFound} }

var broken = family{err: errors.New("no answer")}

func always(netip.Addr) bool { return true }

// TestMovingName is the public case on names whose address moves: by TTL, then
// without a resolver, then NXDOMAIN, then with two addresses.
func TestMovingName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, lines := newLog(t)
		z := &zone{answer: answer{found(5*time.Second, "127.0.0.1"), absent(5 * time.Second)}}
		r := newResolver(Config{Log: log}, z.lookup, always)
		defer r.Close()
		n := r.Name("O.example.net")
		r.Prime(t.Context(), n)
		want := func(when string, addrs ...string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for _, a := range n.Addresses() {
				got = append(got, a.String())
			}
			if !slices.Equal(got, addrs) {
				t.Errorf("%s: addresses = %v, want %v", when, got, addrs)
			}
		}
		want("at first", "127.0.0.1")
		time.Sleep(time.Minute)
		if c := z.count(); c < 12 || c > 14 {
			t.Errorf("%d look-ups in a minute of a TTL of 5 s", c)
		}
		z.set(answer{found(5*time.Second, "127.0.0.2"), absent(5 * time.Second)})
		time.Sleep(5 * time.Second)
		want("after the switch", "127.0.0.2")
		if n.Has(netip.MustParseAddr("127.0.0.1")) || !n.Has(netip.MustParseAddr("::ffff:127.0.0.2")) {
			t.Error("Has does not follow")
		}

		z.set(answer{broken, broken})
		before := z.count()
		time.Sleep(2 * time.Minute)
		want("without a resolver", "127.0.0.2")
		if c := z.count() - before; c < 3 || c > 7 {
			t.Errorf("%d look-ups in two minutes of failure, want some, with growing pauses", c)
		}
		time.Sleep(24 * time.Hour)
		want("a day without a resolver", "127.0.0.2")

		z.set(answer{absent(5 * time.Second), absent(5 * time.Second)})
		time.Sleep(time.Minute) // the longest pause
		want("NXDOMAIN", "127.0.0.2")
		time.Sleep(8 * time.Minute)
		want("before the limit", "127.0.0.2")
		time.Sleep(2 * time.Minute)
		want("after the limit")
		if _, ok := n.Next(); ok {
			t.Error("an empty name yields an address")
		}

		z.set(answer{found(5*time.Second, "127.0.0.2", "127.0.0.1"), absent(5 * time.Second)})
		time.Sleep(5 * time.Second)
		want("with both", "127.0.0.1", "127.0.0.2")
		a, _ := n.Next()
		b, _ := n.Next()
		c, _ := n.Next()
		if a == b || a != c {
			t.Errorf("Next = %v, %v, %v; want them in turn", a, b, c)
		}

		wanted := []string{
			`level=INFO msg="endpoint addresses changed" host=o.example.net addresses=[127.0.0.1]`,
			`level=INFO msg="endpoint addresses changed" host=o.example.net addresses=[127.0.0.2]`,
			`level=WARN msg="host name not resolved" host=o.example.net error="no answer" kept=1`,
			`level=WARN msg="host name not resolved" host=o.example.net error="no such name, or no address of it" kept=1`,
			`level=INFO msg="endpoint addresses changed" host=o.example.net addresses=[]`,
			`level=INFO msg="host name resolved again" host=o.example.net`,
			`level=INFO msg="endpoint addresses changed" host=o.example.net addresses="[127.0.0.1 127.0.0.2]"`,
		}
		if got := lines.take(); !slices.Equal(got, wanted) {
			t.Errorf("logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(wanted, "\n"))
		}
	})
}

// TestAnswers: what becomes of the addresses 192.0.2.1 and 2001:db8::1.
func TestAnswers(t *testing.T) {
	v4, v6 := found(time.Minute, "192.0.2.1"), found(time.Minute, "2001:db8::1")
	many := family{ttl: time.Minute}
	for i := range 100 {
		many.addrs = append(many.addrs, netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}))
	}
	noV6 := func(a netip.Addr) bool { return a.Is4() }
	for _, c := range []struct {
		name     string
		routable func(netip.Addr) bool
		then     answer
		want     string
	}{
		{"the same", always, answer{v4, v6}, "192.0.2.1 2001:db8::1"},
		{"one family gone", always, answer{v4, absent(time.Minute)}, "192.0.2.1"},
		{"one family broken", always, answer{broken, v6}, "192.0.2.1 2001:db8::1"},
		{"one gone, one broken", always, answer{absent(time.Minute), broken}, "192.0.2.1 2001:db8::1"},
		{"both broken", always, answer{broken, broken}, "192.0.2.1 2001:db8::1"},
		{"both gone", always, answer{absent(0), absent(0)}, "192.0.2.1 2001:db8::1"},
		{"duplicates, unsorted", always, answer{found(time.Minute, "192.0.2.9", "192.0.2.3", "192.0.2.9"), absent(0)}, "192.0.2.3 192.0.2.9"},
		{"no route to one family", noV6, answer{v4, found(time.Minute, "2001:db8::2")}, "192.0.2.1"},
		{"no route to any", func(netip.Addr) bool { return false }, answer{found(time.Minute, "192.0.2.7"), found(time.Minute, "2001:db8::2")}, "192.0.2.7 2001:db8::2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, _ := newLog(t)
				z := &zone{answer: answer{v4, v6}}
				r := newResolver(Config{Log: log}, z.lookup, c.routable)
				defer r.Close()
				n := r.Name("www.example.test")
				r.Prime(t.Context(), n)
				z.set(c.then)
				time.Sleep(61 * time.Second)
				synctest.Wait()
				if got := strings.Trim(fmt.Sprint(n.Addresses()), "[]"); got != c.want {
					t.Errorf("addresses = %s, want %s", got, c.want)
				}
			})
		})
	}
	t.Run("too many", func(t *testing.T) {
		r := newResolver(Config{}, nil, always)
		e := &entry{name: &Name{Host: "x"}}
		r.apply(e, answer{many, absent(0)}, time.Now())
		if n := len(e.name.Addresses()); n != maxAddresses {
			t.Errorf("%d addresses, want %d", n, maxAddresses)
		}
	})
}

// TestPauses compares the time to the next look-up.
func TestPauses(t *testing.T) {
	r := newResolver(Config{}, nil, always)
	e := &entry{name: &Name{Host: "x"}}
	for i, c := range []struct {
		a    answer
		want time.Duration
	}{
		{answer{found(30*time.Second, "192.0.2.1"), absent(time.Hour)}, 30 * time.Second},
		{answer{found(30*time.Second, "192.0.2.1"), found(20*time.Second, "2001:db8::1")}, 20 * time.Second},
		{answer{found(0, "192.0.2.1"), absent(time.Hour)}, time.Second},
		{answer{found(48*time.Hour, "192.0.2.1"), absent(time.Hour)}, time.Hour},
		{answer{found(30*time.Second, "192.0.2.1"), broken}, 5 * time.Second},
		{answer{broken, broken}, 5 * time.Second},
		{answer{broken, absent(0)}, 10 * time.Second},
		{answer{broken, broken}, 20 * time.Second},
		{answer{broken, broken}, 40 * time.Second},
		{answer{broken, broken}, time.Minute},
		{answer{broken, broken}, time.Minute},
		{answer{absent(time.Second), absent(time.Hour)}, 5 * time.Second},
		{answer{absent(time.Hour), absent(time.Hour)}, time.Minute},
		{answer{found(30*time.Second, "192.0.2.1"), absent(0)}, 30 * time.Second},
		{answer{broken, broken}, 5 * time.Second},
	} {
		if got := r.apply(e, c.a, time.Now()); got != c.want {
			t.Errorf("step %d: next look-up in %v, want %v", i, got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z := &zone{answer: answer{found(time.Minute, "192.0.2.1"), absent(time.Minute)}}
		r := newResolver(Config{}, z.lookup, always)
		n := r.Name("www.example.test")
		if r.Name("WWW.example.test") != n {
			t.Error("two names for one host")
		}
		for host, want := range map[string]string{
			"localhost": "127.0.0.1", "App.Localhost.": "127.0.0.1", "192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7",
		} {
			if a := r.Name(host).Addresses(); len(a) != 1 || a[0].String() != want {
				t.Errorf("%s = %v, want %s", host, a, want)
			}
		}
		r.Prime(t.Context(), n, r.Name("localhost"), &Name{Host: "nobody's"})
		if z.count() != 1 {
			t.Errorf("%d look-ups, want 1", z.count())
		}
		r.Keep(func(host string) bool { return host == "localhost" })
		time.Sleep(time.Hour)
		if z.count() != 1 || len(n.Addresses()) != 1 {
			t.Errorf("%d look-ups of a name that was dropped; addresses %v", z.count(), n.Addresses())
		}
		if again := r.Name("www.example.test"); again == n {
			t.Error("a dropped name came back")
		}
		synctest.Wait()
		if s := r.Stats(); s.Names != 2 || s.Found != 2 {
			t.Errorf("stats = %+v", s)
		}
		r.Close()
		r.Name("late.example.test")
		time.Sleep(time.Hour)
		if z.count() != 2 {
			t.Errorf("%d look-ups after Close", z.count()-2)
		}
	})
}

// TestPrimeIsBounded: a resolver that says nothing holds up a start for five
// seconds.
func TestPrimeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newResolver(Config{}, func(ctx context.Context, _ string) answer {
			<-ctx.Done()
			return answer{broken, broken}
		}, always)
		n := r.Name("www.example.test")
		start := time.Now()
		r.Prime(t.Context(), n)
		if d := time.Since(start); d != primeTimeout {
			t.Errorf("took %v, want %v", d, primeTimeout)
		}
		r.Close() // ends the look-up
	})
}

// TestManyNames: look-ups are bounded in number.
func TestManyNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		open, most := 0, 0
		r := newResolver(Config{}, func(ctx context.Context, _ string) answer {
			mu.Lock()
			open++
			most = max(most, open)
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			open--
			mu.Unlock()
			return answer{found(time.Minute, "192.0.2.1"), absent(0)}
		}, always)
		defer r.Close()
		var names []*Name
		for i := range 500 {
			names = append(names, r.Name(fmt.Sprintf("n%d.example.test", i)))
		}
		r.Prime(t.Context(), names...)
		for _, n := range names {
			if len(n.Addresses()) != 1 {
				t.Fatalf("%s = %v", n.Host, n.Addresses())
			}
		}
		if most > maxLookups {
			t.Errorf("%d look-ups at once, want at most %d", most, maxLookups)
		}
	})
}

func TestReadsDoNotAllocate(t *testing.T) {
	n := &Name{Host: "x"}
	n.set.Store(&[]netip.Addr{netip.MustParseAddr("192.0.2.1")})
	if allocs := testing.AllocsPerRun(100, func() {
		if _, ok := n.Next(); !ok || len(n.Addresses()) != 1 {
			t.Error("no address")
		}
	}); allocs != 0 {
		t.Errorf("%v allocations, want 0", allocs)
	}
}
