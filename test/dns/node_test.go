package dns_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fairlead/test/lab"
)

// A change of the file changes the answers and the serial; one that is wrong
// changes nothing; and a restart does not move the serial.
func TestReload(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	head := "data_dir: " + filepath.Join(dir, "data") + "\nquery_log: {output: " + filepath.Join(dir, "queries.log") + "}\n" + listener("")
	n := lab.Start(t, head+zone("www A 192.0.2.1"))
	address := n.Addr("dns")
	www := func() string { return summary(ask(t, "udp", address, question("www.example.com", "A"))) }
	if got, want := www(), "NOERROR [www.example.com. A 192.0.2.1]"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	first := n.Metric("fairlead_dns_zone_serial", "zone", "example.com")
	n.Write(head + zone("www A 192.0.2.2"))
	n.AwaitRevision(2)
	if got, want := www(), "NOERROR [www.example.com. A 192.0.2.2]"; got != want {
		t.Errorf("after a change: %s, want %s", got, want)
	}
	second := n.Metric("fairlead_dns_zone_serial", "zone", "example.com")
	if second <= first {
		t.Errorf("serial %v after %v", second, first)
	}
	n.Write(head + zone("www A 192.0.2.3", "www CNAME other"))
	n.AwaitRefusals(1)
	n.Write(head + zone("www A 192.0.2.3", "sub NS ns.sub"))
	n.AwaitRefusals(2)
	if got, want := www(), "NOERROR [www.example.com. A 192.0.2.2]"; got != want {
		t.Errorf("after what was refused: %s, want %s", got, want)
	}
	n.AwaitMetric(3, "fairlead_dns_responses_total", "zone", "example.com", "type", "A", "rcode", "NOERROR")
	n.AwaitMetric(3, "fairlead_dns_queries_total", "listener", "dns", "transport", "udp")
	n.Stop()

	again := lab.Start(t, head+zone("www A 192.0.2.2"))
	if serial := again.Metric("fairlead_dns_zone_serial", "zone", "example.com"); serial != second {
		t.Errorf("after a restart the serial is %v, was %v", serial, second)
	}
	b, err := os.ReadFile(filepath.Join(dir, "queries.log"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	var line struct {
		Name, Type, Zone, RCode, Transport string
		Answers                            int
	}
	if err := json.Unmarshal([]byte(lines[0]), &line); err != nil || len(lines) != 3 || line.Name != "www.example.com." || line.Zone != "example.com" || line.RCode != "NOERROR" || line.Answers != 1 || line.Transport != "udp" {
		t.Errorf("query log\n%s\n%v", b, err)
	}
}

// Both planes in one node, and what operators see of them.
func TestBothPlanes(t *testing.T) {
	t.Parallel()
	o := lab.NewOrigin(t, lab.Echo)
	n := lab.Start(t, `
listeners:
  - {name: web, address: "127.0.0.1:0", protocol: http}
  - {name: dns, address: "127.0.0.1:0", protocol: dns}
pools: [{name: main, endpoints: [{name: a, address: "`+o.Addr+`"}]}]
load_balancers: [{name: www.example.com, proxied: true, default_pools: [main]}]
`+zone("www A 192.0.2.1"))
	if got := summary(ask(t, "udp", n.Addr("dns"), question("www.example.com", "A"))); got != "NOERROR [www.example.com. A 192.0.2.1]" {
		t.Error(got)
	}
	protocols := make(map[string]string)
	for _, l := range n.Status().Listeners {
		protocols[l.Name] = string(l.Protocol)
	}
	if protocols["web"] != "http" || protocols["dns"] != "dns" {
		t.Errorf("status shows %v", protocols)
	}
}

// A zone file is taken up when it changes, and one that is wrong is not.
func TestZoneFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "example.com.zone")
	write := func(record string) {
		t.Helper()
		text := "$TTL 60\n@ SOA ns1 host 7 3600 900 1209600 60\n@ NS ns1\nns1 A 192.0.2.53\n" + record + "\n"
		if err := errors.Join(os.WriteFile(file+".new", []byte(text), 0o600), os.Rename(file+".new", file)); err != nil {
			t.Fatal(err)
		}
	}
	write("www A 192.0.2.1")
	n := lab.Start(t, "data_dir: "+t.TempDir()+"\n"+listener("")+"zones: [{name: example.com, file: "+file+"}]\n")
	www := func() string { return summary(ask(t, "udp", n.Addr("dns"), question("www.example.com", "A"))) }
	if got, want := www(), "NOERROR [www.example.com. A 192.0.2.1]"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	write("www A 192.0.2")
	n.AwaitRefusals(1)
	if got, want := www(), "NOERROR [www.example.com. A 192.0.2.1]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if status := n.Status(); !strings.Contains(status.Config.Error, file+":5:7: zone \"example.com\": A: want an IPv4 address") {
		t.Errorf("status says %q", status.Config.Error)
	}
	write("www A 192.0.2.2")
	n.AwaitRevision(2)
	if got, want := www(), "NOERROR [www.example.com. A 192.0.2.2]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if serial := n.Metric("fairlead_dns_zone_serial", "zone", "example.com"); serial != 8 {
		t.Errorf("serial %v, want that of the file and 1, as it has not grown with the change", serial)
	}
}
