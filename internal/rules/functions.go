package rules

import (
	"bytes"
	"fmt"
	"math"
	"net/netip"
	"strings"
)

// function is one of the functions of the language. Its first argument may have
// a [*], whereupon it is applied to each element and gives an array.
type function struct {
	name   string
	usage  string  // what the arguments are, for messages and documentation
	params []param // the last one repeats if repeats is set
	least  int     // arguments that are required
	repeats,
	like, // the result has the type of the first argument, as have the others
	takesEach bool // an argument with [*] is taken as the array that it is
	result Type
	build  func(b *builder, c *call) operand
}

type paramKind uint8

const (
	paramAny paramKind = iota
	paramValue
	paramLiteral
)

type param struct {
	kind  paramKind
	types []Type
	want  string
	check func(l *literal) (want string) // of a literal; "" if it is right
}

func (p param) takes(t Type) bool {
	for _, one := range p.types {
		if one == t {
			return true
		}
	}
	return false
}

func (f *function) most() int {
	if f.repeats {
		return math.MaxInt
	}
	return len(f.params)
}

func (f *function) param(i int) param { return f.params[min(i, len(f.params)-1)] }

var (
	booleans      = param{paramValue, []Type{BoolArray}, `a comparison with each element of an array, as http.request.headers["accept"][*] eq "text/html"`, nil}
	stringValue   = param{paramValue, []Type{String}, "a field or function that is a string", nil}
	anyString     = param{paramAny, []Type{String}, "a string", nil}
	stringLiteral = param{paramLiteral, []Type{String}, "a string as a literal", nil}
	intLiteral    = param{paramLiteral, []Type{Int}, "an integer as a literal", nil}
	ipValue       = param{paramValue, []Type{IP}, "a field or function that is an IP address", nil}
	jsonKey       = param{paramLiteral, []Type{String, Int}, "a name in quotes, or a position from 0", checkKey}
)

const hmacName = "is_timed_hmac_valid_v0"

var functions = []*function{
	{name: "any", usage: "any(array of booleans)", least: 1, params: []param{booleans}, takesEach: true, result: Bool, build: buildAny},
	{name: "all", usage: "all(array of booleans)", least: 1, params: []param{booleans}, takesEach: true, result: Bool, build: buildAll},
	{name: "lower", usage: "lower(string)", least: 1, params: []param{stringValue}, result: String, build: buildLower},
	{name: "upper", usage: "upper(string)", least: 1, params: []param{stringValue}, result: String, build: buildUpper},
	{name: "len", usage: "len(string or array)", least: 1, params: []param{
		{paramValue, []Type{String, BoolArray, IntArray, IPArray, StringArray}, "a string or an array", nil}}, result: Int, build: buildLen},
	{name: "starts_with", usage: "starts_with(string, beginning)", least: 2, params: []param{stringValue, anyString}, result: Bool, build: buildStartsWith},
	{name: "ends_with", usage: "ends_with(string, ending)", least: 2, params: []param{stringValue, anyString}, result: Bool, build: buildEndsWith},
	{name: "concat", usage: "concat(string, string, ...) or concat(array, array, ...)", least: 2, repeats: true, like: true, params: []param{
		{paramAny, []Type{String, StringArray}, "a string or an array of strings", nil}}, build: buildConcat},
	{name: "substring", usage: "substring(string, start, end), where end may be left out", least: 2, params: []param{stringValue, intLiteral, intLiteral}, result: String, build: buildSubstring},
	{name: "url_decode", usage: `url_decode(string, options), where options may be left out`, least: 1, params: []param{stringValue,
		{paramLiteral, []Type{String}, `the options "r", "u" or "ru"`, checkDecodeOptions}}, result: String, build: buildURLDecode},
	{name: "remove_bytes", usage: "remove_bytes(string, bytes)", least: 2, params: []param{stringValue, stringLiteral}, result: String, build: buildRemoveBytes},
	{name: "lookup_json_string", usage: "lookup_json_string(string, key, ...)", least: 2, repeats: true, params: []param{stringValue, jsonKey}, result: String, build: buildLookupString},
	{name: "lookup_json_integer", usage: "lookup_json_integer(string, key, ...)", least: 2, repeats: true, params: []param{stringValue, jsonKey}, result: Int, build: buildLookupInteger},
	{name: hmacName, usage: hmacName + "(key, token, ttl, now, separator length, flags), where the last two may be left out", least: 4, params: []param{
		{paramLiteral, []Type{String}, "the key as a literal", checkNotEmpty},
		stringValue,
		{paramLiteral, []Type{Int}, "the time to live, in seconds, as a literal", checkFrom(1, math.MaxInt32)},
		{paramAny, []Type{Int}, "the time now, in Unix seconds", nil},
		{paramLiteral, []Type{Int}, "the length of the separator as a literal", checkFrom(0, 255)},
		{paramLiteral, []Type{String}, `the flag "s" as a literal`, checkTokenFlags},
	}, result: Bool, build: buildTokenValid},
	{name: "cidr", usage: "cidr(address, bits for IPv4, bits for IPv6)", least: 3, params: []param{ipValue,
		{paramLiteral, []Type{Int}, "the bits for IPv4 as a literal", checkFrom(1, 32)},
		{paramLiteral, []Type{Int}, "the bits for IPv6 as a literal", checkFrom(1, 128)}}, result: IP, build: buildCIDR},
	{name: "cidr6", usage: "cidr6(address, bits for IPv6)", least: 2, params: []param{ipValue,
		{paramLiteral, []Type{Int}, "the bits for IPv6 as a literal", checkFrom(1, 128)}}, result: IP, build: buildCIDR},
}

// elsewhere lists the functions that are documented, but for other products.
var elsewhere = map[string]bool{
	"decode_base64": true, "regex_replace": true, "wildcard_replace": true, "to_string": true, "split": true, "join": true, "uuidv4": true, "remove_query_args": true,
}

var (
	functionsByName = make(map[string]*function)
	functionNames   []string // for hints
)

func init() {
	for _, f := range functions {
		functionsByName[f.name] = f
		functionNames = append(functionNames, f.name)
	}
}

func checkFrom(low, high int64) func(*literal) string {
	return func(l *literal) string {
		if l.num < low || l.num > high {
			return fmt.Sprintf("%d to %d", low, high)
		}
		return ""
	}
}

func checkNotEmpty(l *literal) string {
	if l.bytes == "" {
		return "at least one byte"
	}
	return ""
}

func checkKey(l *literal) string {
	if l.typ == Int && l.num < 0 {
		return "a position from 0"
	}
	return ""
}

func checkDecodeOptions(l *literal) string {
	if strings.Trim(l.bytes, "ru") != "" {
		return `"r", "u" or "ru"`
	}
	return ""
}

func checkTokenFlags(l *literal) string {
	if l.bytes != "" && l.bytes != "s" {
		return `"s" or ""`
	}
	return ""
}

// operand compiles an argument.
func (b *builder) operand(a arg) operand {
	if a.lit == nil {
		if e, ok := a.expr.(*comparison); ok && e.op == opNone {
			return b.value(e.left)
		}
		return b.booleans(a.expr)
	}
	o := operand{typ: a.lit.typ}
	switch a.lit.typ {
	case Int:
		n := a.lit.num
		o.num = func(*Scratch) (int64, bool) { return n, true }
	default:
		text := []byte(a.lit.bytes)
		o.str = func(*Scratch) ([]byte, bool) { return text, true }
	}
	return o
}

func buildAny(b *builder, c *call) operand { return b.fold(c, true) }
func buildAll(b *builder, c *call) operand { return b.fold(c, false) }

// fold compiles a walk over an array of booleans that ends at the first one
// that is stop.
func (b *builder) fold(c *call, stop bool) operand {
	arg := b.operand(c.args[0])
	return operand{typ: Bool, bit: func(s *Scratch) (bool, bool) {
		arg.start(s)
		mark := len(s.buf)
		for {
			is, ok := arg.bit(s)
			s.buf = s.buf[:mark]
			if !ok {
				return !stop, true
			}
			if is == stop {
				return stop, true
			}
		}
	}}
}

// mapped compiles a function from strings to strings.
func (b *builder) mapped(c *call, made bool, f func(*Scratch, []byte) ([]byte, bool)) operand {
	arg := b.operand(c.args[0])
	o := arg.to(String)
	o.made = o.made || made
	o.str = lift(arg, arg.str, f)
	return o
}

func buildLower(b *builder, c *call) operand { return b.mapped(c, true, lower) }
func buildUpper(b *builder, c *call) operand { return b.mapped(c, true, upper) }

func lowerByte(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

func upperByte(c byte) byte {
	if c >= 'a' && c <= 'z' {
		c -= 'a' - 'A'
	}
	return c
}

func lower(s *Scratch, v []byte) ([]byte, bool) { return mapBytes(s, v, lowerByte) }
func upper(s *Scratch, v []byte) ([]byte, bool) { return mapBytes(s, v, upperByte) }

// mapBytes returns v where f changes nothing, else a copy.
func mapBytes(s *Scratch, v []byte, f func(byte) byte) ([]byte, bool) {
	for i, c := range v {
		if f(c) == c {
			continue
		}
		if !s.grow(len(v)) {
			return nil, false
		}
		v = s.keep(v)
		for ; i < len(v); i++ {
			v[i] = f(v[i])
		}
		break
	}
	return v, true
}

func buildLen(b *builder, c *call) operand {
	arg := b.operand(c.args[0])
	if c.args[0].valueType() == String { // one, or each of an array
		o := arg.to(Int)
		o.num = lift(arg, arg.str, func(_ *Scratch, v []byte) (int64, bool) { return int64(len(v)), true })
		return o
	}
	return operand{typ: Int, num: func(s *Scratch) (int64, bool) {
		n := arg.count(s)
		return n, n > 0 || !arg.keyed
	}}
}

func buildStartsWith(b *builder, c *call) operand { return b.affix(c, bytes.HasPrefix) }
func buildEndsWith(b *builder, c *call) operand   { return b.affix(c, bytes.HasSuffix) }

func (b *builder) affix(c *call, has func(v, affix []byte) bool) operand {
	arg, affix := b.operand(c.args[0]), b.operand(c.args[1])
	o := arg.to(Bool)
	o.made = o.made || affix.made
	o.bit = lift(arg, arg.str, func(s *Scratch, v []byte) (bool, bool) {
		a, ok := affix.str(s)
		return ok && has(v, a), ok
	})
	return o
}

func buildConcat(b *builder, c *call) operand {
	args := make([]operand, len(c.args))
	for i, a := range c.args {
		args[i] = b.operand(a)
	}
	if c.args[0].valueType() == StringArray {
		return b.chain(args)
	}
	o := args[0].to(String)
	o.made = true
	o.str = func(s *Scratch) ([]byte, bool) {
		start, found := len(s.buf), false
		n := 0 // bytes of the result, which stands at start
		for i, a := range args {
			s.buf = s.buf[:start+n]
			v, ok := a.str(s) // perhaps made behind the result
			switch {
			case ok && start+n+len(v) <= maxMade:
				s.buf = append(s.buf[:start+n], v...)
				n += len(v)
				found = true
			case ok, i == 0 && o.start != nil:
				return nil, false // too long, or the end of the array
			}
		}
		s.buf = s.buf[:start+n]
		return s.buf[start:], found
	}
	return o
}

// chain compiles arrays one behind the other.
func (b *builder) chain(args []operand) operand {
	at := b.newCursor()
	o := operand{typ: String, keyed: true}
	for _, a := range args {
		o.made = o.made || a.made
		o.keyed = o.keyed && a.keyed
	}
	o.start = func(s *Scratch) {
		s.cursors[at] = 0
		for i := range args {
			args[i].start(s)
		}
	}
	o.str = func(s *Scratch) ([]byte, bool) {
		for ; s.cursors[at] < len(args); s.cursors[at]++ {
			if v, ok := args[s.cursors[at]].str(s); ok {
				return v, true
			}
		}
		return nil, false
	}
	return o
}

func buildSubstring(b *builder, c *call) operand {
	from, to, whole := int(c.args[1].lit.num), 0, len(c.args) == 2
	if !whole {
		to = int(c.args[2].lit.num)
	}
	return b.mapped(c, false, func(_ *Scratch, v []byte) ([]byte, bool) {
		i, j := place(from, len(v)), len(v)
		if !whole {
			j = place(to, len(v))
		}
		return v[min(i, j):j], true
	})
}

// place turns an index, from the end if negative, into one within n bytes.
func place(i, n int) int {
	if i < 0 {
		i = max(i+n, 0)
	}
	return min(i, n)
}

func buildURLDecode(b *builder, c *call) operand {
	again, unicode := false, false
	if len(c.args) == 2 {
		again = strings.Contains(c.args[1].lit.bytes, "r")
		unicode = strings.Contains(c.args[1].lit.bytes, "u")
	}
	return b.mapped(c, true, func(s *Scratch, v []byte) ([]byte, bool) {
		if bytes.IndexByte(v, '%') < 0 && bytes.IndexByte(v, '+') < 0 {
			return v, true
		}
		if !s.grow(len(v)) {
			return nil, false
		}
		start := len(s.buf)
		v = s.keep(v)
		n := urlDecode(v, unicode)
		// Each round undoes one encoding; nobody encodes that often in
		// earnest.
		for round := 1; again && round < 10; round++ {
			before := n
			if n = urlDecode(v[:n], unicode); n == before {
				break
			}
		}
		s.buf = s.buf[:start+n]
		return v[:n], true
	})
}

func buildRemoveBytes(b *builder, c *call) operand {
	var drop [256]bool
	for _, ch := range []byte(c.args[1].lit.bytes) {
		drop[ch] = true
	}
	return b.mapped(c, true, func(s *Scratch, v []byte) ([]byte, bool) {
		n := 0
		for n < len(v) && !drop[v[n]] {
			n++
		}
		if n == len(v) {
			return v, true
		}
		if !s.grow(len(v)) {
			return nil, false
		}
		start := len(s.buf)
		s.buf = append(s.buf, v[:n]...)
		for _, ch := range v[n:] {
			if !drop[ch] {
				s.buf = append(s.buf, ch)
			}
		}
		return s.buf[start:], true
	})
}

func (b *builder) jsonPath(c *call) []jsonStep {
	path := make([]jsonStep, len(c.args)-1)
	for i, a := range c.args[1:] {
		path[i] = jsonStep{name: a.lit.bytes, isIndex: a.lit.typ == Int, index: a.lit.num}
	}
	return path
}

func buildLookupString(b *builder, c *call) operand {
	path := b.jsonPath(c)
	return b.mapped(c, true, func(s *Scratch, v []byte) ([]byte, bool) {
		v, ok := jsonLookup(v, path)
		if !ok || v[0] != '"' {
			return nil, false
		}
		return jsonString(s, v)
	})
}

func buildLookupInteger(b *builder, c *call) operand {
	path := b.jsonPath(c)
	arg := b.operand(c.args[0])
	o := arg.to(Int)
	o.num = lift(arg, arg.str, func(_ *Scratch, v []byte) (int64, bool) {
		v, ok := jsonLookup(v, path)
		if !ok {
			return 0, false
		}
		return jsonInteger(v)
	})
	return o
}

// buildCIDR serves cidr and cidr6, which leaves IPv4 as it is.
func buildCIDR(b *builder, c *call) operand {
	v4, v6 := 32, int(c.args[len(c.args)-1].lit.num)
	if len(c.args) == 3 {
		v4 = int(c.args[1].lit.num)
	}
	arg := b.operand(c.args[0])
	o := arg.to(IP)
	o.ip = lift(arg, arg.ip, func(_ *Scratch, a netip.Addr) (netip.Addr, bool) {
		bits := v6
		if a.Is4() {
			bits = v4
		}
		n, err := a.Prefix(bits)
		return n.Addr(), err == nil
	})
	return o
}
