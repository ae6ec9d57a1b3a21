package taste

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestPackageComments: each package says once what it is for, so that its
// documentation has one beginning.
func TestPackageComments(t *testing.T) {
	for _, p := range packages(t) {
		code := p.code()
		if len(code) == 0 {
			continue // only tests
		}
		want := "Package " + code[0].Name.Name
		if code[0].Name.Name == "main" {
			want = "Command " + path.Base(p.dir)
		}
		var commented []string
		for _, f := range code {
			if f.Doc == nil {
				continue
			}
			commented = append(commented, f.name)
			text := f.Doc.Text()
			if !strings.HasPrefix(text, want+" ") && !strings.HasPrefix(text, want+"\n") {
				first, _, _ := strings.Cut(text, "\n")
				t.Errorf("%s: the package comment begins %q: begin it with %q", f.name, first, want)
			}
		}
		switch {
		case len(commented) == 0:
			t.Errorf("%s: no package comment: say above one of its package clauses what the package is for, beginning with %q", p.dir, want)
		case len(commented) > 1:
			t.Errorf("%s: package comments in %s: keep one", p.dir, strings.Join(commented, ", "))
		}
	}
}

// maxLines is where a file has become two things.
const maxLines = 700

func TestFileSize(t *testing.T) {
	for _, name := range walk(t, ".go") {
		text := read(t, name)
		if generated.MatchString(text) {
			continue
		}
		if lines := strings.Count(text, "\n"); lines > maxLines {
			t.Errorf("%s has %d lines, more than %d: give each of the things it has become a file of its own", name, lines, maxLines)
		}
	}
}

// generated is the line that the go command knows generated files by.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// unfinished is put together so that this file does not match itself.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`)

// TestNothingUnfinished: work that is left goes to the issue tracker, where it
// is seen; what is in the tree is whole.
func TestNothingUnfinished(t *testing.T) {
	for _, name := range walk(t, ".go", ".md", ".yaml", ".yml", ".sh", "Makefile", ".ci/run") {
		for i, line := range strings.Split(read(t, name), "\n") {
			if mark := unfinished.FindString(line); mark != "" {
				t.Errorf("%s:%d: %s: do it now, or open an issue and take the mark out", name, i+1, mark)
			}
		}
	}
}
