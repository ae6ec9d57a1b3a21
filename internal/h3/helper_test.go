package h3

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"

	"fairlead/internal/loop"
)

// certificate is for localhost, and of no authority.
var certificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"a.test"}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
})

// rig is a server with an owner who answers as the test says.
type rig struct {
	t      *testing.T
	cfg    Config
	socket *Socket
	server *Server
	answer func(*Stream) // of requests

	mu     sync.Mutex
	admit  func(from netip.AddrPort, proven bool) bool // nil for all
	events [Events]int
	conns  []*Conn
	ended  int
	errs   []error
}

// newRig starts a server whose bounds are those of small tests, changed by change.
func newRig(t *testing.T, change func(*Config), answer func(*Stream)) *rig {
	t.Helper()
	r := &rig{t: t, answer: answer, cfg: Config{
		MaxStreams: 10, HeaderBytes: 4 << 10, HeaderCount: 64,
		HeaderTimeout: 10 * time.Second, IdleTimeout: 30 * time.Second, WriteTimeout: 10 * time.Second, SilentTimeout: 30 * time.Second,
	}}
	if change != nil {
		change(&r.cfg)
	}
	var err error
	if r.socket, err = Open(netip.MustParseAddrPort("127.0.0.1:0")); err != nil {
		t.Fatal(err)
	}
	r.serve()
	t.Cleanup(func() {
		r.server.Abort()
		r.within("the server is done", r.server.Done())
		r.socket.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.ended != len(r.errs) {
			t.Errorf("%d connections have ended, of which %d told", len(r.errs), r.ended)
		}
	})
	return r
}

// serve makes the socket's next server.
func (r *rig) serve() {
	r.t.Helper()
	var err error
	if r.server, err = r.socket.Serve(loop.NewGoroutines(), r); err != nil {
		r.t.Fatal(err)
	}
	r.server.Start()
}

func (r *rig) Config() *Config { return &r.cfg }
func (r *rig) TLS() *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{certificate()}, MinVersion: tls.VersionTLS13, NextProtos: []string{"h3"}}
}

func (r *rig) Count(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events[e]++
}

func (r *rig) count(e Event) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events[e]
}

// admits says who is let in from now on.
func (r *rig) admits(f func(netip.AddrPort, bool) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.admit = f
}

func (r *rig) Admit(from netip.AddrPort, proven bool) Peer {
	r.mu.Lock()
	admit := r.admit
	r.mu.Unlock()
	if admit != nil && !admit(from, proven) {
		return nil
	}
	return &rigPeer{r}
}

type rigPeer struct{ r *rig }

func (p *rigPeer) Begin(c *Conn) bool {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.r.conns = append(p.r.conns, c)
	return true
}

func (p *rigPeer) Serve(s *Stream) {
	if p.r.answer != nil {
		p.r.answer(s)
		return
	}
	s.Respond(204, nil, true)
}

func (p *rigPeer) End(err error) {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.r.ended++
	p.r.errs = append(p.r.errs, err)
}

// patience bounds waits. QUIC takes nobody for vanished before three times its own
// time-out for packets, which grows with what a busy machine takes to answer.
const patience = time.Minute

// within waits for something, but not for ever.
func (r *rig) within(what string, done <-chan struct{}) {
	r.t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		r.t.Fatalf("waited too long until %s", what)
	}
}

// until waits for a condition.
func until(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited too long until %s", what)
		}
	}
}

// client is a connection of QUIC to which bytes of HTTP/3 are written by hand.
type client struct {
	*quic.Conn
	t *testing.T
	r *rig
}

func (r *rig) dial() *client {
	r.t.Helper()
	c, err := r.tryDial(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *rig) tryDial(config *quic.Config) (*client, error) {
	r.t.Helper()
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		r.t.Fatal(err)
	}
	tr := &quic.Transport{Conn: udp}
	r.t.Cleanup(func() {
		tr.Close()
		udp.Close()
	})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c, err := tr.Dial(ctx, net.UDPAddrFromAddrPort(r.socket.Addr()), clientTLS(), config)
	if err != nil {
		return nil, err
	}
	r.t.Cleanup(func() { c.CloseWithError(quic.ApplicationErrorCode(codeNo), "") })
	return &client{c, r.t, r}, nil
}

func clientTLS() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}, ServerName: "a.test"}
}

// uni opens a unidirectional stream and writes to it.
func (c *client) uni(b ...byte) *quic.SendStream {
	c.t.Helper()
	s, err := c.OpenUniStreamSync(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	s.Write(b)
	return s
}

// request opens a stream, and writes pieces to it; the end follows at once if end
// is set.
func (c *client) request(end bool, pieces ...[]byte) *quic.Stream {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	s, err := c.OpenStreamSync(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	s.Write(bytes.Join(pieces, nil))
	if end {
		s.Close()
	}
	return s
}

// closed waits for the end of the connection, and returns the code that the server
// gave.
func (c *client) closed() code {
	c.t.Helper()
	c.r.within("the connection is closed", c.Context().Done())
	var a *quic.ApplicationError
	err := context.Cause(c.Context())
	if !errors.As(err, &a) || !a.Remote {
		c.t.Fatalf("connection ended with %v", err)
	}
	return code(a.ErrorCode)
}

// reset waits for the end of a stream's answer and returns the code that the server
// has reset it with; 0 where it has not.
func reset(t *testing.T, s *quic.Stream) code {
	t.Helper()
	s.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, err := io.ReadAll(s)
	var e *quic.StreamError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e) && e.Remote:
		return code(e.ErrorCode)
	}
	t.Fatalf("answer ended with %v", err)
	return 0
}

// frame is a frame of HTTP/3.
func frame(t uint64, payload []byte) []byte {
	return append(appendFrame(nil, t, len(payload)), payload...)
}

// block packs fields, which are pairs.
func block(list ...string) []byte {
	var b bytes.Buffer
	e := qpack.NewEncoder(&b)
	for i := 0; i < len(list); i += 2 {
		e.WriteField(qpack.HeaderField{Name: list[i], Value: list[i+1]})
	}
	return b.Bytes()
}

// head is the HEADERS frame of a request.
func head(method string, more ...string) []byte {
	return frame(frameHeaders, block(append([]string{":method", method, ":scheme", "https", ":authority", "a.test", ":path", "/"}, more...)...))
}

func data(b string) []byte { return frame(frameData, []byte(b)) }

func varint(n uint64) []byte { return quicvarint.Append(nil, n) }

// response is an answer as it was read.
type response struct {
	heads   []map[string]string
	body    string
	trailer map[string]string
}

// read reads an answer to its end.
func read(t *testing.T, s *quic.Stream) response {
	t.Helper()
	s.SetReadDeadline(time.Now().Add(20 * time.Second))
	b, err := io.ReadAll(s)
	if err != nil {
		t.Fatalf("answer: %v after %q", err, b)
	}
	var r response
	begun := false
	for len(b) > 0 {
		kind, i, err := quicvarint.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		n, j, err := quicvarint.Parse(b[i:])
		if err != nil || uint64(len(b)-i-j) < n {
			t.Fatalf("answer ends within a frame: %q", b)
		}
		payload := b[i+j : i+j+int(n)]
		b = b[i+j+int(n):]
		switch kind {
		case frameData:
			begun = true
			r.body += string(payload)
		case frameHeaders:
			m := make(map[string]string)
			for next := decoder.Decode(payload); ; {
				f, err := next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				m[f.Name] = f.Value
			}
			if _, ok := m[":status"]; ok && !begun {
				r.heads = append(r.heads, m)
			} else {
				r.trailer = m
			}
		default:
			t.Fatalf("frame of type %#x in an answer", kind)
		}
	}
	return r
}
