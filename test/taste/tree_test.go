package taste

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files again")

// root is the top of the tree, as seen from this package's directory.
const root = "../.."

// modulePath begins the import path of each of our packages.
const modulePath = "fairlead"

// goFile is one parsed file.
type goFile struct {
	name string // from the top of the tree, with slashes
	*ast.File
}

func (f goFile) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

// goPackage is the files of one directory, those of tests included.
type goPackage struct {
	dir   string // from the top of the tree, with slashes; the import path without the module
	files []goFile
}

// code returns the files that are linked into programs.
func (p goPackage) code() []goFile {
	var files []goFile
	for _, f := range p.files {
		if !f.isTest() {
			files = append(files, f)
		}
	}
	return files
}

// walk returns every regular file of the tree whose name ends in one of
// suffixes, from the top, with slashes. Test data, hidden directories but .ci,
// and other modules are left out.
func walk(t *testing.T, suffixes ...string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") && rel != "." && rel != ".ci"
			if hidden || d.Name() == "testdata" || d.Name() == "node_modules" {
				return filepath.SkipDir
			}
			return nil
		}
		for _, suffix := range suffixes {
			if d.Type().IsRegular() && strings.HasSuffix(rel, suffix) {
				names = append(names, rel)
				break
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var fileSet = token.NewFileSet()

var parsed struct {
	once     sync.Once
	packages []goPackage
}

// packages returns all packages of the module in the order of their paths.
func packages(t *testing.T) []goPackage {
	t.Helper()
	parsed.once.Do(func() {
		index := make(map[string]int)
		for _, name := range walk(t, ".go") {
			file, err := parser.ParseFile(fileSet, name, read(t, name), parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			dir := path.Dir(name)
			i, ok := index[dir]
			if !ok {
				i = len(parsed.packages)
				index[dir] = i
				parsed.packages = append(parsed.packages, goPackage{dir: dir})
			}
			parsed.packages[i].files = append(parsed.packages[i].files, goFile{name, file})
		}
	})
	if len(parsed.packages) == 0 {
		t.Fatal("no Go package found")
	}
	return parsed.packages
}

// position is file:line of a node, from the top of the tree.
func position(n ast.Node) string {
	p := fileSet.Position(n.Pos())
	p.Column = 0
	return p.String()
}
