package dnssec

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"fairlead/internal/dnswire"
)

func TestDenial(t *testing.T) {
	for _, c := range []struct {
		name   string
		append func(dst, name []byte) []byte
		owner  string
		want   string // as zone files have it
		data   string // bitmap in hex
	}{
		{"no such name", AppendNoName, "nope.example.com", `\000.nope.example.com. RRSIG NSEC NXNAME`, "0011" + "000000000003" + strings.Repeat("00", 10) + "80"},
		{"empty non-terminal", func(dst, name []byte) []byte { return AppendNoData(dst, name, nil) }, "ent.example.com", `\000.ent.example.com. RRSIG NSEC`, "0006000000000003"},
		{"no such type", func(dst, name []byte) []byte { return AppendNoData(dst, name, []dnswire.Type{28, 1}) }, "www.example.com", `\000.www.example.com. A AAAA RRSIG NSEC`, "0006400000080003"},
		{"types of several windows", func(dst, name []byte) []byte { return AppendNoData(dst, name, []dnswire.Type{257, 65, 1}) }, "www.example.com", `\000.www.example.com. A RRSIG NSEC HTTPS CAA`, "00094000000000030000400101" + "40"},
		{"apex", func(dst, name []byte) []byte {
			return AppendNoData(dst, name, []dnswire.Type{dnswire.TypeSOA, dnswire.TypeNS, dnswire.TypeDNSKEY})
		}, "example.com", `\000.example.com. NS SOA RRSIG NSEC DNSKEY`, "00072200000000" + "0380"},
		{"unsigned delegation", AppendUnsigned, "sub.example.com", `sub\000.example.com. NS RRSIG NSEC`, "0006200000000003"},
	} {
		t.Run(c.name, func(t *testing.T) {
			owner := wire(t, c.owner)
			data := c.append([]byte{0xee}, owner)
			if data[0] != 0xee {
				t.Fatal("what stood there before is gone")
			}
			data = data[1:]
			rr := unpack(t, owner, dnswire.TypeNSEC, 60, data).(*dns.NSEC)
			if got := strings.TrimPrefix(rr.String(), rr.Hdr.String()); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			n, err := nameLength(data)
			if err != nil {
				t.Fatal(err)
			}
			if got := hex.EncodeToString(data[n:]); got != c.data {
				t.Errorf("bitmap %s, want %s", got, c.data)
			}
		})
	}
}

// order compares names as RFC 4034 section 6.1 does, written anew from its text.
func order(a, b []byte) int {
	split := func(name []byte) (l [][]byte) {
		for name[0] != 0 {
			l = append(l, bytes.ToLower(name[1:1+name[0]]))
			name = name[1+name[0]:]
		}
		slices.Reverse(l)
		return l
	}
	return slices.CompareFunc(split(a), split(b), bytes.Compare)
}

// The next name is right after the name, or where a delegation is denied, right
// after all that is below it; it is a name; and no other name that is there can
// be between them.
func TestNextName(t *testing.T) {
	label := func(n int, c byte) []byte { return append([]byte{byte(n)}, bytes.Repeat([]byte{c}, n)...) }
	name := func(labels ...[]byte) []byte { return append(bytes.Join(labels, nil), 0) }
	names := [][]byte{
		wire(t, "a"), wire(t, "www.example.com"), {0},
		name(label(63, 'a'), label(3, 'b')),
		name(label(63, 0xff), label(3, 'b')),
		name(label(63, '@'), label(3, 'b')),                                   // 255 is not reached
		name(label(63, 'a'), label(63, 'a'), label(63, 'a'), label(59, 'a')),  // 253
		name(label(63, 'a'), label(63, 'a'), label(63, 'a'), label(60, 'a')),  // 254
		name(label(60, 'a'), label(63, 'a'), label(63, 'a'), label(63, 'a')),  // 254, room in the first label
		name(label(63, 'a'), label(63, 'a'), label(63, 'a'), label(61, 'a')),  // 255
		name(label(61, '@'), label(63, 'a'), label(63, 'a'), label(63, 'a')),  // 255
		name(label(61, 0xff), label(63, 'a'), label(63, 'a'), label(63, 'a')), // 255
		name(label(1, 0xff), label(61, 0xff), label(63, 'a'), label(63, 'a'), label(61, 'a')),
	}
	for _, n := range names {
		for kind, next := range map[string][]byte{"name": appendNext(nil, n), "delegation": appendBeside(nil, n)} {
			if size, err := nameLength(next); err != nil || size != len(next) {
				t.Errorf("%s after %x: %x is no name", kind, n, next)
				continue
			}
			if len(n) == 1 {
				continue // the root
			}
			if order(n, next) >= 0 {
				t.Errorf("%s after %x: %x is not after it", kind, n, next)
			}
			below := append([]byte{1, 0xff}, n...)
			if len(below) <= dnswire.MaxName && (order(below, next) < 0) != (kind == "delegation") {
				t.Errorf("%s after %x: %x, for names below", kind, n, next)
			}
			// Neighbours: the name with its first label changed a little.
			for range 2000 {
				other := bytes.Clone(n[1 : 1+n[0]])
				switch i := rand.IntN(len(other)); rand.IntN(3) {
				case 0:
					other[i] += byte(rand.IntN(5)) - 2
				case 1:
					other = other[:len(other)-rand.IntN(2)]
				default:
					other = append(other, []byte{0, 1, 'a', 0xff}[rand.IntN(4)])
				}
				if len(other) == 0 || len(other) > 63 {
					continue
				}
				o := append(append([]byte{byte(len(other))}, other...), n[1+n[0]:]...)
				if len(o) <= dnswire.MaxName && order(n, o) < 0 && order(o, next) < 0 {
					t.Errorf("%s after %x: %x is between it and %x", kind, n, o, next)
				}
			}
		}
	}
}

func TestNXDomainRCode(t *testing.T) {
	for _, c := range []struct {
		do, co bool
		want   dnswire.RCode
	}{{false, false, 3}, {false, true, 3}, {true, false, 0}, {true, true, 3}} {
		if got := NXDomainRCode(c.do, c.co); got != c.want {
			t.Errorf("DO %t, CO %t: %d, want %d", c.do, c.co, got, c.want)
		}
	}
}

// A denial is signed like everything else, for the name that was asked for.
func TestSignedDenial(t *testing.T) {
	z, _, zsk := signing(t, Options{})
	w := z.signer.NewWork()
	owner := wire(t, "a.b.nope.example.com")
	set := &RRset{Owner: owner, Type: dnswire.TypeNSEC, TTL: 60, Data: [][]byte{AppendNoName(nil, owner)}}
	signatures, err := z.Sign(w, set, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	checkSignatures(t, set, []dns.RR{unpack(t, owner, dnswire.TypeNSEC, 60, set.Data[0])}, signatures, zsk)
}

func TestDenialAllocatesNothing(t *testing.T) {
	owner := wire(t, "nope.example.com")
	types := []dnswire.Type{1, 28, 15, 16, 257}
	b := make([]byte, 0, 512)
	if n := testing.AllocsPerRun(100, func() {
		AppendNoName(b, owner)
		AppendNoData(b, owner, types)
		AppendUnsigned(b, owner)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
