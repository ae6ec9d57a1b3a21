package node

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"fairlead/internal/config"
)

// file is a file in a directory of its own, each state of which is told apart
// by its time: looks of a test follow each other faster than clocks tick.
type file struct {
	t    *testing.T
	name string
	at   time.Time
}

func newFile(t *testing.T, text string) *file {
	t.Helper()
	f := &file{t: t, name: filepath.Join(t.TempDir(), "lb.yaml"), at: time.Unix(1_700_000_000, 0)}
	f.write(f.name, text)
	return f
}

func (f *file) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// write writes a file in place and closes it.
func (f *file) write(name, text string) {
	f.t.Helper()
	f.check(os.WriteFile(name, []byte(text), 0o600))
	f.tick(name)
}

// tick gives a file a later time.
func (f *file) tick(name string) {
	f.t.Helper()
	f.at = f.at.Add(time.Second)
	f.check(os.Chtimes(name, f.at, f.at))
}

// sibling returns a name beside the file.
func (f *file) sibling(name string) string { return filepath.Join(filepath.Dir(f.name), name) }

// changed looks once.
func changed(w *watcher) bool {
	news, _ := w.look()
	return news
}

// quiet looks often and wants no change to be reported.
func quiet(t *testing.T, w *watcher, when string) {
	t.Helper()
	for range 5 {
		if changed(w) {
			t.Fatalf("a change was reported %s", when)
		}
	}
}

// once wants a change to be reported by the second look, which finds the file
// as the first did, and not again.
func once(t *testing.T, w *watcher, what string) {
	t.Helper()
	if changed(w) {
		t.Errorf("%s: reported by the first look: want it to hold still for one", what)
		return
	}
	if changed, forced := w.look(); !changed || forced {
		t.Fatalf("%s: look() = %v, %v by the second look; want true, and not forced", what, changed, forced)
	}
	quiet(t, w, "twice: "+what)
}

func TestWatcher(t *testing.T) {
	f := newFile(t, "one")
	w := newWatcher(f.name)
	quiet(t, w, "of a file that did not change")

	f.write(f.name, "other text")
	once(t, w, "written in place")
	f.write(f.name, "OTHER TEXT")
	once(t, w, "written in place, as long as before")
	f.tick(f.name)
	once(t, w, "touched")

	// The same length and the same time, but another file.
	next := f.sibling("next")
	f.check(os.WriteFile(next, []byte("Other Text"), 0o600))
	f.check(os.Chtimes(next, f.at, f.at))
	f.check(os.Rename(next, f.name))
	once(t, w, "renamed over")

	// An older file is a change, too: so is going back to the last version.
	f.write(next, "older text")
	f.check(os.Chtimes(next, f.at.Add(-time.Hour), f.at.Add(-time.Hour)))
	f.check(os.Rename(next, f.name))
	once(t, w, "renamed over, older")
}

func TestWatcherFollowsSymbolicLinks(t *testing.T) {
	f := newFile(t, "one")
	one, two := f.sibling("one"), f.sibling("two")
	f.check(os.Rename(f.name, one))
	f.write(two, "two")
	swap := func(target, name string) {
		t.Helper()
		f.check(os.Symlink(target, name+".new"))
		f.check(os.Rename(name+".new", name))
	}
	swap("one", f.name)
	w := newWatcher(f.name)
	swap("two", f.name)
	once(t, w, "link to another file")
	f.write(two, "two again")
	once(t, w, "written behind the link")
	f.write(one, "one again")
	quiet(t, w, "of a file that nothing links to")

	// As Kubernetes mounts a ConfigMap: the directory is what is swapped.
	for _, version := range []string{"v1", "v2"} {
		f.check(os.Mkdir(f.sibling(version), 0o700))
		f.write(filepath.Join(f.sibling(version), "lb.yaml"), version)
	}
	swap("v1", f.sibling("data"))
	swap(filepath.Join("data", "lb.yaml"), f.name)
	once(t, w, "link through a directory")
	swap("v2", f.sibling("data"))
	once(t, w, "directory behind the link swapped")
}

// A file that is not all there is not looked at.
func TestWatcherWaitsForAWholeFile(t *testing.T) {
	f := newFile(t, "one")
	w := newWatcher(f.name)

	f.write(f.name, "")
	quiet(t, w, "of an empty file")
	f.write(f.name, "two")
	once(t, w, "filled again")

	f.check(os.Remove(f.name))
	quiet(t, w, "of a missing file")
	f.write(f.name, "three")
	once(t, w, "made anew")

	f.check(os.Remove(f.name))
	quiet(t, w, "of a missing file")
	f.check(os.Symlink("nowhere", f.name))
	quiet(t, w, "of a link to nothing")
	f.check(os.Remove(f.name))
	f.check(os.Mkdir(f.name, 0o700))
	f.check(os.Remove(f.name))
	f.write(f.name, "four")
	once(t, w, "made anew")

	// While it goes on changing, it is left alone.
	for range 5 {
		f.write(f.name, "five")
		if changed(w) {
			t.Fatal("a change was reported while the file went on changing")
		}
	}
	if !changed(w) {
		t.Error("five: not reported once it held still")
	}
}

// A program that writes in pieces may pause for any time between two of them;
// what tells that it has not finished is that it has the file open.
func TestWatcherWaitsForTheWriter(t *testing.T) {
	f := newFile(t, "one")
	w := newWatcher(f.name)
	out, err := os.OpenFile(f.name, os.O_WRONLY|os.O_TRUNC, 0)
	f.check(err)
	defer out.Close()
	if !beingWritten(f.name) {
		t.Skip("this system or file system does not tell who has a file open (no leases)")
	}
	for _, piece := range []string{"listeners: []\n", "pools: ", "[]\n"} {
		_, err := out.WriteString(piece)
		f.check(err)
		f.tick(f.name)
		quiet(t, w, "while the file was open for writing")
	}
	f.check(out.Close())
	if !changed(w) { // it has held still during the looks above
		t.Error("not reported once the file was closed")
	}
	quiet(t, w, "twice")

	// Readers do not count.
	in, err := os.Open(f.name)
	f.check(err)
	defer in.Close()
	f.write(f.name, "two")
	once(t, w, "written while somebody read")
}

// The question whether somebody writes holds up nobody who is about to.
func TestBeingWrittenLeavesNoLease(t *testing.T) {
	f := newFile(t, "one")
	for range 100 {
		if beingWritten(f.name) {
			t.Fatal("beingWritten = true of a file that nobody has open")
		}
		out, err := os.OpenFile(f.name, os.O_WRONLY, 0) // waits while there is a lease
		f.check(err)
		f.check(out.Close())
	}
	if beingWritten(f.sibling("missing")) {
		t.Error("beingWritten = true of a missing file")
	}
}

// SIGHUP reads the file whatever is known of it, but not while it is written.
func TestWatcherForced(t *testing.T) {
	f := newFile(t, "one")
	w := newWatcher(f.name)
	w.force()
	if changed, forced := w.look(); !changed || !forced {
		t.Error("forced, and not reported at once")
	}
	quiet(t, w, "after it was forced")
	f.write(f.name, "two")
	once(t, w, "written")

	for _, damage := range []func(){
		func() { f.write(f.name, "") },
		func() { f.check(os.Remove(f.name)) },
	} {
		damage()
		quiet(t, w, "of what is no file to read")
		w.force()
		if !changed(w) {
			t.Error("forced, and not reported: the operator wants to know what is wrong")
		}
	}

	f.write(f.name, "three")
	once(t, w, "written")
	out, err := os.OpenFile(f.name, os.O_WRONLY, 0)
	f.check(err)
	defer out.Close()
	if !beingWritten(f.name) {
		t.Skip("this system or file system does not tell who has a file open (no leases)")
	}
	w.force()
	quiet(t, w, "while the file was open for writing")
	f.check(out.Close())
	if changed, forced := w.look(); !changed || !forced {
		t.Error("forced, and not reported once the file was closed")
	}
}

// A file that holds what is in force makes no new plan, unless the last try
// failed: then it mends that.
func TestUnchanged(t *testing.T) {
	f := newFile(t, "one")
	n := &Node{cfg: Config{File: f.name}, document: &config.Document{Source: []byte("one")}}
	if !n.unchanged() {
		t.Error("unchanged() = false of the same text")
	}
	n.status.Error = "lb.yaml:1:1: wrong"
	if n.unchanged() {
		t.Error("unchanged() = true although the last try failed")
	}
	n.status.Error = ""
	f.write(f.name, "two")
	if n.unchanged() {
		t.Error("unchanged() = true of another text")
	}
	f.check(os.Remove(f.name))
	if n.unchanged() {
		t.Error("unchanged() = true of a missing file")
	}
}
