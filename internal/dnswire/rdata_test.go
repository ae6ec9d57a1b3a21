package dnswire

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

const exampleCom Name = "\x07example\x03com\x00"

func TestParseRData(t *testing.T) {
	for _, c := range []struct {
		kind, text, want string // want is hexadecimal
	}{
		{"A", "192.0.2.1", "c0000201"},
		{"AAAA", "2001:db8::1", "20010db8000000000000000000000001"},
		{"NS", "ns1", "036e7331076578616d706c6503636f6d00"},
		{"CNAME", "W.Example.ORG.", "0157074578616d706c65034f524700"},
		{"PTR", "a.", "016100"},
		{"DNAME", "a.", "016100"},
		{"MX", "10 mail", "000a046d61696c076578616d706c6503636f6d00"},
		{"MX", "0 .", "000000"},
		{"TXT", `"a b" c`, "0361206201" + "63"},
		{"TXT", `"a\"\000;"`, "046122003b"},
		{"TXT", `""`, "00"},
		{"SRV", "1 2 443 www", "0001000201bb03777777076578616d706c6503636f6d00"},
		{"CAA", `0 issue "ca.example"`, "00056973737565" + "63612e6578616d706c65"},
		{"NAPTR", `100 10 "u" "sip" "!x!" .`, "0064000a0175037369700321782100"},
		{"TLSA", "3 1 1 00ff", "03010100ff"},
		{"SSHFP", "4 2 " + strings.Repeat("ab", 32), "0402" + strings.Repeat("ab", 32)},
		{"DS", "1 13 2 " + strings.Repeat("cd", 32), "00010d02" + strings.Repeat("cd", 32)},
		{"HTTPS", "1 . alpn=h2,h3 ipv4hint=192.0.2.1", "0001000001000602683202683300040004c0000201"},
		{"SVCB", "0 svc", "000003737663076578616d706c6503636f6d00"},
		{"SOA", "ns1 host 1 2 3 4 5", "036e7331076578616d706c6503636f6d0004686f7374076578616d706c6503636f6d000000000100000002000000030000000400000005"},
		{"A", `\# 4 c0000201`, "c0000201"},
		{"TYPE65280", `\# 3 00 01 02`, "000102"},
		{"TYPE65280", `\# 0`, ""},
	} {
		t.Run(c.kind+" "+c.text, func(t *testing.T) {
			kind, ok := ParseType(c.kind)
			if !ok {
				t.Fatal("the type is not known")
			}
			data, err := ParseRData(kind, c.text, exampleCom)
			if err != nil || hex.EncodeToString(data) != c.want {
				t.Fatalf("ParseRData = %x, %v, want %s", data, err, c.want)
			}
			// What it is written as means the same.
			again, err := ParseRData(kind, RDataText(kind, data), Root)
			if err != nil || !bytes.Equal(again, data) {
				t.Errorf("written as %s, it is read as %x, %v", RDataText(kind, data), again, err)
			}
		})
	}
}

func TestParseRDataErrors(t *testing.T) {
	for _, c := range []struct{ kind, text, want string }{
		{"A", "2001:db8::1", "IPv4 address"},
		{"A", "192.0.2", "IPv4 address"},
		{"A", "192.0.2.1 192.0.2.2", "IPv4 address"},
		{"AAAA", "192.0.2.1", "IPv6 address"},
		{"AAAA", "fe80::1%eth0", "IPv6 address"},
		{"NS", "a b", "one name"},
		{"CNAME", "a..b", "no empty label"},
		{"MX", "mail", "PREFERENCE NAME"},
		{"MX", "65536 mail", "0 to 65535"},
		{"SRV", "1 2 3", ""},
		{"SRV", "1 2 65536 a", ""},
		{"DS", "1 13 2 xyz", ""},
		{"TXT", `"` + strings.Repeat("a", 256) + `"`, "a text of 256 bytes"},
		{"TXT", `"a`, "a quote at the end"},
		{"TXT", `"a""b"`, "a space between"},
		{"TXT", `a"b"`, "a space between"},
		{"TXT", `a\`, `a character after \`},
		{"TXT", strings.Repeat(`"`+strings.Repeat("a", 255)+`" `, 257), "bytes of texts"},
		{"A", "192.0.2.1\n$INCLUDE /etc/passwd", "IPv4 address"},
		{"CAA", "0 issue \"a\"\n$INCLUDE /etc/passwd", ""},
		{"CAA", "0 issue \"a\"\nb 0 IN CAA 0 issue \"a\"", ""},
		{"TYPE65280", "abc", `\# LENGTH HEX`},
		{"TYPE65280", `\# 2 00`, `1 bytes after \# 2`},
		{"TYPE65280", `\# 1 0`, "hexadecimal digits"},
		{"TYPE65280", `\# 65536 00`, "0 to 65535"},
		{"TYPE65280", `\#`, `\# LENGTH HEX`},
		{"A", `\# 3 c00002`, "not the data of a A record"},
		{"CNAME", `\# 2 c00c`, "not the data of a CNAME record"},
		{"NS", `\# 5 0161000000`, "not the data of a NS record"},
	} {
		kind, _ := ParseType(c.kind)
		if data, err := ParseRData(kind, c.text, exampleCom); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("ParseRData(%s, %q) = %x, %v, want an error with %q", c.kind, c.text, data, err, c.want)
		} else if strings.Contains(err.Error(), "dns:") || strings.Contains(err.Error(), "line: 1") {
			t.Errorf("ParseRData(%s, %q): %v: the library shows", c.kind, c.text, err)
		}
	}
}

func TestCanonicalRData(t *testing.T) {
	for _, c := range []struct{ kind, text, want string }{
		{"NS", "NS1.Example.COM.", "ns1.example.com."},
		{"SOA", "NS1.Example. Host.Example. 1 2 3 4 5", "ns1.example. host.example. 1 2 3 4 5"},
		{"MX", "10 Mail.", "10 mail."},
		{"SRV", "1 2 3 WWW.", "1 2 3 www."},
		{"NAPTR", `1 2 "U" "SIP" "!X!" WWW.`, `1 2 "U" "SIP" "!X!" www.`},
		{"DNAME", "A.", "a."},
		{"SVCB", "1 SVC. alpn=H2", `1 SVC. alpn="H2"`}, // no type after RFC 4034 is folded
		{"TXT", `"ABC"`, `"ABC"`},
	} {
		kind, _ := ParseType(c.kind)
		data, err := ParseRData(kind, c.text, Root)
		if err != nil {
			t.Fatal(err)
		}
		before := bytes.Clone(data)
		if got := RDataText(kind, CanonicalRData(kind, data)); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.kind, c.text, got, c.want)
		}
		if !bytes.Equal(before, data) {
			t.Errorf("%s %s: what was given was changed", c.kind, c.text)
		}
	}
}

func TestNamesIn(t *testing.T) {
	for _, c := range []struct {
		kind, text string
		names      []string
		compress   bool
	}{
		{"A", "192.0.2.1", nil, false},
		{"NS", "a.", []string{"a."}, true},
		{"SOA", "a. b. 1 2 3 4 5", []string{"a.", "b."}, true},
		{"MX", "1 a.", []string{"a."}, true},
		{"SRV", "1 2 3 a.", []string{"a."}, false},
		{"NAPTR", `1 2 "" "xyz" "" a.`, []string{"a."}, false},
		{"HTTPS", "1 a. alpn=h2", []string{"a."}, false},
		{"PX", "1 a. b.", []string{"a.", "b."}, false},
	} {
		kind, _ := ParseType(c.kind)
		data, err := ParseRData(kind, c.text, Root)
		if err != nil {
			t.Fatal(err)
		}
		got := NamesIn(nil, kind, data)
		if len(got) != len(c.names) {
			t.Errorf("%s: %v, want %v", c.kind, got, c.names)
			continue
		}
		for i, n := range got {
			if name := Name(data[n.Start:n.End]).String(); name != c.names[i] || n.Compress != c.compress {
				t.Errorf("%s: %s, compress %t, want %s, %t", c.kind, name, n.Compress, c.names[i], c.compress)
			}
		}
	}
	data, _ := ParseRData(TypeMX, "1 a.", Root)
	if in, ok := TargetIn(TypeMX, data); !ok || string(data[in.Start:in.End]) != "\x01a\x00" {
		t.Errorf("TargetIn(MX) = %v, %t", in, ok)
	}
	if _, ok := TargetIn(TypePTR, []byte("\x01a\x00")); ok {
		t.Error("PTR has a target")
	}
}

func TestTypesAndCodes(t *testing.T) {
	for _, c := range []struct {
		text string
		want Type
	}{{"A", 1}, {"aaaa", 28}, {"TYPE65280", 65280}, {"type1", 1}, {"HTTPS", 65}} {
		if got, ok := ParseType(c.text); !ok || got != c.want {
			t.Errorf("ParseType(%s) = %d, %t, want %d", c.text, got, ok, c.want)
		}
	}
	for _, text := range []string{"", "NOPE", "TYPE", "TYPE65536", "TYPE+1", "TYPE-1", "Reserved"} {
		if got, ok := ParseType(text); ok {
			t.Errorf("ParseType(%q) = %v", text, got)
		}
	}
	for got, want := range map[string]string{
		TypeA.String(): "A", Type(65280).String(): "TYPE65280", Type(0).String(): "TYPE0",
		ClassIN.String(): "IN", Class(7).String(): "CLASS7",
		NoError.String(): "NOERROR", BadVers.String(): "BADVERS", BadCookie.String(): "BADCOOKIE", RCode(99).String(): "RCODE99",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for kind, want := range map[Type]bool{0: true, TypeOPT: true, TypeANY: true, TypeAXFR: true, TypeNXNAME: true, TypeA: false, TypeCAA: false, 65280: false} {
		if kind.Meta() != want {
			t.Errorf("%s.Meta() = %t", kind, !want)
		}
	}
}

func TestSOA(t *testing.T) {
	data, err := ParseRData(TypeSOA, "ns1 host 1 2 3 4 5", exampleCom)
	if err != nil {
		t.Fatal(err)
	}
	soa := SOAOf(data)
	if soa.Primary.String() != "ns1.example.com." || soa.Contact.String() != "host.example.com." || soa.Serial != 1 || soa.Minimum != 5 {
		t.Errorf("SOAOf = %+v", soa)
	}
	if !bytes.Equal(soa.Data(), data) {
		t.Errorf("Data() = %x, want %x", soa.Data(), data)
	}
	SetSerial(data, 77)
	if got := SOAOf(data); got.Serial != 77 || got.Refresh != 2 || got.Contact != soa.Contact {
		t.Errorf("after SetSerial: %+v", got)
	}
	for _, c := range []struct {
		a, b uint32
		want bool
	}{{1, 0, true}, {0, 1, false}, {5, 5, false}, {0, 0xffffffff, true}, {0xffffffff, 0, false}, {0x80000000, 1, true}} {
		if got := Newer(c.a, c.b); got != c.want {
			t.Errorf("Newer(%d, %d) = %t", c.a, c.b, got)
		}
	}
}

// FuzzRData reads data that somebody wrote: what is taken is valid, and is written
// so that it is read as the same.
func FuzzRData(f *testing.F) {
	for _, s := range []string{"192.0.2.1", `"a" "b"`, "10 mail", `\# 4 c0000201`, "1 . alpn=h2", `0 issue "x"`, "a b 1 2 3 4 5"} {
		for _, t := range []Type{TypeA, TypeTXT, TypeMX, TypeHTTPS, TypeCAA, TypeSOA, 65280} {
			f.Add(uint16(t), s)
		}
	}
	f.Fuzz(func(t *testing.T, kind uint16, text string) {
		data, err := ParseRData(Type(kind), text, exampleCom)
		if err != nil {
			return
		}
		if err := CheckRData(Type(kind), data); err != nil {
			t.Errorf("ParseRData(%s, %q) = %x: %v", Type(kind), text, data, err)
		}
		last := 0
		for _, n := range NamesIn(nil, Type(kind), data) {
			if n.Start < last || wireName(data[n.Start:]) != n.End-n.Start {
				t.Errorf("%s %x: no name at %d", Type(kind), data, n.Start)
			}
			last = n.End
		}
		if c := CanonicalRData(Type(kind), data); len(c) != len(data) {
			t.Errorf("%s %x: canonical form %x", Type(kind), data, c)
		}
		if _, known := dns.TypeToRR[kind]; !known {
			if again, err := ParseRData(Type(kind), RDataText(Type(kind), data), Root); err != nil || !bytes.Equal(again, data) {
				t.Errorf("%x is read as %x, %v", data, again, err)
			}
		}
	})
}
