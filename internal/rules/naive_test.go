package rules

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// rounds is how often each comparison with a naive implementation is made.
const rounds = 600

func seeded() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func text(r *rand.Rand, alphabet string, most int) string {
	b := make([]byte, r.IntN(most+1))
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}

// is evaluates expr with http.host set to v.
func is(t *testing.T, expr, v string) bool {
	t.Helper()
	env := testEnv{strs: map[Field][]byte{FieldHost: []byte(v)}}
	var s Scratch
	return compile(t, expr).Match(&env, &s)
}

// naiveWildcard tries every length for each star.
func naiveWildcard(pattern, v string) bool {
	if pattern == "" {
		return v == ""
	}
	if pattern[0] == '*' {
		for i := range len(v) + 1 {
			if naiveWildcard(pattern[1:], v[i:]) {
				return true
			}
		}
		return false
	}
	return v != "" && v[0] == pattern[0] && naiveWildcard(pattern[1:], v[1:])
}

func TestWildcardLikeNaive(t *testing.T) {
	r := seeded()
	hits := 0
	for range rounds {
		pattern := text(r, "abA*", 8)
		for strings.Contains(pattern, "**") {
			pattern = strings.ReplaceAll(pattern, "**", "*")
		}
		v := text(r, "abA", 10)
		want := naiveWildcard(pattern, v)
		if got := is(t, "http.host strict wildcard "+quoted(pattern), v); got != want {
			t.Fatalf("%q strict wildcard %q is %v, want %v", v, pattern, got, want)
		}
		if want {
			hits++
		}
		want = naiveWildcard(strings.ToLower(pattern), strings.ToLower(v))
		if got := is(t, "http.host wildcard "+quoted(pattern), v); got != want {
			t.Fatalf("%q wildcard %q is %v, want %v", v, pattern, got, want)
		}
	}
	if hits < rounds/60 {
		t.Errorf("only %d of %d matched: choose other texts", hits, rounds)
	}
}

func TestListsLikeNaive(t *testing.T) {
	r := seeded()
	for range rounds / 30 {
		n := 1 + r.IntN(60)
		var ints, ips, strs []string
		type span struct{ low, high int64 }
		var intSpans []span
		var ipSpans [][2]netip.Addr
		words := map[string]bool{}
		for range n {
			low := int64(r.IntN(400) - 200)
			high := low + int64(r.IntN(12))
			ints, intSpans = append(ints, fmt.Sprintf("%d..%d", low, high)), append(intSpans, span{low, high})

			a := address(r)
			switch r.IntN(3) {
			case 0:
				ips, ipSpans = append(ips, a.String()), append(ipSpans, [2]netip.Addr{a, a})
			case 1:
				p, _ := a.Prefix(a.BitLen() - r.IntN(9))
				ips, ipSpans = append(ips, p.String()), append(ipSpans, [2]netip.Addr{p.Addr(), lastOf(p)})
			case 2:
				b := address(r)
				for b.Is4() != a.Is4() {
					b = address(r)
				}
				if b.Less(a) {
					a, b = b, a
				}
				ips, ipSpans = append(ips, a.String()+".."+b.String()), append(ipSpans, [2]netip.Addr{a, b})
			}

			w := text(r, "abc", 3)
			words[w] = true
			strs = append(strs, quoted(w))
		}
		intList := compile(t, "tcp.dstport in {"+strings.Join(ints, " ")+"}")
		ipList := compile(t, "ip.src in {"+strings.Join(ips, " ")+"}")
		strList := compile(t, "http.host in {"+strings.Join(strs, " ")+"}")
		for range 100 {
			v, a, w := int64(r.IntN(440)-220), address(r), text(r, "abc", 3)
			env := &testEnv{
				ints: map[Field]int64{FieldTCPPort: v}, ips: map[Field]netip.Addr{FieldClientIP: a}, strs: map[Field][]byte{FieldHost: []byte(w)},
			}
			wantInt, wantIP := false, false
			for _, s := range intSpans {
				wantInt = wantInt || s.low <= v && v <= s.high
			}
			for _, s := range ipSpans {
				wantIP = wantIP || s[0].Is4() == a.Is4() && !a.Less(s[0]) && !s[1].Less(a)
			}
			var s Scratch
			if got := intList.Match(env, &s); got != wantInt {
				t.Fatalf("%d in %s is %v, want %v", v, intList, got, wantInt)
			}
			if got := ipList.Match(env, &s); got != wantIP {
				t.Fatalf("%v in %s is %v, want %v", a, ipList, got, wantIP)
			}
			if got := strList.Match(env, &s); got != words[w] {
				t.Fatalf("%q in %s is %v, want %v", w, strList, got, words[w])
			}
		}
	}
}

// address returns one of some thousand addresses near each other.
func address(r *rand.Rand) netip.Addr {
	if r.IntN(2) == 0 {
		return netip.AddrFrom4([4]byte{10, 0, byte(r.IntN(8)), byte(r.IntN(256))})
	}
	b := netip.MustParseAddr("2001:db8::").As16()
	b[14], b[15] = byte(r.IntN(8)), byte(r.IntN(256))
	return netip.AddrFrom16(b)
}

// TestSetBounds: the ends of the integers, and lists as long as they come.
func TestSetBounds(t *testing.T) {
	var hosts, networks strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&hosts, "\"host%d\" ", i)
		if i < 1500 {
			fmt.Fprintf(&networks, "2001:db8:%x::/48 10.%d.%d.0/25 ", i, i/256, i%256)
		}
	}
	for _, c := range []struct {
		expr string
		set  func(*testEnv)
		want bool
	}{
		{`tcp.dstport in {-9223372036854775808..-9223372036854775807 9223372036854775807}`, func(e *testEnv) { e.ints[FieldTCPPort] = -1 << 63 }, true},
		{`tcp.dstport in {-9223372036854775808 9223372036854775806..9223372036854775807}`, func(e *testEnv) { e.ints[FieldTCPPort] = 1<<63 - 1 }, true},
		{`tcp.dstport in {-9223372036854775808 9223372036854775807}`, func(e *testEnv) { e.ints[FieldTCPPort] = 0 }, false},
		{`tcp.dstport in {-9223372036854775808..9223372036854775807}`, func(e *testEnv) { e.ints[FieldTCPPort] = 0 }, true},
		{`ip.src in {0.0.0.0..255.255.255.255}`, func(e *testEnv) { e.ips[FieldClientIP] = netip.MustParseAddr("255.255.255.255") }, true},
		{`ip.src in {255.255.255.255 ::}`, func(e *testEnv) { e.ips[FieldClientIP] = netip.MustParseAddr("::") }, true},
		{`ip.src in {::/0}`, func(e *testEnv) {
			e.ips[FieldClientIP] = netip.MustParseAddr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")
		}, true},
		{`http.host in {` + hosts.String() + `}`, func(e *testEnv) { e.strs[FieldHost] = []byte("host2999") }, true},
		{`http.host in {` + hosts.String() + `}`, func(e *testEnv) { e.strs[FieldHost] = []byte("host3000") }, false},
		{`ip.src in {` + networks.String() + `}`, func(e *testEnv) { e.ips[FieldClientIP] = netip.MustParseAddr("2001:db8:5db:ffff::1") }, true},
		{`ip.src in {` + networks.String() + `}`, func(e *testEnv) { e.ips[FieldClientIP] = netip.MustParseAddr("10.5.219.127") }, true},
		{`ip.src in {` + networks.String() + `}`, func(e *testEnv) { e.ips[FieldClientIP] = netip.MustParseAddr("10.5.219.128") }, false},
	} {
		env := httpEnv()
		c.set(env)
		var s Scratch
		if got := compile(t, c.expr).Match(env, &s); got != c.want {
			t.Errorf("%.80s is %v, want %v", c.expr, got, c.want)
		}
	}
}

// TestStringsLikeStandardLibrary compares what works on strings with what the
// standard library has for it.
func TestStringsLikeStandardLibrary(t *testing.T) {
	r := seeded()
	for range rounds {
		v := text(r, "aB%2+f4-\"\\\xe9\x00", 12)
		for _, c := range []struct {
			expr string
			want bool
		}{
			{"http.host contains " + quoted(v[len(v)/2:]), true},
			{`http.host contains "a%"`, strings.Contains(v, "a%")},
			{`http.host < "aB"`, v < "aB"},
			{"http.host eq " + quoted(v), true},
			{"lower(http.host) eq " + quoted(string(bytes.Map(lowerRune, []byte(latin(v))))), !strings.Contains(v, "\xe9")},
			{fmt.Sprintf("len(http.host) eq %d", len(v)), true},
			{"remove_bytes(http.host, \"aB\") eq " + quoted(strings.NewReplacer("a", "", "B", "").Replace(v)), true},
			{"substring(http.host, 1, -1) eq " + quoted(v[min(1, len(v)):max(len(v)-1, min(1, len(v)))]), true},
		} {
			if got := is(t, c.expr, v); got != c.want {
				t.Fatalf("%s is %v for %q, want %v", c.expr, got, v, c.want)
			}
		}
		if decoded, err := url.QueryUnescape(v); err == nil {
			if expr := "url_decode(http.host) eq " + quoted(decoded); !is(t, expr, v) {
				t.Fatalf("%s is false for %q", expr, v)
			}
		}
	}
}

func lowerRune(r rune) rune {
	if r < 0x80 {
		return rune(lowerByte(byte(r)))
	}
	return r
}

// latin replaces what is not ASCII, so that a text is UTF-8.
func latin(s string) string { return strings.ReplaceAll(s, "\xe9", "?") }

// TestPatternsLikeBytes compares patterns on bytes with Go's on characters, where
// each byte of the value is written as the character of its number.
func TestPatternsLikeBytes(t *testing.T) {
	r := seeded()
	for range rounds {
		v := text(r, "ab\xe9\xc3\x80", 6)
		pattern := text(r, "ab.*+^$|()", 6)
		re, err := regexp.Compile(pattern)
		if err != nil {
			continue
		}
		var wide []rune
		for _, c := range []byte(v) {
			wide = append(wide, rune(c))
		}
		want := re.MatchString(string(wide))
		if got := is(t, "http.host matches "+quotedPattern(pattern), v); got != want {
			t.Fatalf("%q matches %q is %v, want %v", v, pattern, got, want)
		}
	}
}

// TestMacLikeStandardLibrary: keys of all lengths around the block's.
func TestMacLikeStandardLibrary(t *testing.T) {
	r := seeded()
	var s Scratch
	for range rounds {
		key, a, b := text(r, "ab\x00\xff", 150), text(r, "xyz", 100), text(r, "123", 10)
		h := hmac.New(sha256.New, []byte(key))
		h.Write([]byte(a + b))
		var tok token
		tok.setKey([]byte(key))
		if got := tok.mac(&s, []byte(a), []byte(b)); !bytes.Equal(got[:], h.Sum(nil)) {
			t.Fatalf("mac(%q, %q, %q) = %x, want %x", key, a, b, got, h.Sum(nil))
		}
	}
}

// TestJSONLikeStandardLibrary looks up every value of random documents, and
// changes them at random, so that some are no documents.
func TestJSONLikeStandardLibrary(t *testing.T) {
	r := seeded()
	for range rounds / 3 {
		doc, err := json.Marshal(map[string]any{
			text(r, "ab\"\\é\n", 3): []any{text(r, "x\"\\\u2601/<", 4), r.Int64() - r.Int64(), nil},
			"k":                     map[string]any{text(r, "yz", 1): r.IntN(100), "f": r.Float64(), "l": []any{}, "s": text(r, "\x7f\x01{}[],:", 5)},
		})
		if err != nil {
			t.Fatal(err)
		}
		if r.IntN(3) == 0 {
			doc[r.IntN(len(doc))] = `{}[]",:\0a-`[r.IntN(11)]
		}
		var root any
		d := json.NewDecoder(bytes.NewReader(doc))
		d.UseNumber()
		valid := utf8.Valid(doc) && json.Valid(doc) && d.Decode(&root) == nil
		var walk func(v any, path string)
		walk = func(v any, path string) {
			switch v := v.(type) {
			case map[string]any:
				for k, x := range v {
					walk(x, path+", "+quoted(k))
				}
			case []any:
				for i, x := range v {
					walk(x, path+", "+strconv.Itoa(i))
				}
			case string:
				if expr := "lookup_json_string(http.host" + path + ") eq " + quoted(v); path != "" && !is(t, expr, string(doc)) {
					t.Fatalf("%s is false for %s", expr, doc)
				}
			case json.Number:
				n, err := v.Int64()
				if expr := fmt.Sprintf("lookup_json_integer(http.host%s) eq %d", path, n); path != "" && is(t, expr, string(doc)) != (err == nil) {
					t.Fatalf("%s is %v for %s", expr, err != nil, doc)
				}
			}
		}
		if valid {
			walk(root, "")
		} else if is(t, `lookup_json_integer(http.host, "k", "y") ge 0`, string(doc)) {
			t.Fatalf("something is found in %s, which is no document", doc)
		}
	}
}
