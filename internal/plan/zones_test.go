package plan

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fairlead/internal/dnswire"
	"fairlead/internal/zone"
)

const zonesBase = `
listeners:
  - {name: web, address: "127.0.0.1:0", protocol: http}
  - {name: dns, address: "127.0.0.1:0", protocol: dns}
`

// What a zone checker finds is told at its place: in the configuration, or in the
// file of the zone.
func TestZonesAreChecked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "example.net.zone")
	if err := os.WriteFile(file, []byte("$TTL 300\n@ SOA ns1 host 1 2 3 4 5\n@ NS ns1\n@ NS ns2\nns1 A 192.0.2.1\nwww CNAME nope\nbad A x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	checked := func(text string) []string {
		var list []string
		for _, p := range Zones(declared(t, zonesBase+text)) {
			line := p.Path + ": " + p.Text
			if p.File != "" {
				line = filepath.Base(p.File) + ":" + string(rune('0'+p.Line)) + ": " + p.Text
			}
			if p.Warning {
				line = "warning: " + line
			}
			list = append(list, line)
		}
		return list
	}
	for _, c := range []struct{ name, text, want string }{
		{"all right", `
zones:
  - {name: example.com, nameservers: [ns1.example.net], records: [{name: www, type: A, content: 192.0.2.1}, {name: "*", type: CNAME, content: www}]}
`, ""},
		{"a record that leads nowhere", `
zones:
  - {name: example.com, nameservers: [ns1.example.net], records: [{name: www, type: CNAME, content: nope}]}
`, `warning: zones[0].records[0]: zone "example.com": www.example.com. CNAME: nope.example.com. does not exist`},
		{"a delegation without glue", `
zones:
  - {name: example.com, nameservers: [ns1.example.net], records: [{name: sub, type: NS, content: ns.sub}]}
`, `zones[0].records[0]: zone "example.com": sub.example.com. NS: ns.sub.example.com. has no A or AAAA record here: its name is below the delegation, so that resolvers need this glue`},
		{"an alias by the number of its type", `
zones:
  - {name: example.com, nameservers: [ns1.example.net], records: [{name: a, type: TYPE5, content: '\# 3 016100'}, {name: a, type: A, content: 192.0.2.1}]}
`, `zones[0].records[0]: zone "example.com": a.example.com. has both CNAME and A; keep one`},
		{"errors in a zone file", `
zones: [{name: example.net, file: ` + file + `}]
`, `example.net.zone:7: zone "example.net": A: want an IPv4 address`},
		{"no zone file", `
zones: [{name: example.net, file: /nowhere/at/all}]
`, `zones[0].file: zone "example.net": file "/nowhere/at/all": open /nowhere/at/all: no such file or directory`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.Join(checked(c.text), "\n"); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
	// With what cannot be read put right the rest is found.
	if err := os.WriteFile(file, []byte("$TTL 300\n@ SOA ns1 host 1 2 3 4 5\n@ NS ns1\n@ NS ns2\nns1 A 192.0.2.1\nwww CNAME nope\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := checked("zones: [{name: example.net, file: " + file + "}]\n")
	want := []string{
		`example.net.zone:4: zone "example.net": example.net. NS: ns2.example.net. does not exist`,
		`warning: example.net.zone:6: zone "example.net": www.example.net. CNAME: nope.example.net. does not exist`,
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestZonesAreCompiled(t *testing.T) {
	tab := tables(t)
	tab.Serials = new(zone.Serials)
	const text = zonesBase + `
zones:
  - name: Example.com
    nameservers: [NS1.example.com, ns.example.net]
    soa: {contact: john.doe@example.org, minimum: 60s, ttl: 30m}
    records: [{name: ns1, type: A, content: 192.0.2.53}, {name: "@", type: MX, content: 10 mail, ttl: 1h}, {name: mail, type: A, content: 192.0.2.25}]
  - {name: example.net, nameservers: [ns.example.net], records: [{name: ns, type: AAAA, content: "2001:db8::53"}]}
`
	p := compiled(t, text, 1, tab)
	if len(p.Listeners) != 1 || p.Listeners[0].Name != "web" || len(p.DNSListeners) != 1 || p.DNSListeners[0].Name != "dns" {
		t.Errorf("listeners: %v and %v", p.Listeners, p.DNSListeners)
	}
	if len(p.Zones) != 2 || p.Zones[0].Name != "example.com" || p.Zones[1].Name != "example.net" {
		t.Fatalf("zones: %v", p.Zones)
	}
	z := p.Zones[0]
	soa := z.SOA
	if soa.Primary.String() != "ns1.example.com." || soa.Contact.String() != `john\.doe.example.org.` || soa.Minimum != 60 || soa.Refresh != 3600 || soa.Serial == 0 {
		t.Errorf("SOA: %+v", soa)
	}
	if ns := z.Apex().Set(dnswire.TypeNS); ns.Count != 2 || ns.TTL != 1800 {
		t.Errorf("NS: %+v", ns)
	}
	if mx := z.Apex().Set(dnswire.TypeMX); mx.TTL != 3600 || len(mx.Targets) != 1 {
		t.Errorf("MX: %+v", mx)
	}
	var k dnswire.Key
	name, _ := dnswire.ParseName("x.example.net.", "")
	k.SetName(name)
	if got := p.Authority.Find(&k, dnswire.TypeA); got != 1 {
		t.Errorf("zone %d answers for example.net", got)
	}

	// A zone that stays is the same one; a changed one has a newer serial.
	tab.Serials.Keep([]*zone.Zone{p.Zones[0].Zone, p.Zones[1].Zone})
	again, err := Compile(declared(t, strings.Replace(text, "192.0.2.25", "192.0.2.26", 1)), p, tab)
	if err != nil {
		t.Fatal(err)
	}
	if again.Zones[1].Zone != p.Zones[1].Zone {
		t.Error("a zone that has not changed was made anew")
	}
	if !dnswire.Newer(again.Zones[0].SOA.Serial, soa.Serial) {
		t.Errorf("serial %d after %d, though the zone has changed", again.Zones[0].SOA.Serial, soa.Serial)
	}
	if same, err := Compile(declared(t, text), p, tab); err != nil || same.Zones[0].Zone != p.Zones[0].Zone {
		t.Errorf("a plan that changes nothing makes the zone anew: %v", err)
	}
}

// The serial of a zone file is its own, unless that would not tell of a change.
func TestSerialOfZoneFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "zone")
	tab := tables(t)
	tab.Serials = new(zone.Serials)
	p := &Plan{}
	for _, c := range []struct {
		name, serial, address string
		want                  uint32
	}{
		{"the first", "7", "192.0.2.1", 7},
		{"a change with a new serial", "9", "192.0.2.2", 9},
		{"a change without one", "9", "192.0.2.3", 10},
		{"no change", "9", "192.0.2.3", 10},
		{"a new serial without a change", "20", "192.0.2.3", 20},
	} {
		if err := os.WriteFile(file, []byte("$TTL 60\n@ SOA ns1 host "+c.serial+" 2 3 4 5\n@ NS ns1\nns1 A "+c.address+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var err error
		if p, err = Compile(declared(t, zonesBase+"zones: [{name: example.com, file: "+file+"}]\n"), p, tab); err != nil {
			t.Fatal(err)
		}
		if got := p.Zones[0].SOA.Serial; got != c.want {
			t.Errorf("%s: serial %d, want %d", c.name, got, c.want)
		}
		tab.Serials.Keep([]*zone.Zone{p.Zones[0].Zone})
	}
	if err := os.WriteFile(file, []byte("@ 60 NS ns1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Compile(declared(t, zonesBase+"zones: [{name: example.com, file: "+file+"}]\n"), p, tab); err == nil || !strings.Contains(err.Error(), `zone "example.com": no SOA record`) {
		t.Errorf("a file that has become wrong: %v", err)
	}
}

// A zone that is signed from now on keeps what is signed, and a zone file whose
// answers are kept longer than signatures hold is refused.
func TestSignedZones(t *testing.T) {
	tab := tables(t)
	tab.Serials = new(zone.Serials)
	const text = zonesBase + "zones: [{name: example.com, nameservers: [ns.example.net]}]\n"
	p := compiled(t, text, 1, tab)
	if soa := p.Zones[0].Apex().Set(dnswire.TypeSOA); soa.Data != nil {
		t.Error("a zone that is not signed keeps what is not needed")
	}
	signed, err := Compile(declared(t, strings.Replace(text, "net]}", "net], dnssec: true}", 1)), p, tab)
	if err != nil {
		t.Fatal(err)
	}
	soa := signed.Zones[0].Apex().Set(dnswire.TypeSOA)
	if len(soa.Data) != 1 || dnswire.SOAOf(soa.Data[0]).Serial != signed.Zones[0].SOA.Serial || len(signed.Zones[0].Negative().Data) != 1 {
		t.Errorf("SOA: %x, serial %d", soa.Data, signed.Zones[0].SOA.Serial)
	}
	if signed.Zones[0].LongestTTL != 3600 {
		t.Errorf("longest TTL %d", signed.Zones[0].LongestTTL)
	}

	file := filepath.Join(t.TempDir(), "example.net.zone")
	if err := os.WriteFile(file, []byte("$TTL 8d\n@ SOA ns.example.org. host 1 2 3 4 5\n@ NS ns.example.org.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for suffix, want := range map[string]string{"": "", ", dnssec: true": "want at most half of signature_validity (336h)", ", dnssec: true, dnssec_options: {signature_validity: 500h}": ""} {
		problems := Zones(declared(t, zonesBase+"zones: [{name: example.net, file: "+file+suffix+"}]\n"))
		switch {
		case want == "" && len(problems) > 0, want != "" && (len(problems) != 1 || problems[0].Path != "zones[0].file" || !strings.Contains(problems[0].Text, want)):
			t.Errorf("%s: %+v, want %q", suffix, problems, want)
		}
	}
}
