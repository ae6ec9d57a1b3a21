package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"time"
)

// How a log buffers. A line waits at most flushEvery, or until
// flushAt bytes have gathered; lines that come while bufferBytes wait for the
// writer are dropped.
const (
	flushEvery  = 100 * time.Millisecond
	flushAt     = 64 << 10
	bufferBytes = 4 << 20
)

// closeWithin bounds how long close waits for an output that takes nothing.
const closeWithin = 5 * time.Second

// lineLog writes lines to an output without ever making who logs wait for it.
type lineLog struct {
	name   string // of the log, for messages
	path   string // "" for standard output
	sample float64
	log    *slog.Logger

	wake chan struct{} // the buffer has reached flushAt, or there is a file to change to
	stop chan struct{}
	done chan struct{}

	mu     sync.Mutex
	buf    []byte
	lines  uint64 // in buf
	next   io.WriteCloser
	closed bool

	// Of the writer goroutine alone.
	out    io.WriteCloser
	spare  []byte
	torn   bool      // the last write stopped within a line
	logged time.Time // when a failure was last logged
	unsaid uint64    // failures since then

	written, dropped, lost, failures Counter
}

// openLineLog opens a log: output is "stdout" or the name of a file, which is
// appended to or made with mode 0640; sample is the share of lines that are
// written, above 0 to 1. Failures to write are logged to log.
func openLineLog(name, output string, sample float64, log *slog.Logger) (*lineLog, error) {
	if !(sample > 0 && sample <= 1) {
		return nil, fmt.Errorf("%s: sample %v: want above 0 to 1", name, sample)
	}
	if output == "" {
		return nil, fmt.Errorf(`%s: no output: want "stdout" or the name of a file`, name)
	}
	path, open := output, openLogFile
	if output == "stdout" {
		path, open = "", openStdout
	}
	f, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return startLineLog(name, path, f, sample, log), nil
}

// openLogFile opens a file to append to. O_NONBLOCK makes a named pipe that
// nobody reads an error instead of a start that hangs.
func openLogFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o640)
}

// openStdout opens standard output under a descriptor of its own. A reader
// that goes away is then a failed write like any other: a broken pipe at
// descriptor 1 would end the process.
func openStdout(string) (*os.File, error) {
	fd, err := syscall.Dup(syscall.Stdout)
	if err != nil {
		return nil, fmt.Errorf("standard output: %w", err)
	}
	syscall.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "stdout"), nil
}

func startLineLog(name, path string, out io.WriteCloser, sample float64, log *slog.Logger) *lineLog {
	l := &lineLog{
		name: name, path: path, sample: sample, log: log,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		buf: make([]byte, 0, 2*flushAt), spare: make([]byte, 0, 2*flushAt), out: out,
	}
	go l.run()
	return l
}

// sampled reports whether a line is one of those that sampling leaves.
func (l *lineLog) sampled() bool { return l.sample >= 1 || rand.Float64() < l.sample }

// add adds the line that encode appends. It never waits for the output: a line
// that finds the buffer full is dropped and counted.
func (l *lineLog) add(encode func(b []byte) []byte) {
	l.mu.Lock()
	if l.closed || len(l.buf) >= bufferBytes {
		l.mu.Unlock()
		l.dropped.Inc()
		return
	}
	before := len(l.buf)
	l.buf = encode(l.buf)
	l.lines++
	full := before < flushAt && len(l.buf) >= flushAt
	l.mu.Unlock()
	if full {
		l.notify()
	}
}

// notify wakes the writer, which does not need to hear it twice.
func (l *lineLog) notify() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// reopen opens the file by its name again, after it was renamed to be kept.
// Lines that wait in the buffer go to the new file. On an error the old file
// stays in use.
func (l *lineLog) reopen() error {
	if l.path == "" {
		return nil
	}
	f, err := openLogFile(l.path)
	if err != nil {
		return fmt.Errorf("%s: the old file stays in use: %w", l.name, err)
	}
	l.mu.Lock()
	unused := l.next
	l.next = f
	if l.closed {
		unused, l.next = f, nil
	}
	l.mu.Unlock()
	if unused != nil {
		unused.Close()
	}
	l.notify()
	return nil
}

// close writes what is buffered and closes the file. Later lines are dropped.
func (l *lineLog) close() error {
	l.mu.Lock()
	first := !l.closed
	l.closed = true
	l.mu.Unlock()
	if first {
		close(l.stop)
	}
	timeout := time.NewTimer(closeWithin)
	defer timeout.Stop()
	select {
	case <-l.done:
		return nil
	case <-timeout.C:
		return fmt.Errorf("%s: the output took nothing for %v; its last lines are lost", l.name, closeWithin)
	}
}

// run writes the buffer until the log is closed. It alone touches the output.
func (l *lineLog) run() {
	defer close(l.done)
	defer func() { l.out.Close() }()
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-l.wake:
		case <-l.stop:
			l.flush()
			return
		}
		l.flush()
	}
}

// flush changes to a reopened file if there is one, and writes the buffer.
func (l *lineLog) flush() {
	l.mu.Lock()
	batch, lines, next := l.buf, l.lines, l.next
	l.buf, l.lines, l.next = l.spare[:0], 0, nil
	l.mu.Unlock()
	l.spare = batch
	if next != nil {
		l.out.Close()
		l.out, l.torn = next, false
	}
	if len(batch) > 0 {
		l.write(batch, lines)
	}
}

// write writes a batch of whole lines. After a write that stopped within a
// line the next one begins with a line break, so that only that one line is
// spoilt.
func (l *lineLog) write(batch []byte, lines uint64) {
	if l.torn {
		if _, err := l.out.Write([]byte{'\n'}); err != nil {
			l.failed(err, lines)
			return
		}
		l.torn = false
	}
	n, err := l.out.Write(batch)
	if err == nil {
		l.written.Add(lines)
		return
	}
	whole := uint64(0)
	for _, c := range batch[:n] {
		if c == '\n' {
			whole++
		}
	}
	l.written.Add(whole)
	l.torn = n > 0 && batch[n-1] != '\n'
	l.failed(err, lines-whole)
}

// failed counts a failed write and logs it, at most once a minute.
func (l *lineLog) failed(err error, lines uint64) {
	l.failures.Inc()
	l.lost.Add(lines)
	l.unsaid++
	now := time.Now()
	if !l.logged.IsZero() && now.Sub(l.logged) < time.Minute {
		return
	}
	l.log.Error(l.name+" cannot be written", "error", err, "failures", l.unsaid, "lines_lost_in_total", l.lost.Load())
	l.logged, l.unsaid = now, 0
}

// lineStats are the counts of a log since it was opened.
type lineStats struct {
	Written  uint64 // lines that the output took
	Dropped  uint64 // lines that found the buffer full, or the log closed
	Lost     uint64 // lines that could not be written
	Failures uint64 // writes that failed
}

func (l *lineLog) stats() lineStats {
	return lineStats{l.written.Load(), l.dropped.Load(), l.lost.Load(), l.failures.Load()}
}

// collect emits the counts: lines by result, and failures.
func (l *lineLog) collect(e *Emitter, lines, failures *Desc) {
	s := l.stats()
	e.Counter(lines, s.Written, "written")
	e.Counter(lines, s.Dropped, "dropped")
	e.Counter(lines, s.Lost, "failed")
	e.Counter(failures, s.Failures)
}
