package dnssec

import (
	"errors"
	"fmt"
	"strings"

	"fairlead/internal/dnswire"
)

// WireName returns the wire form of a host name, in lower case. A dot at the end
// counts for nothing. Names of zones have no escapes.
func WireName(name string) ([]byte, error) {
	name = strings.TrimSuffix(name, ".")
	if name == "" {
		return []byte(dnswire.Root), nil
	}
	if strings.ContainsAny(name, "\\\"") {
		return nil, fmt.Errorf("name %q: want one without escapes", name)
	}
	wire, err := dnswire.ParseName(name, dnswire.Root)
	if err != nil {
		return nil, fmt.Errorf("name %q: %w", name, err)
	}
	return []byte(wire.Lower()), nil
}

// textName returns a name in wire form as people write it, with a dot at the end.
func textName(wire []byte) string { return string(dnswire.AppendName(nil, wire)) }

var errName = errors.New("want a name in wire form without compression")

// nameLength returns the length of the name that b begins with.
func nameLength(b []byte) (int, error) {
	n := dnswire.NameLen(b)
	if n == 0 {
		return 0, errName
	}
	return n, nil
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
