package rules

import (
	"strconv"
	"strings"
)

// Step is one part of an explained expression: the whole, or what an operator
// joins. A step without parts is a comparison, a boolean field or a call.
type Step struct {
	Position
	Text   string // as written; keys of tokens are left out
	Op     string // and, or, xor, not; "" for a comparison
	Result bool
	// Value is what the left side of a comparison is: a string in quotes, a
	// number, an address, the elements of an array in brackets, true, false,
	// or missing. Long ones are cut.
	Value string
	Parts []Step
}

// Explain evaluates the expression for env and tells the result of each part,
// also of those that Match does not reach because the result is known before.
// It is slow and allocates.
func (p *Program) Explain(env Env) Step {
	var s Scratch
	b := builder{mode: p.mode}
	step := b.explain(p.source, p.root)
	s.begin(env, b.cursors)
	return step(&s)
}

// explain compiles e anew, with a way to see what each part is. It is only done
// when it is asked for, so that programs stay small.
func (b *builder) explain(source string, e expr) func(*Scratch) Step {
	pos, end := e.span()
	text := source[pos:end]
	if strings.Contains(text, hmacName) {
		text = printed(e, true)
	}
	step := Step{Position: positionOf(source, pos), Text: text}
	var parts []func(*Scratch) Step
	switch e := e.(type) {
	case *negated:
		step.Op = "not"
		parts = append(parts, b.explain(source, e.arg))
	case *joined:
		step.Op = logicNames[e.op]
		for _, item := range e.items {
			parts = append(parts, b.explain(source, item))
		}
	}
	show := func(*Scratch) string { return step.Value }
	if e, ok := e.(*comparison); ok {
		show = b.show(e)
	}
	test := b.boolean(e)
	return func(s *Scratch) Step {
		step := step
		for _, part := range parts {
			step.Parts = append(step.Parts, part(s))
		}
		step.Result = test(s)
		step.Value = show(s)
		return step
	}
}

// show compiles what a comparison looks at. Of any and all that is the array
// whose elements are compared.
func (b *builder) show(e *comparison) func(*Scratch) string {
	v := e.left
	for v.call != nil && v.call.fn.takesEach {
		inner := comparisonIn(v.call.args[0].expr)
		if inner == nil {
			break
		}
		v = inner.left
	}
	o := b.value(v)
	return func(s *Scratch) string {
		mark := len(s.buf)
		defer func() { s.buf = s.buf[:mark] }()
		if o.start == nil {
			text, ok := o.text(s)
			if !ok {
				return "missing"
			}
			return text
		}
		const most = 8
		var elements []string
		for o.start(s); ; {
			text, ok := o.text(s)
			if !ok {
				break
			}
			if len(elements) == most {
				elements = append(elements, "...")
				break
			}
			elements = append(elements, text)
		}
		return "[" + strings.Join(elements, " ") + "]"
	}
}

// comparisonIn returns the first comparison in an expression.
func comparisonIn(e expr) *comparison {
	for {
		switch x := e.(type) {
		case *comparison:
			return x
		case *negated:
			e = x.arg
		case *joined:
			e = x.items[0]
		default:
			return nil
		}
	}
}

// text gets a value, or the next element, as text.
func (o operand) text(s *Scratch) (string, bool) {
	switch o.typ {
	case Bool:
		v, ok := o.bit(s)
		return strconv.FormatBool(v), ok
	case Int:
		v, ok := o.num(s)
		return strconv.FormatInt(v, 10), ok
	case IP:
		v, ok := o.ip(s)
		return v.String(), ok
	}
	const most = 200
	v, ok := o.str(s)
	if len(v) > most {
		return quoted(string(v[:most])) + "...", ok
	}
	return quoted(string(v)), ok
}
