package rules

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"
)

// pattern is a compiled regular expression.
//
// Go's work on UTF-8. To work on bytes, those over 0x7f are written as the
// characters of the same number, in the pattern when it is compiled and in the
// value when it has any.
type pattern struct {
	re      *regexp.Regexp
	unicode bool
}

// match is missing only where there is no memory for a rewritten value.
func (p *pattern) match(s *Scratch, v []byte) (is, ok bool) {
	if p.unicode {
		return p.re.Match(v), true
	}
	high := 0
	for _, c := range v {
		high += int(c >> 7)
	}
	if high == 0 {
		return p.re.Match(v), true
	}
	if !s.grow(len(v) + high) {
		return false, false
	}
	mark := len(s.buf)
	for _, c := range v {
		s.buf = utf8.AppendRune(s.buf, rune(c))
	}
	is = p.re.Match(s.buf[mark:])
	s.buf = s.buf[:mark]
	return is, true
}

// checkPattern compiles the pattern in l.
func checkPattern(c *checker, l *literal) *Error {
	at := func(i int) int {
		if l.exact {
			return l.at + i
		}
		return l.pos
	}
	if len(l.text) > MaxPattern {
		return c.fail(l.pos, "a pattern of %d bytes: want at most %d", len(l.text), MaxPattern)
	}
	p := &pattern{}
	text, skipped, flags := l.text, 0, ""
	if m := leadingFlags.FindStringSubmatch(text); m != nil {
		on, off, _ := strings.Cut(m[1], "-")
		if strings.Contains(on, "u") || strings.Contains(off, "u") {
			p.unicode = strings.Contains(on, "u")
			on, off = strings.ReplaceAll(on, "u", ""), strings.ReplaceAll(off, "u", "")
			text, skipped = text[len(m[0]):], len(m[0])
			if off != "" {
				off = "-" + off
			}
			if on+off != "" {
				flags = "(?" + on + off + ")"
			}
		}
	}
	r := rewriter{text: text, unicode: p.unicode}
	if err := r.rewrite(); err != nil {
		return c.fail(at(skipped+r.at), "%v", err)
	}
	text = flags + r.out.String()
	tree, err := syntax.Parse(text, syntax.Perl)
	if err == nil {
		if n := sizeOf(tree); n > maxPatternSize {
			return c.fail(l.pos, "a pattern that takes about %d steps: want at most %d; large or nested repetitions cost most", n, maxPatternSize)
		}
		p.re, err = regexp.Compile(text)
	}
	if err != nil {
		where, what := l.pos, err.Error()
		var e *syntax.Error
		if errors.As(err, &e) {
			what = e.Code.String() + ": " + strconv.Quote(e.Expr)
			if e.Code == syntax.ErrInvalidRepeatSize {
				what = "a repetition of more than 1000, alone or with those around it: " + strconv.Quote(e.Expr)
			}
			if lookAround.MatchString(e.Expr) {
				what = "look-around, which this language does not have: " + strconv.Quote(e.Expr)
			}
			if i := strings.Index(l.text, e.Expr); i >= 0 {
				where = at(i)
			}
		}
		return c.fail(where, "a pattern that is no regular expression: %s", what)
	}
	l.regexp = p
	return nil
}

var (
	leadingFlags = regexp.MustCompile(`^\(\?([a-zA-Z]*(?:-[a-zA-Z]*)?)\)`)
	lookAround   = regexp.MustCompile(`^\(\?<?[=!]`)
)

// rewriter writes a pattern of Rust's for Go, and refuses what the two read
// differently.
type rewriter struct {
	text    string
	at      int // where an error is
	unicode bool
	out     strings.Builder
}

const wantUnicode = "want (?u) at the beginning, so that the pattern works on UTF-8"

func (r *rewriter) rewrite() error {
	i := 0
	class := -1 // where the class began
	for i < len(r.text) {
		r.at = i
		rest := r.text[i:]
		switch c := rest[0]; {
		case c == '\\':
			n, err := r.escape(rest, class >= 0)
			if err != nil {
				return err
			}
			i += n
			continue
		case c >= utf8.RuneSelf && !r.unicode:
			_, n := utf8.DecodeRuneInString(rest)
			if class >= 0 {
				return fmt.Errorf("%s in a class: %s", rest[:n], wantUnicode)
			}
			r.out.WriteString("(?-i:")
			for _, b := range []byte(rest[:n]) {
				fmt.Fprintf(&r.out, `\x{%02x}`, b)
			}
			r.out.WriteByte(')')
			i += n
			continue
		case c == '[' && class < 0:
			class = i
			n := 1
			if strings.HasPrefix(rest[n:], "^") {
				n++
			}
			if strings.HasPrefix(rest[n:], "]") {
				n++
			}
			r.out.WriteString(rest[:n])
			i += n
			continue
		case class < 0:
		case strings.HasPrefix(rest, "[:"):
			if n := strings.Index(rest, ":]"); n > 0 {
				r.out.WriteString(rest[:n+2])
				i += n + 2
				continue
			}
			return errors.New(`[ in a class: want \[`)
		case c == '[':
			return errors.New(`[ in a class, which Rust takes for a nested class: want \[ for the character`)
		case strings.HasPrefix(rest, "&&") || strings.HasPrefix(rest, "~~") || strings.HasPrefix(rest, "--"):
			return fmt.Errorf(`%s in a class, which Rust takes for an operation on classes: want it escaped`, rest[:2])
		case c == ']':
			class = -1
		}
		r.out.WriteByte(rest[0])
		i++
	}
	r.at = 0
	return nil
}

// escape writes the escape at the beginning of rest, and returns its length.
func (r *rewriter) escape(rest string, inClass bool) (int, error) {
	if len(rest) == 1 {
		return 0, errors.New("a backslash at the end of a pattern")
	}
	switch c := rest[1]; {
	case c == 'Q' || c == 'E' || c == 'C':
		return 0, fmt.Errorf(`\%c in a pattern: Rust does not have it`, c)
	case c == '<' || c == '>' || strings.HasPrefix(rest[1:], "b{"):
		return 0, fmt.Errorf(`\%c in a pattern, which Rust takes for a kind of word boundary: want \b`, c)
	case (c == 'p' || c == 'P') && !r.unicode:
		return 0, fmt.Errorf(`\%c in a pattern: %s`, c, wantUnicode)
	case isDigit(c):
		return 0, fmt.Errorf(`\%c in a pattern: back-references and octal escapes do not exist, want \xHH`, c)
	case c >= utf8.RuneSelf:
		_, n := utf8.DecodeRuneInString(rest[1:])
		return 0, fmt.Errorf(`\%s in a pattern: unknown escape`, rest[1:1+n])
	case c != 'x' || r.unicode:
		r.out.WriteString(rest[:2])
		return 2, nil
	}
	digits, n := "", 4
	if strings.HasPrefix(rest, `\x{`) {
		n = strings.IndexByte(rest, '}') + 1
		digits = rest[3:max(n-1, 3)]
	} else if len(rest) >= 4 {
		digits = rest[2:4]
	}
	v, err := strconv.ParseUint(digits, 16, 32)
	switch {
	case err != nil:
		return 0, errors.New(`\x in a pattern: want \xHH or \x{HH}`)
	case v > 0xff:
		return 0, fmt.Errorf(`\x{%s} in a pattern: %s`, digits, wantUnicode)
	case v >= utf8.RuneSelf && !inClass:
		fmt.Fprintf(&r.out, `(?-i:\x{%02x})`, v)
	default:
		fmt.Fprintf(&r.out, `\x{%02x}`, v)
	}
	return n, nil
}

// sizeOf estimates how many instructions a pattern compiles to, without
// compiling it: counted repetitions are copies.
func sizeOf(re *syntax.Regexp) int {
	const most = 1 << 30
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCapture:
		n = 2
	case syntax.OpConcat, syntax.OpRepeat:
		n = 0
	case syntax.OpAlternate:
		n = len(re.Sub) - 1
	}
	for _, sub := range re.Sub {
		n = min(n+sizeOf(sub), most)
	}
	if re.Op == syntax.OpRepeat {
		times := re.Max
		if times < 0 {
			times = re.Min + 1
		}
		n = min(n*max(times, 1), most)
	}
	return n
}
