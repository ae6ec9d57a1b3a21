package taste

import (
	"go/parser"
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestScanOfNames: the scan goes by syntax alone; this is what it must see and
// what it must not take for a name.
func TestScanOfNames(t *testing.T) {
	const source = `package x

import (
	"log/slog"
	"net/http"
)

const poolKey = "pool"

var ofPool = []string{poolKey}

var e = Desc{Name: "fairlead_pool_open", Labels: ofPool}

var d = Desc{Name: "fairlead_requests_total", Help: "Requests.", Labels: []string{"listener", "status"}}

const (
	line = "fairlead_other{pool=%q} 1"
	help = "fairlead_nothing counts nothing"
	file = "fairlead.yaml"
)

func f(log *slog.Logger, w http.ResponseWriter, v any) {
	http.Error(w, "not_a_field", 500)
	log.Info("message", "listener", v, slog.Int("status", 1), "endpoint", v)
	log.With("node", v).ErrorContext(nil, "message", poolKey, v)
	slog.Warn("message", "monitor", v)
	attrs := []any{"zone", v}
	attrs = append(attrs, "error", v)
	log.Log(nil, 0, "message", attrs...)
	other := []any{"not_logged", v}
	_ = other
}
`
	file, err := parser.ParseFile(fileSet, "x.go", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	f := goFile{"x.go", file}
	n := &names{t: t, metrics: nameSet{}, logs: nameSet{}, access: nameSet{}}
	n.values = packageValues(goPackage{dir: "x", files: []goFile{f}})
	n.scanMetrics(f)
	for _, d := range f.Decls {
		n.scanLogs(f, d)
	}
	for _, test := range []struct {
		what string
		got  nameSet
		want string
	}{
		{"metrics", n.metrics, "fairlead_other fairlead_pool_open{pool} fairlead_requests_total{listener,status}"},
		{"log fields", n.logs, "endpoint error listener monitor node pool status zone"},
	} {
		if got := strings.Join(slices.Sorted(maps.Keys(test.got)), " "); got != test.want {
			t.Errorf("%s: %s, want %s", test.what, got, test.want)
		}
	}
}

func TestAllowed(t *testing.T) {
	may := []string{"internal/plan", "internal/api/*"}
	for pkg, want := range map[string]bool{
		"internal/plan":           true,
		"internal/planner":        false,
		"internal/api/cloudflare": true,
		"internal/model":          false,
	} {
		if got := allowed(may, pkg); got != want {
			t.Errorf("allowed(%q) = %v, want %v", pkg, got, want)
		}
	}
}
