package rules

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"fairlead/internal/model"
)

type parser struct {
	scanner
	depth int
}

// parse reads an expression. It knows no fields and functions: names and types
// are for the checker.
func parse(source string) (expr, error) {
	p := parser{scanner: scanner{src: source}}
	if len(source) > MaxLength {
		return nil, p.fail(0, "an expression of %d bytes: want at most %d", len(source), MaxLength)
	}
	if !utf8.ValidString(source) {
		n := 0
		for r, size := utf8.DecodeRuneInString(source); r != utf8.RuneError || size != 1; r, size = utf8.DecodeRuneInString(source[n:]) {
			n += size
		}
		return nil, p.fail(n, `a byte %#02x that is not UTF-8: write \x%02x in a string`, source[n], source[n])
	}
	p.space()
	if p.pos == len(source) {
		return nil, p.fail(p.pos, "an empty expression: true is always true")
	}
	e, err := p.expression()
	if err != nil {
		return nil, err
	}
	p.space()
	if p.pos < len(source) {
		return nil, p.unexpected()
	}
	return e, nil
}

// unexpected says what is wrong with what follows a whole expression.
func (p *parser) unexpected() *Error {
	switch word := p.word(); {
	case strings.ToLower(word) != word && isLogic(strings.ToLower(word)):
		return p.fail(p.pos, "%s: want %s, in lower case", word, strings.ToLower(word))
	case p.peek() == ')':
		return p.fail(p.pos, ") without its (")
	}
	return p.fail(p.pos, "%s behind the expression: want and, or, xor or the end", p.next())
}

func isLogic(word string) bool {
	return word == "and" || word == "or" || word == "xor" || word == "not"
}

// isCompare tells whether word is a comparison, or the first word of one.
func isCompare(word string) bool {
	for _, name := range compareNames {
		if word != "" && (word == name || strings.HasPrefix(name, word+" ")) {
			return true
		}
	}
	return false
}

// enter counts one more level; pos is where it begins.
func (p *parser) enter(pos int) *Error {
	p.depth++
	if p.depth > MaxDepth {
		return p.fail(pos, "nested deeper than %d", MaxDepth)
	}
	return nil
}

func (p *parser) leave() { p.depth-- }

// logic reads a logical operator that binds tighter than above.
func (p *parser) logic(above logicOp) logicOp {
	mark := p.pos
	p.space()
	word := p.word()
	p.pos += len(word)
	if word == "" {
		word = p.symbol("||", "^^", "&&")
	}
	op := logicOp(0)
	switch word {
	case "or", "||":
		op = opOr
	case "xor", "^^":
		op = opXor
	case "and", "&&":
		op = opAnd
	}
	if op <= above {
		p.pos = mark
		return 0
	}
	return op
}

func (p *parser) expression() (expr, *Error) { return p.chain(0) }

// chain reads what operators that bind tighter than above hold together.
func (p *parser) chain(above logicOp) (expr, *Error) {
	left, err := p.simple()
	if err != nil {
		return nil, err
	}
	var open *joined // the chain that left is, if it was read here
	for {
		op := p.logic(above)
		if op == 0 {
			return left, nil
		}
		p.space()
		right, err := p.chain(op)
		if err != nil {
			return nil, err
		}
		_, end := right.span()
		if open != nil && open.op == op {
			open.items = append(open.items, right)
			open.end = end
			continue
		}
		pos, _ := left.span()
		open = &joined{extent: extent{pos, end}, op: op, items: []expr{left, right}}
		left = open
	}
}

// simple reads an expression without operators around it.
func (p *parser) simple() (expr, *Error) {
	p.space()
	start := p.pos
	name := p.name()
	switch {
	case p.peek() == '(':
		if err := p.enter(start); err != nil {
			return nil, err
		}
		defer p.leave()
		p.pos++
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		p.space()
		if p.eat(')') {
			e.widen(start, p.pos)
			return e, nil
		}
		if p.pos == len(p.src) {
			return nil, p.fail(start, "( without its )")
		}
		if word := p.word(); word != strings.ToLower(word) {
			return nil, p.unexpected()
		}
		return nil, p.fail(p.pos, "%s: want ), and, or or xor", p.next())
	case name == "not" || p.peek() == '!':
		if err := p.enter(start); err != nil {
			return nil, err
		}
		defer p.leave()
		p.pos += max(len(name), 1)
		arg, err := p.simple()
		if err != nil {
			return nil, err
		}
		_, end := arg.span()
		return &negated{extent{start, end}, arg}, nil
	case name == "true" || name == "false":
		p.pos += len(name)
		e := &constant{extent{start, p.pos}, name == "true"}
		p.space()
		if op, _ := p.compare(); op != opNone {
			return nil, p.fail(start, "%s compared: booleans stand alone, as field or not field", name)
		}
		p.pos = e.end
		return e, nil
	case name == "":
		return nil, p.wantExpression()
	case isLogic(name):
		return nil, p.fail(start, "%s without an expression before it", name)
	case isLogic(strings.ToLower(name)):
		return nil, p.fail(start, "%s: want %s, in lower case", name, strings.ToLower(name))
	}
	return p.comparison()
}

// wantExpression says what could stand where no expression begins.
func (p *parser) wantExpression() *Error {
	const want = "want a field, a function, not or ("
	switch c := p.peek(); {
	case p.atString() || isDigit(c) || c == '-' || c == ':' || c == '{':
		return p.fail(p.pos, "a literal on the left: %s", want)
	case c == '$':
		return p.fail(p.pos, "%s: %s", namedList(p.src[p.pos:]), want)
	}
	return p.fail(p.pos, "%s: %s", p.next(), want)
}

func (p *parser) comparison() (expr, *Error) {
	v, err := p.value()
	if err != nil {
		return nil, err
	}
	e := &comparison{extent: v.extent, left: v}
	p.space()
	e.opPos = p.pos
	if e.op, err = p.compare(); err != nil {
		return nil, err
	}
	if e.op == opNone {
		p.pos = e.end
		return e, nil
	}
	p.space()
	if e.right, err = p.right(e.op); err != nil {
		return nil, err
	}
	e.end = p.pos
	return e, nil
}

// compare reads a comparison operator, or nothing if none comes.
func (p *parser) compare() (compareOp, *Error) {
	start := p.pos
	word := p.word()
	if word == "" {
		switch p.symbol("==", "!=", "<=", ">=", "<", ">", "~", "&&", "&", "=") {
		case "==":
			return opEq, nil
		case "!=":
			return opNe, nil
		case "<=":
			return opLe, nil
		case ">=":
			return opGe, nil
		case "<":
			return opLt, nil
		case ">":
			return opGt, nil
		case "~":
			return opMatches, nil
		case "&":
			return opBitwiseAnd, nil
		case "=":
			return opNone, p.fail(start, "=: want ==")
		}
		p.pos = start
		return opNone, nil
	}
	for op, name := range compareNames {
		if word == name {
			p.pos += len(word)
			return compareOp(op), nil
		}
	}
	if word == "strict" {
		p.pos += len(word)
		p.space()
		if p.word() == "wildcard" {
			p.pos += len("wildcard")
			return opStrictWildcard, nil
		}
		return opNone, p.fail(p.pos, "%s behind strict: want wildcard", p.next())
	}
	if isLogic(word) && word != "not" {
		return opNone, nil
	}
	low := strings.ToLower(word)
	switch {
	case low != word && (isLogic(low) || isCompare(low)):
		return opNone, p.fail(start, "%s: want %s, in lower case", word, low)
	case word == "not":
		return opNone, p.fail(start, "not behind a value: want it before the whole comparison, as in not a in {b}")
	case fieldsByName[p.name()] != nil:
		return opNone, p.fail(start, "%s is another field: want a comparison, and, or, or xor before it", p.name())
	case functionsByName[word] != nil:
		return opNone, p.fail(start, "%s between two values: want a call, as in %s(field, ...)", word, word)
	}
	if near := model.DidYouMean(word, operatorWords); near != "" {
		return opNone, p.fail(start, "unknown operator %q: did you mean %q?", word, near)
	}
	return opNone, p.fail(start, "unknown operator %q: want eq, ne, lt, le, gt, ge, contains, matches, wildcard, strict wildcard, in or bitwise_and", word)
}

var operatorWords = append([]string{"and", "or", "xor"}, compareNames[1:]...)

// right reads the literal on the right side of op.
func (p *parser) right(op compareOp) (*literal, *Error) {
	switch op {
	case opIn:
		return p.list()
	case opMatches:
		if p.atString() {
			return p.str(formPattern)
		}
		return nil, p.wantLiteral(`want a pattern, as "..." or r"..."`)
	}
	l, err := p.one("want a literal")
	if err != nil {
		return nil, err
	}
	return l, nil
}

// one reads a string or a bare literal.
func (p *parser) one(want string) (*literal, *Error) {
	if p.atString() {
		return p.str(formString)
	}
	if name := p.name(); fieldsByName[name] != nil || functionsByName[name] != nil {
		return nil, p.wantLiteral(want)
	}
	if l := p.bare(); l != nil {
		return l, nil
	}
	return nil, p.wantLiteral(want)
}

// wantLiteral says that no literal stands here.
func (p *parser) wantLiteral(want string) *Error {
	name := p.name()
	switch c := p.peek(); {
	case fieldsByName[name] != nil:
		return p.fail(p.pos, "%s is a field: %s, as fields stand only on the left", name, want)
	case functionsByName[name] != nil:
		return p.fail(p.pos, "%s is a function: %s, as functions stand only on the left", name, want)
	case c == '{':
		return p.fail(p.pos, "a list: %s, or in before the list", want)
	case c == '\'':
		return p.fail(p.pos, `a single quote: strings are written as "..." or r"..."`)
	case c == '$':
		return p.fail(p.pos, "%s: %s", namedList(p.src[p.pos:]), want)
	}
	return p.fail(p.pos, "%s: %s", p.next(), want)
}

// namedList says that there are none.
func namedList(rest string) string {
	n := 1
	for n < len(rest) && isWord(rest[n]) {
		n++
	}
	return rest[:n] + " is a named list, which load balancing rules do not have"
}

// list reads the members between braces.
func (p *parser) list() (*literal, *Error) {
	start := p.pos
	if !p.eat('{') {
		return nil, p.wantLiteral("want { and the members of a list")
	}
	l := &literal{form: formList}
	for {
		before := p.pos
		p.space()
		switch {
		case p.eat('}'):
			if len(l.items) == 0 {
				return nil, p.fail(start, "an empty list: want at least one member")
			}
			l.extent = extent{start, p.pos}
			return l, nil
		case p.pos == len(p.src):
			return nil, p.fail(start, "{ without its }")
		case p.peek() == ',':
			return nil, p.fail(p.pos, "a comma: members of a list are separated by spaces")
		case len(l.items) > 0 && before == p.pos:
			return nil, p.fail(p.pos, "%s: want a space or } behind a member", p.next())
		}
		item, err := p.one("want a member of the list or }")
		if err != nil {
			return nil, err
		}
		l.items = append(l.items, item)
	}
}

// value reads a field or a call, and indexes.
func (p *parser) value() (*value, *Error) {
	start := p.pos
	v := &value{name: p.name()}
	p.pos += len(v.name)
	v.nameEnd = p.pos
	p.space()
	if p.peek() == '(' {
		if err := p.enter(p.pos); err != nil {
			return nil, err
		}
		c, err := p.call(start, v.name)
		p.leave()
		if err != nil {
			return nil, err
		}
		v.call = c
	} else {
		p.pos = v.nameEnd
	}
	for {
		mark := p.pos
		p.space()
		if p.peek() != '[' {
			p.pos = mark
			break
		}
		x, err := p.index()
		if err != nil {
			return nil, err
		}
		v.index = append(v.index, x)
	}
	v.extent = extent{start, p.pos}
	return v, nil
}

func (p *parser) call(start int, name string) (*call, *Error) {
	open := p.pos
	p.pos++
	c := &call{}
	for {
		p.space()
		if len(c.args) == 0 && p.eat(')') {
			break
		}
		a, err := p.arg()
		if err != nil {
			return nil, err
		}
		c.args = append(c.args, a)
		p.space()
		if p.eat(')') {
			break
		}
		if p.pos == len(p.src) {
			return nil, p.fail(open, "( without its )")
		}
		if !p.eat(',') {
			return nil, p.fail(p.pos, "%s: want , or ) behind argument %d of %s", p.next(), len(c.args), name)
		}
	}
	c.end = p.pos
	return c, nil
}

func (p *parser) arg() (arg, *Error) {
	if p.atString() {
		l, err := p.str(formString)
		return arg{lit: l}, err
	}
	// A name can be the start of bytes, such as c2:b4.
	name := p.name()
	behind := p.pos + len(name)
	isName := name != "" && (behind == len(p.src) || p.src[behind] != ':' && p.src[behind] != '-')
	if !isName && isBare(p.peek()) {
		return arg{lit: p.bare()}, nil
	}
	e, err := p.expression()
	return arg{expr: e}, err
}

func (p *parser) index() (index, *Error) {
	start := p.pos
	p.pos++
	p.space()
	x := index{}
	switch {
	case p.eat('*'):
		x.kind = indexEach
	case p.atString():
		l, err := p.str(formString)
		if err != nil {
			return x, err
		}
		x.kind, x.key = indexKey, l.text
	default:
		const want = "want a position from 0, a key in quotes, or *"
		l := p.bare()
		if l == nil {
			return x, p.fail(p.pos, "index %s: %s", p.next(), want)
		}
		n, err := strconv.ParseUint(l.text, 10, 31)
		if err != nil {
			return x, p.fail(l.pos, "index %s: %s", l.text, want)
		}
		x.number = int(n)
	}
	p.space()
	if !p.eat(']') {
		return x, p.fail(p.pos, "%s: want ] behind the index", p.next())
	}
	x.extent = extent{start, p.pos}
	return x, nil
}
