package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParse gives the loader anything. It must neither panic nor hang, and
// whatever it refuses it refuses with a place in the file.
//
// The seeds are long, and Go spends a minute on making each input that it
// finds in them shorter: run it with -fuzzminimizetime=1x, or it tries a few
// hundred inputs where it could try a million.
func FuzzParse(f *testing.F) {
	seeds := 0
	add := func(text string) {
		seeds++
		f.Add([]byte(text))
	}
	for _, name := range examples {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		add(string(data))
	}
	cases, err := filepath.Glob("testdata/errors/*.txt")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range cases {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for _, c := range strings.Split(string(data), "=== ")[1:] {
			_, rest, _ := strings.Cut(c, "\n")
			input, _, _ := strings.Cut(rest, ">>>\n")
			add(input)
		}
	}
	for _, text := range []string{"{", "[", "- - -", "? a", "&a *a", "a: &a [*a]", "a: |\n  x", "!!a b", "%YAML 1.2\n---\n", "...", "\ufeff", "a: \"\\", "\t", "<<: *a"} {
		add(text)
	}
	if seeds < 150 {
		f.Fatalf("%d seeds, want more", seeds)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := Parse("f", data, "/")
		if err == nil {
			for _, p := range doc.Config.Validate() {
				if !p.Warning {
					t.Errorf("accepted, but: %v", p)
				}
				doc.At(p.Path)
			}
			return
		}
		var errs Errors
		if !errors.As(err, &errs) || len(errs) == 0 {
			t.Fatalf("error of type %T: %v", err, err)
		}
		lines := strings.Split(strings.ToValidUTF8(string(data), "?"), "\n")
		for i, e := range errs {
			if e.Line < 1 || e.Column < 1 || e.Line > len(lines) || e.Text == "" {
				t.Errorf("error without a place in the file's %d lines: %v", len(lines), e)
				continue
			}
			if width := utf8.RuneCountInString(lines[e.Line-1]); e.Column > width+1 {
				t.Errorf("error behind the %d characters of its line: %v", width, e)
			}
			if i > 0 && errs[i-1].Line > e.Line {
				t.Errorf("errors out of order: %v", errs)
			}
		}
	})
}
