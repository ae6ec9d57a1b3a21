package dnssec

import (
	"errors"
	"fmt"
	"strings"
)

// maxName is the longest name in wire form, the root's zero byte included.
const maxName = 255

// WireName returns the wire form of a host name, in lower case. A dot at the end
// counts for nothing. Names of zones have no escapes.
func WireName(name string) ([]byte, error) {
	name = strings.TrimSuffix(name, ".")
	if name == "" {
		return []byte{0}, nil
	}
	var wire []byte
	for label := range strings.SplitSeq(name, ".") {
		if len(label) == 0 || len(label) > 63 {
			return nil, fmt.Errorf("name %q: a label of %d bytes: want 1 to 63", name, len(label))
		}
		if strings.ContainsAny(label, "\\\"") {
			return nil, fmt.Errorf("name %q: want one without escapes", name)
		}
		wire = append(append(wire, byte(len(label))), label...)
	}
	if wire = append(wire, 0); len(wire) > maxName {
		return nil, fmt.Errorf("name %q: %d bytes long: want at most %d", name, len(wire), maxName)
	}
	lowerName(wire)
	return wire, nil
}

// textName returns a name in wire form as people write it, with a dot at the end.
func textName(wire []byte) string {
	var b strings.Builder
	for len(wire) > 1 && int(wire[0]) < len(wire) {
		for _, c := range wire[1 : 1+wire[0]] {
			switch {
			case c == '.' || c == '\\' || c == '"':
				b.WriteByte('\\')
				b.WriteByte(c)
			case c <= ' ' || c >= 0x7f:
				fmt.Fprintf(&b, "\\%03d", c)
			default:
				b.WriteByte(c)
			}
		}
		b.WriteByte('.')
		wire = wire[1+wire[0]:]
	}
	if b.Len() == 0 {
		return "."
	}
	return b.String()
}

// lowerName makes the letters of a name lower case, in place. Bytes that tell the
// length of a label are below 64, so they are no letters.
func lowerName(wire []byte) {
	for i, c := range wire {
		if 'A' <= c && c <= 'Z' {
			wire[i] = c | 0x20
		}
	}
}

var errName = errors.New("want a name in wire form without compression")

// nameLength returns the length of the name that b begins with.
func nameLength(b []byte) (int, error) {
	for i := 0; i < len(b) && i < maxName; {
		switch n := int(b[i]); {
		case n == 0:
			return i + 1, nil
		case n > 63:
			return 0, errName
		default:
			i += 1 + n
		}
	}
	return 0, errName
}

// labels counts the labels of a name as RRSIG records do: the root is none, and a
// wildcard's first label is none either (RFC 4034 section 3.1.3).
func labels(wire []byte) byte {
	if len(wire) > 2 && wire[0] == 1 && wire[1] == '*' {
		wire = wire[2:]
	}
	var n byte
	for i := 0; i < len(wire) && wire[i] != 0; i += 1 + int(wire[i]) {
		n++
	}
	return n
}
