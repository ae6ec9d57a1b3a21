package plan

import (
	"log/slog"
	"testing"

	"fairlead/internal/config"
	"fairlead/internal/health"
	"fairlead/internal/load"
	"fairlead/internal/model"
	"fairlead/internal/resolve"
)

// tables are where plans of one test find what is observed.
func tables(t *testing.T) Tables {
	t.Helper()
	log := slog.New(slog.NewTextHandler(testLog{t}, nil))
	r := resolve.New(resolve.Config{Log: log})
	t.Cleanup(r.Close)
	return Tables{Health: health.NewTable(log), Load: new(load.Table), Resolver: r}
}

type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", p)
	return len(p), nil
}

// declared reads a configuration that must be valid.
func declared(t *testing.T, text string) *model.Config {
	t.Helper()
	doc, err := config.Parse("test.yaml", []byte(text), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return doc.Config
}

// compiled compiles a configuration.
func compiled(t *testing.T, text string, revision uint64, tab Tables) *Plan {
	t.Helper()
	p, err := Compile(declared(t, text), &Plan{Revision: revision - 1}, tab)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
