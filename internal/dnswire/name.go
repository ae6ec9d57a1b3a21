package dnswire

import (
	"errors"
	"fmt"
	"strings"
)

// Limits of names (RFC 1035 section 2.3.4).
const (
	MaxName   = 255 // bytes in wire form
	MaxLabel  = 63
	MaxLabels = 127 // that fit into a name, the root not counted
)

// Name is a domain name in wire form, uncompressed, in the case that it was
// written in. The zero value is no name.
type Name string

// Root is the name of the root.
const Root Name = "\x00"

// Errors of names.
var (
	errLongName  = fmt.Errorf("want a name of at most %d bytes", MaxName-2)
	errLongLabel = fmt.Errorf("want labels of at most %d bytes", MaxLabel)
	errEmpty     = errors.New("want no empty label: two dots in a row, or one at the start")
)

// ParseName reads a name as zone files have it: \. and \DDD are escapes, @ is
// the origin, and a name that does not end with a dot is below the origin.
func ParseName(text string, origin Name) (Name, error) {
	switch text {
	case "":
		return "", errors.New("want a name")
	case "@":
		if origin == "" {
			return "", errors.New("@ without an origin")
		}
		return origin, nil
	case ".":
		return Root, nil
	}
	var b [MaxName]byte
	n, label := 1, 0 // b[label] is the length of the label that ends before b[n]
	end := func() error {
		size := n - label - 1
		switch {
		case size == 0:
			return errEmpty
		case size > MaxLabel:
			return errLongLabel
		case n >= MaxName:
			return errLongName
		}
		b[label] = byte(size)
		label = n
		n++
		return nil
	}
	absolute := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '.':
			if err := end(); err != nil {
				return "", err
			}
			absolute = i == len(text)-1
			continue
		case c == '\\':
			var err error
			var used int
			if c, used, err = unescape(text[i+1:]); err != nil {
				return "", err
			}
			i += used
		}
		if n >= MaxName {
			if n-label-1 > MaxLabel {
				return "", errLongLabel
			}
			return "", errLongName
		}
		b[n] = c
		n++
	}
	if absolute {
		return Name(b[:n]), nil // b[label], the last, is 0
	}
	if err := end(); err != nil {
		return "", err
	}
	if origin == "" {
		return "", fmt.Errorf("%q does not end with a dot, and there is no origin", text)
	}
	if n-1+len(origin) > MaxName {
		return "", errLongName
	}
	return Name(b[:n-1]) + origin, nil
}

// unescape reads what follows a backslash and returns the byte that it stands
// for, and its length.
func unescape(s string) (c byte, used int, err error) {
	if s == "" {
		return 0, 0, errors.New(`want a character after \`)
	}
	if s[0] < '0' || s[0] > '9' {
		return s[0], 1, nil
	}
	if len(s) < 3 || s[1] < '0' || s[1] > '9' || s[2] < '0' || s[2] > '9' || s[:3] > "255" {
		return 0, 0, errors.New(`want \000 to \255`)
	}
	return (s[0]-'0')*100 + (s[1]-'0')*10 + s[2] - '0', 3, nil
}

// String returns the name as zone files have it, with its final dot.
func (n Name) String() string { return string(AppendName(nil, n)) }

// AppendName appends the text of a name in wire form. It does not allocate
// where b has room.
func AppendName[T ~string | ~[]byte](b []byte, n T) []byte {
	if len(n) <= 1 {
		return append(b, '.')
	}
	for i := 0; i < len(n) && n[i] != 0; {
		size := int(n[i])
		i++
		for ; size > 0 && i < len(n); size-- {
			c := n[i]
			i++
			switch {
			case c <= ' ' || c >= 0x7f:
				b = append(b, '\\', '0'+c/100, '0'+c/10%10, '0'+c%10)
			case strings.IndexByte(`."();@$\`, c) >= 0:
				b = append(b, '\\', c)
			default:
				b = append(b, c)
			}
		}
		b = append(b, '.')
	}
	return b
}

// Lower returns the name in lower case, in which names are compared.
func (n Name) Lower() Name {
	for i := 0; i < len(n); i++ {
		if c := n[i]; c >= 'A' && c <= 'Z' { // lengths of labels are below 'A'
			b := []byte(n)
			lower(b, b)
			return Name(b)
		}
	}
	return n
}

// lower writes src, in lower case, to dst. Lengths of labels are below 'A', so
// that whole names can be lowered.
func lower(dst, src []byte) {
	for i, c := range src {
		if c-'A' < 26 {
			c |= 0x20
		}
		dst[i] = c
	}
}

// Labels counts the labels, the root not counted.
func (n Name) Labels() int {
	count := 0
	for i := 0; i < len(n) && n[i] != 0; i += int(n[i]) + 1 {
		count++
	}
	return count
}

// Parent returns the name without its first label; the root's is "".
func (n Name) Parent() Name {
	if len(n) <= 1 {
		return ""
	}
	return n[1+int(n[0]):]
}

// In reports whether the name is zone or below it; both are in lower case.
func (n Name) In(zone Name) bool {
	for n != "" {
		if n == zone {
			return true
		}
		if len(n) <= len(zone) {
			return false
		}
		n = n.Parent()
	}
	return false
}

// Wildcard reports whether the first label is the asterisk.
func (n Name) Wildcard() bool { return strings.HasPrefix(string(n), "\x01*") }

// LowerName writes a name in wire form in lower case, in place.
func LowerName(name []byte) { lower(name, name) }

// NameLen returns the length of the uncompressed name at the start of b; 0 if
// there is none.
func NameLen(b []byte) int { return wireName(b) }

// wireName returns the length of the uncompressed name at the start of b; 0 if
// there is none.
func wireName(b []byte) int {
	for i := 0; i < len(b) && i < MaxName; i += int(b[i]) + 1 {
		if b[i] == 0 {
			return i + 1
		}
		if b[i] > MaxLabel {
			return 0
		}
	}
	return 0
}
