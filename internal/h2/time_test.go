package h2

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"fairlead/internal/loop"
)

// TestTimeouts: each time-out ends the connection when it is due, not before.
func TestTimeouts(t *testing.T) {
	cfg := Config{HeaderTimeout: 10 * time.Second, IdleTimeout: 40 * time.Second, PingAfter: 25 * time.Second, PingTimeout: 15 * time.Second}
	for _, test := range []struct {
		name  string
		send  func(s *served)
		after time.Duration
		want  []string
		event Event
	}{
		{"nothing comes", func(*served) {}, 10 * time.Second, []string{"GOAWAY 0 PROTOCOL_ERROR"}, EventHeaderTimeout},
		{"preface without SETTINGS", func(s *served) { io.WriteString(s.nc, Preface) }, 10 * time.Second, []string{"GOAWAY 0 PROTOCOL_ERROR"}, EventHeaderTimeout},
		{"head without its end", func(s *served) {
			s.hello()
			time.Sleep(5 * time.Second)
			s.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: s.get()})
			time.Sleep(5 * time.Second)
			s.fr.WriteContinuation(1, false, []byte{0x82})
		}, 15 * time.Second, []string{"GOAWAY 0 ENHANCE_YOUR_CALM"}, EventHeaderTimeout},
		{"frame without its end", func(s *served) {
			s.hello()
			io.WriteString(s.nc, "\x00\x10\x00\x01\x04\x00\x00\x00\x01")
			for range 3 {
				time.Sleep(3 * time.Second)
				io.WriteString(s.nc, "x")
			}
		}, 10 * time.Second, []string{"GOAWAY 0 ENHANCE_YOUR_CALM"}, EventHeaderTimeout},
		{"frames that are cut, none of them late", func(s *served) {
			const ping = "\x00\x00\x08\x06\x00\x00\x00\x00\x00abcdefgh"
			s.hello()
			io.WriteString(s.nc, ping[:5])
			for range 4 {
				time.Sleep(6 * time.Second)
				io.WriteString(s.nc, ping[5:]+ping[:5])
				s.want("PING ack")
			}
			io.WriteString(s.nc, "\x00\x00\x00\x01") // of stream 1
		}, 24 * time.Second, []string{"GOAWAY 0 PROTOCOL_ERROR"}, EventProtocol},
		{"no acknowledgement", func(s *served) { io.WriteString(s.nc, Preface); s.fr.WriteSettings() },
			20 * time.Second, []string{"GOAWAY 0 SETTINGS_TIMEOUT"}, EventSettingsTimeout},
		{"idle", func(s *served) { s.hello() }, 40 * time.Second, []string{"GOAWAY 0 NO_ERROR"}, EventIdleTimeout},
		{"idle after a stream", func(s *served) {
			s.hello()
			time.Sleep(20 * time.Second)
			s.headers(1, true, s.get())
			s.want("HEADERS 1 :status=200; end")
		}, 60 * time.Second, []string{"GOAWAY 1 NO_ERROR"}, EventIdleTimeout},
		{"idle although there are pings", func(s *served) {
			s.hello()
			time.Sleep(30 * time.Second)
			s.fr.WritePing(false, [8]byte{})
			s.want("PING ack")
		}, 40 * time.Second, []string{"GOAWAY 0 NO_ERROR"}, EventIdleTimeout},
		{"vanished", func(s *served) { s.hello(); s.headers(1, false, s.post()) }, 40 * time.Second,
			[]string{"PING alive"}, EventPingTimeout},
		{"idle when a stream ends while it is asked", func(s *served) {
			s.hello()
			s.headers(1, false, s.post())
			s.want("PING alive")
			s.fr.WriteData(1, true, nil)
			s.want("HEADERS 1 :status=200; end")
		}, 65 * time.Second, []string{"GOAWAY 1 NO_ERROR"}, EventIdleTimeout},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				s := serve(t, cfg, echo)
				test.send(s)
				s.want(append(test.want, "closed")...)
				if d := time.Since(begun); d != test.after {
					t.Errorf("closed after %v, want %v", d, test.after)
				}
				s.done()
				if n := s.seen(test.event); n != 1 {
					t.Errorf("%v counted %d times, want once", test.event, n)
				}
			})
		})
	}
}

// TestAlive: a connection that answers PING stays.
func TestAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Config{}, echo)
		s.hello()
		s.headers(1, false, s.post())
		for range 10 {
			s.want("PING alive")
			s.fr.WritePing(true, pingAlive)
			synctest.Wait()
			if n := s.s.c.floods.n[EventPingFlood]; n != 0 {
				t.Fatal("answer to our PING is counted")
			}
		}
		s.fr.WritePing(true, pingAlive) // one that was not asked for
		synctest.Wait()
		if n := s.s.c.floods.n[EventPingFlood]; n != 1 {
			t.Error("PING that is acknowledged twice is not counted")
		}
		s.fr.WriteData(1, true, nil)
		s.want("HEADERS 1 :status=200; end")
		s.done()
	})
}

// TestWindowStall: a stream whose window stays shut fails alone.
func TestWindowStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result := make(chan error, 2)
		s := serve(t, Config{PingAfter: -1}, func(s *Stream) {
			result <- s.RespondBody(200, nil, []byte("0123456789"), true)
		})
		s.hello(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 4})
		begun := time.Now()
		s.headers(1, true, s.get())
		s.want("HEADERS 1 :status=200;", `DATA 1 "0123"`)
		time.Sleep(20 * time.Second)
		s.fr.WriteWindowUpdate(1, 1) // progress
		if err := <-result; err != loop.ErrStalled || time.Since(begun) != 50*time.Second {
			t.Errorf("write ends with %v after %v, want a stall after 50s", err, time.Since(begun))
		}
		synctest.Wait()
		s.done()
	})
}

// TestStallGoesOn: what wakes a write without letting it send a byte does not make
// its time-out begin anew.
func TestStallGoesOn(t *testing.T) {
	for name, wake := range map[string]func(s *served, i uint32){
		"WINDOW_UPDATE": func(s *served, _ uint32) { s.fr.WriteWindowUpdate(1, 1) },
		"SETTINGS": func(s *served, i uint32) {
			s.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<20 + i})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				result := make(chan error, 1)
				s := serve(t, Config{PingAfter: -1}, func(s *Stream) {
					result <- s.RespondBody(200, nil, make([]byte, initialWindow+1), true)
					result <- s.Write([]byte("x"), true) // one more has its own time
				})
				s.hello(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
				begun := time.Now()
				s.headers(1, true, s.get())
				go func() {
					for i := range uint32(5) {
						time.Sleep(8 * time.Second)
						wake(s, i)
					}
				}()
				for _, after := range []time.Duration{30 * time.Second, 60 * time.Second} {
					if err := <-result; err != loop.ErrStalled || time.Since(begun) != after {
						t.Errorf("write ends with %v after %v, want a stall after %v", err, time.Since(begun), after)
					}
				}
				s.done()
			})
		})
	}
}

// TestConnectionStall: when a client takes no bytes all streams end.
func TestConnectionStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result := make(chan error, 2)
		a, b := netPipe()
		s := NewServer(&loop.Goroutines{}, loop.New(a), nil, func(s *Stream) {
			result <- s.RespondBody(200, nil, make([]byte, 1<<20), true)
		})
		ended := make(chan error)
		go func() { ended <- s.Serve(nil) }()
		r := newRaw(t, b)
		r.hello(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 24})
		r.fr.WriteWindowUpdate(0, 1<<24)
		r.headers(1, true, r.get())
		r.headers(3, true, r.get())
		for range 2 {
			if err := <-result; err != loop.ErrStalled {
				t.Errorf("write ends with %v, want a stall", err)
			}
		}
		if err := <-ended; err != loop.ErrStalled {
			t.Errorf("Serve returned %v, want a stall", err)
		}
	})
}

func TestReadDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Config{}, func(s *Stream) {
			s.SetReadDeadline(loop.Now().Add(5 * time.Second))
			_, err := s.Read()
			s.SetReadDeadline(0)
			_, err2 := s.Read()
			s.Respond(200, fmt.Appendf(nil, "x: %v %v\r\n", err == loop.ErrTimeout, err2), true)
		})
		s.hello()
		s.headers(1, false, s.post())
		time.Sleep(6 * time.Second)
		s.fr.WriteData(1, true, nil)
		s.want("HEADERS 1 :status=200;x=true EOF; end")
		s.done()
	})
}

// TestInterrupt: another task may stop the one that reads the body, which can
// then be read on.
func TestInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := errors.New("stop")
		s := serve(t, Config{}, func(s *Stream) {
			d := &loop.Goroutines{}
			var got error
			task := d.Spawn(func() { _, got = s.Read() })
			time.Sleep(time.Second)
			s.Interrupt(stop)
			task.Wait()
			_, again := s.Read()
			s.Resume()
			b, _ := s.Read()
			s.RespondBody(200, nil, fmt.Appendf(nil, "%v %v %s", got == stop, again == stop, b), true)
		})
		s.hello()
		s.headers(1, false, s.post())
		time.Sleep(2 * time.Second)
		s.fr.WriteData(1, true, []byte("body"))
		s.want("HEADERS 1 :status=200;", `DATA 1 "true true body" end`)
		s.done()
	})
}

// TestReset: a handler that waits hears of a reset at once.
func TestReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		result := make(chan error, 1)
		s := serve(t, Config{}, func(s *Stream) {
			_, err := s.Read()
			if s.Alive() {
				t.Error("stream is alive after its reset")
			}
			if werr := s.Respond(200, nil, true); werr != err {
				t.Errorf("writing fails with %v, want %v", werr, err)
			}
			result <- err
		})
		s.hello()
		s.headers(1, false, s.post())
		synctest.Wait()
		s.fr.WriteRSTStream(1, http2.ErrCodeCancel)
		var e *StreamError
		if err := <-result; !errors.As(err, &e) || !e.Remote || e.Code != CodeCancel {
			t.Errorf("handler got %v", err)
		}
		s.done()
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Config{}, echo)
		s.hello()
		s.headers(1, false, s.post())
		synctest.Wait()
		s.s.Drain()
		s.s.Drain()
		s.want("GOAWAY 2147483647 NO_ERROR", "PING drain")
		s.headers(3, true, s.get()) // was on its way
		s.want("HEADERS 3 :status=200; end")
		s.fr.WritePing(true, pingDrain)
		s.want("GOAWAY 3 NO_ERROR")
		s.headers(5, true, s.get())
		s.want("RST_STREAM 5 REFUSED_STREAM")
		s.fr.WriteData(1, true, []byte("x"))
		s.want("HEADERS 1 :status=200;", `DATA 1 "x" end`, "GOAWAY 5 NO_ERROR", "closed")
		if err := s.done(); err != nil {
			t.Errorf("Serve returned %v, want nil", err)
		}
	})
}

func TestDrainWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Config{}, echo)
		s.hello()
		synctest.Wait()
		begun := time.Now()
		s.s.Drain()
		s.want("GOAWAY 2147483647 NO_ERROR", "PING drain", "GOAWAY 0 NO_ERROR", "GOAWAY 0 NO_ERROR", "closed")
		if d := time.Since(begun); d != drainTimeout {
			t.Errorf("closed after %v, want %v", d, drainTimeout)
		}
		s.done()
	})
}

// TestDrainBesideWrite: a drain tears no write that goes on.
func TestDrainBesideWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := netPipe()
		body := bytes.Repeat([]byte("0123456789"), 50000)
		s := NewServer(&loop.Goroutines{}, loop.New(a), nil, func(s *Stream) { s.RespondBody(200, nil, body, true) })
		ended := make(chan error)
		go func() { ended <- s.Serve(nil) }()
		r := newRaw(t, b)
		r.hello(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 24})
		r.fr.WriteWindowUpdate(0, 1<<24)
		r.headers(1, true, r.get())
		synctest.Wait() // the write waits for a reader
		s.Drain()
		synctest.Wait()
		go r.read()
		n := 0
		last := ""
		for f := range r.got {
			if strings.HasPrefix(f, "DATA") {
				n += strings.Count(f, "0123456789") * 10
			}
			if f == "PING drain" {
				r.fr.WritePing(true, pingDrain)
			}
			last = f
		}
		if err := <-ended; err != nil || !strings.HasPrefix(last, "GOAWAY 1 NO_ERROR") {
			t.Errorf("Serve returned %v, last frame %q", err, last)
		}
	})
}

// TestRest: a connection without streams keeps nothing for them, and goes on
// when the next comes.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Config{}, echo)
		s.hello()
		for i := range uint32(3) {
			s.headers(2*i+1, true, s.get())
			s.want(fmt.Sprintf("HEADERS %d :status=200; end", 2*i+1))
			time.Sleep(lookAfter + restAfter + time.Second)
			c := &s.s.c
			c.mu.Lock()
			if c.writerOn || c.free != nil || c.out != nil || c.closed != nil {
				t.Errorf("at rest it still has a writer (%v), streams (%d), output (%v)", c.writerOn, len(c.free), c.out != nil)
			}
			c.mu.Unlock()
		}
		s.done()
	})
}

// TestAbort ends everything at once.
func TestAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Config{}, echo)
		s.hello()
		s.headers(1, false, s.post())
		synctest.Wait()
		s.s.Abort()
		s.want("closed")
		if err := s.done(); err == nil {
			t.Error("Serve returned nil")
		}
	})
}
