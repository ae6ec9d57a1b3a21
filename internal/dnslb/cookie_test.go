package dnslb

import (
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/miekg/dns"
)

func secretOf(t testing.TB, s string) secret { return secret(unhex(t, s)) }

// The examples of RFC 9018, appendix A.
func TestCookiesOfTheRFC(t *testing.T) {
	const client, server = "2464c4abcf10c957", "010000005cf79f111f8130c3eee29480"
	c := &cookies{secrets: []secret{secretOf(t, "e5e973e5a6b2a43f48e7dc849e37bfcf")}}
	from := netip.MustParseAddr("198.51.100.100")
	at := time.Unix(0x5cf79f11, 0)
	if got := hex.EncodeToString(c.answer(nil, unhex(t, client), from, at)); got != client+server {
		t.Errorf("cookie %s, want %s", got, client+server)
	}
	cookie := unhex(t, client+server)
	for _, test := range []struct {
		name      string
		after     time.Duration
		ok, renew bool
	}{
		{"fresh", 10 * time.Minute, true, false},
		{"old", 31 * time.Minute, true, true},
		{"too old", time.Hour + time.Second, false, true},
		{"of a clock that is ahead", -4 * time.Minute, true, false},
		{"of the future", -6 * time.Minute, false, true},
	} {
		if ok, renew := c.valid(cookie, from, at.Add(test.after)); ok != test.ok || renew != test.renew {
			t.Errorf("%s: valid %t, renew %t, want %t, %t", test.name, ok, renew, test.ok, test.renew)
		}
	}
	if ok, _ := c.valid(cookie, netip.MustParseAddr("198.51.100.101"), at); ok {
		t.Error("valid for another address")
	}
	if ok, _ := c.valid(append([]byte("another!"), cookie[8:]...), from, at); ok {
		t.Error("valid with another client's cookie")
	}
	other := append([]byte(nil), cookie...)
	other[8] = 2
	if ok, _ := c.valid(other, from, at); ok {
		t.Error("another version is valid")
	}

	// A.4: IPv6, and a secret that has been replaced.
	rolled := &cookies{secrets: []secret{secretOf(t, "445536bcd2513298075a5d379663c962"), secretOf(t, "dd3bdf9344b678b185a6f5cb60fca715")}}
	from = netip.MustParseAddr("2001:db8:220:1:59de:d0f4:8769:82b8")
	cookie, at = unhex(t, "22681ab97d52c298010000005cf7c57926556bd0934c72f8"), time.Unix(0x5cf7c609, 0)
	if ok, renew := rolled.valid(cookie, from, at); !ok || !renew {
		t.Errorf("a cookie of the secret before: valid %t, renew %t", ok, renew)
	}
	if got, want := hex.EncodeToString(rolled.answer(nil, cookie, from, at)), "22681ab97d52c298010000005cf7c609a6bb79d16625507a"; got != want {
		t.Errorf("cookie %s, want %s", got, want)
	}
}

func TestCookieSecretsOfFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secrets")
	if err := os.WriteFile(file, []byte("# new\n445536bcd2513298075a5d379663c962\n\ndd3bdf9344b678b185a6f5cb60fca715\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := loadCookies(file)
	if err != nil || len(c.secrets) != 2 || c.secrets[0] != secretOf(t, "445536bcd2513298075a5d379663c962") {
		t.Fatalf("%+v, %v", c, err)
	}
	if _, err := loadCookies(file + "x"); err == nil {
		t.Error("no file is no error")
	}
}

// cookieOf returns the cookie of an answer.
func cookieOf(m *dns.Msg) string {
	if o := m.IsEdns0(); o != nil {
		for _, e := range o.Option {
			if c, ok := e.(*dns.EDNS0_COOKIE); ok {
				return c.Cookie
			}
		}
	}
	return ""
}

func withCookie(m *dns.Msg, cookie string) *dns.Msg {
	m.SetEdns0(1232, false)
	m.IsEdns0().Option = append(m.IsEdns0().Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: cookie})
	return m
}

func TestCookies(t *testing.T) {
	r := newResponder(t, listenerText("")+zoneText)
	const mine = "0102030405060708"
	got := ask(t, r, withCookie(query("www.example.com", "A"), mine), overUDP)
	cookie := cookieOf(got)
	if len(cookie) != 48 || cookie[:16] != mine || got.Rcode != dns.RcodeSuccess || len(got.Answer) != 2 {
		t.Fatalf("the answer to a client's cookie: %v", got)
	}
	if again := cookieOf(ask(t, r, withCookie(query("www.example.com", "A"), cookie), overUDP)); again != cookie {
		t.Errorf("a good cookie %s became %s", cookie, again)
	}
	wrong := cookie[:40] + "00000000"
	if got := cookieOf(ask(t, r, withCookie(query("www.example.com", "A"), wrong), overUDP)); got != cookie {
		t.Errorf("a wrong cookie was answered with %s, want %s", got, cookie)
	}
	for kind, want := range map[cookieKind]uint64{cookieClient: 1, cookieValid: 1, cookieInvalid: 1} {
		if n := r.ln.stats.cookies[kind].Load(); n != want {
			t.Errorf("%d queries with cookie %v, want %d", n, kind, want)
		}
	}
	// A query that asks for a cookie alone (RFC 7873 section 5.4).
	m := withCookie(new(dns.Msg), mine)
	if got := ask(t, r, m, overUDP); got.Rcode != dns.RcodeSuccess || cookieOf(got) != cookie {
		t.Errorf("a query for a cookie: %v", got)
	}
	off := newResponder(t, listenerText("dns: {cookies: false}")+zoneText)
	if got := cookieOf(ask(t, off, withCookie(query("www.example.com", "A"), mine), overUDP)); got != "" {
		t.Errorf("where cookies are off: %s", got)
	}
}
