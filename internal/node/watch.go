package node

import (
	"os"
	"time"
)

// watchInterval is how often the configuration file is looked at. A change is
// taken up once it has held still for one interval and nobody has the file open
// for writing.
const watchInterval = 500 * time.Millisecond

// watcher notices that a file has changed, however that was done: written in
// place, another file renamed over it, or a symbolic link on the way changed.
// Polling sees all of these, on every file system.
type watcher struct {
	name   string
	taken  mark // when the last change was reported
	seen   mark // at the last look
	forced bool // a change is to be reported whether or not there is one
}

// mark tells one state of a file from another.
type mark struct {
	size    int64
	changed time.Time
	file    os.FileInfo // of which device and number are compared
}

func markOf(name string) mark {
	info, err := os.Stat(name) // follows symbolic links
	if err != nil {
		return mark{size: -1}
	}
	return mark{size: info.Size(), changed: info.ModTime(), file: info}
}

func (m mark) same(o mark) bool {
	if m.size != o.size || !m.changed.Equal(o.changed) || (m.file == nil) != (o.file == nil) {
		return false
	}
	return m.file == nil || os.SameFile(m.file, o.file)
}

func newWatcher(name string) *watcher {
	m := markOf(name)
	return &watcher{name: name, taken: m, seen: m}
}

// force makes the next look report a change, unless the file is being written:
// then it is the first look after that.
func (w *watcher) force() { w.forced = true }

// look looks at the file and reports whether it is to be read: because there is
// something new, or because that was forced. A file that is missing or empty is
// read only when that is forced, and one that is being written never.
func (w *watcher) look() (changed, forced bool) {
	m := markOf(w.name)
	still := m.same(w.seen)
	w.seen = m
	news := still && !m.same(w.taken) && m.size > 0
	if !news && !w.forced || beingWritten(w.name) {
		return false, false
	}
	forced, w.forced = w.forced, false
	w.taken = m
	return true, forced
}
