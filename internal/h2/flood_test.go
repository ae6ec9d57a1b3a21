package h2

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"

	"fairlead/internal/loop"
)

// TestFloods: each kind of flood ends the connection, and is counted.
func TestFloods(t *testing.T) {
	slow := func(s *Stream) { s.Read() }
	busy := func(s *Stream) { s.RespondBody(200, nil, make([]byte, 1<<20), true) } // until it is reset
	for _, test := range []struct {
		event  Event
		handle func(*Stream)
		send   func(r *raw, i uint32)
	}{
		{EventRapidReset, slow, func(r *raw, i uint32) {
			r.headers(2*i+1, false, r.post())
			r.fr.WriteRSTStream(2*i+1, http2.ErrCodeCancel)
		}},
		{EventRapidReset, slow, func(r *raw, i uint32) { // made to reset: malformed
			r.headers(2*i+1, true, r.get("X", "y"))
		}},
		{EventRapidReset, slow, func(r *raw, i uint32) { // made to reset: windows
			r.headers(2*i+1, false, r.post())
			r.fr.WriteWindowUpdate(2*i+1, 0)
		}},
		{EventRapidReset, busy, func(r *raw, i uint32) { // made to reset: behind the end
			r.headers(2*i+1, true, r.get())
			r.fr.WriteData(2*i+1, true, []byte("x"))
		}},
		{EventPingFlood, echo, func(r *raw, _ uint32) { r.fr.WritePing(false, [8]byte{}) }},
		{EventSettingsFlood, echo, func(r *raw, _ uint32) { r.fr.WriteSettings() }},
		{EventSettingsFlood, echo, func(r *raw, _ uint32) { r.fr.WriteSettingsAck() }},
		{EventSettingsFlood, echo, func(r *raw, i uint32) { // not more of them with data
			if i == 0 {
				r.headers(1, false, r.post())
			}
			r.fr.WriteData(1, false, []byte("x"))
			r.fr.WriteSettings()
		}},
		{EventSettingsFlood, echo, func(r *raw, _ uint32) { r.fr.WriteSettings(make([]http2.Setting, maxSettings+1)...) }},
		{EventPingFlood, echo, func(r *raw, _ uint32) { r.fr.WritePing(true, pingAlive) }},
		{EventGoAwayFlood, slow, func(r *raw, i uint32) {
			if i == 0 {
				r.headers(1, false, r.post())
			}
			r.fr.WriteGoAway(0, http2.ErrCodeNo, nil)
		}},
		{EventPriorityFlood, echo, func(r *raw, _ uint32) { r.fr.WritePriority(99, http2.PriorityParam{}) }},
		{EventWindowFlood, echo, func(r *raw, _ uint32) { r.fr.WriteWindowUpdate(0, 1) }},
		{EventUnknownFlood, echo, func(r *raw, _ uint32) { r.fr.WriteRawFrame(0x70, 0, 0, nil) }},
		{EventResetFlood, echo, func(r *raw, i uint32) {
			if i == 0 {
				r.headers(1, true, r.get())
			}
			r.fr.WriteRSTStream(1, http2.ErrCodeCancel)
		}},
		{EventEmptyDataFlood, echo, func(r *raw, i uint32) {
			if i == 0 {
				r.headers(1, false, r.post())
			}
			r.fr.WriteData(1, false, nil)
		}},
		{EventContinuationFlood, echo, func(r *raw, i uint32) {
			if i == 0 {
				r.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1})
			}
			r.fr.WriteContinuation(1, false, nil)
		}},
		{EventContinuationFlood, echo, func(r *raw, i uint32) {
			if i == 0 {
				r.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1})
			}
			r.fr.WriteContinuation(1, false, []byte{0x82})
		}},
		{EventContinuationFlood, echo, func(r *raw, i uint32) {
			if i == 0 {
				r.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1})
			}
			r.fr.WriteContinuation(1, false, bytes.Repeat([]byte{0x82}, maxFrame))
		}},
	} {
		t.Run(test.event.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, Config{MaxStreams: 1000}, test.handle)
				s.hello()
				go func() {
					for i := uint32(0); i < 3000; i++ {
						test.send(s.raw, i)
					}
				}()
				last := ""
				for f := range s.got {
					last = f
				}
				if !strings.HasSuffix(last, " ENHANCE_YOUR_CALM") {
					t.Errorf("last frame is %q, want GOAWAY with ENHANCE_YOUR_CALM", last)
				}
				// Streams that are reset before their handlers end count as open,
				// so that those behind them may be refused first.
				n := s.seen(test.event)
				if test.event == EventRapidReset {
					n += s.seen(EventRefusedFlood)
				}
				if n != 1 {
					t.Errorf("counted %d times, want once; %v", n, s.events)
				}
				s.done()
			})
		})
	}
}

// TestStillborn: requests that are reset in the write that makes them take up no
// place and start no handler.
func TestStillborn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := 0
		s := serve(t, Config{MaxStreams: 10}, func(*Stream) { started++ })
		s.hello()
		var all bytes.Buffer
		fr := http2.NewFramer(&all, nil)
		fr.AllowIllegalWrites = true
		for i := range uint32(45) {
			id := 4*i + 1
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: s.post(), EndHeaders: true})
			fr.WriteRSTStream(id, http2.ErrCodeCancel)
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id + 2, BlockFragment: s.post(), EndHeaders: true})
			fr.WriteWindowUpdate(id+2, 0)
		}
		s.nc.Write(all.Bytes())
		for i := range uint32(45) {
			s.want(fmt.Sprintf("RST_STREAM %d PROTOCOL_ERROR", 4*i+3))
		}
		synctest.Wait()
		if n := s.s.Streams(); n != 0 || started != 0 || s.seen(EventRefused) != 0 {
			t.Errorf("%d streams are open, %d handlers were started, %d streams refused, want none", n, started, s.seen(EventRefused))
		}
		s.headers(201, true, s.get())
		s.want("RST_STREAM 201 INTERNAL_ERROR") // by a handler that answers nothing
		s.done()
	})
}

// TestHeaderFlood: a header block in which each byte stands for a large field ends
// the connection, for whatever stream it is.
func TestHeaderFlood(t *testing.T) {
	for name, before := range map[string]func(s *served){
		"request":        func(*served) {},
		"refused stream": func(s *served) { s.headers(1, false, s.post()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, Config{MaxStreams: 1}, func(s *Stream) { readAll(s) })
				s.hello()
				before(s)
				block := s.get("x", strings.Repeat("v", 4000))
				s.headers(3, true, append(block, bytes.Repeat([]byte{0xbe}, 12000)...))
				s.want("GOAWAY 3 ENHANCE_YOUR_CALM")
				if n := s.seen(EventHeaderFlood); n != 1 {
					t.Errorf("counted %d times, want once; %v", n, s.events)
				}
				s.done()
			})
		})
	}
}

func TestRefusedFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Config{MaxStreams: 1}, func(s *Stream) { readAll(s) })
		s.hello()
		go func() {
			for i := uint32(0); i < 300; i++ {
				s.headers(2*i+1, false, s.post())
			}
		}()
		last := ""
		for f := range s.got {
			last = f
		}
		if !strings.HasSuffix(last, " ENHANCE_YOUR_CALM") || s.seen(EventRefusedFlood) != 1 {
			t.Errorf("last frame is %q, events %v", last, s.events)
		}
		s.done()
	})
}

// TestControlFlood: a client that makes us answer and reads nothing is cut off
// before the answers fill memory.
func TestControlFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		events := make(map[Event]int)
		cfg := &Config{MaxStreams: 1 << 20, Count: func(e Event) { events[e]++ }}
		s := NewServer(&loop.Goroutines{}, loop.New(a), cfg, echo)
		r := newRaw(t, b) // does not read
		go func() {
			r.hello()
			for i := range uint32(10000) {
				r.headers(2*i+1, true, r.get("X", "y"))
			}
		}()
		s.Serve(nil)
		if events[EventControlFlood] != 1 {
			t.Errorf("events are %v, want a control_flood", events)
		}
	})
}

// TestHonestUse: what clients do in order is no flood, however much of it there
// is.
func TestHonestUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Config{MaxStreams: 10}, echo)
		s.hello()
		go func() {
			for i := range uint32(3000) {
				id := 2*i + 1
				if i%3 == 0 {
					s.fr.WritePriority(id, http2.PriorityParam{})
				}
				s.headers(id, false, s.post())
				s.fr.WriteData(id, true, []byte("x"))
				s.fr.WriteWindowUpdate(0, 1)
				s.fr.WritePing(false, [8]byte(binary.BigEndian.AppendUint64(nil, uint64(i))))
				synctest.Wait()
			}
		}()
		ends := 0
		for f := range s.got {
			if strings.HasSuffix(f, "end") {
				if ends++; ends == 3000 {
					break
				}
			}
			if strings.HasPrefix(f, "GOAWAY") {
				t.Fatalf("%s after %d answers", f, ends)
			}
		}
		s.done()
	})
}
