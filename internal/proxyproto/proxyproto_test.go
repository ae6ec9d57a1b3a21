package proxyproto

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"net/netip"
	"strings"
	"testing"
)

// v2 makes a header of version 2.
func v2(command, family byte, body string) string {
	return string(signature) + string([]byte{0x20 | command, family}) + string(binary.BigEndian.AppendUint16(nil, uint16(len(body)))) + body
}

// tlv makes a field behind the addresses.
func tlv(kind byte, value string) string {
	return string([]byte{kind}) + string(binary.BigEndian.AppendUint16(nil, uint16(len(value)))) + value
}

const (
	body4 = "\xc0\x00\x02\x07\xc6\x33\x64\x01\x30\x39\x01\xbb" // 192.0.2.7:12345 to 198.51.100.1:443
	body6 = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" +
		"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x30\x39\x01\xbb"
	mapped = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xc0\x00\x02\x07" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xc6\x33\x64\x01\x30\x39\x01\xbb"
)

// summed is a header with a right checksum.
func summed() string {
	h := []byte(v2(1, 0x11, body4+tlv(0x03, "\x00\x00\x00\x00")+tlv(0x01, "h2")))
	binary.BigEndian.PutUint32(h[16+12+3:], crc32.Checksum(h, crc32.MakeTable(crc32.Castagnoli)))
	return string(h)
}

func TestParse(t *testing.T) {
	a := netip.MustParseAddrPort
	four := Header{a("192.0.2.7:12345"), a("198.51.100.1:443")}
	six := Header{a("[2001:db8::1]:12345"), a("[2001:db8::2]:443")}
	for _, c := range []struct {
		name, text string
		want       Header
		err        error
	}{
		{"v1 IPv4", "PROXY TCP4 192.0.2.7 198.51.100.1 12345 443\r\n", four, nil},
		{"v1 IPv6", "PROXY TCP6 2001:db8::1 2001:db8::2 12345 443\r\n", six, nil},
		{"v1 mapped", "PROXY TCP6 ::ffff:192.0.2.7 ::ffff:198.51.100.1 12345 443\r\n", four, nil},
		{"v1 unknown", "PROXY UNKNOWN\r\n", Header{}, nil},
		{"v1 unknown with more", "PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", Header{}, nil},
		{"v1 longest", "PROXY UNKNOWN " + strings.Repeat("x", 91) + "\r\n", Header{}, nil},
		{"v1 too long", "PROXY UNKNOWN " + strings.Repeat("x", 92) + "\r\n", Header{}, ErrLine},
		{"v1 without an end", "PROXY TCP4 " + strings.Repeat("1", 100), Header{}, ErrLine},
		{"v1 with LF alone", "PROXY TCP4 192.0.2.7 198.51.100.1 12345 443\n", Header{}, ErrLine},
		{"v1 of the other family", "PROXY TCP4 2001:db8::1 2001:db8::2 12345 443\r\n", Header{}, ErrLine},
		{"v1 of the other family", "PROXY TCP6 192.0.2.7 198.51.100.1 12345 443\r\n", Header{}, ErrLine},
		{"v1 of no family", "PROXY UDP4 192.0.2.7 198.51.100.1 12345 443\r\n", Header{}, ErrLine},
		{"v1 in small letters", "proxy TCP4 192.0.2.7 198.51.100.1 12345 443\r\n", Header{}, ErrNoHeader},
		{"v1 with a port too many", "PROXY TCP4 192.0.2.7 198.51.100.1 12345 443 1\r\n", Header{}, ErrLine},
		{"v1 with two spaces", "PROXY TCP4  192.0.2.7 198.51.100.1 12345 443\r\n", Header{}, ErrLine},
		{"v1 with a large port", "PROXY TCP4 192.0.2.7 198.51.100.1 65536 443\r\n", Header{}, ErrLine},
		{"v1 with a zero before", "PROXY TCP4 192.0.2.7 198.51.100.1 012345 443\r\n", Header{}, ErrLine},
		{"v1 with a sign", "PROXY TCP4 192.0.2.7 198.51.100.1 +1234 443\r\n", Header{}, ErrLine},
		{"v1 with zeros in an address", "PROXY TCP4 192.0.02.7 198.51.100.1 12345 443\r\n", Header{}, ErrLine},
		{"v1 with a zone", "PROXY TCP6 fe80::1%eth0 fe80::2 12345 443\r\n", Header{}, ErrLine},
		{"v1 without ports", "PROXY TCP4 192.0.2.7 198.51.100.1\r\n", Header{}, ErrLine},

		{"v2 IPv4", v2(1, 0x11, body4), four, nil},
		{"v2 IPv6", v2(1, 0x21, body6), six, nil},
		{"v2 mapped", v2(1, 0x21, mapped), four, nil},
		{"v2 with TLVs", v2(1, 0x11, body4+tlv(0x01, "h2")+tlv(0xee, "")), four, nil},
		{"v2 with a checksum", summed(), four, nil},
		{"v2 local", v2(0, 0x00, ""), Header{}, nil},
		{"v2 local of a family", v2(0, 0x11, body4), Header{}, nil},
		{"v2 local with anything", v2(0, 0xff, "\x01"), Header{}, nil},
		{"v2 unspecified", v2(1, 0x00, ""), Header{}, nil},
		{"v2 unspecified with anything", v2(1, 0x00, "\x01"), Header{}, nil},
		{"v2 of a Unix socket", v2(1, 0x31, strings.Repeat("\x00", 216)), Header{}, nil},
		{"v2 of datagrams", v2(1, 0x12, body4), Header{}, ErrFamily},
		{"v2 of no family", v2(1, 0x41, body4), Header{}, ErrFamily},
		{"v2 too short", v2(1, 0x11, body4[:11]), Header{}, ErrLength},
		{"v2 too short for IPv6", v2(1, 0x21, body4), Header{}, ErrLength},
		{"v2 of another command", v2(2, 0x11, body4), Header{}, ErrCommand},
		{"v2 with half a TLV", v2(1, 0x11, body4+"\x01\x00"), Header{}, ErrTLV},
		{"v2 with a long TLV", v2(1, 0x11, body4+"\x01\x00\x03ab"), Header{}, ErrTLV},
		{"v2 with a wrong checksum", v2(1, 0x11, body4+tlv(0x03, "abcd")), Header{}, ErrChecksum},
		{"v2 with a short checksum", v2(1, 0x11, body4+tlv(0x03, "abc")), Header{}, ErrTLV},
		{"v2 longest", v2(1, 0x11, body4+tlv(0x04, strings.Repeat("\x00", MaxHeader-16-12-3))), four, nil},
		{"v2 too long", v2(1, 0x11, body4+tlv(0x04, strings.Repeat("\x00", MaxHeader-16-12-2))), Header{}, ErrLong},
		{"v3", strings.Replace(v2(1, 0x11, body4), "QUIT\n\x21", "QUIT\n\x31", 1), Header{}, ErrVersion},

		{"a request", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", Header{}, ErrNoHeader},
		{"a request for PROXY", "PROXIES / HTTP/1.1\r\n\r\n", Header{}, ErrNoHeader},
		{"a hello", "\x16\x03\x01\x02\x00", Header{}, ErrNoHeader},
		{"an empty line", "\r\n\r\nGET", Header{}, ErrNoHeader},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, n, _, err := Parse([]byte(c.text + "more"))
			if h != c.want || !errors.Is(err, c.err) || c.err == nil && n != len(c.text) || c.err != nil && n != 0 {
				t.Fatalf("Parse() = %v, %d, %v; want %v, %d, %v", h, n, err, c.want, len(c.text), c.err)
			}
			if c.err != nil {
				return
			}
			// Piece by piece, as little as it asks for, and nothing beyond it.
			reads := 0
			for have := 0; ; reads++ {
				_, n, lacks, err := Parse([]byte(c.text[:have]))
				if err != nil {
					t.Fatalf("after %d bytes: %v", have, err)
				}
				if n > 0 {
					if n != have || have != len(c.text) {
						t.Fatalf("complete with %d of %d bytes, says %d", have, len(c.text), n)
					}
					break
				}
				if have += lacks; lacks < 1 || have > len(c.text) {
					t.Fatalf("asks for %d bytes more, at %d of %d", lacks, have, len(c.text))
				}
			}
			if !strings.HasPrefix(c.text, "PROXY") && reads > 3 {
				t.Errorf("%d reads for a header of version 2", reads)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"PROXY TCP4 192.0.2.7 198.51.100.1 12345 443\r\n", "PROXY UNKNOWN\r\n", v2(1, 0x11, body4), v2(1, 0x21, body6),
		v2(0, 0, ""), summed(), v2(1, 0x31, strings.Repeat("\x00", 216)), "GET / HTTP/1.1\r\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, lacks, err := Parse(b)
		switch {
		case err != nil && (n != 0 || lacks != 0 || h != Header{}),
			err == nil && (n == 0) != (lacks > 0),
			n > len(b), n > MaxHeader, n < 0,
			h.Source.IsValid() != h.Destination.IsValid():
			t.Fatalf("Parse() = %v, %d, %d, %v", h, n, lacks, err)
		}
		if err != nil {
			return
		}
		// What is behind a header, or comes yet, changes nothing about it.
		h2, n2, _, err2 := Parse(append(b[:len(b):len(b)], "x"...))
		if n > 0 && (h2 != h || n2 != n || err2 != nil) {
			t.Fatalf("with a byte more: %v, %d, %v", h2, n2, err2)
		}
		if n == 0 && len(b)+lacks > MaxHeader {
			t.Fatalf("asks for %d bytes behind %d", lacks, len(b))
		}
	})
}
