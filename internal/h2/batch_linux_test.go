package h2

import (
	"bytes"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"fairlead/internal/loop"
)

// Of many requests that come at once only some begin in a round of the event
// loop, so that whoever else is on it has a turn in between.
func TestRequestsBeginInBatches(t *testing.T) {
	const requests = 10*freshBatch + 5
	e, err := loop.NewEngine("loop", loop.Options{Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	ln, err := e.Listen(netip.MustParseAddrPort("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close(); <-ln.Closed() })
	var begun, most, rounds int // of the loop
	served := make(chan struct{})
	var over atomic.Bool
	ln.Serve(func(d loop.Driver, c loop.Conn) {
		d.Start(func() {
			defer c.Close()
			NewServer(d, c, &Config{MaxStreams: 1000}, func(s *Stream) {
				begun++
				s.Respond(200, nil, true)
			}).Serve(nil)
			close(served)
		})
		d.Start(func() { // somebody else
			for last := 0; begun < requests && !over.Load(); d.Sleep(0) {
				if n := begun - last; n > 0 {
					most = max(most, n)
					rounds++
				}
				last = begun
			}
		})
	}, func(err error) { t.Error(err) })
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	// All in one piece, as one read may bring it.
	var all bytes.Buffer
	all.WriteString(Preface)
	r := newRaw(t, nc)
	fr := http2.NewFramer(&all, nil)
	fr.WriteSettings()
	for i := range requests {
		fr.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), EndHeaders: true, EndStream: true, BlockFragment: r.get()})
	}
	go r.read()
	if _, err := nc.Write(all.Bytes()); err != nil {
		t.Fatal(err)
	}
	for answers := 0; answers < requests; {
		if f := <-r.got; strings.HasPrefix(f, "HEADERS ") {
			answers++
		}
	}
	over.Store(true)
	nc.Close()
	<-served
	if most > freshBatch || rounds < requests/freshBatch {
		t.Errorf("up to %d requests began in one of %d rounds, want %d", most, rounds, freshBatch)
	}
}
