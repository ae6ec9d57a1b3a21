package dnssec

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"fairlead/internal/telemetry"
)

// The cache is bounded, and names that somebody makes up do not drive out what is
// in use.
func TestCacheIsBounded(t *testing.T) {
	z, _, _ := signing(t, Options{Limit: 1 << 30})
	w := z.signer.NewWork()
	now := time.Now()
	var inUse []*RRset
	for i := range 100 {
		set, _ := rrset(t, fmt.Sprintf("used%d.example.com. 30 IN A 192.0.2.1", i))
		inUse = append(inUse, set)
	}
	ask := func() {
		for _, set := range inUse {
			if _, err := z.Sign(w, set, now); err != nil {
				t.Fatal(err)
			}
		}
	}
	ask()
	ask()
	var worst uint64
	for i := range 5000 {
		made := RRset{Owner: wire(t, fmt.Sprintf("x%d.example.com", i)), Type: 1, TTL: 30, Data: [][]byte{{1, 2, 3, 4}}}
		if _, err := z.Sign(w, &made, now); err != nil {
			t.Fatal(err)
		}
		if i%50 == 0 {
			before := w.count.misses.Load()
			ask()
			worst = max(worst, w.count.misses.Load()-before)
		}
	}
	if worst > 2 {
		t.Errorf("%d of 100 in use were driven out", worst)
	}
	entries := 0
	z.signer.cache.all(func(*entry, func(*entry)) { entries++ })
	if entries > 1024 || z.signer.cache.evicted.Load() == 0 {
		t.Errorf("%d entries, %d evicted", entries, z.signer.cache.evicted.Load())
	}
}

func TestConcurrentUse(t *testing.T) {
	z, ksk, zsk := signing(t, Options{Limit: 1 << 30})
	next := generate(t, "example.com", FlagsZSK, Ed25519)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			w := z.signer.NewWork()
			for i := range 300 {
				set := &RRset{Owner: wire(t, fmt.Sprintf("x%d.example.com", (i*7+g)%50)), Type: 1, TTL: 30, Data: [][]byte{{1, 2, 3, byte(i % 3)}}}
				if _, err := z.Sign(w, set, time.Now()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range 6 {
		zone := []*Key{zsk}
		if i%2 == 0 {
			zone = []*Key{next}
		}
		if err := z.SetKeys(Keys{Published: []*Key{ksk, zsk, next}, Key: []*Key{ksk}, Zone: zone, TTL: 60}); err != nil {
			t.Error(err)
		}
		z.signer.refresh(t.Context(), time.Now())
	}
	wg.Wait()
}

func TestMetrics(t *testing.T) {
	z, _, _ := signing(t, Options{})
	r := telemetry.NewRegistry()
	r.Add(z.signer)
	r.Add(z)
	w := z.signer.NewWork()
	set, _ := rrset(t, "www.example.com. 3600 IN A 192.0.2.1")
	for range 3 {
		if _, err := z.Sign(w, set, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	text := scrape(t, r)
	for _, want := range []string{
		`fairlead_dnssec_signatures_total{cause="new_answer",zone="Example.com"} 1`,
		`fairlead_dnssec_signatures_refused_total{zone="Example.com"} 0`,
		`fairlead_dnssec_cache_lookups_total{result="hit"} 2`,
		`fairlead_dnssec_cache_lookups_total{result="miss"} 1`,
		`fairlead_dnssec_cache_entries 1`,
		`fairlead_dnssec_cache_capacity_entries 1024`,
		`fairlead_dnssec_cache_evictions_total 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

func BenchmarkSign(b *testing.B) {
	z, _, _ := signing(b, Options{})
	w := z.signer.NewWork()
	now := time.Now()
	for _, c := range []struct{ name, set string }{{"A", "A"}, {"MX", "MX"}} {
		set, _ := rrset(b, sets[c.set]...)
		b.Run("known/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				z.Sign(w, set, now)
			}
		})
	}
	for _, a := range []Algorithm{ECDSAP256SHA256, Ed25519} {
		key := generate(b, "example.com", FlagsZSK, a)
		set, _ := rrset(b, sets["A"]...)
		canon := w.canonical(set)
		b.Run("new/"+a.String(), func(b *testing.B) {
			for b.Loop() {
				z.sign(0, canon, 1, &signers{[]*Key{key}}, now, causeNew)
			}
		})
	}
}
