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
	hungUp bool // a change is to be reported whether or not there is one
	asked  bool // the last change was
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

// force makes the next look report a change.
func (w *watcher) force() { w.hungUp = true }

// forced reports whether the last change was forced.
func (w *watcher) forced() bool { return w.asked }

// changed looks at the file and reports whether there is something new to
// read. A file that is missing, empty or being written is not.
func (w *watcher) changed() bool {
	m := markOf(w.name)
	still := m.same(w.seen)
	w.seen = m
	if !w.hungUp && (!still || m.same(w.taken)) {
		return false
	}
	if m.size <= 0 && !w.hungUp || beingWritten(w.name) {
		return false
	}
	w.asked, w.hungUp = w.hungUp, false
	w.taken = m
	return true
}
