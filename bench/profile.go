//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// profileLines is how many symbols a profile shows.
const profileLines = 25

// profileLoad puts the scenario's load on a target once more, uncounted, and
// writes where the target spends its time into the directory of profiles.
func (b *bench) profileLoad(ctx context.Context, s scenario, p *process, addr, name string) error {
	file := filepath.Join(b.profile, s.name+"-"+name)
	var ids []string
	for _, id := range p.ids() {
		ids = append(ids, strconv.Itoa(id))
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(b.seconds)*time.Second+30*time.Second)
	defer cancel()
	// The record is as long as the load, and begins with it.
	record := exec.CommandContext(ctx, "perf", "record", "-q", "-F", "499", "-o", file+".data", "-p", strings.Join(ids, ","),
		"--", "sleep", strconv.Itoa(b.seconds))
	record.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out bytes.Buffer
	record.Stdout, record.Stderr = &out, &out
	if err := record.Start(); err != nil {
		return err
	}
	_, err := b.generate(ctx, s, addr, b.seconds, nil)
	if waitErr := record.Wait(); waitErr != nil {
		return errors.Join(err, fmt.Errorf("perf record: %w\n%s", waitErr, out.Bytes()))
	}
	if err != nil {
		return err
	}
	report, err := exec.CommandContext(ctx, "perf", "report", "--stdio", "-F", "overhead,symbol", "-i", file+".data").Output()
	if err != nil {
		return fmt.Errorf("perf report: %w", err)
	}
	return os.WriteFile(file+".txt", []byte(topSymbols(string(report), profileLines)), 0o644)
}

// topSymbols returns the first n lines of a report that are neither blank nor a
// comment.
func topSymbols(report string, n int) string {
	var top strings.Builder
	for line := range strings.Lines(report) {
		line = strings.TrimSpace(line)
		if n == 0 {
			break
		}
		if line == "" || line[0] == '#' {
			continue
		}
		fmt.Fprintln(&top, line)
		n--
	}
	return top.String()
}
