package dns_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"fairlead/test/lab"
)

// kskOf returns the DNSKEY record of the KSK in a directory of keys.
func kskOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "K*.key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, " DNSKEY 257 ") {
				return strings.TrimSpace(line)
			}
		}
	}
	t.Fatalf("no KSK among %v", files)
	return ""
}

// A zone becomes signed while it is served, and its parent gets the DS records: from
// then on a resolver that knows the parent's key finds its answers secure, those of
// a child that is not signed insecure, and those of one that has lost its keys
// bogus.
func TestChainOfTrust(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	config := func(childSigned bool, ds string) string {
		return "data_dir: " + data + "\n" + listener("") + fmt.Sprintf(`
zones:
  - name: example.com
    nameservers: [ns1.example.com]
    dnssec: true
    records:
      - {name: ns1, type: A, content: 127.0.0.1}
      - {name: child, type: NS, content: ns1}
      - {name: plain, type: NS, content: ns1}
%s
  - {name: child.example.com, nameservers: [ns1.example.com], dnssec: %t, records: [{name: www, type: A, content: 192.0.2.1}]}
  - {name: plain.example.com, nameservers: [ns1.example.com], records: [{name: www, type: A, content: 192.0.2.2}]}
`, ds, childSigned)
	}
	n := lab.Start(t, config(false, ""))
	n.Write(config(true, ""))
	n.AwaitRevision(2)
	child, err := dns.NewRR(kskOf(t, filepath.Join(data, "dnssec", "child.example.com")))
	if err != nil {
		t.Fatal(err)
	}
	ds := child.(*dns.DNSKEY).ToDS(dns.SHA256)
	n.Write(config(true, fmt.Sprintf("      - {name: child, type: DS, content: %d %d %d %s}", ds.KeyTag, ds.Algorithm, ds.DigestType, ds.Digest)))
	n.AwaitRevision(3)

	check := func(resolverZones []string, name string, rcode int, authentic bool) {
		t.Helper()
		resolver := startUnbound(t, kskOf(t, filepath.Join(data, "dnssec", "example.com")), n.Addr("dns"), resolverZones...)
		m := new(dns.Msg)
		m.SetQuestion(name, dns.TypeA)
		m.SetEdns0(4096, true)
		if r := resolved(t, resolver, m); r.Rcode != rcode || r.AuthenticatedData != authentic || rcode == dns.RcodeSuccess && len(r.Answer) == 0 {
			t.Errorf("%s: %v\nwant %s, authentic %t", name, r, dns.RcodeToString[rcode], authentic)
		}
	}
	zones := []string{"example.com", "child.example.com", "plain.example.com"}
	check(zones, "www.child.example.com.", dns.RcodeSuccess, true)
	check(zones, "www.plain.example.com.", dns.RcodeSuccess, false)
	n.Write(config(false, fmt.Sprintf("      - {name: child, type: DS, content: %d %d %d %s}", ds.KeyTag, ds.Algorithm, ds.DigestType, ds.Digest)))
	n.AwaitRevision(4)
	check(zones, "www.child.example.com.", dns.RcodeServerFailure, false)
}

// Keys that BIND's tools have made sign.
func TestKeysOfBIND(t *testing.T) {
	t.Parallel()
	keygen, err := exec.LookPath("dnssec-keygen")
	if err != nil {
		t.Skip("dnssec-keygen is not installed: want the package bind9-utils")
	}
	for _, algorithm := range []string{"ECDSAP256SHA256", "ED25519"} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var files []string
			for _, args := range [][]string{{"-f", "KSK"}, nil} {
				out, err := exec.Command(keygen, append(args, "-q", "-K", dir, "-a", algorithm, "example.com")...).Output()
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, filepath.Join(dir, strings.TrimSpace(string(out))+".private"))
			}
			text := fmt.Sprintf(signedZone, strings.ToLower(algorithm), strings.Repeat("x", 250))
			text = strings.Replace(text, "dnssec_options: {algorithm: "+strings.ToLower(algorithm)+"}", "dnssec_options: {key_files: ["+strings.Join(files, ", ")+"]}", 1)
			n := lab.Start(t, "data_dir: "+t.TempDir()+"\n"+listener("")+text)
			resolver := startUnbound(t, kskOf(t, dir), n.Addr("dns"))
			for _, name := range []string{"www.example.com.", "lb.example.com.", "nope.example.com."} {
				m := new(dns.Msg)
				m.SetQuestion(name, dns.TypeA)
				m.SetEdns0(4096, true)
				if r := resolved(t, resolver, m); !r.AuthenticatedData {
					t.Errorf("%s is not authentic:\n%v", name, r)
				}
			}
		})
	}
}
