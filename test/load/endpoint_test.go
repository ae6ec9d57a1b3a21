package loadtest

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// endpointEnv makes the test binary an endpoint on the address it holds.
const endpointEnv = "FAIRLEAD_LOAD_ENDPOINT"

// endpointMain serves until the process is killed; its first line of output is
// its address.
func endpointMain(addr string) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(ln.Addr())
	// It never outlives the test, whose end closes its standard input.
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	http.Serve(ln, endpoint(ln.Addr().String()))
}

// endpointProcess is an endpoint that can be killed.
type endpointProcess struct {
	addr  string
	t     testing.TB
	cmd   *exec.Cmd
	stdin io.Closer
}

func startEndpoint(t testing.TB) *endpointProcess {
	t.Helper()
	return startEndpointOn(t, "127.0.0.1:0")
}

func startEndpointOn(t testing.TB, addr string) *endpointProcess {
	t.Helper()
	e := &endpointProcess{t: t, addr: addr}
	e.start()
	t.Cleanup(e.kill)
	return e
}

// start starts it, at the address that it had before.
func (e *endpointProcess) start() {
	e.t.Helper()
	e.cmd = exec.Command(os.Args[0])
	e.cmd.Env = append(os.Environ(), endpointEnv+"="+e.addr)
	e.cmd.Stderr = os.Stderr
	var err error
	if e.stdin, err = e.cmd.StdinPipe(); err != nil {
		e.t.Fatal(err)
	}
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		e.t.Fatal(err)
	}
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		e.t.Fatalf("endpoint on %s does not start: %v", e.addr, err)
	}
	e.addr = strings.TrimSpace(line)
}

// kill kills it with SIGKILL and waits for its end.
func (e *endpointProcess) kill() {
	e.cmd.Process.Kill()
	e.stdin.Close()
	e.cmd.Wait()
}

// serve runs an endpoint in the test's process.
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if h == nil {
		h = endpoint(ln.Addr().String())
	}
	s := &http.Server{Handler: h}
	go s.Serve(ln)
	t.Cleanup(func() { s.Close() })
	return ln.Addr().String()
}

// endpoint answers what the tests ask for. name goes into every answer.
func endpoint(name string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Endpoint", name)
		io.WriteString(w, "ok")
	})
	// /wait?for=DURATION answers late.
	mux.HandleFunc("/wait", func(w http.ResponseWriter, r *http.Request) {
		d, _ := time.ParseDuration(r.FormValue("for"))
		select {
		case <-time.After(d):
			io.WriteString(w, "ok")
		case <-r.Context().Done():
		}
	})
	// /status?code=N answers with a status.
	mux.HandleFunc("/status", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.FormValue("code"))
		w.WriteHeader(code)
	})
	// /download?size=N[&seed=S][&chunked=1] answers with N bytes of the pattern
	// that begins at S.
	mux.HandleFunc("/download", func(w http.ResponseWriter, r *http.Request) {
		size, _ := strconv.ParseInt(r.FormValue("size"), 10, 64)
		seed, _ := strconv.ParseInt(r.FormValue("seed"), 10, 64)
		if r.FormValue("chunked") == "" {
			w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		}
		io.CopyBuffer(struct{ io.Writer }{w}, &pattern{at: seed, left: size}, make([]byte, 64<<10))
	})
	// /upload answers with the length and the hash of what came.
	mux.HandleFunc("/upload", func(w http.ResponseWriter, r *http.Request) {
		d := newDigest()
		io.CopyBuffer(d, struct{ io.Reader }{r.Body}, make([]byte, 64<<10))
		io.WriteString(w, d.String())
	})
	// /echo upgrades to a protocol that sends back what comes.
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
		io.Copy(c, rw)
	})
	return mux
}

// pattern yields bytes that do not repeat within a pipe or a buffer.
type pattern struct{ at, left int64 }

var patternBlock = func() []byte {
	b := make([]byte, 1<<20+7)
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}()

func (p *pattern) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(int64(len(b)), p.left)], patternBlock[p.at%int64(len(patternBlock)):])
	p.at += int64(n)
	p.left -= int64(n)
	return n, nil
}

// digest counts and hashes what is written to it.
type digest struct {
	n int64
	h hash.Hash
}

func newDigest() *digest { return &digest{h: sha256.New()} }

func (d *digest) Write(b []byte) (int, error) {
	d.n += int64(len(b))
	return d.h.Write(b)
}

func (d *digest) String() string { return fmt.Sprint(d.n, " ", hex.EncodeToString(d.h.Sum(nil))) }

// digestOf returns the digest of a pattern.
func digestOf(size int64) string { return digestFrom(0, size) }

// digestFrom returns the digest of a pattern that begins at seed.
func digestFrom(seed, size int64) string {
	d := newDigest()
	io.CopyBuffer(d, struct{ io.Reader }{&pattern{at: seed, left: size}}, make([]byte, 64<<10))
	return d.String()
}

var errStatus = errors.New("unexpected status")
