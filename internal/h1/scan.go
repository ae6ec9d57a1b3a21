package h1

import (
	"encoding/binary"
	"math/bits"
)

// Classes of bytes.
const (
	isToken  = 1 << iota // RFC 9110 section 5.6.2
	isTarget             // visible ASCII but '#', and but '?', which ends a path
	isText               // field values and reasons: HTAB, SP, visible ASCII, obs-text
	isName               // what a registered host name is made of here
	isDigit
)

var (
	class = classes()
	lower = lowers()
	unhex = unhexes()
)

func classes() (t [256]uint8) {
	for c := range t {
		if c == '\t' || c >= ' ' && c != 0x7f {
			t[c] |= isText
		}
		if c > ' ' && c < 0x7f && c != '#' && c != '?' {
			t[c] |= isTarget
		}
		if c >= '0' && c <= '9' {
			t[c] |= isToken | isName | isDigit
		}
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			t[c] |= isToken | isName
		}
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] |= isToken
	}
	for _, c := range "-_." {
		t[c] |= isName
	}
	return t
}

func lowers() (t [256]uint8) {
	for c := range t {
		t[c] = uint8(c)
		if c >= 'A' && c <= 'Z' {
			t[c] = uint8(c) + 'a' - 'A'
		}
	}
	return t
}

// unhexes maps a hexadecimal digit to its value and all else to 0xff.
func unhexes() (t [256]uint8) {
	for c := range t {
		t[c] = 0xff
	}
	for i, c := range "0123456789abcdef" {
		t[c] = uint8(i)
	}
	for i, c := range "ABCDEF" {
		t[c] = uint8(i) + 10
	}
	return t
}

const ones = 0x0101010101010101

// lineEnd looks for the end of the line that b[i:] is in. found says that a CRLF
// stands at end. Otherwise the line is not complete, nothing up to end needs
// looking at again, and the caller goes on from there with more bytes. Any
// control byte but HTAB, and a CR or LF on its own, is an error: this is the
// one place where line ends are read, so nothing later can see another.
//
// Eight bytes are looked at together. The first expression sets the top bit of
// bytes below 0x20, the second of bytes equal to 0x7f; either may also set it
// for a byte after a true one (by its borrow), so the lowest is exact.
func lineEnd(b []byte, i int) (end int, found bool, err *Error) {
	for {
		for ; i+8 <= len(b); i += 8 {
			w := binary.LittleEndian.Uint64(b[i:])
			d := w ^ ones*0x7f
			m := ((w-ones*0x20)&^w | (d-ones)&^d) & (ones * 0x80)
			if m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
		}
		for ; i < len(b) && class[b[i]]&isText != 0; i++ {
			// Few bytes are left, or b[i] is a tab.
			if b[i] == '\t' && i+9 <= len(b) {
				i++
				break
			}
		}
		if i >= len(b) {
			return i, false, nil
		}
		if b[i] == '\r' {
			if i+1 == len(b) {
				return i, false, nil
			}
			if b[i+1] == '\n' {
				return i, true, nil
			}
			return i, false, ErrBareCR
		}
		if b[i] == '\n' {
			return i, false, ErrBareLF
		}
		if class[b[i]]&isText == 0 {
			return i, false, ErrControl
		}
	}
}

// foldEqual reports whether b is name in any case; name is lower case.
func foldEqual(b []byte, name string) bool {
	if len(b) != len(name) {
		return false
	}
	for i := range b {
		if lower[b[i]] != name[i] {
			return false
		}
	}
	return true
}

// sameFold reports whether a and b are equal but for case.
func sameFold(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if lower[a[i]] != lower[b[i]] {
			return false
		}
	}
	return true
}

// token reports whether b is a token.
func token(b []byte) bool {
	for _, c := range b {
		if class[c]&isToken == 0 {
			return false
		}
	}
	return len(b) > 0
}

// trim removes optional white space (RFC 9110 section 5.6.3) from both ends.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// element returns the first element of a comma-separated list, without the white
// space around it, and the rest of the list. Elements may be empty.
func element(list []byte) (elem, rest []byte) {
	for i, c := range list {
		if c == ',' {
			return trim(list[:i]), list[i+1:]
		}
	}
	return trim(list), nil
}
