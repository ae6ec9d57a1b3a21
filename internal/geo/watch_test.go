package geo

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"fairlead/internal/geo/geotest"
	"fairlead/internal/model"
	"fairlead/internal/telemetry"
)

// watched is a database that is looked at by hand.
type watched struct {
	*Databases
	t    *testing.T
	file string
	now  time.Time
	log  bytes.Buffer
	busy bool
}

func watch(t *testing.T) *watched {
	w := &watched{t: t, now: time.Now()}
	w.file = write(t, geotest.Options{}, small)
	var err error
	w.Databases, err = Open(Config{
		Files: []string{w.file}, Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		Busy: func(string) bool { return w.busy },
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// pass looks at the file as often as it takes for a change that holds still.
func (w *watched) pass() {
	for range 2 {
		w.now = w.now.Add(Interval)
		w.look(w.now)
	}
}

func (w *watched) expect(country model.Country, problem string, loads, refusals uint64) {
	w.t.Helper()
	if p := w.Locate(addr("192.0.2.1")); p.Country != country {
		w.t.Errorf("country %q, want %q", p.Country, country)
	}
	s := w.Status()[0]
	if s.Loads != loads || s.Refusals != refusals || !strings.Contains(s.Problem, problem) || (problem == "") != (s.Problem == "") {
		w.t.Errorf("status %+v, want %d loads, %d refusals, problem %q", s, loads, refusals, problem)
	}
	if w.Generation() != loads {
		w.t.Errorf("generation %d, want %d", w.Generation(), loads)
	}
}

func content(country string) []byte {
	return geotest.Build(geotest.Options{}, geotest.Networks{"192.0.2.0/24": {"country_code": country}})
}

func TestReload(t *testing.T) {
	w := watch(t)
	w.pass()
	w.expect("NL", "", 0, 0)

	geotest.Replace(t, w.file, content("FR"))
	w.look(w.now.Add(Interval)) // has it held still?
	w.expect("NL", "", 0, 0)
	w.pass()
	w.expect("FR", "", 1, 0)

	// Half of a file, renamed over it.
	geotest.Replace(t, w.file, content("DE")[:300])
	w.pass()
	w.expect("FR", "want a complete database", 1, 1)
	w.pass()
	w.expect("FR", "want a complete database", 1, 1)
	if n := strings.Count(w.log.String(), "level=ERROR"); n != 1 {
		t.Errorf("%d errors in the log, want 1:\n%s", n, w.log.String())
	}

	// A good one.
	geotest.Replace(t, w.file, content("BE"))
	w.pass()
	w.expect("BE", "", 2, 1)

	// Gone, and back.
	if err := os.Rename(w.file, w.file+".away"); err != nil {
		t.Fatal(err)
	}
	w.pass()
	w.expect("BE", "no such file", 2, 2)
	if err := os.Rename(w.file+".away", w.file); err != nil {
		t.Fatal(err)
	}
	w.pass()
	w.expect("BE", "", 3, 2)

	// Written in place, with somebody who still writes.
	w.busy = true
	if err := os.WriteFile(w.file, content("LU"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.pass()
	w.expect("BE", "", 3, 2)
	w.busy = false
	w.pass()
	w.expect("LU", "", 4, 2)

	// Through a symbolic link that is changed.
	other := filepath.Join(filepath.Dir(w.file), "other.mmdb")
	geotest.Replace(t, other, content("NO"))
	if err := os.Symlink(other, w.file+".link"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(w.file+".link", w.file); err != nil {
		t.Fatal(err)
	}
	w.pass()
	w.expect("NO", "", 5, 2)

	// Without what it had before.
	geotest.Replace(t, w.file, geotest.Build(geotest.Options{}, geotest.Networks{"192.0.2.0/24": {"asn": uint32(1)}}))
	w.pass()
	w.expect("", "", 6, 2)
	if !strings.Contains(w.log.String(), `level=WARN msg="no geography database has these facts any more" facts=[country]`) {
		t.Errorf("the log does not say what is lost:\n%s", w.log.String())
	}
}

// What could not be taken up is tried again, as the reason may have been another
// than the file.
func TestRetry(t *testing.T) {
	w := watch(t)
	dir := w.cfg.Dir
	w.cfg.Dir = filepath.Join(dir, "full")
	geotest.Replace(t, w.file, content("FR"))
	w.pass()
	w.expect("NL", "cannot be copied", 0, 1)
	w.cfg.Dir = dir
	w.pass()
	w.expect("NL", "cannot be copied", 0, 1)
	w.now = w.now.Add(retryEvery)
	w.pass()
	w.expect("FR", "", 1, 1)
}

// Look-ups go on during reloads, and each sees one database.
func TestLocateDuringReload(t *testing.T) {
	w := watch(t)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if c := w.Locate(addr("192.0.2.1")).Country; c != "NL" && c != "FR" {
					t.Errorf("country %q", c)
					return
				}
				if a := w.AppendName(nil, addr("192.0.2.1"), NameCity); len(a) != 0 {
					t.Errorf("city %q", a)
					return
				}
			}
		})
	}
	for i := range 10 {
		geotest.Replace(t, w.file, content([]string{"FR", "NL"}[i%2]))
		w.pass()
	}
	close(done)
	wg.Wait()
	w.expect("NL", "", 10, 0)
}

func TestWatch(t *testing.T) {
	var d *Databases
	d.Watch(t.Context()) // nothing to do: returns
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		ctx, cancel := context.WithCancel(t.Context())
		go w.Watch(ctx)
		geotest.Replace(t, w.file, content("FR"))
		time.Sleep(2*Interval + time.Millisecond)
		synctest.Wait()
		w.expect("FR", "", 1, 0)
		cancel()
		synctest.Wait()
	})
}

func TestMetrics(t *testing.T) {
	w := watch(t)
	registry := telemetry.NewRegistry()
	registry.Add(w)
	geotest.Replace(t, w.file, content("FR")[:200])
	w.pass()
	rec := httptest.NewRecorder()
	registry.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, _ := io.ReadAll(rec.Body)
	of := `{database="` + w.file + `"}`
	for _, want := range []string{
		"fairlead_geo_database_built_timestamp_seconds" + of + " 1.780272e+09",
		"fairlead_geo_database_stale" + of + " 1",
		`fairlead_geo_database_reloads_total{database="` + w.file + `",result="applied"} 0`,
		`fairlead_geo_database_reloads_total{database="` + w.file + `",result="refused"} 1`,
		"fairlead_geo_lookup_failures_total" + of + " 0",
		"fairlead_geo_database_age_seconds" + of,
	} {
		if !strings.Contains(string(body), want) {
			t.Errorf("/metrics lacks %s:\n%s", want, body)
		}
	}
}
