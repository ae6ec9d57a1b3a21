package geo

import (
	"context"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"time"
)

// Interval is how often files are looked at. A change is taken up once a file has
// held still for one interval and nobody has it open for writing.
const Interval = time.Second

// retryEvery is how often a file that could not be taken up is tried again though
// it has not changed: the disk may have been full.
const retryEvery = time.Minute

// file is a file that is watched. Only Watch uses it, but for what Databases.mu
// guards.
type file struct {
	name  string
	taken mark      // when it was last read, whatever came of it
	seen  mark      // at the last look
	tried time.Time // when it was last read

	loaded   time.Time // when its content was last taken up
	problem  string    // why it is not in use as it is now, "" where it is
	loads    uint64
	refusals uint64
}

// mark tells one state of a file from another.
type mark struct {
	size    int64
	changed time.Time
	info    fs.FileInfo // of which device and number are compared
}

func markOf(name string) mark {
	info, err := os.Stat(name) // follows symbolic links
	if err != nil {
		return mark{size: -1}
	}
	return mark{info.Size(), info.ModTime(), info}
}

func (m mark) same(o mark) bool {
	if m.size != o.size || !m.changed.Equal(o.changed) || (m.info == nil) != (o.info == nil) {
		return false
	}
	return m.info == nil || os.SameFile(m.info, o.info)
}

func newFile(name string) *file {
	m := markOf(name)
	return &file{name: name, taken: m, seen: m, loaded: time.Now()}
}

// due looks at the file and reports whether it is to be read.
func (f *file) due(now time.Time, busy func(string) bool) bool {
	m := markOf(f.name)
	still := m.same(f.seen)
	f.seen = m
	news := still && !m.same(f.taken)
	again := still && f.problem != "" && now.Sub(f.tried) >= retryEvery
	if !news && !again || busy != nil && busy(f.name) {
		return false
	}
	f.taken, f.tried = m, now
	return true
}

// Watch takes up files that change, until ctx is done. What cannot be used is
// logged once, and what was read before stays in use.
func (d *Databases) Watch(ctx context.Context) {
	if d == nil {
		return
	}
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			d.look(time.Now())
		}
	}
}

// look takes up what has changed.
func (d *Databases) look(now time.Time) {
	replaced := false
	for i, f := range d.files {
		if f.due(now, d.cfg.Busy) && d.take(i, now) {
			replaced = true
		}
	}
	if replaced {
		// What was mapped before is given back when the collector finds that no
		// look-up has it. It does not see the size of that, and could leave it for
		// long.
		runtime.GC()
	}
}

// take reads file i and makes it what is looked up in.
func (d *Databases) take(i int, now time.Time) bool {
	f := d.files[i]
	old := d.current.Load()
	db, err := openDatabase(f.name, d.cfg.Dir)
	if err != nil {
		problem := err.Error()
		if problem == f.problem {
			return false
		}
		d.mu.Lock()
		f.problem = problem
		f.refusals++
		d.mu.Unlock()
		d.cfg.Log.Error("geography database cannot be used; what was read before stays in use", "file", f.name, "error", problem)
		return false
	}
	db.failed.Add(old.databases[i].failed.Load())
	next := &snapshot{generation: old.generation + 1, databases: slices.Clone(old.databases)}
	next.databases[i] = db
	for _, each := range next.databases {
		next.gives |= each.gives
	}
	d.current.Store(next)
	d.mu.Lock()
	f.loaded, f.problem = now, ""
	f.loads++
	d.mu.Unlock()
	d.cfg.Log.Info("geography database is taken up", "file", f.name, "type", db.kind, "built", db.built.UTC().Format(time.RFC3339))
	if lost := old.gives &^ next.gives; lost != 0 {
		d.cfg.Log.Warn("no geography database has these facts any more", "facts", lost.Names())
	}
	return true
}
