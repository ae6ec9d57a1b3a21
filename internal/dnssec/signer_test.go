package dnssec

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"pgregory.net/rapid"

	"fairlead/internal/dnswire"
)

// rrset makes a set of zone-file lines, and returns the records as the library has
// them.
func rrset(t testing.TB, lines ...string) (*RRset, []dns.RR) {
	t.Helper()
	set := new(RRset)
	var rrs []dns.RR
	for _, line := range lines {
		rr, err := dns.NewRR(line)
		if err != nil {
			t.Fatal(err)
		}
		rrs = append(rrs, rr)
		b := make([]byte, dns.MaxMsgSize)
		n, err := dns.PackRR(rr, b, 0, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		owner, err := nameLength(b)
		if err != nil {
			t.Fatal(err)
		}
		set.Owner, set.Type, set.TTL = bytes.Clone(b[:owner]), dnswire.Type(rr.Header().Rrtype), rr.Header().Ttl
		set.Data = append(set.Data, b[owner+10:n])
	}
	return set, rrs
}

// unpack makes a record of data.
func unpack(t testing.TB, owner []byte, kind dnswire.Type, ttl uint32, data []byte) dns.RR {
	t.Helper()
	rr, err := dns.NewRR(fmt.Sprintf("%s %d IN TYPE%d \\# %d %x", textName(owner), ttl, kind, len(data), data))
	if err != nil {
		t.Fatal(err)
	}
	return rr
}

// checkSignatures verifies signatures with the library.
func checkSignatures(t testing.TB, set *RRset, rrs []dns.RR, signatures [][]byte, keys ...*Key) {
	t.Helper()
	if len(signatures) != len(keys) {
		t.Fatalf("%d signatures, want %d", len(signatures), len(keys))
	}
	for i, s := range signatures {
		sig := unpack(t, set.Owner, dnswire.TypeRRSIG, set.TTL, s).(*dns.RRSIG)
		key := unpack(t, keys[i].zone, dnswire.TypeDNSKEY, 3600, keys[i].record).(*dns.DNSKEY)
		if err := sig.Verify(key, rrs); err != nil {
			t.Errorf("%v: %v\n%v", err, sig, rrs)
		}
		if sig.KeyTag != keys[i].Tag() || key.KeyTag() != keys[i].Tag() {
			t.Errorf("tags %d, %d, want %d", sig.KeyTag, key.KeyTag(), keys[i].Tag())
		}
		if !sig.ValidityPeriod(time.Now()) {
			t.Errorf("not valid now: %v", sig)
		}
	}
}

func generate(t testing.TB, zone string, flags uint16, a Algorithm) *Key {
	t.Helper()
	k, err := GenerateKey(zone, flags, a)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// signing returns a zone with new keys.
func signing(t testing.TB, o Options) (z *Zone, ksk, zsk *Key) {
	t.Helper()
	return signingWith(t, 1024, o)
}

func signingWith(t testing.TB, size int, o Options) (z *Zone, ksk, zsk *Key) {
	t.Helper()
	z, err := NewSigner(size).NewZone("Example.com", o)
	if err != nil {
		t.Fatal(err)
	}
	ksk, zsk = generate(t, "example.com", FlagsKSK, ECDSAP256SHA256), generate(t, "example.com", FlagsZSK, ECDSAP256SHA256)
	if err := z.SetKeys(Keys{Published: []*Key{ksk, zsk}, Key: []*Key{ksk}, Zone: []*Key{zsk}, Announce: []*Key{ksk}, TTL: 3600}); err != nil {
		t.Fatal(err)
	}
	return z, ksk, zsk
}

var sets = map[string][]string{
	"A":                  {"www.example.com. 30 IN A 192.0.2.9", "www.example.com. 30 IN A 192.0.2.1"},
	"one A twice":        {"www.example.com. 30 IN A 192.0.2.9", "www.example.com. 30 IN A 192.0.2.9"},
	"capitals":           {"WWW.eXample.COM. 30 IN A 192.0.2.9"},
	"AAAA":               {"www.example.com. 30 IN AAAA 2001:db8::1"},
	"apex":               {"example.com. 30 IN A 192.0.2.9"},
	"SOA":                {"example.com. 300 IN SOA NS1.Example.com. Host.EXAMPLE.com. 1 2 3 4 5"},
	"NS":                 {"example.com. 300 IN NS b.example.com.", "example.com. 300 IN NS A.example.com."},
	"MX":                 {"example.com. 300 IN MX 10 B.example.com.", "example.com. 300 IN MX 5 c.example.net."},
	"CNAME":              {"a.example.com. 300 IN CNAME B.Example.NET."},
	"DNAME":              {"a.example.com. 300 IN DNAME B.Example.NET."},
	"PTR":                {"a.example.com. 300 IN PTR B.Example.NET."},
	"RP":                 {"a.example.com. 300 IN RP B.Example.NET. C.EXAMPLE.net."},
	"SRV":                {"_s._tcp.example.com. 300 IN SRV 1 2 3 B.Example.NET.", "_s._tcp.example.com. 300 IN SRV 0 2 3 ."},
	"NAPTR":              {`a.example.com. 300 IN NAPTR 100 50 "S" "SIP+D2U" "" _SIP._udp.Example.com.`, `a.example.com. 300 IN NAPTR 10 50 "u" "X" "!^.*$!Y!" .`},
	"TXT":                {`a.example.com. 300 IN TXT "V=Spf1" "B"`, `a.example.com. 300 IN TXT "V=Spf1"`, `a.example.com. 300 IN TXT ""`},
	"CAA":                {`a.example.com. 300 IN CAA 0 issue "CA.example.net"`},
	"TLSA":               {"a.example.com. 300 IN TLSA 3 1 1 0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"},
	"SSHFP":              {"a.example.com. 300 IN SSHFP 4 2 0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"},
	"HTTPS":              {`a.example.com. 300 IN HTTPS 1 . alpn="h2,h3" ipv4hint=192.0.2.1`, "a.example.com. 300 IN HTTPS 0 Alias.Example.net."},
	"DS":                 {"sub.example.com. 300 IN DS 1 13 2 0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20"},
	"unknown type":       {`a.example.com. 300 IN TYPE65333 \# 3 414243`, `a.example.com. 300 IN TYPE65333 \# 0`},
	"wildcard by name":   {"*.example.com. 300 IN A 192.0.2.1"},
	"from a wildcard":    {"x.y.example.com. 300 IN A 192.0.2.1"},
	"escapes in a label": {`a\.b\000\007.example.com. 300 IN A 192.0.2.1`},
	"TTL 0":              {"a.example.com. 0 IN A 192.0.2.1"},
	"a large TTL":        {"a.example.com. 604800 IN A 192.0.2.1"},
}

func TestSign(t *testing.T) {
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("many.example.com. 30 IN A 192.0.2.%d", (i*37)%256))
	}
	all := maps.Clone(sets)
	all["forty addresses"] = many
	for _, a := range []Algorithm{ECDSAP256SHA256, Ed25519} {
		zsk, second := generate(t, "example.com", FlagsZSK, a), generate(t, "example.com", FlagsZSK, a)
		for name, lines := range all {
			t.Run(fmt.Sprintf("%v/%s", a, name), func(t *testing.T) {
				z, ksk, _ := signing(t, Options{})
				if err := z.SetKeys(Keys{Published: []*Key{ksk, zsk, second}, Key: []*Key{ksk}, Zone: []*Key{zsk, second}, TTL: 3600}); err != nil {
					t.Fatal(err)
				}
				set, rrs := rrset(t, lines...)
				before := fmt.Sprint(set)
				w := z.signer.NewWork()
				for range 2 { // made, then from the cache
					signatures, err := z.Sign(w, set, time.Now())
					if err != nil {
						t.Fatal(err)
					}
					checkSignatures(t, set, rrs, signatures, zsk, second)
				}
				if w.count.hits.Load() != 1 || w.count.misses.Load() != 1 {
					t.Errorf("%d hits, %d misses", w.count.hits.Load(), w.count.misses.Load())
				}
				if fmt.Sprint(set) != before {
					t.Error("the set was written to")
				}
			})
		}
	}
}

// The records at the apex that are made of the keys.
func TestApex(t *testing.T) {
	z, ksk, zsk := signing(t, Options{})
	w := z.signer.NewWork()
	check := func(kind dnswire.Type, want ...string) {
		t.Helper()
		a, ok := z.Apex(kind)
		if ok != (len(want) > 0) || len(a.Data) != len(want) {
			t.Fatalf("%d records of type %d, want %v", len(a.Data), kind, want)
		}
		if !ok {
			return
		}
		var rrs []dns.RR
		var got []string
		for _, data := range a.Data {
			rr := unpack(t, wire(t, "example.com"), kind, a.TTL, data)
			rrs = append(rrs, rr)
			got = append(got, strings.TrimPrefix(rr.String(), rr.Header().String()))
		}
		if !slices.Equal(got, want) {
			t.Errorf("type %d: %q, want %q", kind, got, want)
		}
		set := &RRset{Owner: wire(t, "example.com"), Type: kind, TTL: a.TTL, Data: a.Data}
		signatures, err := z.Sign(w, set, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		checkSignatures(t, set, rrs, signatures, ksk)
	}
	ds, _ := ksk.DS(DigestSHA256)
	check(dnswire.TypeDNSKEY, ksk.RecordText(), zsk.RecordText())
	check(dnswire.TypeCDS, ds.String())
	check(dnswire.TypeCDNSKEY, ksk.RecordText())
	keys := Keys{Published: []*Key{ksk, zsk}, Key: []*Key{ksk}, Zone: []*Key{zsk}, TTL: 60}
	if err := z.SetKeys(keys); err != nil {
		t.Fatal(err)
	}
	check(dnswire.TypeCDS)
	check(dnswire.TypeCDNSKEY)
	keys.Withdraw = true
	if err := z.SetKeys(keys); err != nil {
		t.Fatal(err)
	}
	check(dnswire.TypeCDS, "0 0 0 00")
	check(dnswire.TypeCDNSKEY, "0 3 0 AA==")
	if err := z.SetKeys(Keys{}); err == nil {
		t.Error("a zone may be without keys")
	}
	library := unpack(t, ksk.zone, dnswire.TypeDNSKEY, 60, ksk.record).(*dns.DNSKEY)
	for _, digest := range []uint8{DigestSHA1, DigestSHA256, DigestSHA384} {
		ours, _ := ksk.DS(digest)
		theirs := library.ToDS(digest)
		if got := unpack(t, ksk.zone, dnswire.TypeDS, 60, ours.Data()).(*dns.DS); got.String() != theirs.String() || strings.TrimPrefix(got.String(), got.Hdr.String()) != ours.String() {
			t.Errorf("DS %v, want %v", got, theirs)
		}
	}
}

// Whatever order records have, and however their names are written, the set is the
// same and so is its signature; and every set is what the library signs too.
func TestCanonicalForm(t *testing.T) {
	z, _, zsk := signing(t, Options{Limit: 1 << 20})
	w := z.signer.NewWork()
	label := rapid.StringMatching(`[a-zA-Z0-9]{1,8}`)
	rapid.Check(t, func(r *rapid.T) {
		owner := label.Draw(r, "owner") + ".example.com."
		var lines []string
		kind := rapid.SampledFrom([]string{"A", "MX", "TXT", "SRV", "NS", "TYPE4711"}).Draw(r, "type")
		for range rapid.IntRange(1, 30).Draw(r, "records") {
			var data string
			name := label.Draw(r, "name") + "." + label.Draw(r, "name") + "."
			n := rapid.IntRange(0, 3).Draw(r, "number")
			switch kind {
			case "A":
				data = fmt.Sprintf("192.0.2.%d", rapid.IntRange(0, 255).Draw(r, "byte"))
			case "MX":
				data = fmt.Sprintf("%d %s", n, name)
			case "SRV":
				data = fmt.Sprintf("%d 0 %d %s", n, n, name)
			case "NS":
				data = name
			case "TXT":
				data = `"` + strings.Repeat("a", n) + label.Draw(r, "text") + `"`
			default:
				b := rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(r, "data")
				data = fmt.Sprintf(`\# %d %x`, len(b), b)
			}
			lines = append(lines, fmt.Sprintf("%s 60 IN %s %s", owner, kind, data))
		}
		set, rrs := rrset(t, lines...)
		signatures, err := z.Sign(w, set, time.Now())
		if err != nil {
			r.Fatal(err)
		}
		checkSignatures(t, set, rrs, signatures, zsk)
		other, _ := rrset(t, lines...)
		rand.Shuffle(len(other.Data), func(i, j int) { other.Data[i], other.Data[j] = other.Data[j], other.Data[i] })
		other.Data = append(other.Data, other.Data[0])
		for i := range other.Owner {
			if c := other.Owner[i]; 'a' <= c && c <= 'z' && rapid.Bool().Draw(r, "capital") {
				other.Owner[i] = c &^ 0x20
			}
		}
		misses := w.count.misses.Load()
		again, err := z.Sign(w, other, time.Now())
		if err != nil || !bytes.Equal(again[0], signatures[0]) || w.count.misses.Load() != misses {
			r.Fatalf("the same records in another order are another set: %v", err)
		}
	})
}

// Sets that differ in anything have signatures of their own.
func TestVariants(t *testing.T) {
	z, _, zsk := signing(t, Options{})
	w := z.signer.NewWork()
	for i, lines := range [][]string{
		{"www.example.com. 30 IN A 192.0.2.1"},
		{"www.example.com. 30 IN A 192.0.2.2"},
		{"www.example.com. 30 IN A 192.0.2.1", "www.example.com. 30 IN A 192.0.2.2"},
		{"www.example.com. 31 IN A 192.0.2.1"},
		{"www2.example.com. 30 IN A 192.0.2.1"},
		{"www.example.com. 30 IN TXT a"},
	} {
		for range 2 {
			set, rrs := rrset(t, lines...)
			signatures, err := z.Sign(w, set, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			checkSignatures(t, set, rrs, signatures, zsk)
		}
		if got := w.count.misses.Load(); got != uint64(i+1) {
			t.Errorf("%d signatures made for %d sets", got, i+1)
		}
	}
	// A key with the same content in another zone of the same signer signs for
	// itself.
	other, err := z.signer.NewZone("com", Options{})
	if err != nil {
		t.Fatal(err)
	}
	key := generate(t, "com", FlagsKSK, Ed25519)
	if err := other.SetKeys(Keys{Published: []*Key{key}, Key: []*Key{key}, Zone: []*Key{key}, TTL: 60}); err != nil {
		t.Fatal(err)
	}
	set, rrs := rrset(t, "www.example.com. 30 IN A 192.0.2.1")
	signatures, err := other.Sign(w, set, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	checkSignatures(t, set, rrs, signatures, key)
}

func TestKnownSignatureAllocatesNothing(t *testing.T) {
	z, _, _ := signing(t, Options{})
	w := z.signer.NewWork()
	for name, lines := range sets {
		set, _ := rrset(t, lines...)
		if _, err := z.Sign(w, set, time.Now()); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		if n := testing.AllocsPerRun(100, func() { z.Sign(w, set, now) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestRefused(t *testing.T) {
	z, _, _ := signing(t, Options{Limit: 10})
	w := z.signer.NewWork()
	now := time.Now()
	sign := func(i int, at time.Time) error {
		set, _ := rrset(t, fmt.Sprintf("a%d.example.com. 30 IN A 192.0.2.1", i))
		_, err := z.Sign(w, set, at)
		return err
	}
	given := 0
	for i := range 50 {
		switch err := sign(i, now); err {
		case nil:
			given++
		case ErrBusy:
		default:
			t.Fatal(err)
		}
	}
	if given < 10 || given > 11 || z.refused.Load() != uint64(50-given) {
		t.Errorf("%d of 50 given, %d counted as refused; want those of one second", given, z.refused.Load())
	}
	if err := sign(0, now); err != nil {
		t.Errorf("a known one: %v", err)
	}
	if err := sign(100, now.Add(200*time.Millisecond)); err != nil {
		t.Errorf("0.2 s later: %v", err)
	}
	if err := sign(101, now.Add(-time.Hour)); err != nil {
		t.Errorf("clock set back: %v", err)
	}
	empty, err := z.signer.NewZone("example.org", Options{})
	if err != nil {
		t.Fatal(err)
	}
	set, _ := rrset(t, "a.example.com. 30 IN A 192.0.2.1")
	if _, err := empty.Sign(w, set, now); err != ErrNoKeys {
		t.Errorf("without keys: %v", err)
	}
	z.SetOptions(Options{})
	for _, wrong := range []*RRset{{Owner: wire(t, "www.example.org"), Type: 1, Data: [][]byte{{1, 2, 3, 4}}}, {Owner: wire(t, "www.example.com"), Type: 1}} {
		if _, err := z.Sign(w, wrong, now); err == nil || !strings.Contains(err.Error(), "defect") {
			t.Errorf("%v: %v", wrong, err)
		}
	}
}

// As time goes on, what is in use is signed again ahead of its expiry and nobody
// waits; what is not goes.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		z, _, zsk := signingWith(t, 64, Options{})
		ctx := t.Context()
		go z.signer.Run(ctx)
		w := z.signer.NewWork()
		used, rrs := rrset(t, "www.example.com. 3600 IN A 192.0.2.1")
		for range 60 * 24 {
			signatures, err := z.Sign(w, used, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			checkSignatures(t, used, rrs, signatures, zsk)
			sig := unpack(t, used.Owner, dnswire.TypeRRSIG, 3600, signatures[0]).(*dns.RRSIG)
			if left := time.Until(time.Unix(int64(sig.Expiration), 0)); left < time.Hour+time.Minute || left > 14*24*time.Hour {
				t.Fatalf("%v left, with a TTL of an hour", left)
			}
			idle, _ := rrset(t, fmt.Sprintf("i%d.example.com. 3600 IN A 192.0.2.1", rand.IntN(1<<30)))
			if _, err := z.Sign(w, idle, time.Now()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
		misses, refreshed := w.count.misses.Load(), z.made[causeRefresh].Load()
		if misses != 60*24+1 {
			t.Errorf("%d misses, want one for the set in use", misses-60*24)
		}
		if refreshed < 4 || refreshed > 10 {
			t.Errorf("refreshed %d times in 60 days of 14 days each", refreshed)
		}
	})
}

func TestUnusedGo(t *testing.T) {
	z, _, _ := signing(t, Options{})
	w := z.signer.NewWork()
	now := time.Now()
	set, _ := rrset(t, "www.example.com. 3600 IN A 192.0.2.1")
	if _, err := z.Sign(w, set, now); err != nil {
		t.Fatal(err)
	}
	count := func() (n int) {
		z.signer.cache.all(func(*entry, func(*entry)) { n++ })
		return n
	}
	z.signer.refresh(t.Context(), now.Add(9*24*time.Hour))
	if count() != 1 {
		t.Error("gone although it is valid for long")
	}
	z.signer.refresh(t.Context(), now.Add(12*24*time.Hour))
	if count() != 0 {
		t.Error("kept although nobody asked for it")
	}
	if _, err := z.Sign(w, set, now); err != nil {
		t.Fatal(err)
	}
	z.signer.Forget(z)
	if count() != 0 {
		t.Error("kept although the zone is gone")
	}
}

// A clock that is set back makes signatures that are not valid yet; they are made
// again.
func TestClockSetBack(t *testing.T) {
	z, _, _ := signing(t, Options{})
	w := z.signer.NewWork()
	set, _ := rrset(t, "www.example.com. 3600 IN A 192.0.2.1")
	for _, at := range []time.Duration{0, -10 * time.Minute, -3 * time.Hour, -100 * 24 * time.Hour} {
		now := time.Now().Add(at)
		signatures, err := z.Sign(w, set, now)
		if err != nil {
			t.Fatal(err)
		}
		sig := unpack(t, set.Owner, dnswire.TypeRRSIG, 3600, signatures[0]).(*dns.RRSIG)
		if begin := time.Unix(int64(sig.Inception), 0); now.Sub(begin) < 20*time.Minute {
			t.Errorf("clock set back by %v: the signature is valid from %v on", at, now.Sub(begin))
		}
	}
	if got := w.count.misses.Load(); got != 3 {
		t.Errorf("%d signatures made, want 3", got)
	}
}

// New keys sign what is in the cache before those who ask notice.
func TestNewKeys(t *testing.T) {
	z, ksk, zsk := signing(t, Options{})
	w := z.signer.NewWork()
	set, rrs := rrset(t, "www.example.com. 3600 IN A 192.0.2.1")
	for range 2 {
		if _, err := z.Sign(w, set, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	next := generate(t, "example.com", FlagsZSK, ECDSAP256SHA256)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			w := z.signer.NewWork()
			for {
				select {
				case <-stop:
					if w.count.misses.Load() > 0 {
						t.Errorf("%d queries waited for a signature", w.count.misses.Load())
					}
					return
				default:
				}
				signatures, err := z.Sign(w, set, time.Now())
				if err != nil {
					t.Error(err)
					return
				}
				sig := unpack(t, set.Owner, dnswire.TypeRRSIG, 3600, signatures[0]).(*dns.RRSIG)
				if sig.KeyTag != zsk.Tag() && sig.KeyTag != next.Tag() {
					t.Errorf("signed by %d", sig.KeyTag)
				}
			}
		})
	}
	if err := z.SetKeys(Keys{Published: []*Key{ksk, zsk, next}, Key: []*Key{ksk}, Zone: []*Key{next}, TTL: 3600}); err != nil {
		t.Fatal(err)
	}
	signatures, err := z.Sign(w, set, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	checkSignatures(t, set, rrs, signatures, next)
	close(stop)
	wg.Wait()
	if w.count.misses.Load() != 1 || z.made[causeKeys].Load() != 1 {
		t.Errorf("%d misses, %d made for new keys", w.count.misses.Load(), z.made[causeKeys].Load())
	}
}
