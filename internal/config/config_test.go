package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// mustParse parses what has to be right.
func mustParse(t *testing.T, text string) *Document {
	t.Helper()
	doc, err := Parse("f", []byte(text), "/etc/fairlead")
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestContractKeepsItsMeaning(t *testing.T) {
	data, err := os.ReadFile("testdata/contract.yaml")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := Parse("contract.yaml", data, "/etc/fairlead")
	if err != nil {
		t.Fatal(err)
	}
	c := doc.Config
	for _, v := range []struct {
		what      string
		got, want any
	}{
		{"listeners", len(c.Listeners), 6},
		{"monitors[0].timeout", c.Monitors[0].Timeout, 2 * time.Second},
		{"monitors[0].header.Host", c.Monitors[0].Header["Host"][0], "www.example.com"},
		{"pools[0].endpoints[1].weight", c.Pools[0].Endpoints[1].Weight, 0.5},
		{"pools[1].enabled", c.Pools[1].Enabled, true},
		{"pools[1].endpoints[0].weight", c.Pools[1].Endpoints[0].Weight, 1.0},
		{"load_balancers[0].random_steering.pool_weights.us", c.LoadBalancers[0].RandomSteering.PoolWeights["us"], 0.3},
		{"load_balancers[0].rules[1].fixed_response.status_code", c.LoadBalancers[0].Rules[1].FixedResponse.StatusCode, 410},
		{"listeners[4].tls_routes[2].load_balancers[0].weight", c.Listeners[4].TLSRoutes[2].LoadBalancers[0].Weight, 9},
		{"geo.databases[0]", c.Geo.Databases[0], "/etc/fairlead/country.mmdb"},
		{"data_dir", c.DataDir, "/etc/fairlead/data"},
		{"listeners[1].certificates[0].key", c.Listeners[1].Certificates[0].Key, "/etc/fairlead/www.key"},
		{"shutdown_timeout", c.ShutdownTimeout, 30 * time.Second},
	} {
		if v.got != v.want {
			t.Errorf("%s = %v, want %v", v.what, v.got, v.want)
		}
	}
}

func TestPlaces(t *testing.T) {
	doc := mustParse(t, `node: {name: a}
pools:
  - name: p
    endpoints:
      - {name: e, address: x.org, weight: 0.5}
      - name: f
        address: y.org
        header:
          Host: [a.example.com]
`)
	for path, want := range map[string]string{
		"":                                     "f:1:1",
		"node":                                 "f:1:1",
		"node.name":                            "f:1:14",
		"node.region":                          "f:1:1",
		"listeners":                            "f:1:1",
		"listeners[3].name":                    "f:1:1",
		"pools":                                "f:2:1",
		"pools[0]":                             "f:3:5",
		"pools[0].monitor":                     "f:3:5",
		"pools[0].endpoints":                   "f:4:5",
		"pools[0].endpoints[0]":                "f:5:9",
		"pools[0].endpoints[0].weight":         "f:5:43",
		"pools[0].endpoints[1].weight":         "f:6:9",
		"pools[0].endpoints[7].weight":         "f:4:5",
		"pools[0].endpoints[1].header.Host":    "f:9:11",
		"pools[0].endpoints[1].header.Host[0]": "f:9:18",
	} {
		if got := doc.At(path).String(); got != want {
			t.Errorf("At(%q) = %s, want %s", path, got, want)
		}
	}
}

func TestDefaultsAreFilledInForEveryItem(t *testing.T) {
	c := mustParse(t, `
pools:
  - {name: a, endpoints: [{name: x, address: x.org, weight: ~}, {name: y, address: y.org, enabled: false}]}
  - {name: b, load_shedding: {default_percent: 5}, endpoints: [{name: x, address: x.org}]}
`).Config
	if e := c.Pools[0].Endpoints[0]; e.Weight != 1 || !e.Enabled {
		t.Errorf("endpoint = %+v, want weight 1 and enabled", e)
	}
	if s := c.Pools[1].LoadShedding; s.DefaultPercent != 5 || s.DefaultPolicy != "random" || s.SessionPolicy != "hash" {
		t.Errorf("load_shedding = %+v", s)
	}
	if c.Admin.Address != "127.0.0.1:9090" || c.AccessLog.Sample != 1 {
		t.Errorf("admin = %+v, access_log = %+v", c.Admin, c.AccessLog)
	}
}

func TestAliasesStandForTheirAnchors(t *testing.T) {
	c := mustParse(t, `
monitors:
  - {name: a, timeout: &t 1500ms, header: &h {Host: [a.example.com]}}
  - {name: b, timeout: *t, header: *h}
`).Config
	if got := c.Monitors[1]; got.Timeout != 1500*time.Millisecond || got.Header["Host"][0] != "a.example.com" {
		t.Errorf("monitors[1] = %+v", got)
	}
}

func TestPathsStartAtTheFile(t *testing.T) {
	c := mustParse(t, `
data_dir: ../data
access_log: {output: logs/access.log}
geo: {databases: [/usr/share/geo.mmdb]}
state: {endpoints: ["https://etcd1:2379"], ca: ca.pem, certificate: n.pem, key: n.key}
pools: [{name: p, protocol: https, tls: {ca: ca.pem, certificate: c.pem, key: c.key}, endpoints: [{name: e, address: x.org}]}]
`).Config
	for got, want := range map[string]string{
		c.DataDir: "/etc/data", c.AccessLog.Output: "/etc/fairlead/logs/access.log", c.Geo.Databases[0]: "/usr/share/geo.mmdb",
		c.State.CA: "/etc/fairlead/ca.pem", c.State.Key: "/etc/fairlead/n.key", c.Pools[0].TLS.Certificate: "/etc/fairlead/c.pem",
	} {
		if got != want {
			t.Errorf("path = %s, want %s", got, want)
		}
	}
	if got := mustParse(t, "access_log: {output: stdout}").Config.AccessLog.Output; got != "stdout" {
		t.Errorf("access_log.output = %s, want stdout", got)
	}
}

// What a file can make the loader do is bounded.
func TestBounds(t *testing.T) {
	bomb := "monitors: &a0 [{name: a}]\n"
	for i := range 12 {
		bomb += fmt.Sprintf("x%d: &a%d [%s]\n", i, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 8), ","))
	}
	wide := "pools:\n  - name: p\n    endpoints: &e [" + strings.TrimSuffix(strings.Repeat("{name: a, address: b},", 1000), ",") + "]\n"
	for i := range 99 {
		wide += fmt.Sprintf("  - {name: p%d, endpoints: *e}\n", i)
	}
	for _, c := range []struct{ name, text, want string }{
		{"a file that is too large", strings.Repeat("#", MaxSize+1), "f:1:1: larger than 16 MiB"},
		{"lists in lists", "listeners: " + strings.Repeat("[", 100_000), "f:1:76: nested deeper than 64 levels"},
		{"mappings in mappings", "node: " + strings.Repeat("{a: ", 100_000), "f:1:263: nested deeper than 64 levels"},
		{"items in items", "node:\n" + strings.Repeat("- ", 100_000), "f:2:1001: a block begins behind column 1000"},
		{"blocks in blocks", blocks(2000), "f:1001:1002: a block begins behind column 1000"},
		{"keys", strings.Repeat("a: b\n", 100_000), "f:5001:2: a mapping of more than 5000 keys"},
		{"question marks", strings.Repeat("? ", 100_000), "f:1:1001: a block begins behind column 1000"},
		{"anchors", strings.Repeat("&a ", 100_000), "f:1:3001: more than 1000 anchors"},
		{"aliases", "listeners: [" + strings.Repeat("*a,", 200) + "]", "f:1:313: more than 100 aliases"},
		{"a billion laughs", bomb, "f:2:1: unknown key"},
		{"aliases to much", wide, "aliases stand for more than 100000 values"},
		{"not UTF-8", "node: {name: \xff}", "f:1:14: byte 0xff: want UTF-8 text"},
		{"a zero byte", "node:\n  name: a\x00b", "f:2:10: control character '\\x00': want printable text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			_, err := Parse("f", []byte(c.text), "/")
			var errs Errors
			if !errors.As(err, &errs) || !strings.Contains(errs.Error(), c.want) {
				t.Errorf("Parse: %.300v, want %s", err, c.want)
			}
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

// blocks nests a mapping in each line.
func blocks(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}

func TestLoadCannotRead(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(filepath.Join(dir, "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Load of no file: %v", err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("Load of a directory: %v", err)
	}
}

func TestErrorsAreLines(t *testing.T) {
	_, err := Parse("lb.yaml", []byte("nod: {}\nadmin: {address: 5}\n"), "/")
	want := "lb.yaml:1:1: unknown key \"nod\": did you mean \"node\"?\n" +
		"lb.yaml:2:18: admin.address: want a string, got the number 5; put it in quotes"
	if err == nil || err.Error() != want {
		t.Errorf("Error() = %v, want %s", err, want)
	}
}

func TestCRLFAndBOM(t *testing.T) {
	doc := mustParse(t, "\ufeffnode:\r\n  name: a\r\nadmin: {address: \"off\"}\r\n")
	if doc.Config.Node.Name != "a" || doc.Config.Admin.Address != "off" {
		t.Errorf("config = %+v", doc.Config)
	}
	if got := doc.At("admin.address").String(); got != "f:3:18" {
		t.Errorf("At = %s, want f:3:18", got)
	}
	// Found by FuzzParse: a text over two lines counted them twice.
	doc = mustParse(t, "monitors:\r\n  - name: a\r\n    description: \"two\r\n      lines\"\r\n    retries: 1\r\n")
	if got := doc.At("monitors[0].retries").String(); got != "f:5:14" {
		t.Errorf("At = %s, want f:5:14", got)
	}
	if got, want := doc.Config.Monitors[0].Description, "two lines"; got != want {
		t.Errorf("description = %q, want %q", got, want)
	}
}

// Case C43: a working file with one thing changed is refused, with its place.
func TestCaseC43(t *testing.T) {
	data, err := os.ReadFile("../../examples/http.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, new, want string }{
		{"a misspelt key", "listeners:", "listne:", `unknown key "listne": did you mean "listeners"?`},
		{"a key twice", "    type: http\n", "    type: http\n    type: http\n", `monitor "web": duplicate key "type": it is on line`},
		{"a wrong unit", "timeout: 1s", "timeout: 30sec", `monitor "web": timeout "30sec": unknown unit "sec": want ms, s, m or h`},
		{"a port that is too large", `"127.0.0.1:9001"`, `"127.0.0.1:70000"`, `port "70000": want 1 to 65535`},
		{"a tab", "    type: http", "\ttype: http", "tab in the indentation: want spaces"},
		{"nothing", string(data), "", "empty: want a configuration"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "lb.yaml")
			text := strings.Replace(string(data), c.old, c.new, 1)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Load(file)
			var errs Errors
			if !errors.As(err, &errs) || len(errs) != 1 || !strings.Contains(errs[0].Text, c.want) {
				t.Fatalf("Load: %v, want one error: %s", err, c.want)
			}
			at := strings.Index(text, c.new)
			if line := 1 + strings.Count(text[:at], "\n"); c.new != "" && errs[0].Line != line && errs[0].Line != line+1 {
				t.Errorf("error in line %d, want %d", errs[0].Line, line)
			}
		})
	}
}

// Case C42, as far as files go: one wrong object among many is named alone,
// with its field and place.
func TestCaseC42(t *testing.T) {
	base := "pools: [{name: p, monitor: m, endpoints: [{name: e, address: x.org}]}]\nload_balancers:\n"
	for i := range 20 {
		base += fmt.Sprintf("  - {name: w%d.example.com, proxied: true, default_pools: [p]}\n", i)
	}
	for _, c := range []struct{ name, more, monitor, want string }{
		{"codes", "", `{name: m, expected_codes: "2x"}`, `f:23:38: monitor "m": expected_codes: "2x": want a code from 100 to 599, a class such as 2xx, or a range such as 200-204`},
		{"header", "", `{name: m, header: {Bad Header: [x]}}`, `f:23:31: monitor "m": header.Bad Header: want a header name of letters, digits and -`},
		{"condition", "  - {name: w21.example.com, proxied: true, default_pools: [p], rules: [{name: r, condition: '', fixed_response: {status_code: 404}}]}\n",
			`{name: m}`, `f:23:93: load balancer "w21.example.com": rule "r": condition: missing: want an expression over the request; true always applies`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("f", []byte(base+c.more+"monitors: ["+c.monitor+"]\n"), "/")
			if err == nil || err.Error() != c.want {
				t.Errorf("Parse: %v, want %s", err, c.want)
			}
		})
	}
}
