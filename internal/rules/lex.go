package rules

import (
	"strings"
	"unicode/utf8"
)

// scanner reads the tokens of an expression. Which token comes depends on what
// was read before: 1..2 is a range behind in, and matches takes quotes in its
// own way. So the parser asks for what can stand there.
type scanner struct {
	src string
	pos int
}

// space skips white space.
func (s *scanner) space() {
	for s.pos < len(s.src) && isSpace(s.src[s.pos]) {
		s.pos++
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\r' || c == '\n' }

func (s *scanner) fail(pos int, format string, args ...any) *Error {
	return errorAt(s.src, pos, format, args...)
}

// peek returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	if s.pos == len(s.src) {
		return 0
	}
	return s.src[s.pos]
}

// eat reads c if it comes next.
func (s *scanner) eat(c byte) bool {
	if s.pos < len(s.src) && s.src[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

// next shows what comes next, for messages.
func (s *scanner) next() string {
	rest := s.src[s.pos:]
	if rest == "" {
		return "the end"
	}
	if rest[0] == '\t' {
		return "a tab (white space is space, CR and LF)"
	}
	if s.atString() {
		return "a string"
	}
	n := 0
	for n < len(rest) && isBare(rest[n]) {
		n++
	}
	if n == 0 {
		_, n = utf8.DecodeRuneInString(rest)
	}
	const most = 40
	if n > most {
		return quoted(rest[:most]) + "..."
	}
	return quoted(rest[:n])
}

func isLetter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWord(c byte) bool { return isLetter(c) || isDigit(c) || c == '.' }

func isBare(c byte) bool { return isWord(c) || c == ':' || c == '/' || c == '-' }

// word returns the keyword or operator in letters that comes next, without
// reading it.
func (s *scanner) word() string {
	n := s.pos
	for n < len(s.src) && isLetter(s.src[n]) {
		n++
	}
	return s.src[s.pos:n]
}

// name returns the field or function name that comes next, without reading it.
func (s *scanner) name() string {
	if !isLetter(s.peek()) {
		return ""
	}
	n := s.pos
	for n < len(s.src) && isWord(s.src[n]) {
		n++
	}
	return s.src[s.pos:n]
}

// symbol reads one of the symbols that comes next. They are tried in order.
func (s *scanner) symbol(symbols ...string) string {
	for _, sym := range symbols {
		if strings.HasPrefix(s.src[s.pos:], sym) {
			s.pos += len(sym)
			return sym
		}
	}
	return ""
}

// atString tells whether a string begins here.
func (s *scanner) atString() bool {
	rest := s.src[s.pos:]
	if strings.HasPrefix(rest, `"`) {
		return true
	}
	if !strings.HasPrefix(rest, "r") {
		return false
	}
	rest = strings.TrimLeft(rest[1:], "#")
	return strings.HasPrefix(rest, `"`)
}

// str reads a string in quotes or a raw string.
func (s *scanner) str(form literalForm) (*literal, *Error) {
	l := &literal{extent: extent{s.pos, s.pos}, form: form}
	var err *Error
	switch {
	case s.peek() == 'r':
		err = s.raw(l)
		if form == formPattern {
			l.text = plainQuotes(l.text)
		}
	case form == formPattern:
		err = s.pattern(l)
	default:
		err = s.quoted(l)
	}
	if err != nil {
		return nil, err
	}
	l.end = s.pos
	l.exact = s.src[l.at:l.at+min(len(l.text), len(s.src)-l.at)] == l.text
	return l, nil
}

func (s *scanner) raw(l *literal) *Error {
	start := s.pos
	s.pos++
	hashes := 0
	for s.eat('#') {
		hashes++
	}
	if hashes > 255 {
		return s.fail(start, "a raw string with %d #: want at most 255", hashes)
	}
	s.pos++ // the quote
	l.at = s.pos
	ending := `"` + strings.Repeat("#", hashes)
	n := strings.Index(s.src[s.pos:], ending)
	if n < 0 {
		return s.fail(start, "a string that does not end: want %s behind it", ending)
	}
	l.text = s.src[s.pos : s.pos+n]
	s.pos += n + len(ending)
	return nil
}

func (s *scanner) quoted(l *literal) *Error {
	start := s.pos
	s.pos++
	l.at = s.pos
	var b []byte
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		s.pos++
		switch c {
		case '"':
			l.text = string(b)
			return nil
		case '\\':
			v, err := s.escape()
			if err != nil {
				return err
			}
			b = append(b, v)
		default:
			b = append(b, c)
		}
	}
	return s.fail(start, `a string that does not end: want " behind it`)
}

// escape reads what follows a backslash.
func (s *scanner) escape() (byte, *Error) {
	at := s.pos - 1
	rest := s.src[s.pos:]
	switch {
	case rest != "" && (rest[0] == '"' || rest[0] == '\\'):
		s.pos++
		return rest[0], nil
	case len(rest) >= 3 && rest[0] == 'x':
		hi, lo := unhex(rest[1]), unhex(rest[2])
		if hi >= 0 && lo >= 0 {
			s.pos += 3
			return byte(hi<<4 | lo), nil
		}
	case len(rest) >= 3 && rest[0] >= '0' && rest[0] <= '3' && isOctal(rest[1]) && isOctal(rest[2]):
		s.pos += 3
		return (rest[0]-'0')<<6 | (rest[1]-'0')<<3 | (rest[2] - '0'), nil
	}
	_, n := utf8.DecodeRuneInString(rest)
	return 0, s.fail(at, `unknown escape \%s: want \", \\, \xHH or \000 to \377; r"..." takes backslashes as they are`, rest[:n])
}

func isOctal(c byte) bool { return c >= '0' && c <= '7' }

// unhex returns the value of a hexadecimal digit, or -1.
func unhex(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// pattern reads a quoted regular expression. Only \" is undone, and not in a
// class, where a quote stands for itself; the rest is for the regular
// expression to read.
func (s *scanner) pattern(l *literal) *Error {
	start := s.pos
	s.pos++
	l.at = s.pos
	class := false
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		s.pos++
		switch {
		case c == '\\' && s.pos < len(s.src):
			s.pos++
		case c == '"' && !class:
			l.text = plainQuotes(s.src[l.at : s.pos-1])
			return nil
		case c == '[' && !class:
			class = true
		case c == ']' && class:
			class = false
		}
	}
	return s.fail(start, `a pattern that does not end: want " behind it, outside of [ ]`)
}

// plainQuotes undoes \" outside of classes. It is done in raw strings too, where
// it does not change the meaning, so that a pattern has one form.
func plainQuotes(s string) string {
	if !strings.Contains(s, `\"`) {
		return s
	}
	b := make([]byte, 0, len(s))
	class := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			if class || s[i] != '"' {
				b = append(b, c)
			}
		case c == '[' && !class:
			class = true
		case c == ']' && class:
			class = false
		}
		b = append(b, s[i])
	}
	return string(b)
}

// bare reads a literal without quotes.
func (s *scanner) bare() *literal {
	start := s.pos
	for s.pos < len(s.src) && isBare(s.src[s.pos]) {
		s.pos++
	}
	if s.pos == start {
		return nil
	}
	return &literal{extent: extent{start, s.pos}, form: formBare, text: s.src[start:s.pos], exact: true, at: start}
}
