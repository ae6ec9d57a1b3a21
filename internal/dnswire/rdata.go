package dnswire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/miekg/dns"
)

// MaxRData is the longest data of a record.
const MaxRData = 65535

// ParseRData reads the data of a record as zone files have it, in one line, and
// returns it in wire form, uncompressed. Names in it are relative to origin. The
// form of RFC 3597, \# LENGTH HEX, is read for all types.
func ParseRData(t Type, text string, origin Name) ([]byte, error) {
	text = strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(text, `\#`); ok {
		return parseUnknown(t, rest)
	}
	// The frequent types by hand: large zones are made of them.
	fields := strings.Fields(text)
	switch t {
	case TypeA, TypeAAAA:
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" || a.Is4() != (t == TypeA) {
			return nil, fmt.Errorf("want an IPv%d address", map[Type]int{TypeA: 4, TypeAAAA: 6}[t])
		}
		return a.AsSlice(), nil
	case TypeNS, TypeCNAME, TypePTR, TypeDNAME:
		if len(fields) != 1 {
			return nil, errors.New("want one name")
		}
		name, err := ParseName(fields[0], origin)
		return []byte(name), err
	case TypeMX:
		if len(fields) != 2 {
			return nil, errors.New("want PREFERENCE NAME, as in 10 mail.example.com.")
		}
		preference, err := strconv.ParseUint(fields[0], 10, 16)
		if err != nil {
			return nil, fmt.Errorf("preference %q: want 0 to 65535", fields[0])
		}
		name, err := ParseName(fields[1], origin)
		return append(binary.BigEndian.AppendUint16(nil, uint16(preference)), name...), err
	case TypeTXT:
		return parseTexts(text)
	}
	return parseByLibrary(t, text, origin)
}

// parseTexts reads strings, in quotes or without, with spaces between them. One
// that is too long is refused, not split: where, only its author knows.
func parseTexts(text string) (data []byte, err error) {
	for text != "" {
		start := len(data)
		data = append(data, 0)
		end := " \t\""
		quoted := text[0] == '"'
		if quoted {
			text, end = text[1:], `"`
		}
		for text != "" && strings.IndexByte(end, text[0]) < 0 {
			c, used := text[0], 0
			text = text[1:]
			if c == '\\' {
				if c, used, err = unescape(text); err != nil {
					return nil, err
				}
				text = text[used:]
			}
			data = append(data, c)
		}
		size := len(data) - start - 1
		switch {
		case quoted && text == "":
			return nil, errors.New("want a quote at the end of the text")
		case quoted:
			text = text[1:]
		}
		if size > 255 {
			return nil, fmt.Errorf("a text of %d bytes: want at most 255, and longer ones in several quotes", size)
		}
		data[start] = byte(size)
		switch rest := strings.TrimLeft(text, " \t"); {
		case rest != "" && len(rest) == len(text):
			return nil, errors.New("want a space between texts")
		default:
			text = rest
		}
	}
	switch {
	case len(data) == 0:
		return nil, errors.New("want at least one text")
	case len(data) > MaxRData:
		return nil, fmt.Errorf("%d bytes of texts: want at most %d", len(data), MaxRData)
	}
	return data, nil
}

// parseUnknown reads what follows \# (RFC 3597 section 5).
func parseUnknown(t Type, text string) ([]byte, error) {
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return nil, errors.New(`want \# LENGTH HEX`)
	}
	n, err := strconv.ParseUint(fields[0], 10, 16)
	if err != nil {
		return nil, fmt.Errorf(`length %q after \#: want 0 to 65535`, fields[0])
	}
	data, err := hex.DecodeString(strings.Join(fields[1:], ""))
	if err != nil {
		return nil, errors.New(`want hexadecimal digits after \# and the length`)
	}
	if len(data) != int(n) {
		return nil, fmt.Errorf(`%d bytes after \# %d`, len(data), n)
	}
	if err := CheckRData(t, data); err != nil {
		return nil, err
	}
	return data, nil
}

// CheckRData reports what is wrong with data in wire form; of types that are not
// known nothing is.
func CheckRData(t Type, data []byte) error {
	if len(data) > MaxRData {
		return fmt.Errorf("%d bytes of data: want at most %d", len(data), MaxRData)
	}
	if _, known := dns.TypeToRR[uint16(t)]; !known {
		return nil
	}
	msg := append(binary.BigEndian.AppendUint16([]byte{0}, uint16(t)), 0, 1, 0, 0, 0, 0)
	msg = binary.BigEndian.AppendUint16(msg, uint16(len(data)))
	msg = append(msg, data...)
	rr, off, err := dns.UnpackRR(msg, 0)
	if err != nil || off != len(msg) || len(data) == 0 {
		return fmt.Errorf("not the data of a %s record", t)
	}
	// What is packed again shows whether anything was compressed or left over.
	again, err := packRData(rr)
	if err != nil || !bytes.Equal(again, data) {
		return fmt.Errorf("not the data of a %s record", t)
	}
	return nil
}

// parseByLibrary reads data as a line of a zone file.
func parseByLibrary(t Type, text string, origin Name) ([]byte, error) {
	if _, known := dns.TypeToRR[uint16(t)]; !known || t.Meta() {
		return nil, fmt.Errorf(`the form of %s records is not known: want \# LENGTH HEX`, t)
	}
	if origin == "" {
		origin = Root
	}
	p := dns.NewZoneParser(strings.NewReader(". 0 IN "+t.String()+" "+text+"\n"), origin.String(), "")
	p.SetIncludeAllowed(false)
	rr, ok := p.Next()
	if err := p.Err(); err != nil {
		return nil, plain(err)
	}
	if !ok || Type(rr.Header().Rrtype) != t {
		return nil, errors.New("want one record")
	}
	if _, another := p.Next(); another || p.Err() != nil {
		return nil, errors.New("want one record")
	}
	data, err := packRData(rr)
	if err != nil {
		return nil, plain(err)
	}
	// It reads forms that it cannot write, such as no data at all.
	return data, CheckRData(t, data)
}

// packRData returns the data of a record in wire form.
func packRData(rr dns.RR) ([]byte, error) {
	rr.Header().Name = "."
	buf := make([]byte, min(dns.Len(rr)+64, dns.MaxMsgSize))
	n, err := dns.PackRR(rr, buf, 0, nil, false)
	if err != nil { // its length was estimated
		buf = make([]byte, dns.MaxMsgSize)
		n, err = dns.PackRR(rr, buf, 0, nil, false)
	}
	if err != nil {
		return nil, err
	}
	return buf[OPTSize:n], nil // behind the root, type, class, TTL and length
}

// plain is an error of the library without its name and its line, which is
// always the first.
func plain(err error) error {
	s := strings.TrimPrefix(err.Error(), "dns: ")
	if cut := strings.Index(s, " at line: "); cut >= 0 {
		s = s[:cut]
	}
	return errors.New(s)
}

// RDataText returns data as zone files have it.
func RDataText(t Type, data []byte) string {
	if _, known := dns.TypeToRR[uint16(t)]; known {
		msg := append(binary.BigEndian.AppendUint16([]byte{0}, uint16(t)), 0, 1, 0, 0, 0, 0)
		msg = append(binary.BigEndian.AppendUint16(msg, uint16(len(data))), data...)
		if rr, off, err := dns.UnpackRR(msg, 0); err == nil && off == len(msg) {
			return strings.TrimPrefix(rr.String(), rr.Header().String())
		}
	}
	return fmt.Sprintf(`\# %d %X`, len(data), data)
}

// layouts tell where names are in the data of a type: C is a name that messages
// may compress (RFC 3597 section 4), N and n one that they may not, s a string
// with its length, and a digit that many bytes. What follows is no name. Upper
// case says that the canonical form has the name in lower case (RFC 4034 section
// 6.2, RFC 6840 section 5.1).
var layouts = map[Type]string{
	TypeNS: "C", TypeCNAME: "C", TypeSOA: "CC", TypePTR: "C", TypeMX: "2C",
	3: "C", 4: "C", 7: "C", 8: "C", 9: "C", 14: "CC", // MD, MF, MB, MG, MR, MINFO
	17: "NN", 18: "2N", 21: "2N", // RP, AFSDB, RT
	24: "99N", TypeRRSIG: "99N", // SIG: 18 bytes before the signer
	26: "2NN", 30: "N", 36: "2N", // PX, NXT, KX
	TypeSRV: "6N", TypeNAPTR: "4sssN", TypeDNAME: "N",
	TypeNSEC: "n", TypeSVCB: "2n", TypeHTTPS: "2n",
	58: "nn", 107: "2n", // TALINK, LP
}

// NameIn is the place of a name in the data of a record.
type NameIn struct {
	Start, End int
	// Compress is whether messages may compress it.
	Compress bool
	// Fold is whether the canonical form has it in lower case.
	Fold bool
}

// NamesIn appends the places of the names in data, which must be valid.
func NamesIn(list []NameIn, t Type, data []byte) []NameIn {
	i := 0
	for _, c := range []byte(layouts[t]) {
		switch {
		case i >= len(data):
			return list
		case c == 's':
			i += 1 + int(data[i])
		case c >= '0' && c <= '9':
			i += int(c - '0')
		default:
			n := wireName(data[i:])
			if n == 0 {
				return list
			}
			list = append(list, NameIn{Start: i, End: i + n, Compress: c == 'C', Fold: c != 'n'})
			i += n
		}
	}
	return list
}

// CanonicalRData returns data with the names in lower case that DNSSEC, and
// whoever compares records, has so. It is data itself where nothing changes.
func CanonicalRData(t Type, data []byte) []byte {
	var buf [4]NameIn
	out := data
	for _, n := range NamesIn(buf[:0], t, data) {
		name := data[n.Start:n.End]
		if !n.Fold || string(Name(name).Lower()) == string(name) {
			continue
		}
		if &out[0] == &data[0] {
			out = bytes.Clone(data)
		}
		lower(out[n.Start:n.End], name)
	}
	return out
}

// TargetIn returns the name that data points to, and about which an answer tells
// more in its additional section, or which an alias stands for.
func TargetIn(t Type, data []byte) (NameIn, bool) {
	switch t {
	case TypeNS, TypeCNAME, TypeDNAME, TypeMX, TypeSRV, TypeSVCB, TypeHTTPS:
		var buf [1]NameIn
		if names := NamesIn(buf[:0], t, data); len(names) == 1 {
			return names[0], true
		}
	}
	return NameIn{}, false
}
