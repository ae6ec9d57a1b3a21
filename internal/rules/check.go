package rules

import (
	"errors"
	"math"
	"net/netip"
	"strconv"
	"strings"

	"fairlead/internal/model"
)

// checker finds the fields and functions that an expression names, works out
// the types of its parts, and reads its literals for what they are compared
// with. What it finds it leaves in the tree.
type checker struct {
	source string
	mode   Mode
	used   [numFields]bool
	notes  []Note
}

func (c *checker) fail(pos int, format string, args ...any) *Error {
	return errorAt(c.source, pos, format, args...)
}

func (c *checker) note(pos int, format string, args ...any) {
	e := c.fail(pos, format, args...)
	c.notes = append(c.notes, Note(*e))
}

// check is for a whole expression.
func (c *checker) check(root expr) error {
	if err := c.expr(root); err != nil {
		return err
	}
	if root.isArray() {
		pos, _ := root.span()
		return c.fail(pos, "an array of booleans: want any(...) or all(...) around it")
	}
	return nil
}

func (c *checker) expr(e expr) *Error {
	switch e := e.(type) {
	case *negated:
		return c.expr(e.arg)
	case *joined:
		for i, item := range e.items {
			if err := c.expr(item); err != nil {
				return err
			}
			if i == 0 {
				e.array = item.isArray()
			} else if item.isArray() != e.array {
				pos, _ := item.span()
				return c.fail(pos, "%s joins a boolean and an array of booleans: want any(...) or all(...) around the array", logicNames[e.op])
			}
		}
	case *comparison:
		return c.comparison(e)
	}
	return nil
}

func (c *checker) comparison(e *comparison) *Error {
	v := e.left
	if err := c.value(v); err != nil {
		return err
	}
	e.array = v.each
	if e.op == opNone {
		switch {
		case v.typ == Bool:
		case v.typ == BoolArray && !v.each:
			e.array = true
		case v.typ == StringMap || v.typ.isArray():
			return c.fail(v.pos, "%s is %s: %s", c.text(v), v.typ.a(), takeElement(v.typ))
		default:
			return c.fail(v.end, "%s is %s: want a comparison behind it", c.text(v), v.typ.a())
		}
		return nil
	}
	switch {
	case v.typ == Bool || v.typ == BoolArray:
		return c.fail(e.opPos, "%s is %s, which stands without a comparison: want %s or not %s", c.text(v), v.typ.a(), c.text(v), c.text(v))
	case v.typ == StringMap || v.typ.isArray():
		return c.fail(v.pos, "%s is %s: %s", c.text(v), v.typ.a(), takeElement(v.typ))
	}
	return c.right(e, v.typ)
}

// text is the source of a value, unless it is long.
func (c *checker) text(v *value) string {
	const most = 60
	s := c.source[v.pos:v.end]
	if len(s) > most || strings.Contains(s, "\n") || v.call != nil {
		return "what " + v.name + " gives"
	}
	return s
}

// takeElement says how a comparable value is got out of a collection.
func takeElement(t Type) string {
	if t == StringMap {
		return `want an element, as ["key"][0] or, within any(...) or all(...), ["key"][*]`
	}
	return "want an element, as [0] or, within any(...) or all(...), [*]"
}

// right checks the operator and the literal for a value of type t.
func (c *checker) right(e *comparison, t Type) *Error {
	switch e.op {
	case opIn:
		for _, item := range e.right.items {
			if err := c.literal(item, t, true); err != nil {
				return err
			}
		}
		return nil
	case opContains, opMatches, opWildcard, opStrictWildcard:
		if t != String {
			return c.fail(e.opPos, "%s compares strings: %s is %s", compareNames[e.op], c.text(e.left), t.a())
		}
	case opBitwiseAnd:
		if t != Int {
			return c.fail(e.opPos, "bitwise_and compares integers: %s is %s", c.text(e.left), t.a())
		}
	}
	switch e.op {
	case opMatches:
		return checkPattern(c, e.right)
	case opWildcard, opStrictWildcard:
		if e.right.form != formString {
			return c.fail(e.right.pos, `%s: want a string, as "..." or r"..."`, e.right.text)
		}
		if err := checkWildcard(c, e.right); err != nil {
			return err
		}
		if e.op == opWildcard {
			e.right.wild.folded()
		}
		return nil
	}
	return c.literal(e.right, t, false)
}

// literal reads l as a value of type t, in a list also as a range of them.
func (c *checker) literal(l *literal, t Type, inList bool) *Error {
	l.typ = t
	switch {
	case t == String && l.form == formString:
		l.bytes = l.text
		return nil
	case t == String:
		b, ok := parseBytes(l.text)
		if !ok {
			return c.fail(l.pos, `%s: want a string, as "...", r"..." or, in bytes, 01:2e:f3`, l.text)
		}
		l.bytes = b
		return nil
	case l.form == formString:
		return c.fail(l.pos, "%s is a string: want %s", quoted(l.text), t.a())
	case t == Int:
		return c.integers(l, inList)
	}
	return c.addresses(l, inList)
}

// parseBytes reads hexadecimal pairs with separators between them.
func parseBytes(s string) (string, bool) {
	if len(s) < 5 || len(s)%3 != 2 {
		return "", false
	}
	b := make([]byte, 0, len(s)/3+1)
	for i := 0; i < len(s); i += 3 {
		hi, lo := unhex(s[i]), unhex(s[i+1])
		if hi < 0 || lo < 0 || i+2 < len(s) && strings.IndexByte(":-.", s[i+2]) < 0 {
			return "", false
		}
		b = append(b, byte(hi<<4|lo))
	}
	return string(b), true
}

func (c *checker) integers(l *literal, inList bool) *Error {
	low, high, isRange := strings.Cut(l.text, "..")
	if isRange && (low == "" || high == "") {
		return c.fail(l.pos, "%s: want an integer on both sides of ..", l.text)
	}
	var err *Error
	if l.num, err = c.integer(low, l.pos); err != nil {
		return err
	}
	l.numMax = l.num
	if !isRange {
		return nil
	}
	if !inList {
		return c.fail(l.pos, "%s is a range: want in {%s}", l.text, l.text)
	}
	if l.numMax, err = c.integer(high, l.pos+len(low)+2); err != nil {
		return err
	}
	if l.num > l.numMax {
		return c.fail(l.pos, "%s: want a range whose start is not over its end", l.text)
	}
	return nil
}

func (c *checker) integer(s string, pos int) (int64, *Error) {
	digits, base := s, 10
	if d, ok := strings.CutPrefix(s, "0x"); ok {
		digits, base = d, 16
	} else if len(s) > 1 && s[0] == '0' {
		digits, base = s[1:], 8
	}
	if strings.HasPrefix(s, "-0") && len(s) > 2 {
		return 0, c.fail(pos, "%s: want a negative integer in decimal, without a 0 before it", s)
	}
	// ParseInt would take signs and, in no base of ours, underscores.
	if base != 10 && strings.HasPrefix(digits, "-") {
		return 0, c.fail(pos, "%s: want an integer", s)
	}
	n, err := strconv.ParseInt(digits, base, 64)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, strconv.ErrRange):
		return 0, c.fail(pos, "%s: want an integer from %d to %d", s, math.MinInt64, math.MaxInt64)
	case base == 8:
		return 0, c.fail(pos, "%s: want an octal integer, as it begins with 0", s)
	case base == 16:
		return 0, c.fail(pos, "%s: want a hexadecimal integer, as it begins with 0x", s)
	}
	return 0, c.fail(pos, "%s: want an integer", s)
}

func (c *checker) addresses(l *literal, inList bool) *Error {
	text := l.text
	low, high, isRange := strings.Cut(text, "..")
	if isRange && (low == "" || high == "") {
		return c.fail(l.pos, "%s: want an IP address on both sides of ..", text)
	}
	var err *Error
	switch {
	case !inList && (isRange || strings.Contains(text, "/")):
		return c.fail(l.pos, "%s is more than one address: want in {%s}", text, text)
	case strings.Contains(text, "/"):
		return c.network(l)
	case !isRange:
		l.ip, err = c.address(text, l.pos)
		l.ipMax = l.ip
		return err
	}
	if l.ip, err = c.address(low, l.pos); err != nil {
		return err
	}
	if l.ipMax, err = c.address(high, l.pos+len(low)+2); err != nil {
		return err
	}
	if l.ip.Is4() != l.ipMax.Is4() {
		return c.fail(l.pos, "%s: want a range within IPv4 or within IPv6", text)
	}
	if l.ipMax.Less(l.ip) {
		return c.fail(l.pos, "%s: want a range whose start is not over its end", text)
	}
	return nil
}

func (c *checker) address(s string, pos int) (netip.Addr, *Error) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return a, c.fail(pos, "%s: want an IP address", s)
	}
	return a, c.plain(a, s, pos)
}

// plain refuses IPv4 in IPv6 form, as no value is one.
func (c *checker) plain(a netip.Addr, s string, pos int) *Error {
	if a.Is4In6() {
		return c.fail(pos, "%s is an IPv4 address in IPv6 form, as no value is: want it as IPv4", s)
	}
	return nil
}

func (c *checker) network(l *literal) *Error {
	n, err := netip.ParsePrefix(l.text)
	if err != nil {
		return c.fail(l.pos, "%s: want a network, as 192.0.2.0/24 or 2001:db8::/32", l.text)
	}
	if err := c.plain(n.Addr(), l.text, l.pos); err != nil {
		return err
	}
	if n != n.Masked() {
		return c.fail(l.pos, "%s has bits set behind its length: want %s", l.text, n.Masked())
	}
	l.ip, l.ipMax = n.Addr(), lastOf(n)
	return nil
}

// lastOf returns the last address of a network.
func lastOf(n netip.Prefix) netip.Addr {
	b := n.Addr().AsSlice()
	for i := n.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// value finds the field or function, and applies the indexes to its type.
func (c *checker) value(v *value) *Error {
	if v.call != nil {
		if err := c.call(v); err != nil {
			return err
		}
	} else if err := c.field(v); err != nil {
		return err
	}
	for i := range v.index {
		if err := c.index(v, i); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) field(v *value) *Error {
	f := fieldsByName[v.name]
	switch {
	case f != nil:
	case functionsByName[v.name] != nil:
		return c.fail(v.nameEnd, "%s is a function: want ( and its arguments behind it", v.name)
	default:
		return c.fail(v.pos, "unknown field %s%s", quoted(v.name), didYouMean(nearField(v.name)))
	}
	v.field, v.typ = f, f.Type
	if f.Modes&c.mode == 0 {
		c.note(v.pos, "%s does not exist for %s, only for %s: it is always missing", v.name, c.mode, f.Modes)
	}
	c.used[f.Field] = true
	if f.part != partNone {
		c.used[f.of] = true
	}
	return nil
}

func didYouMean(near string) string {
	if near == "" {
		return ""
	}
	return ": did you mean " + quoted(near) + "?"
}

// nearField returns the field that name is most likely meant for: one whose
// beginning or middle was left out, or a misprint.
func nearField(name string) string {
	first, last := name, name
	if i := strings.IndexByte(name, '.'); i >= 0 {
		first, last = name[:i], name[strings.LastIndexByte(name, '.')+1:]
	}
	for _, f := range fieldNames {
		if strings.HasSuffix(f, "."+last) && (first == last || strings.HasPrefix(f, first+".") || strings.HasSuffix(f, "."+name)) {
			return f
		}
	}
	return model.DidYouMean(name, fieldNames)
}

func (c *checker) index(v *value, i int) *Error {
	x := v.index[i]
	from := v.typ
	if v.each && from != StringArray {
		// The indexes before led to elements of this type.
		return c.fail(x.pos, "an index on %s: want none", from.a())
	}
	switch {
	case from == StringMap && x.kind == indexKey:
		v.typ = StringArray
		if v.field.Field == FieldHeaders && strings.ToLower(x.key) != x.key {
			c.note(x.pos, "names of headers are in lower case here: %s is always missing, %s may be meant", quoted(x.key), quoted(strings.ToLower(x.key)))
		}
	case from == StringMap && x.kind == indexEach:
		if i+1 == len(v.index) || v.index[i+1].kind != indexEach {
			return c.fail(x.end, "each array of a map: want [*] behind it, for each of their elements")
		}
		v.typ, v.each = StringArray, true
	case from == StringMap:
		return c.fail(x.pos, `a position in a map: want a key in quotes or *`)
	case from.isArray() && x.kind == indexNumber && !v.each:
		v.typ = from.element()
	case from.isArray() && x.kind == indexEach:
		v.typ, v.each = from.element(), true
	case from.isArray():
		return c.fail(x.pos, "a key for %s: want a position or *", from.a())
	default:
		return c.fail(x.pos, "an index on %s: want none", from.a())
	}
	return nil
}

func (c *checker) call(v *value) *Error {
	fn := functionsByName[v.name]
	if fn == nil {
		switch {
		case elsewhere[v.name]:
			return c.fail(v.pos, "%s is a function of other rule products: load balancing rules do not have it", v.name)
		case fieldsByName[v.name] != nil:
			return c.fail(v.nameEnd, "%s is a field, not a function: want no ( behind it", v.name)
		}
		return c.fail(v.pos, "unknown function %s%s", quoted(v.name), didYouMean(model.DidYouMean(v.name, functionNames)))
	}
	v.call.fn = fn
	args := v.call.args
	if len(args) < fn.least || len(args) > fn.most() {
		return c.fail(v.pos, "%s with %s: want %s", v.name, count(len(args), "argument"), fn.usage)
	}
	mapped := false
	for i, a := range args {
		t, each, err := c.arg(fn, i, a, args)
		if err != nil {
			return err
		}
		if each && i > 0 {
			pos, _ := a.span()
			return c.fail(pos, "[*] in argument %d of %s: want it in the first only", i+1, v.name)
		}
		if i == 0 {
			mapped = each && !fn.takesEach
			v.typ = fn.result
			if fn.like {
				v.typ = t
			}
		}
	}
	if mapped {
		v.typ = v.typ.array()
	}
	return nil
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// arg checks argument i of fn, and returns its type: that of an element if it
// has a [*].
func (c *checker) arg(fn *function, i int, a arg, all []arg) (t Type, each bool, err *Error) {
	p := fn.param(i)
	pos, _ := a.span()
	wrong := func(got string) *Error {
		return c.fail(pos, "argument %d of %s is %s: want %s", i+1, fn.name, got, p.want)
	}
	if a.lit != nil {
		if p.kind == paramValue {
			return 0, false, wrong("a literal")
		}
		if t, err = c.argLiteral(a.lit); err != nil {
			return 0, false, err
		}
		if !p.takes(t) {
			return 0, false, wrong(t.a())
		}
		if p.check != nil {
			if want := p.check(a.lit); want != "" {
				return 0, false, c.fail(pos, "argument %d of %s is %s: want %s", i+1, fn.name, c.source[a.lit.pos:a.lit.end], want)
			}
		}
		return t, false, c.sameAsFirst(fn, i, t, all, pos)
	}
	if p.kind == paramLiteral {
		return 0, false, wrong("no literal")
	}
	if e, ok := a.expr.(*comparison); ok && e.op == opNone {
		err = c.value(e.left)
		each = e.left.each
		e.array = each || e.left.typ == BoolArray
	} else {
		err = c.expr(a.expr)
	}
	if err != nil {
		return 0, false, err
	}
	t = a.valueType()
	if fn.takesEach && each {
		if t != Bool {
			return 0, false, wrong(t.array().a())
		}
		t = BoolArray
	}
	if !p.takes(t) {
		return 0, false, wrong(t.a())
	}
	return t, each, c.sameAsFirst(fn, i, t, all, pos)
}

// sameAsFirst checks that functions of the type of their first argument have
// only such arguments.
func (c *checker) sameAsFirst(fn *function, i int, t Type, all []arg, pos int) *Error {
	if first := all[0].valueType(); fn.like && t != first {
		return c.fail(pos, "argument %d of %s is %s: want %s, as the first is", i+1, fn.name, t.a(), first.a())
	}
	return nil
}

// argLiteral reads a literal whose type nothing else tells.
func (c *checker) argLiteral(l *literal) (Type, *Error) {
	if l.form == formString {
		return String, c.literal(l, String, false)
	}
	if _, ok := parseBytes(l.text); ok {
		return String, c.literal(l, String, false)
	}
	if strings.ContainsAny(l.text, ":/") || strings.Contains(l.text, ".") {
		return 0, c.fail(l.pos, "%s: want a string, bytes such as 01:2e:f3, or an integer", l.text)
	}
	return Int, c.literal(l, Int, false)
}
