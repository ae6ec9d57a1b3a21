package rules

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// urlDecode decodes v in place, and returns the length of the result. What is
// no escape stays. With unicode, %u and four digits is a character, written in UTF-8.
func urlDecode(v []byte, unicode bool) int {
	n := 0
	for i := 0; i < len(v); {
		c := v[i]
		i++
		switch {
		case c == '+':
			c = ' '
		case c != '%':
		case unicode && i < len(v) && (v[i] == 'u' || v[i] == 'U'):
			if r, ok := hex4(v[i+1:]); ok && utf8.ValidRune(r) {
				n += utf8.EncodeRune(v[n:n+utf8.UTFMax], r) // at most 3 of the 6 bytes read
				i += 5
				continue
			}
		case i+1 < len(v):
			if hi, lo := unhex(v[i]), unhex(v[i+1]); hi >= 0 && lo >= 0 {
				c = byte(hi<<4 | lo)
				i += 2
			}
		}
		v[n] = c
		n++
	}
	return n
}

// hex4 reads four hexadecimal digits.
func hex4(v []byte) (rune, bool) {
	if len(v) < 4 {
		return 0, false
	}
	r := 0
	for _, c := range v[:4] {
		d := unhex(c)
		if d < 0 {
			return 0, false
		}
		r = r<<4 | d
	}
	return rune(r), true
}

// jsonStep is a key of an object or an index of an array.
type jsonStep struct {
	name    string
	isIndex bool
	index   int64
}

// jsonLookup finds a value in a document. A document that is not valid, or not
// UTF-8, has none. Where an object has a name twice the last one counts, as it does for
// most who read JSON.
func jsonLookup(doc []byte, path []jsonStep) ([]byte, bool) {
	if !json.Valid(doc) || !utf8.Valid(doc) {
		return nil, false
	}
	// Everything below may rely on the grammar.
	v := doc[jsonSpace(doc, 0):]
	for _, step := range path {
		if !step.isIndex && v[0] != '{' || step.isIndex && v[0] != '[' {
			return nil, false
		}
		found := -1
		position := int64(0)
		for i := jsonSpace(v, 1); v[i] != '}' && v[i] != ']'; position++ {
			here := step.isIndex && position == step.index
			if !step.isIndex {
				end := jsonEnd(v, i)
				here = jsonEqual(v[i:end], step.name)
				i = jsonSpace(v, jsonSpace(v, end)+1) // over the colon
			}
			if here {
				found = i
			}
			if here && step.isIndex {
				break
			}
			i = jsonSpace(v, jsonEnd(v, i))
			if v[i] == ',' {
				i = jsonSpace(v, i+1)
			}
		}
		if found < 0 {
			return nil, false
		}
		v = v[found:]
	}
	return v[:jsonEnd(v, 0)], true
}

func jsonSpace(v []byte, i int) int {
	for i < len(v) && (v[i] == ' ' || v[i] == '\t' || v[i] == '\n' || v[i] == '\r') {
		i++
	}
	return i
}

// jsonEnd returns where the value ends that begins at i.
func jsonEnd(v []byte, i int) int {
	depth := 0
	for ; i < len(v); i++ {
		switch v[i] {
		case '"':
			for i++; v[i] != '"'; i++ {
				if v[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // behind a number or word
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

// jsonEqual compares a string of a document, in its quotes, with name.
func jsonEqual(v []byte, name string) bool {
	v = v[1 : len(v)-1]
	for len(v) > 0 {
		var buf [utf8.UTFMax]byte
		c, size := buf[:1], 1
		if v[0] == '\\' {
			c, size = jsonEscape(buf[:0], v)
		} else {
			buf[0] = v[0]
		}
		if len(name) < len(c) || name[:len(c)] != string(c) {
			return false
		}
		v, name = v[size:], name[len(c):]
	}
	return name == ""
}

// jsonEscape appends what the escape at the beginning of v stands for, and
// returns how long it is.
func jsonEscape(to, v []byte) ([]byte, int) {
	switch c := v[1]; c {
	case 'b':
		return append(to, '\b'), 2
	case 'f':
		return append(to, '\f'), 2
	case 'n':
		return append(to, '\n'), 2
	case 'r':
		return append(to, '\r'), 2
	case 't':
		return append(to, '\t'), 2
	case 'u':
		r, _ := hex4(v[2:])
		if r >= 0xd800 && r < 0xdc00 && len(v) >= 12 && v[6] == '\\' && v[7] == 'u' {
			if low, _ := hex4(v[8:]); low >= 0xdc00 && low < 0xe000 {
				return utf8.AppendRune(to, (r-0xd800)<<10|(low-0xdc00)+0x10000), 12
			}
		}
		return utf8.AppendRune(to, r), 6 // half a pair becomes U+FFFD
	default:
		return append(to, c), 2
	}
}

// jsonString decodes a string of a document, in its quotes.
func jsonString(s *Scratch, v []byte) ([]byte, bool) {
	v = v[1 : len(v)-1]
	plain := true
	for _, c := range v {
		plain = plain && c != '\\'
	}
	if plain {
		return v, true
	}
	if !s.grow(len(v)) {
		return nil, false
	}
	start := len(s.buf)
	for len(v) > 0 {
		if v[0] != '\\' {
			s.buf = append(s.buf, v[0])
			v = v[1:]
			continue
		}
		size := 0
		s.buf, size = jsonEscape(s.buf, v)
		v = v[size:]
	}
	return s.buf[start:], true
}

// jsonInteger reads an integer: no fraction, no exponent, 64 bits.
func jsonInteger(v []byte) (int64, bool) {
	const longest = 20 // digits and sign
	if len(v) == 0 || len(v) > longest || v[0] != '-' && !isDigit(v[0]) {
		return 0, false
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	return n, err == nil
}
