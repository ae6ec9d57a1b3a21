package h2

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
)

// pushers serves streams whose handlers only wait, for tests that push data
// themselves. end is to be called instead of done.
func pushers(t *testing.T, n uint32) (s *served, streams []*Stream, end func()) {
	opened, over := make(chan *Stream), make(chan bool)
	s = serve(t, Config{}, func(s *Stream) {
		s.Respond(200, nil, false)
		opened <- s
		<-over
	})
	s.hello(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	for i := range n {
		s.headers(2*i+1, false, s.post())
		streams = append(streams, <-opened)
		s.want(fmt.Sprintf("HEADERS %d :status=200;", 2*i+1))
	}
	return s, streams, func() {
		s.nc.Close() // ends the writes that handlers have to outlive
		synctest.Wait()
		close(over)
		s.done()
	}
}

// TestTurns: a stream that finds the window open when it comes does not overtake
// one that waits for it.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, streams, done := pushers(t, 3)
		greedy, patient := streams[0], streams[1]
		c := &s.s.c
		push := func(s *Stream, n int) int {
			c.mu.Lock()
			defer c.unlock()
			return s.push(make([]byte, n), false)
		}
		if n := push(greedy, 1<<20); n != initialWindow {
			t.Fatalf("%d bytes are pushed, want the window of %d", n, initialWindow)
		}
		synctest.Wait()
		written := make(chan bool, 2)
		for _, s := range []*Stream{patient, streams[2]} {
			go func() {
				s.Write(make([]byte, 150), false)
				written <- true
			}()
			synctest.Wait()
		}
		grant := func(n int64) int {
			c.mu.Lock()
			defer c.unlock()
			c.sendWindow += n
			c.wakeWaiting()
			// What was woken has yet to run.
			return greedy.push(make([]byte, 1<<10), false)
		}
		var got [3]int
		for range 3 {
			got[0] += grant(100)
			synctest.Wait()
		}
		// They have taken turns: 100, 100, then the 50 and 50 that were left.
		got[0] += grant(7)
		synctest.Wait()
		got[0] += grant(0)
		if len(written) != 2 || got[0] != 7 {
			t.Errorf("%d of 2 that waited have written, one that did not got %d bytes, want 7", len(written), got[0])
		}
		if c.waiting.first != nil {
			t.Error("a stream waits that has written everything")
		}
		done()
	})
}

// TestKeepsTurn: what wakes a stream before its turn does not cost it its place.
func TestKeepsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, streams, done := pushers(t, 3)
		c := &s.s.c
		streams[0].Write(make([]byte, initialWindow), false)
		for _, s := range streams {
			go s.Write(make([]byte, 100), true)
			synctest.Wait()
		}
		for range 3 {
			s.fr.WriteWindowUpdate(1, 1)
			synctest.Wait()
		}
		var order []string
		for range 3 {
			s.fr.WriteWindowUpdate(0, 100)
			for f := s.next(); ; f = s.next() {
				if strings.HasPrefix(f, "DATA") && strings.HasSuffix(f, "end") {
					order = append(order, strings.Fields(f)[1])
					break
				}
			}
		}
		if fmt.Sprint(order) != "[1 3 5]" || c.waiting.first != nil {
			t.Errorf("streams have ended in the order %v, want that in which they came", order)
		}
		done()
	})
}

// TestTurnPasses: a stream whose turn it is and that cannot use it does not keep
// the others.
func TestTurnPasses(t *testing.T) {
	for name, end := range map[string]func(s *served, first *Stream){
		"reset":        func(s *served, _ *Stream) { s.fr.WriteRSTStream(1, http2.ErrCodeCancel) },
		"interruption": func(_ *served, first *Stream) { first.Interrupt(errWake) },
		"window": func(s *served, _ *Stream) {
			s.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: initialWindow})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, streams, done := pushers(t, 2)
				streams[0].Write(make([]byte, initialWindow), false)
				for _, s := range streams {
					go s.Write(make([]byte, 100), true)
					synctest.Wait()
				}
				end(s, streams[0])
				s.fr.WriteWindowUpdate(0, 100)
				for f := s.next(); !strings.HasPrefix(f, "DATA 3"); f = s.next() {
					if f == "closed" {
						t.Fatal("connection has ended")
					}
				}
				done()
			})
		})
	}
}
