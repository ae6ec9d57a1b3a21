package http_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"
)

// h3conn is a connection of HTTP/3 whose frames are written by hand.
type h3conn struct {
	*quic.Conn
	t  *testing.T
	tr *quic.Transport
}

// dial3 connects to the site in HTTP/3.
func (s server) dial3(t *testing.T) *h3conn {
	t.Helper()
	c, err := s.tryDial3(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s server) tryDial3(t *testing.T, config *quic.Config) (*h3conn, error) {
	t.Helper()
	udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	tr := &quic.Transport{Conn: udp}
	t.Cleanup(func() {
		tr.Close()
		udp.Close()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := tr.Dial(ctx, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(s.addr)), s.ca.Client(host, "h3"), config)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.CloseWithError(0x100, "") })
	return &h3conn{c, t, tr}, nil
}

// h3frame is a frame with its payload.
func h3frame(kind uint64, payload []byte) []byte {
	b := quicvarint.Append(nil, kind)
	b = quicvarint.Append(b, uint64(len(payload)))
	return append(b, payload...)
}

// h3head is the HEADERS frame of a request for the site; further fields are pairs.
func h3head(method, path string, more ...string) []byte {
	var b bytes.Buffer
	e := qpack.NewEncoder(&b)
	list := append([]string{":method", method, ":scheme", "https", ":authority", host, ":path", path}, more...)
	for i := 0; i < len(list); i += 2 {
		e.WriteField(qpack.HeaderField{Name: list[i], Value: list[i+1]})
	}
	return h3frame(1, b.Bytes())
}

// h3stream is a request of an h3conn.
type h3stream struct {
	*quic.Stream
	t *testing.T
}

// open opens a request and writes to it.
func (c *h3conn) open(b ...[]byte) h3stream {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 20*time.Second)
	defer cancel()
	s, err := c.OpenStreamSync(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	s.Write(bytes.Join(b, nil))
	return h3stream{s, c.t}
}

// ask makes a whole request; further fields are pairs.
func (c *h3conn) ask(path string, more ...string) h3stream {
	c.t.Helper()
	s := c.open(h3head("GET", path, more...))
	s.Close()
	return s
}

// next reads the next frame: fields of HEADERS, or DATA.
func (s h3stream) next() (fields map[string]string, data []byte, err error) {
	s.SetReadDeadline(time.Now().Add(20 * time.Second))
	r := quicvarint.NewReader(s)
	kind, err := quicvarint.Read(r)
	if err != nil {
		return nil, nil, err
	}
	n, err := quicvarint.Read(r)
	if err != nil {
		return nil, nil, err
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(s, b); err != nil {
		return nil, nil, err
	}
	if kind != 1 {
		return nil, b, nil
	}
	fields = make(map[string]string)
	for next := qpack.NewDecoder().Decode(b); ; {
		f, err := next()
		if err == io.EOF {
			return fields, nil, nil
		}
		if err != nil {
			return nil, nil, err
		}
		fields[f.Name] = f.Value
	}
}

// status reads a head and returns its status.
func (s h3stream) status() string {
	s.t.Helper()
	fields, _, err := s.next()
	if err != nil {
		s.t.Fatalf("head: %v", err)
	}
	return fields[":status"]
}

// reset waits for the end of the answer and returns the code that it was reset with,
// 0 where it was not.
func (s h3stream) reset() quic.StreamErrorCode {
	s.t.Helper()
	s.SetReadDeadline(time.Now().Add(20 * time.Second))
	_, err := io.ReadAll(s)
	var e *quic.StreamError
	if errors.As(err, &e) {
		return e.ErrorCode
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return 0
}
