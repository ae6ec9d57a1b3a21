// Package config turns a YAML file into a [model.Config], or into the list of
// everything that is wrong with it.
//
// A file is used whole or not at all. [Load] reports all errors at once, each
// as file:line:column with what was wrong and what was expected: those of the
// YAML itself, of keys and types, and of [model.Config.Validate]. [CheckFiles]
// looks into the certificates and databases that the file names. What is
// doubtful but usable comes as warnings of the [Document].
//
// Only this package knows YAML. Its library parses; the decoding is our own,
// because it must go on after an error and remember where every value stood.
package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"fairlead/internal/model"
)

// MaxSize is the largest file that is read, in bytes.
const MaxSize = 16 << 20

// Document is a configuration with the places of its values.
type Document struct {
	// Config is valid, with defaults filled in and file names made absolute.
	Config *model.Config
	// Warnings are doubts about the file, in the order of their places.
	Warnings []Error
	// Source is the text that the Config was made from.
	Source []byte

	name   string
	places map[string]Position
}

// Position is a place in a file. Lines and columns count from 1; columns
// count characters.
type Position struct {
	File         string
	Line, Column int
}

func (p Position) String() string { return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column) }

// Error is one thing that is wrong in a file.
type Error struct {
	File         string
	Line, Column int
	Text         string
}

func (e Error) Error() string { return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Text) }

// Errors is everything that is wrong in a file, in the order of the places.
type Errors []Error

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i := range e {
		lines[i] = e[i].Error()
	}
	return strings.Join(lines, "\n")
}

// sort puts errors in the order of their places and drops repetitions. Those of
// files that the first one names keep together.
func (e Errors) sort() Errors {
	slices.SortStableFunc(e, func(a, b Error) int {
		if a.File != b.File {
			return strings.Compare(a.File, b.File)
		}
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return slices.Compact(e)
}

// Load reads a file. What is wrong in it comes as [Errors]; any other error
// means that the file could not be read.
func Load(file string) (*Document, error) {
	data, err := Read(file)
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	return Parse(file, data, dir)
}

// Read returns the text of a file, one byte more than MaxSize at most, which
// [Parse] then refuses.
func Read(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s: is a directory, want a YAML file", file)
	}
	return io.ReadAll(io.LimitReader(f, MaxSize+1))
}

// Parse reads a configuration from data. Errors call it name; relative file
// names in it start at dir.
func Parse(name string, data []byte, dir string) (*Document, error) {
	root, widths, errs := parseYAML(name, data)
	if len(errs) > 0 {
		return nil, errs.sort()
	}
	d := newDecoder(name, root, widths)
	c := new(model.Config)
	d.document(c)

	doc := &Document{Config: c, Source: data, name: name, places: d.places}
	errs = d.errs
	problems := c.Validate()
	problems = append(problems, checkRecords(c, problems)...)
	for _, p := range problems {
		e := doc.errorAt(p.Path, p.Text)
		if p.See != "" {
			e.Text += fmt.Sprintf(" (line %d)", doc.At(p.See).Line)
		}
		switch {
		case p.Warning:
			doc.Warnings = append(doc.Warnings, e)
		case !d.isBroken(p.Path):
			errs = append(errs, e)
		}
	}
	for _, f := range files(c) {
		if strings.ContainsFunc(*f.name, unicode.IsControl) {
			errs = append(errs, doc.errorAt(f.place.Path, fmt.Sprintf("%s %s: want a file name without control characters", f.place.Text, model.Show(*f.name))))
		}
		f.resolve(dir)
	}
	if len(errs) > 0 {
		return nil, errs.sort()
	}
	doc.Warnings = Errors(doc.Warnings).sort()
	return doc, nil
}

// Judge takes what was found after loading: warnings join the document's, and the
// errors are returned.
func (d *Document) Judge(problems []model.Problem) Errors {
	var errs Errors
	for _, p := range problems {
		e := d.errorAt(p.Path, p.Text)
		if p.File != "" {
			e = Error{p.File, p.Line, p.Column, p.Text}
		}
		if p.Warning {
			d.Warnings = append(d.Warnings, e)
		} else {
			errs = append(errs, e)
		}
	}
	d.Warnings = Errors(d.Warnings).sort()
	return errs.sort()
}

// At returns the place of a model path such as
// "pools[0].endpoints[2].weight". What the file leaves out is placed at the
// nearest thing around it that the file has.
func (d *Document) At(path string) Position {
	for {
		if p, ok := d.places[path]; ok {
			return p
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return Position{File: d.name, Line: 1, Column: 1}
		}
		path = path[:cut]
	}
}

func (d *Document) errorAt(path, text string) Error {
	p := d.At(path)
	return Error{File: p.File, Line: p.Line, Column: p.Column, Text: text}
}
