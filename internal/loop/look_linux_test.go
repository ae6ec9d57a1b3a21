package loop

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A connection that the other end closes in the middle of a long round is found
// stale, so that a request that must not be repeated can go elsewhere.
func TestAskStaleInLongRound(t *testing.T) {
	for _, k := range kinds {
		if k.driver != Driver(fibers) {
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			for _, c := range []struct {
				name  string
				cause func(p *pair)
			}{
				{"closed", func(p *pair) { p.tcp().Close() }},
				{"reset", func(p *pair) { abort(p.peer) }},
				{"closed in order", func(p *pair) { p.peer.Close() }},
			} {
				t.Run(c.name, func(t *testing.T) {
					p := k.new(t)
					p.do(func() {
						if !p.c.Quiet() {
							t.Error("a new connection is not quiet")
						}
						fd := 0
						switch c := p.c.(type) {
						case *fiberConn:
							fd = c.fd
						case *fiberTLS:
							fd = c.c.fd
						}
						// From here on, the loop sees nothing by itself.
						c.cause(p)
						begun := Now()
						for state := uint8(0); state != tcpClosed && state != tcpCloseWait || Now().Sub(begun) < 2*lookAfter; {
							info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
							if err != nil || Now().Sub(begun) > patience {
								t.Fatalf("the end does not come: state %d, %v", state, err)
							}
							state = info.State
						}
						if _, err := p.c.Ask([]byte("question")); err != ErrStale {
							t.Errorf("Ask() = %v, want ErrStale", err)
						}
					})
				})
			}
		})
	}
}

// Within lookAfter a loop relies on what it knows.
func TestLook(t *testing.T) {
	e, err := NewLoopEngine(Options{Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	l := e.Drivers()[0].(*eventLoop)
	onTask(l, func() {
		l.looked = Now().Add(time.Minute)
		before := l.looked
		if !l.look() || l.looked != before {
			t.Error("it has looked, although that was not needed")
		}
		l.looked = 1
		now := Now()
		if !l.look() || l.looked < now {
			t.Error("it has not looked, although that was needed")
		}
		l.events = l.events[:1] // the wake-up alone fills it
		defer func() { l.events = l.events[:cap(l.events)] }()
		one := []byte{1, 0, 0, 0, 0, 0, 0, 0}
		if _, err := unix.Write(l.wakeup, one); err != nil {
			t.Fatal(err)
		}
		l.looked = 1
		if l.look() || l.looked != 1 {
			t.Error("it takes a part of the events for all of them")
		}
		if !l.look() || l.looked < now {
			t.Error("the second look does not find the rest")
		}
	})
}
