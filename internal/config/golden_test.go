package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The files in testdata/errors hold broken configurations, each with all that
// is said about it:
//
//	=== what is tried
//	the file
//	>>>
//	line:column: error or, with "warning: " before it, doubt
//
// go test -update writes what is said now; the diff is for reading.
func TestEverythingWrongIsSaid(t *testing.T) {
	files, err := filepath.Glob("testdata/errors/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	broken := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var renewed strings.Builder
		names := map[string]bool{}
		for _, c := range strings.Split("\n"+string(data), "\n=== ")[1:] {
			name, rest, _ := strings.Cut(c, "\n")
			input, want, ok := strings.Cut("\n"+rest+"\n", "\n>>>\n")
			if !ok {
				t.Fatalf("%s: case %q has no line >>>", file, name)
			}
			input = strings.TrimPrefix(input+"\n", "\n")
			if names[name] {
				t.Errorf("%s: two cases %q", file, name)
			}
			names[name] = true
			got := said(t, input)
			fmt.Fprintf(&renewed, "=== %s\n%s>>>\n%s", name, input, got)
			if !*update && strings.TrimRight(got, "\n") != strings.TrimRight(want, "\n") {
				t.Errorf("%s: %s\n%s\ngot:\n%s\nwant:\n%s", filepath.Base(file), name, input, got, want)
			}
			if got != "" && !strings.HasPrefix(got, "warning: ") {
				broken++
			}
		}
		if *update {
			if err := os.WriteFile(file, []byte(renewed.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	if broken < 120 {
		t.Errorf("%d broken configurations, want at least 120", broken)
	}
}

// said is everything that is reported about a file.
func said(t *testing.T, input string) string {
	t.Helper()
	var b strings.Builder
	doc, err := Parse("f", []byte(input), "/")
	switch errs, ok := err.(Errors); {
	case err == nil:
		for _, w := range doc.Warnings {
			fmt.Fprintf(&b, "warning: %s\n", strings.TrimPrefix(w.Error(), "f:"))
		}
	case !ok:
		t.Errorf("Parse: error of type %T, want Errors", err)
	default:
		for _, e := range errs {
			fmt.Fprintf(&b, "%s\n", strings.TrimPrefix(e.Error(), "f:"))
		}
	}
	return b.String()
}
