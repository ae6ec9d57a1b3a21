package resolve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// dnsServer runs a name server on the loopback, UDP and TCP on one port.
func dnsServer(t *testing.T, h dns.HandlerFunc) netip.AddrPort {
	t.Helper()
	for range 20 {
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", pc.LocalAddr().String())
		if err != nil { // taken for TCP
			pc.Close()
			continue
		}
		for _, s := range []*dns.Server{{PacketConn: pc, Handler: h}, {Listener: l, Handler: h}} {
			done := make(chan struct{})
			started := make(chan struct{})
			s.NotifyStartedFunc = func() { close(started) }
			go func() {
				defer close(done)
				s.ActivateAndServe()
			}()
			<-started
			t.Cleanup(func() {
				s.Shutdown()
				<-done
			})
		}
		return netip.MustParseAddrPort(pc.LocalAddr().String())
	}
	t.Fatal("no port is free for both UDP and TCP")
	return netip.AddrPort{}
}

// silentServer takes questions and never answers.
func silentServer(t *testing.T) netip.AddrPort {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pc.Close() })
	return netip.MustParseAddrPort(pc.LocalAddr().String())
}

// records answers from zone-file lines; a name without any gets NXDOMAIN.
func records(t *testing.T, lines ...string) dns.HandlerFunc {
	var rrs []dns.RR
	for _, l := range lines {
		rr, err := dns.NewRR(l)
		if err != nil {
			t.Fatal(err)
		}
		rrs = append(rrs, rr)
	}
	soa, _ := dns.NewRR("example.test. 3600 IN SOA ns. host. 1 1 1 1 30")
	return func(w dns.ResponseWriter, q *dns.Msg) {
		r := new(dns.Msg).SetReply(q)
		r.RecursionAvailable = true
		name, exists := q.Question[0].Name, false
		for range 10 {
			next := ""
			for _, rr := range rrs {
				if !strings.EqualFold(rr.Header().Name, name) {
					continue
				}
				exists = true
				if c, ok := rr.(*dns.CNAME); ok {
					r.Answer = append(r.Answer, rr)
					next = c.Target
				} else if rr.Header().Rrtype == q.Question[0].Qtype {
					r.Answer = append(r.Answer, rr)
				}
			}
			if next == "" {
				break
			}
			name = next
		}
		if !exists {
			r.Rcode = dns.RcodeNameError
		}
		if len(r.Answer) == 0 {
			r.Ns = append(r.Ns, soa)
		}
		if _, udp := w.RemoteAddr().(*net.UDPAddr); udp {
			size := dns.MinMsgSize
			if o := q.IsEdns0(); o != nil {
				size = int(o.UDPSize())
			}
			r.Truncate(size)
		}
		w.WriteMsg(r)
	}
}

// show writes an answer as text: addresses and TTL, or the error, by family.
func show(a answer) string {
	var s []string
	for _, f := range a {
		switch {
		case f.err == nil:
			s = append(s, fmt.Sprintf("%v %v", f.addrs, f.ttl))
		case errors.Is(f.err, errNotFound):
			s = append(s, fmt.Sprintf("none %v", f.ttl))
		default:
			s = append(s, "failed")
		}
	}
	return strings.Join(s, ", ")
}

func TestLookup(t *testing.T) {
	var long []string
	for i := range 70 {
		long = append(long, fmt.Sprintf("long.example.test. 60 IN A 192.0.2.%d", i))
	}
	server := dnsServer(t, records(t, append(long,
		"a.example.test. 60 IN A 192.0.2.1",
		"a.example.test. 50 IN A 192.0.2.2",
		"both.example.test. 60 IN A 192.0.2.1",
		"both.example.test. 70 IN AAAA 2001:db8::1",
		"six.example.test. 70 IN AAAA 2001:db8::1",
		"c.example.test. 40 IN CNAME d.example.test.",
		"d.example.test. 20 IN CNAME A.example.test.",
		"loop.example.test. 40 IN CNAME loop2.example.test.",
		"loop2.example.test. 40 IN CNAME loop.example.test.",
		"dangling.example.test. 40 IN CNAME nowhere.example.test.",
		"mx.example.test. 40 IN MX 10 a.example.test.",
		"null.example.test. 60 IN A 0.0.0.0",
		"null.example.test. 60 IN A 224.0.0.1",
	)...))
	hosts := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(hosts, []byte("192.0.2.77 Pinned.example.test pinned # comment\n::7\tpinned.example.test\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := newClient(Config{Servers: []netip.AddrPort{server}, HostsFile: hosts})
	for host, want := range map[string]string{
		"a.example.test":        "[192.0.2.1 192.0.2.2] 50s, none 30s",
		"A.EXAMPLE.test.":       "[192.0.2.1 192.0.2.2] 50s, none 30s",
		"both.example.test":     "[192.0.2.1] 1m0s, [2001:db8::1] 1m10s",
		"six.example.test":      "none 30s, [2001:db8::1] 1m10s",
		"c.example.test":        "[192.0.2.1 192.0.2.2] 20s, none 0s",
		"mx.example.test":       "none 30s, none 30s",
		"null.example.test":     "none 0s, none 30s",
		"nobody.example.test":   "none 30s, none 30s",
		"loop.example.test":     "none 0s, none 0s",
		"dangling.example.test": "none 0s, none 0s",
		"pinned.example.test":   "[192.0.2.77] 30s, [::7] 30s",
		"pinned":                "[192.0.2.77] 30s, none 30s",
		"not a host name..":     "failed, failed",
	} {
		if got := show(c.lookup(t.Context(), host)); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
	if got := c.lookup(t.Context(), "long.example.test")[0]; len(got.addrs) != maxAddresses { // only TCP holds it
		t.Errorf("a long answer gave %d addresses (%v), want %d", len(got.addrs), got.err, maxAddresses)
	}
}

// TestServers: who is asked when others fail.
func TestServers(t *testing.T) {
	good := func(t *testing.T) netip.AddrPort {
		return dnsServer(t, records(t, "a.example.test. 60 IN A 192.0.2.1"))
	}
	rcode := func(code int) func(*testing.T) netip.AddrPort {
		return func(t *testing.T) netip.AddrPort {
			return dnsServer(t, func(w dns.ResponseWriter, q *dns.Msg) { w.WriteMsg(new(dns.Msg).SetRcode(q, code)) })
		}
	}
	edit := func(f func(*dns.Msg)) func(*testing.T) netip.AddrPort {
		return func(t *testing.T) netip.AddrPort {
			return dnsServer(t, func(w dns.ResponseWriter, q *dns.Msg) {
				r := new(dns.Msg).SetReply(q)
				rr, _ := dns.NewRR(q.Question[0].Name + " 60 IN A 192.0.2.66")
				r.Answer = append(r.Answer, rr)
				f(r)
				w.WriteMsg(r)
			})
		}
	}
	closed := func(*testing.T) netip.AddrPort {
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer pc.Close()
		return netip.MustParseAddrPort(pc.LocalAddr().String())
	}
	const ok = "[192.0.2.1] 1m0s, none 30s"
	for _, c := range []struct {
		name    string
		servers []func(*testing.T) netip.AddrPort
		want    string
	}{
		{"SERVFAIL, then an answer", []func(*testing.T) netip.AddrPort{rcode(dns.RcodeServerFailure), good}, ok},
		{"REFUSED, then an answer", []func(*testing.T) netip.AddrPort{rcode(dns.RcodeRefused), good}, ok},
		{"silence, then an answer", []func(*testing.T) netip.AddrPort{silentServer, good}, ok},
		{"nobody, then an answer", []func(*testing.T) netip.AddrPort{closed, good}, ok},
		{"SERVFAIL", []func(*testing.T) netip.AddrPort{rcode(dns.RcodeServerFailure)}, "failed, failed"},
		{"NXDOMAIN is an answer", []func(*testing.T) netip.AddrPort{rcode(dns.RcodeNameError), good}, "none 0s, none 0s"},
		{"another id, then an answer", []func(*testing.T) netip.AddrPort{edit(func(r *dns.Msg) { r.Id++ }), good}, ok},
		{"another question, then an answer", []func(*testing.T) netip.AddrPort{edit(func(r *dns.Msg) { r.Question[0].Name = "b.example.test." }), good}, ok},
		{"no response bit, then an answer", []func(*testing.T) netip.AddrPort{edit(func(r *dns.Msg) { r.Response = false }), good}, ok},
		{"referral, then an answer", []func(*testing.T) netip.AddrPort{edit(func(r *dns.Msg) {
			ns, _ := dns.NewRR("example.test. 60 IN NS ns.example.test.")
			r.Answer, r.Ns = nil, []dns.RR{ns}
		}), good}, ok},
		{"somebody else's records", []func(*testing.T) netip.AddrPort{edit(func(r *dns.Msg) {
			for _, rr := range r.Answer {
				rr.Header().Name = "evil.example."
			}
		})}, "none 0s, none 0s"},
		{"no EDNS", []func(*testing.T) netip.AddrPort{func(t *testing.T) netip.AddrPort {
			answer := records(t, "a.example.test. 60 IN A 192.0.2.1")
			return dnsServer(t, func(w dns.ResponseWriter, q *dns.Msg) {
				if q.IsEdns0() != nil {
					w.WriteMsg(new(dns.Msg).SetRcode(q, dns.RcodeFormatError))
					return
				}
				answer(w, q)
			})
		}}, ok},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var servers []netip.AddrPort
			for _, s := range c.servers {
				servers = append(servers, s(t))
			}
			client := newClient(Config{Servers: servers, HostsFile: os.DevNull})
			if got := show(client.lookup(t.Context(), "a.example.test")); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// TestLookupEnds: a look-up ends with its context, not with its time-outs.
func TestLookupEnds(t *testing.T) {
	c := newClient(Config{Servers: []netip.AddrPort{silentServer(t)}, HostsFile: os.DevNull})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	start := time.Now()
	if got := show(c.lookup(ctx, "a.example.test")); got != "failed, failed" {
		t.Errorf("%s, want failed", got)
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("took %v", d)
	}
}

// TestSearch: search domains are tried for names of few dots, and not past a
// failure.
func TestSearch(t *testing.T) {
	var mu sync.Mutex
	var asked []string
	answer := records(t, "web.second.test. 60 IN A 192.0.2.1", "web. 60 IN A 192.0.2.2", "www.example.test. 60 IN A 192.0.2.3")
	fail := ""
	server := dnsServer(t, func(w dns.ResponseWriter, q *dns.Msg) {
		mu.Lock()
		if q.Question[0].Qtype == dns.TypeA {
			asked = append(asked, q.Question[0].Name)
		}
		broken := fail == q.Question[0].Name
		mu.Unlock()
		if broken {
			w.WriteMsg(new(dns.Msg).SetRcode(q, dns.RcodeServerFailure))
			return
		}
		answer(w, q)
	})
	c := newClient(Config{HostsFile: os.DevNull, ResolvConf: os.DevNull})
	c.system.resolv.parse = func([]byte) resolvConf {
		return resolvConf{servers: []netip.AddrPort{server}, search: []string{"first.test.", "second.test."}, ndots: 1}
	}
	for _, s := range []struct{ host, fail, want, asked string }{
		{"web", "", "[192.0.2.1] 1m0s, none 30s", "web.first.test. web.second.test."},
		{"web.", "", "[192.0.2.2] 1m0s, none 30s", "web."},
		{"www.example.test", "", "[192.0.2.3] 1m0s, none 30s", "www.example.test."},
		{"other", "", "none 30s, none 30s", "other.first.test. other.second.test. other."},
		{"web", "web.first.test.", "failed, failed", "web.first.test."},
	} {
		mu.Lock()
		asked, fail = nil, s.fail
		mu.Unlock()
		got := show(c.lookup(t.Context(), s.host))
		mu.Lock()
		names := strings.Join(slices.Compact(slices.Clone(asked)), " ")
		mu.Unlock()
		if got != s.want || names != s.asked {
			t.Errorf("%s: %s after asking for %s; want %s after %s", s.host, got, names, s.want, s.asked)
		}
	}
}

// TestEndToEnd: a resolver of the zero configuration's kind against a real
// server whose answer changes.
func TestEndToEnd(t *testing.T) {
	var mu sync.Mutex
	h := records(t, "o.example.test. 1 IN A 127.0.0.1")
	server := dnsServer(t, func(w dns.ResponseWriter, q *dns.Msg) {
		mu.Lock()
		defer mu.Unlock()
		h(w, q)
	})
	log, _ := newLog(t)
	r := New(Config{Servers: []netip.AddrPort{server}, HostsFile: os.DevNull, Log: log, MinTTL: 10 * time.Millisecond, MaxTTL: 20 * time.Millisecond})
	defer r.Close()
	n := r.Name("o.example.test")
	r.Prime(t.Context(), n)
	if a := n.Addresses(); len(a) != 1 || a[0].String() != "127.0.0.1" {
		t.Fatalf("addresses = %v", a)
	}
	mu.Lock()
	h = records(t, "o.example.test. 1 IN A 127.0.0.2")
	mu.Unlock()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for n.Addresses()[0].String() != "127.0.0.2" {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("addresses = %v, want the new one", n.Addresses())
		}
	}
}

func TestRoutable(t *testing.T) {
	if !routable(netip.MustParseAddr("127.0.0.1")) {
		t.Error("the loopback is not routable")
	}
}

func TestParseResolvConf(t *testing.T) {
	c := parseResolvConf([]byte("# comment\nnameserver 192.0.2.53\nnameserver fe80::1%lo\nnameserver ns.example.test\nsearch a.test b.test.\noptions ndots:2 timeout:1\nnonsense\n"))
	want := resolvConf{
		servers: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.53:53"), netip.MustParseAddrPort("[fe80::1%lo]:53")},
		search:  []string{"a.test.", "b.test."}, ndots: 2,
	}
	if fmt.Sprint(c) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", c, want)
	}
	if got := c.fullNames("x.y"); !slices.Equal(got, []string{"x.y.a.test.", "x.y.b.test.", "x.y."}) {
		t.Errorf("full names = %v", got)
	}
	if got := c.fullNames("x.y.z"); !slices.Equal(got, []string{"x.y.z."}) {
		t.Errorf("full names = %v", got)
	}
}

// TestCachedFile: a file is read again when it has changed, and keeps its last
// value when it is gone.
func TestCachedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	f := cachedFile[string]{path: path, parse: func(b []byte) string { return string(b) }}
	again := func() string {
		f.looked = time.Time{}
		return f.get()
	}
	if got := f.get(); got != "" {
		t.Errorf("a missing file says %q", got)
	}
	for _, text := range []string{"one", "other"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := again(); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	os.Remove(path)
	if got := again(); got != "other" {
		t.Errorf("got %q after the file went", got)
	}
}

func FuzzParseHosts(f *testing.F) {
	f.Add([]byte("127.0.0.1 localhost\n::1 ip6-localhost # x\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, addrs := range parseHosts(text) {
			if name != strings.ToLower(name) || len(addrs) == 0 || len(addrs) > maxAddresses {
				t.Errorf("%q: %v", name, addrs)
			}
		}
	})
}

// FuzzAnswer reads messages that a server may send: what is taken from them are
// addresses of the family asked for, and bounded.
func FuzzAnswer(f *testing.F) {
	for _, lines := range [][]string{
		{"a.example.test. 60 IN A 192.0.2.1"},
		{"a.example.test. 60 IN CNAME b.example.test.", "b.example.test. 60 IN A 192.0.2.1"},
		{"a.example.test. 60 IN CNAME a.example.test."},
	} {
		m := new(dns.Msg)
		m.SetQuestion("a.example.test.", dns.TypeA)
		m.Response = true
		for _, l := range lines {
			rr, err := dns.NewRR(l)
			if err != nil {
				f.Fatal(err)
			}
			m.Answer = append(m.Answer, rr)
		}
		wire, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		m := new(dns.Msg)
		if m.Unpack(wire) != nil {
			return
		}
		for i, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
			got, err := read(m, "a.example.test.", qtype)
			if err != nil {
				continue
			}
			if len(got.addrs) > maxAddresses || (len(got.addrs) == 0) != errors.Is(got.err, errNotFound) || got.ttl < 0 {
				t.Errorf("read = %+v", got)
			}
			for _, a := range got.addrs {
				if i == 0 && !a.Is4() || a.IsUnspecified() || a.IsMulticast() {
					t.Errorf("address %v of type %d", a, qtype)
				}
			}
		}
	})
}
