package rules

import (
	"fmt"
	"strings"
	"testing"
)

// TestNoAllocation: once the Scratch has its size, an evaluation allocates
// nothing, neither for what is only compared nor for what functions make.
func TestNoAllocation(t *testing.T) {
	var networks, hosts, ports strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&networks, " 10.%d.%d.0/24", i/256, i%256)
		fmt.Fprintf(&hosts, " \"h%d.example.com\"", i)
		fmt.Fprintf(&ports, " %d", 3*i)
	}
	for name, expr := range map[string]string{
		"comparison":           `http.host eq "www.example.com" and ip.src ne 10.0.0.1 and tcp.dstport ge 8000 and ssl`,
		"list of strings":      `http.host in {"a" "b" "www.example.com"}`,
		"long list of strings": `not http.host in {` + hosts.String() + `}`,
		"list of integers":     `not tcp.dstport in {` + ports.String() + `}`,
		"list of networks":     `not ip.src in {` + networks.String() + `}`,
		"contains":             `http.user_agent contains "Linux"`,
		"matches":              `http.request.uri.path matches "^/Blog/[a-z]+\.html$"`,
		"matches, backtracked": `http.request.full_uri matches "(a|ex).*post.*(cdn|x)"`,
		"matches, not ASCII":   `http.user_agent matches "caf\xe9"`,
		"wildcard":             `http.request.full_uri wildcard "https://*.EXAMPLE.com/*"`,
		"strict wildcard":      `http.request.full_uri strict wildcard "https://*.example.com/*"`,
		"any of headers":       `any(http.request.headers["accept"][*] == "application/json")`,
		"all of arguments":     `all(http.request.uri.args["filter"][*] in {"waf" "botm" "cdn"})`,
		"joined arrays":        `any(http.request.headers["accept"][*] == "a" or not http.request.headers["accept"][*] contains "html")`,
		"names of headers":     `any(lower(http.request.headers.names[*])[*] == "content-type")`,
		"lower of each":        `any(lower(http.request.headers["content-type"][*])[*] == "application/json")`,
		"chained arrays":       `any(concat(http.request.uri.args["q"], http.request.uri.args["filter"])[*] eq "cdn")`,
		"index":                `http.request.headers["accept"][1] eq "application/json" and len(http.request.headers.names) > 3`,
		"concat":               `concat(lower(http.request.method), "-", upper(http.host)) eq "get-WWW.EXAMPLE.COM"`,
		"url_decode":           `url_decode(http.request.headers["x-encoded"][0], "r") eq "a b c"`,
		"remove_bytes":         `remove_bytes(http.host, ".") eq "wwwexamplecom"`,
		"substring":            `substring(http.host, -3) eq "com"`,
		"starts_with":          `starts_with(http.request.uri.path, "/Blog/") and ends_with(http.request.uri.path, "html")`,
		"JSON":                 `lookup_json_string(http.request.headers["x-json"][0], "company") eq "cloudflare" and lookup_json_integer(http.request.headers["x-json"][0], "product", "id") eq 356`,
		"token":                `is_timed_hmac_valid_v0("mysecrettoken", http.request.headers["x-token"][0], 10800, http.request.timestamp.sec, 8)`,
		"cidr":                 `cidr(ip.src, 24, 64) eq 192.0.2.0`,
		"not in this mode":     `not dns.qry.type eq 1`,
	} {
		t.Run(name, func(t *testing.T) {
			p, err := Compile(expr, ModeHTTP)
			if err != nil {
				t.Fatal(err)
			}
			env := httpEnv()
			var s Scratch
			if !p.Match(env, &s) {
				t.Errorf("%.100s is false, want true", expr)
			}
			if n := testing.AllocsPerRun(100, func() { p.Match(env, &s) }); n != 0 && !raceDetector {
				t.Errorf("%v allocations for each evaluation, want 0", n)
			}
		})
	}
}

// TestMemory: a Scratch does not keep what one large request needed, nor can a
// request make functions use more than their bound.
func TestMemory(t *testing.T) {
	env := httpEnv()
	env.strs[FieldPath] = []byte(repeat("A", maxKept+1))
	var s Scratch
	p := compile(t, `lower(http.request.uri.path) contains "b" or http.host eq "www.example.com"`)
	if !p.Match(env, &s) {
		t.Error("a large value makes the rest false")
	}
	if cap(s.buf) > maxKept {
		t.Errorf("%d bytes kept, want at most %d", cap(s.buf), maxKept)
	}
	if s.env != nil {
		t.Error("the Env is kept")
	}

	env.strs[FieldPath] = []byte(repeat("A", maxMade/2))
	for _, c := range []struct {
		expr string
		want bool
	}{
		{`concat(http.request.uri.path, http.request.uri.path) contains "A"`, true},
		{`concat(http.request.uri.path, http.request.uri.path, "A") contains "A"`, false},
		{`concat(http.request.uri.path, http.request.uri.path, "A") ne "A"`, true},
		// Each comparison, and each element, has the whole of it.
		{`lower(http.request.uri.path) contains "a" and lower(http.request.uri.path) contains "a" and lower(http.request.uri.path) contains "a"`, true},
		{`all(concat(http.request.headers["accept"][*], lower(http.request.uri.path))[*] contains "a")`, true},
		{`lower(concat(http.request.uri.path, http.request.uri.path)) contains "a"`, false},
	} {
		if got := compile(t, c.expr).Match(env, &s); got != c.want {
			t.Errorf("%s is %v, want %v", c.expr, got, c.want)
		}
	}
}

func compile(t testing.TB, expr string) *Program {
	t.Helper()
	p, err := Compile(expr, ModeHTTP)
	if err != nil {
		t.Fatalf("Compile(%s): %v", expr, err)
	}
	return p
}
