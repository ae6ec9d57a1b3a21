package geo

import (
	"time"

	"fairlead/internal/telemetry"
)

// Status is what is known of one database.
type Status struct {
	File string
	// Type is what its maker calls it, and Built is when it was made.
	Type  string
	Built time.Time
	// Loaded is when it was read.
	Loaded time.Time
	// Gives are the facts that it has of some address.
	Gives Facts
	// Problem is why the file, as it is now, is not in use; else "".
	Problem string
	// Failures are look-ups that could not be read.
	Failures uint64
	// Loads and Refusals count the changes of the file that were taken up, and those
	// that were not.
	Loads, Refusals uint64
}

// Status returns what is known of each database, in their order.
func (d *Databases) Status() (list []Status) {
	if d == nil {
		return nil
	}
	s := d.current.Load()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, f := range d.files {
		db := s.databases[i]
		list = append(list, Status{
			File: f.name, Type: db.kind, Built: db.built, Loaded: f.loaded, Gives: db.gives, Problem: f.problem,
			Failures: db.failed.Load(), Loads: f.loads, Refusals: f.refusals,
		})
	}
	return list
}

var (
	ofDatabase = []string{"database"}

	databaseBuilt = &telemetry.Desc{
		Name: "fairlead_geo_database_built_timestamp_seconds",
		Help: "When the maker of the database made it, in seconds since 1970.",
		Kind: telemetry.GaugeKind, Labels: ofDatabase,
	}
	databaseAge = &telemetry.Desc{
		Name: "fairlead_geo_database_age_seconds",
		Help: "Time since the maker of the database made it.",
		Kind: telemetry.GaugeKind, Labels: ofDatabase,
	}
	databaseStale = &telemetry.Desc{
		Name: "fairlead_geo_database_stale",
		Help: "1 while the database's file cannot be used and what was read before is, else 0.",
		Kind: telemetry.GaugeKind, Labels: ofDatabase,
	}
	databaseReloads = &telemetry.Desc{
		Name: "fairlead_geo_database_reloads_total",
		Help: "Changes of the database's file, by result: applied or refused.",
		Kind: telemetry.CounterKind, Labels: []string{"database", "result"},
	}
	databaseFailures = &telemetry.Desc{
		Name: "fairlead_geo_lookup_failures_total",
		Help: "Look-ups that met something in the database that cannot be read.",
		Kind: telemetry.CounterKind, Labels: ofDatabase,
	}
)

// Collect implements telemetry.Source. Databases are named by their files.
func (d *Databases) Collect(e *telemetry.Emitter) {
	now := time.Now()
	for _, s := range d.Status() {
		stale := 0.0
		if s.Problem != "" {
			stale = 1
		}
		e.Gauge(databaseBuilt, float64(s.Built.Unix()), s.File)
		e.Gauge(databaseAge, now.Sub(s.Built).Seconds(), s.File)
		e.Gauge(databaseStale, stale, s.File)
		e.Counter(databaseReloads, s.Loads, s.File, "applied")
		e.Counter(databaseReloads, s.Refusals, s.File, "refused")
		e.Counter(databaseFailures, s.Failures, s.File)
	}
}
