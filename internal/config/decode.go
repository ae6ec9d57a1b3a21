package config

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"fairlead/internal/model"
)

// maxExpanded is how many values all aliases together may stand for.
const maxExpanded = 100_000

// decoder fills a model from the nodes of a YAML document. It goes on after
// an error with what was most likely meant, so that one misprint is reported
// once and everything behind it is still looked at.
type decoder struct {
	file    string
	root    ast.Node
	widths  lineWidths
	anchors map[string]ast.Node
	places  map[string]Position
	errs    Errors

	broken   map[string]bool // paths whose values could not be read
	inBroken map[string]bool // paths of the mappings that they are in

	inAlias  int // depth of aliases around the present value
	expanded int // values met inside aliases
	stopped  bool
}

func newDecoder(file string, root ast.Node, widths lineWidths) *decoder {
	return &decoder{
		file: file, root: root, widths: widths,
		anchors: map[string]ast.Node{}, places: map[string]Position{},
		broken: map[string]bool{}, inBroken: map[string]bool{},
	}
}

// document decodes the whole document.
func (d *decoder) document(c *model.Config) {
	d.findAnchors(d.root, 0)
	d.value(d.root, reflect.ValueOf(c).Elem(), model.Place{}, 0)
}

// isBroken reports whether the value at path, something around it, or a key
// directly in it could not be read: what Validate says of it then is about
// our guess.
func (d *decoder) isBroken(path string) bool {
	if d.inBroken[path] {
		return true
	}
	for len(d.broken) > 0 {
		if d.broken[path] {
			return true
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return d.broken[""]
		}
		path = path[:cut]
	}
	return false
}

func (d *decoder) position(tk *token.Token) Position {
	if tk == nil || tk.Position == nil {
		return Position{d.file, 1, 1}
	}
	line, column := d.widths.clamp(tk.Position.Line, tk.Position.Column)
	return Position{d.file, line, column}
}

// report notes an error that leaves the value at the place usable.
func (d *decoder) report(n ast.Node, at model.Place, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if at.Text != "" {
		text = at.Text + ": " + text
	}
	p := d.position(firstToken(n))
	d.errs = append(d.errs, Error{p.File, p.Line, p.Column, text})
}

// fail notes an error after which the value at the place means nothing.
func (d *decoder) fail(n ast.Node, at model.Place, format string, args ...any) {
	d.broken[at.Path] = true
	if cut := strings.LastIndexByte(at.Path, '.'); cut >= 0 {
		d.inBroken[at.Path[:cut]] = true
	}
	d.report(n, at, format, args...)
}

// wrong notes that the value at the place is not usable: "place value: text".
func (d *decoder) wrong(n ast.Node, at model.Place, value, format string, args ...any) {
	at.Text += " " + value
	d.fail(n, at, format, args...)
}

// stop notes an error after which nothing more is decoded.
func (d *decoder) stop(n ast.Node, at model.Place, format string, args ...any) {
	d.fail(n, at, format, args...)
	d.broken[""] = true
	d.stopped = true
}

// firstToken returns the token where a node begins.
func firstToken(n ast.Node) *token.Token {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return firstToken(m.Values[0].Key)
	}
	if v, ok := n.(*ast.MappingValueNode); ok {
		return firstToken(v.Key)
	}
	return n.GetToken()
}

// findAnchors notes every anchor. The depth needs no error here: value meets
// the same nesting.
func (d *decoder) findAnchors(n ast.Node, depth int) {
	if depth > 2*maxDepth {
		return
	}
	switch n := n.(type) {
	case *ast.AnchorNode:
		name := n.Name.GetToken().Value
		if _, ok := d.anchors[name]; ok {
			d.report(n, model.Place{}, "anchor &%s is defined twice", name)
		} else {
			d.anchors[name] = n.Value
		}
		d.findAnchors(n.Value, depth+1)
	case *ast.MappingNode:
		for _, v := range n.Values {
			d.findAnchors(v.Value, depth+1)
		}
	case *ast.MappingValueNode:
		d.findAnchors(n.Value, depth+1)
	case *ast.SequenceNode:
		for _, v := range n.Values {
			d.findAnchors(v, depth+1)
		}
	}
}

// value decodes n into v, whatever their kinds.
func (d *decoder) value(n ast.Node, v reflect.Value, at model.Place, depth int) {
	if d.stopped {
		return
	}
	if depth > maxDepth {
		d.stop(n, at, "nested deeper than %d levels", maxDepth)
		return
	}
	if d.inAlias > 0 {
		if d.expanded++; d.expanded > maxExpanded {
			d.stop(n, at, "aliases stand for more than %d values", maxExpanded)
			return
		}
	}
	switch a := n.(type) {
	case *ast.AnchorNode:
		d.value(a.Value, v, at, depth+1)
		return
	case *ast.AliasNode:
		target, ok := d.anchors[a.Value.GetToken().Value]
		if !ok && at.Secret {
			d.fail(n, at, "alias without an anchor; put a text that begins with * in quotes")
			return
		}
		if !ok {
			d.fail(n, at, "alias *%s has no anchor", a.Value.GetToken().Value)
			return
		}
		d.inAlias++
		d.value(target, v, at, depth+1)
		d.inAlias--
		return
	case *ast.NullNode:
		return // the same as left out
	}

	if _, ok := d.places[at.Path]; !ok {
		d.places[at.Path] = d.position(firstToken(n))
	}
	switch target := v.Addr().Interface().(type) {
	case *time.Duration:
		d.duration(n, target, at)
		return
	case encoding.TextUnmarshaler:
		d.text(n, target, at)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.value(n, v.Elem(), at, depth)
	case reflect.Struct:
		d.structure(n, v, at, depth)
	case reflect.Slice:
		d.list(n, v, at, depth)
	case reflect.Map:
		d.mapping(n, v, at, depth)
	case reflect.String:
		d.str(n, v, at)
	case reflect.Bool:
		d.boolean(n, v, at)
	case reflect.Int:
		d.integer(n, v, at)
	case reflect.Float64:
		d.number(n, v, at)
	default:
		panic("config: no decoding for " + v.Type().String())
	}
}

// entries returns the keys and values of a mapping node.
func entries(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	default:
		return nil, false
	}
}

// keys calls each for every key of a mapping node that is usable.
func (d *decoder) keys(n ast.Node, at model.Place, each func(key string, e *ast.MappingValueNode)) {
	values, ok := entries(n)
	if !ok {
		d.fail(n, at, "want a mapping of keys to values, got %s", describe(n, at))
		return
	}
	seen := map[string]Position{}
	for _, e := range values {
		switch e.Key.(type) {
		case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		case *ast.MergeKeyNode:
			d.report(e.Key, at, "merge key <<: not supported; write the keys out, or use an alias for a whole value")
			continue
		default:
			d.report(e.Key, at, "want a plain key")
			continue
		}
		tk := e.Key.GetToken()
		key := tk.Value
		if tightColon(e) {
			// YAML takes this for one text; the library for a key and a value.
			d.report(e.Key, at, "%s: want a space behind the colon, or quotes around a text", showKey(key+":", at))
			continue
		}
		if first, ok := seen[key]; ok {
			d.report(e.Key, at, "duplicate key %s: it is on line %d already", showKey(key, at), first.Line)
			continue
		}
		seen[key] = d.position(tk)
		each(key, e)
	}
}

// showKey is a key as messages show it: "..." where it is not the name of a
// header, but its whole line.
func showKey(key string, at model.Place) string {
	if at.Secret && at.Key(strings.TrimSuffix(key, ":")).Text == at.Text {
		return `"..."`
	}
	return model.Show(key)
}

// tightColon reports whether the value of a plain key follows the colon
// without a space.
func tightColon(e *ast.MappingValueNode) bool {
	key, colon, value := e.Key.GetToken(), e.Start, firstToken(e.Value)
	return e.Value.Type() != ast.NullType && colon != nil && value != nil &&
		key.Type != token.SingleQuoteType && key.Type != token.DoubleQuoteType &&
		value.Position.Line == colon.Position.Line && value.Position.Column == colon.Position.Column+1
}

// placeOf notes where the value of a key is: a scalar where it stands, anything
// longer at its key.
func (d *decoder) placeOf(e *ast.MappingValueNode, at model.Place) {
	tk := e.Key.GetToken()
	switch e.Value.(type) {
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode, *ast.NullNode:
	default:
		tk = e.Value.GetToken()
	}
	if _, ok := d.places[at.Path]; !ok {
		d.places[at.Path] = d.position(tk)
	}
}

func (d *decoder) structure(n ast.Node, v reflect.Value, at model.Place, depth int) {
	if s, ok := v.Addr().Interface().(interface{ SetDefaults() }); ok {
		s.SetDefaults()
	}
	fields := fieldsOf(v.Type())
	present := map[string]bool{}
	if values, ok := entries(n); ok {
		for _, e := range values {
			present[e.Key.GetToken().Value] = true
		}
	}
	d.keys(n, at, func(key string, e *ast.MappingValueNode) {
		i, ok := fields.index[key]
		if !ok {
			d.inBroken[at.Path] = true // it may be what is missing here
			meant := model.DidYouMean(key, fields.names)
			if meant == "" {
				d.report(e.Key, at, "unknown key %s: want one of %s", model.Show(key), strings.Join(fields.names, ", "))
				return
			}
			d.report(e.Key, at, "unknown key %s: did you mean %q?", model.Show(key), meant)
			if present[meant] {
				return
			}
			present[meant] = true
			key, i = meant, fields.index[meant]
		}
		field := at.Key(key)
		field.Secret = fields.secret[i]
		d.placeOf(e, field)
		d.value(e.Value, v.Field(i), field, depth+1)
	})
}

// structFields are the YAML keys of a struct.
type structFields struct {
	names  []string
	index  map[string]int
	secret []bool // values may be credentials
}

// fieldCache holds a structFields for each type: a file may have a hundred
// thousand endpoints.
var fieldCache sync.Map

func fieldsOf(t reflect.Type) structFields {
	if f, ok := fieldCache.Load(t); ok {
		return f.(structFields)
	}
	f := structFields{index: map[string]int{}}
	for i := range t.NumField() {
		name := t.Field(i).Tag.Get("yaml")
		f.names = append(f.names, name)
		f.index[name] = i
		f.secret = append(f.secret, t.Field(i).Tag.Get("secret") == "true")
	}
	fieldCache.Store(t, f)
	return f
}

func (d *decoder) list(n ast.Node, v reflect.Value, at model.Place, depth int) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		d.fail(n, at, "want a list, got %s", describe(n, at))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(s.Values), len(s.Values)))
	for i, e := range s.Values {
		item := at.Item(i, d.nameOf(e, v.Type().Elem()))
		if e.Type() == ast.NullType {
			if len(s.Entries) == len(s.Values) {
				e = s.Entries[i] // its dash: the null itself may stand nowhere
			}
			d.fail(e, item, "empty item: want a value, or no item")
			continue
		}
		d.value(e, v.Index(i), item, depth+1)
	}
}

// nameOf returns the name that an item of a list gives itself, if it is of a
// kind that has one.
func (d *decoder) nameOf(n ast.Node, t reflect.Type) string {
	if t.Kind() != reflect.Struct {
		return ""
	}
	if _, ok := fieldsOf(t).index["name"]; !ok {
		return ""
	}
	if a, ok := n.(*ast.AnchorNode); ok {
		n = a.Value
	}
	values, _ := entries(n)
	for _, e := range values {
		if e.Key.GetToken().Value == "name" {
			if s, ok := e.Value.(*ast.StringNode); ok {
				return s.Value
			}
		}
	}
	return ""
}

func (d *decoder) mapping(n ast.Node, v reflect.Value, at model.Place, depth int) {
	t := v.Type()
	v.Set(reflect.MakeMap(t))
	d.keys(n, at, func(key string, e *ast.MappingValueNode) {
		if e.Value.Type() == ast.NullType {
			return
		}
		item := at.Key(key)
		if at.Secret {
			item = at.Header(key)
		}
		d.placeOf(e, item)
		value := reflect.New(t.Elem()).Elem()
		d.value(e.Value, value, item, depth+1)
		v.SetMapIndex(reflect.ValueOf(key).Convert(t.Key()), value)
	})
}

// scalar is a value without parts. Plain ones are not in quotes.
type scalar struct {
	text  string
	plain bool
}

func scalarOf(n ast.Node) (scalar, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return scalar{n.Value, n.Token.Type == token.StringType}, true
	case *ast.LiteralNode:
		return scalar{n.Value.Value, false}, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return scalar{n.GetToken().Value, true}, true
	default:
		return scalar{}, false
	}
}

// describe says what a value is, for messages: by its type only where it may
// be a credential.
func describe(n ast.Node, at model.Place) string {
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		if v, _ := entries(n); len(v) == 1 && tightColon(v[0]) {
			return "a mapping; put a text with colons in quotes"
		}
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode:
		if at.Secret {
			return "a string"
		}
		return "the string " + model.Show(n.Value)
	case *ast.LiteralNode:
		return "a block of text"
	case *ast.BoolNode:
		if at.Secret {
			return "a boolean"
		}
		return n.GetToken().Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		if at.Secret {
			return "a number"
		}
		return "the number " + n.GetToken().Value
	default:
		return "something else"
	}
}

func (d *decoder) str(n ast.Node, v reflect.Value, at model.Place) {
	s, ok := scalarOf(n)
	enum, isEnum := v.Interface().(interface{ Values() []string })
	switch {
	case !ok:
		d.fail(n, at, "want a string, got %s", describe(n, at))
		return
	case n.Type() != ast.StringType && n.Type() != ast.LiteralType:
		// The guess is what the quotes would give.
		d.fail(n, at, "want a string, got %s; put it in quotes", describe(n, at))
	case isEnum && !slices.Contains(enum.Values(), s.text):
		hint := ""
		if meant := model.DidYouMean(s.text, enum.Values()); meant != "" {
			hint = fmt.Sprintf("; did you mean %q?", meant)
		}
		d.wrong(n, at, model.Show(s.text), "want %s%s", model.OneOf(enum.Values()), hint)
		return
	}
	v.SetString(s.text)
}

func (d *decoder) boolean(n ast.Node, v reflect.Value, at model.Place) {
	b, ok := n.(*ast.BoolNode)
	switch {
	case ok && b.Token.Value == "true":
		v.SetBool(true)
	case ok && b.Token.Value == "false":
		v.SetBool(false)
	case at.Path == "state.embedded" && n.Type() == ast.MappingType:
		d.fail(n, at, "members of an embedded cluster are not supported yet: want true or false")
	default:
		d.fail(n, at, "want true or false, got %s", describe(n, at))
	}
}

var (
	wholeNumber   = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)
	decimalNumber = regexp.MustCompile(`^[-+]?((0|[1-9][0-9]*)(\.[0-9]+)?|\.[0-9]+)([eE][-+]?[0-9]+)?$`)
)

func (d *decoder) integer(n ast.Node, v reflect.Value, at model.Place) {
	s, ok := scalarOf(n)
	if !ok || !s.plain || !wholeNumber.MatchString(s.text) {
		d.fail(n, at, "want a whole number, got %s", describe(n, at))
		return
	}
	i, err := strconv.ParseInt(s.text, 10, 64)
	if err != nil || v.OverflowInt(i) {
		d.wrong(n, at, s.text, "too large for a number")
		return
	}
	v.SetInt(i)
}

func (d *decoder) number(n ast.Node, v reflect.Value, at model.Place) {
	s, ok := scalarOf(n)
	if !ok || !s.plain || !decimalNumber.MatchString(s.text) {
		d.fail(n, at, "want a number, got %s", describe(n, at))
		return
	}
	f, err := strconv.ParseFloat(s.text, 64)
	if err != nil || math.IsInf(f, 0) {
		d.wrong(n, at, s.text, "too large for a number")
		return
	}
	v.SetFloat(f)
}

// durationUnits are the units that durations are written in.
var durationUnits = []string{"ms", "s", "m", "h"}

var (
	durationText = regexp.MustCompile(`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`)
	unknownUnit  = regexp.MustCompile(`^[0-9][0-9.]*([^0-9. ]+)$`)
)

func (d *decoder) duration(n ast.Node, v *time.Duration, at model.Place) {
	const want = `want a duration such as "200ms", "5s", "1h30m", or a number of seconds`
	s, ok := scalarOf(n)
	switch {
	case !ok:
		d.fail(n, at, "%s, got %s", want, describe(n, at))
	case strings.HasPrefix(s.text, "-"):
		d.wrong(n, at, s.text, "want a duration that is not negative")
	case s.plain && decimalNumber.MatchString(s.text):
		seconds, err := strconv.ParseFloat(s.text, 64)
		if err != nil || seconds >= math.MaxInt64/float64(time.Second) {
			d.wrong(n, at, s.text, "too long for a duration")
			return
		}
		*v = time.Duration(math.Round(seconds * float64(time.Second)))
	case durationText.MatchString(s.text):
		t, err := time.ParseDuration(s.text)
		if err != nil {
			d.wrong(n, at, s.text, "too long for a duration")
			return
		}
		*v = t
	default:
		if m := unknownUnit.FindStringSubmatch(s.text); m != nil {
			d.wrong(n, at, model.Show(s.text), "unknown unit %s: want %s", model.Show(m[1]), model.OneOf(durationUnits))
			return
		}
		d.fail(n, at, "%s, got %s", want, describe(n, at))
	}
}

// text decodes the types that read themselves: addresses and prefixes.
func (d *decoder) text(n ast.Node, v encoding.TextUnmarshaler, at model.Place) {
	what := "an IP address"
	if strings.HasSuffix(reflect.TypeOf(v).String(), "Prefix") {
		what = "an IP prefix such as 10.0.0.0/8"
	}
	s, ok := scalarOf(n)
	if !ok || s.text == "" || v.UnmarshalText([]byte(s.text)) != nil {
		d.fail(n, at, "want %s, got %s", what, describe(n, at))
	}
}
