package h2

import (
	"bytes"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"fairlead/internal/loop"
)

// rig is a driver that survives panics.
type rig struct {
	// open makes a connection, runs a task with its one end and returns the
	// other.
	open func(task func(loop.Driver, loop.Conn)) net.Conn

	mu   sync.Mutex
	told []any
}

func (r *rig) panicked(v any, _ []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, v)
}

// rigs run a test on each engine, and see that nothing is left behind.
var rigs = map[string]func(*testing.T, func(*testing.T, *rig)){
	"goroutine": func(t *testing.T, test func(*testing.T, *rig)) {
		synctest.Test(t, func(t *testing.T) {
			r := new(rig)
			e, err := loop.NewEngine("goroutine", loop.Options{Panicked: r.panicked})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			d := e.Drivers()[0]
			r.open = func(task func(loop.Driver, loop.Conn)) net.Conn {
				a, b := net.Pipe()
				d.Go(func() { task(d, loop.New(a)) })
				return b
			}
			test(t, r)
			synctest.Wait()
			r.tell(t)
		})
	},
}

// ending is how a server has ended.
type ending struct {
	err      error
	panicked bool
	streams  int
}

// serve runs a server whose end is told.
func (r *rig) serve(cfg *Config, handle func(*Stream)) (net.Conn, chan ending) {
	end := make(chan ending, 1)
	return r.open(func(d loop.Driver, nc loop.Conn) {
		s := NewServer(d, nc, cfg, handle)
		e := ending{panicked: true}
		defer func() {
			e.streams = s.Streams()
			end <- e
		}()
		e.err = s.Serve(nil)
		e.panicked = false
	}), end
}

const defect = "defect"

func panics(Event) { panic(defect) }

// TestPanics: a panic ends what it has to, is told once, and holds up nothing
// else of its driver.
func TestPanics(t *testing.T) {
	for _, test := range []struct {
		name    string
		get     func(*Stream) // answers GET; a stream that is POSTed waits meanwhile
		send    func(r *raw)
		timed   bool // only in a bubble
		deaf    bool // the client reads nothing
		serve   bool // it comes out of Serve
		survive bool // only the stream ends
	}{
		{name: "reading", serve: true, send: func(r *raw) {
			// One request is opened by the same bytes, and not started yet.
			var all bytes.Buffer
			fr := http2.NewFramer(&all, nil)
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: r.post(), EndHeaders: true})
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 5, BlockFragment: r.get("X", "y"), EndHeaders: true})
			r.nc.Write(all.Bytes())
		}},
		{name: "timers", serve: true, timed: true, send: func(*raw) {}}, // PING is not answered
		{name: "last word", serve: true, send: func(r *raw) {
			r.fr.WriteSettings(make([]http2.Setting, maxSettings+1)...)
		}},
		{name: "writing", timed: true, deaf: true, send: func(r *raw) {}},
		{name: "handler", survive: true, get: func(*Stream) { panic(defect) }, send: func(r *raw) { r.headers(3, true, r.get()) }},
		{name: "handler that writes", survive: true, timed: true, get: func(s *Stream) {
			s.RespondBody(200, nil, make([]byte, 1<<20), true) // more than the window
		}, send: func(r *raw) { r.headers(3, true, r.get()) }},
	} {
		onRigs(t, test.name, test.timed, func(t *testing.T, rig *rig) {
			started, ended := make(chan bool, 10), make(chan error, 10)
			nc, end := rig.serve(&Config{Count: panics, PingAfter: 40 * time.Second}, func(s *Stream) {
				if string(s.Head().Method) == "GET" {
					test.get(s)
					return
				}
				started <- true
				_, err := s.Read()
				ended <- err
				s.Respond(200, nil, true)
			})
			r := newRaw(t, nc)
			otherNC, otherEnd := rig.serve(nil, echo)
			other := newRaw(t, otherNC)
			go other.read()
			if test.deaf {
				close(r.got)
			} else {
				go r.read()
			}
			r.hello()
			other.hello()
			r.headers(1, false, r.post())
			<-started
			test.send(r)
			if test.survive {
				for f := r.next(); f != "RST_STREAM 3 INTERNAL_ERROR"; f = r.next() {
					if f == "closed" {
						t.Fatal("connection has ended")
					}
				}
				r.fr.WriteData(1, true, nil)
				r.want("HEADERS 1 :status=200; end")
				nc.Close()
			}
			err, e := <-ended, <-end
			want := errDefect
			if test.survive {
				want = io.EOF
			}
			if err != want {
				t.Errorf("stream that waited has ended with %v, want %v", err, want)
			}
			if e.panicked != test.serve || !test.serve && !test.survive && e.err != errDefect {
				t.Errorf("Serve: panic %v, error %v; want %v, %v", e.panicked, e.err, test.serve, errDefect)
			}
			if e.streams != 0 || len(started) != 0 {
				t.Errorf("%d streams are left, %d were started afterwards", e.streams, len(started))
			}
			other.headers(1, true, other.get())
			other.want("HEADERS 1 :status=200; end")
			otherNC.Close()
			nc.Close()
			<-otherEnd
		})
	}
}

// TestClientPanics: what waits for an answer hears of the end of its connection.
func TestClientPanics(t *testing.T) {
	onRigs(t, "reading", false, func(t *testing.T, rig *rig) {
		end := make(chan [2]error)
		nc := rig.open(func(d loop.Driver, nc loop.Conn) {
			k := NewClient(d, nc, &Config{Count: panics})
			s, err := k.Open()
			if err == nil {
				err = s.Send(getHead("GET"), true)
			}
			if err == nil {
				_, err = s.ReadHead()
				s.Close()
			}
			k.Wait()
			d.Do(func() { end <- [2]error{err, k.Err()} })
		})
		defer nc.Close()
		r := newRaw(t, nc)
		io.ReadFull(nc, make([]byte, len(Preface)))
		go r.read()
		r.fr.WriteSettings()
		r.next()
		r.headers(1, false, r.block(":status", "200", "Bad", "x"))
		if got, want := <-end, [2]error{errDefect, errDefect}; got != want {
			t.Errorf("stream and connection have ended with %v", got)
		}
	})
}

// onRigs runs a test that meets one panic. A timed one needs a synctest bubble.
func onRigs(t *testing.T, name string, timed bool, test func(*testing.T, *rig)) {
	for engine, run := range rigs {
		if timed && engine != "goroutine" {
			continue
		}
		t.Run(name+"/"+engine, func(t *testing.T) { run(t, test) })
	}
}

// tell checks what the driver has told.
func (r *rig) tell(t *testing.T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.told, []any{defect}) {
		t.Errorf("panics that were told: %v, want one %q", r.told, defect)
	}
}
