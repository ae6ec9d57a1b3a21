package telemetry

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func fullRecord() *AccessRecord {
	return &AccessRecord{
		Time:     time.Date(2026, 11, 30, 13, 4, 5, 6_007_000, time.FixedZone("CET", 3600)),
		Listener: "websecure", LoadBalancer: "www.example.com", Pool: "eu", Endpoint: "eu-1", Reason: "failover order",
		Client: netip.MustParseAddrPort("192.0.2.7:0"), Peer: netip.MustParseAddrPort("[::ffff:10.0.0.1]:4711"),
		Protocol: "HTTP/2", Method: []byte("GET"), Host: []byte("www.example.com"), Path: []byte("/a?b=c"),
		Status: 522, Error: "connect timeout", ErrorDetail: "127.0.0.1:9001: i/o timeout",
		BytesIn: 120, BytesOut: 4096,
		Head: 150 * time.Microsecond, Connect: 5 * time.Second, FirstByte: 5*time.Second + 12345*time.Microsecond, Total: 6 * time.Second,
		TLSVersion: tls.VersionTLS13, TLSCipher: tls.TLS_AES_128_GCM_SHA256, ServerName: "www.example.com",
		Certified: true, ClientSubject: `CN=a\,b`, Reused: true, Retries: 1, Upgraded: true, Rules: []string{"blue", `a "rule"`},
	}
}

func TestLine(t *testing.T) {
	tests := []struct {
		name string
		r    *AccessRecord
		want string
	}{
		{"everything", fullRecord(), `{"time":"2026-11-30T12:04:05.006007Z","listener":"websecure","load_balancer":"www.example.com",` +
			`"pool":"eu","endpoint":"eu-1","reason":"failover order","rules":["blue","a \"rule\""],"client":"192.0.2.7","peer":"10.0.0.1:4711","protocol":"HTTP/2",` +
			`"method":"GET","host":"www.example.com","path":"/a?b=c","status":522,"bytes_in":120,"bytes_out":4096,` +
			`"head_ms":0.150,"connect_ms":5000.000,"first_byte_ms":5012.345,"total_ms":6000.000,"reused":true,"retries":1,` +
			`"error":"connect timeout","error_detail":"127.0.0.1:9001: i/o timeout",` +
			`"tls_version":"TLS 1.3","tls_cipher":"TLS_AES_128_GCM_SHA256","server_name":"www.example.com","client_subject":"CN=a\\,b","upgraded":true}` + "\n"},
		{"nothing", &AccessRecord{}, `{"time":"0001-01-01T00:00:00.000000Z","listener":"","load_balancer":"",` +
			`"pool":"","endpoint":"","reason":"","client":"","peer":"","protocol":"",` +
			`"method":"","host":"","path":"","status":0,"bytes_in":0,"bytes_out":0,` +
			`"head_ms":0.000,"connect_ms":0.000,"first_byte_ms":0.000,"total_ms":0.000,"reused":false,"retries":0}` + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(appendRecord(nil, tt.r)); got != tt.want {
				t.Errorf("appendRecord() =\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// What docs/access-log.md lists is what a line has, in its order.
func TestDocumentedFields(t *testing.T) {
	page, err := os.ReadFile("../../docs/access-log.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, m[1])
	}
	r := fullRecord()
	r.Path = bytes.Repeat([]byte("x"), MaxField+1)
	var written []string
	for _, m := range regexp.MustCompile(`[{,]"([a-z_]+)":`).FindAllStringSubmatch(string(appendRecord(nil, r)), -1) {
		written = append(written, m[1])
	}
	if d, w := strings.Join(documented, " "), strings.Join(written, " "); d != w {
		t.Errorf("docs/access-log.md lists\n%s\nbut a line has\n%s", d, w)
	}
}

func TestLongFieldsAreCut(t *testing.T) {
	tests := []struct {
		name, path string
		kept       int
	}{
		{"at the limit", strings.Repeat("x", MaxField), MaxField},
		{"above the limit", strings.Repeat("x", MaxField+1), MaxField},
		{"within a character", strings.Repeat("x", MaxField-1) + "é", MaxField - 1},
		{"within a long character", strings.Repeat("x", MaxField-3) + "\U0001F600", MaxField - 3},
		{"continuation bytes only", strings.Repeat("\x80", MaxField+9), 3 * MaxField}, // each becomes U+FFFD
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := appendRecord(nil, &AccessRecord{Path: []byte(tt.path)})
			var got struct {
				Path      string
				Truncated bool
			}
			if err := json.Unmarshal(b, &got); err != nil {
				t.Fatal(err)
			}
			if len(got.Path) != tt.kept {
				t.Errorf("path of %d bytes is logged with %d, want %d", len(tt.path), len(got.Path), tt.kept)
			}
			if want := len(tt.path) > MaxField; got.Truncated != want {
				t.Errorf("truncated = %v, want %v", got.Truncated, want)
			}
		})
	}
}

func TestQuoting(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"plain", `/a b?c=<&>'`, `"/a b?c=<&>'"`},
		{"quotes and backslashes", `a"b\c`, `"a\"b\\c"`},
		{"line breaks", "a\r\nb\tc", `"a\r\nb\tc"`},
		{"controls", "\x00\x1b[2J\x7f", `"\u0000\u001b[2J\u007f"`},
		{"terminal controls above ASCII", "\u009b2J", `"\u009b2J"`},
		{"line separators", "\u2028\u2029", `"\u2028\u2029"`},
		{"direction of text", "a\u202eb", `"a\u202eb"`},
		{"letters", "größe 世界", `"größe 世界"`},
		{"beyond 16 bits", "😀", `"😀"`},
		{"not printing beyond 16 bits", "\U000E0001", `"\udb40\udc01"`},
		{"not UTF-8", "a\xffb\xc3", `"a\ufffdb\ufffd"`},
		{"a surrogate in UTF-8", "\xed\xa0\x80", `"\ufffd\ufffd\ufffd"`},
		{"the replacement character itself", "\ufffd", `"` + "\ufffd" + `"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(appendQuoted(nil, tt.in)); got != tt.want {
				t.Errorf("appendQuoted(%q) = %s, want %s", tt.in, got, tt.want)
			}
		})
	}
}

// Whatever a client sends, the line is one line of valid JSON in UTF-8, reads
// back as encoding/json's own encoding does, and holds nothing that a terminal
// would obey.
func FuzzQuoting(f *testing.F) {
	for _, s := range []string{"", "/", `"\`, "\x00\x1f\x7f", "\u0085\u009b\u2028\u202e\ufeff", "\xff\xc3\xed\xa0\x80", "😀\U000E0001", "\xf0\x9f\x98"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		got := appendQuoted(nil, in)
		if !bytes.Equal(got, appendQuoted(nil, string(in))) {
			t.Fatal("as bytes and as a string it is quoted differently")
		}
		if !utf8.Valid(got) {
			t.Fatalf("%q is not UTF-8", got)
		}
		for _, r := range string(got) {
			if r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x2028 || r == 0x2029 {
				t.Fatalf("%q holds %U", got, r)
			}
		}
		var back, want string
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatalf("%q: %v", got, err)
		}
		std, err := json.Marshal(string(in))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(std, &want); err != nil {
			t.Fatal(err)
		}
		if back != want {
			t.Fatalf("%q reads back as %q, want %q", in, back, want)
		}
		line := appendRecord(nil, &AccessRecord{Method: in, Host: in, Path: in, Error: "x", ErrorDetail: string(in), TLSVersion: tls.VersionTLS13, ServerName: string(in)})
		if bytes.IndexByte(line, '\n') != len(line)-1 || !json.Valid(line) {
			t.Fatalf("not one line of JSON: %q", line)
		}
	})
}
