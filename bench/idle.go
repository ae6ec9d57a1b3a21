//go:build linux

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// idle is what a target needs for connections that wait.
type idle struct {
	held          int   // connections
	before, after int64 // proportional set size without and with them, bytes
	inUse         int64 // what the heap and the stacks of a Go program grew by
}

func (i idle) each() float64      { return float64(i.after-i.before) / float64(max(i.held, 1)) }
func (i idle) eachInUse() float64 { return float64(i.inUse) / float64(max(i.held, 1)) }

func (i idle) String() string {
	text := fmt.Sprintf("%d connections  %5.0f bytes each  (%.1f to %.1f MiB)",
		i.held, i.each(), float64(i.before)/(1<<20), float64(i.after)/(1<<20))
	if i.inUse > 0 {
		text += fmt.Sprintf("  heap and stacks in use %5.0f each", i.eachInUse())
	}
	return text
}

const (
	// One process holds so many, over one address of the loopback: it has a
	// limit of descriptors, the address one of ports, and a target may have one
	// of connections from one address (Fairlead: 4096).
	mostHeld = 3000
	// holdWithin bounds how long all of them may take to connect.
	holdWithin = 2 * time.Minute
)

// measureIdle measures what a target's memory grows by when it has so many
// connections that have made one request each.
func (b *bench) measureIdle(ctx context.Context, s scenario, p *process, t target, addr string) (sample, error) {
	before, err := b.memoryNow(p, t)
	if err != nil {
		return sample{}, err
	}
	for n := 0; n < s.connections; n += mostHeld {
		source := fmt.Sprintf("127.0.1.%d", n/mostHeld+1)
		holder, err := startPinned(b.loadCPUs(), filepath.Join(filepath.Dir(p.log), "holder-"+source), nil, b.self,
			holdCommand, "-addr", addr, "-source", source, "-path", s.path,
			"-connections", strconv.Itoa(min(mostHeld, s.connections-n)), "-tls="+strconv.FormatBool(s.tls))
		if err != nil {
			return sample{}, err
		}
		defer holder.stop()
		if err := holder.await(ctx, holdWithin, func() error {
			if holder.tail() != holding {
				return fmt.Errorf("it does not print %q", holding)
			}
			return nil
		}); err != nil {
			return sample{}, err
		}
	}
	// What was needed for connecting is given back in this time, or not at all.
	select {
	case <-time.After(time.Duration(b.seconds) * time.Second):
	case <-ctx.Done():
		return sample{}, ctx.Err()
	}
	after, err := b.memoryNow(p, t)
	if err != nil {
		return sample{}, err
	}
	// A few sockets to endpoints may have been closed meanwhile.
	if open := after.sockets - before.sockets; open < s.connections*99/100 {
		return sample{}, fmt.Errorf("%d connections are open, want %d", open, s.connections)
	}
	return sample{memory: after.pss, idle: idle{
		held: s.connections, before: before.pss, after: after.pss, inUse: after.inUse - before.inUse,
	}}, nil
}

// memory is what a target has at one moment.
type memory struct {
	pss, inUse int64
	sockets    int
}

func (b *bench) memoryNow(p *process, t target) (memory, error) {
	var m memory
	var err error
	if t.admin != 0 {
		if m.inUse, err = goInUse(fmt.Sprintf("http://127.0.0.1:%d/metrics", t.admin)); err != nil {
			return m, err
		}
	}
	if m.pss, err = p.pss(); err != nil {
		return m, err
	}
	m.sockets, err = p.sockets()
	return m, err
}

// goInUse returns the bytes that the heap and the stacks of a Go program
// occupy, from its metrics. What is garbage and not collected yet is among
// them.
func goInUse(url string) (int64, error) {
	resp, err := client.Get(url)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	sum, found := 0.0, 0
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if name != "go_memstats_heap_inuse_bytes" && name != "go_memstats_stack_inuse_bytes" {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %q: %w", url, lines.Text(), err)
		}
		sum += v
		found++
	}
	if err := lines.Err(); err != nil || found != 2 {
		return 0, fmt.Errorf("%s: %d of 2 figures found: %w", url, found, err)
	}
	return int64(sum), nil
}

// holdCommand makes the benchmark a holder: a process that opens connections,
// makes a request over each, says so, and keeps them open until it is ended.
const holdCommand = "hold"

// holding is what a holder prints then.
const holding = "holding"

func hold(args []string) error {
	f := flag.NewFlagSet(holdCommand, flag.ContinueOnError)
	addr := f.String("addr", "", "`address` to connect to")
	source := f.String("source", "", "`address` to connect from")
	path := f.String("path", "", "what to ask for")
	connections := f.Int("connections", 0, "how many")
	secure := f.Bool("tls", false, "use TLS")
	if err := f.Parse(args); err != nil {
		return err
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM)
	dialer := net.Dialer{Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(*source)}}
	// The certificate is the benchmark's own, for a name that nothing resolves.
	config := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}
	held := make([]net.Conn, 0, *connections) // keeps them from being closed as garbage
	for range *connections {
		c, err := dialer.Dial("tcp", *addr)
		if err != nil {
			return err
		}
		if *secure {
			c = tls.Client(c, config)
		}
		if err := ask(c, *path); err != nil {
			return fmt.Errorf("connection %d: %w", len(held)+1, err)
		}
		held = append(held, c)
	}
	fmt.Println(holding)
	<-end
	for _, c := range held {
		_ = c.Close()
	}
	return nil
}

// ask makes one request and reads the whole answer.
func ask(c net.Conn, path string) error {
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil) //nolint:bodyclose // it is read to its end, and the connection kept
	if err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return c.SetDeadline(time.Time{})
}
