package taste

import (
	"go/ast"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fuzzed lists the packages that read what strangers send, and how many parsers
// each has at least.
var fuzzed = []struct {
	pkg     string
	targets int
	parsers string
}{
	{"internal/h1", 3, "request head, response head, chunked body"},
	{"internal/h2", 4, "frames, header blocks, conversations, the bridge to HTTP/1.1"},
	{"internal/h3", 2, "requests, unidirectional streams"},
	{"internal/config", 1, "YAML"},
	{"internal/affinity", 2, "session cookies, files of keys"},
	{"internal/dnssec", 1, "key files"},
	{"internal/rules", 2, "expressions, what they are run on"},
	{"internal/geo", 1, "MMDB databases"},
	{"internal/health", 2, "replies of mail servers, answers of directories"},
}

func TestParsersAreFuzzed(t *testing.T) {
	found := make(map[string]int)
	for _, p := range packages(t) {
		for _, f := range p.files {
			if !f.isTest() {
				continue
			}
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Fuzz") {
					continue
				}
				found[p.dir]++
				if !addsSeeds(fn) && !hasSeedFiles(p.dir, fn.Name.Name) {
					t.Errorf("%s: %s starts from nothing: give it seeds, by f.Add or in testdata/fuzz/%s", position(fn), fn.Name.Name, fn.Name.Name)
				}
			}
		}
	}
	for _, want := range fuzzed {
		if found[want.pkg] < want.targets {
			t.Errorf("%s has %d fuzz targets, want %d: one for each of %s", want.pkg, found[want.pkg], want.targets, want.parsers)
		}
	}
}

// addsSeeds tells whether a fuzz target calls Add on its *testing.F, or hands
// that to a function which may.
func addsSeeds(fn *ast.FuncDecl) bool {
	if len(fn.Type.Params.List) != 1 || len(fn.Type.Params.List[0].Names) != 1 {
		return false
	}
	f := fn.Type.Params.List[0].Names[0].Name
	adds := false
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Add" && isIdent(sel.X, f) {
			adds = true
		}
		for _, arg := range call.Args {
			adds = adds || isIdent(arg, f)
		}
		return true
	})
	return adds
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

func hasSeedFiles(dir, target string) bool {
	seeds, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(dir), "testdata", "fuzz", target))
	return err == nil && len(seeds) > 0
}
