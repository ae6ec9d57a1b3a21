package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"fairlead/internal/config"
	"fairlead/internal/plan"
)

// README.md shows the demo as it is.
func TestReadmeShowsTheDemo(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	introduce(&out, "127.0.0.1:8080", "127.0.0.1:43297", "127.0.0.1:42007")
	if !strings.Contains(string(readme), out.String()) {
		t.Errorf("README.md does not show what the demo prints; it should have:\n%s", out.String())
	}
}

// The demo answers for whatever name it may be asked by, and its file is one
// that serve takes.
func TestDemoFile(t *testing.T) {
	here := []string{"localhost", "127.0.0.1", "::1"}
	for _, test := range []struct {
		address string
		hosts   []string
	}{
		{"127.0.0.1:8080", here},
		{"localhost:0", here},
		{"[::1]:8080", here},
		{":8080", here},
		{"0.0.0.0:8080", append(slices.Clip(here), "0.0.0.0")},
		{"192.0.2.1:8080", append(slices.Clip(here), "192.0.2.1")},
		{"demo.example.com:8080", append(slices.Clip(here), "demo.example.com")},
	} {
		if got := demoHosts(test.address); !slices.Equal(got, test.hosts) {
			t.Errorf("demoHosts(%q) = %q, want %q", test.address, got, test.hosts)
		}
		text := demoFile(test.address, map[string]string{"a": "127.0.0.1:1", "b": "127.0.0.1:2", "c": "127.0.0.1:3"})
		doc, err := config.Parse("demo.yaml", []byte(text), t.TempDir())
		if err != nil {
			t.Errorf("%s: %v", test.address, err)
			continue
		}
		if p := plan.Unbuilt(doc.Config); len(doc.Warnings) > 0 || len(p) > 0 {
			t.Errorf("%s: warnings %v, unbuilt %v, want none", test.address, doc.Warnings, p)
		}
	}
}

// Help is read in terminals of 80 columns.
func TestHelpFits(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"serve", "--help"}, {"check", "--help"}, {"schema", "--help"}, {"demo", "--help"}, {"version", "--help"}} {
		var out, errs bytes.Buffer
		if status := run(args, streams{&out, &errs}); status != 0 || errs.Len() > 0 {
			t.Errorf("%v: status %d, %s", args, status, errs.String())
		}
		for line := range strings.Lines(out.String()) {
			if len(strings.TrimRight(line, "\n")) > 80 {
				t.Errorf("%v: longer than 80 columns: %s", args, line)
			}
		}
	}
}
