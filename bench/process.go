//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a server that runs pinned to some cores, with all its children.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string // where its output goes
	done chan struct{}
}

// startPinned starts a command on a list of cores. taskset replaces itself by
// the command, so the process id is the server's own.
func startPinned(cpus, log string, env []string, name string, args ...string) (*process, error) {
	// A group of its own, so that its workers can be ended with it and Ctrl-C
	// does not reach it before its measurement is given up.
	return start(&syscall.SysProcAttr{Setpgid: true}, cpus, log, env, name, args...)
}

// startApart is startPinned with a session in place of a group, which the
// kernel's scheduler may treat as a whole.
func startApart(cpus, log, name string, args ...string) (*process, error) {
	return start(&syscall.SysProcAttr{Setsid: true}, cpus, log, nil, name, args...)
}

func start(attr *syscall.SysProcAttr, cpus, log string, env []string, name string, args ...string) (*process, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the child has its own copy
	cmd := exec.Command("taskset", append([]string{"-c", cpus, name}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = out, out
	attr.Pdeathsig = syscall.SIGTERM
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{name: filepath.Base(name), cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(p.done)
	}()
	return p, nil
}

// stop ends the server and all its workers, and waits until it is gone.
func (p *process) stop() {
	group := -p.cmd.Process.Pid
	_ = syscall.Kill(group, syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(2 * time.Second): // draining is not what is measured
	}
	_ = syscall.Kill(group, syscall.SIGKILL)
	<-p.done
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// startWithin bounds how long a server may take until it answers.
const startWithin = 15 * time.Second

// await polls until ready returns nil; it gives up when the server ends first.
func (p *process) await(ctx context.Context, within time.Duration, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("%s ended before it was ready:\n%s", p.name, p.tail())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w; its output:\n%s", p.name, err, p.tail())
		}
	}
}

// tail returns the end of what the server printed.
func (p *process) tail() string {
	out, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	const most = 4096
	if len(out) > most {
		out = out[len(out)-most:]
	}
	return strings.TrimSpace(string(out))
}

// ids returns the process and all its descendants.
func (p *process) ids() []int {
	ids := []int{p.cmd.Process.Pid}
	for i := 0; i < len(ids); i++ {
		pattern := fmt.Sprintf("/proc/%d/task/*/children", ids[i])
		lists, _ := filepath.Glob(pattern) // the pattern is well formed
		for _, list := range lists {
			text, err := os.ReadFile(list)
			if err != nil {
				continue // a thread that ended meanwhile
			}
			for child := range strings.FieldsSeq(string(text)) {
				if id, err := strconv.Atoi(child); err == nil {
					ids = append(ids, id)
				}
			}
		}
	}
	return ids
}

// userHZ is the unit of the times in /proc/PID/stat: Linux has presented them
// in hundredths of a second on every architecture that Go runs on.
const userHZ = 100

// cpu returns the CPU time that the server and its workers have used so far.
func (p *process) cpu() (time.Duration, error) {
	var total time.Duration
	for _, id := range p.ids() {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
		if err != nil {
			return 0, err
		}
		used, err := parseStat(stat)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/stat: %w", id, err)
		}
		total += used
	}
	return total, nil
}

// parseStat returns utime + stime of a line of /proc/PID/stat.
func parseStat(stat []byte) (time.Duration, error) {
	// The second field is a name in parentheses that may itself contain blanks
	// and parentheses, so counting starts after the last one.
	end := bytes.LastIndexByte(stat, ')')
	fields := strings.Fields(string(stat[end+1:]))
	if end < 0 || len(fields) < 13 {
		return 0, fmt.Errorf("%q: want a name in parentheses and at least 13 fields", stat)
	}
	var ticks int64
	for _, field := range fields[11:13] { // utime, stime: fields 14 and 15 of the line
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / userHZ, nil
}

// pss returns the proportional set size of the server and its workers in bytes:
// memory that they share is counted once.
func (p *process) pss() (int64, error) {
	var total int64
	for _, id := range p.ids() {
		rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", id))
		if err != nil {
			return 0, err
		}
		size, err := parsePSS(rollup)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/smaps_rollup: %w", id, err)
		}
		total += size
	}
	return total, nil
}

func parsePSS(rollup []byte) (int64, error) {
	for line := range strings.Lines(string(rollup)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no line that begins with Pss: in %d bytes", len(rollup))
}

// rss returns the resident set size of the server and its workers in bytes.
// Unlike pss it does not make the kernel walk through their memory, which would
// hold up a server that takes some meanwhile; what they share counts for each.
func (p *process) rss() (int64, error) {
	var total int64
	for _, id := range p.ids() {
		statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", id))
		if err != nil {
			return 0, err
		}
		pages, err := parseStatm(statm)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/statm: %w", id, err)
		}
		total += pages * int64(os.Getpagesize())
	}
	return total, nil
}

// parseStatm returns the resident pages of a line of /proc/PID/statm.
func parseStatm(statm []byte) (int64, error) {
	fields := strings.Fields(string(statm))
	if len(fields) < 2 {
		return 0, fmt.Errorf("%q: want at least 2 fields", statm)
	}
	return strconv.ParseInt(fields[1], 10, 64)
}

// sockets returns how many sockets the server and its workers have open.
func (p *process) sockets() (int, error) {
	n := 0
	for _, id := range p.ids() {
		dir := fmt.Sprintf("/proc/%d/fd", id)
		list, err := os.ReadDir(dir)
		if err != nil {
			return 0, err
		}
		for _, fd := range list {
			// One that was closed meanwhile is not open.
			if to, _ := os.Readlink(filepath.Join(dir, fd.Name())); strings.HasPrefix(to, "socket:") {
				n++
			}
		}
	}
	return n, nil
}

// freePorts returns n TCP ports of the loopback address that nobody uses now.
func freePorts(n int) ([]int, error) {
	var ports []int
	var listeners []net.Listener // all are held until the last is chosen, so that none comes twice
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
	}()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
