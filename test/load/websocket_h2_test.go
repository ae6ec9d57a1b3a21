//go:build linux

package loadtest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	streamWindow = 256 << 10 // of each stream, as large as what it holds unread
	connWindow   = 1 << 30   // of all together: streams do not wait for each other
)

// mux is the client of an HTTP/2 connection whose streams are WebSockets (RFC 8441).
// The standard library's has no extended CONNECT.
type mux struct {
	nc net.Conn

	wmu  sync.Mutex // guards what follows
	w    *bufio.Writer
	out  *http2.Framer
	head bytes.Buffer
	enc  *hpack.Encoder
	next uint32 // number of the next stream

	mu      sync.Mutex // guards what follows, and what is in streams
	changed *sync.Cond // any of it
	streams map[uint32]*stream
	window  int64 // what may be sent
	initial int64 // what may be sent in a new stream
	offered bool  // the server takes extended CONNECT
	err     error // the connection's end
}

// stream is a WebSocket in HTTP/2.
type stream struct {
	m      *mux
	id     uint32
	status string       // of the answer, once there is one
	unread bytes.Buffer // at most streamWindow
	taken  int          // what was read since the server was told
	window int64        // what may be sent
	ended  bool         // the server's direction
	over   bool         // ours
	closed bool
	err    error
}

// newMux makes a client of a new connection, which ends at a time.
func newMux(dial dialer, until time.Time) (*mux, error) {
	nc, err := dial()
	if err != nil {
		return nil, err
	}
	nc.SetDeadline(until)
	m := &mux{nc: nc, w: bufio.NewWriterSize(nc, 32<<10), next: 1, streams: make(map[uint32]*stream), window: 65535, initial: 65535}
	m.changed = sync.NewCond(&m.mu)
	m.out = http2.NewFramer(m.w, nil)
	m.enc = hpack.NewEncoder(&m.head)
	err = m.write(func() error {
		_, err := m.w.WriteString(http2.ClientPreface)
		return errors.Join(err,
			m.out.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow}),
			m.out.WriteWindowUpdate(0, connWindow))
	})
	if err != nil {
		nc.Close()
		return nil, err
	}
	go m.read()
	m.mu.Lock()
	defer m.mu.Unlock()
	for !m.offered && m.err == nil {
		m.changed.Wait()
	}
	return m, m.err
}

// write has frames written and sent.
func (m *mux) write(frames func() error) error {
	m.wmu.Lock()
	defer m.wmu.Unlock()
	if err := frames(); err != nil {
		return err
	}
	return m.w.Flush()
}

// close ends the connection and whatever is in it.
func (m *mux) close() { m.nc.Close() }

// read takes frames until the connection ends.
func (m *mux) read() {
	in := http2.NewFramer(nil, bufio.NewReaderSize(m.nc, 32<<10))
	in.SetReuseFrames()
	in.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	var err error
	for err == nil {
		var f http2.Frame
		if f, err = in.ReadFrame(); err == nil {
			err = m.take(f)
		}
	}
	m.nc.Close()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.err = fmt.Errorf("HTTP/2: %w", err)
	m.changed.Broadcast()
}

// take does what a frame says. It never waits for the connection to take something.
func (m *mux) take(f http2.Frame) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.changed.Broadcast()
	s := m.streams[f.Header().StreamID] // a stream that we closed is not there
	switch f := f.(type) {
	case *http2.SettingsFrame:
		return m.settings(f)
	case *http2.PingFrame:
		if data := f.Data; !f.IsAck() {
			go m.write(func() error { return m.out.WritePing(true, data) })
		}
	case *http2.WindowUpdateFrame:
		switch {
		case f.StreamID == 0:
			m.window += int64(f.Increment)
		case s != nil:
			s.window += int64(f.Increment)
		}
	case *http2.MetaHeadersFrame:
		if s == nil {
			break
		}
		s.status, s.ended = f.PseudoValue("status"), f.StreamEnded()
	case *http2.DataFrame:
		if s == nil {
			break
		}
		if s.unread.Len()+s.taken+len(f.Data()) > streamWindow || s.ended {
			return fmt.Errorf("%d bytes too many in stream %d", len(f.Data()), s.id)
		}
		s.unread.Write(f.Data())
		s.ended = f.StreamEnded()
	case *http2.RSTStreamFrame:
		if s != nil {
			s.err = fmt.Errorf("stream %d is reset: %v", s.id, f.ErrCode)
		}
	case *http2.GoAwayFrame:
		return fmt.Errorf("GOAWAY %v %s", f.ErrCode, f.DebugData())
	}
	return nil
}

func (m *mux) settings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
		for _, s := range m.streams {
			s.window += int64(v) - m.initial
		}
		m.initial = int64(v)
	}
	v, _ := f.Value(http2.SettingEnableConnectProtocol)
	if m.offered = m.offered || v == 1; !m.offered {
		return errors.New("SETTINGS without SETTINGS_ENABLE_CONNECT_PROTOCOL")
	}
	go m.write(m.out.WriteSettingsAck)
	return nil
}

// open opens a WebSocket.
func (m *mux) open(path string) (socket, *bufio.Reader, error) {
	s := &stream{m: m}
	err := m.write(func() error {
		m.head.Reset()
		for _, f := range [][2]string{
			{":method", "CONNECT"}, {":protocol", "websocket"}, {":scheme", "https"}, {":authority", host}, {":path", path},
			{"sec-websocket-version", "13"},
		} {
			m.enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
		}
		m.mu.Lock()
		s.id, s.window = m.next, m.initial
		m.streams[s.id] = s
		m.mu.Unlock()
		m.next += 2
		return m.out.WriteHeaders(http2.HeadersFrameParam{StreamID: s.id, BlockFragment: m.head.Bytes(), EndHeaders: true})
	})
	if err == nil {
		m.mu.Lock()
		err = s.await(func() bool { return s.status != "" })
		if err == nil && s.status != "200" {
			err = fmt.Errorf("status %s, want 200", s.status)
		}
		m.mu.Unlock()
	}
	if err != nil {
		s.Close()
		return nil, nil, fmt.Errorf("answer: %w", err)
	}
	return s, bufio.NewReaderSize(s, 16<<10), nil
}

// await waits for a condition of the stream. The lock is held.
func (s *stream) await(done func() bool) error {
	for s.closed || !done() {
		switch {
		case s.closed:
			return net.ErrClosed
		case s.err != nil:
			return s.err
		case s.m.err != nil:
			return s.m.err
		}
		s.m.changed.Wait()
	}
	return nil
}

func (s *stream) Read(b []byte) (int, error) {
	s.m.mu.Lock()
	err := s.await(func() bool { return s.unread.Len() > 0 || s.ended })
	if err != nil {
		s.m.mu.Unlock()
		return 0, err
	}
	if s.unread.Len() == 0 {
		s.m.mu.Unlock()
		return 0, io.EOF
	}
	n, _ := s.unread.Read(b)
	s.taken += n
	give := 0
	if s.taken >= streamWindow/2 && !s.ended {
		give, s.taken = s.taken, 0
	}
	s.m.mu.Unlock()
	if give > 0 {
		err = s.m.write(func() error {
			return errors.Join(s.m.out.WriteWindowUpdate(0, uint32(give)), s.m.out.WriteWindowUpdate(s.id, uint32(give)))
		})
	}
	return n, err
}

func (s *stream) Write(b []byte) (n int, err error) {
	for n < len(b) {
		s.m.mu.Lock()
		err := s.await(func() bool { return s.window > 0 && s.m.window > 0 })
		if err != nil {
			s.m.mu.Unlock()
			return n, err
		}
		part := b[n:][:min(int64(len(b)-n), 16<<10, s.window, s.m.window)]
		s.window -= int64(len(part))
		s.m.window -= int64(len(part))
		s.m.mu.Unlock()
		if err := s.m.write(func() error { return s.m.out.WriteData(s.id, false, part) }); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// CloseWrite ends the client's direction.
func (s *stream) CloseWrite() error {
	s.m.mu.Lock()
	s.over = true
	s.m.mu.Unlock()
	return s.m.write(func() error { return s.m.out.WriteData(s.id, true, nil) })
}

// Close gives the stream up, where it has not ended.
func (s *stream) Close() error {
	s.m.mu.Lock()
	lost := !s.closed && !(s.ended && s.over) && s.err == nil && s.m.err == nil
	s.closed = true
	delete(s.m.streams, s.id)
	s.m.changed.Broadcast()
	s.m.mu.Unlock()
	if !lost {
		return nil
	}
	return s.m.write(func() error { return s.m.out.WriteRSTStream(s.id, http2.ErrCodeCancel) })
}
