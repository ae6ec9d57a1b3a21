package rules

import (
	"net/netip"
	"strings"
)

// entry is one header, cookie or argument.
type entry struct{ name, value string }

// testEnv is an Env made of literals.
type testEnv struct {
	bools map[Field]bool
	ints  map[Field]int64
	ips   map[Field]netip.Addr
	strs  map[Field][]byte
	maps  map[Field][]entry

	names, values map[Field][][]byte // of maps, made by ready
}

func (e *testEnv) ready() *testEnv {
	e.names, e.values = map[Field][][]byte{}, map[Field][][]byte{}
	for f, entries := range e.maps {
		for _, x := range entries {
			e.names[f] = append(e.names[f], []byte(x.name))
			e.values[f] = append(e.values[f], []byte(x.value))
		}
	}
	return e
}

func (e *testEnv) Bool(f Field) (bool, bool) {
	v, ok := e.bools[f]
	return v, ok
}

func (e *testEnv) Int(f Field) (int64, bool) {
	v, ok := e.ints[f]
	return v, ok
}

func (e *testEnv) IP(f Field) (netip.Addr, bool) {
	v, ok := e.ips[f]
	return v, ok
}

func (e *testEnv) String(f Field) ([]byte, bool) {
	v, ok := e.strs[f]
	return v, ok
}

func (e *testEnv) Next(f Field, at int) (name, value []byte, next int) {
	if at >= len(e.names[f]) {
		return nil, nil, 0
	}
	return e.names[f][at], e.values[f][at], at + 1
}

// httpEnv is a request with something of everything, but for the fields whose
// absence is tested: continent, region, body size, server name.
func httpEnv() *testEnv {
	const path = "/Blog/post.html"
	const query = "filter=waf&filter=botm&filter=cdn&q=John%20Doe&empty="
	return (&testEnv{
		bools: map[Field]bool{FieldSSL: true},
		ints: map[Field]int64{
			FieldClientASN: 64500, FieldTCPPort: 8443, FieldTCPSourcePort: 50000, FieldTimestamp: 1484063800,
		},
		ips: map[Field]netip.Addr{FieldClientIP: netip.MustParseAddr("192.0.2.7")},
		strs: map[Field][]byte{
			FieldLoadBalancerName: []byte("www"), FieldLoadBalancerRegion: []byte("WEU"), FieldClientCountry: []byte("DE"),
			FieldHost: []byte("www.example.com"), FieldMethod: []byte("GET"), FieldVersion: []byte("HTTP/2"),
			FieldURI: []byte(path + "?" + query), FieldPath: []byte(path), FieldQuery: []byte(query),
			FieldFullURI: []byte("https://www.example.com" + path + "?" + query),
			FieldCookie:  []byte("session=abc; lang=de; lang=en"), FieldReferer: []byte(""), FieldUserAgent: []byte("Mozilla/5.0 (X11; Linux) caf\xe9 \xc3\xa9"),
			FieldForwardedFor: []byte("198.51.100.1, 203.0.113.9"),
		},
		maps: map[Field][]entry{
			FieldHeaders: {
				{"Host", "www.example.com"}, {"Accept", "text/html"}, {"accept", "application/json"}, {"Content-Type", "Application/JSON"},
				{"X-Encoded", "a%2520b+c"}, {"X-Unicode", "%u2601!"}, {"X-Bytes", "\xff\x00A"},
				{"X-Json", `{"company":"cloud\u0066lare","product":{"id":356,"x":[1,-234,{"n":"last","big":9223372036854775808,"f":42.0}]},"company2":""}`},
				{"X-Array", `["other", {"k\"ey": "v\n"}, 7]`}, {"X-Escapes", `["\b\f\r\t\/\\", "\ud83d\ude00\ud83d", {"\u0061\ud83d\ude00": 9223372036854775807}, 1e3, -0]`}, {"X-Broken", `{"a":1`}, {"X-Empty", ""},
				{"X-Time", "1484063787"}, {"X-Mac", "MwxCdsONqMcO9hMLnzWdUiUSLr735AOCGoivbkwKqEI="},
				{"X-Token", "/download/cat.jpg?verify=1484063787-MwxCdsONqMcO9hMLnzWdUiUSLr735AOCGoivbkwKqEI%3D"},
				{"X-Plus", "/download/cat.jpg?verify=1484063137-z%2BfbkZJzpMl1QidagZ6D4El1aY1JxkVN00qBQrU6sBQ%3D"},
				{"X-Safe", "/download/cat.jpg1484063137-z-fbkZJzpMl1QidagZ6D4El1aY1JxkVN00qBQrU6sBQ"},
			},
			FieldCookies: {{"session", "abc"}, {"lang", "de"}, {"lang", "en"}},
			FieldArgs:    {{"filter", "waf"}, {"filter", "botm"}, {"filter", "cdn"}, {"q", "John%20Doe"}, {"empty", ""}},
		},
	}).ready()
}

func dnsEnv() *testEnv {
	return (&testEnv{
		bools: map[Field]bool{FieldQueryQuestion: true, FieldQueryClient: true},
		ints:  map[Field]int64{FieldQueryType: 28, FieldQueryNameLen: 16},
		ips:   map[Field]netip.Addr{FieldClientIP: netip.MustParseAddr("2001:db8::7"), FieldQueryClientIP: netip.MustParseAddr("::ffff:192.0.2.7")},
		strs:  map[Field][]byte{FieldQueryName: []byte("www.example.com."), FieldLoadBalancerName: []byte("www")},
	}).ready()
}

func l4Env() *testEnv {
	return (&testEnv{
		bools: map[Field]bool{FieldSSL: false},
		ints:  map[Field]int64{FieldUDPPort: 53},
		ips:   map[Field]netip.Addr{FieldClientIP: netip.MustParseAddr("fe80::1%eth0")},
		strs:  map[Field][]byte{FieldServerName: []byte("db.example.com")},
	}).ready()
}

func envFor(m Mode) *testEnv {
	switch m {
	case ModeDNS:
		return dnsEnv()
	case ModeL4:
		return l4Env()
	}
	return httpEnv()
}

func repeat(s string, n int) string { return strings.Repeat(s, n) }
