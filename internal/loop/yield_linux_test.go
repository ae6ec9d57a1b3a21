package loop

import (
	"crypto/tls"
	"slices"
	"testing"
	"time"
)

// rounds counts the rounds of a loop in which something is to be done, until the
// function that it returns is called.
func rounds(l *eventLoop, n *int) (end func()) {
	over := false
	l.Start(func() {
		for !over {
			*n++
			l.Sleep(0)
		}
	})
	return func() { over = true }
}

// Of many tasks that yield, one goes on in a round beside few others, and more
// beside many, in the order in which they came.
func TestYieldersTakeTurns(t *testing.T) {
	for _, c := range []struct{ others, want int }{{0, 1}, {6 * othersPer, 7}} {
		l := oneLoop(t)
		inTask(l, func() {
			round := 0
			end := rounds(l, &round)
			stop := false
			for range c.others {
				l.Start(func() {
					for !stop {
						l.Sleep(0)
					}
				})
			}
			l.Sleep(0)
			l.Sleep(0) // all of them are at it
			var order, when []int
			var tasks []Task
			for i := range 60 {
				tasks = append(tasks, l.Spawn(func() {
					l.Yield()
					order, when = append(order, i), append(when, round)
				}))
			}
			for _, task := range tasks {
				task.Wait()
			}
			stop = true
			end()
			if !slices.IsSorted(order) {
				t.Errorf("they went on in the order %v", order)
			}
			// The first counts all that came before it. The last may have few.
			went := count(when)
			for i, n := range went[1 : len(went)-1] {
				if n != c.want {
					t.Errorf("in round %d %d went on beside %d others, want %d", i+1, n, c.others, c.want)
				}
			}
		})
	}
}

// count counts how often each value comes up in a row.
func count(list []int) (counts []int) {
	for i := 0; i < len(list); {
		n := 1
		for i+n < len(list) && list[i+n] == list[i] {
			n++
		}
		counts = append(counts, n)
		i += n
	}
	return counts
}

// Handshakes whose clients have all spoken go on one by one, with rounds for
// others between them; those that are cut, or whose time is over, cost none.
func TestHandshakesTakeTurns(t *testing.T) {
	const clients, cut, late = 24, 3, 5
	l := oneLoop(t)
	hello := clientHello(t)
	var conns []*fiberConn
	for range clients {
		server, client := sockets(t)
		defer client.Close()
		if _, err := client.Write(hello); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, l.adopt(t, server))
	}
	inTask(l, func() {
		for _, c := range conns {
			for !c.in.ready {
				l.Sleep(time.Millisecond)
			}
		}
		round := 0
		end := rounds(l, &round)
		began := make(map[int]int) // how many handshakes in a round
		config := &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			began[round]++
			return nil, errCause
		}}
		var tasks []Task
		for i, c := range conns {
			deadline := Now().Add(patience)
			tasks = append(tasks, l.Spawn(func() {
				if i == late {
					deadline = l.now + 1
				}
				_, _, err := l.Secure(c, AsServer, config, deadline)
				switch {
				case i == cut && !isClosed(err), i == late && err != ErrTimeout, i != cut && i != late && err != errCause:
					t.Errorf("handshake %d ended with %v", i, err)
				}
				c.Close()
			}))
		}
		l.Sleep(0)
		conns[cut].Abort()
		for _, task := range tasks {
			task.Wait()
		}
		end()
		total := 0
		for r, n := range began {
			total += n
			if n > 1+clients/othersPer {
				t.Errorf("%d handshakes began in round %d", n, r)
			}
		}
		if total != clients-2 {
			t.Errorf("%d handshakes began, want %d", total, clients-2)
		}
	})
}

// oneLoop returns the loop of an engine that has no other.
func oneLoop(t *testing.T) *eventLoop {
	e, err := NewLoopEngine(Options{Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e.(*loopEngine).loops[0]
}

// inTask runs f as a task and waits for its end.
func inTask(l *eventLoop, f func()) {
	done := make(chan struct{})
	l.Go(func() {
		defer close(done)
		f()
	})
	<-done
}
