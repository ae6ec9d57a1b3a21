package taste

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestNames: the names of metrics, of the fields of log lines and of access-log
// lines are what people build dashboards and alerts on. They stand in one file,
// so that a change of a name is seen as one.
func TestNames(t *testing.T) {
	n := collectNames(t)
	got := "# Names that dashboards and alerts are built on. Changing one needs a line in\n" +
		"# CHANGELOG.md. Written by: make gen\n" +
		n.section("metrics {labels}", n.metrics) +
		n.section("log fields", n.logs) +
		n.section("access log fields", n.access)
	const golden = "names.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatalf("%v: write it with make gen", err)
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for _, line := range gotLines {
		if !slices.Contains(wantLines, line) {
			t.Errorf("new name: %s", line)
		}
	}
	for _, line := range wantLines {
		if !slices.Contains(gotLines, line) {
			t.Errorf("lost name: %s", line)
		}
	}
	if got != string(want) {
		t.Error("test/taste/names.golden is not what the source says: when the change is meant, run make gen and say so in CHANGELOG.md")
	}
}

type nameSet map[string]bool

// names is what the scan of the source has found.
type names struct {
	t                     *testing.T
	metrics, logs, access nameSet
	values                map[string]ast.Expr // what constants and variables of the scanned package are declared as
}

func (n *names) section(title string, set nameSet) string {
	return "\n# " + title + "\n" + strings.Join(slices.Sorted(maps.Keys(set)), "\n") + "\n"
}

// accessLog is the encoder of the access log: the type whose methods take a
// field's name first.
const (
	accessLogPackage = "internal/telemetry"
	accessLogType    = "line"
)

func collectNames(t *testing.T) *names {
	n := &names{t: t, metrics: nameSet{}, logs: nameSet{}, access: nameSet{}}
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.dir, "internal/") && !strings.HasPrefix(p.dir, "cmd/") {
			continue
		}
		n.values = packageValues(p)
		for _, f := range p.code() {
			n.scanMetrics(f)
			for _, d := range f.Decls {
				n.scanLogs(f, d)
			}
		}
		if p.dir == accessLogPackage {
			n.scanAccessLog(p)
		}
	}
	return n
}

// packageValues returns the values that the constants and variables of a
// package are declared with, by their names.
func packageValues(p goPackage) map[string]ast.Expr {
	found := make(map[string]ast.Expr)
	for _, f := range p.code() {
		for _, d := range f.Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, s := range decl.Specs {
				spec, ok := s.(*ast.ValueSpec)
				if !ok {
					continue
				}
				for i := range min(len(spec.Names), len(spec.Values)) {
					found[spec.Names[i].Name] = spec.Values[i]
				}
			}
		}
	}
	return found
}

// value returns what e stands for: the value that it is declared with when it
// is the name of a constant or variable of the package, otherwise e itself.
func (n *names) value(e ast.Expr) ast.Expr {
	if id, ok := e.(*ast.Ident); ok && n.values[id.Name] != nil {
		return n.values[id.Name]
	}
	return e
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

var metricName = regexp.MustCompile(`^fairlead_[a-z0-9_]*`)

// scanMetrics finds the string literals that begin as our metrics do. A
// composite literal that has one as its Name may list Labels.
func (n *names) scanMetrics(f goFile) {
	labelled := make(map[token.Pos][]string) // labels, by the position of the name
	ast.Inspect(f.File, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.CompositeLit:
			if name, labels := n.descLabels(node); name != nil {
				labelled[name.Pos()] = labels
			}
		case *ast.KeyValueExpr:
			for _, split := range []string{"Namespace", "Subsystem"} {
				if isIdent(node.Key, split) {
					n.t.Errorf("%s: %s splits the name of a metric: write the whole name as Name, so that it can be searched for", position(node), split)
				}
			}
		case *ast.BasicLit:
			text, _ := literal(node)
			switch name := metricName.FindString(text); {
			case name == "" || name != text && text[len(name)] != '{':
				// not a name, or a sentence that begins with one
			case strings.HasSuffix(name, "_"):
				n.t.Errorf("%s: %q is a part of the name of a metric: write the whole name, so that it can be searched for", position(node), text)
			default:
				if labels := labelled[node.Pos()]; len(labels) > 0 {
					name += "{" + strings.Join(labels, ",") + "}"
				}
				n.metrics[name] = true
			}
		}
		return true
	})
}

// descLabels returns the Name of a description of a metric and its Labels; a
// composite literal of another kind has no name.
func (n *names) descLabels(lit *ast.CompositeLit) (name ast.Expr, labels []string) {
	fields := make(map[string]ast.Expr)
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if id, ok := kv.Key.(*ast.Ident); ok {
				fields[id.Name] = kv.Value
			}
		}
	}
	if text, ok := literal(fields["Name"]); !ok || !metricName.MatchString(text) {
		return nil, nil
	}
	if fields["Labels"] == nil {
		return fields["Name"], nil
	}
	list, ok := n.value(fields["Labels"]).(*ast.CompositeLit)
	if !ok {
		n.t.Errorf("%s: labels that cannot be read off the source: write a list, or name a variable of the package that is one", position(fields["Labels"]))
		return fields["Name"], nil
	}
	for _, e := range list.Elts {
		label, ok := literal(n.value(e))
		if !ok {
			n.t.Errorf("%s: a label that cannot be read off the source: write it as a string or a constant", position(e))
		}
		labels = append(labels, label)
	}
	return fields["Name"], labels
}

// logMethods are the methods of *slog.Logger and how many arguments stand
// before the first key.
var logMethods = map[string]int{
	"Debug": 1, "Info": 1, "Warn": 1, "Error": 1,
	"DebugContext": 2, "InfoContext": 2, "WarnContext": 2, "ErrorContext": 2,
	"Log": 3, "LogAttrs": 3, "With": 0,
}

// attrFuncs are the functions of package slog that make an attribute of a key.
var attrFuncs = []string{"Any", "Bool", "Duration", "Float64", "Group", "Int", "Int64", "String", "Time", "Uint64"}

// scanLogs finds, by syntax alone, the keys that are handed to loggers in one
// declaration: in the calls, in slog.Attr values, and in slices that end up in
// a call as attrs... .
func (n *names) scanLogs(f goFile, d ast.Decl) {
	imports := importNames(f)
	spread := make(map[string]bool) // variables that are spread into a logging call
	ast.Inspect(d, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, ofPackage := importOf(sel.X, imports)
		if pkg == "log/slog" && slices.Contains(attrFuncs, sel.Sel.Name) && len(call.Args) > 0 {
			n.logKey(call.Args[0])
			return true
		}
		before, isLog := logMethods[sel.Sel.Name]
		if !isLog || ofPackage && pkg != "log/slog" || len(call.Args) < before {
			return true // http.Error and its like
		}
		args := call.Args[before:]
		if call.Ellipsis.IsValid() {
			if id, ok := args[len(args)-1].(*ast.Ident); ok {
				spread[id.Name] = true
			}
			args = args[:len(args)-1]
		}
		n.logKeys(args)
		return true
	})
	if len(spread) == 0 {
		return
	}
	ast.Inspect(d, func(node ast.Node) bool {
		assign, ok := node.(*ast.AssignStmt)
		if !ok || len(assign.Lhs) != 1 || len(assign.Rhs) != 1 {
			return true
		}
		id, ok := assign.Lhs[0].(*ast.Ident)
		if !ok || !spread[id.Name] {
			return true
		}
		switch value := assign.Rhs[0].(type) {
		case *ast.CompositeLit:
			n.logKeys(value.Elts)
		case *ast.CallExpr:
			if isIdent(value.Fun, "append") && len(value.Args) > 1 && !value.Ellipsis.IsValid() {
				n.logKeys(value.Args[1:])
			}
		}
		return true
	})
}

// logKeys reads a list of keys, values and attributes as slog does.
func (n *names) logKeys(args []ast.Expr) {
	for i := 0; i < len(args); i++ {
		if n.logKey(args[i]) {
			i++ // its value
		}
	}
}

var logFieldName = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// logKey notes a key and tells whether e is one.
func (n *names) logKey(e ast.Expr) bool {
	key, ok := literal(n.value(e))
	if !ok {
		return false
	}
	if !logFieldName.MatchString(key) {
		n.t.Errorf("%s: log field %q: want lower-case words joined by _", position(e), key)
	}
	n.logs[key] = true
	return true
}

// importNames returns the import paths of a file by the names they go by.
func importNames(f goFile) map[string]string {
	found := make(map[string]string)
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has accepted it
		}
		name := p[strings.LastIndexByte(p, '/')+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		found[name] = p
	}
	return found
}

// importOf returns the path of the package that e names, if it names one.
func importOf(e ast.Expr, imports map[string]string) (string, bool) {
	id, ok := e.(*ast.Ident)
	if !ok {
		return "", false
	}
	p, ok := imports[id.Name]
	return p, ok
}

var jsonKey = regexp.MustCompile(`^[{,]"([a-z_]+)":`)

// scanAccessLog finds the keys that are handed to the methods of the access
// log's encoder, and those that stand in literals of JSON.
func (n *names) scanAccessLog(p goPackage) {
	methods := make(map[string]bool)
	for _, f := range p.code() {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && receiver(fn) == accessLogType && len(fn.Type.Params.List) > 0 && len(fn.Type.Params.List[0].Names) > 0 &&
				fn.Type.Params.List[0].Names[0].Name == "k" {
				methods[fn.Name.Name] = true
			}
		}
	}
	if len(methods) == 0 {
		n.t.Errorf("%s has no type %s whose methods take the key k first: name the access log's encoder in test/taste/names_test.go", p.dir, accessLogType)
	}
	for _, f := range p.code() {
		ast.Inspect(f.File, func(node ast.Node) bool {
			switch node := node.(type) {
			case *ast.CallExpr:
				sel, ok := node.Fun.(*ast.SelectorExpr)
				if !ok || !methods[sel.Sel.Name] || len(node.Args) == 0 {
					return true
				}
				if key, ok := literal(node.Args[0]); ok {
					n.access[key] = true
				}
			case *ast.BasicLit:
				text, _ := literal(node)
				if m := jsonKey.FindStringSubmatch(text); m != nil {
					n.access[m[1]] = true
				}
			}
			return true
		})
	}
}

// receiver returns the name of the type that a method belongs to.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) != 1 {
		return ""
	}
	typ := fn.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if id, ok := typ.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}
