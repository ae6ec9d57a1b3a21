package h3

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"
)

// silent is a client that begins handshakes and hears nothing of what is answered.
type silent struct {
	t  *testing.T
	to net.Addr
}

// begin begins a handshake from a new address.
func (s silent) begin() {
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		s.t.Error(err)
		return
	}
	defer udp.Close()
	tr := &quic.Transport{Conn: mute{udp}}
	defer tr.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), 500*time.Millisecond)
	defer cancel()
	tr.Dial(ctx, s.to, clientTLS(), nil)
}

// mute is a socket on which nothing is heard.
type mute struct{ net.PacketConn }

func (m mute) ReadFrom(b []byte) (int, net.Addr, error) {
	for {
		if n, a, err := m.PacketConn.ReadFrom(b); err != nil {
			return n, a, err
		}
	}
}

// While many handshakes of addresses that nobody has proved are open, newcomers
// have to prove theirs: they get in all the same, one round trip later.
func TestRetry(t *testing.T) {
	r := newRig(t, nil, nil)
	var proven []bool
	r.admits(func(_ netip.AddrPort, p bool) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		proven = append(proven, p)
		return true
	})
	r.dial()
	r.server.mu.Lock()
	r.server.unproven += unprovenBound
	r.server.mu.Unlock()
	c := r.dial()
	if res := read(t, c.request(true, head("GET"))); res.heads[0][":status"] != "204" {
		t.Errorf("answer %v", res.heads)
	}
	r.server.mu.Lock()
	r.server.unproven -= unprovenBound
	r.server.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(proven) != 2 || proven[0] || !proven[1] {
		t.Errorf("addresses were proven: %v, want [false true]", proven)
	}
	if r.events[EventRetry] == 0 {
		t.Error("not counted")
	}
}

// Handshakes that do not go on are counted while they are there, and end in time.
func TestHalfOpen(t *testing.T) {
	r := newRig(t, func(c *Config) { c.HeaderTimeout = 3 * time.Second }, nil)
	const clients = 5
	s := silent{t, net.UDPAddrFromAddrPort(r.socket.Addr())}
	for range clients {
		go s.begin()
	}
	until(t, "all are there", func() bool { return r.server.state().peers >= clients })
	if s := r.server.state(); s.handshaking != s.peers || s.unproven != s.peers {
		t.Errorf("of %d clients %d are in their handshake, %d unproven", s.peers, s.handshaking, s.unproven)
	}
	until(t, "all have gone", func() bool { return r.server.state().peers == 0 })
	if s := r.server.state(); s.handshaking != 0 || s.unproven != 0 {
		t.Errorf("%d are in their handshake, %d unproven", s.handshaking, s.unproven)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, err := range r.errs {
		if !IsTimeout(err) {
			t.Errorf("handshake ended with %v", err)
		}
	}
	if len(r.conns) != 0 {
		t.Errorf("%d connections", len(r.conns))
	}
}

type state struct{ peers, handshaking, unproven int }

func (v *Server) state() state {
	v.mu.Lock()
	defer v.mu.Unlock()
	return state{v.peers, v.handshaking, v.unproven}
}

// What is not QUIC, or no first packet of anything, leaves no trace.
func TestGarbage(t *testing.T) {
	r := newRig(t, nil, nil)
	nc, err := net.Dial("udp", r.socket.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	b := make([]byte, 1300)
	for i := range 2000 {
		rand.Read(b)
		switch i % 4 {
		case 1: // a first packet of QUIC 1 by its looks
			b[0] = 0xc0 | b[0]&0x0f
			copy(b[1:], "\x00\x00\x00\x01\x08")
			b[14], b[15] = 0, 0
		case 2: // of another version
			b[0] |= 0xc0
			copy(b[1:], "\x1a\x2a\x3a\x4a\x08")
			b[14] = 0
		case 3: // of a connection
			b[0] = 0x40 | b[0]&0x3f
		}
		nc.Write(b[:20+i%1200])
	}
	c := r.dial()
	if res := read(t, c.request(true, head("GET"))); res.heads[0][":status"] != "204" {
		t.Errorf("answer %v", res.heads)
	}
	until(t, "nothing is left of it", func() bool { return r.server.state().handshaking == 0 })
}

// A client that opens more requests than it may loses the connection, and one that
// keeps to the bound may use all of it again and again.
func TestStreamLimit(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, func(c *Config) { c.MaxStreams = 3 }, func(s *Stream) {
		<-release
		s.Respond(204, nil, true)
	})
	c := r.dial()
	var open []*quic.Stream
	for range 3 {
		open = append(open, c.request(true, head("GET")))
	}
	if _, err := c.OpenStream(); err == nil {
		t.Error("a fourth request is let in")
	}
	// Requests that the client has reset count as long as they are served.
	open[0].CancelRead(quic.StreamErrorCode(codeRequestCancelled))
	time.Sleep(50 * time.Millisecond)
	if _, err := c.OpenStream(); err == nil {
		t.Error("a fourth request is let in when one was reset")
	}
	close(release)
	for _, s := range open[1:] {
		read(t, s)
	}
	for range 20 {
		if res := read(t, c.request(true, head("GET"))); res.heads[0][":status"] != "204" {
			t.Fatalf("answer %v", res.heads)
		}
	}
}

// Floods end the connection, and are told apart.
func TestFloods(t *testing.T) {
	settings := append([]byte{streamControl}, frame(frameSettings, nil)...)
	for _, test := range []struct {
		name  string
		event Event
		flood func(c *client) error
	}{
		{"requests that are reset", EventRapidReset, func(c *client) error {
			s, err := c.OpenStreamSync(c.t.Context())
			if err != nil {
				return err
			}
			s.Write(head("GET"))
			s.CancelRead(quic.StreamErrorCode(codeRequestCancelled))
			s.CancelWrite(quic.StreamErrorCode(codeRequestCancelled))
			return nil
		}},
		{"malformed requests", EventRapidReset, func(c *client) error {
			s, err := c.OpenStreamSync(c.t.Context())
			if err != nil {
				return err
			}
			s.Write(head("GET", "X", "y"))
			s.Close() // it may have been reset
			return nil
		}},
		{"empty data", EventFrameFlood, func(c *client) error {
			s, err := c.OpenStreamSync(c.t.Context())
			for err == nil {
				_, err = s.Write(append(head("POST"), make([]byte, 2000)...))
				for err == nil {
					_, err = s.Write(make([]byte, 2000)) // DATA of length 0 each
				}
			}
			return err
		}},
		{"frames on the control stream", EventFrameFlood, func(c *client) error {
			s, err := c.OpenUniStream()
			if err == nil {
				_, err = s.Write(settings)
			}
			for err == nil {
				_, err = s.Write(frame(framePriority, []byte("\x00u=1")))
			}
			return err
		}},
		{"instructions", EventFrameFlood, func(c *client) error {
			s, err := c.OpenUniStream()
			if err == nil {
				_, err = s.Write([]byte{streamEncoder})
			}
			for err == nil {
				_, err = s.Write([]byte{0x20, 0x20, 0x20, 0x20})
			}
			return err
		}},
		{"unknown streams", EventStreamFlood, func(c *client) error {
			s, err := c.OpenUniStreamSync(c.t.Context())
			if err != nil {
				return err
			}
			s.Write([]byte{0x21})
			s.Close() // it may have been reset
			return nil
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil, func(s *Stream) {
				for {
					if _, err := s.Read(); err != nil {
						break
					}
				}
				s.Respond(204, nil, true)
			})
			c := r.dial()
			for n := 0; ; n++ {
				if test.flood(c) != nil {
					break
				}
				if n > 100_000 {
					t.Fatal("no end of it")
				}
			}
			if got := c.closed(); got != codeExcessiveLoad {
				t.Errorf("closed with %#x", got)
			}
			until(t, "it is counted", func() bool { return r.count(test.event) == 1 })
		})
	}
}

// A connection without requests ends in order, as does one from which nothing
// comes at all; one whose request takes long does not end.
func TestTimeouts(t *testing.T) {
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(c *Config) { c.IdleTimeout = 200 * time.Millisecond }, func(s *Stream) {
			time.Sleep(500 * time.Millisecond)
			s.Respond(204, nil, true)
		})
		c := r.dial()
		if res := read(t, c.request(true, head("GET"))); res.heads[0][":status"] != "204" {
			t.Errorf("answer %v", res.heads)
		}
		if got := c.closed(); got != codeNo {
			t.Errorf("closed with %#x", got)
		}
		if n := r.count(EventIdleTimeout); n != 1 {
			t.Errorf("counted %d times", n)
		}
	})
	t.Run("vanished", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, func(c *Config) { c.SilentTimeout = 500 * time.Millisecond }, func(s *Stream) {
			for s.Alive() {
				time.Sleep(time.Millisecond)
			}
		})
		udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		tr := &quic.Transport{Conn: udp}
		defer tr.Close()
		q, err := tr.Dial(t.Context(), net.UDPAddrFromAddrPort(r.socket.Addr()), clientTLS(), nil)
		if err != nil {
			t.Fatal(err)
		}
		c := &client{q, t, r}
		c.request(true, head("GET"))
		until(t, "it is served", func() bool { return r.server.Open() == 1 })
		time.Sleep(time.Second) // it answers when it is asked whether it is there
		if r.server.Open() != 1 {
			t.Fatal("a client that waits for its answer is taken for vanished")
		}
		udp.Close()
		until(t, "it is missed", func() bool { return r.count(EventVanished) == 1 })
	})
}

// goAways reads what the server says on its control stream.
func goAways(t *testing.T, c *client, got chan<- uint64) {
	s, err := c.AcceptUniStream(t.Context())
	if err != nil {
		return
	}
	r := quicvarint.NewReader(s)
	quicvarint.Read(r) // the stream's type
	for {
		kind, err := quicvarint.Read(r)
		if err != nil {
			close(got)
			return
		}
		n, _ := quicvarint.Read(r)
		b := make([]byte, n)
		io.ReadFull(r, b)
		if kind == frameGoAway {
			id, _, _ := quicvarint.Parse(b)
			got <- id
		}
	}
}

// A drain tells clients twice to go: at first without a bound, so that nothing is
// lost that is on its way, then with one. What comes behind is told to be safe to
// send again. Requests that are open go on.
func TestDrain(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, nil, func(s *Stream) {
		if string(s.Head().Path) == "/" {
			<-release
		}
		s.Respond(204, nil, true)
	})
	c := r.dial()
	told := make(chan uint64, 10)
	go goAways(t, c, told)
	open := c.request(true, head("GET"))
	until(t, "it is served", func() bool { return r.server.Open() == 1 })
	r.server.Drain(50 * time.Millisecond)
	if id := <-told; id != uint64(lastStream) {
		t.Errorf("first GOAWAY names %d", id)
	}
	if id := <-told; id != 4 && id != 8 {
		t.Errorf("second GOAWAY names %d", id)
	}
	late := c.request(true, head("GET"))
	if got := reset(t, late); got != codeRequestRejected {
		t.Errorf("late request is reset with %#x", got)
	}
	r.within("nothing is accepted any more", r.server.Closed())
	if _, err := r.tryDial(&quic.Config{HandshakeIdleTimeout: 200 * time.Millisecond}); err == nil {
		t.Error("a new connection is accepted")
	}
	select {
	case <-r.server.Done():
		t.Fatal("done while a request is open")
	default:
	}
	close(release)
	if res := read(t, open); res.heads[0][":status"] != "204" {
		t.Errorf("answer %v", res.heads)
	}
	if got := c.closed(); got != codeNo {
		t.Errorf("closed with %#x", got)
	}
	r.within("it is done", r.server.Done())
}

// A client that is connecting when a drain begins gets its answer, though it is not
// quick to ask.
func TestDrainServesNewcomers(t *testing.T) {
	r := newRig(t, nil, nil)
	r.server.Drain(2 * time.Second)
	c := r.dial()
	time.Sleep(200 * time.Millisecond) // thinks
	if res := read(t, c.request(true, head("GET"))); res.heads[0][":status"] != "204" {
		t.Errorf("answer %v", res.heads)
	}
	r.within("it is done", r.server.Done())
}

// The next server of a socket accepts while connections of the one before go on.
func TestSocketOutlivesServer(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, nil, func(s *Stream) {
		<-release
		s.Respond(204, nil, true)
	})
	old := r.dial()
	open := old.request(true, head("GET"))
	before := r.server
	until(t, "it is served", func() bool { return before.Open() == 1 })
	before.Drain(0)
	r.within("the first accepts no more", before.Closed())
	r.serve()
	c := r.dial()
	next := c.request(true, head("GET"))
	until(t, "the next one serves", func() bool { return r.server.Open() == 1 })
	close(release)
	for _, s := range []*quic.Stream{open, next} {
		if res := read(t, s); res.heads[0][":status"] != "204" {
			t.Errorf("answer %v", res.heads)
		}
	}
	if got := old.closed(); got != codeNo {
		t.Errorf("closed with %#x", got)
	}
	r.within("the first is done", before.Done())
	if err := c.Context().Err(); err != nil {
		t.Errorf("connection of the next server: %v", err)
	}
}

func TestAbort(t *testing.T) {
	r := newRig(t, nil, func(s *Stream) {
		for s.Alive() {
			time.Sleep(time.Millisecond)
		}
	})
	c := r.dial()
	c.request(true, head("GET"))
	until(t, "it is served", func() bool { return r.server.Open() == 1 })
	if n := r.server.Abort(); n != 1 {
		t.Errorf("%d connections were aborted", n)
	}
	// Where the word of it is lost, the next packet tells.
	r.within("the client knows", c.Context().Done())
	var closed *quic.ApplicationError
	var reset *quic.StatelessResetError
	switch err := context.Cause(c.Context()); {
	case errors.As(err, &closed) && closed.Remote && code(closed.ErrorCode) == codeInternal, errors.As(err, &reset):
	default:
		t.Errorf("connection ended with %v", err)
	}
	r.within("it is done", r.server.Done())
}

// A server that is never started lets nobody wait for ever.
func TestDiscard(t *testing.T) {
	r := newRig(t, nil, nil)
	r.server.Drain(0)
	r.within("the first is done", r.server.Done())
	v, err := r.socket.Serve(r.server.d, r)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := r.tryDial(&quic.Config{HandshakeIdleTimeout: time.Second})
		got <- err
	}()
	time.Sleep(50 * time.Millisecond)
	v.Drain(0)
	r.within("the discarded one is done", v.Done())
	if err := <-got; err == nil { // it is refused, if quic-go still comes to say so
		t.Error("let in")
	}
}

// Refused connections leave nothing behind.
func TestRefused(t *testing.T) {
	r := newRig(t, nil, nil)
	r.admits(func(netip.AddrPort, bool) bool { return false })
	if _, err := r.tryDial(nil); err == nil {
		t.Error("let in")
	}
	if s := r.server.state(); s != (state{}) {
		t.Errorf("left: %+v", s)
	}
}
