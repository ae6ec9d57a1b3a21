package dns_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"fairlead/test/lab"
)

// signedZone is a zone with every kind of answer, of which some are steered.
const signedZone = `
pools: [{name: main, endpoints: [{name: a, address: 192.0.2.7}, {name: b, address: 192.0.2.8}]}]
load_balancers: [{name: lb.example.com, default_pools: [main]}, {name: "*.lbs.example.com", default_pools: [main]}, {name: example.com, default_pools: [main]}]
zones:
  - name: example.com
    nameservers: [ns1.example.com]
    dnssec: true
    dnssec_options: {algorithm: %s}
    records:
      - {name: ns1, type: A, content: 127.0.0.1}
      - {name: www, type: A, content: 192.0.2.1}
      - {name: www, type: A, content: 192.0.2.2}
      - {name: www, type: AAAA, content: "2001:db8::1"}
      - {name: "@", type: MX, content: 10 WWW}
      - {name: alias, type: CNAME, content: lb}
      - {name: lost, type: CNAME, content: nope}
      - {name: "*.w", type: TXT, content: wild}
      - {name: old, type: DNAME, content: w}
      - {name: a.b.ent, type: TXT, content: deep}
      - {name: big, type: TXT, content: '"%[2]s" "%[2]s" "%[2]s" "%[2]s" "%[2]s" "%[2]s"'}
      - {name: sub, type: NS, content: ns.sub}
      - {name: ns.sub, type: A, content: 192.0.2.60}
      - {name: sec, type: NS, content: ns.sub}
      - {name: sec, type: DS, content: 60485 13 2 d4b7d520e7bb5f0f67674a0cceb1e3e0614b93c4f9e99b8383f6a1e4469da50a}
`

// validated are questions, and what validators find.
var validated = []struct{ name, kind, want string }{
	{"www.example.com", "A", "A A"},
	{"www.example.com", "AAAA", "AAAA"},
	{"example.com", "MX", "MX"},
	{"example.com", "SOA", "SOA"},
	{"example.com", "NS", "NS"},
	{"example.com", "DNSKEY", "DNSKEY DNSKEY"},
	{"example.com", "A", "A A"},
	{"example.com", "CDS", ""},
	{"example.com", "AAAA", ""},
	{"lb.example.com", "A", "A A"},
	{"lb.example.com", "AAAA", ""},
	{"lb.example.com", "TXT", ""},
	{"x.lbs.example.com", "A", "A A"},
	{"alias.example.com", "A", "CNAME A A"},
	{"alias.example.com", "TXT", "CNAME"},
	{"lost.example.com", "A", "CNAME"},
	{"x.y.w.example.com", "TXT", "TXT"},
	{"x.w.example.com", "A", ""},
	{"x.old.example.com", "TXT", "DNAME CNAME TXT"},
	{"ent.example.com", "A", ""},
	{"b.ent.example.com", "A", ""},
	{"a.b.ent.example.com", "TXT", "TXT"},
	{"big.example.com", "TXT", "TXT"},
	{"nope.example.com", "A", ""},
	{"a.b.c.nope.example.com", "AAAA", ""},
	{"sub.example.com", "DS", ""},
	{"sec.example.com", "DS", "DS"},
}

var signingAlgorithms = []string{"ecdsap256sha256", "ed25519"}

// startSigned starts a node with a signed zone, and returns the DNSKEY record of its
// KSK.
func startSigned(t *testing.T, algorithm string) (*lab.Node, string) {
	t.Helper()
	data := t.TempDir()
	n := lab.Start(t, "data_dir: "+data+"\n"+listener("")+fmt.Sprintf(signedZone, algorithm, strings.Repeat("x", 250)))
	files, err := filepath.Glob(filepath.Join(data, "dnssec", "example.com", "K*.key"))
	if err != nil || len(files) != 2 {
		t.Fatalf("keys: %v %v", files, err)
	}
	for _, file := range files {
		info, err := os.Stat(strings.TrimSuffix(file, ".key") + ".private")
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v: want mode 0600", info, err)
		}
	}
	return n, kskOf(t, filepath.Dir(files[0]))
}

func TestDelv(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("delv"); err != nil {
		t.Skip("delv is not installed: want the package bind9-dnsutils")
	}
	for _, algorithm := range signingAlgorithms {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			n, ksk := startSigned(t, algorithm)
			host, number := port(t, n.Addr("dns"))
			anchor := filepath.Join(t.TempDir(), "anchor")
			f := strings.Fields(ksk) // OWNER IN DNSKEY FLAGS 3 ALGORITHM KEY
			text := fmt.Sprintf("trust-anchors { %s static-key %s %s %s \"%s\"; };\n", f[0], f[3], f[4], f[5], f[6])
			if err := os.WriteFile(anchor, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, q := range validated {
				out, _ := exec.Command("delv", "@"+host, "-p", number, "-a", anchor, "+root=example.com", q.name, q.kind).CombinedOutput()
				if !strings.Contains(string(out), "fully validated") || strings.Contains(string(out), "unsigned answer") {
					t.Errorf("delv %s %s:\n%s", q.name, q.kind, out)
				}
			}
		})
	}
}

// startUnbound starts a validating resolver that knows the KSK of example.com and
// asks the node for it, or for other zones.
func startUnbound(t *testing.T, ksk, server string, zones ...string) netip.AddrPort {
	t.Helper()
	program, err := exec.LookPath("unbound")
	if err != nil {
		if program, err = exec.LookPath("/usr/sbin/unbound"); err != nil {
			t.Skip("unbound is not installed: want the package unbound")
		}
	}
	host, number := port(t, server)
	at := freePort(t)
	dir := t.TempDir()
	text := fmt.Sprintf(`server:
  directory: %q
  chroot: ""
  username: ""
  pidfile: ""
  use-syslog: no
  verbosity: 1
  val-log-level: 2
  interface: 127.0.0.1
  port: %d
  do-not-query-localhost: no
  trust-anchor: %q
  aggressive-nsec: yes
  module-config: "validator iterator"
  num-threads: 1
remote-control:
  control-enable: no
`, dir, at.Port(), ksk)
	if len(zones) == 0 {
		zones = []string{"example.com"}
	}
	for _, zone := range zones {
		text += fmt.Sprintf("stub-zone:\n  name: %s\n  stub-addr: %s@%s\n", zone, host, number)
	}
	file := filepath.Join(dir, "unbound.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "-d", "-c", file)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		cmd.Wait() // it was killed
		log.Close()
		if t.Failed() {
			out, _ := os.ReadFile(log.Name())
			t.Logf("unbound:\n%s", out)
		}
	})
	return at
}

// freePort returns an address whose port nobody has, over UDP and TCP.
func freePort(t *testing.T) netip.AddrPort {
	t.Helper()
	for range 50 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := l.Addr().String()
		u, err := net.ListenPacket("udp", at)
		l.Close()
		if err == nil {
			u.Close()
			return netip.MustParseAddrPort(at)
		}
	}
	t.Fatal("no port is free over UDP and TCP")
	return netip.AddrPort{}
}

// Unbound finds all answers secure, whatever it has learned of the names before.
func TestUnbound(t *testing.T) {
	t.Parallel()
	for _, algorithm := range signingAlgorithms {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			n, ksk := startSigned(t, algorithm)
			resolver := startUnbound(t, ksk, n.Addr("dns"))
			for range 2 {
				for _, q := range validated {
					m := new(dns.Msg)
					m.SetQuestion(q.name+".", dns.StringToType[q.kind])
					m.SetEdns0(4096, true)
					r := resolved(t, resolver, m)
					var types []string
					for _, rr := range r.Answer {
						if rr.Header().Rrtype != dns.TypeRRSIG {
							types = append(types, dns.TypeToString[rr.Header().Rrtype])
						}
					}
					if got := strings.Join(types, " "); got != q.want || !r.AuthenticatedData || r.Rcode != dns.RcodeSuccess && r.Rcode != dns.RcodeNameError {
						t.Errorf("%s %s: %s, want %s, and authentic\n%v", q.name, q.kind, got, q.want, r)
					}
				}
			}
		})
	}
}

// resolved asks a resolver, which may have just been started.
func resolved(t *testing.T, resolver netip.AddrPort, m *dns.Msg) *dns.Msg {
	t.Helper()
	c := dns.Client{Net: "tcp", Timeout: 10 * time.Second}
	for deadline := time.Now().Add(20 * time.Second); ; {
		r, _, err := c.Exchange(m, resolver.String())
		if err == nil {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		select { // until it listens
		case <-t.Context().Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
}
