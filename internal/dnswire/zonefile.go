package dnswire

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Record is one record of a zone, as it was written down.
type Record struct {
	Owner Name // in the case that it was written in
	Type  Type
	TTL   uint32
	Data  []byte // in wire form, uncompressed
	// Line and Column are where it stands in its file, from 1; 0 for a record
	// that comes from elsewhere.
	Line, Column int
}

// ZoneFileError is what is wrong at a place of a zone file.
type ZoneFileError struct {
	Line, Column int
	Err          error
}

func (e *ZoneFileError) Error() string { return fmt.Sprintf("%d:%d: %v", e.Line, e.Column, e.Err) }
func (e *ZoneFileError) Unwrap() error { return e.Err }

// Bounds of zone files.
const (
	maxEntry     = 256 << 10 // bytes of one record as text
	maxTTL       = 1<<31 - 1 // RFC 2181 section 8
	maxFileFails = 20        // errors after which a file is given up
)

// ParseZone reads a zone file (RFC 1035 section 5, RFC 2308 section 4) in which
// names are relative to origin until $ORIGIN says otherwise. $INCLUDE and
// $GENERATE are refused. Errors do not end it, so that all are found at once,
// unless there are too many.
func ParseZone(text []byte, origin Name) (records []Record, errs []*ZoneFileError) {
	p := zoneParser{lex: zoneLexer{text: text, line: 1}, origin: origin}
	for len(errs) < maxFileFails {
		more, err := p.entry()
		if err != nil {
			var at *ZoneFileError
			if !errors.As(err, &at) {
				at = &ZoneFileError{p.line, p.column, err}
			}
			errs = append(errs, at)
		}
		if !more {
			break
		}
	}
	return p.records, errs
}

type zoneParser struct {
	lex     zoneLexer
	origin  Name
	owner   Name   // of the entry before
	ttl     uint32 // of $TTL
	hasTTL  bool
	last    uint32 // TTL of the record before
	hasLast bool
	records []Record

	line, column int // of the entry
}

// entry reads one entry and reports whether more may follow.
func (p *zoneParser) entry() (more bool, err error) {
	words, more, err := p.lex.entry()
	if len(words) > 0 {
		p.line, p.column = words[0].line, words[0].column
	}
	if err != nil || len(words) == 0 {
		return more, err
	}
	if strings.HasPrefix(words[0].text, "$") && !words[0].quoted && !p.lex.indented {
		return more, p.directive(words)
	}
	if !p.lex.indented {
		if words[0].quoted {
			return more, errors.New("want the name of a record without quotes")
		}
		owner, err := ParseName(words[0].text, p.origin)
		if err != nil {
			p.owner = "" // what follows must not go to another name
			return more, fmt.Errorf("name %q: %w", words[0].text, err)
		}
		p.owner = owner
		words = words[1:]
	} else if p.owner == "" {
		return more, errors.New("record without a name: the first one of a file, or after a wrong one, needs it")
	}
	return more, p.record(words)
}

func (p *zoneParser) directive(words []word) error {
	name, args := strings.ToUpper(words[0].text), words[1:]
	one := func() (string, error) {
		if len(args) != 1 {
			return "", fmt.Errorf("%s: want one value", name)
		}
		return args[0].text, nil
	}
	switch name {
	case "$ORIGIN":
		text, err := one()
		if err != nil {
			return err
		}
		origin, err := ParseName(text, p.origin)
		if err != nil {
			return fmt.Errorf("$ORIGIN %s: %w", text, err)
		}
		p.origin = origin
	case "$TTL":
		text, err := one()
		if err != nil {
			return err
		}
		ttl, ok := parseTTL(text)
		if !ok {
			return fmt.Errorf("$TTL %s: want 0 to %d seconds, or as in 1h30m", text, maxTTL)
		}
		p.ttl, p.hasTTL = ttl, true
	case "$INCLUDE":
		return errors.New("$INCLUDE is not supported: one zone is one file")
	case "$GENERATE":
		return errors.New("$GENERATE is not supported: it is no part of zone files (RFC 1035)")
	default:
		return fmt.Errorf("%s is not known: want $ORIGIN or $TTL", words[0].text)
	}
	return nil
}

// record reads what follows the name: TTL and class in any order, both of which
// may be missing, the type, and the data.
func (p *zoneParser) record(words []word) error {
	r := Record{Owner: p.owner, Line: p.line, Column: p.column}
	hasTTL, hasClass := false, false
	for ; len(words) > 0; words = words[1:] {
		w := words[0].text
		if words[0].quoted {
			break
		}
		if ttl, ok := parseTTL(w); ok && !hasTTL {
			r.TTL, hasTTL = ttl, true
			continue
		}
		if !hasClass && strings.EqualFold(w, "IN") {
			hasClass = true
			continue
		}
		if !hasClass && (strings.EqualFold(w, "CH") || strings.EqualFold(w, "HS") || strings.EqualFold(w, "CS") ||
			len(w) > 5 && strings.EqualFold(w[:5], "CLASS") && strings.Trim(w[5:], "0123456789") == "") {
			return fmt.Errorf("class %s: want IN", w)
		}
		break
	}
	if len(words) == 0 {
		return errors.New("want the type of the record")
	}
	var ok bool
	if r.Type, ok = ParseType(words[0].text); !ok || words[0].quoted {
		return &ZoneFileError{words[0].line, words[0].column, fmt.Errorf("%q is not the type of a record", words[0].text)}
	}
	if r.Type.Meta() {
		return &ZoneFileError{words[0].line, words[0].column, fmt.Errorf("%s: no record has this type", r.Type)}
	}
	switch words = words[1:]; {
	case len(words) == 0:
		return errors.New("want the data of the record")
	case hasTTL:
	case p.hasTTL:
		r.TTL = p.ttl
	case p.hasLast:
		r.TTL = p.last
	case r.Type == TypeSOA: // its own minimum (RFC 1035 section 5 has it so for all)
	default:
		return errors.New("no TTL: want one here, or $TTL before")
	}
	var err error
	if r.Data, err = ParseRData(r.Type, join(words), p.origin); err != nil {
		return &ZoneFileError{words[0].line, words[0].column, fmt.Errorf("%s: %w", r.Type, err)}
	}
	if r.Type == TypeSOA && !hasTTL && !p.hasTTL && !p.hasLast {
		r.TTL = min(SOAOf(r.Data).Minimum, maxTTL)
	}
	p.last, p.hasLast = r.TTL, true
	p.records = append(p.records, r)
	return nil
}

// parseTTL reads seconds, or numbers with the units that BIND made usual.
func parseTTL(s string) (uint32, bool) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, false
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return uint32(n), n <= maxTTL
	}
	var sum, n uint64
	digits := false
	for i := range len(s) {
		c := s[i]
		if c >= '0' && c <= '9' {
			n, digits = n*10+uint64(c-'0'), true
			if n > maxTTL {
				return 0, false
			}
			continue
		}
		unit := map[byte]uint64{'s': 1, 'm': 60, 'h': 3600, 'd': 86400, 'w': 604800}[c|0x20]
		if !digits || unit == 0 {
			return 0, false
		}
		sum += n * unit
		n, digits = 0, false
		if sum > maxTTL {
			return 0, false
		}
	}
	return uint32(sum), !digits
}

// word is a part of an entry: what stands between spaces, or a text in quotes.
type word struct {
	text         string // with its escapes; without the quotes
	quoted       bool
	glued        bool // nothing stood before it: key="value"
	line, column int
}

// join puts words back into a line.
func join(words []word) string {
	if len(words) == 1 && !words[0].quoted {
		return words[0].text
	}
	var b strings.Builder
	for i, w := range words {
		if i > 0 && !w.glued {
			b.WriteByte(' ')
		}
		if w.quoted {
			b.WriteByte('"')
			b.WriteString(w.text)
			b.WriteByte('"')
		} else {
			b.WriteString(w.text)
		}
	}
	return b.String()
}

// zoneLexer splits a file into entries: lines, or what parentheses hold together.
type zoneLexer struct {
	text      []byte
	pos       int
	line      int
	lineStart int
	indented  bool // the entry began with a space
	words     []word
}

func (l *zoneLexer) fail(format string, args ...any) error {
	return &ZoneFileError{l.line, l.pos - l.lineStart + 1, fmt.Errorf(format, args...)}
}

// entry returns the words of the next entry and whether there may be more. An
// entry without words is an empty line.
func (l *zoneLexer) entry() (words []word, more bool, err error) {
	l.words = l.words[:0]
	begin, depth := l.pos, 0
	l.indented = l.pos < len(l.text) && (l.text[l.pos] == ' ' || l.text[l.pos] == '\t')
	for l.pos < len(l.text) {
		if l.pos-begin > maxEntry {
			err := l.fail("a record of more than %d bytes", maxEntry)
			return nil, false, err
		}
		switch c := l.text[l.pos]; c {
		case '\n':
			l.pos++
			l.line++
			l.lineStart = l.pos
			if depth == 0 {
				return l.words, l.pos < len(l.text), nil
			}
		case ' ', '\t', '\r':
			l.pos++
		case ';':
			for l.pos < len(l.text) && l.text[l.pos] != '\n' {
				l.pos++
			}
		case '(':
			depth++
			l.pos++
			if depth > 1 { // what follows would be read as one record
				err := l.fail("parentheses within parentheses")
				l.skipLine()
				return nil, l.pos < len(l.text), err
			}
		case ')':
			l.pos++
			if depth--; depth < 0 {
				err := l.fail(") without (")
				l.skipLine()
				return nil, l.pos < len(l.text), err
			}
		default:
			if err := l.word(); err != nil {
				l.skipLine()
				return nil, l.pos < len(l.text), err
			}
		}
	}
	if depth > 0 {
		return nil, false, l.fail("( without )")
	}
	return l.words, false, nil
}

func (l *zoneLexer) skipLine() {
	next := bytes.IndexByte(l.text[l.pos:], '\n')
	if next < 0 {
		l.pos = len(l.text)
		return
	}
	l.pos += next + 1
	l.line++
	l.lineStart = l.pos
}

// word reads one word.
func (l *zoneLexer) word() error {
	w := word{line: l.line, column: l.pos - l.lineStart + 1}
	if l.pos > 0 && len(l.words) > 0 {
		switch l.text[l.pos-1] {
		case ' ', '\t', '\r', '\n', '(', ')':
		default:
			w.glued = true
		}
	}
	start := l.pos
	if l.text[l.pos] == '"' {
		w.quoted = true
		l.pos++
		start = l.pos
		for ; ; l.pos++ {
			if l.pos >= len(l.text) || l.text[l.pos] == '\n' {
				return l.fail("want a quote at the end of the text")
			}
			if l.text[l.pos] == '\\' {
				l.pos++
				if l.pos >= len(l.text) || l.text[l.pos] == '\n' {
					return l.fail(`want a character after \`)
				}
				continue
			}
			if l.text[l.pos] == '"' {
				break
			}
		}
		w.text = string(l.text[start:l.pos])
		l.pos++
	} else {
		for ; l.pos < len(l.text); l.pos++ {
			c := l.text[l.pos]
			if c == '\\' && l.pos+1 < len(l.text) && l.text[l.pos+1] != '\n' {
				l.pos++
				continue
			}
			if c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ';' || c == '(' || c == ')' || c == '"' {
				break
			}
			if c < ' ' {
				return l.fail("a control character, %#02x", c)
			}
		}
		w.text = string(l.text[start:l.pos])
	}
	l.words = append(l.words, w)
	return nil
}
