package certs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"fairlead/internal/telemetry"
)

// maxFile bounds what is read of one file. The largest bundles of authorities
// have a third of it.
const maxFile = 1 << 20

// rereadEvery is how many polls pass between two that read every file
// whatever its times say: some ways of writing a file keep size and time.
const rereadEvery = 15

// bundle is a group of files that only make sense together, such as a
// certificate and its key, with what is known about their contents. It has
// one user at a time.
type bundle struct {
	names []string
	log   *slog.Logger
	// use takes up new contents, or returns why it cannot and changes nothing.
	use func(contents [][]byte) error

	stats   []os.FileInfo // when last read; nil where a file could not be
	polls   int
	used    [sha256.Size]byte // what is in use
	pending [sha256.Size]byte // what was last found

	// What status shows; stale and reloads can be read at any time.
	problem string // why the files are not in use; "" when they are
	stale   atomic.Bool
	reloads telemetry.Counter
}

func newBundle(log *slog.Logger, use func([][]byte) error, names ...string) *bundle {
	return &bundle{names: names, log: log, use: use, stats: make([]os.FileInfo, len(names))}
}

// load is the first load, which has nothing to fall back to.
func (b *bundle) load() error {
	contents, err := b.read()
	if err == nil {
		err = b.use(contents)
	}
	if err == nil {
		b.used = b.pending
	}
	return err
}

// poll takes up contents that differ from those in use and are the same as at
// the poll before. It reports whether anything that status shows is new.
func (b *bundle) poll(now time.Time) bool {
	b.polls++
	if b.problem == "" && b.pending == b.used && b.polls%rereadEvery != 0 && b.unchanged(now) {
		return false
	}
	before := b.pending
	contents, err := b.read()
	if err == nil && b.pending != b.used && b.pending != before {
		return false // still being written: wait until it is whole
	}
	news, _ := b.take(contents, err)
	return news
}

// reload reads all files at once, whether they look changed or not.
func (b *bundle) reload() (news bool, err error) { return b.take(b.read()) }

// take takes up what was read, and logs what is wrong with it once.
func (b *bundle) take(contents [][]byte, err error) (news bool, _ error) {
	if err == nil && b.pending != b.used {
		if err = b.use(contents); err == nil {
			b.used = b.pending
			b.reloads.Inc()
			news = true
			b.log.Info("certificate files reloaded", "files", b.names)
		}
	}
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if problem == b.problem {
		return news, err
	}
	switch {
	case err != nil:
		b.log.Error("certificate files cannot be used; what was read before stays in use", "files", b.names, "error", problem)
	case !news:
		b.log.Info("certificate files are again what is in use", "files", b.names)
	}
	b.problem = problem
	b.stale.Store(err != nil)
	return true, err
}

// read returns the contents of all files and remembers them as those last
// found. A file without a name is left out, with nil contents.
func (b *bundle) read() ([][]byte, error) {
	contents := make([][]byte, len(b.names))
	sum := sha256.New()
	for i, name := range b.names {
		b.stats[i] = nil
		if name == "" {
			continue
		}
		data, info, err := readFile(name)
		if err != nil {
			b.pending = [sha256.Size]byte{}
			return nil, err
		}
		contents[i], b.stats[i] = data, info
		fmt.Fprintf(sum, "%d\n", len(data))
		sum.Write(data)
	}
	sum.Sum(b.pending[:0])
	return contents, nil
}

// unchanged reports whether all files look as they did when they were read. A
// file modified moments ago counts as changed, since the next write may leave
// it with the same time.
func (b *bundle) unchanged(now time.Time) bool {
	for i, name := range b.names {
		if name == "" {
			continue
		}
		info, err := os.Stat(name)
		old := b.stats[i]
		if err != nil || old == nil || !os.SameFile(info, old) || info.Size() != old.Size() ||
			!info.ModTime().Equal(old.ModTime()) || now.Sub(info.ModTime()) < 2*Interval {
			return false
		}
	}
	return true
}

func readFile(name string) ([]byte, os.FileInfo, error) {
	// A named pipe would block here for ever.
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: not a regular file", name)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	var data bytes.Buffer
	if _, err := io.Copy(&data, io.LimitReader(file, maxFile+1)); err != nil {
		return nil, nil, err
	}
	if data.Len() > maxFile {
		return nil, nil, fmt.Errorf("%s: larger than %d bytes", name, maxFile)
	}
	return data.Bytes(), info, nil
}

// watch calls poll each interval until ctx is done.
func watch(ctx context.Context, interval time.Duration, poll func(now time.Time)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			poll(time.Now())
		}
	}
}
