package rules

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode/utf8"
)

// expr is a part of an expression that is a boolean, or an array of booleans.
type expr interface {
	span() (pos, end int)
	// isArray is set once it was checked.
	isArray() bool
	// widen sets the span: parentheses belong to what is in them.
	widen(pos, end int)
}

type extent struct{ pos, end int }

func (e *extent) span() (pos, end int) { return e.pos, e.end }
func (e *extent) widen(pos, end int)   { e.pos, e.end = pos, end }

// joined is two or more expressions with one logical operator between them. It
// is flat, so that a long chain does not nest.
type joined struct {
	extent
	op    logicOp
	items []expr
	array bool
}

type negated struct {
	extent
	arg expr
}

type constant struct {
	extent
	is bool
}

// comparison is a value and what it is compared with, or a value alone.
type comparison struct {
	extent
	left  *value
	op    compareOp
	opPos int
	right *literal // nil for opNone
	array bool
}

func (e *joined) isArray() bool     { return e.array }
func (e *negated) isArray() bool    { return e.arg.isArray() }
func (e *constant) isArray() bool   { return false }
func (e *comparison) isArray() bool { return e.array }

// value is a field or a function call with indexes behind it.
type value struct {
	extent
	name    string
	nameEnd int
	call    *call // nil for a field
	index   []index

	field *FieldInfo // set when checked
	typ   Type       // with the indexes applied; that of an element if each
	each  bool       // an index is [*]
}

type call struct {
	args []arg
	end  int // behind the parenthesis
	fn   *function
}

// arg is a literal or an expression. A value that is no boolean is a comparison
// without an operator.
type arg struct {
	lit  *literal
	expr expr
}

func (a arg) span() (pos, end int) {
	if a.lit != nil {
		return a.lit.span()
	}
	return a.expr.span()
}

// valueType returns the type of a literal or of a value alone, that of an
// element if it has a [*]. Everything else is boolean.
func (a arg) valueType() Type {
	if a.lit != nil {
		return a.lit.typ
	}
	if e, ok := a.expr.(*comparison); ok && e.op == opNone {
		return e.left.typ
	}
	if a.expr.isArray() {
		return BoolArray
	}
	return Bool
}

type indexKind uint8

const (
	indexNumber indexKind = iota
	indexKey
	indexEach
)

type index struct {
	extent
	kind   indexKind
	number int
	key    string
}

type literalForm uint8

const (
	formString  literalForm = iota // in quotes
	formPattern                    // in quotes, behind matches
	formBare                       // integer, address, network, range or bytes
	formList
)

// literal is a value of the text. What a bare one is depends on what it is
// compared with, so that it is read when that is checked.
type literal struct {
	extent
	form  literalForm
	text  string // of a string or pattern decoded, of a bare one as written
	exact bool   // the text stands in the source as it is, from textPos on
	at    int    // where the text begins in the source
	items []*literal

	// Set when checked.
	typ    Type
	num    int64
	numMax int64 // of a range
	ip     netip.Addr
	ipMax  netip.Addr // of a range or network
	bytes  string
	regexp *pattern
	wild   *wildcard
}

type logicOp uint8

// The logical operators, by how tightly they bind.
const (
	opOr logicOp = iota + 1
	opXor
	opAnd
)

var logicNames = [...]string{opOr: "or", opXor: "xor", opAnd: "and"}

type compareOp uint8

const (
	opNone compareOp = iota
	opEq
	opNe
	opLt
	opLe
	opGt
	opGe
	opContains
	opMatches
	opWildcard
	opStrictWildcard
	opIn
	opBitwiseAnd
)

var compareNames = [...]string{
	opEq: "eq", opNe: "ne", opLt: "lt", opLe: "le", opGt: "gt", opGe: "ge",
	opContains: "contains", opMatches: "matches", opWildcard: "wildcard",
	opStrictWildcard: "strict wildcard", opIn: "in", opBitwiseAnd: "bitwise_and",
}

// printed writes an expression in one line. hide leaves out the keys of tokens.
func printed(e expr, hide bool) string {
	p := printer{hide: hide}
	p.expr(e, 0)
	return p.String()
}

type printer struct {
	strings.Builder
	hide bool
}

// expr writes e. within is the operator around it: what binds no tighter gets
// parentheses.
func (p *printer) expr(e expr, within logicOp) {
	switch e := e.(type) {
	case *constant:
		fmt.Fprint(p, e.is)
	case *negated:
		p.WriteString("not ")
		p.expr(e.arg, opAnd)
	case *joined:
		inner := e.op <= within
		if inner {
			p.WriteByte('(')
		}
		for i, item := range e.items {
			if i > 0 {
				p.WriteString(" " + logicNames[e.op] + " ")
			}
			p.expr(item, e.op)
		}
		if inner {
			p.WriteByte(')')
		}
	case *comparison:
		p.value(e.left)
		if e.op != opNone {
			p.WriteString(" " + compareNames[e.op] + " ")
			p.literal(e.right)
		}
	}
}

func (p *printer) value(v *value) {
	p.WriteString(v.name)
	if v.call != nil {
		p.WriteByte('(')
		for i, a := range v.call.args {
			if i > 0 {
				p.WriteString(", ")
			}
			switch {
			case p.hide && i == 0 && v.name == hmacName:
				p.WriteString(`"..."`)
			case a.lit != nil:
				p.literal(a.lit)
			default:
				p.expr(a.expr, 0)
			}
		}
		p.WriteByte(')')
	}
	for _, x := range v.index {
		switch x.kind {
		case indexNumber:
			fmt.Fprintf(p, "[%d]", x.number)
		case indexKey:
			p.WriteString("[" + quoted(x.key) + "]")
		case indexEach:
			p.WriteString("[*]")
		}
	}
}

func (p *printer) literal(l *literal) {
	switch l.form {
	case formString:
		p.WriteString(quoted(l.text))
	case formPattern:
		p.WriteString(quotedPattern(l.text))
	case formBare:
		p.WriteString(l.text)
	case formList:
		p.WriteByte('{')
		for i, item := range l.items {
			if i > 0 {
				p.WriteByte(' ')
			}
			p.literal(item)
		}
		p.WriteByte('}')
	}
}

// quoted writes a string as a literal.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteByte(s[0])
		case r < ' ' || r == 0x7f || r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		default:
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	b.WriteByte('"')
	return b.String()
}

// quotedPattern writes a pattern as a literal: the inverse of how the scanner
// reads it, which leaves everything as it is but quotes outside of classes.
func quotedPattern(s string) string {
	b := []byte{'"'}
	class := false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			b = append(b, c, s[i+1])
			i++
			continue
		case c == '[' && !class:
			class = true
		case c == ']' && class:
			class = false
		case c == '"' && !class:
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return string(append(b, '"'))
}
