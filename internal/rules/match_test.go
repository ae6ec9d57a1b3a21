package rules

import (
	"strings"
	"testing"
)

// matches lists expressions that are true and expressions that are false for
// the request of httpEnv.
var matches = map[string][]struct {
	expr string
	want bool
}{
	"comparisons of strings": {
		{`http.host eq "www.example.com"`, true},
		{`http.host == "www.example.com"`, true},
		{`http.host == "WWW.example.com"`, false},
		{`http.host ne "a"`, true},
		{`http.host != "www.example.com"`, false},
		{`http.host lt "x"`, true},
		{`http.host < "www.example.com"`, false},
		{`http.host le "www.example.com"`, true},
		{`http.host <= "w"`, false},
		{`http.host gt "www"`, true},
		{`http.host > "www.example.com"`, false},
		{`http.host ge "www.example.com"`, true},
		{`http.host >= "x"`, false},
		{`http.request.headers["x-bytes"][0] > "\xfe"`, true}, // bytes, not characters
		{`http.host contains "example"`, true},
		{`http.host contains "EXAMPLE"`, false},
		{`http.host contains ""`, true},
		{`http.referer eq ""`, true},
		{`http.host=="www.example.com"`, true},
		{`http.host eq"www.example.com"`, true},
	},
	"comparisons of integers": {
		{`ip.src.asnum eq 64500`, true},
		{`ip.src.asnum == 64501`, false},
		{`ip.src.asnum ne 64500`, false},
		{`ip.src.asnum lt 64501`, true},
		{`ip.src.asnum le 64500`, true},
		{`ip.src.asnum gt 64500`, false},
		{`ip.src.asnum ge 64500`, true},
		{`ip.src.asnum bitwise_and 4`, true}, // 0xfbf4
		{`ip.src.asnum & 3`, false},
		{`ip.src.asnum&0x8000`, true},
		{`ip.geoip.asnum > -1`, true},
		{`tcp.dstport == 0x20fb`, true},
		{`tcp.dstport == 020373`, true},
		{`tcp.dstport == 0`, false},
		{`tcp.dstport > -9223372036854775808`, true},
		{`tcp.dstport < 9223372036854775807`, true},
	},
	"comparisons of addresses": {
		{`ip.src eq 192.0.2.7`, true},
		{`ip.src == 192.0.2.8`, false},
		{`ip.src ne 192.0.2.8`, true},
		{`ip.src ne 2001:db8::1`, true},
		{`ip.src lt 192.0.2.8`, true},
		{`ip.src le 192.0.2.7`, true},
		{`ip.src gt 192.0.2.6`, true},
		{`ip.src ge 192.0.2.8`, false},
		{`ip.src lt ffff::`, false}, // of another family
		{`ip.src ge ::`, false},
	},
	"lists": {
		{`http.host in {"a" "www.example.com"}`, true},
		{`http.host in {"a" "b"}`, false},
		{`http.host in { "a" r"www.example.com" "a" }`, true},
		{"http.request.method in {\n  \"GET\"\r\n  \"HEAD\"\n}", true},
		{`http.host in {"` + "a\" \"b\" \"c\" \"d\" \"e\" \"f\" \"g\" \"h\" \"i\" \"j\" \"www.example.com" + `"}`, true},
		{`http.host in {"a" "b" "c" "d" "e" "f" "g" "h" "i" "j" "www.example.org"}`, false},
		{`tcp.dstport in {80 443 8443}`, true},
		{`tcp.dstport in {8000..8009 8080..8089}`, false},
		{`tcp.dstport in {8400..8443}`, true},
		{`tcp.dstport in {8443..8443}`, true},
		{`tcp.dstport in {-5..5 0x20fb}`, true},
		{`ip.src in {192.0.2.0/24}`, true},
		{`ip.src in {192.0.2.7}`, true},
		{`ip.src in {192.0.2.1..192.0.2.9}`, true},
		{`ip.src in {192.0.2.8..192.0.2.9 10.0.0.0/8 2001:db8::/32}`, false},
		{`ip.src in {0.0.0.0/0}`, true},
		{`ip.src in {0.0.0.0/1}`, false},
		{`ip.src in {::/0}`, false},
		{`ip.src in{192.0.2.7/32}`, true},
		{`not ip.src in {192.0.2.7}`, false},
	},
	"patterns": {
		{`http.host matches "^www\."`, true},
		{`http.host ~ "example"`, true},
		{`http.host matches "^example"`, false},
		{`http.host matches r"\.com$"`, true},
		{`http.host matches r#"^(www|store)\.example\.com$"#`, true},
		{`http.request.uri.path matches "(?i)^/blog/"`, true},
		{`http.request.uri.path matches "^/blog/"`, false},
		{`http.host matches "[a-z\"\]]+"`, true},
		{`http.host matches "[a-z"]+x"`, true},
		{`http.request.headers["x-array"][0] matches "^\[\"other\""`, true},
		{`http.request.headers["x-bytes"][0] matches "^\xff.A$"`, true}, // . is a byte, and this is one
		{`http.request.headers["x-bytes"][0] matches "^.{3}$"`, true},
		{`http.request.headers["x-bytes"][0] matches "^[\x80-\xff]"`, true},
		{`http.user_agent matches "caf.\x20"`, true},
		{`http.user_agent matches "caf\xe9"`, true},
		{`http.user_agent matches "é$"`, true},
		{`http.user_agent matches "(?i)É$"`, false}, // without Unicode there is no case over 0x7f
		{`http.user_agent matches "(?iu)É$"`, true},
		{`http.user_agent matches "(?u) \p{L}$"`, true},
		{`http.user_agent matches "(?u)[é]$"`, true},
		{`http.user_agent matches " .$"`, false}, // two bytes
		{`http.user_agent matches "(?-u) ..$"`, true},
		{`http.host matches ""`, true},
		{`http.host matches r"^[[:alpha:].]+$"`, true},
	},
	"wildcards": {
		{`http.request.full_uri wildcard "https://*.example.com/*"`, true},
		{`http.request.full_uri wildcard "https://example.com/*"`, false},
		{`http.request.uri.path wildcard "/blog/*"`, true},
		{`http.request.uri.path strict wildcard "/blog/*"`, false},
		{`http.request.uri.path strict wildcard "/Blog/*"`, true},
		{"http.request.uri.path strict\n wildcard \"/Blog/*.html\"", true},
		{`http.request.uri.path wildcard "/blog"`, false}, // the whole value
		{`http.host wildcard "*"`, true},
		{`http.host wildcard "www.example.com*"`, true},
		{`http.host wildcard "*www.example.com"`, true},
		{`http.host wildcard "w*w*w*"`, true},
		{`http.host wildcard "w*m*m"`, true},
		{`http.host wildcard "www.example.com*com"`, false}, // pieces do not overlap
		{`http.host wildcard "www?example.com"`, false},
		{`http.host wildcard ""`, false},
		{`http.referer wildcard ""`, true},
		{`http.host wildcard r"www\*"`, false},
		{`http.host wildcard "WWW.*"`, true},
	},
	"logic": {
		{`true`, true},
		{`false`, false},
		{`not false`, true},
		{`!false`, true},
		{`! false`, true},
		{`not not true`, true},
		{`(true)`, true},
		{`((true) and (not false))`, true},
		{`true and false`, false},
		{`true && true`, true},
		{`true&&true`, true},
		{`false or true`, true},
		{`false || false`, false},
		{`true xor false`, true},
		{`true ^^ true`, false},
		{`true xor true xor true`, true},
		{`false and false or true`, true},            // (false and false) or true
		{`true or true and false`, true},             // true or (true and false)
		{`true or true xor true`, true},              // true or (true xor true)
		{`(true or true) xor true`, false},           //
		{`true xor true and false`, true},            // true xor (true and false)
		{`not false and false`, false},               // (not false) and false
		{`not http.host eq "a" and true`, true},      // not (http.host eq "a")
		{`not ssl or ssl`, true},                     //
		{`ssl`, true},                                //
		{`not ssl`, false},                           //
		{`!ssl||http.host=="www.example.com"`, true}, //
		{" \n ssl \r\n and\nssl ", true},
		{`not(ssl)`, false},
	},
	"arrays and maps": {
		{`http.request.headers["accept"][0] eq "text/html"`, true},
		{`http.request.headers["accept"][1] eq "application/json"`, true},
		{`http.request.headers["Accept"][0] eq "text/html"`, false}, // keys are in lower case
		{`http.request.headers[r"accept"][ 1 ] eq "application/json"`, true},
		{`any(http.request.headers["accept"][*] == "application/json")`, true},
		{`all(http.request.headers["accept"][*] == "application/json")`, false},
		{`all(http.request.headers["accept"][*] contains "/")`, true},
		{`any(not http.request.headers["accept"][*] contains "html")`, true},
		{`any(http.request.headers["accept"][*] == "a" or http.request.headers["accept"][*] == "text/html")`, true},
		{`any((http.request.headers["accept"][*] == "a" or http.request.headers["accept"][*] == "text/html"))`, true},
		{`all(http.request.headers["accept"][*] == "text/html" xor http.request.headers["accept"][*] == "application/json")`, true},
		{`any(http.request.headers["accept"][*] == "text/html" and http.request.headers["content-type"][*] == "Application/JSON")`, true},
		{`any(http.request.headers["accept"][*] == "application/json" and http.request.headers["host"][*] contains "w")`, false}, // cut to the shortest
		{`any(http.request.headers.names[*] == "Content-Type")`, true},                                                           // as received
		{`any(lower(http.request.headers.names[*])[*] == "content-type")`, true},
		{`http.request.headers.names[0] == "Host"`, true},
		{`http.request.headers.values[1] == "text/html"`, true},
		{`any(http.request.headers.values[*] == "application/json")`, true},
		{`any(http.request.headers[*][*] == "application/json")`, true},
		{`any(http.request.uri.args["filter"][*] in {"botm" "x"})`, true},
		{`http.request.uri.args["Filter"][0] eq "waf"`, false}, // names of arguments keep their case
		{`http.request.uri.args["empty"][0] eq ""`, true},
		{`http.request.uri.args.names[4] == "empty"`, true},
		{`http.request.uri.args.values[3] == "John%20Doe"`, true},
		{`http.request.cookies["lang"][1] == "en"`, true},
		{`any(http.request.cookies["lang"][*] == "fr")`, false},
		{`lower(http.request.headers["content-type"][*])[0] == "application/json"`, true},
		{`any(starts_with(http.request.headers["accept"][*], "text/"))`, true},
		{`any(starts_with(http.request.headers["accept"][*], "text/")[*])`, true},
		{`starts_with(http.request.headers["accept"][*], "text/")[1]`, false},
		{`any(concat(http.request.headers["accept"][*], ";q=1")[*] == "text/html;q=1")`, true},
		{`any(concat(http.request.headers.names, http.request.uri.args.names)[*] == "q")`, true},
		{`concat(http.request.uri.args["q"], http.request.uri.args["filter"])[2] == "botm"`, true},
		{`all(len(http.request.uri.args["filter"][*])[*] in {3 4})`, true},
		{`all(not len(http.request.uri.args["filter"][*])[*] in {3 4})`, false},
	},
	"missing values": {
		{`http.request.headers["none"][0] eq "a"`, false},
		{`http.request.headers["none"][0] ne "a"`, true},
		{`not http.request.headers["none"][0] eq "a"`, true},
		{`http.request.headers["accept"][2] eq "a"`, false},
		{`http.request.headers["accept"][2] ne "a"`, true},
		{`http.request.headers["none"][0] contains ""`, false},
		{`http.request.headers["none"][0] matches ""`, false},
		{`http.request.headers["none"][0] wildcard "*"`, false},
		{`http.request.headers["none"][0] in {""}`, false},
		{`http.request.headers["none"][0] lt "z"`, false},
		{`http.request.headers["none"][0] ge ""`, false},
		{`any(http.request.headers["none"][*] eq "a")`, false},
		{`any(http.request.headers["none"][*] ne "a")`, false},
		{`all(http.request.headers["none"][*] eq "a")`, true},
		{`any(lower(http.request.headers["none"][*])[*] eq "a")`, false},
		{`len(http.request.uri.args["filter"]) >= 0`, true},
		{`not len(http.request.uri.args["order"]) >= 0`, true},
		{`len(http.request.uri.args["order"]) ne 3`, true},
		{`len(http.request.headers["none"][0]) ge 0`, false},
		{`lower(http.request.headers["none"][0]) ne "a"`, true},
		{`starts_with(http.request.headers["none"][0], "")`, false},
		{`ip.src.continent eq "EU"`, false},
		{`ip.src.continent ne "EU"`, true},
		{`http.request.body.size bitwise_and 1`, false},
		{`http.request.body.size ne 1`, true},
		{`tls.sni in {"a"}`, false},
		{`concat(http.request.headers["none"][0], "b") eq "b"`, true},
		{`concat(http.request.headers["none"][0], tls.sni) eq ""`, false},
		{`dns.qry.type eq 28`, false}, // not in this mode
		{`dns.qry.type ne 28`, true},
		{`dns.qry.qu`, false},
		{`dns.qry.name contains ""`, false},
		{`dns.rr.opt.client.addr ne 1.1.1.1`, true},
	},
	"literals": {
		{`http.host eq "\x77\167w.example.com"`, true},
		{`http.request.headers["x-bytes"][0] eq "\xff\000A"`, true},
		{`http.request.headers["x-bytes"][0] eq ff:00:41`, true},
		{`http.request.headers["x-bytes"][0] eq FF-00.41`, true},
		{`http.request.headers["x-bytes"][0] contains 00:41`, true},
		{`http.request.headers["x-bytes"][0] in {00:00 ff:00:41 "a"}`, true},
		{`http.host eq r"www.example.com"`, true},
		{`http.host eq r#"www.example.com"#`, true},
		{`http.request.headers["x-array"][0] eq r##"["other", {"k\"ey": "v\n"}, 7]"##`, true},
		{`http.request.headers["x-array"][0] contains "\"k\\\"ey\""`, true},
		{`http.user_agent contains "é"`, true}, // UTF-8 in an expression stands for its bytes
		{`http.user_agent contains "\xc3\xa9"`, true},
		{`http.host ne "` + "a\nb" + `"`, true},
	},
	"functions": {
		{`lower(http.request.uri.path) eq "/blog/post.html"`, true},
		{`upper(http.host) eq "WWW.EXAMPLE.COM"`, true},
		{`upper(lower(http.request.uri.path)) eq "/BLOG/POST.HTML"`, true},
		{`lower(http.user_agent) contains "\xc3\xa9"`, true}, // only ASCII changes
		{`len(http.host) eq 15`, true},
		{`len(http.referer) == 0`, true},
		{`len(http.request.headers.names) gt 10`, true},
		{`len(http.request.uri.args["filter"]) eq 3`, true},
		{`len(http.request.uri.args["filter"][1]) eq 4`, true},
		{`len(concat(http.request.uri.args["filter"], http.request.uri.args["q"])) eq 4`, true},
		{`len(http.request.uri.args["filter"][*] eq "waf") eq 3`, true},
		{`starts_with(http.request.uri.path, "/Blog")`, true},
		{`not starts_with(http.request.uri.path, "/blog")`, true},
		{`starts_with(lower(http.request.uri.path), "/blog")`, true},
		{`starts_with(http.request.full_uri, concat("https://", http.host, "/"))`, true},
		{`ends_with(http.request.uri.path, ".html")`, true},
		{`ends_with(http.request.uri.path, "HTML")`, false},
		{`concat("a", http.host, "b") eq "awww.example.comb"`, true},
		{`concat("String1", " ", "String", "2") == "String1 String2"`, true},
		{`concat(lower(http.request.method), upper(http.host), lower(http.request.version)) eq "getWWW.EXAMPLE.COMhttp/2"`, true},
		{`concat(http.request.method, concat(http.request.method, "-", http.host)) eq "GETGET-www.example.com"`, true},
		{`substring(http.host, 4, 11) eq "example"`, true},
		{`substring(http.host, 4) eq "example.com"`, true},
		{`substring(http.host, -3) eq "com"`, true},
		{`substring(http.host, 0, -4) eq "www.example"`, true},
		{`substring(http.host, -100, 3) eq "www"`, true},
		{`substring(http.host, 5, 2) eq ""`, true},
		{`substring(http.host, 100) eq ""`, true},
		{`substring(http.host, 0, 100) eq "www.example.com"`, true},
		{`url_decode(http.request.uri.args["q"][0]) eq "John Doe"`, true},
		{`url_decode(http.request.headers["x-encoded"][0]) eq "a%20b c"`, true},
		{`url_decode(http.request.headers["x-encoded"][0], "r") eq "a b c"`, true},
		{`url_decode(http.request.headers["x-unicode"][0], "u") eq "☁!"`, true},
		{`url_decode(http.request.headers["x-unicode"][0]) eq "%u2601!"`, true},
		{`any(url_decode(http.request.uri.args.values[*])[*] eq "John Doe")`, true},
		{`remove_bytes(http.host, "\x2e\x77") eq "examplecom"`, true},
		{`remove_bytes(http.host, 2e:77) eq "examplecom"`, true},
		{`remove_bytes(http.host, "") eq "www.example.com"`, true},
		{`lookup_json_string(http.request.headers["x-json"][0], "company") eq "cloudflare"`, true},
		{`lookup_json_string(http.request.headers["x-json"][0], "company2") eq ""`, true},
		{`lookup_json_string(http.request.headers["x-json"][0], "product") ne ""`, true}, // no string: missing
		{`lookup_json_string(http.request.headers["x-json"][0], "product", "x", 2, "n") eq "last"`, true},
		{`lookup_json_string(http.request.headers["x-array"][0], 0) eq "other"`, true},
		{`lookup_json_string(http.request.headers["x-array"][0], 1, "k\"ey") eq "v\x0a"`, true},
		{`lookup_json_string(http.request.headers["x-array"][0], 3) eq "other"`, false},
		{`lookup_json_string(http.request.headers["x-broken"][0], "a") ne ""`, true},
		{`lookup_json_integer(http.request.headers["x-json"][0], "product", "id") eq 356`, true},
		{`lookup_json_integer(http.request.headers["x-json"][0], "product", "x", 1) eq -234`, true},
		{`lookup_json_integer(http.request.headers["x-json"][0], "product", "x", 2, "f") ge 0`, false}, // no integer
		{`lookup_json_integer(http.request.headers["x-json"][0], "product", "x", 2, "big") ge 0`, false},
		{`lookup_json_integer(http.request.headers["x-array"][0], 2) in {1..7}`, true},
		{`lookup_json_integer(http.request.headers["x-broken"][0], "a") eq 1`, false}, // not a document
		{`lookup_json_string(http.request.headers["x-escapes"][0], 0) eq "\x08\x0c\x0d\x09/\\"`, true},
		{`lookup_json_string(http.request.headers["x-escapes"][0], 1) eq "😀\xef\xbf\xbd"`, true}, // half a pair is U+FFFD
		{`lookup_json_integer(http.request.headers["x-escapes"][0], 2, "a😀") eq 9223372036854775807`, true},
		{`lookup_json_integer(http.request.headers["x-escapes"][0], 3) ge 0`, false}, // an exponent
		{`lookup_json_integer(http.request.headers["x-escapes"][0], 4) eq 0`, true},
		{`lookup_json_integer(http.request.headers["x-array"][*], 2)[0] eq 7`, true},
		{`len(http.request.headers.names[*])[1] eq 6`, true},
		{`len(len(http.request.headers.names[*])) gt 10`, true},
		{`any(lookup_json_integer(http.request.headers["x-array"][*], 2)[*] eq 7)`, true},
		{`is_timed_hmac_valid_v0("mysecrettoken", http.request.headers["x-token"][0], 10800, http.request.timestamp.sec, 8)`, true},
		{`is_timed_hmac_valid_v0("mysecrettoken", http.request.headers["x-plus"][0], 10800, http.request.timestamp.sec, 8)`, true},
		{`is_timed_hmac_valid_v0("mysecrettoken", http.request.headers["x-safe"][0], 10800, http.request.timestamp.sec, 0, "s")`, true},
		{`is_timed_hmac_valid_v0("mysecrettoken", http.request.headers["x-safe"][0], 10800, http.request.timestamp.sec)`, false},
		{`is_timed_hmac_valid_v0("another", http.request.headers["x-token"][0], 10800, http.request.timestamp.sec, 8)`, false},
		{`is_timed_hmac_valid_v0("mysecrettoken", http.request.headers["x-token"][0], 10800, http.request.timestamp.sec, 7)`, false},
		{`is_timed_hmac_valid_v0("mysecrettoken", http.request.headers["x-token"][0], 13, http.request.timestamp.sec, 8)`, false}, // expired this second
		{`is_timed_hmac_valid_v0("mysecrettoken", http.request.headers["x-token"][0], 14, http.request.timestamp.sec, 8)`, true},
		{`is_timed_hmac_valid_v0("mysecrettoken", concat("/download/cat.jpg", http.request.headers["x-time"][0], "-", http.request.headers["x-mac"][0]), 100000, http.request.timestamp.sec)`, true},
		{`not is_timed_hmac_valid_v0("mysecrettoken", http.host, 10800, http.request.timestamp.sec, 8)`, true},
		{`not is_timed_hmac_valid_v0("mysecrettoken", http.request.headers["none"][0], 10800, http.request.timestamp.sec, 8)`, true},
		{`cidr(ip.src, 24, 64) eq 192.0.2.0`, true},
		{`cidr(ip.src, 8, 64) in {192.0.0.0}`, true},
		{`cidr6(ip.src, 64) eq 192.0.2.7`, true},
	},
}

func TestMatch(t *testing.T) {
	total := 0
	for group, cases := range matches {
		t.Run(group, func(t *testing.T) {
			var s Scratch
			for _, c := range cases {
				total++
				p, err := Compile(c.expr, ModeHTTP)
				if err != nil {
					t.Errorf("Compile(%s): %v", c.expr, err)
					continue
				}
				env := httpEnv()
				if got := p.Match(env, &s); got != c.want {
					t.Errorf("%s is %v, want %v", c.expr, got, c.want)
				}
				if got := p.Explain(env); got.Result != c.want {
					t.Errorf("Explain(%s) says %v, want %v", c.expr, got.Result, c.want)
				}
				again, err := Compile(p.String(), ModeHTTP)
				if err != nil {
					t.Errorf("Compile(%s), printed from %s: %v", p, c.expr, err)
					continue
				}
				if got := again.Match(env, &s); got != c.want {
					t.Errorf("%s, printed from %s, is %v, want %v", p, c.expr, got, c.want)
				}
			}
		})
	}
	if total < 150 {
		t.Errorf("%d expressions, want at least 150", total)
	}
}

// TestModes: what DNS and layer 4 have, and what is missing there.
func TestModes(t *testing.T) {
	for _, c := range []struct {
		mode Mode
		expr string
		want bool
		note string
	}{
		{ModeDNS, `dns.qry.name eq "www.example.com."`, true, ""},
		{ModeDNS, `dns.qry.name.len eq 16 and dns.qry.type in {1 28}`, true, ""},
		{ModeDNS, `dns.qry.qu and dns.rr.opt.client`, true, ""},
		{ModeDNS, `dns.rr.opt.client.addr in {192.0.2.0/24}`, true, ""}, // IPv4 in IPv6 form
		{ModeDNS, `ip.src in {2001:db8::/32} and cidr6(ip.src, 32) eq 2001:db8::`, true, ""},
		{ModeDNS, `cidr(ip.src, 8, 16) eq 2001::`, true, ""},
		{ModeDNS, `cf.load_balancer.name eq "www"`, true, ""},
		{ModeDNS, `http.host eq "a"`, false, "column 1: http.host does not exist for DNS, only for HTTP: it is always missing"},
		{ModeDNS, `not http.host eq "a"`, true, "column 5: http.host does not exist for DNS, only for HTTP: it is always missing"},
		{ModeDNS, `http.host ne "a"`, true, "column 1: http.host does not exist for DNS, only for HTTP: it is always missing"},
		{ModeDNS, `any(http.request.headers["a"][*] ne "a")`, false, "column 5: http.request.headers does not exist for DNS, only for HTTP: it is always missing"},
		{ModeDNS, `len(http.request.headers.names) ge 0`, false, "column 5: http.request.headers.names does not exist for DNS, only for HTTP: it is always missing"},
		{ModeDNS, `ssl`, false, "column 1: ssl does not exist for DNS, only for HTTP, layer 4: it is always missing"},
		{ModeL4, `tls.sni wildcard "*.example.com" and udp.dstport eq 53`, true, ""},
		{ModeL4, `ssl or tcp.dstport eq 53`, false, ""},
		{ModeL4, `ip.src eq fe80::1`, true, ""}, // without its zone
		{ModeL4, `dns.qry.type eq 1`, false, "column 1: dns.qry.type does not exist for layer 4, only for DNS: it is always missing"},
		{ModeHTTP, `http.request.headers["X-A"][0] eq "a"`, false, `column 21: names of headers are in lower case here: "X-A" is always missing, "x-a" may be meant`},
	} {
		p, err := Compile(c.expr, c.mode)
		if err != nil {
			t.Errorf("%v: Compile(%s): %v", c.mode, c.expr, err)
			continue
		}
		var s Scratch
		if got := p.Match(envFor(c.mode), &s); got != c.want {
			t.Errorf("%v: %s is %v, want %v", c.mode, c.expr, got, c.want)
		}
		var notes []string
		for _, n := range p.Notes() {
			notes = append(notes, n.String())
		}
		if got := strings.Join(notes, "\n"); got != c.note {
			t.Errorf("%v: notes on %s:\n got %s\nwant %s", c.mode, c.expr, got, c.note)
		}
	}
}
