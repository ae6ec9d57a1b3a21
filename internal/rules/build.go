package rules

import (
	"bytes"
	"net/netip"
)

// fn gets a value, or tells that it is missing. For an array it gets the next
// element, or tells that there is none.
type fn[T any] func(*Scratch) (T, bool)

// operand is a compiled value. Which function it has depends on its type.
type operand struct {
	typ   Type // of an element, if start is set
	start func(*Scratch)
	keyed bool // an array that is missing when it has no element
	made  bool // the value may be made in the Scratch

	bit fn[bool]
	num fn[int64]
	ip  fn[netip.Addr]
	str fn[[]byte]
}

// lift applies f to a value, or to each element. What f finds missing in an
// array is left out of it.
func lift[A, B any](o operand, in fn[A], f func(*Scratch, A) (B, bool)) fn[B] {
	if o.start == nil {
		return func(s *Scratch) (b B, ok bool) {
			v, ok := in(s)
			if !ok {
				return b, false
			}
			return f(s, v)
		}
	}
	return func(s *Scratch) (b B, ok bool) {
		for {
			v, ok := in(s)
			if !ok {
				return b, false
			}
			if b, ok := f(s, v); ok {
				return b, true
			}
		}
	}
}

// to returns an operand of type t with start and the rest of o but its function.
func (o operand) to(t Type) operand {
	return operand{typ: t, start: o.start, made: o.made}
}

// builder turns a checked tree into functions.
type builder struct {
	mode    Mode
	cursors int
}

func (b *builder) newCursor() int {
	b.cursors++
	return b.cursors - 1
}

// boolean compiles an expression that is a boolean. Missing is false.
func (b *builder) boolean(e expr) func(*Scratch) bool {
	switch e := e.(type) {
	case *constant:
		is := e.is
		return func(*Scratch) bool { return is }
	case *negated:
		arg := b.boolean(e.arg)
		return func(s *Scratch) bool { return !arg(s) }
	case *joined:
		return b.join(e)
	case *comparison:
		return b.compare(e)
	}
	panic("rules: unknown kind of expression")
}

func (b *builder) join(e *joined) func(*Scratch) bool {
	items := make([]func(*Scratch) bool, len(e.items))
	for i, item := range e.items {
		items[i] = b.boolean(item)
	}
	switch e.op {
	case opAnd:
		return func(s *Scratch) bool {
			for _, item := range items {
				if !item(s) {
					return false
				}
			}
			return true
		}
	case opOr:
		return func(s *Scratch) bool {
			for _, item := range items {
				if item(s) {
					return true
				}
			}
			return false
		}
	}
	return func(s *Scratch) bool {
		is := false
		for _, item := range items {
			is = is != item(s)
		}
		return is
	}
}

// compare compiles a comparison of a single value.
func (b *builder) compare(e *comparison) func(*Scratch) bool {
	o := b.value(e.left)
	missing := e.op == opNe
	test := b.test(e, o)
	if !o.made {
		return func(s *Scratch) bool {
			is, ok := test(s)
			if !ok {
				return missing
			}
			return is
		}
	}
	return func(s *Scratch) bool {
		mark := len(s.buf)
		is, ok := test(s)
		s.buf = s.buf[:mark]
		if !ok {
			return missing
		}
		return is
	}
}

// test compiles the operator and the right side for the left side o.
func (b *builder) test(e *comparison, o operand) fn[bool] {
	switch {
	case e.op == opNone:
		return o.bit
	case o.typ == Int:
		f := intTest(e.op, e.right)
		return lift(o, o.num, func(_ *Scratch, v int64) (bool, bool) { return f(v), true })
	case o.typ == IP:
		f := ipTest(e.op, e.right)
		return lift(o, o.ip, func(_ *Scratch, v netip.Addr) (bool, bool) { return f(v), true })
	}
	return lift(o, o.str, stringTest(e.op, e.right))
}

// booleans compiles an expression that is an array of booleans.
func (b *builder) booleans(e expr) operand {
	switch e := e.(type) {
	case *negated:
		arg := b.booleans(e.arg)
		o := arg.to(Bool)
		o.bit = lift(arg, arg.bit, func(_ *Scratch, v bool) (bool, bool) { return !v, true })
		return o
	case *joined:
		return b.zip(e)
	case *comparison:
		left := b.value(e.left)
		o := left.to(Bool)
		o.bit = b.test(e, left)
		return o
	}
	panic("rules: an array of another kind of expression")
}

// zip joins arrays element by element, up to the shortest.
func (b *builder) zip(e *joined) operand {
	items := make([]operand, len(e.items))
	for i, item := range e.items {
		items[i] = b.booleans(item)
	}
	op := e.op
	return operand{
		typ: Bool,
		start: func(s *Scratch) {
			for i := range items {
				items[i].start(s)
			}
		},
		bit: func(s *Scratch) (bool, bool) {
			is := op == opAnd
			for i := range items {
				v, ok := items[i].bit(s)
				if !ok {
					return false, false
				}
				switch op {
				case opAnd:
					is = is && v
				case opOr:
					is = is || v
				default:
					is = is != v
				}
			}
			return is, true
		},
	}
}

// value compiles a field or call with its indexes.
func (b *builder) value(v *value) operand {
	var o operand
	index := v.index
	switch {
	case v.call != nil:
		o = v.call.fn.build(b, v.call)
	case v.field.Type == StringMap && len(index) > 0:
		// The index of a map decides which of its entries are walked.
		if index[0].kind == indexKey {
			o = b.entries(v.field, index[0].key)
			index = index[1:]
		} else {
			o = b.walk(v.field, v.field.Field, partValues, "")
			index = index[2:]
		}
	default:
		o = b.field(v.field)
	}
	for _, x := range index {
		if x.kind == indexNumber {
			o = o.nth(x.number)
		}
	}
	return o
}

// field compiles a field as it is.
func (b *builder) field(f *FieldInfo) operand {
	if f.Type == StringArray {
		return b.walk(f, f.of, f.part, "")
	}
	o := operand{typ: f.Type}
	id := f.Field
	exists := f.Modes&b.mode != 0
	switch f.Type {
	case Bool:
		o.bit = func(s *Scratch) (bool, bool) { return s.env.Bool(id) }
		if !exists {
			o.bit = never[bool]
		}
	case Int:
		o.num = func(s *Scratch) (int64, bool) { return s.env.Int(id) }
		if !exists {
			o.num = never[int64]
		}
	case IP:
		o.ip = func(s *Scratch) (netip.Addr, bool) {
			a, ok := s.env.IP(id)
			return a.Unmap().WithZone(""), ok && a.IsValid()
		}
		if !exists {
			o.ip = never[netip.Addr]
		}
	case String:
		o.str = func(s *Scratch) ([]byte, bool) { return s.env.String(id) }
		if !exists {
			o.str = never[[]byte]
		}
	}
	return o
}

func never[T any](*Scratch) (v T, ok bool) { return v, false }

// entries compiles the values of one key of a map.
func (b *builder) entries(f *FieldInfo, key string) operand {
	o := b.walk(f, f.Field, partNone, key)
	o.keyed = true
	return o
}

// walk compiles a walk over the entries of map of: all their names, all their
// values, or the values of one key.
func (b *builder) walk(f *FieldInfo, of Field, part part, key string) operand {
	at := b.newCursor()
	o := operand{typ: String, start: func(s *Scratch) { s.cursors[at] = 0 }}
	if f.Modes&b.mode == 0 {
		o.str, o.keyed = never[[]byte], true
		return o
	}
	fold := of == FieldHeaders
	o.str = func(s *Scratch) ([]byte, bool) {
		for {
			from := s.cursors[at]
			name, value, next := s.env.Next(of, from)
			if next <= from {
				return nil, false
			}
			s.cursors[at] = next
			switch {
			case part == partNames:
				return name, true
			case part == partValues, sameName(name, key, fold):
				return value, true
			}
		}
	}
	return o
}

// sameName compares the name of an entry with a key, without case if fold, in
// which case the key has to be in lower case.
func sameName(name []byte, key string, fold bool) bool {
	if len(name) != len(key) {
		return false
	}
	if !fold {
		return string(name) == key
	}
	for i, c := range name {
		if lowerByte(c) != key[i] {
			return false
		}
	}
	return true
}

// nth takes one element of an array.
func (o operand) nth(n int) operand {
	one := operand{typ: o.typ, made: o.made}
	switch o.typ {
	case Bool:
		one.bit = nthOf(o.start, o.bit, n)
	case Int:
		one.num = nthOf(o.start, o.num, n)
	case IP:
		one.ip = nthOf(o.start, o.ip, n)
	case String:
		one.str = nthOf(o.start, o.str, n)
	}
	return one
}

func nthOf[T any](start func(*Scratch), next fn[T], n int) fn[T] {
	return func(s *Scratch) (v T, ok bool) {
		start(s)
		mark := len(s.buf)
		for range n {
			if _, ok := next(s); !ok {
				return v, false
			}
			s.buf = s.buf[:mark]
		}
		return next(s)
	}
}

// count counts the elements of an array.
func (o operand) count(s *Scratch) int64 {
	o.start(s)
	mark := len(s.buf)
	n := int64(0)
	for {
		ok := false
		switch o.typ {
		case Bool:
			_, ok = o.bit(s)
		case Int:
			_, ok = o.num(s)
		case IP:
			_, ok = o.ip(s)
		default:
			_, ok = o.str(s)
		}
		s.buf = s.buf[:mark]
		if !ok {
			return n
		}
		n++
	}
}

// intTest compiles the comparison with an integer.
func intTest(op compareOp, l *literal) func(int64) bool {
	n := l.num
	switch op {
	case opIn:
		set := newIntSet(l.items)
		return set.has
	case opEq:
		return func(v int64) bool { return v == n }
	case opNe:
		return func(v int64) bool { return v != n }
	case opLt:
		return func(v int64) bool { return v < n }
	case opLe:
		return func(v int64) bool { return v <= n }
	case opGt:
		return func(v int64) bool { return v > n }
	case opGe:
		return func(v int64) bool { return v >= n }
	case opBitwiseAnd:
		return func(v int64) bool { return v&n != 0 }
	}
	panic("rules: unknown operator for integers")
}

// ipTest compiles the comparison with an address. Addresses of different
// families are not equal, and neither is less.
func ipTest(op compareOp, l *literal) func(netip.Addr) bool {
	a := l.ip
	switch op {
	case opIn:
		set := newIPSet(l.items)
		return set.has
	case opEq:
		return func(v netip.Addr) bool { return v == a }
	case opNe:
		return func(v netip.Addr) bool { return v != a }
	case opLt:
		return func(v netip.Addr) bool { return v.Is4() == a.Is4() && v.Less(a) }
	case opLe:
		return func(v netip.Addr) bool { return v.Is4() == a.Is4() && !a.Less(v) }
	case opGt:
		return func(v netip.Addr) bool { return v.Is4() == a.Is4() && a.Less(v) }
	case opGe:
		return func(v netip.Addr) bool { return v.Is4() == a.Is4() && !v.Less(a) }
	}
	panic("rules: unknown operator for addresses")
}

// stringTest compiles the comparison with a string.
func stringTest(op compareOp, l *literal) func(*Scratch, []byte) (bool, bool) {
	text := l.bytes
	lit := []byte(text)
	switch op {
	case opIn:
		set := newStringSet(l.items)
		return func(_ *Scratch, v []byte) (bool, bool) { return set.has(v), true }
	case opEq:
		return func(_ *Scratch, v []byte) (bool, bool) { return string(v) == text, true }
	case opNe:
		return func(_ *Scratch, v []byte) (bool, bool) { return string(v) != text, true }
	case opLt:
		return func(_ *Scratch, v []byte) (bool, bool) { return string(v) < text, true }
	case opLe:
		return func(_ *Scratch, v []byte) (bool, bool) { return string(v) <= text, true }
	case opGt:
		return func(_ *Scratch, v []byte) (bool, bool) { return string(v) > text, true }
	case opGe:
		return func(_ *Scratch, v []byte) (bool, bool) { return string(v) >= text, true }
	case opContains:
		return func(_ *Scratch, v []byte) (bool, bool) { return bytes.Contains(v, lit), true }
	case opMatches:
		return l.regexp.match
	case opWildcard, opStrictWildcard:
		return l.wild.match
	}
	panic("rules: unknown operator for strings")
}
