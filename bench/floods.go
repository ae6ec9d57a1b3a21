//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// flooded is one target beside one attack, or at rest.
type flooded struct {
	felt    felt
	dealt   dealt         // by the attackers; nothing, at rest
	cpu     time.Duration // used by the proxy
	elapsed time.Duration // in which it was used
	memory  int64         // resident set size when the normal clients were done, bytes
}

func (f flooded) busy() float64   { return f.cpu.Seconds() / f.elapsed.Seconds() }
func (f flooded) mib() float64    { return float64(f.memory) / (1 << 20) }
func (f flooded) failed() float64 { return float64(f.felt.Failed) }

func (f flooded) String() string {
	text := fmt.Sprintf("p50 %5.0f us  p99 %6.0f us  max %7.0f us  attackers: %5.0f connections/s, %8.0f frames/s  busy %3.0f %%  %5.1f MiB",
		f.felt.P50, f.felt.P99, f.felt.Max, f.dealt.connections(), f.dealt.frames(), 100*f.busy(), f.mib())
	if f.felt.Failed > 0 {
		text += fmt.Sprintf("  failed: %d of %d requests, the last: %s", f.felt.Failed, f.felt.Failed+f.felt.Requests, f.felt.Last)
	}
	return text
}

const (
	attackers = 8
	// atRest is in the place of an attack's name where there is none.
	atRest = "at rest"
	// headStart is how long attackers are at work before the normal clients come.
	headStart = 500 * time.Millisecond
)

// floodNames are what a target is measured beside, in this order.
func floodNames() []string {
	names := []string{atRest}
	for _, a := range attacks {
		names = append(names, a.name)
	}
	return names
}

// measureFloods measures what normal clients feel of a target at rest and then
// beside each attack. One process of the target goes through all of them: the
// memory that it does not give back shows from then on.
func (b *bench) measureFloods(ctx context.Context, s scenario, p *process, addr string) (sample, error) {
	// Clients and endpoints go before the attackers on the core that they share,
	// or their waiting for it would look like the target's.
	var ahead []string
	if err := realTime(b.back.ids(), true); err == nil {
		ahead = []string{"chrt", "--rr", "1"}
	} else {
		b.warn("no real-time priority: attackers hold up the clients and the endpoints themselves", err)
	}
	defer func() {
		if err := realTime(b.back.ids(), false); err != nil {
			b.warn("the endpoints keep their real-time priority", err)
		}
	}()

	if _, err := b.normal(ctx, s, ahead, addr, b.warmUp); err != nil {
		return sample{}, fmt.Errorf("warm-up: %w", err)
	}
	var got sample
	for _, name := range floodNames() {
		f, err := b.beside(ctx, s, p, ahead, addr, name)
		if p.ended() {
			return got, fmt.Errorf("it ended beside %s:\n%s", name, p.tail())
		}
		if err != nil {
			return got, fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(os.Stderr, "%16s  %s\n", name, f)
		got.floods = append(got.floods, f)
	}
	return got, nil
}

// beside measures a target beside the attack of a name.
func (b *bench) beside(ctx context.Context, s scenario, p *process, ahead []string, addr, name string) (flooded, error) {
	var got flooded
	stop := func() (dealt, error) { return dealt{}, nil }
	if name != atRest {
		var err error
		if stop, err = b.startAttack(filepath.Dir(p.log), addr, name); err != nil {
			return got, err
		}
		select {
		case <-time.After(headStart):
		case <-ctx.Done():
		}
	}
	err := func() error {
		began := time.Now()
		before, err := p.cpu()
		if err != nil {
			return err
		}
		if got.felt, err = b.normal(ctx, s, ahead, addr, time.Duration(b.seconds)*time.Second); err != nil {
			return err
		}
		after, err := p.cpu()
		if err != nil {
			return err
		}
		got.cpu, got.elapsed = after-before, time.Since(began)
		// While the normal clients are there, reading it could hold them up.
		got.memory, err = p.rss()
		return err
	}()
	var stopErr error
	got.dealt, stopErr = stop()
	if err := errors.Join(err, stopErr); err != nil {
		return got, err
	}
	if got.cpu <= 0 {
		return got, errors.New("it used no CPU time: its processes were not found")
	}
	return got, nil
}

// normal runs the scenario's normal clients, behind a command that puts them
// ahead of attackers, and returns what they felt.
func (b *bench) normal(ctx context.Context, s scenario, ahead []string, addr string, lasts time.Duration) (felt, error) {
	command := slices.Concat(ahead, []string{b.self, normalCommand, "-url", "https://" + addr + s.path,
		"-bytes", strconv.FormatInt(s.bytes, 10), "-clients", strconv.Itoa(s.connections), "-for", lasts.String()})
	out, err := b.generator(ctx, int(lasts/time.Second), nil, command[0], command[1:]...)
	if err != nil {
		return felt{}, err
	}
	var got felt
	if err := lastLine(out, &got); err != nil {
		return felt{}, fmt.Errorf("normal clients: %w", err)
	}
	return got, nil
}

// startAttack starts attackers. What it returns ends them and tells what they
// have dealt.
func (b *bench) startAttack(dir, addr, name string) (stop func() (dealt, error), err error) {
	// They end when they are told to; the limit is for when nobody does.
	longest := time.Duration(b.seconds)*time.Second + time.Minute
	p, err := startApart(b.loadCPUs(), filepath.Join(dir, attackCommand+"-"+name), "nice", "-n", "19", b.self,
		attackCommand, "-addr", addr, "-name", name, "-attackers", strconv.Itoa(attackers), "-longest", longest.String())
	if err != nil {
		return nil, err
	}
	// Where the kernel groups processes by session, niceness counts only within
	// a session, and the group has one of its own.
	err = os.WriteFile(fmt.Sprintf("/proc/%d/autogroup", p.cmd.Process.Pid), []byte("19"), 0)
	if err != nil && !os.IsNotExist(err) {
		b.warn("attackers take as much of their core as the clients", err)
	}
	return func() (dealt, error) {
		p.stop()
		var got dealt
		err := lastLine(p.tail(), &got)
		if err != nil {
			err = fmt.Errorf("attackers: %w", err)
		}
		return got, err
	}, nil
}

// lastLine reads the JSON that one of our own processes prints at its end.
func lastLine(out string, into any) error {
	out = strings.TrimSpace(out)
	if err := json.Unmarshal([]byte(out[strings.LastIndexByte(out, '\n')+1:]), into); err != nil {
		return fmt.Errorf("no figures in its output: %w\n%s", err, out)
	}
	return nil
}

// realTime puts processes before all others on their cores, or back among them.
func realTime(ids []int, on bool) error {
	args := []string{"--other", "--pid", "0"}
	if on {
		args = []string{"--rr", "--pid", "1"}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, id := range ids {
		out, err := exec.CommandContext(ctx, "chrt", append(args, strconv.Itoa(id))...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("chrt: %w: %s", err, out)
		}
	}
	return nil
}

// warn says on standard error, once, what makes figures worse than they could be.
func (b *bench) warn(what string, err error) {
	if !slices.Contains(b.warned, what) {
		b.warned = append(b.warned, what)
		fmt.Fprintf(os.Stderr, "bench: %s: %v\n", what, err)
	}
}
