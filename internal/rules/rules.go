// Package rules is the expression language of load balancer rules: it reads an
// expression, checks it, and tells for a request whether it is true.
//
//	http.host eq "example.com" and not ip.src in {10.0.0.0/8 2001:db8::/32}
//
// [Compile] turns the text into a [Program] or into an [*Error] that points at
// the byte where it went wrong. [Program.Match] runs it over what an [Env]
// knows of one request, query or connection. The fields are those of [Schema];
// each exists in some modes only (see [Mode]). A Program is never changed and
// may be used by any number of goroutines at once, each with a [Scratch] of its
// own; once a Scratch has grown to what an expression needs, nothing allocates.
//
// The language is that of Cloudflare's load balancing rules. A value may be
// missing: a map without that key, an array without that index, a field that
// the mode does not have, a function of something missing. A comparison with a
// missing value is false, but for ne, which is true. any of nothing is false,
// all of nothing is true. The right side of a comparison is always a literal.
//
// These things differ:
//
//   - Patterns of matches are Go's (RE2 syntax), which lack what Rust's have
//     beyond it: x flag, nested classes and their operations, \u escapes, word
//     boundaries other than \b and \B. They are refused, not read otherwise. As
//     in Rust a pattern works on bytes, so that . is one byte and \xff is that
//     byte, unless it begins with (?u): then it works on UTF-8, where \w, \d,
//     \s and \b stay ASCII and a byte that is not UTF-8 counts as U+FFFD. \s
//     has no vertical tab. In a class, (?i) also folds bytes over 0x7f, as if
//     they were Latin-1.
//   - A map taken with [*] is a map of arrays and must be taken with [*] again:
//     http.request.headers[*][*] is all values. The order is that of the
//     request.
//   - true and false stand alone as expressions; they cannot be compared with.
//   - Inside any and all, and, or and xor join arrays element by element, up to
//     the shortest, without further parentheses.
//   - An IPv4 address in IPv6 form (::ffff:192.0.2.1) is that IPv4 address. As
//     a literal it is refused.
//   - An empty list, and a negative octal or hexadecimal integer, are refused.
//   - What functions make is bounded to 1 MiB for one comparison, or for one
//     element of an array; what would not fit is missing.
//
// The package reads no clock and opens nothing. How expressions are attached to
// load balancers, and what a match does, is for its callers.
package rules

// Limits of an expression.
const (
	// MaxLength is the longest expression, in bytes. It has room for a list
	// of a thousand networks.
	MaxLength = 64 << 10
	// MaxDepth is how deep parentheses, not and function calls may nest.
	MaxDepth = 128
	// MaxPattern is the longest regular expression, in bytes.
	MaxPattern = 1024

	maxPatternSize = 4096    // instructions of a compiled pattern, about
	maxMade        = 1 << 20 // bytes that the functions of one comparison make
	maxKept        = 64 << 10
)

// Program is a compiled expression.
type Program struct {
	source string
	mode   Mode
	root   expr
	match  func(*Scratch) bool
	cursor int // how many cursors a Scratch needs
	fields []Field
	notes  []Note
}

// Compile reads, checks and compiles an expression for use in one mode. An
// error is always an *Error.
func Compile(source string, mode Mode) (*Program, error) {
	root, err := parse(source)
	if err != nil {
		return nil, err
	}
	c := checker{source: source, mode: mode}
	if err := c.check(root); err != nil {
		return nil, err
	}
	b := builder{mode: mode}
	p := &Program{source: source, mode: mode, root: root, notes: c.notes}
	p.match = b.boolean(root)
	p.cursor = b.cursors
	for f := range numFields {
		if c.used[f] && schema[f].Modes&mode != 0 {
			p.fields = append(p.fields, f)
		}
	}
	return p, nil
}

// Match tells whether the expression is true for what env knows. The Scratch
// must not be in use elsewhere; nothing of env is kept in it.
func (p *Program) Match(env Env, s *Scratch) bool {
	s.begin(env, p.cursor)
	is := p.match(s)
	s.end()
	return is
}

// Fields lists the fields that Match may ask an Env for, each once and in the
// order of their declaration. An array that is part of a map is listed as such
// and as that map.
func (p *Program) Fields() []Field { return p.fields }

// Notes lists what is legal in the expression and yet cannot be meant, in the
// order of the text.
func (p *Program) Notes() []Note { return p.notes }

// Source returns the text that was compiled.
func (p *Program) Source() string { return p.source }

// String returns the expression in one line and one spelling: words for
// operators, single spaces, and no parentheses that are not needed.
func (p *Program) String() string { return printed(p.root, false) }
