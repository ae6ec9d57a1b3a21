package h2

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
)

// TestRules sends what the RFC has a rule for and looks at what comes back.
func TestRules(t *testing.T) {
	rawFrame := func(r *raw, typ http2.FrameType, flags http2.Flags, id uint32, p string) {
		r.fr.WriteRawFrame(typ, flags, id, []byte(p))
	}
	const ok = "HEADERS 1 :status=200; end"
	for _, test := range []struct {
		name string
		send func(r *raw)
		want []string
	}{
		{"GET", func(r *raw) { r.headers(1, true, r.get()) }, []string{ok}},
		{"POST", func(r *raw) {
			r.headers(1, false, r.post())
			r.fr.WriteData(1, false, []byte("ab"))
			r.fr.WriteDataPadded(1, true, []byte("c"), make([]byte, 7))
		}, []string{"HEADERS 1 :status=200;", `DATA 1 "abc" end`}},
		{"trailers", func(r *raw) {
			r.headers(1, false, r.post())
			r.fr.WriteData(1, false, []byte("ab"))
			r.headers(1, true, r.block("a", "b"))
		}, []string{"HEADERS 1 :status=200;", `DATA 1 "ab"`, "HEADERS 1 a=b; end"}},
		{"padding and priority", func(r *raw) {
			r.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.get(), EndStream: true, EndHeaders: true,
				PadLength: 9, Priority: http2.PriorityParam{StreamDep: 3, Weight: 5}})
		}, []string{ok}},
		{"CONTINUATION", func(r *raw) {
			b := r.get("x", "y")
			r.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: b[:3], EndStream: true})
			r.fr.WriteContinuation(1, false, b[3:5])
			r.fr.WriteContinuation(1, true, b[5:])
		}, []string{ok}},
		{"unknown type, reserved bit", func(r *raw) {
			rawFrame(r, 0x77, 0xff, 1<<31|5, "whatever")
			r.headers(1<<31|1, true, r.get())
		}, []string{ok}},
		{"PING", func(r *raw) { r.fr.WritePing(false, [8]byte{1}) }, []string{"PING ack"}},
		{"PRIORITY is ignored", func(r *raw) {
			r.fr.WritePriority(1, http2.PriorityParam{StreamDep: 3})
			r.headers(1, true, r.get())
		}, []string{ok}},
		{"length that fits", func(r *raw) {
			r.headers(1, false, r.post("content-length", "2"))
			r.fr.WriteData(1, true, []byte("ab"))
		}, []string{"HEADERS 1 :status=200;", `DATA 1 "ab" end`}},

		// Errors of a stream: the next one is served.
		{"malformed", func(r *raw) { r.headers(1, true, r.get("X", "y")); r.headers(3, true, r.get()) },
			[]string{"RST_STREAM 1 PROTOCOL_ERROR", "HEADERS 3 :status=200; end"}},
		{"body longer than its length", func(r *raw) {
			r.headers(1, false, r.post("content-length", "2"))
			r.fr.WriteData(1, false, []byte("abc"))
		}, []string{"RST_STREAM 1 PROTOCOL_ERROR"}},
		{"body shorter than its length", func(r *raw) {
			r.headers(1, false, r.post("content-length", "2"))
			r.fr.WriteData(1, true, []byte("a"))
			r.headers(3, true, r.get())
		}, []string{"RST_STREAM 1 PROTOCOL_ERROR", "HEADERS 3 :status=200; end"}},
		{"no body although a length", func(r *raw) { r.headers(1, true, r.post("content-length", "2")) },
			[]string{"RST_STREAM 1 PROTOCOL_ERROR"}},
		{"trailers against the length", func(r *raw) {
			r.headers(1, false, r.post("content-length", "2"))
			r.headers(1, true, r.block("a", "b"))
		}, []string{"RST_STREAM 1 PROTOCOL_ERROR"}},
		{"second head", func(r *raw) { r.headers(1, false, r.post()); r.headers(1, false, r.post()) },
			[]string{"RST_STREAM 1 PROTOCOL_ERROR"}},
		{"pseudo in trailers", func(r *raw) { r.headers(1, false, r.post()); r.headers(1, true, r.get()) },
			[]string{"RST_STREAM 1 PROTOCOL_ERROR"}},
		{"depends on itself", func(r *raw) {
			r.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.get(), EndStream: true, EndHeaders: true,
				Priority: http2.PriorityParam{StreamDep: 1, Weight: 5}})
		}, []string{"RST_STREAM 1 PROTOCOL_ERROR"}},
		{"PRIORITY on itself", func(r *raw) {
			r.headers(1, false, r.post())
			r.fr.WritePriority(1, http2.PriorityParam{StreamDep: 1})
		}, []string{"RST_STREAM 1 PROTOCOL_ERROR"}},
		{"PRIORITY of a wrong size", func(r *raw) {
			r.headers(1, false, r.post())
			rawFrame(r, http2.FramePriority, 0, 1, "1234")
		}, []string{"RST_STREAM 1 FRAME_SIZE_ERROR"}},
		{"WINDOW_UPDATE by 0", func(r *raw) { r.headers(1, false, r.post()); r.fr.WriteWindowUpdate(1, 0) },
			[]string{"RST_STREAM 1 PROTOCOL_ERROR"}},
		{"window too large", func(r *raw) {
			r.headers(1, false, r.post())
			r.fr.WriteWindowUpdate(1, 1<<31-1)
		}, []string{"RST_STREAM 1 FLOW_CONTROL_ERROR"}},
		{"late frames on a stream that we reset are ignored", func(r *raw) {
			r.headers(1, false, r.get("X", "y"))
			r.fr.WriteData(1, false, []byte("x"))
			r.headers(1, true, r.block("a", "b"))
			r.fr.WriteWindowUpdate(1, 5)
			r.fr.WriteRSTStream(1, http2.ErrCodeCancel)
			r.headers(3, true, r.get())
		}, []string{"RST_STREAM 1 PROTOCOL_ERROR", "HEADERS 3 :status=200; end"}},
		{"HEADERS behind RST_STREAM", func(r *raw) {
			r.headers(1, false, r.post())
			r.fr.WriteRSTStream(1, http2.ErrCodeCancel)
			r.headers(1, true, r.block("a", "b"))
		}, []string{"RST_STREAM 1 STREAM_CLOSED"}},
		{"DATA behind RST_STREAM", func(r *raw) {
			r.headers(1, false, r.post())
			r.fr.WriteRSTStream(1, http2.ErrCodeCancel)
			r.fr.WriteData(1, false, []byte("x"))
		}, []string{"RST_STREAM 1 STREAM_CLOSED"}},

		// Errors of the connection.
		{"no preface", nil, []string{"GOAWAY 0 PROTOCOL_ERROR", "closed"}},
		{"PING of a wrong size", func(r *raw) { rawFrame(r, http2.FramePing, 0, 0, "1234567") }, []string{"GOAWAY 0 FRAME_SIZE_ERROR", "closed"}},
		{"PING on a stream", func(r *raw) { rawFrame(r, http2.FramePing, 0, 1, "12345678") }, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
		{"too large a frame", func(r *raw) { rawFrame(r, http2.FrameHeaders, 4, 1, strings.Repeat("x", maxFrame+1)) }, []string{"GOAWAY 0 FRAME_SIZE_ERROR"}},
		{"malformed HPACK", func(r *raw) { r.headers(1, true, []byte{0xff, 0xff, 0xff, 0xff}) }, []string{"GOAWAY 1 COMPRESSION_ERROR"}},
		{"index behind the table", func(r *raw) { r.headers(1, true, []byte{0xbf}) }, []string{"GOAWAY 1 COMPRESSION_ERROR"}},
		{"interleaved block", func(r *raw) {
			r.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.get(), EndStream: true})
			r.fr.WritePing(false, [8]byte{})
		}, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
		{"CONTINUATION of another", func(r *raw) {
			r.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.get(), EndStream: true})
			r.fr.WriteContinuation(3, true, nil)
		}, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
		{"CONTINUATION of nothing", func(r *raw) { r.fr.WriteContinuation(1, true, nil) }, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
		{"PUSH_PROMISE", func(r *raw) {
			r.fr.WritePushPromise(http2.PushPromiseParam{StreamID: 1, PromiseID: 2, BlockFragment: r.get(), EndHeaders: true})
		}, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
		{"even stream", func(r *raw) { r.headers(2, true, r.get()) }, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
		{"stream 0", func(r *raw) { r.headers(0, true, r.get()) }, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
		{"lower stream", func(r *raw) { r.headers(5, true, r.get("X", "y")); r.headers(3, true, r.get()) },
			[]string{"RST_STREAM 5 PROTOCOL_ERROR", "GOAWAY 5 PROTOCOL_ERROR"}},
		{"DATA on an idle stream", func(r *raw) { r.fr.WriteData(1, true, nil) }, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
		{"RST_STREAM on an idle stream", func(r *raw) { r.fr.WriteRSTStream(1, 0) }, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
		{"RST_STREAM of a wrong size", func(r *raw) { r.headers(1, false, r.post()); rawFrame(r, http2.FrameRSTStream, 0, 1, "123") },
			[]string{"GOAWAY 1 FRAME_SIZE_ERROR"}},
		{"WINDOW_UPDATE on an idle stream", func(r *raw) { r.fr.WriteWindowUpdate(1, 5) }, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
		{"WINDOW_UPDATE of a wrong size", func(r *raw) { rawFrame(r, http2.FrameWindowUpdate, 0, 0, "123") }, []string{"GOAWAY 0 FRAME_SIZE_ERROR"}},
		{"WINDOW_UPDATE by 0 of the connection", func(r *raw) { r.fr.WriteWindowUpdate(0, 0) }, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
		{"connection's window too large", func(r *raw) { r.fr.WriteWindowUpdate(0, 1<<31-1) }, []string{"GOAWAY 0 FLOW_CONTROL_ERROR"}},
		{"padding", func(r *raw) { r.headers(1, false, r.post()); rawFrame(r, http2.FrameData, 8, 1, "\x05abc") }, []string{"GOAWAY 1 PROTOCOL_ERROR"}},
		{"padding of a head", func(r *raw) { rawFrame(r, http2.FrameHeaders, 0xc, 1, "\x05abc") }, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
		{"padding without its length", func(r *raw) { r.headers(1, false, r.post()); rawFrame(r, http2.FrameData, 8, 1, "") }, []string{"GOAWAY 1 PROTOCOL_ERROR"}},
		{"priority cut short", func(r *raw) { rawFrame(r, http2.FrameHeaders, 0x24, 1, "abc") }, []string{"GOAWAY 0 FRAME_SIZE_ERROR"}},
		{"SETTINGS on a stream", func(r *raw) { rawFrame(r, http2.FrameSettings, 0, 1, "") }, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
		{"SETTINGS of a wrong size", func(r *raw) { rawFrame(r, http2.FrameSettings, 0, 0, "123") }, []string{"GOAWAY 0 FRAME_SIZE_ERROR"}},
		{"acknowledgement with a payload", func(r *raw) { rawFrame(r, http2.FrameSettings, 1, 0, "123456") }, []string{"GOAWAY 0 FRAME_SIZE_ERROR"}},
		{"ENABLE_PUSH 2", func(r *raw) { r.fr.WriteSettings(http2.Setting{ID: 2, Val: 2}) }, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
		{"INITIAL_WINDOW_SIZE", func(r *raw) { r.fr.WriteSettings(http2.Setting{ID: 4, Val: 1 << 31}) }, []string{"GOAWAY 0 FLOW_CONTROL_ERROR"}},
		{"MAX_FRAME_SIZE low", func(r *raw) { r.fr.WriteSettings(http2.Setting{ID: 5, Val: 1<<14 - 1}) }, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
		{"MAX_FRAME_SIZE high", func(r *raw) { r.fr.WriteSettings(http2.Setting{ID: 5, Val: 1 << 24}) }, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
		{"ENABLE_CONNECT_PROTOCOL 2", func(r *raw) { r.fr.WriteSettings(http2.Setting{ID: 8, Val: 2}) }, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
		{"GOAWAY cut short", func(r *raw) { rawFrame(r, http2.FrameGoAway, 0, 0, "1234567") }, []string{"GOAWAY 0 FRAME_SIZE_ERROR"}},
		{"GOAWAY on a stream", func(r *raw) { rawFrame(r, http2.FrameGoAway, 0, 1, "12345678") }, []string{"GOAWAY 0 PROTOCOL_ERROR"}},
		{"their GOAWAY ends an idle connection", func(r *raw) { r.fr.WriteGoAway(0, 0, nil) }, []string{"GOAWAY 0 NO_ERROR", "closed"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, Config{}, echo)
				if test.send == nil {
					io.WriteString(s.nc, "GET / HTTP/1.1\r\nHost: a.example\r\n\r\n")
				} else {
					s.hello()
					test.send(s.raw)
				}
				s.want(test.want...)
				s.done()
			})
		})
	}
}

func TestFirstFrameIsSettings(t *testing.T) {
	s := serve(t, Config{}, echo)
	io.WriteString(s.nc, Preface)
	s.fr.WritePing(false, [8]byte{})
	s.want("GOAWAY 0 PROTOCOL_ERROR")
	s.done()
}

// TestStreamClosed: DATA and HEADERS on a stream that both have ended are errors
// of the connection.
func TestStreamClosed(t *testing.T) {
	for name, send := range map[string]func(r *raw){
		"DATA":    func(r *raw) { r.fr.WriteData(1, true, []byte("x")) },
		"HEADERS": func(r *raw) { r.headers(1, true, r.get()) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, Config{}, echo)
				s.hello()
				s.headers(1, true, s.get())
				s.want("HEADERS 1 :status=200; end")
				synctest.Wait()
				send(s.raw)
				s.want("GOAWAY 1 STREAM_CLOSED")
				s.done()
			})
		})
	}
}

// TestStreamEnded: what is wrong on a stream that both have ended is answered
// although its handler has not returned.
func TestStreamEnded(t *testing.T) {
	for name, test := range map[string]struct {
		send func(r *raw)
		want string
	}{
		"DATA":     {func(r *raw) { r.fr.WriteData(1, true, []byte("x")) }, "GOAWAY 1 STREAM_CLOSED"},
		"HEADERS":  {func(r *raw) { r.headers(1, true, r.get()) }, "GOAWAY 1 STREAM_CLOSED"},
		"PRIORITY": {func(r *raw) { r.fr.WriteRawFrame(http2.FramePriority, 0, 1, []byte("1234")) }, "RST_STREAM 1 FRAME_SIZE_ERROR"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hold := make(chan struct{})
				s := serve(t, Config{}, func(s *Stream) {
					echo(s)
					<-hold
				})
				s.hello()
				s.headers(1, true, s.get())
				s.want("HEADERS 1 :status=200; end")
				synctest.Wait()
				test.send(s.raw)
				s.want(test.want)
				close(hold)
				s.done()
			})
		})
	}
}

// TestPieces: frames may be cut anywhere.
func TestPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all bytes.Buffer
		r := newRaw(t, nil)
		r.fr = http2.NewFramer(&all, nil)
		r.fr.AllowIllegalWrites = true
		all.WriteString(Preface)
		r.fr.WriteSettings()
		r.headers(1, false, r.post())
		r.fr.WriteDataPadded(1, false, []byte("abc"), make([]byte, 3))
		r.fr.WriteData(1, false, nil)
		r.fr.WriteData(1, true, []byte("d"))
		for _, size := range []int{1, 2, 3, 7, 10, 1000} {
			s := serve(t, Config{}, echo)
			for b := all.Bytes(); len(b) > 0; {
				n := min(size, len(b))
				s.nc.Write(b[:n])
				b = b[n:]
			}
			s.want("HEADERS 1 :status=200;", `DATA 1 "abcd" end`)
			s.done()
		}
	})
}

// TestAlready: bytes may have been read before the server has the connection.
func TestAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Config{}, echo)
		s.done()
		_, b := pipeServer(t, echo, []byte(Preface[:10]))
		io.WriteString(b.nc, Preface[10:])
		b.fr.WriteSettings()
		b.headers(1, true, b.get())
		b.want("HEADERS 1 :status=200; end")
		b.nc.Close()
	})
}

// TestEndings: what a handler leaves undone is ended by reset.
func TestEndings(t *testing.T) {
	for _, test := range []struct {
		name   string
		handle func(*Stream)
		want   []string
	}{
		{"no answer", func(*Stream) {}, []string{"RST_STREAM 1 INTERNAL_ERROR"}},
		{"half an answer", func(s *Stream) { s.RespondBody(200, nil, []byte("x"), false) },
			[]string{"HEADERS 1 :status=200;", `DATA 1 "x"`, "RST_STREAM 1 INTERNAL_ERROR"}},
		{"answer before the request's end", func(s *Stream) { s.Respond(403, nil, true) },
			[]string{"HEADERS 1 :status=403; end", "RST_STREAM 1 NO_ERROR"}},
		{"reset", func(s *Stream) { s.Reset(CodeCancel) }, []string{"RST_STREAM 1 CANCEL"}},
		{"interim answers", func(s *Stream) {
			s.Respond(100, nil, false)
			s.Respond(103, []byte("link: x\r\n"), false)
			s.Respond(200, nil, true)
		}, []string{"HEADERS 1 :status=100;", "HEADERS 1 :status=103;link=x;", "HEADERS 1 :status=200; end"}},
		{"body in parts", func(s *Stream) {
			s.Respond(200, nil, false)
			s.Write([]byte("a"), false)
			s.Write(nil, false)
			s.Write(nil, true)
		}, []string{"HEADERS 1 :status=200;", `DATA 1 "a"`, `DATA 1 "" end`}},
		{"misuse", func(s *Stream) {
			if err := s.Write([]byte("x"), true); err != errNoHead {
				panic(err)
			}
			s.Respond(200, nil, false)
			if err := s.Respond(200, nil, false); err != errHeadTwice {
				return
			}
			s.WriteTrailer([]byte("a: b\r\n"))
			if err := s.Write([]byte("x"), true); err != errEnded {
				panic(err)
			}
		}, []string{"HEADERS 1 :status=200;", "HEADERS 1 a=b; end"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, Config{}, test.handle)
				s.hello()
				s.headers(1, false, s.post())
				s.want(test.want...)
				s.done()
			})
		})
	}
}

// TestLargeHead: heads larger than a frame go out in several.
func TestLargeHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		value := strings.Repeat("0~", 20<<10)
		s := serve(t, Config{}, func(s *Stream) {
			s.Respond(200, []byte("x: "+value+"\r\n"), true)
		})
		s.hello()
		s.headers(1, true, s.get())
		s.want("HEADERS 1 ... end", "CONTINUATION 1 :status=200;x="+value+";")
		s.done()
	})
}

// TestTooLarge: a head over the bounds can be answered, and the next is read.
func TestTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Config{HeaderBytes: 1000}, func(s *Stream) {
			if s.Head().TooLarge {
				s.Respond(431, nil, true)
				return
			}
			s.Respond(200, s.Head().Lines, true)
		})
		s.hello()
		s.headers(1, true, s.get("x", strings.Repeat("y", 1000), "kept", "in the table"))
		s.want("HEADERS 1 :status=431; end")
		s.headers(3, true, s.get("kept", "in the table"))
		s.want("HEADERS 3 :status=200;kept=in the table; end")
		if n := s.seen(EventHeaderLimit); n != 1 {
			t.Errorf("counted %d, want 1", n)
		}
		s.done()
	})
}

func TestMaxStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Config{MaxStreams: 2}, echo)
		s.hello()
		s.headers(1, false, s.post())
		s.headers(3, false, s.post())
		s.headers(5, false, s.post())
		s.want("RST_STREAM 5 REFUSED_STREAM")
		s.fr.WriteData(1, true, nil)
		s.want("HEADERS 1 :status=200; end")
		synctest.Wait()
		s.headers(7, true, s.get())
		s.want("HEADERS 7 :status=200; end")
		if n := s.seen(EventRefused); n != 1 {
			t.Errorf("counted %d, want 1", n)
		}
		s.done()
	})
}

// TestResetStillCounts: a stream that was reset counts until its handler has
// returned.
func TestResetStillCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan bool)
		s := serve(t, Config{MaxStreams: 1}, func(s *Stream) {
			<-gate
			s.Respond(200, nil, true)
		})
		s.hello()
		s.headers(1, true, s.get())
		synctest.Wait()
		s.fr.WriteRSTStream(1, http2.ErrCodeCancel)
		s.headers(3, true, s.get())
		s.want("RST_STREAM 3 REFUSED_STREAM")
		gate <- true
		synctest.Wait()
		s.headers(5, true, s.get())
		gate <- true
		s.want("HEADERS 5 :status=200; end")
		s.done()
	})
}

// TestSendWindows: what is sent keeps to the windows of the stream and of the
// connection, which may shrink below zero.
func TestSendWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Config{}, func(s *Stream) {
			s.RespondBody(200, nil, []byte("0123456789"), true)
		})
		s.hello(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 4})
		s.headers(1, true, s.get())
		s.want("HEADERS 1 :status=200;", `DATA 1 "0123"`)
		s.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1}) // -3
		s.fr.WriteWindowUpdate(1, 3)
		s.fr.WritePing(false, [8]byte{})
		s.want("PING ack")
		s.fr.WriteWindowUpdate(1, 2)
		s.want(`DATA 1 "45"`)
		s.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100})
		s.want(`DATA 1 "6789" end`)
		s.done()
	})
}

func TestConnectionWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, size = 4, 30000
		s := serve(t, Config{}, func(s *Stream) {
			s.RespondBody(200, nil, make([]byte, size), true)
		})
		s.hello(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
		for i := range uint32(streams) {
			s.headers(2*i+1, true, s.get())
		}
		ends := 0
		for ends < streams {
			synctest.Wait()
			for len(s.got) > 0 {
				if f := <-s.got; strings.HasPrefix(f, "DATA") && strings.HasSuffix(f, "end") {
					ends++
				}
			}
			s.fr.WriteWindowUpdate(0, 1000)
		}
		s.done()
	})
}

// TestReceiveWindows: a window is opened again as the user reads, and who sends
// more is reset.
func TestReceiveWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan bool)
		s := serve(t, Config{StreamWindow: initialWindow, ConnWindow: 100000}, func(s *Stream) {
			<-gate
			body, _ := readAll(s)
			s.RespondBody(200, nil, fmt.Append(nil, len(body)), true)
		})
		s.hello()
		s.headers(1, false, s.post())
		frame := make([]byte, 16000)
		for range 4 {
			s.fr.WriteData(1, false, frame)
		}
		s.fr.WritePing(false, [8]byte{})
		for f := range s.got {
			if f == "PING ack" {
				break
			}
			if strings.HasPrefix(f, "WINDOW_UPDATE") && f != "WINDOW_UPDATE 0 34465" { // the one that opens it
				t.Errorf("%s before anything was read", f)
			}
		}
		gate <- true
		var stream, all int
		for stream < 32768 || all < 50000 {
			var id, n int
			fmt.Sscanf(<-s.got, "WINDOW_UPDATE %d %d", &id, &n)
			if id == 0 {
				all += n
			} else {
				stream += n
			}
		}
		s.fr.WriteData(1, true, frame)
		s.want("HEADERS 1 :status=200;", `DATA 1 "80000" end`)

		s.headers(3, false, s.post()) // its handler waits for the gate
		for range 4 {
			s.fr.WriteData(3, false, frame)
		}
		s.fr.WriteData(3, false, frame)
		s.want("RST_STREAM 3 FLOW_CONTROL_ERROR")
		gate <- true
		s.done()
	})
}

func TestConnectionReceiveWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan bool)
		s := serve(t, Config{ConnWindow: initialWindow}, func(s *Stream) { <-gate })
		s.hello()
		s.headers(1, false, s.post())
		for range 5 {
			s.fr.WriteData(1, false, make([]byte, 16000))
		}
		s.want("GOAWAY 1 FLOW_CONTROL_ERROR")
		gate <- true
		s.done()
	})
}

// TestDroppedDataIsCredited: data that nobody reads does not shut the
// connection's window.
func TestDroppedDataIsCredited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Config{ConnWindow: initialWindow}, func(s *Stream) {
			s.Respond(200, nil, true)
		})
		s.hello()
		sent, window := 0, initialWindow
		for i := range uint32(20) {
			s.headers(2*i+1, false, s.post())
			synctest.Wait()
			for len(s.got) > 0 {
				var id, n int
				if k, _ := fmt.Sscanf(<-s.got, "WINDOW_UPDATE %d %d", &id, &n); k == 2 && id == 0 {
					window += n
				}
			}
			if window-sent < 10000 {
				t.Fatalf("window is shut after %d bytes", sent)
			}
			s.fr.WriteData(2*i+1, false, make([]byte, 10000))
			sent += 10000
		}
		s.done()
	})
}

func TestExtendedConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Config{ExtendedConnect: true}, func(s *Stream) {
			h := s.Head()
			s.Respond(200, fmt.Appendf(nil, "x: %s %s %s\r\n", h.Method, h.Protocol, h.Path), false)
			b, _ := s.Read()
			s.Write(b, true)
			s.Read()
		})
		s.hello()
		s.headers(1, false, s.block(":method", "CONNECT", ":protocol", "websocket", ":scheme", "http", ":path", "/ws", ":authority", "a"))
		s.want("HEADERS 1 :status=200;x=CONNECT websocket /ws;")
		s.fr.WriteData(1, false, []byte("hi"))
		s.want(`DATA 1 "hi" end`)
		s.fr.WriteData(1, true, nil)
		s.done()
	})
}
