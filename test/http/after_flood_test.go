package http_test

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"fairlead/test/lab"
)

// Who comes again after a flood waits, and is refused beyond a second's worth; other
// clients, and connections that it has, go on as before.
func TestConnectionsAfterFlood(t *testing.T) {
	t.Parallel()
	n := startAttacked(t, "limits: {connections_after_flood: 1}")
	dial := func(ip string) (net.Conn, error) {
		d := net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
		nc, err := d.Dial("tcp", n.Addr("plain"))
		if err == nil {
			t.Cleanup(func() { nc.Close() })
			nc.SetDeadline(time.Now().Add(20 * time.Second))
		}
		return nc, err
	}
	from := func(ip string) net.Conn {
		t.Helper()
		nc, err := dial(ip)
		if err != nil {
			t.Fatal(err)
		}
		return nc
	}
	ask := func(nc net.Conn) error {
		if _, err := io.WriteString(nc, get("/", "")); err != nil {
			return err
		}
		_, err := io.ReadFull(nc, make([]byte, len("HTTP/1.1 200 OK")))
		return err
	}
	const flooder, other = "127.0.0.2", "127.0.0.3"
	limited := func() float64 {
		return n.Metric("fairlead_http_limited_total", "listener", "plain", "limit", "connections_after_flood")
	}
	kept := from(flooder)
	equal(t, "before the flood", ask(kept), nil)

	nc := from(flooder)
	a := attack(nc, false)
	for !a.over() {
		a.WritePing(false, [8]byte{})
	}
	equal(t, "end of the flood", a.code, http2.ErrCodeEnhanceYourCalm)
	lab.Await(t, "the flood to be known", func() bool {
		return n.Metric("fairlead_http_flooding_clients", "listener", "plain") == 1
	})

	var again []net.Conn
	served, refused := 0, 0
	for range 20 {
		switch nc, err := dial(flooder); {
		case err == nil:
			again = append(again, nc)
		case errors.Is(err, syscall.ECONNRESET): // as soon as that
			refused++
		default:
			t.Fatal(err)
		}
	}
	lab.Await(t, "some to be held up", func() bool { return limited() > 0 })
	equal(t, "a connection that it has", ask(kept), nil)
	equal(t, "another client", ask(from(other)), nil)
	for _, nc := range again { // in whatever order the node came upon them
		switch err := ask(nc); {
		case err == nil:
			served++
		case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
			refused++
		default:
			t.Error(err)
		}
	}
	// Two at once, and one after a wait; a machine that stands still sees more served.
	if served < 3 || refused == 0 {
		t.Errorf("%d connections are served and %d refused, want 3 or a few more, and the rest", served, refused)
	}
	if n := limited(); n <= float64(refused) {
		t.Errorf("%v were held up, want more than the %d that were refused", n, refused)
	}
	equal(t, "other listeners", n.Metric("fairlead_http_flooding_clients", "listener", "secure"), 0)
}
