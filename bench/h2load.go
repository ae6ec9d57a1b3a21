//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// h2load puts HTTP/2 on a target. It prints no percentiles, so that they come
// from its log of every request.
func (b *bench) h2load(ctx context.Context, s scenario, url string, seconds int, midway func()) (load, error) {
	log := filepath.Join(b.dir, "h2load.log")
	if err := os.RemoveAll(log); err != nil { // it appends
		return load{}, err
	}
	out, err := b.generator(ctx, seconds, midway,
		"h2load", "-t"+strconv.Itoa(b.cores), "-c"+strconv.Itoa(s.connections), "-m"+strconv.Itoa(s.streams), "-D"+strconv.Itoa(seconds),
		"--npn-list=h2", "--log-file="+log, "-H", ":authority: "+host, url)
	if err != nil {
		return load{}, err
	}
	got, err := parseH2load(out, seconds)
	if err != nil {
		return load{}, err
	}
	f, err := os.Open(log)
	if err != nil {
		return load{}, err
	}
	defer f.Close()
	times, err := parseH2loadLog(f)
	if err != nil {
		return load{}, fmt.Errorf("%s: %w", log, err)
	}
	got.P50, got.P99 = percentile(times, 50), percentile(times, 99)
	return got, nil
}

var (
	h2loadRequests = regexp.MustCompile(`(?m)^requests: .* (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout$`)
	h2loadTraffic  = regexp.MustCompile(`(?m)^traffic: .* \((\d+)\) data$`)
)

// parseH2load reads the figures that h2load prints about a run of some seconds.
func parseH2load(out string, seconds int) (load, error) {
	// It goes on in HTTP/1.1 where that is all that is spoken.
	if !strings.Contains(out, "\nApplication protocol: h2\n") {
		return load{}, fmt.Errorf("h2load: HTTP/2 was not agreed on:\n%s", out)
	}
	requests, traffic := h2loadRequests.FindStringSubmatch(out), h2loadTraffic.FindStringSubmatch(out)
	if requests == nil || traffic == nil {
		return load{}, fmt.Errorf("h2load: no figures in its output:\n%s", out)
	}
	var n [5]int64
	for i, text := range append(requests[1:], traffic[1]) {
		var err error
		if n[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return load{}, fmt.Errorf("h2load: %w", err)
		}
	}
	// Those that timed out are counted among the errored too, and these among
	// the failed; a failed one may also be an answer of 400 and above.
	return load{Requests: n[0], Status: max(n[1], n[2], n[3]), Bytes: n[4], Micros: int64(seconds) * 1e6}, nil
}

// parseH2loadLog returns the times of all requests in a log: lines of the start,
// the status and the duration in microseconds.
func parseH2loadLog(r io.Reader) ([]int32, error) {
	var times []int32
	for lines := bufio.NewScanner(r); ; {
		if !lines.Scan() {
			if len(times) == 0 && lines.Err() == nil {
				return nil, errors.New("no requests")
			}
			return times, lines.Err()
		}
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) < 3 {
			return nil, fmt.Errorf("line %q: want at least 3 fields", lines.Text())
		}
		micros, err := strconv.ParseInt(fields[2], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		times = append(times, int32(micros))
	}
}

// percentile sorts the times and returns the one below which p percent of them
// are.
func percentile(times []int32, p int) float64 {
	slices.Sort(times)
	return float64(times[min(len(times)*p/100, len(times)-1)])
}
