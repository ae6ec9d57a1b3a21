package perclient

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"
)

var (
	one   = netip.MustParseAddr("192.0.2.1")
	other = netip.MustParseAddr("192.0.2.2")
	host  = netip.MustParseAddr("2001:db8:0:1::1")
	same  = netip.MustParseAddr("2001:db8:0:1:ffff::1")
	next  = netip.MustParseAddr("2001:db8:0:2::1")
)

func TestCounter(t *testing.T) {
	for _, c := range []struct {
		name       string
		has, comes netip.Addr
		want       bool
	}{
		{"same address", one, one, false},
		{"mapped into IPv6", one, netip.AddrFrom16(one.As16()), false},
		{"another address", one, other, true},
		{"same /64", host, same, false},
		{"with a zone", host, same.WithZone("eth0"), false},
		{"next /64", host, next, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n Counter
			for range 2 {
				if !n.Enter(c.has, 2) {
					t.Fatal("refused below the limit")
				}
			}
			if got := n.Enter(c.comes, 2); got != c.want {
				t.Errorf("third connection: %v, want %v", got, c.want)
			}
			n.Leave(c.has)
			if !n.Enter(c.has, 2) {
				t.Error("a place that became free is not given again")
			}
		})
	}
}

// admitted tries for a while with a connection each step, as one that waits in line,
// and returns how many were let in at once, after a wait, or not at all.
func admitted(f *Flooders, a netip.Addr, from time.Time, long, step time.Duration, rate int) (atOnce, late, refused int) {
	for at := time.Duration(0); at < long; at += step {
		switch wait, ok := f.Admit(a, from.Add(at), rate, time.Second); {
		case !ok:
			refused++
		case wait > 0:
			late++
		default:
			atOnce++
		}
	}
	return atOnce, late, refused
}

func TestFlooders(t *testing.T) {
	now := time.Now()
	var f Flooders
	if n, late, refused := admitted(&f, one, now, 5*time.Second, time.Millisecond, 10); late+refused > 0 {
		t.Errorf("before any flood: %d, %d late, %d refused", n, late, refused)
	}
	if !f.Note(one, now) || f.Note(one, now) {
		t.Error("the first flood is not told from the second")
	}
	if n := f.Count(now); n != 1 {
		t.Errorf("%d are remembered, want 1", n)
	}
	// A second's worth at once, and then ten a second; who waits does so in a line
	// of one second.
	atOnce, late, refused := admitted(&f, one, now, 5*time.Second, time.Millisecond, 10)
	if atOnce != 11 || late != 59 && late != 60 || refused < 4900 {
		t.Errorf("after a flood: %d at once, %d late, %d refused; want 11, some 60, the rest", atOnce, late, refused)
	}
	if _, late, refused := admitted(&f, other, now, 5*time.Second, time.Millisecond, 10); late+refused > 0 {
		t.Errorf("another client: %d late, %d refused", late, refused)
	}
	later := now.Add(memory)
	if _, late, refused := admitted(&f, one, later, time.Second, time.Millisecond, 10); late+refused > 0 {
		t.Errorf("once it is forgotten: %d late, %d refused", late, refused)
	}
	if n := f.Count(later); n != 0 {
		t.Errorf("%d are remembered, want 0", n)
	}
	if !f.Note(host, later) {
		t.Error("flood of a client that was not known")
	}
	if _, late, _ := admitted(&f, same, later, time.Second, time.Millisecond, 10); late == 0 {
		t.Error("another address of the same /64 does not wait")
	}
}

// A client that comes seldom does not notice.
func TestSlowFlooder(t *testing.T) {
	now := time.Now()
	var f Flooders
	f.Note(one, now)
	if _, late, refused := admitted(&f, one, now, memory, 100*time.Millisecond, 10); late+refused > 0 {
		t.Errorf("%d late, %d refused", late, refused)
	}
}

// However many flood, few are remembered, and the last one is.
func TestFloodersAreBounded(t *testing.T) {
	var f Flooders
	for i := range 2 * maxFlooders {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], uint32(i)|10<<24)
		last := netip.AddrFrom4(a)
		now := began.Add(time.Duration(i) * 100 * time.Microsecond)
		f.Note(last, now)
		if i%10_000 == 0 {
			if _, late, _ := admitted(&f, last, now, time.Second, time.Millisecond, 10); late == 0 {
				t.Fatalf("flooder %d is not remembered", i)
			}
		}
	}
	if n := len(f.of); n > maxFlooders {
		t.Errorf("%d are remembered, want at most %d", n, maxFlooders)
	}
}

func TestAdmitAllocatesNothing(t *testing.T) {
	now := time.Now()
	var f Flooders
	f.Note(one, now)
	if n := testing.AllocsPerRun(100, func() { f.Admit(one, now, 10, time.Second); f.Admit(other, now, 10, time.Second) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
