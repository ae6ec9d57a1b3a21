package taste

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestDocs runs the examples of README.md and docs/: the blocks of a file in
// the order in which a reader meets them, in one directory, so that a command
// can use the configuration shown above it.
//
//   - A yaml block whose first line is a comment that names a file, as in
//     "# fairlead.yaml", or that is tagged "yaml config", is a configuration:
//     it is written to that file (fairlead.yaml) and must pass fairlead check.
//   - A sh block after the line <!-- test --> is run by bash with fairlead on
//     its PATH, and must exit with 0. What it leaves in the background is ended.
func TestDocs(t *testing.T) {
	for _, name := range walk(t, ".md") {
		if name != "README.md" && !strings.HasPrefix(name, "docs/") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			blocks, err := fencedBlocks(read(t, name))
			if err != nil {
				t.Fatalf("%s:%v", name, err)
			}
			dir := t.TempDir()
			for _, b := range blocks {
				where := fmt.Sprintf("%s:%d", name, b.line)
				if file, ok := b.config(); ok {
					if err := os.WriteFile(filepath.Join(dir, file), []byte(b.text), 0o600); err != nil {
						t.Fatal(err)
					}
					if out, err := runExample(t, dir, "fairlead check --config "+file); err != nil {
						t.Errorf("%s: fairlead check refuses this configuration (%v): mend the example or the check\n%s", where, err, out)
					}
				}
				if b.isTest() {
					if out, err := runExample(t, dir, b.text); err != nil {
						t.Errorf("%s: the example fails (%v): mend it, or what it shows\n%s", where, err, out)
					}
				}
			}
		})
	}
}

// block is a fenced code block of a Markdown file.
type block struct {
	line   int    // of the opening fence, from 1
	info   string // what stands behind the fence
	before string // the line above the fence that is not blank
	text   string
}

func (b block) isTest() bool { return b.info == "sh" && b.before == "<!-- test -->" }

var configComment = regexp.MustCompile(`^# ([a-z0-9-]+\.yaml)\b`)

// config returns the name of the file that the block is, if it is a
// configuration.
func (b block) config() (file string, ok bool) {
	if m := configComment.FindStringSubmatch(b.text); m != nil && strings.HasPrefix(b.info, "yaml") {
		return m[1], true
	}
	return "fairlead.yaml", b.info == "yaml config"
}

// fencedBlocks returns the blocks of a Markdown text. A fence may be indented,
// as in a list; its block is then shifted back by as much.
func fencedBlocks(text string) ([]block, error) {
	var blocks []block
	var open *block
	var indent, fence, before string
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case open != nil && trimmed == fence:
			blocks = append(blocks, *open)
			open, before = nil, ""
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		case strings.HasPrefix(trimmed, "```"):
			fence = trimmed[:len(trimmed)-len(strings.TrimLeft(trimmed, "`"))]
			indent = line[:strings.IndexByte(line, '`')]
			open = &block{line: i + 1, info: strings.TrimSpace(strings.TrimLeft(trimmed, "`")), before: before}
		case trimmed == "<!-- test -->" && before == trimmed:
			return nil, fmt.Errorf("%d: <!-- test --> twice: keep the one above the block", i+1)
		case trimmed != "":
			if before == "<!-- test -->" {
				return nil, fmt.Errorf("%d: <!-- test --> is not followed by a block: put it right above the fence", i)
			}
			before = trimmed
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%d: this block is never closed", open.line)
	}
	for _, b := range blocks {
		if b.before == "<!-- test -->" && b.info != "sh" {
			return nil, fmt.Errorf("%d: <!-- test --> above a block of %q: only sh blocks are run", b.line, b.info)
		}
	}
	return blocks, nil
}

// runExample runs a script in dir as a reader would. It fails a script that
// takes longer than a minute.
func runExample(t *testing.T, dir, script string) (output string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(binary(t))+string(os.PathListSeparator)+os.Getenv("PATH"))
	// Output goes to a file: a pipe would be held open by what the script
	// leaves in the background. The group is how that is ended.
	out, err := os.CreateTemp(t.TempDir(), "output")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endGroup := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel = endGroup
	if err = cmd.Start(); err == nil {
		err = cmd.Wait()
		if killErr := endGroup(); killErr != nil && !errors.Is(killErr, syscall.ESRCH) {
			t.Error(killErr)
		}
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("not done within a minute: %w", err)
	}
	text, readErr := os.ReadFile(out.Name())
	if readErr != nil {
		t.Fatal(readErr)
	}
	return string(text), err
}

var built struct {
	once sync.Once
	dir  string
	err  error
}

// binary returns the path of fairlead, built from this tree on first use.
func binary(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "fairlead-taste-"); built.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-o", built.dir+string(filepath.Separator), "./cmd/fairlead")
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("go build ./cmd/fairlead: %w\n%s", err, out)
		}
	})
	if built.err != nil {
		t.Fatal(built.err)
	}
	return filepath.Join(built.dir, "fairlead")
}

func TestMain(m *testing.M) {
	status := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(status)
}

func TestFencedBlocks(t *testing.T) {
	blocks, err := fencedBlocks(strings.Join([]string{
		"# Title",
		"<!-- test -->",
		"",
		"```sh",
		"fairlead version",
		"```",
		"1. A list:",
		"   ````yaml",
		"   # lb.yaml: two pools",
		"   a:",
		"     ```",
		"   ````",
		"```yaml config",
		"b: 1",
		"```",
		"```sh",
		"rm -rf /",
		"```",
	}, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []block{
		{4, "sh", "<!-- test -->", "fairlead version\n"},
		{8, "yaml", "1. A list:", "# lb.yaml: two pools\na:\n  ```\n"},
		{13, "yaml config", "", "b: 1\n"},
		{16, "sh", "", "rm -rf /\n"},
	}
	if len(blocks) != len(want) {
		t.Fatalf("%d blocks, want %d: %+v", len(blocks), len(want), blocks)
	}
	for i := range want {
		if blocks[i] != want[i] {
			t.Errorf("block %d = %+v, want %+v", i, blocks[i], want[i])
		}
	}
	if !blocks[0].isTest() || blocks[3].isTest() {
		t.Error("isTest: want the first block alone to be run")
	}
	for i, want := range []string{"", "lb.yaml", "fairlead.yaml", ""} {
		if file, ok := blocks[i].config(); ok != (want != "") || ok && file != want {
			t.Errorf("block %d: config() = %q, %v, want %q", i, file, ok, want)
		}
	}
	for name, text := range map[string]string{
		"never closed":        "```sh\nls\n",
		"test without block":  "<!-- test -->\ntext\n",
		"test of another tag": "<!-- test -->\n```go\nx\n```\n",
	} {
		if blocks, err := fencedBlocks(text); err == nil {
			t.Errorf("%s: fencedBlocks = %+v, want an error", name, blocks)
		}
	}
}
