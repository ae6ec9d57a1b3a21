//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// felt is what normal clients notice of a target.
type felt struct {
	Requests int64   `json:"requests"` // timed: answered as they should be
	Failed   int64   `json:"failed"`
	Last     string  `json:"last_failure"`
	P50      float64 `json:"p50_us"`
	P99      float64 `json:"p99_us"`
	Max      float64 `json:"max_us"`
}

const (
	// normalPause is between the requests of a normal client, which so are no
	// load to speak of.
	normalPause = 10 * time.Millisecond
	// normalPatience bounds a request.
	normalPatience = 10 * time.Second
)

// normalCommand makes the benchmark a process of normal clients, each with a
// connection of its own for HTTP/2 over TLS, which prints what they felt.
const normalCommand = "normal"

func runNormal(args []string) error {
	f := flag.NewFlagSet(normalCommand, flag.ContinueOnError)
	url := f.String("url", "", "what to ask for")
	bytes := f.Int64("bytes", 0, "length of the answer")
	clients := f.Int("clients", 0, "how many")
	lasts := f.Duration("for", 0, "how long")
	if err := f.Parse(args); err != nil {
		return err
	}
	var mu sync.Mutex
	var times []int32
	var failed int64
	var last string
	var all sync.WaitGroup
	end := time.Now().Add(*lasts)
	for i := range *clients {
		all.Go(func() {
			time.Sleep(normalPause * time.Duration(i) / time.Duration(*clients)) // they are not in step
			mine, bad, err := normalClient(*url, *bytes, end)
			mu.Lock()
			defer mu.Unlock()
			times = append(times, mine...)
			failed += bad
			if err != nil {
				last = err.Error()
			}
		})
	}
	all.Wait()
	got := summary(times)
	got.Failed, got.Last = failed, last
	return json.NewEncoder(os.Stdout).Encode(got)
}

// normalClient makes one request after the other until the end. It returns how
// many microseconds those took that were answered, how many were not, and why
// the last of them was not.
func normalClient(url string, bytes int64, end time.Time) (times []int32, failed int64, last error) {
	client := newNormalClient()
	defer client.CloseIdleConnections()
	for i := 0; time.Now().Before(end); i++ {
		asked := time.Now()
		err := normalRequest(client, url, bytes)
		took := time.Since(asked)
		switch {
		case err != nil:
			failed++
			last = err
		case i > 0: // the first waits for the connection to be made
			times = append(times, int32(took.Microseconds()))
		}
		time.Sleep(normalPause)
	}
	return times, failed, last
}

// newNormalClient has a connection of its own, over which it speaks HTTP/2 or
// nothing.
func newNormalClient() *http.Client {
	only := new(http.Protocols)
	only.SetHTTP2(true)
	transport := &http.Transport{TLSClientConfig: h2Client.Clone(), Protocols: only}
	return &http.Client{Transport: transport, Timeout: normalPatience}
}

func normalRequest(client *http.Client, url string, bytes int64) error {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Host = host
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	switch {
	case err != nil:
		return err
	case resp.ProtoMajor != 2:
		return errors.New("HTTP/2 was not agreed on")
	case resp.StatusCode != http.StatusOK || n != bytes:
		return fmt.Errorf("GET %s: status %d with %d bytes, want 200 with %d", url, resp.StatusCode, n, bytes)
	}
	return nil
}

// summary sorts the times.
func summary(times []int32) felt {
	got := felt{Requests: int64(len(times))}
	if len(times) > 0 {
		got.P50, got.P99, got.Max = percentile(times, 50), percentile(times, 99), percentile(times, 100)
	}
	return got
}
